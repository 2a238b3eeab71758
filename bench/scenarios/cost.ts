import { sql } from '../../server/src/db/client.ts';
import { type Belfry, startBelfry } from '../support/belfry.ts';
import { broadcastBody, randomIds } from '../support/broadcast-body.ts';
import type { LoadResult } from '../support/load.ts';
import { cpuOf, used } from '../support/processes.ts';
import { queueEmpty } from '../support/queue.ts';
import type { Bench, Scenario } from '../support/scenario.ts';
import { startTask, type Task } from '../support/task.ts';

/** (g) What a broadcast and a notification cost: CPU time, statements, transactions that write, and write-ahead log. */
export const measureCost: Scenario = async (bench) => {
  await preload(bench, 'pg_stat_statements');
  const belfry = await startBelfry(bench);
  const sender = startTask('send.ts');
  try {
    await belfry.db.query(sql('bench_statements', 'create extension if not exists pg_stat_statements'));
    const users = 20_000;
    const prefix = `g${Date.now()}-`;
    const large = (known: boolean, count: number) =>
      Array.from({ length: count }, (_, broadcast) =>
        broadcastBody(
          known
            ? randomIds(prefix, users, 1_000)
            : Array.from({ length: 1_000 }, (_, index) => `${prefix}${broadcast * 1_000 + index}`),
        ),
      );
    await measure(bench, belfry, sender, '1000 new users', large(false, users / 1_000), 1_000);
    await measure(bench, belfry, sender, '1000 known users', large(true, bench.quick ? 20 : 100), 1_000);
    const single = Array.from({ length: bench.quick ? 1_000 : 20_000 }, () =>
      broadcastBody(randomIds(prefix, users, 1)),
    );
    await measure(bench, belfry, sender, '1 known user', single, 1);
  } finally {
    sender.stop();
    await belfry.stop();
    await preload(bench, '');
  }
};

/** Sets what PostgreSQL loads at its next start. */
async function preload(bench: Bench, libraries: string): Promise<void> {
  const belfry = await startBelfry({ dataDir: bench.dataDir });
  const change =
    libraries === '' ? 'reset shared_preload_libraries' : `set shared_preload_libraries = '${libraries}'`;
  await belfry.db.query(sql(`bench_preload_${libraries}`, `alter system ${change}`));
  await belfry.stop();
}

async function measure(
  bench: Bench,
  belfry: Belfry,
  sender: Task,
  name: string,
  bodies: string[],
  recipients: number,
): Promise<void> {
  const { db, address, projectJwt: jwt } = belfry;
  await db.query(sql('bench_reset', 'select pg_stat_statements_reset()'));
  const before = { cpu: cpuOf(belfry.pid), database: await databaseState(belfry) };
  await sender.ask<LoadResult>({ address, jwt, bodies, connections: 8 });
  await queueEmpty(belfry);
  const cpu = used(before.cpu, cpuOf(belfry.pid));
  const after = await databaseState(belfry);
  const statements = await db.query<{ calls: number; ms: number; blocks: number; query: string }>(
    sql(
      'bench_statement_list',
      `select calls, total_exec_time as ms, shared_blks_hit + shared_blks_read as blocks, query
      from pg_stat_statements
      where query not like '%bench%' and query not like 'select exists (select from jobs)%'
      order by total_exec_time desc`,
    ),
  );
  const broadcasts = bodies.length;
  const notifications = broadcasts * recipients;
  const each = (name: string, value: number, unit: string, note?: string) =>
    bench.figure({ name, value, unit, ...(note === undefined ? {} : { note }) });
  each(`${name}: CPU of Node`, (cpu.nodeCpuMs * 1000) / notifications, 'µs/notification');
  each(`${name}: CPU of PostgreSQL`, (cpu.postgresCpuMs * 1000) / notifications, 'µs/notification');
  each(
    `${name}: write-ahead log`,
    (after.walBytes - before.database.walBytes) / notifications,
    'B/notification',
  );
  each(
    `${name}: statements`,
    statements.reduce((sum, one) => sum + one.calls, 0) / broadcasts,
    'per broadcast',
  );
  each(`${name}: transactions that write`, (after.xid - before.database.xid) / broadcasts, 'per broadcast');
  for (const { calls, ms, blocks, query } of statements.slice(0, 8)) {
    const text = query.replaceAll(/\s+/g, ' ').slice(0, 70);
    console.log(
      `      ${((ms * 1000) / notifications).toFixed(2).padStart(8)} µs ${(calls / broadcasts).toFixed(2).padStart(6)} calls of ${(blocks / calls).toFixed(0).padStart(5)} blocks  ${text}`,
    );
  }
}

async function databaseState({ db }: Belfry): Promise<{ walBytes: number; xid: number }> {
  const [state] = await db.query<{ wal: number; xid: number }>(
    sql(
      'bench_state',
      "select pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::bigint as wal, pg_snapshot_xmax(pg_current_snapshot())::text::bigint as xid",
    ),
  );
  return { walBytes: state?.wal ?? 0, xid: state?.xid ?? 0 };
}
