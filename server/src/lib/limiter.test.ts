import { expect, test } from 'vitest';
import { Limiter } from './limiter.ts';

/** Starts work of these weights; records what has begun, and ends it one by one. */
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

test('at most maxCount run at once, and the others follow in order', async () => {
  const { begun, end, ready } = start(new Limiter({ maxCount: 2, maxWeight: 100 }), [1, 1, 1, 1]);
  await ready();
  expect(begun).toEqual([0, 1]);
  await end(1);
  expect(begun).toEqual([0, 1, 2]);
  await end(0);
  expect(begun).toEqual([0, 1, 2, 3]);
});

test('heavy work runs alone, and nothing overtakes it', async () => {
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

test('failed work makes room for the next', async () => {
  const limiter = new Limiter({ maxCount: 1, maxWeight: 1 });
  const failing = limiter.run(1, () => Promise.reject(new Error('no')));
  const next = limiter.run(1, async () => 'went on');
  await expect(failing).rejects.toThrow('no');
  expect(await next).toBe('went on');
});

test('waiting work can be rejected, running work continues', async () => {
  const limiter = new Limiter({ maxCount: 1, maxWeight: 10 });
  const first = Promise.withResolvers<string>();
  const running = limiter.run(1, () => first.promise);
  const waiting = [1, 2].map((n) =>
    limiter.run(
      1,
      async () => `began ${n}`,
      () => `rejected ${n}`,
    ),
  );
  expect(limiter.waiting).toBe(2);
  limiter.rejectWaiting();
  expect(await Promise.all(waiting)).toEqual(['rejected 1', 'rejected 2']);
  const later = limiter.run(1, async () => 'later');
  first.resolve('first');
  expect(await running).toBe('first');
  expect(await later).toBe('later');
  expect(limiter.busy).toBe(false);
});

test('acquired room is released, and waiting can be ended', async () => {
  const limiter = new Limiter({ maxCount: 1, maxWeight: 10 });
  expect(await limiter.acquire(1)).toBe(true);
  const waiting = [limiter.acquire(1), limiter.acquire(1)];
  expect(limiter.waiting).toBe(2);
  limiter.rejectWaiting();
  expect(await Promise.all(waiting)).toEqual([false, false]);
  const later = limiter.run(1, async () => 'later');
  expect(limiter.busy).toBe(true);
  limiter.release(1);
  expect(await later).toBe('later');
  expect(limiter.busy).toBe(false);
});
