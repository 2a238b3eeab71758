import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { type Service, startService } from '../../src/app.ts';
import { sql } from '../../src/db/client.ts';
import type { Bus } from '../../src/domain/ground/bus/messages.ts';
import { unsnoozeHandler } from '../../src/domain/line/notifications/unsnooze.ts';
import { newId } from '../../src/lib/ids.ts';
import type { Job } from '../../src/queue/jobs.ts';
import { INBOX_INTERFACES } from '../support/inbox-interfaces.ts';
import { openSocket, openStream, type ReceivedFrame } from '../support/realtime.ts';
import { startTestService, type TestService } from '../support/service.ts';

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;
let service: TestService;
let second: Service;

// Two servers on one database.
beforeAll(async () => {
  service = await startTestService({ pollMs: 50 });
  const { config, log } = service.context;
  second = await startService(config, { log, pollMs: 50 });
});
afterAll(async () => {
  await second?.stop();
  await service?.stop();
});

const inMs = (ms: number) => new Date(Date.now() + ms).toISOString();
/** Lets the time of each snooze of a notification come, former ones too, and waits for its jobs. */
async function comes(id: string | undefined): Promise<void> {
  const jobs = "jobs where kind = 'unsnooze' and payload ->> 'notification_id' = $1";
  const { db } = service.context;
  await db.query(sql('', `update ${jobs.replace('where', 'set due_at = now() where')}`), [id]);
  await expect.poll(() => db.query(sql('', `select from ${jobs}`), [id])).toEqual([]);
}

/** The times of the jobs that return a notification. */
const returnsOf = async (id: string | undefined): Promise<string[]> => {
  const text = "select due_at from jobs where kind = 'unsnooze' and payload ->> 'notification_id' = $1";
  const rows = await service.context.db.query<{ due_at: Date }>(sql('', text), [id]);
  return rows.map(({ due_at }) => due_at.toISOString());
};

/** A user with these notifications, oldest first. */
async function userWith(titles: readonly string[]) {
  const { project } = service;
  const name = newId();
  const user = project.as(name);
  await project.call('PUT', '/users', { external_id: name });
  for (const title of titles)
    await project.call('POST', '/broadcasts', { title, recipients: [{ external_id: name }] });
  const list = async (query = '') => (await user('GET', `/notifications${query}`)).body.data;
  const titlesOf = async (query = ''): Promise<string[]> =>
    (await list(query)).map((one: { title: string }) => one.title);
  await expect.poll(() => titlesOf()).toEqual(titles.toReversed());
  const ids = (await list()).map((one: { id: string }) => one.id).reverse() as string[];
  const get = async (id = '') => (await user('GET', `/notifications/${id}`)).body;
  const snooze = (id: string | undefined, until: unknown, headers?: Record<string, string>) =>
    user('POST', `/notifications/${id}/snooze`, { until }, headers);
  const unread = async () => (await user('GET', '/notifications/unread/count')).body.count;
  const events = async () => {
    const found = await project.call('GET', '/events?type=notification.*&limit=100');
    return found.body.data
      .filter(({ user }: { user?: { external_id: string } }) => user?.external_id === name)
      .map(({ type }: { type: string }) => type.replace('notification.', ''))
      .reverse();
  };
  const jwt = project.userJwt({ user_external_id: name });
  return { name, user, ids, list, titlesOf, get, snooze, unread, events, jwt };
}

type Names = [name: string, id: string][];
const namesOf = (frames: readonly ReceivedFrame[]): Names =>
  frames.map(({ name, data }) => [name.replace('notifications/', ''), data.id]);

