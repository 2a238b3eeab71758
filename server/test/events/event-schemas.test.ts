import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { Ajv } from 'ajv';
import addFormats from 'ajv-formats';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { createUserToken, type Event, ProjectClient, UserClient } from '../../../sdk/src/index.ts';
import { contextOf, EVENT_TYPES, type EventType } from '../../src/contract/event.ts';
import { newId } from '../../src/lib/ids.ts';
import { processed, startTestService, type TestService, until } from '../support/service.ts';

interface Named {
  anyOf?: { $ref: string }[];
  allOf?: { properties?: Record<string, unknown> }[];
}

const path = fileURLToPath(new URL('../../../openapi.json', import.meta.url));
const document = JSON.parse(readFileSync(path, 'utf8')) as {
  components: { schemas: Record<string, Named> };
};
const { schemas } = document.components;
const ajv = new Ajv({ strict: false });
addFormats.default(ajv);
for (const format of ['text', 'locale', 'cursor', 'password']) ajv.addFormat(format, true);
ajv.addSchema({ $id: 'api', ...document });
const fits = (name: string, value: unknown) =>
  ajv.validate({ $ref: `api#/components/schemas/${name}` }, value);
const nameOf = (type: string) =>
  `${type.replaceAll(/(?:^|[._])(\w)/g, (_, letter) => letter.toUpperCase())}Event`;

let service: TestService;
beforeAll(async () => {
  service = await startTestService();
});
afterAll(() => service.stop());

test('an event is one of the events of all types', () => {
  expect(schemas.Event?.anyOf?.map(({ $ref }) => $ref)).toEqual(
    EVENT_TYPES.map((type) => `#/components/schemas/${nameOf(type)}`),
  );
});

/** Makes an event of each family whose context is described. */
async function happen(): Promise<void> {
  const { apiKey, apiSecret, jwt } = service.project;
  const baseUrl = `${service.address}/v2`;
  const project = new ProjectClient({ baseUrl, token: jwt });
  const token = createUserToken({ apiKey, apiSecret, externalId: 'ada' });
  const ada = new UserClient({ baseUrl, token: () => token });

  await project.users.save({ external_id: 'ada', email: 'ada@example.com' });
  await project.users.save({ external_id: 'ada', first_name: 'Ada' });
  await ada.channelTokens.expo.save({ device_token: 'ExponentPushToken[a]' });
  const [device] = (await ada.channelTokens.expo.list()).data;
  await ada.channelTokens.expo.discard(device?.id ?? '');
  await project.integrations.expo.save({ access_token: 'token' });
  await project.integrations.expo.delete({});
  await project.templates.save('hello', { default_locale: 'en', locales: { en: { title: 'Hello' } } });
  await project.templates.delete('hello');
  await project.workflows.save({ key: 'flow', steps: [{ command: 'set', input: { a: 1 } }] });
  await project.workflows.startRun({ key: 'flow', input: {} });
  await project.workflows.startRun({ key: 'flow', input: { user: { external_id: 'ada' } } });
  const { id: suppression } = await project.suppressions.save({ email: 'gone@example.com' });
  await project.suppressions.lift(suppression);
  const { id: webhook } = await project.webhooks.save({ url: 'http://127.0.0.1:9/', disabled: true });
  await project.webhooks.delete(webhook);

  const recipients = [{ external_id: 'ada' }, { external_id: 'created-by-it' }];
  const { id } = await project.broadcasts.create({ title: 'Hello', recipients });
  await processed(service.project.call, id);
  const [first] = (await ada.notifications.list()).data;
  await ada.notifications.read(first?.id ?? '');
  await ada.notifications.archiveAll();
  await project.users.delete(first?.user_id ?? '');
}

test('events are as their type describes them, with the context of its family', async () => {
  await happen();
  const project = new ProjectClient({ baseUrl: `${service.address}/v2`, token: service.project.jwt });
  const events = await until(
    async () => {
      const all: Event[] = [];
      for await (const event of project.events.list({ limit: 100 })) all.push(event);
      return all;
    },
    (all) => all.filter(({ type }) => type === 'workflow.run.completed').length === 2,
  );
  const wrong = events.filter((event) => !(fits(nameOf(event.type), event) && fits('Event', event)));
  expect(wrong).toEqual([]);
  const families = (types: readonly EventType[]) =>
    new Set(types.map((type) => type.slice(0, type.lastIndexOf('.'))));
  const described = families(EVENT_TYPES.filter((type) => contextOf(type) !== undefined));
  expect(described.size).toBeGreaterThan(8);
  const happened = families(events.map(({ type }) => type));
  expect([...described].filter((family) => !happened.has(family))).toEqual([]);
  for (const event of events)
    if (event.type === 'delivery.sent')
      expect(event.context.delivery_id).toBe(`${event.context.notification_id}.${event.context.channel}`);
});

test('an event without the context of its family, or with the payload of another type, does not fit', () => {
  const event = { id: newId(), type: 'delivery.failed', timestamp: new Date().toISOString() };
  expect(fits('Event', event)).toBe(false);
  const context = {
    ...{ broadcast_id: newId(), user_id: newId(), notification_id: newId() },
    ...{ delivery_id: 'a.email', channel: 'email' },
  };
  expect(fits('Event', { ...event, context })).toBe(true);
  expect(fits('Event', { ...event, context: { ...context, channel: 'fax' } })).toBe(false);
  expect(fits('Event', { ...event, context, payload: { accepted: 'one' } })).toBe(false);
  expect(fits('Event', { ...event, type: 'project.saved' })).toBe(true);
});
