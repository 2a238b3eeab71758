import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { namedStatements } from '../../src/db/client.ts';
import { eraseContent } from '../../src/domain/after/erasure/erase-content.ts';
import { GRACE_MS, purgeUsers } from '../../src/domain/after/erasure/purge-users.ts';
import { recordReceipts } from '../../src/domain/after/receipts/record.ts';
import { referenceOf } from '../../src/domain/ground/links/reference.ts';
import { finishBroadcasts } from '../../src/domain/line/ledger/finish.ts';
import { reachEverywhere } from '../support/all-channels.ts';
import {
  processed,
  startTestService,
  type TestProject,
  type TestService,
  until,
} from '../support/service.ts';
import { tableTexts } from '../support/table-texts.ts';
import { startVendors, type Vendors } from '../support/vendors.ts';
import { startWebhookReceiver } from '../support/webhook-receiver.ts';
import { inState, STATE, startRun } from '../support/workflows.ts';

const PUBLIC_URL = 'https://notify.example.com';
const DAY_MS = 24 * 3_600_000;

let service: TestService;
let vendors: Vendors;
let project: TestProject;

beforeAll(async () => {
  vendors = await startVendors();
  service = await startTestService({
    settings: { ...vendors.settings, PUBLIC_URL },
    pollMs: 50,
    logLevel: 'debug',
  });
  project = await service.createProject('erasure');
});
afterAll(async () => {
  await Promise.all([service?.stop(), vendors?.stop()]);
});

const create = async (member: object): Promise<string> => {
  const { status, body } = await project.call('PUT', '/users', member);
  expect([status, body]).toMatchObject([200, { id: expect.any(String) }]);
  return body.id;
};
const send = async (body: object): Promise<string> => {
  const sent = await project.call('POST', '/broadcasts', body);
  expect(sent.status).toBe(201);
  await processed(project.call, sent.body.id);
  return sent.body.id;
};
const get = async (id: string) => (await project.call('GET', `/broadcasts/${id}`)).body;
/** Deletes users, and erases all deleted users, as happens a week later. */
async function erase(...ids: string[]): Promise<void> {
  for (const id of ids) expect((await project.call('DELETE', `/users/${id}`)).status).toBe(204);
  const later = { now: () => Date.now() + GRACE_MS + DAY_MS };
  while (await purgeUsers({ ...service.context, clock: later }));
}

/** A day of quiet hours: those of today would hold the test's own messages back. */
function weekday(ms: number): string {
  return new Date(ms).toLocaleDateString('en', { weekday: 'long', timeZone: 'UTC' }).toLowerCase();
}

const content = (name: string) => ({
  title: `canary-title-${name}`,
  content: `<p>canary-content-${name} <a href="https://shop.example/canary-link-${name}">see</a></p>`,
  action_url: `https://shop.example/canary-action-${name}`,
  custom_attributes: { secret: `canary-attributes-${name}`, long: 'x'.repeat(2_000) },
  category: `canary-category-${name}`,
  topic: `canary-topic-${name}`,
  overrides: { channels: { in_app: { title: `canary-override-${name}` } } },
});
const ERASED = {
  title: '[erased]',
  content: null,
  action_url: null,
  custom_attributes: null,
  category: null,
  topic: null,
  overrides: null,
};

