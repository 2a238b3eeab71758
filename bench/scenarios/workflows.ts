import { join } from 'node:path';
import { waitMs } from '../../server/src/lib/wait.ts';
import { type Belfry, startBelfry } from '../support/belfry.ts';
import { costOf, showCost } from '../support/cost.ts';
import { cpuOf, memoryOf, used } from '../support/processes.ts';
import { queueEmpty } from '../support/queue.ts';
import type { Bench, Scenario } from '../support/scenario.ts';

const CONNECTIONS = 32;
const USERS = 1_000;
const OF_REQUEST = 1_000;
/** A run with one step may cost twice a broadcast. */
const AIM = 2;

const ONE_STEP = [{ command: 'broadcast', input: { title: 'Hello {{ user.external_id }}' } }];
const TEN_STEPS = Array.from({ length: 10 }, (_, index) =>
  index === 9
    ? ONE_STEP[0]
    : {
        command: 'set',
        if: `input.number >= ${index - 1}`,
        input: { [`step${index}`]: '{{ input.number }}' },
      },
);

/**
 * (workflows) Runs with one broadcast step, and with ten steps and conditions, in CPU time of the server
 * against plain broadcasts to the same users; many runs that are due in the same second; and what runs cost
 * while they wait.
 */
export const measureWorkflows: Scenario = async (bench) => {
  const belfry = await startBelfry({ ...bench, dataDir: join(bench.dataDir, 'workflows') });
  try {
    const runs = bench.quick ? 2_000 : 20_000;
    await save(belfry, 'one', ONE_STEP);
    await save(belfry, 'ten', TEN_STEPS);
    await plain(belfry, runs); // creates the users, and warms up
    await single(belfry, 'one', runs / 4);
    const broadcast = await costOf(belfry, runs, () => plain(belfry, runs));
    showCost(bench, 'a plain broadcast to one user', broadcast);
    const kinds: [string, () => Promise<void>][] = [
      ['a run with one broadcast step', () => single(belfry, 'one', runs)],
      ['the same, started 1000 at a time', () => bulk(belfry, 'one', runs)],
      ['a run with ten steps and conditions, started 1000 at a time', () => bulk(belfry, 'ten', runs)],
    ];
    for (const [name, work] of kinds) {
      const cost = await costOf(belfry, runs, work);
      showCost(bench, name, cost);
      bench.figure({
        name: `${name}: CPU, of that of a plain broadcast`,
        value: cost.micros / broadcast.micros,
        unit: 'times',
        ...(name.includes('one') ? { aim: { value: AIM, better: 'less' as const } } : {}),
      });
    }
    await measureDue(bench, belfry, bench.quick ? 5_000 : 100_000);
    await measureWaiting(bench, belfry, bench.quick ? 5_000 : 100_000);
  } finally {
    await belfry.stop();
  }
};

async function save(belfry: Belfry, key: string, steps: readonly unknown[]): Promise<void> {
  const { status } = await belfry.call('PUT', '/workflows', { key, steps });
  if (status !== 200) throw new Error(`a workflow was not saved: ${status}`);
}

const userOf = (number: number) => ({ external_id: `user-${number % USERS}` });

function plain(belfry: Belfry, count: number): Promise<void> {
  return inParallel(count, async (number) => {
    const user = userOf(number);
    const title = `Hello ${user.external_id}`;
    expect(await belfry.call('POST', '/broadcasts', { title, recipients: [user] }), 201);
  });
}

function single(belfry: Belfry, key: string, count: number): Promise<void> {
  return inParallel(count, async (number) => {
    const input = { user: userOf(number), number };
    expect(await belfry.call('POST', '/workflows/runs', { key, input }), 200);
  });
}

async function bulk(belfry: Belfry, key: string, count: number, more: object = {}): Promise<void> {
  for (let start = 0; start < count; start += OF_REQUEST) {
    const inputs = Array.from({ length: OF_REQUEST }, (_, index) => ({
      user: userOf(start + index),
      number: start + index,
      ...more,
    }));
    expect(await belfry.call('POST', '/workflows/runs/bulk', { key, inputs }), 200);
  }
}

/** The time from the moment at which many runs are due until all have sent their broadcast. */
async function measureDue(bench: Bench, belfry: Belfry, count: number): Promise<void> {
  await save(belfry, 'due', [{ command: 'wait', input: { until: '{{ input.at }}' } }, ...ONE_STEP]);
  const dueMs = Date.now() + (count / 1_000) * 1_000 + 5_000;
  await bulk(belfry, 'due', count, { at: new Date(dueMs).toISOString() });
  const startedLate = Date.now() > dueMs;
  await waitMs(Math.max(0, dueMs - Date.now()));
  const memory = peakMemory(belfry);
  await queueEmpty(belfry);
  const seconds = (Date.now() - dueMs) / 1_000;
  const { node, postgres } = memory.end();
  bench.figure({
    name: `${count} runs due in the same second: until all are completed`,
    value: seconds,
    unit: 's',
    note:
      `${startedLate ? 'some were started later' : 'all waited'}; ` +
      `at most Node ${node} MiB, PostgreSQL ${postgres} MiB`,
  });
}

/** What the server uses at rest, without runs that wait and with them. */
async function measureWaiting(bench: Bench, belfry: Belfry, count: number): Promise<void> {
  await save(belfry, 'waiting', [{ command: 'wait', input: { duration: 90 * 86_400 } }, ...ONE_STEP]);
  const before = await atRest(belfry);
  await bulk(belfry, 'waiting', count);
  const waiting = await atRest(belfry);
  bench.figure({
    name: `at rest while ${count} runs wait`,
    value: waiting.cpuMs,
    unit: 'ms of CPU/s',
    note: `before ${before.cpuMs.toFixed(1)} ms; Node ${waiting.nodeMiB} MiB, before ${before.nodeMiB} MiB`,
  });
}

// After requests, memory is returned within a minute.
const SETTLES_MS = 90_000;
const RESTS_MS = 30_000;

async function atRest({ pid }: Belfry): Promise<{ cpuMs: number; nodeMiB: number }> {
  await waitMs(SETTLES_MS);
  const before = cpuOf(pid);
  await waitMs(RESTS_MS);
  const { nodeCpuMs, postgresCpuMs } = used(before, cpuOf(pid));
  return {
    cpuMs: (nodeCpuMs + postgresCpuMs) / (RESTS_MS / 1_000),
    nodeMiB: Math.round(memoryOf(pid).nodeBytes / 2 ** 20),
  };
}

/** Samples the memory of the server. `end` returns the highest values in MiB. */
function peakMemory({ pid }: Belfry): { end(): { node: number; postgres: number } } {
  const peak = { node: 0, postgres: 0 };
  const sample = () => {
    const { nodeBytes, postgresBytes } = memoryOf(pid);
    peak.node = Math.max(peak.node, Math.round(nodeBytes / 2 ** 20));
    peak.postgres = Math.max(peak.postgres, Math.round(postgresBytes / 2 ** 20));
  };
  sample();
  const timer = setInterval(sample, 1_000);
  return {
    end() {
      clearInterval(timer);
      return peak;
    },
  };
}

async function inParallel(count: number, work: (number: number) => Promise<void>): Promise<void> {
  let next = 0;
  const worker = async () => {
    while (next < count) {
      const number = next;
      next += 1;
      await work(number);
    }
  };
  await Promise.all(Array.from({ length: CONNECTIONS }, worker));
}

function expect({ status }: { status: number }, wanted: number): void {
  if (status !== wanted) throw new Error(`a request returned ${status}`);
}
