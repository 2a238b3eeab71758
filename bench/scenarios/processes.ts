import type { BurstOrder, BurstTimes, ProbeTimes, SocketsRequest } from '../processes/sockets.ts';
import { type Belfry, startBelfry } from '../support/belfry.ts';
import { createInboxUsers } from '../support/inbox-users.ts';
import { cpuOf, used } from '../support/processes.ts';
import { queueEmpty } from '../support/queue.ts';
import type { Bench, Scenario } from '../support/scenario.ts';
import { median, percentile } from '../support/statistics.ts';
import { startTask } from '../support/task.ts';

const SOCKETS = 1_000;
const BROADCASTS = 20;
// The length of Belfry's frame of such a broadcast.
const FRAME_BYTES = 685;
const ORDERS = ['together', 'after response', 'after frames'] as const;

/**
 * A server that only writes frames, then one process of Belfry, then two. Measures bursts of broadcasts to
 * open inboxes, the way from a request in one process to a frame in another, and the CPU time of a
 * notification. The broadcasts of a burst come together, each after the response to the one before, or each
 * after the frames of the one before.
 */
export const measureProcesses: Scenario = async (bench) => {
  await measureLimit(bench);
  for (const processes of [1, 2]) {
    const belfry = await startBelfry({ ...bench, settings: { PROCESSES: String(processes) } });
    try {
      await measure(bench, belfry, processes === 1 ? 'one process' : 'two processes');
    } finally {
      await belfry.stop();
    }
  }
};

async function measure(bench: Bench, belfry: Belfry, name: string): Promise<void> {
  const { address, projectJwt: jwt, apiKey, pid } = belfry;
  const client = startTask<SocketsRequest>('sockets.ts');
  try {
    const { externalIds, tokens } = await createInboxUsers(belfry, `p${Date.now()}-`, SOCKETS);
    await client.request({ open: { address, apiKey, tokens } });
    const probe = (count: number) =>
      client.request<ProbeTimes>({ probe: { address, jwt, externalIds, count, everyMs: 10 } });
    await probe(bench.quick ? 50 : 200); // cold code
    const { fromRequestMs } = await probe(bench.quick ? 100 : 500);
    for (const percent of [50, 99])
      bench.figure({
        name: `${name}: request → frame, idle: p${percent}`,
        value: percentile(fromRequestMs, percent),
        unit: 'ms',
        ...(percent === 99 ? { aim: { value: 100, better: 'less' as const } } : {}),
      });

    const burst: SendBurst = (order) =>
      client.request({ burst: { address, jwt, externalIds, broadcasts: BROADCASTS, order } });
    await burst('together'); // cold code
    await queueEmpty(belfry);
    const before = cpuOf(pid);
    const frames = await measureBursts(bench, burst, { name, hasAims: true });

    await queueEmpty(belfry);
    const { nodeCpuMs, postgresCpuMs } = used(before, cpuOf(pid));
    bench.figure({
      name: `${name}: CPU of a notification with its frame`,
      value: ((nodeCpuMs + postgresCpuMs) * 1000) / frames,
      unit: 'µs',
      note: `Node ${((nodeCpuMs * 1000) / frames).toFixed(1)} µs`,
    });
  } finally {
    client.stop();
  }
}

type SendBurst = (order: BurstOrder) => Promise<BurstTimes>;

/** Sends bursts in each order. Returns the number of their frames. */
async function measureBursts(
  bench: Bench,
  send: SendBurst,
  { name, hasAims }: { name: string; hasAims: boolean },
): Promise<number> {
  let frames = 0;
  for (const order of ORDERS) {
    const bursts: BurstTimes[] = [];
    for (let round = 0; round < (bench.quick ? 3 : 15); round += 1) bursts.push(await send(order));
    frames += bursts.length * BROADCASTS * SOCKETS;
    bench.figure({
      name: `${name}: ${BROADCASTS} broadcasts to ${SOCKETS} sockets, ${order}`,
      value: median(bursts.map(({ frameMs, totalMs }) => (frameMs.length / totalMs) * 1000)),
      unit: 'frames/s',
      ...(hasAims && order !== 'after frames' ? { aim: { value: 60_000, better: 'more' as const } } : {}),
      note: 'from the first request to the last frame',
    });
    bench.figure({
      name: `${name}: request → frame in these bursts: p50`,
      value: median(bursts.map(({ frameMs }) => median(frameMs))),
      unit: 'ms',
      ...(hasAims && order !== 'together' ? { aim: { value: 40, better: 'less' as const } } : {}),
    });
  }
  return frames;
}

/** The same bursts to a server that only writes frames. */
async function measureLimit(bench: Bench): Promise<void> {
  const server = startTask('bare-sockets.ts');
  const client = startTask<SocketsRequest>('sockets.ts');
  try {
    const { address } = await server.request<{ address: string }>({ frameBytes: FRAME_BYTES });
    const ids = Array.from({ length: SOCKETS }, (_, index) => `limit-${index}`);
    await client.request({ open: { address, apiKey: 'none', tokens: ids } });
    const burst: SendBurst = (order) =>
      client.request({ burst: { address, jwt: 'none', externalIds: ids, broadcasts: BROADCASTS, order } });
    await burst('together'); // cold code
    await measureBursts(bench, burst, { name: 'limit: a bare WebSocket server', hasAims: false });
  } finally {
    client.stop();
    server.stop();
  }
}
