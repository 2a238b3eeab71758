import { expect, test } from 'vitest';
import { afterAwake, awakeMs } from './awake.ts';

/** Blocks the event loop without using the processor, as a stopped process. */
function block(ms: number): void {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms);
}

test('time in which the event loop is blocked does not count', () => {
  const before = awakeMs();
  block(600);
  expect(awakeMs() - before).toBeLessThan(500);
});

test('a limit ends when the process has run for its time, and never once it is cleared', async () => {
  const ended: string[] = [];
  const clear = afterAwake(50, () => ended.push('cleared'));
  const before = awakeMs();
  await new Promise<void>((resolve) => {
    afterAwake(50, () => {
      ended.push('late');
      resolve();
    });
    clear();
    block(600);
  });
  expect(awakeMs() - before).toBeGreaterThanOrEqual(50);
  expect(ended).toEqual(['late']);
});
