import type { ProbeTimes, SocketsRequest } from '../processes/sockets.ts';
import { startBelfry } from '../support/belfry.ts';
import { createInboxUsers } from '../support/inbox-users.ts';
import { type Load, sendLoad, sendSteadily } from '../support/load.ts';
import { queueEmpty } from '../support/queue.ts';
import type { Bench, Scenario } from '../support/scenario.ts';
import { percentile } from '../support/statistics.ts';
import { startTask } from '../support/task.ts';

const SOCKETS = 50;
const EVERY_MS = 10;

/**
 * From the request to the frame in a socket: on an idle server, and at half of its capacity.
 */
export const measureRealtime: Scenario = async (bench) => {
  const belfry = await startBelfry(bench);
  const client = startTask<SocketsRequest>('sockets.ts');
  try {
    const { address, projectJwt: jwt, apiKey } = belfry;
    const { externalIds, tokens } = await createInboxUsers(belfry, `c${Date.now()}-`, SOCKETS);
    await client.request({ open: { address, apiKey, tokens } });
    const probe = (count: number) =>
      client.request<ProbeTimes>({ probe: { address, jwt, externalIds, count, everyMs: EVERY_MS } });
    await probe(bench.quick ? 50 : 200); // cold code
    show(bench, 'idle', await probe(bench.quick ? 100 : 1_000));

    const load: Load = {
      address,
      jwt,
      recipients: 1,
      users: 1_000,
      prefix: 'accept',
      connections: 50,
      durationMs: bench.quick ? 1_000 : 5_000,
    };
    const startedMs = performance.now();
    const most = await sendLoad(load);
    await queueEmpty(belfry);
    const perSecond = most.requests / ((performance.now() - startedMs) / 1000);
    const durationMs = bench.quick ? 2_000 : 15_000;
    const loading = sendSteadily({ ...load, durationMs, perSecond: perSecond / 2 });
    const busy = await probe(Math.floor(durationMs / (EVERY_MS + 15)));
    const steady = await loading;
    show(
      bench,
      'at half load',
      busy,
      `${steady.perSecond.toFixed(0)} broadcasts/s, half of what is accepted and fanned out`,
    );
  } finally {
    client.stop();
    await belfry.stop();
  }
};

function show(
  { figure }: Bench,
  when: string,
  { fromRequestMs, fromResponseMs }: ProbeTimes,
  note?: string,
): void {
  const idle = when === 'idle';
  for (const percent of [50, 99]) {
    const aim = idle ? { aim: { value: percent === 50 ? 5 : 20, better: 'less' as const } } : {};
    const fromResponse = percentile(fromResponseMs, percent).toFixed(2);
    figure({
      name: `request → frame, ${when}: p${percent}`,
      value: percentile(fromRequestMs, percent),
      unit: 'ms',
      ...aim,
      note: `from the 201 on: ${fromResponse} ms${note === undefined ? '' : `; ${note}`}`,
    });
  }
}
