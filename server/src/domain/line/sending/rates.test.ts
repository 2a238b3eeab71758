import { describe, expect, test } from 'vitest';
import type { Rate } from '../../../providers/provider.ts';
import { rateOf } from '../../../providers/shared/max-per-second.ts';
import { IN_PLACE_MS, type Limit, Rates } from './rates.ts';

const TEAMS: Rate[] = [
  { limit: 4, windowMs: 1_000 },
  { limit: 60, windowMs: 30_000 },
  { limit: 100, windowMs: 3_600_000 },
  { limit: 150, windowMs: 7_200_000 },
  { limit: 1_800, windowMs: 86_400_000 },
];
const on = (key: string, ...rates: Rate[]): Limit => ({ key, rates });

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
 * Sends to all targets, each coming back when it was told to, or `late()` later; answers when each was sent,
 * in that order.
 */
function run(
  rates: Rates,
  limits: Limit[],
  targets: readonly { id: string; atMs: number }[],
  late = () => 0,
): { id: string; atMs: number; asked: number }[] {
  const coming = targets.map((target) => ({ ...target, asked: 0 })).sort((a, b) => a.atMs - b.atMs);
  const sent: typeof coming = [];
  for (;;) {
    const next = coming.shift();
    if (next === undefined) return sent;
    next.asked += 1;
    const turn = rates.take(limits, next.id, next.atMs);
    if ('waitMs' in turn) sent.push({ ...next, atMs: next.atMs + turn.waitMs });
    else enqueue(coming, { ...next, atMs: turn.heldUntilMs + late() });
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
  const rates = new Rates();
  expect(rates.take([], 'a', 0)).toEqual({ waitMs: 0 });
  expect(rates.size).toEqual({ keys: 0, bytes: 0, bookings: 0 });
});

test('a turn within 1.25 s is waited for, a later one is come back for', () => {
  const rates = new Rates();
  const limits = [on('k', { limit: 10, windowMs: 5_000 })];
  for (let n = 0; n < 10; n += 1) expect(rates.take(limits, `a${n}`, n * 20)).toEqual({ waitMs: 0 });
  expect(rates.take(limits, 'b', 4_999 - IN_PLACE_MS)).toEqual({ heldUntilMs: 5_000 });
  expect(rates.take(limits, 'c', 5_020 - IN_PLACE_MS)).toEqual({ waitMs: IN_PLACE_MS });
});

test('who was told to come back has its turn before who came later', () => {
  const rates = new Rates();
  const limits = [on('k', { limit: 1, windowMs: 5_000 })];
  expect(rates.take(limits, 'a', 0)).toEqual({ waitMs: 0 });
  expect(rates.take(limits, 'b', 0)).toEqual({ heldUntilMs: 5_000 });
  expect(rates.take(limits, 'c', 4_990)).toEqual({ heldUntilMs: 10_000 });
  expect(rates.take(limits, 'd', 5_000)).toEqual({ heldUntilMs: 15_000 });
  expect(rates.take(limits, 'b', 5_000)).toEqual({ waitMs: 0 });
  expect(rates.take(limits, 'c', 10_000)).toEqual({ waitMs: 0 });
  expect(rates.size.bookings).toBe(1);
});

test('who comes back too early is told the same time again', () => {
  const rates = new Rates();
  const limits = [on('k', { limit: 1, windowMs: 5_000 })];
  rates.take(limits, 'a', 0);
  expect(rates.take(limits, 'b', 0)).toEqual({ heldUntilMs: 5_000 });
  expect(rates.take(limits, 'b', 3_000)).toEqual({ heldUntilMs: 5_000 });
  expect(rates.take(limits, 'b', 4_800)).toEqual({ waitMs: 200 });
});

test('those that come back late all at once go no faster for it, nor behind who comes later', () => {
  const rates = new Rates();
  const limits = [on('k', { limit: 2, windowMs: 2_000 })];
  for (const { id } of burst(6)) rates.take(limits, id, 0);
  // Turns 0, 0, 2, 2, 4, 4 s; the last four come at 60 s, with another.
  const sent = run(rates, limits, [...burst(6, 60_000).slice(2), { id: 'later', atMs: 60_000 }]);
  expect(sent.map(({ id }) => id)).toEqual(['t2', 't3', 't4', 't5', 'later']);
  expect(mostIn(timesOf(sent), 2_000)).toBe(2);
});

