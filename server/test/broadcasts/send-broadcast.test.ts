import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import type { NewBroadcast } from '../../src/contract/broadcast.ts';
import type { Database } from '../../src/db/client.ts';
import type { RealtimeMessage } from '../../src/domain/ground/bus/messages.ts';
import { Acceptor, type SendOptions, sendBroadcast } from '../../src/domain/line/accept/send-broadcast.ts';
import { ClientError } from '../../src/errors.ts';
import { newId } from '../../src/lib/ids.ts';
import { processed, startTestService, type TestService } from '../support/service.ts';

// Every interface sends through one function of the domain, which takes a value.

let service: TestService;
let send: Sender;

type Sender = (broadcast: NewBroadcast, options?: SendOptions) => ReturnType<typeof sendBroadcast>;

beforeAll(async () => {
  service = await startTestService({ pollMs: 50 });
  send = node();
  const { id } = await send({ title: 'Hello', recipients: [{ external_id: 'known' }] });
  await processed(service.project.call, id);
});
afterAll(() => service.stop());

/** Sends as a separate node does; the workers of the service run its jobs. */
function node(db: Pick<Database, 'query'> = service.context.db): Sender {
  const context = { ...service.context, db: { ...service.context.db, query: db.query.bind(db) } };
  const acceptor = new Acceptor(context, {
    isIdle: true,
    reserve: () => undefined,
    runs: () => false,
    wake: () => {},
  });
  return (broadcast, options) => sendBroadcast({ ...context, acceptor }, service.project, broadcast, options);
}

/** Resolves when the service publishes a message of this type. */
function published(type: RealtimeMessage['type']): Promise<void> {
  return new Promise((resolve) => {
    const unsubscribe = service.context.bus.subscribe((message) => {
      if (message.type !== type) return;
      unsubscribe();
      resolve();
    });
  });
}

async function countOf(table: string): Promise<number> {
  const [row] = await service.rows<{ count: number }>(`select count(*)::int as count from ${table}`);
  return row?.count ?? 0;
}

const KNOWN = { title: 'To a known user', recipients: [{ external_id: 'known' }] };
const toNewUser = (externalId: string) => ({
  title: 'To a new user',
  recipients: [{ external_id: externalId }],
});

