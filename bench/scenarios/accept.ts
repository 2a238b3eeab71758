import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { sql } from '../../server/src/db/client.ts';
import { type Belfry, startBelfry } from '../support/belfry.ts';
import { hasWrk, type Load, type LoadResult, sendLoad } from '../support/load.ts';
import { cpuOf, memoryOf, used } from '../support/processes.ts';
import { holdFanOut, queueEmpty } from '../support/queue.ts';
import type { Bench, Scenario } from '../support/scenario.ts';
import { median } from '../support/statistics.ts';
import { startTask } from '../support/task.ts';

const MEGABYTE = 1_048_576;

interface Sample extends LoadResult {
  nodeMicros: number;
  postgresMicros: number;
  /** Broadcasts a second until all were fanned out. */
  processedPerSecond: number;
}

/**
 * Broadcasts accepted per second over 50 connections, and how long each takes: to one known user, which
 * is in the inbox before the response; to one user with attributes, which uses the queue, alone and while the
 * queue is processed; and large ones. Each kind has its own server and database, so that none pays for
 * vacuuming after another.
 */
export const measureAccept: Scenario = async (bench) => {
  const bare = startTask('bare-http.ts');
  try {
    const bareServer = await bare.request<{ address: string; pid: number }>({ replyBytes: 600 });
    const limits: { perSecond: number; nodeMicros: number }[] = [];
    const kinds = [
      { name: '1 known recipient, in the inbox at once', described: false, held: false, aim: 15_000 },
      { name: '1 described recipient, fan-out deferred', described: true, held: true, aim: 15_000 },
      { name: '1 described recipient, fan-out beside it', described: true, held: false },
    ];
    for (const { name, described, held, aim } of kinds) {
      const samples = await withBelfry(bench, async (belfry) => {
        const load: Load = { ...smallLoad(bench, belfry), described };
        // The first seconds run cold code, and create the users.
        await measure(belfry, { ...load, described: true }, false);
        await measure(belfry, load, held);
        const rounds: Sample[] = [];
        for (let round = 1; round <= (bench.quick ? 1 : 3); round += 1) {
          limits.push(await measureBare(bareServer, load));
          rounds.push(await measure(belfry, load, held));
        }
        return rounds;
      });
      show(bench, name, samples, aim);
    }
    const nodeMicros = median(limits.map((limit) => limit.nodeMicros)).toFixed(1);
    await withBelfry(bench, (belfry) => compareVersions(bench, belfry));
    bench.figure({
      name: 'limit: a bare Node HTTP server',
      value: median(limits.map(({ perSecond }) => perSecond)),
      unit: 'requests/s',
      note: `CPU each: node ${nodeMicros} µs; sent by ${hasWrk ? 'wrk' : 'a Node process'}`,
    });
    await withBelfry(bench, (belfry) => measureLarge(bench, belfry));
  } finally {
    bare.stop();
  }
};

/** Runs `work` with a server on a directory of its own. */
async function withBelfry<Result>(bench: Bench, work: (belfry: Belfry) => Promise<Result>): Promise<Result> {
  const dataDir = mkdtempSync(join(tmpdir(), 'belfry-bench-accept-'));
  const belfry = await startBelfry({ ...bench, dataDir });
  try {
    return await work(belfry);
  } finally {
    await belfry.stop();
    rmSync(dataDir, { recursive: true, force: true });
  }
}

function smallLoad({ quick }: Bench, { address, projectJwt }: Belfry): Load {
  return {
    address,
    jwt: projectJwt,
    recipients: 1,
    users: 1_000,
    prefix: 'accept',
    connections: 50,
    durationMs: quick ? 1_000 : 5_000,
  };
}

/** The same requests to a server that only responds. */
async function measureBare(
  server: { address: string; pid: number },
  load: Load,
): Promise<{ perSecond: number; nodeMicros: number }> {
  const before = cpuOf(server.pid);
  const { perSecond, requests } = await sendLoad({ ...load, address: server.address });
  const { nodeCpuMs } = used(before, cpuOf(server.pid));
  return { perSecond, nodeMicros: (nodeCpuMs * 1000) / requests };
}

