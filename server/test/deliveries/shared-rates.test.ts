/** The rate limits that all nodes of a database share. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type Database, openDatabase, type Queryable, sql } from '../../src/db/client.ts';
import type { RateLimit, RatePermit } from '../../src/domain/line/sending/rate-limiter.ts';
import { purgeRateSchedules, SharedRateLimiter } from '../../src/domain/line/sending/shared-rate-limiter.ts';
import { newId } from '../../src/lib/ids.ts';
import { createLogger } from '../../src/lib/log.ts';
import { rateOf } from '../../src/providers/shared/max-per-second.ts';
import { createTestDatabase, type TestDatabase } from '../support/database.ts';
import { newSeed, randomFrom } from '../support/random.ts';

const START_MS = 1_800_000_000_000;
const log = createLogger({ level: 'silent' });
let database: TestDatabase;
let db: Database;

beforeAll(async () => {
  database = await createTestDatabase();
  db = openDatabase(database.connection, { size: 6, name: 'shared rates' });
});
afterAll(async () => {
  await db.close();
  await database.drop();
});

interface Node {
  limiter: SharedRateLimiter;
  /** How far its clock is ahead. */
  aheadMs: number;
  statements: number;
}

/** Nodes of the database. The cluster's clock is the clock of the database, too. */
class Cluster {
  readonly nodes: Node[];
  readonly limits: readonly RateLimit[];
  readonly random: () => number;
  /** The times of the permits that were given, by the right clock. */
  readonly sent: number[] = [];
  nowMs = START_MS;
  /** Called before and after each statement of a node. */
  onStatement: (node: number, when: 'before' | 'after') => Promise<void> = async () => {};

  constructor(aheadMs: readonly number[], limits: readonly RateLimit[], random = randomFrom(newSeed())) {
    this.limits = limits;
    this.random = random;
    this.nodes = aheadMs.map((ahead, n) => this.#start(ahead, n));
  }

  #start(aheadMs: number, n: number): Node {
    const node: Node = {
      aheadMs,
      statements: 0,
      limiter: new SharedRateLimiter({
        db: {
          query: async (statement, values) => {
            node.statements += 1;
            await this.onStatement(n, 'before');
            const rows = await db.query<object>(statement, values);
            const databaseMs = this.nowMs;
            await this.onStatement(n, 'after');
            return rows.map((row) => ({ ...row, database_ms: databaseMs })) as never;
          },
        } satisfies Queryable,
        clock: { now: () => this.nowMs + aheadMs },
        log,
      }),
    };
    return node;
  }

  async take(node: Node, targetId: string, hasReturned: boolean): Promise<RatePermit> {
    const nowMs = this.nowMs + node.aheadMs;
    const permit = await node.limiter.take(this.limits, targetId, nowMs, hasReturned);
    if ('waitMs' in permit) this.sent.push(this.nowMs + permit.waitMs);
    return permit;
  }

  /**
   * Sends messages that arrive together: each poll, a second apart, hands those that are due to nodes at
   * random. Returns when all were sent.
   */
  async sendAll(count: number): Promise<void> {
    const due = new Map(Array.from({ length: count }, (_, n) => [`t${n}`, this.nowMs]));
    const seen = new Set<string>();
    while (due.size > 0) {
      const coming = [...due].filter(([, atMs]) => atMs <= this.nowMs);
      await Promise.all(
        coming.map(async ([id]) => {
          const node = this.nodes[Math.floor(this.random() * this.nodes.length)] as Node;
          const permit = await this.take(node, id, seen.has(id));
          seen.add(id);
          if ('waitMs' in permit) due.delete(id);
          else due.set(id, permit.deferredUntilMs - node.aheadMs);
        }),
      );
      this.nowMs += 1_000;
    }
  }
}

const limitsOf = (...rates: RateLimit['rates'][number][]): RateLimit[] => [{ key: newId(), rates }];

/** The most that fall in any window of this length. */
function mostIn(times: readonly number[], windowMs: number): number {
  const sorted = times.toSorted((a, b) => a - b);
  return Math.max(...sorted.map((from) => sorted.filter((at) => at >= from && at < from + windowMs).length));
}