describe('a broadcast with an id from the caller', () => {
  test.each([
    ['a known user', KNOWN],
    ['a new user', toNewUser('new-1')],
  ])('to %s is sent once, whatever the number of concurrent calls and nodes', async (_name, broadcast) => {
    const id = newId();
    const nodes = [send, node(), node()];
    const calls = Array.from({ length: 12 }, (_, index) => nodes[index % nodes.length] ?? send);
    const others = calls.map((one) => one({ ...broadcast, title: 'Another' }));
    const sent = await Promise.all(calls.map((one) => one(broadcast, { id })));
    await Promise.all(others);
    const repeated = await send(broadcast, { id });
    expect(sent.filter(({ replayed }) => !replayed)).toHaveLength(1);
    expect(new Set([...sent, repeated].map(({ json }) => json.toString())).size).toBe(1);
    expect(JSON.parse(repeated.json.toString())).toMatchObject({
      ...broadcast,
      id,
      status: { status: 'enqueued' },
    });
    expect(await processed(service.project.call, id)).toMatchObject({ id });
    expect(
      await service.rows('select user_id from notifications where broadcast_id = $1', [id]),
    ).toHaveLength(1);
    expect(await service.rows("select from jobs where payload ->> 'broadcast_id' = $1", [id])).toEqual([]);
    const events = await service.project.call('GET', '/events?limit=100&type=broadcast.created');
    const created = events.body.data.filter(
      ({ context }: { context: { broadcast_id: string } }) => context.broadcast_id === id,
    );
    expect(created).toHaveLength(1);
  });

  test.each([
    ['a known user', KNOWN],
    ['a new user', toNewUser('new-2')],
  ])(
    'to %s is sent once if the response to the commit was lost and the caller retries',
    async (_who, broadcast) => {
      const { db } = service.context;
      const cut: Pick<Database, 'query'> = {
        async query<Row>(...query: Parameters<Database['query']>): Promise<Row[]> {
          await db.query<Row>(...query);
          throw new Error('Connection terminated unexpectedly');
        },
      };
      const id = newId();
      // Notifications that may have been written are announced later.
      const missed = broadcast === KNOWN ? published('missed') : undefined;
      await expect(node(cut)(broadcast, { id })).rejects.toThrow('terminated');
      const retried = await node()(broadcast, { id });
      expect(retried).toMatchObject({ id, replayed: true });
      await processed(service.project.call, id);
      expect(
        await service.rows('select user_id from notifications where broadcast_id = $1', [id]),
      ).toHaveLength(1);
      await missed;
    },
  );

  test('is sent when the first attempt was rolled back', async () => {
    const broken: Pick<Database, 'query'> = { query: () => Promise.reject(new Error('no connection')) };
    const id = newId();
    await expect(node(broken)(KNOWN, { id })).rejects.toThrow('no connection');
    expect(await send(KNOWN, { id })).toMatchObject({ id, replayed: false });
    await processed(service.project.call, id);
  });

  test('keeps the content that was sent first, and belongs to its project', async () => {
    const id = newId();
    const first = await send(KNOWN, { id });
    const second = await send({ ...KNOWN, title: 'Something else' }, { id });
    expect(second).toEqual({ ...first, replayed: true });
    const acceptor = new Acceptor(service.context, {
      isIdle: true,
      reserve: () => undefined,
      runs: () => false,
      wake: () => {},
    });
    const other = await service.createProject('other');
    await expect(sendBroadcast({ ...service.context, acceptor }, other, KNOWN, { id })).rejects.toThrow(
      'another project',
    );
    await expect(send(KNOWN, { id: '00000000-0000-4000-8000-000000000000' })).rejects.toThrow(
      'cannot be the id',
    );
  });
});

describe('broadcasts that are accepted together', () => {
  const NAMES = { always: 'accept', 'by id': 'accept_by_id', 'by key': 'accept_by_key' };
  const optionsOf = {
    always: () => ({}),
    'by id': () => ({ id: newId() }),
    'by key': (): SendOptions => {
      const key = { scope: 'test', key: newId(), requestHash: Buffer.alloc(32) };
      return { idempotency: { projectId: service.project.id, ...key } };
    },
  };
  // Users are known for a time, and until nodes learn that they have missed messages.
  beforeEach(async () => {
    const { id } = await send(KNOWN);
    await processed(service.project.call, id);
  });

  const strangers = () => Array.from({ length: 3 }, () => toNewUser(newId()));

  test.each([
    ['always', 'to known users', '_fanned_out', () => [KNOWN, KNOWN, KNOWN]],
    ['always', 'to new ones', '', strangers],
    ['always', 'to both', '_some_fanned_out', () => [KNOWN, ...strangers(), KNOWN]],
    ['by id', 'to known users', '_fanned_out', () => [KNOWN, KNOWN, KNOWN]],
    ['by id', 'to new ones', '', strangers],
    ['by id', 'to both', '_some_fanned_out', () => [KNOWN, ...strangers(), KNOWN]],
    ['by key', 'to known users', '_fanned_out', () => [KNOWN, KNOWN, KNOWN]],
    ['by key', 'to new ones', '', strangers],
    ['by key', 'to both', '_some_fanned_out', () => [KNOWN, ...strangers(), KNOWN]],
  ] as const)(
    '%s, %s, are written by one statement, and each reaches its user',
    async (once, _to, end, make) => {
      const statements: string[] = [];
      const { db } = service.context;
      const together = node({
        query: (statement, values) => {
          statements.push(statement.name);
          return db.query(statement, values);
        },
      });
      const broadcasts = make();
      const all = broadcasts.map((one) => [one, optionsOf[once]()] as const);
      const sent = await Promise.all(all.map(([one, options]) => together(one, options)));
      expect(statements.filter((name) => name.startsWith('accept'))).toEqual([`${NAMES[once]}${end}`]);
      const repeated = once === 'always' ? [] : all.map(([one, options]) => together(one, options));
      for (const [index, again] of (await Promise.all(repeated)).entries())
        expect(again).toEqual({ ...sent[index], replayed: true });
      for (const [index, { id }] of sent.entries()) {
        const { status } = await processed(service.project.call, id);
        expect(status.summary).toMatchObject({ total: 1, failures: 0 });
        const reached = await service.rows<{ external_id: string }>(
          `select u.external_id from notifications n join users u on u.id = n.user_id
          where broadcast_id = $1`,
          [id],
        );
        expect(reached).toEqual(broadcasts[index]?.recipients);
        const { body } = await service.project.call('GET', '/events?limit=100');
        const types = body.data
          .filter(({ context }: { context?: { broadcast_id?: string } }) => context?.broadcast_id === id)
          .map(({ type }: { type: string }) => type);
        for (const type of ['broadcast.created', 'broadcast.processed'])
          expect(types.filter((one: string) => one === type)).toHaveLength(1);
      }
    },
  );
});

