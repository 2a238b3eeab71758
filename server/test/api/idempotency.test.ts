import { createHash } from 'node:crypto';
import { Type } from 'typebox';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type Queryable, sql } from '../../src/db/client.ts';
import type { RealtimeMessage } from '../../src/domain/ground/bus/messages.ts';
import { purgeIdempotencyKeys, STORED_MS } from '../../src/domain/ground/requests/idempotency.ts';
import { Acceptor, sendBroadcast } from '../../src/domain/line/accept/send-broadcast.ts';
import { ClientError } from '../../src/errors.ts';
import { type App, projectRoute, userRoute } from '../../src/http/route.ts';
import { memberOf } from '../../src/lib/members.ts';
import { processed, startTestService, type TestService } from '../support/service.ts';
import { TestClock } from '../support/test-clock.ts';

const insertMark = sql(
  'insert_mark',
  `insert into preferences (user_id, category, channel, enabled, updated_at)
  values ($1, $2, gen_random_uuid(), true, now())`,
);
const Body = Type.Object(
  { mark: Type.String(), outcome: Type.Optional(Type.String()) },
  { additionalProperties: false },
);
const Reply = Type.Object({ mark: Type.String(), at: Type.Number() });

const waiting = sql(
  'waiting',
  "select 1 from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'",
);

let attempts = 0;
let calls = 0;
const effects: string[] = [];

const held = { entered: Promise.withResolvers<void>(), open: Promise.withResolvers<void>() };

/** Routes whose handler writes a row, publishes a message and has an effect. */
function markRoutes(app: App): void {
  const common = {
    method: 'POST',
    summary: 'Mark',
    description: 'For this test.',
    tags: ['Test'],
    body: Body,
    alsoWrong: ({ body }: { body: unknown }) =>
      memberOf(body, 'mark') === 'unfit' ? ["Param 'mark' does not fit"] : [],
    reply: { 201: Reply },
  } as const;
  projectRoute(app, {
    ...common,
    tags: ['Test'],
    url: '/marks',
    operationId: 'mark',
    async handler({ project, body, context, afterCommit }) {
      calls += 1;
      await context.db.transaction((tx) => tx.query(insertMark, [project.id, body.mark]));
      context.bus.publish({ type: 'project_changed', projectId: body.mark });
      afterCommit(() => effects.push(body.mark));
      if (body.outcome === 'forbid once' && attempts++ === 0) throw new ClientError('forbidden');
      if (body.outcome === 'limit once' && attempts++ === 0) throw new ClientError('rate_limit_exceeded');
      if (body.outcome === 'refuse') throw new ClientError('not_found', ['There is no such mark']);
      if (body.outcome === 'fail once' && attempts++ === 0) throw new Error('a bug that comes and goes');
      if (body.outcome === 'break') await context.db.query(sql('broken', 'select 1/0'));
      return { mark: body.mark, at: calls };
    },
  });
  projectRoute(app, {
    ...common,
    tags: ['Test'],
    url: '/far-marks',
    operationId: 'markFarAway',
    idempotency: 'claimed',
    async handler({ body }) {
      held.entered.resolve();
      await held.open.promise;
      return { mark: body.mark, at: ++calls };
    },
  });
  userRoute(app, {
    ...common,
    tags: ['Test'],
    url: '/my/marks',
    operationId: 'markMine',
    handler: async ({ body }) => ({ mark: body.mark, at: ++calls }),
  });
}

type Idempotency = typeof import('../../src/domain/ground/requests/idempotency.ts');

/** Another instance of the module, which shares no memory, as in another process. */
async function otherProcess(): Promise<Idempotency> {
  instances += 1;
  const url = `../../src/domain/ground/requests/idempotency.ts?instance=${instances}`;
  return (await import(/* @vite-ignore */ url)) as Idempotency;
}
let instances = 0;

/** The key of a request, as the server builds it. */
function keyOf(module: Idempotency, scope: string, path: string, key: string, body: object) {
  const hash = createHash('sha256').update(JSON.stringify(body)).digest();
  return { projectId: it.project.id, scope, key, requestHash: module.requestHash(path, hash) };
}

function counting(db: Queryable, onQuery: () => void): Queryable {
  return {
    query(statement, values) {
      onQuery();
      return db.query(statement, values);
    },
  };
}

