import pg from 'pg';
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import type { Database } from '../../src/db/client.ts';
import { LostResponses } from '../../src/domain/ground/bus/lost-responses.ts';
import { Acceptor, sendBroadcast } from '../../src/domain/line/accept/send-broadcast.ts';
import { pathOfPage } from '../support/pages.ts';
import { processed, startTestService, type TestService, until } from '../support/service.ts';
import { STORED_EVENTS } from '../support/stored-events.ts';

// A broadcast to known users on the in-app channel alone is written together with its notifications and needs
// no job. Those to many users are written so one at a time.

let service: TestService;
let call: TestService['project']['call'];

const KNOWN = Array.from({ length: 12 }, (_, index) => ({
  external_id: `known-${index}`,
  email: `known-${index}@example.com`,
}));

beforeAll(async () => {
  service = await startTestService();
  call = service.project.call;
  const { body } = await call('POST', '/broadcasts', { title: 'People you know', recipients: KNOWN });
  await processed(call, body.id);
});
afterAll(() => service.stop());

/** Returns the number of jobs created so far. */
async function jobs(): Promise<number> {
  const [row] = await service.rows<{ count: number }>(
    `select nextval(pg_get_serial_sequence('jobs', 'id')) as count`,
  );
  return row?.count ?? 0;
}

/** Sends to these recipients. Returns the broadcast and whether it needed a job. */
async function send(recipients: object[], members: object = {}, headers: Record<string, string> = {}) {
  const before = await jobs();
  const { status, body } = await call(
    'POST',
    '/broadcasts',
    { title: 'Now', recipients, ...members },
    headers,
  );
  expect(status).toBe(201);
  return { id: body.id as string, body, queued: (await jobs()) - before > 1 };
}

async function summary(id: string) {
  const { status } = (await call('GET', `/broadcasts/${id}`)).body;
  return { status: status.status, ...status.summary, errors: status.errors };
}

describe('a broadcast to known users', () => {
  test('is processed, and in their inboxes, when the response arrives', async () => {
    const { id, body, queued } = await send([{ external_id: 'known-0' }, { email: 'Known-1@example.com' }]);
    expect(body.status).toEqual({
      status: 'enqueued',
      summary: { total: 2, failures: 0, pending: 0 },
      errors: null,
    });
    expect(queued).toBe(false);
    expect(await summary(id)).toEqual({
      status: 'processed',
      total: 2,
      failures: 0,
      pending: 0,
      errors: null,
    });
    for (const user of ['known-0', 'known-1']) {
      const inbox = await service.project.as(user)('GET', '/notifications?limit=1');
      expect(inbox.body.data).toMatchObject([{ title: 'Now', read_at: null }]);
    }
  });

  test('stores its users in their order, by which their deliveries are paged', async () => {
    const named = [5, 2, 7, 1, 4].map((index) => ({ external_id: `known-${index}` }));
    for (const recipients of [named, named.toReversed()]) {
      const { id, queued } = await send(recipients);
      expect(queued).toBe(false);
      const [list] = await service.rows<{ page: number; user_ids: string[] }>(
        'select page, user_ids from broadcast_users where broadcast_id = $1',
        [id],
      );
      expect(list).toEqual({ page: 0, user_ids: list?.user_ids.toSorted() });
      const owners = await service.rows<{ user_id: string }>(
        'select user_id from notifications where broadcast_id = $1 order by user_id',
        [id],
      );
      expect(owners.map((row) => row.user_id)).toEqual(list?.user_ids);
      expect(list?.user_ids).toHaveLength(5);
    }
  });

  test('addresses a user once when the recipients name them twice', async () => {
    const { id, queued } = await send([
      { external_id: 'known-2' },
      { email: 'known-2@example.com' },
      KNOWN[2] ?? {},
    ]);
    expect(queued).toBe(false);
    expect(await summary(id)).toEqual({
      status: 'processed',
      total: 1,
      failures: 0,
      pending: 0,
      errors: null,
    });
    expect(
      await service.rows('select 1 as one from notifications where broadcast_id = $1', [id]),
    ).toHaveLength(1);
  });

  test('has one effect and one response per Idempotency-Key, even for concurrent requests', async () => {
    const post = (key: string, user: number) =>
      call('POST', '/broadcasts', { title: key, recipients: [KNOWN[user]] }, { 'idempotency-key': key });
    const before = await jobs();
    const responses = await Promise.all([
      ...Array.from({ length: 10 }, () => post('at-once-a', 3)),
      post('at-once-b', 4),
      post('at-once-c', 4),
    ]);
    responses.push(await post('at-once-a', 3));
    expect((await jobs()) - before).toBe(1);
    expect(new Set(responses.map(({ body }) => body.id)).size).toBe(3);
    expect(
      await service.rows(
        `select type, sum(size)::int as count from ${STORED_EVENTS}
        where broadcast_id = any ($1::uuid[]) or broadcast_ids && $1::uuid[]
        group by type order by type`,
        [responses.map(({ body }) => body.id)],
      ),
    ).toEqual([
      { type: 'broadcast.created', count: 3 },
      { type: 'broadcast.processed', count: 3 },
      { type: 'delivery.sent', count: 3 },
      { type: 'notification.created', count: 3 },
    ]);
  });

  test('shares event rows with concurrent broadcasts; each event describes its own broadcast', async () => {
    const sent = await Promise.all(
      Array.from({ length: 60 }, (_, index) =>
        call('POST', '/broadcasts', { title: 'Many', recipients: KNOWN.slice(0, 1 + (index % 3)) }),
      ),
    );
    const ids = sent.map(({ body }) => body.id as string);
    const stored = await service.rows<{ size: number }>(
      `select size from ${STORED_EVENTS}
        where broadcast_id = any ($1::uuid[]) or broadcast_ids && $1::uuid[]`,
      [ids],
    );
    expect(stored.reduce((sum, { size }) => sum + size, 0)).toBe(60 + 60 + 120 + 120);
    expect(stored.length).toBeLessThan(240);
    // biome-ignore lint/suspicious/noExplicitAny: as the response has it
    const events: any[] = [];
    for (let path = '/events?limit=7'; events.length < 360; ) {
      const { body } = await call('GET', path);
      events.push(...body.data);
      path = pathOfPage(body.links.next);
    }
    expect(new Set(events.map(({ id }) => id)).size).toBe(events.length);
    for (const [index, id] of ids.entries()) {
      const own = events.filter(({ context }) => context.broadcast_id === id);
      const total = 1 + (index % 3);
      expect(own.map(({ type }) => type).sort()).toEqual([
        'broadcast.created',
        'broadcast.processed',
        ...Array.from({ length: total }, () => 'delivery.sent'),
        ...Array.from({ length: total }, () => 'notification.created'),
      ]);
      expect(own.find(({ type }) => type === 'broadcast.processed').payload).toEqual({
        total,
        failures: 0,
        pending: 0,
      });
      const idsOf = (wanted: string) =>
        own.flatMap(({ type, context }) => (type === wanted ? context.notification_id : [])).sort();
      const there = await service.rows<{ id: string }>(
        'select id from notifications where broadcast_id = $1 order by id',
        [id],
      );
      expect(idsOf('notification.created')).toEqual(there.map((row) => row.id));
      expect(idsOf('delivery.sent')).toEqual(there.map((row) => row.id));
      const one = own[own.length - 1];
      expect((await call('GET', `/events/${one.id}`)).body).toEqual(one);
    }
  });
});

