import { createHash } from 'node:crypto';
import { Type } from 'typebox';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type Queryable, sql } from '../../src/db/client.ts';
import { purgeIdempotencyKeys, STORED_MS } from '../../src/domain/ground/requests/idempotency.ts';
import { Acceptor, sendBroadcast } from '../../src/domain/line/accept/send-broadcast.ts';
import { ClientError } from '../../src/errors.ts';
import { type App, projectRoute, userRoute } from '../../src/http/route.ts';
import { memberOf } from '../../src/lib/members.ts';
import { newProject, startTestServer, type TestServer } from '../support/http.ts';

const insertMark = sql(
  'insert_mark',
  'insert into preferences (user_id, category, channel, enabled, updated_at) values ($1, $2, gen_random_uuid(), true, now())',
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

/** Each call that is not a replay leaves a row, a message and an effect behind. */
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

/** Another instance of the module stands for another process: they share nothing in memory. */
async function otherProcess(): Promise<Idempotency> {
  instances += 1;
  const url = `../../src/domain/ground/requests/idempotency.ts?instance=${instances}`;
  return (await import(/* @vite-ignore */ url)) as Idempotency;
}
let instances = 0;

/** The key as the server makes it of a request. */
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

let it: TestServer;
beforeAll(async () => {
  it = await startTestServer({ routes: markRoutes });
});
afterAll(() => it.close());

const mark = (key: string | undefined, body: object, token = it.project.jwt, path = '/v2/marks') =>
  it.call('POST', path, { token, body, headers: key === undefined ? {} : { 'idempotency-key': key } });
const rowsOf = async (name: string) =>
  (
    await it.db.query<{ count: number }>(
      sql('count_marks', 'select count(*) from preferences where category = $1'),
      [name],
    )
  )[0]?.count;
const published = (name: string) =>
  it.published.filter((message) => message.type === 'project_changed' && message.projectId === name).length;

describe('an Idempotency-Key', () => {
  test('makes the repeat get the first answer, byte for byte, and nothing happen twice', async () => {
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

  test('used for another body or query is a conflict', async () => {
    await mark('k2', { mark: 'a' });
    const answer = await mark('k2', { mark: 'b' });
    expect([answer.status, answer.codes]).toEqual([409, ['idempotency_conflict']]);
    expect((await mark('k2', { mark: 'a' }, it.project.jwt, '/v2/marks?x=1')).status).toBe(409);
    expect(await rowsOf('b')).toBe(0);
  });

  test('on 50 parallel requests has one effect and one answer', async () => {
    const answers = await Promise.all(Array.from({ length: 50 }, () => mark('k3', { mark: 'crowd' })));
    expect(new Set(answers.map(({ status, text }) => `${status} ${text}`)).size).toBe(1);
    expect(answers.filter(({ headers }) => headers.get('idempotency-replayed') === 'true')).toHaveLength(49);
    expect([await rowsOf('crowd'), published('crowd')]).toEqual([1, 1]);
  });

  test('that another process has in hand waits for its commit and is answered the same', async () => {
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
    await expect.poll(async () => (await it.db.query(waiting)).length).toBe(1);
    open.resolve();
    await first;
    const answer = await second;
    expect([answer.status, answer.text, answer.headers.get('idempotency-replayed')]).toEqual([
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
    // Looks a first time while the first request is under way, and must look a second time.
    let looks = 0;
    const second = elsewhere.runOnceClaimed(
      { db: counting(it.db, () => ++looks), clock: it.clock },
      key,
      () => {
        throw new Error('ran twice');
      },
    );
    await expect.poll(() => looks).toBeGreaterThan(2);
    await expect(
      (await otherProcess()).runOnceClaimed(it.context, { ...key, requestHash: Buffer.alloc(32) }, () => {
        throw new Error('ran twice');
      }),
    ).rejects.toMatchObject({ code: 'idempotency_conflict' });
    held.open.resolve();
    const { status, text } = await first;
    expect(await second).toMatchObject({ status, body: text, replayed: true });
  });

  test('claimed by a request that failed is used by the one that waits', async () => {
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
    const answer = await second;
    expect([answer.status, answer.headers.get('idempotency-replayed')]).toEqual([201, null]);
  });

  test('keeps a refusal, whose effects are undone', async () => {
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

  test('keeps no 5xx: the repeat is tried anew', async () => {
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

  test('keeps no validation error: the repaired request may use it', async () => {
    expect((await mark('k8', { mark: 5 })).status).toBe(422);
    expect((await mark('k8', { mark: 'repaired' })).status).toBe(201);
  });

  test('keeps no validation error that a schema cannot express', async () => {
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

  test('on two broadcasts that the database fails together: both get the failure, and no conflict', async () => {
    const failure = Object.assign(new Error('disk full'), { code: '53100' });
    const query: Queryable['query'] = (statement, values) =>
      statement.name.startsWith('accept') ? Promise.reject(failure) : it.db.query(statement, values);
    const db = { ...it.db, query };
    const producer = { reserve: () => undefined, wake: () => {} };
    const acceptor = new Acceptor({ ...it.context, db }, producer);
    const json = Buffer.from('{"title":"Twin","recipients":null}');
    const twin = { title: 'Twin', recipients: null };
    const key = keyOf(await otherProcess(), 'createBroadcast', '/v2/broadcasts', 'k11', {});
    const send = () =>
      sendBroadcast({ ...it.context, acceptor }, it.project, twin, { raw: { json }, idempotency: key });
    const results = await Promise.allSettled([send(), send()]);
    expect(results).toEqual([
      { status: 'rejected', reason: failure },
      { status: 'rejected', reason: failure },
    ]);
  });

  test("is the project's own, and the user's, and the operation's", async () => {
    const other = await newProject(it.context, 'other');
    const [ann, bob] = [it.userJwt({ user_external_id: 'ann' }), it.userJwt({ user_external_id: 'bob' })];
    const answers = [
      await mark('k9', { mark: 'own' }),
      await mark('k9', { mark: 'own' }, other.jwt),
      await mark('k9', { mark: 'own' }, ann, '/v2/my/marks'),
      await mark('k9', { mark: 'own' }, bob, '/v2/my/marks'),
    ];
    for (const answer of answers)
      expect([answer.status, answer.headers.get('idempotency-replayed')]).toEqual([201, null]);
    expect(new Set(answers.map(({ text }) => text)).size).toBe(4);
    expect((await mark('k9', { mark: 'own' }, ann, '/v2/my/marks')).text).toBe(answers[2]?.text);
  });

  test('has 1 to 255 visible characters', async () => {
    for (const key of ['', 'a b', 'x'.repeat(256), 'é']) {
      const answer = await mark(key, { mark: 'x' });
      expect([answer.status, answer.messages], key).toEqual([
        422,
        ["Header 'Idempotency-Key' must have 1 to 255 visible ASCII characters"],
      ]);
    }
    expect((await mark('~'.repeat(255), { mark: 'x' })).status).toBe(201);
  });

  test('is kept for 24 hours and not longer, then purged in batches', async () => {
    const first = await mark('k10', { mark: 'aged' });
    it.clock.advance(STORED_MS - 5_000);
    expect((await mark('k10', { mark: 'aged' })).text).toBe(first.text);
    it.clock.advance(5_001);
    const anew = await mark('k10', { mark: 'aged' });
    expect([anew.status, anew.headers.get('idempotency-replayed')]).toEqual([201, null]);
    expect(await rowsOf('aged')).toBe(2);
    expect((await mark('k10', { mark: 'aged' })).text).toBe(anew.text);
    const all = async () =>
      (await it.db.query<{ count: number }>(sql('count_keys', 'select count(*) from idempotency_keys')))[0]
        ?.count;
    const before = (await all()) ?? 0;
    expect(await purgeIdempotencyKeys(it.context, 2)).toBe(2);
    while ((await purgeIdempotencyKeys(it.context, 2)) === 2);
    expect([before > 3, await all()]).toEqual([true, 1]);
    expect((await mark('k10', { mark: 'aged' })).text).toBe(anew.text);
  });

  test('is not needed: without one every request counts', async () => {
    await mark(undefined, { mark: 'free' });
    await mark(undefined, { mark: 'free' });
    expect([await rowsOf('free'), published('free')]).toEqual([2, 2]);
  });
});
