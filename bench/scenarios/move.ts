import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { sql } from '../../server/src/db/client.ts';
import { startBelfry, until } from '../support/belfry.ts';
import { broadcastBody } from '../support/broadcast-body.ts';
import { type LoadResult, sendSteadily } from '../support/load.ts';
import { queueEmpty } from '../support/queue.ts';
import type { Bench, Scenario } from '../support/scenario.ts';
import { startTask } from '../support/task.ts';

const LAUNCHER = join(import.meta.dirname, '..', '..', 'bin', 'belfry.mjs');
const RECIPIENTS = 1_000;
const USERS = 100_000;
const BROADCASTS_PER_SECOND = 100;
const AIM_MS = 1_000;

interface Created {
  project_id: string;
  project_jwt: string;
}

/**
 * (move) A project with a million notifications moves to another cell in the same database, while it sends
 * broadcasts to five users: how long that takes, and for how long its writes wait.
 */
export const measureMove: Scenario = async (bench) => {
  const first = await startBelfry(bench);
  await run(bench, ['cell', 'add', 'two']);
  await first.stop(); // the next start gives the database enough connections for the cell
  const belfry = await startBelfry(bench);
  try {
    const name = `move ${Date.now()}`;
    const shop = await run<Created>(bench, ['project', 'create', name]);
    const { address } = belfry;
    const jwt = shop.project_jwt;
    const prefix = 'move-';
    const count = bench.quick ? 20 : 1_000;
    const sender = startTask('send.ts');
    const bodies = Array.from({ length: count }, (_, broadcast) =>
      broadcastBody(
        Array.from(
          { length: RECIPIENTS },
          (_none, index) => `${prefix}${(broadcast * RECIPIENTS + index) % USERS}`,
        ),
      ),
    );
    const filled = await sender.request<LoadResult>({ address, jwt, bodies, connections: 8 });
    sender.stop();
    if (filled.errors > 0) throw new Error(`${filled.errors} broadcasts were not accepted`);
    await queueEmpty(belfry);
    const durationMs = bench.quick ? 20_000 : 90_000;
    const load = {
      address,
      jwt,
      recipients: 5,
      users: bench.quick ? 20_000 : USERS,
      prefix,
      connections: 16,
      durationMs,
    };
    const sending = sendSteadily({ ...load, perSecond: BROADCASTS_PER_SECOND });
    const startedMs = performance.now();
    const { paused_ms } = await run<{ paused_ms: number }>(bench, [
      'project',
      'move',
      shop.project_id,
      '--to',
      'two',
    ]);
    const seconds = (performance.now() - startedMs) / 1_000;
    const sent = await sending;
    await until('all jobs have ended', async () => (await jobsIn(belfry.db)) === 0);
    const [stored] = await belfry.db.query<{ count: number }>(
      sql('', 'select count(*)::float8 as count from belfry_two.notifications'),
    );
    const wanted = count * RECIPIENTS + sent.requests * 5;
    if (sent.errors === 0 && stored?.count !== wanted)
      throw new Error(`${stored?.count} notifications are in the new cell, not ${wanted}`);
    const note = `${count * RECIPIENTS} notifications, ${BROADCASTS_PER_SECOND} broadcasts/s beside it`;
    bench.figure({
      name: 'writes of the project wait',
      value: paused_ms,
      unit: 'ms',
      aim: { value: AIM_MS, better: 'less' },
      note,
    });
    bench.figure({
      name: 'from the command to its end',
      value: seconds,
      unit: 's',
      note: '10.5 s of them wait for nodes',
    });
    bench.figure({
      name: 'requests that failed',
      value: sent.errors,
      unit: '',
      aim: { value: 0, better: 'less' },
      note: `of ${sent.requests}`,
    });
    bench.figure({ name: 'request: p50', value: sent.p50Ms, unit: 'ms' });
    bench.figure({ name: 'request: p99', value: sent.p99Ms, unit: 'ms' });
  } finally {
    await belfry.stop();
  }
};

async function jobsIn(db: {
  query: Awaited<ReturnType<typeof startBelfry>>['db']['query'];
}): Promise<number> {
  const [row] = await db.query<{ count: number }>(
    sql('', 'select count(*)::int as count from belfry_two.jobs'),
  );
  return row?.count ?? 0;
}

/** Runs a command, and returns what it prints as JSON. */
async function run<Result>({ dataDir }: Bench, args: readonly string[]): Promise<Result> {
  const child = spawn(process.execPath, [LAUNCHER, ...args, '--json'], {
    env: { ...process.env, DATA_DIR: dataDir },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const [output, [code]] = await Promise.all([text(child.stdout), once(child, 'exit')]);
  if (code !== 0) throw new Error(`belfry ${args.join(' ')} ended with ${code}`);
  return JSON.parse(output) as Result;
}
