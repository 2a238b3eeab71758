import { describe, expect, test } from 'vitest';
import type { Rate } from '../../../providers/provider.ts';
import { rateOf } from '../../../providers/shared/max-per-second.ts';
import { IN_PLACE_MS, type RateLimit, RateLimiter } from './rate-limiter.ts';

const TEAMS: Rate[] = [
  { limit: 4, windowMs: 1_000 },
  { limit: 60, windowMs: 30_000 },
  { limit: 100, windowMs: 3_600_000 },
  { limit: 150, windowMs: 7_200_000 },
  { limit: 1_800, windowMs: 86_400_000 },
];
const on = (key: string, ...rates: Rate[]): RateLimit => ({ key, rates });

/** The most that fall in any window of this length. */
function mostIn(times: readonly number[], windowMs: number): number {
  const sorted = times.toSorted((a, b) => a - b);
  let most = 0;
  let from = 0;
  sorted.forEach((atMs, to) => {
    while ((sorted[from] ?? 0) <= atMs - windowMs) from += 1;
    most = Math.max(most, to - from + 1);
  });
  return most;
}

/**
 * Sends to all targets. Each comes back at its reserved time, or `late()` later. Returns the times of the
 * sends, in their order.
 */
function run(
  limiter: RateLimiter,
  limits: RateLimit[],
  targets: readonly { id: string; atMs: number }[],
  late = () => 0,
): { id: string; atMs: number; asked: number }[] {
  const coming = targets.map((target) => ({ ...target, asked: 0 })).sort((a, b) => a.atMs - b.atMs);
  const sent: typeof coming = [];
  for (;;) {
    const next = coming.shift();
    if (next === undefined) return sent;
    next.asked += 1;
    const permit = limiter.take(limits, next.id, next.atMs);
    if ('waitMs' in permit) sent.push({ ...next, atMs: next.atMs + permit.waitMs });
    else enqueue(coming, { ...next, atMs: permit.deferredUntilMs + late() });
  }
}

/**
 * Puts it behind all that come at the same time or earlier. To sort the whole queue each time is a thousand
 * times as much work.
 */
function enqueue<One extends { atMs: number }>(queue: One[], one: One): void {
  let [from, to] = [0, queue.length];
  while (from < to) {
    const middle = (from + to) >>> 1;
    if ((queue[middle]?.atMs ?? 0) <= one.atMs) from = middle + 1;
    else to = middle;
  }
  queue.splice(from, 0, one);
}

const burst = (count: number, atMs = 0) => Array.from({ length: count }, (_, n) => ({ id: `t${n}`, atMs }));
const timesOf = (sent: readonly { atMs: number }[]) => sent.map(({ atMs }) => atMs);

test('without limits nothing waits and nothing is remembered', () => {
  const limiter = new RateLimiter();
  expect(limiter.take([], 'a', 0)).toEqual({ waitMs: 0 });
  expect(limiter.size).toEqual({ keys: 0, bytes: 0, reservations: 0 });
});

test('a permit within 1.25 s is waited for, a later one is reserved', () => {
  const limiter = new RateLimiter();
  const limits = [on('k', { limit: 10, windowMs: 5_000 })];
  for (let n = 0; n < 10; n += 1) expect(limiter.take(limits, `a${n}`, n * 20)).toEqual({ waitMs: 0 });
  expect(limiter.take(limits, 'b', 4_999 - IN_PLACE_MS)).toEqual({ deferredUntilMs: 5_000 });
  expect(limiter.take(limits, 'c', 5_020 - IN_PLACE_MS)).toEqual({ waitMs: IN_PLACE_MS });
});

