import { afterAll, beforeAll, expect, test } from 'vitest';
import type { Queryable } from '../../src/db/client.ts';
import { loadPlanInputs, planDeliveries } from '../../src/domain/line/fan-out/plan-deliveries.ts';
import { newId } from '../../src/lib/ids.ts';
import { integrationConfigs } from '../support/integration-configs.ts';
import { startTestService, type TestProject, type TestService } from '../support/service.ts';

let service: TestService;
let plain: TestProject;
let mailing: TestProject;

beforeAll(async () => {
  service = await startTestService();
  plain = service.project;
  mailing = await service.createProject('mailing');
  await mailing.call('PUT', '/integrations/smtp', {
    host: 'mail.example',
    port: 587,
    username: 'u',
    password: 'p',
    from: { email: 'a@b.example' },
  });
});
afterAll(() => service?.stop());

const userOf = async (project: TestProject, name: string): Promise<string> =>
  (await project.call('PUT', '/users', { external_id: name, email: `${name}@example.com` })).body.id;

function broadcast(project: TestProject, category: string | null, userIds: string[]) {
  return {
    id: newId(),
    projectId: project.id,
    category,
    textWeight: 0,
    userIds,
  };
}

/** Plans these broadcasts and counts the statements meanwhile. */
async function plan(broadcasts: ReturnType<typeof broadcast>[]) {
  const { context } = service;
  for (const { projectId } of broadcasts) {
    await context.integrations.of(projectId);
    await context.categories.of(projectId);
  }
  const names: string[] = [];
  const counting: Queryable = {
    query(statement, values) {
      names.push(statement.name);
      return context.db.query(statement, values);
    },
  };
  const plans = planDeliveries(await loadPlanInputs(context, counting, broadcasts));
  return {
    plans,
    jobs: plans.flatMap((one) => one.jobs),
    events: plans.flatMap((one) => one.events),
    names,
  };
}

test('with the inbox alone and no configuration, it reads nothing and plans nothing', async () => {
  const user = await userOf(plain, 'ada');
  const broadcasts = [null, 'a', 'b'].map((category) => broadcast(plain, category, [user]));
  expect(await plan(broadcasts)).toMatchObject({ jobs: [], events: [], names: [] });
});

test('e-mail costs one statement for a batch of any projects and categories, without opt-outs', async () => {
  const users = await Promise.all(['ada', 'bob'].map((name) => userOf(mailing, name)));
  const batch = () => ['a', 'b', null].map((category) => broadcast(mailing, category, users));
  const before = await plan([...batch(), broadcast(plain, 'a', users)]);
  expect(before.names).toEqual(['users_with_address']);
  expect(before.jobs.map(({ payload }) => payload.user_ids.length)).toEqual([2, 2, 2]);
  await mailing.as('ada')('PUT', '/channels/user_preferences', {
    categories: [{ key: 'a', channels: [{ name: 'email', enabled: false }] }],
  });
  const after = await plan([...batch(), broadcast(plain, 'a', users)]);
  expect(after.names).toEqual(['users_with_address', 'preferences_of_category']);
  expect(after.jobs.map(({ payload }) => payload.user_ids.length)).toEqual([1, 2, 2]);
  const other = await plan([broadcast(mailing, 'b', users)]);
  expect(other.names).toEqual(['users_with_address']);
  await mailing.as('bob')('PUT', '/channels/user_preferences', {
    categories: [{ key: 'b', channels: [{ name: 'in_app', enabled: false }] }],
  });
  const both = await plan(batch());
  expect(both.names).toEqual(['users_with_address', 'preferences_of_categories']);
  expect(both.plans.map(({ hidden }) => [...hidden])).toEqual([[], [users[1]], []]);
});