describe('a broadcast to many known users', () => {
  // More users than ten, which are committed alone.
  const RECIPIENTS = Array.from({ length: 1_000 }, (_, index) => ({ external_id: `many-${index}` }));
  const users = () =>
    service.rows<{ id: string }>("select id from users where external_id like 'many-%' order by id");
  beforeAll(async () => {
    await processed(
      call,
      (await call('POST', '/broadcasts', { title: 'All', recipients: RECIPIENTS })).body.id,
    );
  });

  test('is processed, and in their inboxes, when the response arrives', async () => {
    // It goes through the queue while the fan-out before it has not quite ended.
    const { id, body } = await until(
      () => send(RECIPIENTS.toReversed()),
      ({ queued }) => !queued,
    );
    expect(body.status.summary).toEqual({ total: 1_000, failures: 0, pending: 0 });
    expect(await summary(id)).toEqual({
      ...{ status: 'processed', total: 1_000, failures: 0, pending: 0, errors: null },
    });
    expect(
      await service.rows('select user_id as id from notifications where broadcast_id = $1 order by 1', [id]),
    ).toEqual(await users());
    expect(
      await service.rows('select unnest(user_ids) as id from broadcast_users where broadcast_id = $1', [id]),
    ).toEqual(await users());
    const events = await service.rows<{ type: string; size: number }>(
      `select type, size from ${STORED_EVENTS} where broadcast_id = $1 order by type`,
      [id],
    );
    expect(events.reduce((sum, { size }) => sum + size, 0)).toBe(1 + 1_000 + 1_000 + 1);
  });

  test('is sent once for a key, whichever way it goes', async () => {
    const headers = { 'idempotency-key': 'many' };
    const all = await Promise.all(Array.from({ length: 8 }, () => send(RECIPIENTS, {}, headers)));
    expect(new Set(all.map(({ id }) => id)).size).toBe(1);
    const id = all[0]?.id ?? '';
    await processed(call, id);
    expect(
      await service.rows('select count(*)::int from notifications where broadcast_id = $1', [id]),
    ).toEqual([{ count: 1_000 }]);
  });

  test('goes through the queue while another one is written', async () => {
    const blocker = await service.context.db.connect();
    await blocker.query('begin; lock table notifications in exclusive mode');
    const first = call('POST', '/broadcasts', { title: 'First', recipients: RECIPIENTS });
    const waiting = "datname = current_database() and wait_event_type = 'Lock'";
    await until(
      () => service.rows(`select from pg_stat_activity where ${waiting}`),
      (rows) => rows.length > 0,
    );
    const { id, queued } = await send(RECIPIENTS);
    expect(queued).toBe(true);
    // A small one does not wait for the other's commit.
    expect(
      (await call('POST', '/broadcasts', { title: 'Small', recipients: [{ external_id: 'new' }] })).status,
    ).toBe(201);
    await blocker.query('rollback');
    await blocker.end();
    await processed(call, id);
    await processed(call, (await first).body.id);
    expect(
      await service.rows(
        'select broadcast_id, count(*)::int from notifications where broadcast_id = any ($1) group by 1',
        [[id, (await first).body.id]],
      ),
    ).toHaveLength(2);
  });
});

