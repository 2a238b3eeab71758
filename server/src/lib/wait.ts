import { setTimeout as sleep } from 'node:timers/promises';

/** Resolves after `ms` milliseconds, or rejects when the signal aborts. */
export async function waitMs(ms: number, signal?: AbortSignal): Promise<void> {
  await sleep(ms, undefined, signal ? { signal } : {});
}
