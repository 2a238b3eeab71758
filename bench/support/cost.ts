import type { Belfry } from './belfry.ts';
import { cpuOf, used } from './processes.ts';
import { queueEmpty } from './queue.ts';
import type { Bench } from './scenario.ts';

/** What a piece of work costs the server. */
export interface Cost {
  /** CPU time of each, of Node and PostgreSQL together. */
  micros: number;
  perSecond: number;
  note: string;
}

/** Does work, waits until the queue is empty, and returns the cost of each of its `count` parts. */
export async function costOf(
  { pid, ...belfry }: Belfry,
  count: number,
  work: () => Promise<void>,
): Promise<Cost> {
  const before = cpuOf(pid);
  const startedMs = performance.now();
  await work();
  await queueEmpty({ pid, ...belfry });
  const seconds = (performance.now() - startedMs) / 1_000;
  const { nodeCpuMs, postgresCpuMs } = used(before, cpuOf(pid));
  const each = (ms: number) => ((ms * 1_000) / count).toFixed(0);
  return {
    micros: ((nodeCpuMs + postgresCpuMs) * 1_000) / count,
    perSecond: count / seconds,
    note: `µs of CPU for each: Node ${each(nodeCpuMs)}, PostgreSQL ${each(postgresCpuMs)}`,
  };
}

export function showCost(bench: Bench, name: string, { perSecond, note }: Cost): void {
  bench.figure({ name, value: perSecond, unit: '/s', note });
}