test('a snoozed notification is hidden until its time, and then new and on top', async () => {
  const { user, ids, titlesOf, get, snooze, unread, events } = await userWith(['a', 'b', 'c']);
  const [, b] = ids;
  await user('POST', `/notifications/${b}/read`);
  const until = inMs(DAY_MS);
  expect((await snooze(b, until)).status).toBe(204);
  expect(await get(b)).toMatchObject({ status: 'snoozed', snoozed_until: until, discarded_at: null });
  expect(await titlesOf()).toEqual(['c', 'a']);
  expect(await titlesOf('?status=unread')).toEqual(['c', 'a']);
  expect(await titlesOf('?status=read')).toEqual([]);
  expect(await titlesOf('?status=snoozed')).toEqual(['b']);
  expect(await unread()).toBe(2);
  await comes(b);
  expect(await titlesOf()).toEqual(['b', 'c', 'a']);
  const back = await get(b);
  const untouched = { seen_at: null, read_at: null, archived_at: null, snoozed_until: null };
  expect(back).toMatchObject({ status: 'unseen', updated_at: back.sent_at, ...untouched });
  expect(await titlesOf('?status=snoozed')).toEqual([]);
  expect(await unread()).toBe(3);
  expect((await events()).slice(-3)).toEqual(['read', 'snoozed', 'unsnoozed']);
});

test('version 1 and GraphQL hide it from their lists and counts', async () => {
  const { name, ids, snooze } = await userWith(['a', 'b']);
  await snooze(ids[0], inMs(HOUR_MS));
  const v1 = service.project.v1As(name);
  for (const query of ['', '?seen=true', '?read=false']) {
    const { body } = await v1('GET', `/notifications${query}`);
    const expected = query === '?seen=true' ? [] : ['b'];
    expect(body.notifications.map((one: { title: string }) => one.title)).toEqual(expected);
    expect(body.total).toBe(expected.length);
  }
  const { body } = await v1('GET', '/notifications');
  expect([body.unseen_count, body.unread_count]).toEqual([1, 1]);
  const query = `{
    all: notifications(first: 9) { totalCount edges { node { title } } }
    snoozed: notifications(first: 9, status: SNOOZED) { totalCount edges { node { title status } } }
    unreadCount
  }`;
  const { data } = (await v1('POST', '/graphql', { query })).body;
  expect(data).toEqual({
    all: { totalCount: 1, edges: [{ node: { title: 'b' } }] },
    snoozed: { totalCount: 1, edges: [{ node: { title: 'a', status: 'SNOOZED' } }] },
    unreadCount: 1,
  });
});

test('snoozing it again replaces the time: the former one changes nothing', async () => {
  const { ids, titlesOf, get, snooze, events } = await userWith(['a']);
  await snooze(ids[0], inMs(HOUR_MS));
  const until = inMs(2 * HOUR_MS);
  for (let count = 0; count < 2; count += 1) expect((await snooze(ids[0], until)).status).toBe(204);
  const { db } = service.context;
  const setTime = sql('test_set_time', 'update notifications set snoozed_until = $2 where id = $1');
  await db.query(setTime, [ids[0], inMs(3 * HOUR_MS)]);
  await comes(ids[0]);
  expect(await get(ids[0])).toMatchObject({ status: 'snoozed' });
  await snooze(ids[0], until);
  await comes(ids[0]);
  expect(await titlesOf()).toEqual(['a']);
  expect(await events()).toEqual(['created', 'seen', 'snoozed', 'snoozed', 'snoozed', 'unsnoozed']);
});

test('one job is left of it, however often it was snoozed, returned and archived', async () => {
  const { user, ids, snooze, titlesOf } = await userWith(['a', 'b']);
  const [a = '', b] = ids;
  const [soon, late] = [inMs(HOUR_MS), inMs(300 * DAY_MS)];
  await snooze(b, late);
  for (const until of [late, soon, late, null, soon]) expect((await snooze(a, until)).status).toBe(204);
  await user('POST', `/notifications/${a}/archive`);
  await user('DELETE', `/notifications/${a}/archive`);
  expect((await snooze(a.toUpperCase(), late)).status).toBe(204);
  expect(await returnsOf(a)).toEqual([late]);
  expect(await returnsOf(b)).toEqual([late]);
  await comes(a);
  expect(await titlesOf()).toEqual(['a']);
});