test('a broadcast sent as a value and one sent through HTTP end in the same rows', async () => {
  const broadcast: NewBroadcast = {
    title: 'The same',
    content: '<b>ä</b>',
    action_url: 'https://shop.example/',
    category: 'orders',
    topic: 'a.topic',
    custom_attributes: { amount: 1.5, nested: [null, { deep: true }] },
    recipients: [
      { external_id: 'known' },
      {
        external_id: 'both',
        email: 'Both@example.com',
        first_name: 'Ada',
        custom_attributes: { plan: 'pro' },
      },
      { topic: { subscribers: true } },
    ],
    overrides: { channels: { in_app: { title: 'In the inbox' } }, providers: { fcm: { priority: 'high' } } },
  };
  const { body } = await service.project.call('POST', '/broadcasts', broadcast);
  const { id, json } = await send(broadcast);
  const sent = JSON.parse(json.toString());
  expect({ ...sent, id: body.id, created_at: body.created_at }).toEqual(body);
  for (const one of [body.id, id]) await processed(service.project.call, one);
  const stored = (one: string) => service.rows('select * from broadcasts where id = $1', [one]);
  const [first, second] = [await stored(body.id), await stored(id)];
  expect(second).toEqual([{ ...(first[0] as object), id }]);
  const reached = (one: string) =>
    service.rows('select page, user_ids, plan from broadcast_users where broadcast_id = $1 order by page', [
      one,
    ]);
  expect(await reached(id)).toEqual(await reached(body.id));
  const notified = (one: string) =>
    service.rows(
      `select user_id, category, topic, seen_at, discarded_at from notifications
      where broadcast_id = $1 order by user_id`,
      [one],
    );
  expect(await notified(id)).toEqual(await notified(body.id));
});

test('an invalid value is rejected with all its problems, as in HTTP, and stores nothing', async () => {
  const wrong = {
    title: '',
    category: 'no spaces',
    recipients: [{ first_name: 'Ada' }, { external_id: 'half \ud800' }, { topic: { subscribers: true } }],
    overrides: { providers: { fcm: JSON.parse('{"__proto__":{}}') } },
    unknown: true,
  };
  const before = [await countOf('broadcasts'), await countOf('jobs'), await countOf('users')];
  const problems = await send(wrong as unknown as NewBroadcast).then(
    () => [],
    (error: unknown) => (error instanceof ClientError ? error.problems.map(({ message }) => message) : error),
  );
  expect(problems).toHaveLength(7);
  const { status, body } = await service.project.call('POST', '/broadcasts', wrong);
  expect(status).toBe(422);
  const messages = body.errors.map(({ message }: { message: string }) => message);
  expect([...messages].sort()).toEqual([...(problems as string[])].sort());
  for (const field of [
    'title',
    'category',
    'recipients.0',
    'recipients.1',
    'topic',
    'overrides.providers.fcm',
  ])
    expect(messages.some((message: string) => message.includes(`'${field}`))).toBe(true);
  expect([await countOf('broadcasts'), await countOf('jobs'), await countOf('users')]).toEqual(before);
});