/** The same broadcasts by both versions of the API, in turns. */
async function compareVersions(bench: Bench, belfry: Belfry): Promise<void> {
  const { apiKey, apiSecret } = belfry;
  const v2: Load = { ...smallLoad(bench, belfry), prefix: 'versions' };
  const v1: Load = { ...v2, v1: { apiKey, apiSecret } };
  // The users are created, and the code of both is compiled.
  for (const load of [{ ...v2, described: true }, v2, v1]) await measure(belfry, load, false);
  const samples: Record<'v1' | 'v2', Sample[]> = { v1: [], v2: [] };
  // In a quick run, too: single rounds have had 78 to 234 %.
  for (let round = 1; round <= 4; round += 1)
    for (const [version, load] of round % 2 === 0
      ? ([
          ['v1', v1],
          ['v2', v2],
        ] as const)
      : ([
          ['v2', v2],
          ['v1', v1],
        ] as const))
      samples[version].push(await measure(belfry, load, false));
  const perSecond = (version: 'v1' | 'v2') => median(samples[version].map((sample) => sample.perSecond));
  const micros = (version: 'v1' | 'v2') =>
    median(samples[version].map((sample) => sample.nodeMicros)).toFixed(1);
  bench.figure({
    name: 'POST /notifications of version 1 against POST /v2/broadcasts',
    value: (perSecond('v1') / perSecond('v2')) * 100,
    unit: '%',
    aim: { value: 90, better: 'more' },
    note: `node ${micros('v1')} and ${micros('v2')} µs each`,
  });
}

/** Accepts a thousand recipients each, and reports the memory before and after. */
async function measureLarge(bench: Bench, belfry: Belfry): Promise<void> {
  const large: Load = {
    ...smallLoad(bench, belfry),
    recipients: 1_000,
    users: 20_000,
    prefix: 'large',
    described: true,
    connections: 8,
  };
  await measure(belfry, large, true);
  const memory: number[] = [memoryOf(belfry.pid).nodeBytes / MEGABYTE];
  const samples: Sample[] = [];
  for (let round = 1; round <= (bench.quick ? 1 : 4); round += 1) {
    samples.push(await measure(belfry, large, true));
    memory.push(memoryOf(belfry.pid).nodeBytes / MEGABYTE);
  }
  show(bench, '1000 recipients (150 kB), fan-out deferred', samples, 700);
  bench.figure({
    name: '1000 recipients: Node memory after each round',
    value: memory.at(-1) ?? 0,
    unit: 'MiB',
    note: memory.map((value) => value.toFixed(0)).join(' → '),
  });
}

async function measure(belfry: Belfry, load: Load, held: boolean): Promise<Sample> {
  const hold = held ? await holdFanOut(belfry) : undefined;
  const before = cpuOf(belfry.pid);
  const startedMs = performance.now();
  const result = await sendLoad(load);
  if (result.errors > 0) throw new Error(`${result.errors} requests failed`);
  const accepted = used(before, cpuOf(belfry.pid));
  if (hold) {
    // Deletes the waiting jobs: other scenarios measure the fan-out.
    await belfry.db.query(sql('bench_forget', 'delete from jobs where lease_id is null'));
    await hold.release();
  }
  await queueEmpty(belfry);
  const usage = held ? accepted : used(before, cpuOf(belfry.pid));
  const seconds = (performance.now() - startedMs) / 1000;
  await delay(500);
  return {
    ...result,
    nodeMicros: (usage.nodeCpuMs * 1000) / result.requests,
    postgresMicros: (usage.postgresCpuMs * 1000) / result.requests,
    processedPerSecond: result.requests / seconds,
  };
}

function show({ figure }: Bench, name: string, samples: readonly Sample[], aim?: number): void {
  const middle = (member: keyof Sample) => median(samples.map((sample) => sample[member]));
  const [node, postgres] = [middle('nodeMicros').toFixed(1), middle('postgresMicros').toFixed(1)];
  const cpu = `CPU each: node ${node} µs, postgres ${postgres} µs`;
  figure({
    name,
    value: middle('perSecond'),
    unit: 'accepts/s',
    ...(aim === undefined ? {} : { aim: { value: aim, better: 'more' } }),
    note: cpu,
  });
  figure({ name: `${name}: p50`, value: middle('p50Ms'), unit: 'ms' });
  figure({ name: `${name}: p99`, value: middle('p99Ms'), unit: 'ms' });
  if (name.includes('beside'))
    figure({
      name: `${name}: until all are processed`,
      value: middle('processedPerSecond'),
      unit: 'broadcasts/s',
    });
}
