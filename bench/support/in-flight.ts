export type Rate = { perSecond: number; cpuMicros: number };

/**
 * Runs `count` sends, `inFlight` at a time. Returns their rate, and the CPU time of this process for each.
 */
export async function measured(send: () => Promise<unknown>, count: number, inFlight: number): Promise<Rate> {
  let next = 0;
  const before = process.cpuUsage();
  const startedMs = performance.now();
  const worker = async () => {
    while (next < count) {
      next += 1;
      await send();
    }
  };
  await Promise.all(Array.from({ length: inFlight }, worker));
  const seconds = (performance.now() - startedMs) / 1000;
  const { user, system } = process.cpuUsage(before);
  return { perSecond: count / seconds, cpuMicros: (user + system) / count };
}
