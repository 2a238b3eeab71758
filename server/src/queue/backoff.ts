// 1 s, 5 s, 30 s, 2 min, 10 min, then every hour.
const STEPS_MS = [1_000, 5_000, 30_000, 120_000, 600_000, 3_600_000];
// A provider that asks for more than an hour is asked again after one.
const LONGEST_MS = 3_600_000;

/**
 * How long to wait before attempt number `attempt` + 1 (`attempt` ≥ 1 attempts were made), in milliseconds:
 * anything up to the step's length ("full jitter", so that what failed together does not return together), or
 * longer when the other side asks for that. Shorter it cannot make it: it may be a stranger's, which would
 * have us try without end.
 */
export function backoff(
  attempt: number,
  options: { retryAfterMs?: number; random?: () => number } = {},
): number {
  const step = STEPS_MS[Math.min(attempt, STEPS_MS.length) - 1] ?? LONGEST_MS;
  const own = Math.ceil(step * (options.random ?? Math.random)());
  return Math.min(Math.max(options.retryAfterMs ?? 0, own), LONGEST_MS);
}
