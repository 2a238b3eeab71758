import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type Database, openDatabase, type Queryable } from '../../src/db/client.ts';
import type { Bus, RealtimeMessage } from '../../src/domain/ground/bus/messages.ts';
import { purgeRateWindows, SharedWindows } from '../../src/domain/ground/requests/rate-windows.ts';
import { newId } from '../../src/lib/ids.ts';
import { createTestDatabase, type TestDatabase } from '../support/database.ts';
import { newSeed, randomFrom } from '../support/random.ts';

let database: TestDatabase;
let db: Database;
let writes = 0;
let nowMs = 1_800_000_000_000;
const clock = { now: () => nowMs };

beforeAll(async () => {
  database = await createTestDatabase();
  db = openDatabase(database.connection, { size: 6, name: 'rates' });
});
afterAll(async () => {
  await db.close();
  await database.drop();
});

/** Passes the messages of a node to all nodes, as the bus does. */
function newBus(): Bus {
  const handlers = new Set<(message: RealtimeMessage) => void>();
  return {
    publish: (message) => {
      for (const handler of handlers) handler(message);
    },
    subscribe: (handler) => {
      handlers.add(handler);
      return () => handlers.delete(handler);
    },
  };
}

const counting: Queryable = {
  query: (statement, values) => {
    writes += 1;
    return db.query(statement, values);
  },
};

function nodes(number: number): SharedWindows[] {
  const bus = newBus();
  return Array.from(
    { length: number },
    () => new SharedWindows({ db: counting, clock, bus, nodeId: newId() }),
  );
}
const close = (all: SharedWindows[]) => Promise.all(all.map((node) => node.close()));

/** How many of consecutive requests are allowed. */
async function allowed(
  times: number,
  limit: number,
  name: string,
  next: () => SharedWindows,
): Promise<number> {
  let count = 0;
  for (let index = 0; index < times; index += 1) if ((await next().take(name, limit)).allowed) count += 1;
  return count;
}

describe('nodes that share a rate limit', () => {
  test('allow exactly the limit, however the requests are distributed', async () => {
    const seed = newSeed();
    console.info(`rate windows: FAULT_SEED=${seed}`);
    const random = randomFrom(seed);
    const all = nodes(3);
    for (const limit of [1, 5, 60, 200, 250, 1_000]) {
      const picks: (() => SharedWindows)[] = [
        () => all[Math.floor(random() * 3)] as SharedWindows,
        () => all[random() < 0.95 ? 0 : 1] as SharedWindows,
      ];
      for (const [index, pick] of picks.entries())
        expect(await allowed(limit + 20, limit, `${limit}-${index}`, pick), `limit ${limit}`).toBe(limit);
    }
    await close(all);
  });

  test('allow exactly the limit of concurrent requests', async () => {
    const all = nodes(3);
    const taken = await Promise.all(
      Array.from({ length: 600 }, async (_, index) => (all[index % 3] as SharedWindows).take('at once', 250)),
    );
    expect(taken.filter((one) => one.allowed)).toHaveLength(250);
    await close(all);
  });

  test('return unused permits when another node needs them', async () => {
    const [idle, busy] = nodes(2) as [SharedWindows, SharedWindows];
    expect(await allowed(1, 600, 'uneven', () => idle)).toBe(1); // and keeps nine more
    expect(await allowed(620, 600, 'uneven', () => busy)).toBe(599);
    await close([idle, busy]);
  });

  test('allow requests again as the last minute moves on, second by second', async () => {
    const all = nodes(2);
    const either = () => all[Math.floor(nowMs / 1_000) % 2] as SharedWindows;
    expect(await allowed(10, 30, 'sliding', either)).toBe(10);
    nowMs += 10_000;
    expect(await allowed(40, 30, 'sliding', either)).toBe(20);
    nowMs += 49_000;
    const refused = await either().take('sliding', 30);
    expect(refused).toEqual({ allowed: false, remaining: 0, resetSeconds: 1 });
    nowMs += 1_000;
    expect(await allowed(40, 30, 'sliding', either)).toBe(10);
    nowMs += 60_000;
    expect(await allowed(40, 30, 'sliding', either)).toBe(30);
    await close(all);
  });

  test('write once per second, not per request', async () => {
    const all = nodes(2);
    writes = 0;
    expect(await allowed(6_000, 60_000, 'busy', () => all[0] as SharedWindows)).toBe(6_000);
    expect(writes).toBeLessThanOrEqual(7);
    await close(all);
  });

  test('work even if each statement takes longer than a second', async () => {
    const slow: Queryable = {
      query: async (statement, values) => {
        const rows = await counting.query<never>(statement, values);
        nowMs += 1_100;
        return rows;
      },
    };
    const node = new SharedWindows({ db: slow, clock, bus: newBus(), nodeId: newId() });
    writes = 0;
    const taken = await Promise.all(Array.from({ length: 20 }, async () => node.take('slow', 10)));
    expect(taken.filter((one) => one.allowed)).toHaveLength(10);
    expect(writes).toBeLessThanOrEqual(20);
    await node.close();
  });

  test('lose no permit to a node whose clock is wrong', async () => {
    const bus = newBus();
    const [early, late] = [-3_000, 3_000].map(
      (skew) => new SharedWindows({ db, bus, nodeId: newId(), clock: { now: () => nowMs + skew } }),
    ) as [SharedWindows, SharedWindows];
    let turn = 0;
    expect(await allowed(150, 100, 'skewed', () => (turn++ % 2 ? early : late))).toBe(100);
    await close([early, late]);
  });

  test('start over after a clock was corrected by an hour', async () => {
    const all = nodes(2);
    const either = () => all[writes % 2] as SharedWindows;
    nowMs += 3_600_000;
    expect(await allowed(30, 20, 'put right', either)).toBe(20);
    nowMs -= 3_600_000;
    expect(await allowed(30, 20, 'put right', either)).toBe(20);
    nowMs += 60_000;
    expect(await allowed(30, 20, 'put right', either)).toBe(20);
    await close(all);
  });

  test('forget unused windows', async () => {
    nowMs += 130_000;
    await purgeRateWindows({ db, clock });
    expect(await db.query({ name: 'windows_left', text: 'select name from rate_windows' })).toEqual([]);
  });
});

test('a node that refused a request refuses others in the same second without a statement', async () => {
  const [node] = nodes(1) as [SharedWindows];
  expect(node.refusal('known', 2)).toBeUndefined();
  for (let times = 0; times < 2; times += 1) expect((await node.take('known', 2)).allowed).toBe(true);
  expect((await node.take('known', 2)).allowed).toBe(false);
  writes = 0;
  expect(node.refusal('known', 2)).toMatchObject({ allowed: false, remaining: 0 });
  nowMs += 1_000;
  expect(node.refusal('known', 2)).toBeUndefined();
  expect(writes).toBe(0);
  await close([node]);
});