describe('other broadcasts go through the queue', () => {
  test.each([
    ['a new user', [{ external_id: 'new-to-all' }], { total: 1, failures: 0, pending: 0 }],
    [
      'many recipients of whom one is new',
      [...KNOWN, { external_id: 'also new' }],
      { total: 13, failures: 0, pending: 0 },
    ],
    ['contradictory names', [{ external_id: 'known-6', email: 'known-7@example.com' }], { total: 1 }],
  ])('%s', async (_what, recipients, expected) => {
    const { id, queued } = await send(recipients as object[]);
    expect(queued).toBe(true);
    await processed(call, id);
    expect(await summary(id)).toMatchObject(expected);
  });

  test.each([
    ['first_name', 'Ada'],
    ['first_name', null],
    ['last_name', 'Lovelace'],
    ['last_name', null],
    ['locale', 'ja'],
    ['locale', null],
    ['custom_attributes', { plan: 'free' }],
    ['custom_attributes', null],
    ['phone_numbers', ['+15005550006']],
    ['phone_numbers', []],
  ])('a recipient with details to store: %s %j', async (member, value) => {
    const { id, queued } = await send([{ external_id: 'known-5', [member]: value }]);
    expect(queued).toBe(true);
    await processed(call, id);
    const { body } = await call('GET', '/users?query=known-5');
    const user = body.data.find((one: { external_id: string }) => one.external_id === 'known-5');
    expect(user[member] ?? null).toEqual(value);
  });

  test.each([
    ['is switched off', { disabled: true, channels: [{ channel: 'in_app' }] }, 0],
    ['leaves the inbox out', { channels: [{ channel: 'email' }] }, 0],
    ['has a condition', { channels: [{ channel: 'in_app', if: "user.external_id == 'known-6'" }] }, 1],
  ])('a category that %s', async (_what, config, expected) => {
    const key = `special-${Object.keys(config).length}-${expected}`;
    expect((await call('PUT', '/channels', { key, ...config })).status).toBeLessThan(300);
    const { id, queued } = await send([KNOWN[6] ?? {}, KNOWN[7] ?? {}], { category: key });
    expect(queued).toBe(true);
    await until(
      () => summary(id),
      ({ status }) => status === 'processed',
    );
    const shown = [];
    for (const user of ['known-6', 'known-7'])
      shown.push(...(await service.project.as(user)('GET', `/notifications?category=${key}`)).body.data);
    expect(shown).toHaveLength(expected);
  });

  test('a project with more channels: skipped deliveries there are recorded', async () => {
    const project = await service.createProject('with devices');
    const recipients = [{ external_id: 'known' }];
    const sent = async () => {
      const { body } = await project.call('POST', '/broadcasts', { title: 'Now', recipients });
      await processed(project.call, body.id);
      return (await project.call('GET', `/broadcasts/${body.id}/deliveries`)).body.data;
    };
    expect(await sent()).toMatchObject([{ channel: 'in_app', state: 'sent' }]);
    expect((await project.call('PUT', '/integrations/expo', { access_token: 'x' })).status).toBe(200);
    expect(await sent()).toMatchObject([
      { channel: 'in_app', state: 'sent' },
      { channel: 'mobile_push', state: 'skipped' },
    ]);
  });

  test('a category with a condition, or one that a user has disabled', async () => {
    const later = { key: 'later', channels: [{ channel: 'in_app', delay: 3600 }] };
    expect((await call('PUT', '/channels', later)).status).toBeLessThan(300);
    const held = await send([KNOWN[8] ?? {}], { category: 'later' });
    expect(held.queued).toBe(true);
    // Its fan-out makes a job, too.
    await until(
      () => summary(held.id),
      ({ status, pending }) => status === 'processed' && pending === 1,
    );
    expect((await send([KNOWN[8] ?? {}], { category: 'sooner' })).queued).toBe(false);
    const off = { categories: [{ key: 'sooner', channels: [{ name: 'in_app', enabled: false }] }] };
    expect((await service.project.as('known-9')('PUT', '/channels/user_preferences', off)).status).toBe(204);
    const { id, queued } = await send([KNOWN[9] ?? {}], { category: 'sooner' });
    expect(queued).toBe(true);
    await processed(call, id);
    const inbox = await service.project.as('known-9')('GET', '/notifications?category=sooner');
    expect(inbox.body.data).toEqual([]);
  });

  test('a deleted user', async () => {
    expect((await send([{ external_id: 'known-10' }])).queued).toBe(false);
    const [user] = await service.rows<{ id: string }>("select id from users where external_id = 'known-10'");
    expect((await call('DELETE', `/users/${user?.id}`)).status).toBe(204);
    const { id, queued } = await send([{ external_id: 'known-10' }]);
    expect(queued).toBe(true);
    await processed(call, id);
    expect(await summary(id)).toMatchObject({ total: 1, failures: 1, pending: 0 });
  });
});

