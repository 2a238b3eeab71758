import { readFileSync } from 'node:fs';
import { issueToken } from '../../server/src/domain/setup/projects/tokens.ts';
import { systemClock } from '../../server/src/lib/clock.ts';
import { createSealer, loadOrCreateKey } from '../../server/src/lib/seal.ts';
import { waitMs } from '../../server/src/lib/wait.ts';
import type { LargeBodies, Statuses } from '../processes/large-bodies.ts';
import { type Belfry, startBelfry } from '../support/belfry.ts';
import { queueEmpty } from '../support/queue.ts';
import type { Bench, Scenario } from '../support/scenario.ts';
import { percentile } from '../support/statistics.ts';
import { startTask } from '../support/task.ts';

const HEAP_MIB = 400;
const CONNECTIONS = 128;
const BYTES = 10 * 1024 * 1024;
const PROBE_EVERY_MS = 10;
const AIM_MS = 100;

/**
 * (bodies) A thousand broadcasts of 10 MiB over 128 connections, to a server with a heap of 400 MB: how many
 * are accepted, the latency of another client, and the memory of the server.
 */
export const measureLargeBodies: Scenario = async (bench) => {
  const belfry = await startBelfry({
    ...bench,
    settings: { NODE_OPTIONS: `--max-old-space-size=${HEAP_MIB}` },
  });
  try {
    const other = await anotherToken(belfry);
    await probe(belfry, other, waitMs(1_000)); // cold code
    show(bench, 'another client, with nothing else to do', await probe(belfry, other, waitMs(3_000)));
    await besideLarge(bench, belfry, other, false);
    await besideLarge(bench, belfry, other, true);
    await queueEmpty(belfry);
    const peak = Number(/VmHWM:\s+(\d+)/.exec(readFileSync(`/proc/${belfry.pid}/status`, 'utf8'))?.[1]);
    bench.figure({ name: 'most memory of the server', value: peak / 1024, unit: 'MiB' });
  } finally {
    await belfry.stop();
  }
};

async function besideLarge(bench: Bench, belfry: Belfry, other: string, retried: boolean): Promise<void> {
  const { address, projectJwt: jwt } = belfry;
  const broadcasts = bench.quick || retried ? 100 : 1_000;
  const sender = startTask('large-bodies.ts');
  try {
    const load: LargeBodies = { address, jwt, broadcasts, bytes: BYTES, connections: CONNECTIONS, retried };
    const startedMs = performance.now();
    const sending = sender.request<Statuses>(load);
    const latenciesMs = await probe(belfry, other, sending);
    const seconds = (performance.now() - startedMs) / 1_000;
    const statuses = await sending;
    const name = `of ${broadcasts} broadcasts of 10 MiB${retried ? ', retried' : ''}`;
    const accepted = statuses[201] ?? 0;
    bench.figure({ name: `accepted ${name}`, value: accepted, unit: '', note: JSON.stringify(statuses) });
    bench.figure({ name: `accepted per second ${name}`, value: accepted / seconds, unit: '/s' });
    show(bench, `another client beside ${broadcasts} broadcasts${retried ? ', retried' : ''}`, latenciesMs);
  } finally {
    sender.stop();
  }
}

/** Sends small broadcasts until `end`, and returns how long each took. */
async function probe({ call }: Belfry, jwt: string, end: Promise<unknown>): Promise<number[]> {
  let goOn = true;
  const ended = end.finally(() => {
    goOn = false;
  });
  const latenciesMs: number[] = [];
  while (goOn) {
    const startedMs = performance.now();
    const { status } = await call(
      'POST',
      '/broadcasts',
      { title: 'Small', recipients: [{ external_id: 'small' }] },
      jwt,
    );
    latenciesMs.push(performance.now() - startedMs);
    if (status !== 201) throw new Error(`a small broadcast returned ${status}`);
    await waitMs(PROBE_EVERY_MS);
  }
  await ended;
  return latenciesMs;
}

function show(bench: Bench, name: string, latenciesMs: readonly number[]): void {
  bench.figure({
    name,
    value: percentile(latenciesMs, 99),
    unit: 'ms (p99)',
    aim: { value: AIM_MS, better: 'less' },
    note: `p50 ${percentile(latenciesMs, 50).toFixed(1)} ms, of ${latenciesMs.length}`,
  });
}

/** Another credential of the project. */
async function anotherToken({ db, dataDir, projectId }: Belfry): Promise<string> {
  const context = { db, sealer: createSealer([loadOrCreateKey(dataDir)]), clock: systemClock };
  const issued = await issueToken(context, { projectId, name: 'bench, small' });
  if (issued === undefined) throw new Error('there is no project');
  return issued.token;
}