test('it returns at its time, and not before', async () => {
  const { ids, get, titlesOf, snooze } = await userWith(['a']);
  const until = inMs(1_500);
  await snooze(ids[0], until);
  expect(await titlesOf()).toEqual([]);
  await expect.poll(() => titlesOf()).toEqual(['a']);
  expect(Date.parse((await get(ids[0])).sent_at)).toBeGreaterThanOrEqual(Date.parse(until));
});

test('`null` returns it now, and does nothing to one that is not snoozed', async () => {
  const { user, ids, titlesOf, get, snooze, events } = await userWith(['a', 'b']);
  await user('POST', '/notifications/read');
  await snooze(ids[0], inMs(HOUR_MS));
  for (let count = 0; count < 2; count += 1) expect((await snooze(ids[0], null)).status).toBe(204);
  expect(await titlesOf()).toEqual(['a', 'b']);
  expect(await get(ids[0])).toMatchObject({ status: 'unseen', read_at: null });
  expect((await snooze(ids[1], null)).status).toBe(204);
  expect(await get(ids[1])).toMatchObject({ status: 'read' });
  expect((await events()).slice(-2)).toEqual(['snoozed', 'unsnoozed']);
  await comes(ids[0]);
  expect((await events()).slice(-2)).toEqual(['snoozed', 'unsnoozed']);
});

describe('a change while it is snoozed', () => {
  test.each([
    ['archive', 'archived', true],
    ['read', 'snoozed', false],
    ['unread', 'snoozed', false],
    ['seen', 'snoozed', false],
    ['unarchive', 'snoozed', false],
    ['click', 'snoozed', false],
  ])('%s leaves it %s', async (action, status, ends) => {
    const { user, ids, get, titlesOf, snooze } = await userWith(['a']);
    await snooze(ids[0], inMs(HOUR_MS));
    expect((await user('POST', `/notifications/${ids[0]}/${action}`)).status).toBe(204);
    expect(await get(ids[0])).toMatchObject(ends ? { status, snoozed_until: null } : { status });
    await comes(ids[0]);
    expect(await titlesOf()).toEqual(ends ? [] : ['a']);
  });

  test('deleting it ends the snooze for good', async () => {
    const { user, ids, titlesOf, snooze } = await userWith(['a']);
    await snooze(ids[0], inMs(HOUR_MS));
    expect((await user('DELETE', `/notifications/${ids[0]}`)).status).toBe(204);
    await comes(ids[0]);
    for (const query of ['', '?status=snoozed']) expect(await titlesOf(query)).toEqual([]);
    for (const until of [inMs(HOUR_MS), null]) expect((await snooze(ids[0], until)).status).toBe(404);
  });

  test.each(['read', 'seen', 'archive'])('%s of all does not change it', async (action) => {
    const { user, ids, get, snooze } = await userWith(['a', 'b']);
    await snooze(ids[0], inMs(HOUR_MS));
    const before = await get(ids[0]);
    await user('POST', `/notifications/${action}`);
    expect(await get(ids[0])).toEqual(before);
  });

  test('an archived one is no longer archived when it is snoozed', async () => {
    const { user, ids, get, titlesOf, snooze } = await userWith(['a']);
    await user('POST', `/notifications/${ids[0]}/archive`);
    await snooze(ids[0], inMs(HOUR_MS));
    expect(await get(ids[0])).toMatchObject({ status: 'snoozed', archived_at: null });
    expect(await titlesOf('?status=archived')).toEqual([]);
  });
});