describe('notifications whose commit was not confirmed', () => {
  const broadcast = { title: 'Unheard', recipients: [{ external_id: 'known-11' }] };
  const terminated = () => new Error('Connection terminated unexpectedly');
  const producer = { isIdle: true, reserve: () => undefined, runs: () => false, wake: () => {} };

  interface Failing {
    error?: Error | undefined;
    commits?: boolean;
    statements: number;
    /** How far the clock of the service is ahead of the database's. */
    aheadMs: number;
  }

  /** An acceptor whose statements fail as long as there is an error, before or after they are executed. */
  function failing() {
    const { context } = service;
    const state: Failing = { statements: 0, aheadMs: 0 };
    const db: Pick<Database, 'query'> = {
      async query<Row>(...query: Parameters<Database['query']>): Promise<Row[]> {
        state.statements += 1;
        if (state.error !== undefined && !state.commits) throw state.error;
        const result = await context.db.query<Row>(...query);
        if (state.error !== undefined) throw state.error;
        return result;
      },
    };
    const clock = { now: () => Date.now() + state.aheadMs };
    const lostResponses = new LostResponses({ db, bus: context.bus, clock });
    const acceptor = new Acceptor(
      { ...context, db: { ...context.db, ...db }, clock, lostResponses },
      producer,
    );
    const missed: { sinceMs?: number | undefined; untilMs?: number | undefined }[] = [];
    const unsubscribe = context.bus.subscribe((message) => message.type === 'missed' && missed.push(message));
    onTestFinished(unsubscribe);
    const accept = () => sendBroadcast({ ...context, acceptor }, service.project, broadcast);
    return { state, missed, accept };
  }

  test('are looked up when the database is back', async () => {
    const { state, missed, accept } = failing();
    const beforeMs = Date.now();
    Object.assign(state, { error: terminated(), commits: true });
    await expect(accept()).rejects.toThrow('terminated');
    state.commits = false;
    await expect(accept()).rejects.toThrow('terminated');
    const { statements } = state;
    await expect.poll(() => state.statements).toBeGreaterThan(statements + 1);
    expect(missed).toEqual([]);
    // Another node may get the next attempt of the client, so this one does not wait for it.
    state.error = undefined;
    await expect.poll(() => missed).toHaveLength(1);
    expect(missed[0]?.sinceMs).toBeLessThan(beforeMs);
    const inbox = await service.project.as('known-11')('GET', '/notifications');
    const unheard = inbox.body.data.filter(({ title }: { title: string }) => title === 'Unheard');
    expect(unheard).toHaveLength(1);
  });

  test('are looked up from about the time of the loss, and not after an error of the database', async () => {
    const { state, missed, accept } = failing();
    await accept();
    const fullDisk = Object.assign(new pg.DatabaseError('no space left', 0, 'error'), { code: '53100' });
    state.error = fullDisk;
    await expect(accept()).rejects.toThrow('no space left');
    state.aheadMs = 60_000; // by the clock of the service, a minute later
    const lostAtMs = Date.now();
    state.error = terminated();
    await expect(accept()).rejects.toThrow('terminated');
    state.error = undefined;
    await expect.poll(() => missed).toHaveLength(1);
    // More than 20 s before its last frame, a client would have to fetch its list.
    expect(missed[0]?.sinceMs).toBeGreaterThan(lostAtMs - 10_000);
    expect(missed[0]?.untilMs).toBeGreaterThan(lostAtMs);
  });
});
