import { afterAll, beforeAll, expect, test } from 'vitest';
import type { Queryable } from '../src/db/client.ts';
import { planDeliveries } from '../src/domain/broadcasts/plan-deliveries.ts';
import { newId } from '../src/lib/ids.ts';
import { startTestService, type TestProject, type TestService } from './support/service.ts';

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
    pending: 0,
    heldBack: new Set<string>(),
  };
}

/** Plans these, and counts what is asked of the database meanwhile. */
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
  const made = await planDeliveries(context, counting, broadcasts);
  return { ...made, names };
}

test('where only the inbox is set up and nothing is configured, nothing is asked and nothing is planned', async () => {
  const user = await userOf(plain, 'ada');
  const broadcasts = [null, 'a', 'b'].map((category) => broadcast(plain, category, [user]));
  expect(await plan(broadcasts)).toEqual({ jobs: [], events: [], names: [] });
});

test('e-mail costs one statement for a batch of any projects and categories, until somebody switches it off', async () => {
  const users = await Promise.all(['ada', 'bob'].map((name) => userOf(mailing, name)));
  const batch = () => ['a', 'b', null].map((category) => broadcast(mailing, category, users));
  const before = await plan([...batch(), broadcast(plain, 'a', users)]);
  expect(before.names).toEqual(['users_with_email']);
  expect(before.jobs.map(({ payload }) => payload.user_ids.length)).toEqual([2, 2, 2]);
  await mailing.as('ada')('PUT', '/channels/user_preferences', {
    categories: [{ key: 'a', channels: [{ name: 'email', enabled: false }] }],
  });
  const after = await plan([...batch(), broadcast(plain, 'a', users)]);
  expect(after.names).toEqual(['users_with_email', 'preferences_of_category']);
  expect(after.jobs.map(({ payload }) => payload.user_ids.length)).toEqual([1, 2, 2]);
  const other = await plan([broadcast(mailing, 'b', users)]);
  expect(other.names).toEqual(['users_with_email']);
  await mailing.as('bob')('PUT', '/channels/user_preferences', {
    categories: [{ key: 'b', channels: [{ name: 'in_app', enabled: false }] }],
  });
  const both = batch();
  expect((await plan(both)).names).toEqual(['users_with_email', 'preferences_of_categories']);
  expect(both.map(({ heldBack }) => [...heldBack])).toEqual([[], [users[1]], []]);
});

test('a category that is disabled, or does not list a channel, asks nothing for it', async () => {
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

test('a broadcast that reaches nobody leaves no events of deliveries', async () => {
  expect(await plan([broadcast(mailing, 'off', [])])).toEqual({ jobs: [], events: [], names: [] });
});
