import { rm } from 'node:fs/promises';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { sql } from '../../src/db/client.ts';
import type { Opened } from '../../src/open.ts';
import { type BelfryProcess, startBelfry, withDatabaseOf } from '../support/belfry-process.ts';
import { newDataDir } from '../support/data-dir.ts';
import { caller, until } from '../support/service.ts';

// More than are continued in the transaction of an event: the others are left to several jobs.
const RUNS = 5_000;
const AT_ONCE = 1_000;

let dataDir = '';
let belfry: BelfryProcess | undefined;

beforeAll(async () => {
  dataDir = await newDataDir('kill-continued');
});
afterAll(async () => {
  await belfry?.killTree();
  await rm(dataDir, { recursive: true, force: true });
});

const count = async ({ db }: Opened, from: string): Promise<number> => {
  const [row] = await db.query<{ count: number }>(sql('', `select count(*)::int as count from ${from}`));
  return row?.count ?? 0;
};
const JOBS = "jobs where kind = 'continue_workflows'";
/** Waits until so many runs wait at a step. */
const waiting = (place: number) =>
  withDatabaseOf(dataDir, (opened) =>
    until(
      () => count(opened, `workflow_runs where state = 2 and waits_for is not null and place = '${place}'`),
      (found) => found === RUNS,
      { everyMs: 50 },
    ),
  );

test.runIf(process.platform === 'linux')(
  'an event continues each of very many runs once over a kill of every process',
  { timeout: 300_000 },
  async () => {
    belfry = await startBelfry(dataDir);
    const { credentials } = belfry;
    const call = caller(() => belfry?.address ?? '', credentials.project_jwt);
    const waitFor = (event: string) => ({ command: 'wait_for', input: { event, timeout: 86_400 } });
    // Each event would also continue a run that it has just continued.
    const events = ['paid', 'paid', 'category.saved', 'category.saved'];
    const { status } = await call('PUT', '/workflows', { key: 'flow', steps: events.map(waitFor) });
    expect(status).toBe(200);
    for (let started = 0; started < RUNS; started += AT_ONCE)
      await call('POST', '/workflows/runs/bulk', {
        key: 'flow',
        inputs: Array.from({ length: AT_ONCE }, () => ({})),
      });
    await waiting(0);

    /** Sends an event, and kills all processes when some of its jobs have ended and some have not. */
    const send = async (event: () => Promise<unknown>, place: number) => {
      const left = await withDatabaseOf(dataDir, async (opened) => {
        const sent = event();
        const total = await until(
          () => count(opened, JOBS),
          (jobs) => jobs > 0,
          { everyMs: 1 },
        );
        await sent;
        return until(
          () => count(opened, JOBS),
          (jobs) => jobs < total,
          { everyMs: 1 },
        );
      });
      await belfry?.killTree();
      console.log(`killed with ${left} jobs left`);
      belfry = await startBelfry(dataDir);
      await waiting(place);
      await withDatabaseOf(dataDir, (opened) =>
        until(
          () => count(opened, JOBS),
          (jobs) => jobs === 0,
        ),
      );
      await waiting(place);
    };
    await send(async () => {
      const { body } = await call('POST', '/workflows/events', { name: 'paid' });
      expect(body).toEqual({ continued: RUNS, started: 0 });
    }, 1);
    await call('POST', '/workflows/events', { name: 'paid' });
    await waiting(2);
    // An event of Belfry.
    await send(() => call('PUT', '/channels', { key: 'sport', channels: [] }), 3);
    belfry.signal('SIGTERM');
    expect(await belfry.ended).toBe(0);
  },
);
