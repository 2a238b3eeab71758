import { setTimeout as delay } from 'node:timers/promises';
import { hasCitus, placedSchemas, plannedTransfers, rebalanceState, startRebalance } from '../db/citus.ts';
import type { Database, Queryable } from '../db/client.ts';
import { type Cell, urlsOf } from '../domain/setup/cells/cells.ts';
import type { Opened } from '../open.ts';
import { CommandError } from './command.ts';
import { print, printJson } from './output.ts';
import { type Progress, progress } from './progress.ts';
import { reportFailures, withCells } from './with-cells.ts';
import { withDatabase } from './with-database.ts';

const POLL_MS = 500;

/** `belfry cell rebalance`: moves cells between the workers of Citus while they are in use. */
export async function rebalanceCellsCommand({ json }: { json?: boolean }): Promise<void> {
  const shown = progress();
  const moved = await withCells(async ({ main, cells }) => {
    const before = await workersOf(main, cells);
    const failures = await eachDatabase(main, cells, (db) => rebalance(db, shown));
    reportFailures(failures);
    if (before.workers.size === 0 && failures.length === 0)
      throw new CommandError('no cell is on a worker of Citus: see belfry cell add --distribute');
    const after = await workersOf(main, cells);
    return [...before.workers].flatMap(([cell, from]) => {
      const to = after.workers.get(cell) ?? from;
      return to === from ? [] : [{ cell, from, to }];
    });
  }).finally(() => shown.end());
  if (json) return printJson({ moved });
  for (const { cell, from, to } of moved) print(`Cell ${cell} moved from ${from} to ${to}.`);
  if (moved.length === 0) print('No cell was moved.');
}

/** Returns the workers that store cells, by the names of the cells, and why databases could not be asked. */
export async function workersOf(
  main: Opened,
  cells: readonly Cell[],
): Promise<{ workers: Map<string, string>; failures: Error[] }> {
  const workers = new Map<string, string>();
  const failures = await eachDatabase(main, cells, async (db, ofDatabase) => {
    if (!(await hasCitus(db))) return;
    const places = new Map((await placedSchemas(db)).map(({ schema, worker }) => [schema, worker]));
    for (const { name, schema } of ofDatabase) {
      const worker = places.get(schema);
      if (worker !== undefined) workers.set(name, worker);
    }
  });
  return { workers, failures };
}

/** Moves schemas in a database with Citus, and waits for the end of that. */
async function rebalance(db: Queryable, shown: Progress): Promise<void> {
  if (!(await hasCitus(db))) return;
  const plan = await plannedTransfers(db);
  if (plan.length === 0) return;
  await startRebalance(db);
  for (;;) {
    const { state, message } = (await rebalanceState(db)) ?? { state: 'finished' };
    if (state === 'finished') return;
    if (state === 'cancelled') throw new CommandError('the moves were cancelled in the database');
    if (state === 'failed')
      throw new CommandError(`Citus could not move a cell: ${message ?? 'see the log of the coordinator'}`);
    shown.show(plan.map(({ schema, from, to }) => `${schema} moves from ${from} to ${to}`).join(', '));
    await delay(POLL_MS);
  }
}

/** Runs `work` on each database that has cells, with these. Returns why it failed on some. */
async function eachDatabase(
  main: Opened,
  cells: readonly Cell[],
  work: (db: Database, cells: readonly Cell[]) => Promise<void>,
): Promise<Error[]> {
  const failures: Error[] = [];
  const byUrl = Map.groupBy(cells, (cell) => urlsOf(main, cell)?.directUrl);
  for (const [connectionString, ofDatabase] of byUrl) {
    const connection = connectionString === undefined ? main.place.direct : { connectionString };
    const names = ofDatabase.map(({ name }) => name).join(', ');
    const what = `the cell${ofDatabase.length === 1 ? '' : 's'} ${names}`;
    await withDatabase(connection, what, (db) => work(db, ofDatabase)).catch((error: Error) => {
      failures.push(error);
    });
  }
  return failures;
}