test('a reservation has its permit before later callers', () => {
  const limiter = new RateLimiter();
  const limits = [on('k', { limit: 1, windowMs: 5_000 })];
  expect(limiter.take(limits, 'a', 0)).toEqual({ waitMs: 0 });
  expect(limiter.take(limits, 'b', 0)).toEqual({ deferredUntilMs: 5_000 });
  expect(limiter.take(limits, 'c', 4_990)).toEqual({ deferredUntilMs: 10_000 });
  expect(limiter.take(limits, 'd', 5_000)).toEqual({ deferredUntilMs: 15_000 });
  expect(limiter.take(limits, 'b', 5_000)).toEqual({ waitMs: 0 });
  expect(limiter.take(limits, 'c', 10_000)).toEqual({ waitMs: 0 });
  expect(limiter.size.reservations).toBe(1);
});

test('a caller that returns too early keeps its reservation', () => {
  const limiter = new RateLimiter();
  const limits = [on('k', { limit: 1, windowMs: 5_000 })];
  limiter.take(limits, 'a', 0);
  expect(limiter.take(limits, 'b', 0)).toEqual({ deferredUntilMs: 5_000 });
  expect(limiter.take(limits, 'b', 3_000)).toEqual({ deferredUntilMs: 5_000 });
  expect(limiter.take(limits, 'b', 4_800)).toEqual({ waitMs: 200 });
});

test('callers that return late at once are no faster, and not behind later ones', () => {
  const limiter = new RateLimiter();
  const limits = [on('k', { limit: 2, windowMs: 2_000 })];
  for (const { id } of burst(6)) limiter.take(limits, id, 0);
  // The due times are 0, 0, 2, 2, 4 and 4 s. The last four return at 60 s, with another one.
  const sent = run(limiter, limits, [...burst(6, 60_000).slice(2), { id: 'later', atMs: 60_000 }]);
  expect(sent.map(({ id }) => id)).toEqual(['t2', 't3', 't4', 't5', 'later']);
  expect(mostIn(timesOf(sent), 2_000)).toBe(2);
});

test('keeps to all of several windows, exactly and as fast as they allow', () => {
  const sent = timesOf(run(new RateLimiter(), [on('webhook', ...TEAMS)], burst(400)));
  for (const { limit, windowMs } of TEAMS) expect(mostIn(sent, windowMs)).toBeLessThanOrEqual(limit);
  expect(sent.filter((atMs) => atMs < 1_000)).toHaveLength(4);
  expect(sent.filter((atMs) => atMs < 30_000)).toHaveLength(60);
  expect(sent.filter((atMs) => atMs < 3_600_000)).toHaveLength(100);
  expect(sent.filter((atMs) => atMs < 7_200_000)).toHaveLength(150);
  expect(sent.filter((atMs) => atMs < 14_400_000)).toHaveLength(300);
});

test('keeps to them if callers return late at random, mostly with two calls each', () => {
  let seed = 7;
  const late = () => {
    seed = (seed * 48_271) % 2_147_483_647;
    return seed % 1_500;
  };
  const rate = { limit: 20, windowMs: 1_000 };
  const sent = run(new RateLimiter(), [on('k', rate)], burst(2_000), late);
  expect(sent).toHaveLength(2_000);
  expect(mostIn(timesOf(sent), rate.windowMs)).toBeLessThanOrEqual(rate.limit);
  const asked = sent.map((one) => one.asked).toSorted((a, b) => a - b);
  expect(asked[1_000]).toBeLessThanOrEqual(2);
  // 100 s of work, and hardly more.
  expect(Math.max(...timesOf(sent))).toBeLessThan(110_000);
});

test('a batch of a hundred goes together at 600 a second', () => {
  const limiter = new RateLimiter();
  const limits = [on('expo', { limit: 600, windowMs: 1_000 })];
  const sent = timesOf(run(limiter, limits, burst(1_800)));
  expect(mostIn(sent, 1_000)).toBe(600);
  expect([...Map.groupBy(sent, (atMs) => atMs).values()].map((group) => group.length)).toEqual([
    600, 600, 600,
  ]);
});

