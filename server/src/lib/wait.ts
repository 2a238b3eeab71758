import { setTimeout as sleep } from 'node:timers/promises';
import { afterAwake } from './awake.ts';

/** Resolves after `ms` milliseconds, or rejects when the signal aborts. */
export async function waitMs(ms: number, signal?: AbortSignal): Promise<void> {
  await sleep(ms, undefined, signal ? { signal } : {});
}

/**
 * Returns the result of the work, or that of `late` if the work takes longer than `ms`. The work continues
 * then. Time in which this process did not run does not count.
 */
export async function waitAtMost<Result, Late>(
  ms: number,
  work: Promise<Result>,
  late: () => Late,
): Promise<Result | Late> {
  const { promise, resolve } = Promise.withResolvers<void>();
  const clear = afterAwake(ms, resolve);
  try {
    return await Promise.race([work, promise.then(late)]);
  } finally {
    clear();
  }
}