const clock = new TestClock();
const messages: RealtimeMessage[] = [];
let it: TestService;
beforeAll(async () => {
  it = await startTestService({ clock, http: { routes: markRoutes } });
  it.context.bus.subscribe((message) => messages.push(message));
});
afterAll(() => it.stop());

const mark = (key: string | undefined, body: object, token = it.project.jwt, path = '/v2/marks') =>
  it.request('POST', path, { token, body, headers: key === undefined ? {} : { 'idempotency-key': key } });
const send = (name: string, key: string) =>
  it.project.call(
    'POST',
    '/broadcasts',
    { title: 'Keyed', recipients: [{ external_id: name }] },
    { 'idempotency-key': key },
  );
const rowsOf = async (name: string) =>
  (
    await it.context.db.query<{ count: number }>(
      sql('count_marks', 'select count(*) from preferences where category = $1'),
      [name],
    )
  )[0]?.count;
const published = (name: string) =>
  messages.filter((message) => message.type === 'project_changed' && message.projectId === name).length;

describe('an Idempotency-Key', () => {
  test('gives a repeated request the same response, byte for byte, and no second effect', async () => {
    const first = await mark('k1', { mark: 'once' });
    const second = await mark('k1', { mark: 'once' });
    expect([first.status, first.headers.get('idempotency-replayed')]).toEqual([201, null]);
    expect([second.status, second.headers.get('idempotency-replayed'), second.text]).toEqual([
      201,
      'true',
      first.text,
    ]);
    expect(second.headers.get('content-type')).toBe(first.headers.get('content-type'));
    expect([
      await rowsOf('once'),
      published('once'),
      effects.filter((name) => name === 'once').length,
    ]).toEqual([1, 1, 1]);
  });

  test('is a conflict with another body or query', async () => {
    await mark('k2', { mark: 'a' });
    const response = await mark('k2', { mark: 'b' });
    expect([response.status, response.codes]).toEqual([409, ['idempotency_conflict']]);
    expect((await mark('k2', { mark: 'a' }, it.project.jwt, '/v2/marks?x=1')).status).toBe(409);
    expect(await rowsOf('b')).toBe(0);
  });

  test('on 50 parallel requests has one effect and one response', async () => {
    const responses = await Promise.all(Array.from({ length: 50 }, () => mark('k3', { mark: 'crowd' })));
    expect(new Set(responses.map(({ status, text }) => `${status} ${text}`)).size).toBe(1);
    expect(responses.filter(({ headers }) => headers.get('idempotency-replayed') === 'true')).toHaveLength(
      49,
    );
    expect([await rowsOf('crowd'), published('crowd')]).toEqual([1, 1]);
  });

  test('in use by another process waits for its commit and gets the same response', async () => {
    const elsewhere = await otherProcess();
    const entered = Promise.withResolvers<void>();
    const open = Promise.withResolvers<void>();
    const key = keyOf(elsewhere, 'mark', '/v2/marks', 'k4', { mark: 'twin' });
    const first = elsewhere.runOnce(it.context, key, async () => {
      entered.resolve();
      await open.promise;
      return { status: 201, body: '{"mark":"twin","at":1}' };
    });
    await entered.promise;
    const second = mark('k4', { mark: 'twin' });
    await expect.poll(async () => (await it.context.db.query(waiting)).length).toBe(1);
    open.resolve();
    await first;
    const response = await second;
    expect([response.status, response.text, response.headers.get('idempotency-replayed')]).toEqual([
      201,
      '{"mark":"twin","at":1}',
      'true',
    ]);
    expect(await rowsOf('twin')).toBe(0);
  });

  test('claimed by another node for a network call waits for the response and gets the same', async () => {
    const elsewhere = await otherProcess();
    const key = keyOf(elsewhere, 'markFarAway', '/v2/far-marks', 'k4b', { mark: 'far twin' });
    const first = mark('k4b', { mark: 'far twin' }, it.project.jwt, '/v2/far-marks');
    await held.entered.promise;
    // It finds the key during the first request, so it must look again.
    let lookups = 0;
    const second = elsewhere.runOnceClaimed(
      { db: counting(it.context.db, () => ++lookups), clock },
      key,
      () => {
        throw new Error('ran twice');
      },
    );
    await expect.poll(() => lookups).toBeGreaterThan(2);
    await expect(
      (await otherProcess()).runOnceClaimed(it.context, { ...key, requestHash: Buffer.alloc(32) }, () => {
        throw new Error('ran twice');
      }),
    ).rejects.toMatchObject({ code: 'idempotency_conflict' });
    held.open.resolve();
    const { status, text } = await first;
    expect(await second).toMatchObject({ status, body: text, replayed: true });
  });

  test('claimed by a request that failed is free for the one that waits', async () => {
    const elsewhere = await otherProcess();
    const key = keyOf(elsewhere, 'markFarAway', '/v2/far-marks', 'k4c', { mark: 'far' });
    const entered = Promise.withResolvers<void>();
    const fail = Promise.withResolvers<never>();
    const first = elsewhere.runOnceClaimed(it.context, key, () => {
      entered.resolve();
      return fail.promise;
    });
    await entered.promise;
    const second = mark('k4c', { mark: 'far' }, it.project.jwt, '/v2/far-marks');
    fail.reject(new ClientError('service_unavailable'));
    await expect(first).rejects.toMatchObject({ code: 'service_unavailable' });
    const response = await second;
    expect([response.status, response.headers.get('idempotency-replayed')]).toEqual([201, null]);
  });

  test('stores a refusal, whose effects are rolled back', async () => {
    const first = await mark('k5', { mark: 'refused', outcome: 'refuse' });
    const second = await mark('k5', { mark: 'refused', outcome: 'refuse' });
    expect([first.status, first.messages, first.headers.get('idempotency-replayed')]).toEqual([
      404,
      ['There is no such mark'],
      null,
    ]);
    expect([second.status, second.text, second.headers.get('idempotency-replayed')]).toEqual([
      404,
      first.text,
      'true',
    ]);
    expect([await rowsOf('refused'), published('refused'), effects.includes('refused')]).toEqual([
      0,
      0,
      false,
    ]);
  });

  test('stores no 5xx, so the request can be retried', async () => {
    expect((await mark('k6', { mark: 'flaky', outcome: 'fail once' })).status).toBe(500);
    expect([await rowsOf('flaky'), published('flaky')]).toEqual([0, 0]);
    const second = await mark('k6', { mark: 'flaky', outcome: 'fail once' });
    expect([second.status, second.headers.get('idempotency-replayed'), await rowsOf('flaky')]).toEqual([
      201,
      null,
      1,
    ]);
    expect((await mark('k7', { mark: 'broken', outcome: 'break' })).status).toBe(500);
    expect(await rowsOf('broken')).toBe(0);
  });

  test('stores no validation error, so the corrected request may use it', async () => {
    expect((await mark('k8', { mark: 5 })).status).toBe(422);
    expect((await mark('k8', { mark: 'repaired' })).status).toBe(201);
  });

  test('stores no validation error that a schema cannot express', async () => {
    const first = await mark('k8b', { mark: 'unfit' });
    expect([first.status, first.messages]).toEqual([422, ["Param 'mark' does not fit"]]);
    expect((await mark('k8b', { mark: 'repaired too' })).status).toBe(201);
  });

  test.each([
    [403, 'forbid once'],
    [429, 'limit once'],
  ])('keeps no %i of the operation: the repeat runs', async (status, outcome) => {
    attempts = 0;
    const body = { mark: `refused with ${status}`, outcome };
    expect((await mark(`k-${status}`, body)).status).toBe(status);
    expect(await rowsOf(body.mark)).toBe(0);
    const second = await mark(`k-${status}`, body);
    expect([second.status, second.headers.get('idempotency-replayed')]).toEqual([201, null]);
  });

  test('on two broadcasts that fail together in the database gives both the failure', async () => {
    const failure = Object.assign(new Error('disk full'), { code: '53100' });
    const query: Queryable['query'] = (statement, values) =>
      statement.name.startsWith('accept') ? Promise.reject(failure) : it.context.db.query(statement, values);
    const db = { ...it.context.db, query };
    const producer = { isIdle: true, reserve: () => undefined, runs: () => false, wake: () => {} };
    const acceptor = new Acceptor({ ...it.http.context, db }, producer);
    const twin = { title: 'Twin', recipients: null };
    const key = keyOf(await otherProcess(), 'createBroadcast', '/v2/broadcasts', 'k11', {});
    const send = () =>
      sendBroadcast({ ...it.http.context, acceptor }, it.project, twin, { idempotency: key });
    const results = await Promise.allSettled([send(), send()]);
    expect(results).toEqual([
      { status: 'rejected', reason: failure },
      { status: 'rejected', reason: failure },
    ]);
  });

  test('is separate for each project, user and operation', async () => {
    const other = await it.createProject('other');
    const [ann, bob] = [
      it.project.userJwt({ user_external_id: 'ann' }),
      it.project.userJwt({ user_external_id: 'bob' }),
    ];
    const responses = [
      await mark('k9', { mark: 'own' }),
      await mark('k9', { mark: 'own' }, other.jwt),
      await mark('k9', { mark: 'own' }, ann, '/v2/my/marks'),
      await mark('k9', { mark: 'own' }, bob, '/v2/my/marks'),
    ];
    for (const response of responses)
      expect([response.status, response.headers.get('idempotency-replayed')]).toEqual([201, null]);
    expect(new Set(responses.map(({ text }) => text)).size).toBe(4);
    expect((await mark('k9', { mark: 'own' }, ann, '/v2/my/marks')).text).toBe(responses[2]?.text);
  });

  test('has 1 to 255 visible characters', async () => {
    for (const key of ['', 'a b', 'x'.repeat(256), 'é']) {
      const response = await mark(key, { mark: 'x' });
      expect([response.status, response.messages], key).toEqual([
        422,
        ["Header 'Idempotency-Key' must have 1 to 255 visible ASCII characters"],
      ]);
    }
    expect((await mark('~'.repeat(255), { mark: 'x' })).status).toBe(201);
  });

  test('is stored for exactly 24 hours, then purged in batches', async () => {
    clock.stop();
    const first = await mark('k10', { mark: 'aged' });
    clock.advance(STORED_MS - 1);
    expect((await mark('k10', { mark: 'aged' })).text).toBe(first.text);
    clock.advance(1);
    const retried = await mark('k10', { mark: 'aged' });
    expect([retried.status, retried.headers.get('idempotency-replayed')]).toEqual([201, null]);
    expect(await rowsOf('aged')).toBe(2);
    expect((await mark('k10', { mark: 'aged' })).text).toBe(retried.text);
    const all = async () =>
      (
        await it.context.db.query<{ count: number }>(
          sql('count_keys', 'select count(*) from idempotency_keys'),
        )
      )[0]?.count;
    const before = (await all()) ?? 0;
    expect(await purgeIdempotencyKeys(it.context, 2)).toBe(2);
    while ((await purgeIdempotencyKeys(it.context, 2)) === 2);
    expect([before > 3, await all()]).toEqual([true, 1]);
    expect((await mark('k10', { mark: 'aged' })).text).toBe(retried.text);
  });

  // Its key is claimed by the statement that writes it, with its job or with its notifications.
  test.each([
    ['new', () => crypto.randomUUID()],
    ['known', () => 'known'],
  ])(
    'of a broadcast to %s users is stored for exactly 24 hours, and for its body alone',
    async (_, nameOf) => {
      const { call } = it.project;
      await processed(call, (await send('known', crypto.randomUUID())).body.id);
      const [name, key] = [nameOf(), crypto.randomUUID()];
      clock.stop();
      const first = await send(name, key);
      clock.advance(STORED_MS - 1);
      const second = await send(name, key);
      expect([second.text, second.headers.get('idempotency-replayed')]).toEqual([first.text, 'true']);
      expect((await send(`not ${name}`, key)).codes).toEqual(['idempotency_conflict']);
      clock.advance(1);
      const third = await send(name, key);
      expect([third.status, third.headers.get('idempotency-replayed')]).toEqual([201, null]);
      expect(third.body.id).not.toBe(first.body.id);
      expect((await send(name, key)).text).toBe(third.text);
      const [stored] = await it.rows<{ count: number }>(
        'select count(*)::int as count from broadcasts where id = any ($1::uuid[])',
        [[first.body.id, third.body.id]],
      );
      expect(stored).toEqual({ count: 2 });
    },
  );

  test('is optional: without one, every request has an effect', async () => {
    await mark(undefined, { mark: 'free' });
    await mark(undefined, { mark: 'free' });
    expect([await rowsOf('free'), published('free')]).toEqual([2, 2]);
  });
});