describe('the rate that a project asks for', () => {
  // Messages come back with a poll of the queue, which is one a second and may be late.
  const polled = (limiter: RateLimiter, perSecond: number, count: number, lateMs = 0) => {
    const limits = [on('k', ...rateOf({ max_per_second: perSecond }))];
    const coming = new Map<string, number>(burst(count).map(({ id }) => [id, 0]));
    const sent: number[] = [];
    for (let nowMs = 0; coming.size > 0; nowMs += 1_000 + (nowMs % 3_000 === 0 ? lateMs : 0))
      for (const [id, dueMs] of [...coming]) {
        if (dueMs > nowMs) continue;
        const permit = limiter.take(limits, id, nowMs);
        if ('deferredUntilMs' in permit) coming.set(id, permit.deferredUntilMs);
        else {
          sent.push(nowMs + permit.waitMs);
          coming.delete(id);
        }
      }
    return sent.toSorted((a, b) => a - b);
  };
  const gapsOf = (sent: readonly number[]) => sent.slice(1).map((atMs, n) => atMs - (sent[n] ?? 0));

  test.each([1, 3, 10, 14, 50, 99])('%d a second are spread evenly, and no slower for it', (perSecond) => {
    const sent = polled(new RateLimiter(), perSecond, 30 * perSecond);
    // Times are whole milliseconds.
    expect(Math.min(...gapsOf(sent))).toBeGreaterThanOrEqual(Math.floor(1_000 / perSecond));
    expect(mostIn(sent, 1_000)).toBeLessThanOrEqual(perSecond);
    expect(Math.max(...sent)).toBeLessThanOrEqual(32_000);
  });

  test.each([200, 1_000, 5_000])('%d a second go in bursts of 10 ms', (perSecond) => {
    const sent = polled(new RateLimiter(), perSecond, 10 * perSecond);
    expect(mostIn(sent, 10)).toBeLessThanOrEqual(Math.ceil(perSecond / 100));
    expect(Math.max(...sent)).toBeLessThanOrEqual(12_000);
  });

  test('late polls cost only their own delay', () => {
    const sent = polled(new RateLimiter(), 10, 300, 200);
    expect(mostIn(sent, 1_000)).toBeLessThanOrEqual(10);
    expect(Math.max(...sent)).toBeLessThanOrEqual(35_000);
  });
});

test('several limits hold at once, each by its own key', () => {
  const limiter = new RateLimiter();
  const account = on('account', { limit: 3, windowMs: 10_000 });
  const limits = (channel: string) => [account, on(channel, { limit: 1, windowMs: 5_000 })];
  expect(limiter.take(limits('x'), '1', 0)).toEqual({ waitMs: 0 });
  expect(limiter.take(limits('y'), '2', 0)).toEqual({ waitMs: 0 });
  expect(limiter.take(limits('x'), '3', 0)).toEqual({ deferredUntilMs: 5_000 });
  expect(limiter.take(limits('z'), '4', 0)).toEqual({ deferredUntilMs: 10_000 });
});

test('a limit that would take years is checked again after a day', () => {
  const limiter = new RateLimiter();
  const limits = [on('k', { limit: 1, windowMs: Number.POSITIVE_INFINITY })];
  limiter.take(limits, 'a', 0);
  expect(limiter.take(limits, 'b', 0)).toEqual({ deferredUntilMs: 86_400_000 });
  expect(limiter.take(limits, 'b', 86_400_000)).toEqual({ deferredUntilMs: 2 * 86_400_000 });
});