test('keeps to all of several windows, exactly and as fast as they allow', () => {
  const sent = timesOf(run(new Rates(), [on('webhook', ...TEAMS)], burst(400)));
  for (const { limit, windowMs } of TEAMS) expect(mostIn(sent, windowMs)).toBeLessThanOrEqual(limit);
  expect(sent.filter((atMs) => atMs < 1_000)).toHaveLength(4);
  expect(sent.filter((atMs) => atMs < 30_000)).toHaveLength(60);
  expect(sent.filter((atMs) => atMs < 3_600_000)).toHaveLength(100);
  expect(sent.filter((atMs) => atMs < 7_200_000)).toHaveLength(150);
  expect(sent.filter((atMs) => atMs < 14_400_000)).toHaveLength(300);
});

test('keeps to them also when everyone comes back late by chance, and asks of nobody more than twice', () => {
  let seed = 7;
  const late = () => {
    seed = (seed * 48_271) % 2_147_483_647;
    return seed % 1_500;
  };
  const rate = { limit: 20, windowMs: 1_000 };
  const sent = run(new Rates(), [on('k', rate)], burst(2_000), late);
  expect(sent).toHaveLength(2_000);
  expect(mostIn(timesOf(sent), rate.windowMs)).toBeLessThanOrEqual(rate.limit);
  const asked = sent.map((one) => one.asked).toSorted((a, b) => a - b);
  expect(asked[1_000]).toBeLessThanOrEqual(2);
  // 100 s of work, and hardly more.
  expect(Math.max(...timesOf(sent))).toBeLessThan(110_000);
});

test('a batch of a hundred goes together at 600 a second', () => {
  const rates = new Rates();
  const limits = [on('expo', { limit: 600, windowMs: 1_000 })];
  const sent = timesOf(run(rates, limits, burst(1_800)));
  expect(mostIn(sent, 1_000)).toBe(600);
  expect([...Map.groupBy(sent, (atMs) => atMs).values()].map((group) => group.length)).toEqual([
    600, 600, 600,
  ]);
});

describe('the rate that a project asks for', () => {
  // Messages come back with a poll of the queue, which is one a second and may be late.
  const polled = (rates: Rates, perSecond: number, count: number, lateMs = 0) => {
    const limits = [on('k', ...rateOf({ max_per_second: perSecond }))];
    const coming = new Map<string, number>(burst(count).map(({ id }) => [id, 0]));
    const sent: number[] = [];
    for (let nowMs = 0; coming.size > 0; nowMs += 1_000 + (nowMs % 3_000 === 0 ? lateMs : 0))
      for (const [id, dueMs] of [...coming]) {
        if (dueMs > nowMs) continue;
        const turn = rates.take(limits, id, nowMs);
        if ('heldUntilMs' in turn) coming.set(id, turn.heldUntilMs);
        else {
          sent.push(nowMs + turn.waitMs);
          coming.delete(id);
        }
      }
    return sent.toSorted((a, b) => a - b);
  };
  const gapsOf = (sent: readonly number[]) => sent.slice(1).map((atMs, n) => atMs - (sent[n] ?? 0));

  test.each([1, 3, 10, 14, 50, 99])('%d a second are spread evenly, and no slower for it', (perSecond) => {
    const sent = polled(new Rates(), perSecond, 30 * perSecond);
    // Times are whole milliseconds.
    expect(Math.min(...gapsOf(sent))).toBeGreaterThanOrEqual(Math.floor(1_000 / perSecond));
    expect(mostIn(sent, 1_000)).toBeLessThanOrEqual(perSecond);
    expect(Math.max(...sent)).toBeLessThanOrEqual(32_000);
  });

  test.each([200, 1_000, 5_000])('%d a second go in bursts of 10 ms', (perSecond) => {
    const sent = polled(new Rates(), perSecond, 10 * perSecond);
    expect(mostIn(sent, 10)).toBeLessThanOrEqual(Math.ceil(perSecond / 100));
    expect(Math.max(...sent)).toBeLessThanOrEqual(12_000);
  });

  test('polls that are late cost no more than they were late', () => {
    const sent = polled(new Rates(), 10, 300, 200);
    expect(mostIn(sent, 1_000)).toBeLessThanOrEqual(10);
    expect(Math.max(...sent)).toBeLessThanOrEqual(35_000);
  });
});

