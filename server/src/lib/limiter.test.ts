import { expect, test } from 'vitest';
import { Limiter } from './limiter.ts';

/** Starts work of these weights; tells what has begun, and ends it one by one. */
function start(limiter: Limiter, weights: readonly number[]) {
  const begun: number[] = [];
  const ends: PromiseWithResolvers<void>[] = weights.map(() => Promise.withResolvers<void>());
  const done = weights.map((weight, index) =>
    limiter.run(weight, async () => {
      begun.push(index);
      await ends[index]?.promise;
      return index;
    }),
  );
  const end = async (index: number) => {
    ends[index]?.resolve();
    await done[index];
    await new Promise(setImmediate);
  };
  return { begun, end, ready: () => new Promise(setImmediate) };
}

test('no more than so many go on at once, and the others follow in their order', async () => {
  const { begun, end, ready } = start(new Limiter({ maxCount: 2, maxWeight: 100 }), [1, 1, 1, 1]);
  await ready();
  expect(begun).toEqual([0, 1]);
  await end(1);
  expect(begun).toEqual([0, 1, 2]);
  await end(0);
  expect(begun).toEqual([0, 1, 2, 3]);
});

test('heavy work goes on alone, and nothing overtakes it', async () => {
  const limiter = new Limiter({ maxCount: 8, maxWeight: 10 });
  const { begun, end, ready } = start(limiter, [4, 50, 1]);
  await ready();
  expect(begun).toEqual([0]);
  await end(0);
  expect(begun).toEqual([0, 1]);
  await end(1);
  expect(begun).toEqual([0, 1, 2]);
  expect(limiter.busy).toBe(true);
  await end(2);
  expect(limiter.busy).toBe(false);
});

test('work that fails gives its place to the next', async () => {
  const limiter = new Limiter({ maxCount: 1, maxWeight: 1 });
  const failing = limiter.run(1, () => Promise.reject(new Error('no')));
  const next = limiter.run(1, async () => 'went on');
  await expect(failing).rejects.toThrow('no');
  expect(await next).toBe('went on');
});

test('what waits can be sent away, what has begun goes on', async () => {
  const limiter = new Limiter({ maxCount: 1, maxWeight: 10 });
  const first = Promise.withResolvers<string>();
  const running = limiter.run(1, () => first.promise);
  const waiting = [1, 2].map((n) =>
    limiter.run(
      1,
      async () => `began ${n}`,
      () => `away ${n}`,
    ),
  );
  expect(limiter.waiting).toBe(2);
  limiter.sendAway();
  expect(await Promise.all(waiting)).toEqual(['away 1', 'away 2']);
  const later = limiter.run(1, async () => 'later');
  first.resolve('first');
  expect(await running).toBe('first');
  expect(await later).toBe('later');
  expect(limiter.busy).toBe(false);
});

test('what is acquired is released, and waits for room can be ended', async () => {
  const limiter = new Limiter({ maxCount: 1, maxWeight: 10 });
  expect(await limiter.acquire(1)).toBe(true);
  const waiting = [limiter.acquire(1), limiter.acquire(1)];
  expect(limiter.waiting).toBe(2);
  limiter.sendAway();
  expect(await Promise.all(waiting)).toEqual([false, false]);
  const later = limiter.run(1, async () => 'later');
  expect(limiter.busy).toBe(true);
  limiter.release(1);
  expect(await later).toBe('later');
  expect(limiter.busy).toBe(false);
});
