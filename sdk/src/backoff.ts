const FIRST_MS = 500;
const LONGEST_MS = 8_000;
// Clients that got the same `Retry-After` at the same moment would otherwise retry at the same moment.
const SPREAD = 0.1;
const LONGEST_SPREAD_MS = 1_000;

/**
 * The time to wait before attempt `attempt` + 1: what the server asked for and a little more, or else twice
 * as long each time, with jitter.
 */
export function backoffMs(
  attempt: number,
  retryAfterMs: number | undefined,
  { firstMs = FIRST_MS, longestMs = LONGEST_MS }: { firstMs?: number; longestMs?: number } = {},
): number {
  if (retryAfterMs !== undefined)
    return retryAfterMs + Math.random() * Math.min(retryAfterMs * SPREAD, LONGEST_SPREAD_MS);
  const whole = Math.min(longestMs, firstMs * 2 ** Math.min(attempt - 1, 30));
  return whole / 2 + (Math.random() * whole) / 2;
}

/** Resolves after this time. Rejects with the reason of the signal if it aborts before. */
export function sleep(ms: number, signal: AbortSignal | undefined): Promise<void> {
  return new Promise((resolve, reject) => {
    if (signal?.aborted) {
      reject(signal.reason);
      return;
    }
    const aborted = () => {
      clearTimeout(timer);
      reject(signal?.reason);
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener('abort', aborted);
      resolve();
    }, ms);
    signal?.addEventListener('abort', aborted, { once: true });
  });
}