describe('realtime', () => {
  /** Opens a WebSocket on one server, and a stream on the other. */
  async function openInboxes(name: string, jwt: string) {
    const { project, address } = service;
    const token = `${name}-${'t'.repeat(64)}`;
    await project.as(name)('PUT', '/channels/in_app/inbox/tokens', { token });
    const url = `${address.replace('http', 'ws')}/?api_key=${project.apiKey}&token=${token}`;
    const socket = await openSocket(url);
    const stream = await openStream(`${second.address}/v2/notifications/stream`, { jwt });
    onTestFinished(() => {
      socket.socket.terminate();
      stream.source.close();
    });
    return { socket, stream };
  }

  test('every inbox removes it, and shows it as new when it returns, on every server', async () => {
    const { name, ids, snooze, get, jwt } = await userWith(['a']);
    const [id = ''] = ids;
    const { socket, stream } = await openInboxes(name, jwt);
    await snooze(id, inMs(HOUR_MS), { 'x-service-client-id': 'tab' });
    await expect.poll(() => namesOf(stream.frames)).toEqual([['snoozed', id]]);
    expect(stream.frames[0]?.data.client_id).toBe('tab');
    // Published clients of this WebSocket know no snooze.
    await expect.poll(() => namesOf(socket.frames)).toEqual([['delete', id]]);
    await comes(id);
    for (const { frames } of [socket, stream]) {
      await expect.poll(() => frames.length).toBe(2);
      expect(frames[1]).toMatchObject({ name: 'notifications/new', data: { id } });
      expect(frames[1]?.data.notification).toEqual(await get(id));
    }
    await snooze(id, inMs(HOUR_MS));
    await snooze(id, null);
    const all: Names = [
      ['snoozed', id],
      ['new', id],
      ['snoozed', id],
      ['new', id],
    ];
    await expect.poll(() => namesOf(stream.frames)).toEqual(all);
  });

  test('a client that reconnects gets what happened meanwhile, once', async () => {
    const { user, ids, snooze, jwt } = await userWith(['away', 'back', 'archived', 'gone']);
    const [away, back, archived, gone] = ids as [string, string, string, string];
    // On the server of the changes: their messages do not arrive later.
    const url = `${service.address}/v2/notifications/stream`;
    const first = await openStream(url, { jwt });
    await user('POST', `/notifications/${gone}/read`);
    await expect.poll(() => namesOf(first.frames)).toEqual([['read', gone]]);
    first.source.close();
    await snooze(away, inMs(HOUR_MS));
    await snooze(back, inMs(HOUR_MS));
    await snooze(back, null);
    await snooze(archived, inMs(HOUR_MS));
    await user('POST', `/notifications/${archived}/archive`);
    await snooze(gone, inMs(HOUR_MS));
    await user('DELETE', `/notifications/${gone}`);
    const resumed = await openStream(url, { jwt, lastEventId: first.lastEventId() });
    const expected: Names = [
      ['snoozed', away],
      ['new', back],
      ['archived', archived],
      ['delete', gone],
    ];
    await expect.poll(() => namesOf(resumed.frames)).toEqual(expected);
    resumed.source.close();
    const again = await openStream(url, { jwt, lastEventId: resumed.lastEventId() });
    onTestFinished(() => again.source.close());
    await user('POST', `/notifications/${back}/read`);
    await expect.poll(() => namesOf(again.frames)).toEqual([['read', back]]);
  });
});

