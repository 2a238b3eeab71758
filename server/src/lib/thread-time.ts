// A measurement takes as long as a short rendering of a text, so one is for all that starts in a millisecond.
const PRECISION_MS = 1;
let measured = { atMs: Number.NEGATIVE_INFINITY, usage: { user: 0, system: 0 } };

/**
 * Returns a function that returns how many milliseconds this thread has worked since, at most a millisecond
 * more. The time in which other processes had the processor does not count.
 */
export function startThreadTime(): () => number {
  const atMs = performance.now();
  if (atMs - measured.atMs > PRECISION_MS) measured = { atMs, usage: process.threadCpuUsage() };
  const { usage: before } = measured;
  return () => {
    const { user, system } = process.threadCpuUsage(before);
    return (user + system) / 1_000;
  };
}