test('addresses and numbers cost one statement, tokens another, for configured channels only', async () => {
  const project = await service.createProject('all channels');
  for (const name of ['smtp', 'twilio', 'apns', 'expo', 'web_push'] as const)
    await project.call('PUT', `/integrations/${name}`, integrationConfigs[name].full);
  const ada = (await project.call('PUT', '/users', { external_id: 'ada', phone_numbers: ['+15005550001'] }))
    .body.id;
  const bob = await userOf(project, 'bob');
  const cy = (await project.call('PUT', '/users', { external_id: 'cy' })).body.id;
  const device = (name: string) => ({ device_token: name.repeat(64).slice(0, 64) });
  await project.as('ada')('PUT', '/channels/mobile_push/apns/tokens', device('a'));
  await project.as('bob')('PUT', '/channels/mobile_push/expo/tokens', device('b'));
  // The provider of this token is not configured.
  await project.as('cy')('PUT', '/channels/mobile_push/fcm/tokens', device('c'));
  const { plans, jobs, events, names } = await plan([broadcast(project, null, [ada, bob, cy])]);
  expect(names).toEqual(['users_with_address', 'users_with_tokens']);
  expect(Object.fromEntries(jobs.map(({ payload }) => [payload.channel, payload.user_ids]))).toEqual({
    email: [bob],
    sms: [ada],
    mobile_push: [ada, bob],
  });
  expect(
    events.map(({ userIds, details }) => [userIds, (details as { context: object; log: string }).log]),
  ).toEqual([
    [[ada, cy], 'the user has no e-mail address'],
    [[bob, cy], 'the user has no phone number'],
    [[cy], 'the user cannot be reached on this channel'],
    [[ada, bob, cy], 'the user cannot be reached on this channel'],
  ]);
  expect(plans[0]?.pending).toBe(4);
});

test('if only tokens can be used, addresses are not read, nor channels that a category omits', async () => {
  const project = await service.createProject('push');
  await project.call('PUT', '/integrations/expo', integrationConfigs.expo.full);
  const users = [await userOf(project, 'ada')];
  expect((await plan([broadcast(project, null, users)])).names).toEqual(['users_with_tokens']);
  await project.call('PUT', '/channels', { key: 'inbox', channels: [{ channel: 'in_app' }] });
  expect((await plan([broadcast(project, 'inbox', users)])).names).toEqual([]);
});

test('a device of one project is not reached through an integration of another', async () => {
  const [pushing, mailing] = [await service.createProject('p1'), await service.createProject('p2')];
  await pushing.call('PUT', '/integrations/expo', integrationConfigs.expo.full);
  await mailing.call('PUT', '/integrations/web_push', integrationConfigs.web_push.full);
  const [ada, bob] = [await userOf(pushing, 'ada'), await userOf(mailing, 'bob')];
  await mailing.as('bob')('PUT', '/channels/mobile_push/expo/tokens', {
    device_token: 'ExponentPushToken[a]',
  });
  const { jobs } = await plan([broadcast(pushing, null, [ada]), broadcast(mailing, null, [bob])]);
  expect(jobs).toEqual([]);
});

test('a category that is disabled, or does not list a channel, reads nothing for it', async () => {
  const users = [await userOf(mailing, 'ada')];
  await mailing.call('PUT', '/channels', { key: 'off', disabled: true, channels: [{ channel: 'email' }] });
  await mailing.call('PUT', '/channels', { key: 'inbox', channels: [{ channel: 'in_app' }] });
  const { jobs, events, names } = await plan([
    broadcast(mailing, 'off', users),
    broadcast(mailing, 'inbox', users),
  ]);
  expect([jobs, names]).toEqual([[], []]);
  expect(events.map(({ details }) => details)).toMatchObject([
    { code: 'category_disabled', context: { channel: 'in_app' } },
    { code: 'category_disabled', context: { channel: 'email' } },
    { code: 'channel_not_listed', context: { channel: 'email' } },
  ]);
});

test('a broadcast that reaches no user records no delivery events', async () => {
  expect(await plan([broadcast(mailing, 'off', [])])).toMatchObject({ jobs: [], events: [], names: [] });
});