test('a job that runs twice returns it once, and notifies open inboxes in the second run', async () => {
  const { ids, list, snooze, events, jwt } = await userWith(['a']);
  const until = inMs(HOUR_MS);
  const stream = await openStream(`${second.address}/v2/notifications/stream`, { jwt });
  onTestFinished(() => stream.source.close());
  await snooze(ids[0], until);
  await expect.poll(() => namesOf(stream.frames)).toEqual([['snoozed', ids[0]]]);
  const [snoozed] = await list('?status=snoozed');
  const { db, bus } = service.context;
  const silent: Bus = { publish() {}, subscribe: () => () => {} };
  const job = (attempt: number): Job<'unsnooze'> => ({
    ...{ id: 0, kind: 'unsnooze', projectId: service.project.id, partitionKey: service.project.id },
    ...{ priority: 0, weight: 1, attempt, cutOffs: 0 },
    payload: { user_id: snoozed.user_id, notification_id: snoozed.id, until_ms: Date.parse(until) },
  });
  // The jobs have no row: the handler fails when it completes them, as one that lost its lease.
  const run = (attempt: number, by: Bus) =>
    unsnoozeHandler({ db, bus: by }).run([job(attempt), job(attempt)], newId(), () => {});
  await expect(run(1, silent)).rejects.toThrow('lease');
  for (let count = 2; count < 4; count += 1) await expect(run(count, bus)).rejects.toThrow('lease');
  await expect.poll(() => namesOf(stream.frames).slice(1)).toEqual([['new', ids[0]]]);
  expect(await events()).toEqual(['created', 'seen', 'snoozed', 'unsnoozed']);
});

test('workflows start by the events', async () => {
  const saved = await service.project.call('PUT', '/workflows', {
    key: 'when-snoozed',
    triggers: [{ event: 'notification.snoozed' }, { event: 'notification.unsnoozed' }],
    steps: [{ command: 'set', input: {} }],
  });
  expect([saved.status, saved.messages]).toEqual([200, []]);
  const { ids, snooze } = await userWith(['a']);
  await snooze(ids[0], inMs(HOUR_MS));
  await snooze(ids[0], null);
  const runs = async () => (await service.project.call('GET', '/workflows/when-snoozed/runs')).body.data;
  await expect.poll(async () => (await runs()).length).toBe(2);
  await service.project.call('DELETE', '/workflows/when-snoozed');
});

describe('refusals', () => {
  test.each([
    ['a time in the past', () => ({ until: inMs(-1_000) }), 422],
    ['a time in more than 400 days', () => ({ until: inMs(400 * DAY_MS + HOUR_MS) }), 422],
    ['a leap second', () => ({ until: '2027-12-31T23:59:60Z' }), 422],
    ['no time', () => ({}), 422],
    ['another member', () => ({ until: null, for: 60 }), 422],
    ['text that is no time', () => ({ until: 'tomorrow' }), 422],
  ])('%s', async (_what, body, status) => {
    const { user, ids, get } = await userWith(['a']);
    const refused = await user('POST', `/notifications/${ids[0]}/snooze`, body());
    expect([refused.status, refused.codes]).toEqual([status, ['validation_failed']]);
    expect(await get(ids[0])).toMatchObject({ status: 'unseen' });
  });

  test("an unknown id and another user's are 404", async () => {
    const [{ ids }, { snooze }] = [await userWith(['a']), await userWith(['b'])];
    for (const id of [ids[0], newId()])
      for (const until of [inMs(HOUR_MS), null]) expect((await snooze(id, until)).status).toBe(404);
  });

  test('a notification that is not shown yet cannot be snoozed', async () => {
    const { ids, user, snooze } = await userWith(['a']);
    await service.context.db.query(
      sql('test_hide', "update notifications set discarded_at = 'infinity' where id = $1"),
      [ids[0]],
    );
    for (const until of [inMs(HOUR_MS), null]) expect((await snooze(ids[0], until)).status).toBe(404);
    expect((await user('GET', '/notifications?status=snoozed')).body.data).toEqual([]);
  });
});

test.each(Object.keys(INBOX_INTERFACES))('%s refuses a time in the past, if it can snooze', async (how) => {
  const { name, ids } = await userWith(['a']);
  const inbox = INBOX_INTERFACES[how]?.(service.project, name);
  const snoozing = inbox?.snooze(ids[0] ?? '', inMs(-HOUR_MS));
  if (snoozing !== undefined) await expect(snoozing).rejects.toThrow(/422|validation_failed/);
});
