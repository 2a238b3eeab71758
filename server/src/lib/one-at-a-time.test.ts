import { expect, test } from 'vitest';
import { oneAtATime } from './one-at-a-time.ts';

test('a call during a run makes it run once more, after it', async () => {
  const runs: PromiseWithResolvers<void>[] = [];
  const run = oneAtATime(() => {
    const ended = Promise.withResolvers<void>();
    runs.push(ended);
    return ended.promise;
  });
  const all = [run(), run(), run()];
  expect(runs).toHaveLength(1);
  runs[0]?.resolve();
  await expect.poll(() => runs).toHaveLength(2);
  runs[1]?.resolve();
  await Promise.all(all);
  expect(runs).toHaveLength(2);
});

test('a call in the moment in which a run ends is not lost', async () => {
  let runs = 0;
  const run = oneAtATime(async () => {
    runs += 1;
  });
  for (let expected = 1; expected <= 20; expected += 1) {
    const earlier = run();
    const before = runs;
    for (let turn = 0; turn < expected; turn += 1) await Promise.resolve();
    await Promise.all([earlier, run()]);
    expect(runs).toBeGreaterThan(before);
  }
});

test('after a failure, the next call runs again', async () => {
  const results = [Promise.reject(new Error('unavailable')), Promise.resolve()];
  const run = oneAtATime(() => results.shift() ?? Promise.resolve());
  await expect(run()).rejects.toThrow('unavailable');
  await run();
  expect(results).toEqual([]);
});
