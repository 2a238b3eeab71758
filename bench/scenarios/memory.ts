import { setTimeout as delay } from 'node:timers/promises';
import type { SocketsRequest } from '../processes/sockets.ts';
import { type Belfry, startBelfry } from '../support/belfry.ts';
import { createInboxUsers } from '../support/inbox-users.ts';
import { memoryOf } from '../support/processes.ts';
import type { Scenario } from '../support/scenario.ts';
import { startTask } from '../support/task.ts';

const MEGABYTE = 1_048_576;
// The first collection comes soon after the start, and others when the process has been idle for a minute.
const SETTLE_MS = { start: 3_000, later: 65_000 };

/** The memory of an idle server, and of an open socket. */
export const measureMemory: Scenario = async (bench) => {
  const belfry = await startBelfry(bench);
  const client = startTask<SocketsRequest>('sockets.ts');
  try {
    const idle = await settled(belfry, SETTLE_MS.start);
    const node = (idle.nodeBytes / MEGABYTE).toFixed(0);
    const postgres = (idle.postgresBytes / MEGABYTE).toFixed(0);
    bench.figure({
      name: 'idle, with the database',
      value: (idle.nodeBytes + idle.postgresBytes) / MEGABYTE,
      unit: 'MiB',
      aim: { value: 150, better: 'less' },
      note: `node ${node}, postgres ${postgres}`,
    });
    const thousands = bench.quick ? 2 : 6;
    const { tokens } = await createInboxUsers(belfry, `f${Date.now()}-`, thousands * 1_000);
    const { address, apiKey } = belfry;
    // The first thousand also allocate code and pools; the others show the cost of a socket.
    await client.request({ open: { address, apiKey, tokens: tokens.slice(0, 1_000) } });
    const first = await settled(belfry, SETTLE_MS.later);
    await client.request({ open: { address, apiKey, tokens: tokens.slice(1_000) } });
    const all = await settled(belfry, SETTLE_MS.later);
    bench.figure({
      name: `each of ${thousands * 1_000} open sockets`,
      value: (all.nodeBytes - first.nodeBytes) / ((thousands - 1) * 1_000) / 1_000,
      unit: 'kB',
      aim: { value: 10, better: 'less' },
      note: `node holds ${(all.nodeBytes / MEGABYTE).toFixed(0)} MiB`,
    });
  } finally {
    client.stop();
    await belfry.stop();
  }
};

async function settled(belfry: Belfry, afterMs: number): Promise<ReturnType<typeof memoryOf>> {
  await delay(afterMs);
  return memoryOf(belfry.pid);
}