test('several limits hold at once, each by its own key', () => {
  const rates = new Rates();
  const account = on('account', { limit: 3, windowMs: 10_000 });
  const limits = (channel: string) => [account, on(channel, { limit: 1, windowMs: 5_000 })];
  expect(rates.take(limits('x'), '1', 0)).toEqual({ waitMs: 0 });
  expect(rates.take(limits('y'), '2', 0)).toEqual({ waitMs: 0 });
  expect(rates.take(limits('x'), '3', 0)).toEqual({ heldUntilMs: 5_000 });
  expect(rates.take(limits('z'), '4', 0)).toEqual({ heldUntilMs: 10_000 });
});

test('a limit that would take years is asked about again after a day', () => {
  const rates = new Rates();
  const limits = [on('k', { limit: 1, windowMs: Number.POSITIVE_INFINITY })];
  rates.take(limits, 'a', 0);
  expect(rates.take(limits, 'b', 0)).toEqual({ heldUntilMs: 86_400_000 });
  expect(rates.take(limits, 'b', 86_400_000)).toEqual({ heldUntilMs: 2 * 86_400_000 });
});

test('a clock that is put back stops nothing', () => {
  const rates = new Rates();
  const limits = [on('k', { limit: 1, windowMs: 5_000 })];
  rates.take(limits, 'a', 3_600_000);
  expect(rates.take(limits, 'b', 3_600_000)).toEqual({ heldUntilMs: 3_605_000 });
  expect(rates.take(limits, 'b', 0)).toEqual({ waitMs: 0 });
  expect(rates.take(limits, 'c', 0)).toEqual({ heldUntilMs: 5_000 });
});

describe('memory', () => {
  test('the limits that were not used for longest are forgotten', () => {
    const rates = new Rates();
    const rate = { limit: 1, windowMs: 60_000 };
    for (let n = 0; n < 60_000; n += 1) rates.take([on(`k${n}`, rate)], 't', n);
    expect(rates.size.keys).toBe(50_000);
    expect(rates.take([on('k59999', rate)], 'u', 60_000)).toMatchObject({ heldUntilMs: expect.any(Number) });
    expect(rates.take([on('k0', rate)], 'u', 60_000)).toEqual({ waitMs: 0 });
  });

  test('and so are those with the most to remember', () => {
    const rates = new Rates();
    for (let key = 0; key < 24; key += 1) {
      const limit = on(`k${key}`, { limit: 100_000, windowMs: 1_000 });
      for (let n = 0; n < 100_000; n += 1) rates.take([limit], `t${n}`, key);
    }
    expect(rates.size.bytes).toBeLessThanOrEqual(34 * 1024 * 1024);
    expect(rates.size.keys).toBeGreaterThan(15);
  });

  test('so many can book, and the others come back at the pace of the limit', () => {
    const rates = new Rates();
    const limits = [on('k', { limit: 100, windowMs: 1_000 })];
    const turns = burst(12_000).map(({ id }) => rates.take(limits, id, 0));
    expect(rates.size.bookings).toBe(10_000);
    const last = turns.at(-1);
    // 120 s of work in all.
    expect(last).toMatchObject({ heldUntilMs: expect.closeTo(120_000, -3) });
    expect(run(rates, limits, burst(12_000).slice(100)).length).toBe(11_900);
  });

  test('a turn that nobody came for does not take room for ever', () => {
    const rates = new Rates();
    const limits = [on('k', { limit: 10_000, windowMs: 5_000 })];
    for (const { id } of burst(20_000)) rates.take(limits, id, 0);
    expect(rates.size.bookings).toBe(10_000);
    for (const { id } of burst(20_001, 0).map(({ id }) => ({ id: `b${id}` })))
      rates.take(limits, id, 3_600_000);
    expect(rates.size.bookings).toBe(10_000);
    expect(rates.take(limits, 'bt19999', 3_604_750)).toEqual({ waitMs: 250 });
  });
});
