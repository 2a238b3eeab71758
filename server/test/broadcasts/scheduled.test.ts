import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { purgeUsers } from '../../src/domain/after/erasure/purge-users.ts';
import { purgeExpired } from '../../src/domain/after/erasure/retention.ts';
import { sendBroadcast } from '../../src/domain/line/accept/send-broadcast.ts';
import { newId } from '../../src/lib/ids.ts';
import { insertCrowd } from '../support/crowd.ts';
import { listAll } from '../support/pages.ts';
import { processed, startTestService, type TestProject, type TestService } from '../support/service.ts';

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;

let service: TestService;
let project: TestProject;
let made = 0;

beforeAll(async () => {
  service = await startTestService({ pollMs: 50 });
});
afterAll(() => service?.stop());
beforeEach(async () => {
  made += 1;
  project = await service.createProject(`scheduled ${made}`);
});

const later = (ms: number) => new Date(Math.ceil((Date.now() + ms) / 1_000) * 1_000).toISOString();
const post = (body: object, headers?: Record<string, string>) =>
  project.call(
    'POST',
    '/broadcasts',
    { title: 'Hello', recipients: [{ external_id: 'ada' }], ...body },
    headers,
  );
const schedule = async (body: object = {}): Promise<string> => {
  const sent = await post({ send_at: later(HOUR_MS), ...body });
  expect([sent.status, sent.messages]).toEqual([201, []]);
  return sent.body.id;
};
const get = async (id: string) => (await project.call('GET', `/broadcasts/${id}`)).body;
const listed = async (): Promise<string[]> => {
  const { status, body } = await project.call('GET', '/broadcasts?status=scheduled');
  expect(status).toBe(200);
  return body.data.map(({ id }: { id: string }) => id);
};
const titles = async (user = 'ada') =>
  (await project.as(user)('GET', '/notifications')).body.data.map((one: { title: string }) => one.title);
/** Lets the time of a broadcast come. */
const comes = async (id: string, sendAt = 'now()') => {
  await service.rows(`update broadcasts set send_at = ${sendAt} where id = $1`, [id]);
  await service.rows(`update jobs set due_at = now() where payload ->> 'broadcast_id' = $1`, [id]);
  return processed(project.call, id);
};

test('it is sent at its time, and not before', async () => {
  const sendAt = later(1_500);
  const id = await schedule({ send_at: sendAt.replace('Z', '+00:00') });
  const first = await get(id);
  expect(first).toMatchObject({ send_at: sendAt, cancelled_at: null });
  expect(first.status).toEqual({
    status: 'enqueued',
    summary: { total: 1, failures: 0, pending: 0 },
    errors: null,
  });
  expect([await listed(), await titles()]).toEqual([[id], []]);
  await processed(project.call, id);
  expect([await listed(), await titles()]).toEqual([[], ['Hello']]);
  const [{ sent_at: sentAt }] = (await project.as('ada')('GET', '/notifications')).body.data;
  expect(Date.parse(sentAt)).toBeGreaterThanOrEqual(Date.parse(sendAt));
});

test('without a time, with null or with one in the past, it is sent at once', async () => {
  for (const body of [{}, { send_at: null }, { send_at: '2020-02-29T00:00:00Z' }]) {
    const sent = await post(body);
    expect(sent.body.send_at).toBe('send_at' in body && body.send_at ? '2020-02-29T00:00:00.000Z' : null);
    await processed(project.call, sent.body.id);
  }
  expect(await titles()).toEqual(['Hello', 'Hello', 'Hello']);
});

test('a time more than 400 days ahead, or that is none, is rejected', async () => {
  expect((await post({ send_at: later(400 * DAY_MS - HOUR_MS) })).status).toBe(201);
  const message = async (sendAt: unknown) => (await post({ send_at: sendAt })).messages;
  expect(await message(later(400 * DAY_MS + HOUR_MS))).toEqual([
    "Param 'send_at' must be within the next 400 days",
  ]);
  for (const none of ['2016-12-31T23:59:60Z', 'tomorrow'])
    expect(await message(none)).toEqual([
      "Param 'send_at' must be a date and time as in 2026-01-31T12:00:00Z",
    ]);
  expect(await message(1_800_000_000)).toHaveLength(1);
  const list = await project.call('GET', '/broadcasts?status=processed');
  expect([list.status, list.messages]).toEqual([422, [expect.stringContaining("Param 'status'")]]);
});