test.each([3, 10, 50])(
  'three nodes together send %d a second, evenly and at the whole rate',
  async (perSecond) => {
    const cluster = new Cluster([0, 0, 0], limitsOf(...rateOf({ max_per_second: perSecond })));
    const count = perSecond * 20;
    await cluster.sendAll(count);
    expect(cluster.sent).toHaveLength(count);
    expect(mostIn(cluster.sent, 1_000)).toBeLessThanOrEqual(perSecond);
    expect(mostIn(cluster.sent, Math.floor(1_000 / perSecond))).toBe(1);
    // 20 s of work, and hardly more.
    expect(Math.max(...cluster.sent) - START_MS).toBeLessThanOrEqual(23_000);
    // At most a few statements for each poll, however many messages wait.
    const statements = cluster.nodes.reduce((sum, node) => sum + node.statements, 0);
    expect(statements).toBeLessThanOrEqual(24 * 3 * 4);
  },
);

test('several windows hold at once, over all nodes', async () => {
  const rates = [
    { limit: 4, windowMs: 1_000 },
    { limit: 60, windowMs: 30_000 },
  ];
  const cluster = new Cluster([0, 0, 0], limitsOf(...rates));
  await cluster.sendAll(150);
  for (const { limit, windowMs } of rates) expect(mostIn(cluster.sent, windowMs)).toBeLessThanOrEqual(limit);
  expect(cluster.sent.filter((atMs) => atMs < START_MS + 30_000)).toHaveLength(60);
});

test('nodes whose clocks differ by some milliseconds keep to the limit', async () => {
  const cluster = new Cluster([-8, 0, 15], limitsOf(...rateOf({ max_per_second: 10 })));
  await cluster.sendAll(200);
  // A permit is at most 23 ms off.
  expect(mostIn(cluster.sent, 1_000 - 23)).toBeLessThanOrEqual(10);
});

test('a node that stops before or after it has written delays no other', async () => {
  const cluster = new Cluster([0, 0], limitsOf(...rateOf({ max_per_second: 10 })));
  const [first, second] = cluster.nodes as [Node, Node];
  for (const when of ['before', 'after'] as const) {
    const stopped = Promise.withResolvers<void>();
    const going = Promise.withResolvers<void>();
    cluster.onStatement = async (node, at) => {
      if (node !== 0 || at !== when) return;
      stopped.resolve();
      await going.promise;
    };
    const slow = cluster.take(first, `slow ${when}`, false);
    await stopped.promise;
    expect(await cluster.take(second, `other ${when}`, false)).toMatchObject({ waitMs: expect.any(Number) });
    cluster.nowMs += 20_000;
    going.resolve();
    const permit = await slow;
    // Its permit is stale, unless the write failed and it computed another one: for a statement that is as
    // slow, but not by more than a second.
    expect(permit).toEqual(
      when === 'before' ? { waitMs: 1_000 } : { deferredUntilMs: cluster.nowMs + 1_000 },
    );
  }
  expect(mostIn(cluster.sent, 100)).toBe(1);
});

test('promises of messages that do not come lapse for all nodes', async () => {
  const cluster = new Cluster([0, 0], limitsOf({ limit: 10, windowMs: 1_000 }));
  const [first, second] = cluster.nodes as [Node, Node];
  await Promise.all(Array.from({ length: 300 }, (_, n) => cluster.take(first, `t${n}`, false)));
  cluster.nowMs += 3_000;
  expect(await cluster.take(second, 'early', false)).toEqual({ deferredUntilMs: START_MS + 30_000 });
  cluster.nowMs += 7_000;
  expect(await cluster.take(second, 'new', false)).toEqual({ waitMs: 0 });
  expect(await cluster.take(first, 'newer', false)).toEqual({ waitMs: 0 });
});

test('a node whose statements are always late defers the message, and delays no other', async () => {
  const cluster = new Cluster([0, 0], limitsOf(...rateOf({ max_per_second: 1_000 })));
  const [first, second] = cluster.nodes as [Node, Node];
  let other: RatePermit | Promise<RatePermit> | undefined;
  cluster.onStatement = async (node, when) => {
    if (node !== 1 || when !== 'before') return;
    await cluster.take(first, newId(), false);
    if (second.statements === 3)
      other = second.limiter.take(limitsOf({ limit: 1, windowMs: 1_000 }), 'other', cluster.nowMs);
  };
  const permit = await cluster.take(second, 'late', false);
  expect(await other).toEqual({ waitMs: 0 });
  expect(second.statements).toBe(10);
  const { deferredUntilMs = 0 } = permit as { deferredUntilMs?: number };
  expect(deferredUntilMs).toBeGreaterThanOrEqual(START_MS + 50);
  expect(deferredUntilMs).toBeLessThanOrEqual(START_MS + 150);
  cluster.onStatement = async () => {};
  expect(await cluster.take(second, 'late', true)).toMatchObject({ waitMs: expect.any(Number) });
});

