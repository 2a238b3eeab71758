// 1 s, 5 s, 30 s, 2 min, 10 min, then every hour.
const STEPS_MS = [1_000, 5_000, 30_000, 120_000, 600_000, 3_600_000];
// Also the limit of `Retry-After`.
const LONGEST_MS = 3_600_000;

/**
 * The pause after attempt number `attempt` (≥ 1), in milliseconds: random up to the length of the step ("full
 * jitter", so that jobs that failed together do not return together). `Retry-After` can make it longer, but
 * not shorter: an untrusted host could have us retry without end.
 */
export function backoff(
  attempt: number,
  options: { retryAfterMs?: number | undefined; random?: () => number } = {},
): number {
  const step = STEPS_MS[Math.min(attempt, STEPS_MS.length) - 1] ?? LONGEST_MS;
  const own = Math.ceil(step * (options.random ?? Math.random)());
  return Math.min(Math.max(options.retryAfterMs ?? 0, own), LONGEST_MS);
}