test('nothing personal is in any table after the user was erased', async () => {
  const receiver = await startWebhookReceiver();
  await project.call('PUT', '/webhooks', { url: receiver.url });
  await vendors.setUp(project);
  expect((await project.call('PUT', '/tracking', { opens: true, clicks: true })).status).toBe(200);
  const name = 'canaryada';
  await reachEverywhere(project, vendors, name);
  const email = `${name}@example.com`;
  const phone = '+1 500-555-0199';
  const id = await create({
    external_id: name,
    email,
    first_name: 'canary-first',
    last_name: 'canary-last',
    custom_attributes: { secret: 'canary-attribute', time_zone: 'Antarctica/Troll' },
    phone_numbers: [phone],
  });
  const once = [
    { ...content('one'), recipients: [{ external_id: name, email, first_name: 'canary-first' }] },
    { 'idempotency-key': 'once' },
  ] as const;
  expect((await project.call('GET', `/users/external_id:${name}/preferences`)).status).toBe(200);
  const as = project.as(name);
  const ok = async (method: string, path: string, body?: object) =>
    expect([path, Math.floor((await as(method, path, body)).status / 100)]).toEqual([path, 2]);
  await ok('PUT', '/channels/in_app/inbox/tokens', { token: 'canary-inbox'.padEnd(64, 'x') });
  await ok('POST', '/subscriptions', {
    topic: 'canary-subscribed',
    categories: [{ slug: 'canary-slug', reason: 'canary-reason' }],
  });
  await ok('POST', '/subscriptions', { topic: 'canary-left', categories: [{ slug: '*' }] });
  await ok('DELETE', '/subscriptions/canary-left');
  await ok('PUT', '/channels/user_preferences', {
    categories: [{ key: 'canary-preference', channels: [{ name: 'email', enabled: false }] }],
    time_zone: 'Antarctica/Vostok',
    quiet_hours: { days: [weekday(Date.now() + 3 * DAY_MS)], from: '22:00', to: '07:00' },
  });
  await ok('PUT', '/channels/user_delivery_windows', { time_zone: 'Antarctica/Troll', channels: [] });
  const input = { user: { external_id: name }, note: 'canary-input' };
  const run = await startRun(project, [{ command: 'pause' }], input);
  await inState(project, run, STATE.waiting);
  const first = await project.call('POST', '/broadcasts', ...once);
  const broadcast = first.body.id;
  await processed(project.call, broadcast);
  await until(
    async () => (await project.call('GET', `/broadcasts/${broadcast}/deliveries?limit=100`)).body.data,
    (all) => all.every(({ state }: { state: string }) => state === 'sent' || state === 'failed'),
  );
  await ok('POST', `/notifications/read?category=${content('one').category}&topic=${content('one').topic}`);
  const mail = await vendors.mail.received[0]?.parsed();
  const link = /https:\/\/notify\.example\.com(\/t\/c\/[^"]*)/.exec(mail?.html ?? '')?.[1] ?? '';
  await fetch(`${service.address}${link.replaceAll('&amp;', '&')}`, { redirect: 'manual' });
  await until(
    () => service.rows("select from events where type = 'delivery.clicked'"),
    (found) => found.length > 0,
  );
  const unsubscribe =
    /https:\/\/notify\.example\.com(\/unsubscribe\/[^"]*)/.exec(mail?.html ?? '')?.[1] ?? '';
  expect((await fetch(`${service.address}${unsubscribe}`, { method: 'POST' })).status).toBe(200);
  const [smtp] = await service.rows<{ id: string }>("select id from integrations where provider = 'smtp'");
  await service.context.db.transaction((tx) =>
    recordReceipts(
      { ...service.context, tx },
      { projectId: project.id, integrationId: smtp?.id ?? '', provider: 'smtp', channel: 'email' },
      [
        {
          kind: 'unsubscribed',
          at: new Date(),
          reference: referenceOf({ broadcastId: broadcast, userId: id }),
        },
        {
          kind: 'bounced',
          at: new Date(),
          reference: referenceOf({ broadcastId: broadcast, userId: id }),
          code: '550',
          reason: `550 ${email} is unknown here`,
          suppress: { address: email, reason: 'bounced' },
        },
      ],
    ),
  );
  await project.call('PUT', '/suppressions', { email, note: 'canary-note' });
  await project.call('PUT', '/suppressions', { phone_number: phone, note: 'canary-note' });
  // A vendor rejects the message and names the user.
  vendors.mail.fail({ at: 'rcpt', how: { reply: `550 5.7.1 no canary-first canary-last, no ${name}` } });
  const bob = await create({ external_id: 'bob', email: 'bob@example.com' });
  await service.rows('delete from suppressions where address = $1', [email]);
  await send({ ...content('two'), category: 'canary-two', recipients: [{ external_id: name }] });
  vendors.mail.heal();
  const shared = await send({
    title: 'of both',
    recipients: [{ external_id: name }, { external_id: 'bob' }],
  });

  const canaries = /canary[\w-]*|Antarctica|1?500-?555-?0199/gi;
  const slack = [
    ...(await service.rows<{ id: string }>("select id from installations where provider like 'slack%'")),
  ].map((one) => one.id);
  const before = (await tableTexts(service)).join('\n');
  for (const canary of [
    ...[
      'first',
      'last',
      'attribute',
      'title-one',
      'content-one',
      'action-one',
      'attributes-one',
      'override-one',
    ],
    ...[
      'category-one',
      'topic-one',
      'subscribed',
      'slug',
      'reason',
      'left',
      'preference',
      'link-one',
      'title-two',
      'input',
    ],
  ])
    expect([canary, before.includes(`canary-${canary}`)]).toEqual([canary, true]);
  await erase(id);
  // The replay has what its request has, and brings nothing back.
  const replay = await project.call('POST', '/broadcasts', ...once);
  expect([replay.status, replay.headers.get('idempotency-replayed')]).toEqual([201, 'true']);
  expect(replay.body).toEqual(first.body);
  // It remains known that a user of the project disabled a category, but not which user.
  const left = (await tableTexts(service))
    .filter((text) => !text.startsWith('preference_categories: '))
    .flatMap((text) => (text.match(canaries) ?? []).map((found) => [found, text.slice(0, 400)]));
  expect(left).toEqual([]);
  // Nothing can be erased from logs. A topic in a path names no user.
  expect((await project.call('GET', `/users/email:${email}`)).status).toBe(404);
  const logged = service.logged.map((line) => line.replace('/subscriptions/canary-left', ''));
  expect(logged.length).toBeGreaterThan(30);
  expect(logged.filter((line) => line.match(canaries))).toEqual([]);
  // Workspaces that serve the whole project remain connected. Those of the user alone are deleted.
  const events = await service.rows<{ text: string }>(
    'select details::text as text from events where $1 = any (user_ids)',
    [id],
  );
  for (const workspace of slack) expect(events.filter(({ text }) => text?.includes(workspace))).toEqual([]);
  expect(events.length).toBeGreaterThan(10);
  expect(await get(broadcast)).toMatchObject({ ...ERASED, recipients: [{ external_id: `deleted:${id}` }] });
  expect(await get(shared)).toMatchObject({ title: 'of both' });
  expect((await project.call('GET', '/events?limit=100')).status).toBe(200);
  expect((await project.call('GET', `/users/${bob}`)).status).toBe(200);
  // The number remains suppressed, by a keyed hash.
  expect(
    (await project.call('GET', `/suppressions?query=${encodeURIComponent(phone)}`)).body.data,
  ).toMatchObject([{ kind: 'phone', phone_number: null, note: null }]);
  await receiver.stop();
});

describe('the content of a broadcast', () => {
  const people = (names: string[]) => names.map((external_id) => ({ external_id }));
  const made = async (...names: string[]) => Promise.all(names.map((external_id) => create({ external_id })));

  test('is deleted with the last of its recipients', async () => {
    const [one, two] = (await made('last-1', 'last-2')) as [string, string];
    const id = await send({ ...content('last'), recipients: people(['last-1', 'last-2']) });
    const whole = await get(id);
    await erase(one);
    expect(await get(id)).toMatchObject({
      title: whole.title,
      content: whole.content,
      overrides: whole.overrides,
    });
    await erase(two);
    expect(await get(id)).toMatchObject({ ...ERASED, status: whole.status });
    expect((await project.call('GET', '/broadcasts')).body.data[0]).toMatchObject({ id, ...ERASED });
  });

  test('is also deleted when all recipients are erased at once', async () => {
    const names = Array.from({ length: 30 }, (_, n) => `at-once-${n}`);
    const ids = await made(...names);
    const id = await send({ ...content('at once'.replace(' ', '-')), recipients: people(names) });
    await erase(...ids);
    expect(await get(id)).toMatchObject(ERASED);
  });

  test('is deleted if it reached no user because its only recipient was deleted', async () => {
    const [gone] = (await made('refused')) as [string];
    expect((await project.call('DELETE', `/users/${gone}`)).status).toBe(204);
    const id = await send({ ...content('refused'), recipients: people(['refused']) });
    await erase();
    expect(await get(id)).toMatchObject(ERASED);
  });

  test('remains while a recipient is only deleted, or subscribed to its topic', async () => {
    const [gone, back] = (await made('gone', 'back')) as [string, string];
    await project.as('listener')('POST', '/subscriptions', { topic: 'shared', categories: [{ slug: '*' }] });
    const id = await send({ ...content('deleted'), recipients: people(['gone', 'back']) });
    const topical = await send({
      title: 'topical',
      topic: 'shared',
      recipients: [{ external_id: 'gone' }, { topic: { subscribers: true } }],
    });
    expect((await project.call('DELETE', `/users/${gone}`)).status).toBe(204);
    await service.rows("update users set deleted_at = now() - interval '9 days' where id = $1", [gone]);
    expect((await project.call('DELETE', `/users/${back}`)).status).toBe(204);
    while (await purgeUsers({ ...service.context, clock: { now: Date.now } }));
    expect(await get(id)).toMatchObject({ title: 'canary-title-deleted' });
    expect(await get(topical)).toMatchObject({ title: 'topical' });
  });

  test('remains until its recipients have it', async () => {
    const lock = await service.context.db.connect();
    try {
      await lock.query('begin; lock table user_keys in share mode'); // the fan-out waits for it
      const body = { title: 'on its way', recipients: people(['first', 'second']) };
      const { id } = (await project.call('POST', '/broadcasts', body)).body;
      await eraseContent(service.context.db, [id]);
      const stored = await project.call('GET', `/broadcasts/${id}`);
      expect(stored.body).toMatchObject({ title: 'on its way', status: { status: 'enqueued' } });
    } finally {
      await lock.end();
    }
  });
});

describe('names and content of a broadcast that was not sent', () => {
  const later = () => new Date(Date.now() + DAY_MS).toISOString();
  const plan = async (name: string, recipients: object[]): Promise<string> => {
    const body = { ...content(name), recipients, send_at: later() };
    const { status, body: sent } = await project.call('POST', '/broadcasts', body);
    expect(status).toBe(201);
    return sent.id;
  };
  const cancel = async (id: string): Promise<void> => {
    expect((await project.call('POST', `/broadcasts/${id}/cancel`)).status).toBe(200);
    await processed(project.call, id);
  };
  const person = (name: string) => ({
    external_id: name,
    email: `${name}@example.com`,
    first_name: `canary-first-${name}`,
  });
  const erased = (id: string) => ({ external_id: `deleted:${id}` });

  test('are erased with its last recipient if it was cancelled', async () => {
    const ids = await Promise.all(['stopped-1', 'stopped-2'].map((name) => create(person(name))));
    const [one = '', two = ''] = ids;
    const id = await plan('stopped', [person('stopped-1'), person('stopped-2')]);
    await cancel(id);
    await erase(one);
    expect(await get(id)).toMatchObject({
      title: 'canary-title-stopped',
      recipients: [erased(one), person('stopped-2')],
    });
    await erase(two);
    expect(await get(id)).toMatchObject({ ...ERASED, recipients: [erased(one), erased(two)] });
    expect((await project.call('GET', '/broadcasts?status=scheduled')).body.data).not.toContainEqual(
      expect.objectContaining({ id }),
    );
  });

  test('are erased if it was cancelled before its recipient became a user', async () => {
    const id = await plan('early', [person('late-user')]);
    await cancel(id);
    const user = await create(person('late-user'));
    await erase(user);
    expect(await get(id)).toMatchObject({ ...ERASED, recipients: [erased(user)] });
  });

  test('are erased if its fan-out failed', async () => {
    const id = await plan('failed', [person('failing')]);
    const broken = { projectId: project.id, broadcastId: id, error: 'it could not be read' };
    await service.context.db.transaction((tx) => finishBroadcasts(tx, [broken]));
    await erase(await create(person('failing')));
    expect(await get(id)).toMatchObject({
      ...ERASED,
      recipients: [{ external_id: expect.stringMatching(/^deleted:/) }],
    });
  });

  test('are erased with its last recipient if it is scheduled, and are not sent', async () => {
    const ids = await Promise.all(['planned-a', 'planned-b'].map((name) => create(person(name))));
    const [one = '', two = ''] = ids;
    const id = await plan('planned', [person('planned-a'), { email: 'planned-b@example.com' }]);
    await erase(one);
    expect(await get(id)).toMatchObject({ title: 'canary-title-planned' });
    await erase(two);
    const recipients = [erased(one), erased(two)];
    expect(await get(id)).toMatchObject({ ...ERASED, recipients });
    await service.rows('update jobs set due_at = now() where payload ->> $1 = $2', ['broadcast_id', id]);
    const { status } = await processed(project.call, id);
    expect(status.summary).toMatchObject({ total: 2, failures: 2 });
    expect(await get(id)).toMatchObject({ ...ERASED, recipients });
  });

  test('remain if it is scheduled for the subscribers of a topic as well', async () => {
    const user = await create(person('planned-c'));
    const id = await plan('group', [person('planned-c'), { topic: { subscribers: true } }]);
    await erase(user);
    expect(await get(id)).toMatchObject({ title: 'canary-title-group' });
  });
});

test('a recipient stays whose former address belongs to an erased user', async () => {
  const moving = await create({ external_id: 'moving', email: 'shared@example.com' });
  const leaving = await create({ external_id: 'leaving' });
  const recipients = [{ email: 'shared@example.com' }, { external_id: 'leaving' }];
  const id = await send({ title: 'Before', recipients });
  await create({ external_id: 'moving', email: 'own@example.com' });
  const owner = await create({ external_id: 'owner', email: 'shared@example.com' });
  expect(new Set([moving, leaving, owner]).size).toBe(3);
  await erase(leaving, owner);
  expect((await get(id)).recipients).toEqual([
    { email: 'shared@example.com' },
    { external_id: `deleted:${leaving}` },
  ]);
});

test('scheduled broadcasts are found once for all users of their project', async () => {
  const send_at = new Date(Date.now() + 30 * DAY_MS).toISOString();
  const users = await Promise.all(
    ['planned-1', 'planned-2', 'planned-3'].map((external_id) => create({ external_id })),
  );
  const planned = await Promise.all(
    [1, 2].map((n) =>
      project.call('POST', '/broadcasts', {
        title: `Planned ${n}`,
        send_at,
        recipients: [{ external_id: 'planned-1' }],
      }),
    ),
  );
  const found = await service.rows<{ id: string }>(namedStatements.get('unsent_broadcasts_to_redact') ?? '', [
    users,
  ]);
  const ids = planned.map(({ body }) => body.id);
  // Others of the project may wait as well.
  expect(found.map(({ id }) => id).filter((id) => ids.includes(id))).toEqual(ids.toSorted());
});