test.each([1, 2])('statements that take 900 ms do not exceed the limit (nodes: %d)', async (nodes) => {
  const cluster = new Cluster(Array(nodes).fill(0), limitsOf(...rateOf({ max_per_second: 10 })));
  cluster.onStatement = async (node, when) => {
    if (node === 0 && when === 'after') cluster.nowMs += 900;
  };
  await cluster.sendAll(100);
  expect(cluster.sent).toHaveLength(100);
  // A permit is at most 100 ms late.
  expect(mostIn(cluster.sent, 1_000)).toBeLessThanOrEqual(11);
  // 10 s of work; but polls are up to 1.9 s apart, and a permit is at most 1.25 s ahead.
  expect(Math.max(...cluster.sent) - START_MS).toBeLessThanOrEqual(25_000);
});

test('messages are deferred while the database is away, and the limit holds afterwards', async () => {
  const cluster = new Cluster([0, 0, 0], limitsOf(...rateOf({ max_per_second: 10 })));
  // Some of the statements are committed, and the connection is lost before the response.
  cluster.onStatement = async (node, when) => {
    const isAway = cluster.nowMs >= START_MS + 3_000 && cluster.nowMs < START_MS + 8_000;
    if (isAway && (when === 'before' ? node === 0 : node === 1)) throw new Error('the database is away');
  };
  await cluster.sendAll(150);
  expect(cluster.sent).toHaveLength(150);
  expect(mostIn(cluster.sent, 1_000)).toBeLessThanOrEqual(10);
  expect(Math.max(...cluster.sent) - START_MS).toBeLessThanOrEqual(30_000);
});

test('a clock that was wrong once stops nothing', async () => {
  const cluster = new Cluster([3_600_000, 0], limitsOf(...rateOf({ max_per_second: 1 })));
  const [wrong, right] = cluster.nodes as [Node, Node];
  await cluster.take(wrong, 'a', false);
  expect(await cluster.take(right, 'b', false)).toEqual({ waitMs: 0 });
  expect(await cluster.take(right, 'c', false)).toEqual({ waitMs: 1_000 });
});

test('a node whose clock lags drops no schedule', async () => {
  const cluster = new Cluster([0, -10_000], limitsOf(...rateOf({ max_per_second: 1 })));
  const [right, lagging] = cluster.nodes as [Node, Node];
  expect(await cluster.take(right, 'a', false)).toEqual({ waitMs: 0 });
  expect(await cluster.take(lagging, 'b', false)).toEqual({ deferredUntilMs: START_MS + 1_000 });
  expect(await cluster.take(right, 'c', false)).toEqual({ deferredUntilMs: START_MS + 2_000 });
});

test('a copy of a row that was purged does not replace a newer row', async () => {
  const cluster = new Cluster([0, 0], limitsOf(...rateOf({ max_per_second: 1 })));
  const [first, second] = cluster.nodes as [Node, Node];
  await cluster.take(first, 'a', false);
  await cluster.take(second, 'b', false);
  cluster.nowMs += 120_000;
  await purgeRateSchedules({ db, clock: { now: () => cluster.nowMs } });
  expect(await cluster.take(first, 'c', false)).toEqual({ waitMs: 0 });
  expect(await cluster.take(second, 'd', false)).toEqual({ waitMs: 1_000 });
});

test('the database has no address of a webhook, and forgets limits that are not used', async () => {
  const rates = [{ limit: 4, windowMs: 4_000 }];
  const cluster = new Cluster([0], [{ key: 'https://hooks.example.com/secret', rates }]);
  await cluster.take(cluster.nodes[0] as Node, 'a', false);
  const stored = () => db.query<{ key: string }>(sql('', 'select key from rate_schedules order by key'));
  expect(JSON.stringify(await stored())).not.toContain('hooks');
  expect(await stored()).not.toEqual([]);
  await purgeRateSchedules({ db, clock: { now: () => START_MS } });
  expect(await stored()).not.toEqual([]);
  await purgeRateSchedules({ db, clock: { now: () => START_MS + 30 * 86_400_000 } });
  expect(await stored()).toEqual([]);
  // A copy in the memory of a node is as good as the row.
  expect(await cluster.take(cluster.nodes[0] as Node, 'b', false)).toEqual({ waitMs: 0 });
});