describe('broadcast.created', () => {
  const events = async (id: string) => {
    type Shown = { type: string; context?: { broadcast_id?: string } };
    const all = await listAll<Shown>(project.call, '/events?limit=100');
    return all
      .filter(({ context }) => context?.broadcast_id === id)
      .map(({ type }) => type)
      .toReversed();
  };

  test('is recorded when it is accepted, before a cancellation', async () => {
    const id = await schedule();
    expect(await events(id)).toEqual(['broadcast.created']);
    expect((await project.call('POST', `/broadcasts/${id}/cancel`)).status).toBe(200);
    await processed(project.call, id);
    expect(await events(id)).toEqual(['broadcast.created', 'broadcast.cancelled', 'broadcast.processed']);
  });

  test('is recorded once for each of those that are accepted together', async () => {
    const ids = await Promise.all(Array.from({ length: 20 }, () => schedule()));
    for (const id of ids) expect(await events(id)).toEqual(['broadcast.created']);
    expect((await listAll(project.call, '/events?type=broadcast.created&limit=100')).length).toBe(20);
  });

  test('is recorded at its time if an earlier release accepted it', async () => {
    const id = await schedule();
    await service.rows('delete from events where project_id = $1', [project.id]);
    await service.rows("update jobs set payload = (payload::jsonb - 'created')::json where project_id = $1", [
      project.id,
    ]);
    await comes(id);
    expect((await events(id)).filter((type) => type === 'broadcast.created')).toHaveLength(1);
  });
});

test('it can be cancelled before its time', async () => {
  const id = await schedule();
  const { body } = await project.call('POST', `/broadcasts/${id}/cancel`);
  expect(body.cancelled_at).not.toBeNull();
  expect(await listed()).toEqual([]);
  const { status } = await processed(project.call, id);
  expect(status.summary).toEqual({ total: 0, failures: 0, pending: 0 });
  expect(await titles()).toEqual([]);
});

test('it outlives a restart, and is due by the clock of the database', async () => {
  const [id, other] = [await schedule(), await schedule({ send_at: later(1_500) })];
  await service.restart();
  await processed(project.call, other);
  expect(await listed()).toEqual([id]);
  await comes(id);
});

test('an Idempotency-Key or an id schedules it once', async () => {
  const key = { 'idempotency-key': 'once' };
  const body = { send_at: later(HOUR_MS) };
  const [first, second] = [await post(body, key), await post(body, key)];
  expect(second.text).toBe(first.text);
  const broadcast = { title: 'By id', recipients: [{ external_id: 'ada' }], send_at: later(HOUR_MS) };
  const id = newId();
  const sent = await sendBroadcast(service.http.context, project, broadcast, { id });
  const again = await sendBroadcast(service.http.context, project, broadcast, { id });
  expect([again.replayed, String(again.json)]).toEqual([true, String(sent.json)]);
  expect(await listed()).toEqual([id, first.body.id]);
  const [jobs] = await service.rows<{ count: number }>(
    "select count(*)::int as count from jobs where kind = 'fan_out' and project_id = $1",
    [project.id],
  );
  expect(jobs?.count).toBe(2);
});

test('the list of scheduled broadcasts has pages', async () => {
  const ids: string[] = [];
  for (let number = 0; number < 5; number += 1) ids.unshift(await schedule());
  const found = await listAll<{ id: string }>(project.call, '/broadcasts?status=scheduled&limit=2');
  expect(found.map(({ id }) => id)).toEqual(ids);
});

test('its notifications are the newest in the inbox when they arrive', async () => {
  const id = await schedule({
    title: 'Scheduled',
    recipients: [{ external_id: 'ada' }, { external_id: 'bob' }],
  });
  await processed(project.call, (await post({ title: 'At once' })).body.id);
  const cursor = (await project.as('ada')('GET', '/notifications')).body.data[0].id;
  // As if it had been accepted days ago.
  await comes(id);
  expect(await titles()).toEqual(['Scheduled', 'At once']);
  const newer = await project.as('ada')('GET', `/notifications?ending_before=${cursor}`);
  expect(newer.body.data.map((one: { title: string }) => one.title)).toEqual(['Scheduled']);
  const [row] = await service.rows<{ same: boolean }>(
    'select bool_and(updated_at = sent_at) as same from notifications where broadcast_id = $1',
    [id],
  );
  expect(row?.same).toBe(true);
});