describe('promises for which no message comes', () => {
  const RATE = { limit: 10, windowMs: 1_000 };

  test.each([true, false])('block the limit for seconds, not hours (keepsReservations: %s)', (keeps) => {
    const limiter = new RateLimiter({ keepsReservations: keeps });
    const limits = [on('k', RATE)];
    for (const { id } of burst(100_000)) limiter.take(limits, id, 0);
    // Those with a permit were sent; the broadcast of all others was cancelled.
    expect(limiter.take(limits, 'early', 4_000)).toMatchObject({ deferredUntilMs: expect.any(Number) });
    expect(limiter.take(limits, 'new', 10_000)).toEqual({ waitMs: 0 });
    // Also for one that was promised a permit in hours, if it comes back early.
    expect(limiter.take(limits, 't5000', 10_000, true)).toEqual({ waitMs: 0 });
  });

  test('are kept while others use the limit', () => {
    const limiter = new RateLimiter({ keepsReservations: false });
    const limits = [on('k', RATE)];
    for (const { id } of burst(1_000)) limiter.take(limits, id, 0);
    for (let atMs = 2_000; atMs < 60_000; atMs += 1_000) limiter.take(limits, `used ${atMs}`, atMs, true);
    expect(limiter.take(limits, 'new', 60_000)).toEqual({ deferredUntilMs: 100_000 });
  });

  test('do not exceed the limit when all come after all', () => {
    const limiter = new RateLimiter({ keepsReservations: false });
    const limits = [on('k', RATE)];
    for (const { id } of burst(500)) limiter.take(limits, id, 0);
    const come = [...burst(500), ...burst(500)].map(({ id }, n) => ({ id: `${id} ${n}`, atMs: 20_000 }));
    const sent = run(limiter, limits, come).map(({ atMs }) => atMs);
    expect(sent).toHaveLength(1_000);
    expect(mostIn(sent, RATE.windowMs)).toBeLessThanOrEqual(RATE.limit);
  });
});

test('a clock that is set back stops nothing', () => {
  const limiter = new RateLimiter();
  const limits = [on('k', { limit: 1, windowMs: 5_000 })];
  limiter.take(limits, 'a', 3_600_000);
  expect(limiter.take(limits, 'b', 3_600_000)).toEqual({ deferredUntilMs: 3_605_000 });
  expect(limiter.take(limits, 'b', 0)).toEqual({ waitMs: 0 });
  expect(limiter.take(limits, 'c', 0)).toEqual({ deferredUntilMs: 5_000 });
});

describe('memory', () => {
  test('the limits that were not used for longest are forgotten', () => {
    const limiter = new RateLimiter();
    const rate = { limit: 1, windowMs: 60_000 };
    for (let n = 0; n < 60_000; n += 1) limiter.take([on(`k${n}`, rate)], 't', n);
    expect(limiter.size.keys).toBe(50_000);
    expect(limiter.take([on('k59999', rate)], 'u', 60_000)).toMatchObject({
      deferredUntilMs: expect.any(Number),
    });
    expect(limiter.take([on('k0', rate)], 'u', 60_000)).toEqual({ waitMs: 0 });
  });

  test('and so are those with the most to remember', () => {
    const limiter = new RateLimiter();
    for (let key = 0; key < 24; key += 1) {
      const limit = on(`k${key}`, { limit: 100_000, windowMs: 1_000 });
      for (let n = 0; n < 100_000; n += 1) limiter.take([limit], `t${n}`, key);
    }
    expect(limiter.size.bytes).toBeLessThanOrEqual(34 * 1024 * 1024);
    expect(limiter.size.keys).toBeGreaterThan(15);
  });

  test('the number of reservations is limited, and other callers return at the pace of the limit', () => {
    const limiter = new RateLimiter();
    const limits = [on('k', { limit: 100, windowMs: 1_000 })];
    const turns = burst(12_000).map(({ id }) => limiter.take(limits, id, 0));
    expect(limiter.size.reservations).toBe(10_000);
    const last = turns.at(-1);
    // 120 s of work in all.
    expect(last).toMatchObject({ deferredUntilMs: expect.closeTo(120_000, -3) });
    expect(run(limiter, limits, burst(12_000).slice(100)).length).toBe(11_900);
  });

  test('a reservation that is not used does not take room for ever', () => {
    const limiter = new RateLimiter();
    const limits = [on('k', { limit: 10_000, windowMs: 5_000 })];
    for (const { id } of burst(20_000)) limiter.take(limits, id, 0);
    expect(limiter.size.reservations).toBe(10_000);
    for (const { id } of burst(20_001, 0).map(({ id }) => ({ id: `b${id}` })))
      limiter.take(limits, id, 3_600_000);
    expect(limiter.size.reservations).toBe(10_000);
    expect(limiter.take(limits, 'bt19999', 3_604_750)).toEqual({ waitMs: 250 });
  });
});
