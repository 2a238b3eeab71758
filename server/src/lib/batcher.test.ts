import { expect, test, vi } from 'vitest';
import { Batcher } from './batcher.ts';

/** A batcher whose runs end on the test's command. */
function controlled(options: {
  concurrency?: number;
  maxItems?: number;
  maxWeight?: number;
  gatherBelow?: number;
  everyMs?: number;
  weigh?: (item: number) => number;
}) {
  const runs: { items: number[]; end: () => void; fail: (error: Error) => void }[] = [];
  let started = Promise.withResolvers<void>();
  const batcher = new Batcher<number, string>({
    concurrency: 1,
    maxItems: 100,
    ...options,
    run: (items) =>
      new Promise((resolve, reject) => {
        runs.push({ items, end: () => resolve(items.map((item) => `r${item}`)), fail: reject });
        started.resolve();
        started = Promise.withResolvers();
      }),
  });
  return { batcher, runs, nextRun: () => started.promise };
}

test('items of one turn form a batch, and items that arrive meanwhile the next', async () => {
  const { batcher, runs, nextRun } = controlled({});
  let begun = nextRun();
  const first = [batcher.add(1), batcher.add(2)];
  await begun;
  begun = nextRun();
  const second = [batcher.add(3), batcher.add(4), batcher.add(5)];
  runs[0]?.end();
  expect(await Promise.all(first)).toEqual(['r1', 'r2']);
  await begun;
  runs[1]?.end();
  expect(await Promise.all(second)).toEqual(['r3', 'r4', 'r5']);
  expect(runs.map((run) => run.items)).toEqual([
    [1, 2],
    [3, 4, 5],
  ]);
});

test('what arrives in the turn after a batch joins those that waited for its end', async () => {
  const { batcher, runs, nextRun } = controlled({});
  let begun = nextRun();
  void batcher.add(1);
  await begun;
  begun = nextRun();
  void batcher.add(2);
  setImmediate(() => setImmediate(() => void batcher.add(3)));
  runs[0]?.end();
  await begun;
  expect(runs.map((run) => run.items)).toEqual([[1], [2, 3]]);
});

test('a batch keeps its limits of items and weight, and a single item always runs', async () => {
  const { batcher, runs, nextRun } = controlled({ maxItems: 2, maxWeight: 10, weigh: (item) => item });
  const all = [50, 4, 5, 6, 1].map((item) => batcher.add(item));
  for (let index = 0; index < 3; index += 1) {
    if (runs.length <= index) await nextRun();
    runs[index]?.end();
  }
  await Promise.all(all);
  expect(runs.map((run) => run.items)).toEqual([[50], [4, 5], [6, 1]]);
});

test('a failing batch fails its own items only', async () => {
  const { batcher, runs, nextRun } = controlled({ maxItems: 1 });
  let begun = nextRun();
  const bad = batcher.add(1);
  await begun;
  begun = nextRun();
  const good = batcher.add(2);
  runs[0]?.fail(new Error('broken'));
  await expect(bad).rejects.toThrow('broken');
  await begun;
  runs[1]?.end();
  expect(await good).toBe('r2');
  await batcher.drained();
});

test('after an error of one item each item is run alone, if the error allows it', async () => {
  const batches: number[][] = [];
  const batcher = new Batcher<number, string>({
    concurrency: 1,
    maxItems: 3,
    async run(items) {
      batches.push(items);
      if (items.includes(5)) throw new Error('unavailable');
      if (items.includes(2)) throw new Error('broken');
      return items.map(String);
    },
    splitAfter: (error) => (error as Error).message === 'broken',
  });
  const results = await Promise.allSettled([1, 2, 3, 4, 5].map((item) => batcher.add(item)));
  expect(results.map(({ status }) => status)).toEqual([
    'fulfilled',
    'rejected',
    'fulfilled',
    'rejected',
    'rejected',
  ]);
  expect(batches).toEqual([[1, 2, 3], [1], [2], [3], [4, 5]]);
});

test('a running light batch delays the next, a heavy one does not', async () => {
  const { batcher, runs, nextRun } = controlled({
    concurrency: 2,
    maxItems: 2,
    gatherBelow: 10,
    weigh: (item) => item,
  });
  let begun = nextRun();
  const light = batcher.add(1);
  await begun;
  const next = [batcher.add(2), batcher.add(20), batcher.add(3)];
  await new Promise((resolve) => setImmediate(resolve));
  expect(runs.map((run) => run.items)).toEqual([[1]]);
  begun = nextRun();
  runs[0]?.end();
  await light;
  await begun;
  await new Promise((resolve) => setImmediate(resolve));
  expect(runs.map((run) => run.items)).toEqual([[1], [2, 20], [3]]);
  for (const run of runs) run.end();
  await Promise.all(next);
});

test('a batcher waits while the one after it gathers, and not for a heavy batch', async () => {
  const second = controlled({ concurrency: 2, maxItems: 9, gatherBelow: 10, weigh: (item) => item });
  const loaded: number[][] = [];
  const first = new Batcher<number, number>({
    concurrency: 1,
    maxItems: 9,
    async run(items) {
      loaded.push(items);
      return items;
    },
    after: second.batcher,
  });
  let begun = second.nextRun();
  const light = second.batcher.add(1);
  await begun;
  const waiting = Promise.all([first.add(1), first.add(2)]);
  await new Promise((resolve) => setImmediate(resolve));
  expect(loaded).toEqual([]);
  second.runs[0]?.end();
  await light;
  await waiting;
  expect(loaded).toEqual([[1, 2]]);
  begun = second.nextRun();
  const heavy = second.batcher.add(20);
  await begun;
  expect(await first.add(3)).toBe(3);
  second.runs[1]?.end();
  await heavy;
});

test('batches start at intervals, the first at once and a full one, too', async () => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] });
  try {
    const { batcher, runs, nextRun } = controlled({ everyMs: 50, maxItems: 3 });
    const add = async (...items: number[]) => {
      const begun = nextRun();
      for (const item of items) void batcher.add(item);
      await begun;
      runs.at(-1)?.end();
      await batcher.drained();
    };
    await add(1);
    for (const item of [2, 3]) void batcher.add(item);
    await vi.advanceTimersByTimeAsync(49);
    expect(runs).toHaveLength(1);
    const begun = nextRun();
    await vi.advanceTimersByTimeAsync(1);
    await begun;
    expect(runs[1]?.items).toEqual([2, 3]);
    runs[1]?.end();
    await batcher.drained();
    await add(4, 5, 6);
    vi.advanceTimersByTime(50);
    await add(7);
    expect(runs.map(({ items }) => items)).toEqual([[1], [2, 3], [4, 5, 6], [7]]);
    expect(vi.getTimerCount()).toBe(0);
  } finally {
    vi.useRealTimers();
  }
});