test('a topic gets it page by page at its time', async () => {
  await insertCrowd(service, project, 2_500);
  const id = await schedule({ topic: 'news', recipients: [{ topic: { subscribers: true } }] });
  const { status } = await comes(id);
  expect(status.summary).toEqual({ total: 2_500, failures: 0, pending: 0 });
  const [row] = await service.rows<{ placed: number }>(
    'select count(place)::int as placed from notifications where broadcast_id = $1',
    [id],
  );
  expect(row?.placed).toBe(2_500);
});

test('retention counts from the time at which it is sent', async () => {
  const purgeAfter = (days: number) =>
    purgeExpired(
      {
        ...service.context,
        clock: { now: () => Date.now() + days * DAY_MS },
        config: { ...service.context.config, NOTIFICATIONS_RETENTION_DAYS: 30 },
      },
      new AbortController().signal,
    );
  const id = await schedule({ send_at: later(390 * DAY_MS) });
  await purgeAfter(389);
  expect((await get(id)).title).toBe('Hello');
  await comes(id, "now() + interval '390 days'");
  await purgeAfter(419);
  expect(await titles()).toEqual(['Hello']);
  await purgeAfter(421);
  expect([(await project.call('GET', `/broadcasts/${id}`)).status, await titles()]).toEqual([404, []]);
});

test('an erased user gets nothing, and is removed from the recipients', async () => {
  const recipients = [
    { external_id: 'ada', first_name: 'Ada' },
    { email: 'bob@example.com' },
    { external_id: 'cleo' },
  ];
  const { body: ada } = await project.call('PUT', '/users', { external_id: 'ada' });
  const { body: bob } = await project.call('PUT', '/users', { email: 'bob@example.com' });
  const id = await schedule({ recipients });
  for (const user of [ada, bob]) await project.call('DELETE', `/users/${user.id}`);
  const clock = { now: () => Date.now() + 8 * DAY_MS };
  while (await purgeUsers({ ...service.context, clock }));
  expect((await get(id)).recipients).toEqual([
    { external_id: `deleted:${ada.id}` },
    { external_id: `deleted:${bob.id}` },
    { external_id: 'cleo' },
  ]);
  const { status } = await comes(id);
  expect(status).toEqual({
    status: 'processed',
    summary: { total: 3, failures: 2, pending: 0 },
    errors: [
      { message: 'recipients.0: this user is deleted' },
      { message: 'recipients.1: this user is deleted' },
    ],
  });
  const { body: users } = await project.call('GET', '/users');
  expect(users.data.map((one: { external_id: string }) => one.external_id)).toEqual(['cleo']);
});

test('a deleted user is not restored by it', async () => {
  const { body: ada } = await project.call('PUT', '/users', { external_id: 'ada' });
  const id = await schedule();
  await project.call('DELETE', `/users/${ada.id}`);
  const { status } = await comes(id);
  expect(status.summary).toEqual({ total: 1, failures: 1, pending: 0 });
  expect((await project.call('GET', `/users/${ada.id}`)).status).toBe(404);
});

test('a clock of the server that is wrong sends nothing early', async () => {
  const clock = { offMs: 0, now: () => Date.now() + clock.offMs };
  const other = await startTestService({ clock, pollMs: 20 });
  try {
    const { body } = await other.project.call('POST', '/broadcasts', {
      title: 'Hello',
      recipients: [{ external_id: 'ada' }],
      send_at: later(HOUR_MS),
    });
    // What the server takes for the time comes from the database; an hour later it is sent.
    clock.offMs = HOUR_MS - 60_000;
    const before = await other.project.call('GET', `/broadcasts/${body.id}`);
    expect(before.body.status.status).toBe('enqueued');
    clock.offMs = HOUR_MS + 60_000;
    await processed(other.project.call, body.id);
  } finally {
    await other.stop();
  }
});

test('another project does not see it in its list', async () => {
  const id = await schedule();
  const stranger = await service.createProject(`stranger ${made}`);
  expect((await stranger.call('GET', '/broadcasts?status=scheduled')).body.data).toEqual([]);
  expect(await listed()).toEqual([id]);
});
