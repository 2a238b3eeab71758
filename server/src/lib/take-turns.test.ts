import { expect, test } from 'vitest';
import { oneInTurn } from './take-turns.ts';

/** Works for 15 ms, longer than a turn may take. */
function work(): void {
  const before = process.threadCpuUsage().user;
  while (process.threadCpuUsage().user - before < 15_000);
}

test('pieces of work are done in order, and others have their turn between them', async () => {
  const inTurn = oneInTurn();
  const happened: (number | string)[] = [];
  const pieces = [0, 1, 2, 3].map((number) =>
    inTurn(() => {
      work();
      setImmediate(() => happened.push('other'));
      return happened.push(number);
    }),
  );
  await Promise.all(pieces);
  expect(happened.filter((one) => one !== 'other')).toEqual([0, 1, 2, 3]);
  for (const number of [0, 1, 2]) expect(happened[happened.indexOf(number) + 1]).toBe('other');
});

test('the error of one piece is its own', async () => {
  const inTurn = oneInTurn();
  const failed = inTurn(() => {
    work();
    throw new Error('of one');
  });
  const next = inTurn(() => 'done');
  await expect(failed).rejects.toThrow('of one');
  expect(await next).toBe('done');
});
