import { type Database, sql } from '../../server/src/db/client.ts';
import { startBelfry } from './belfry.ts';

/** What the database has written so far. */
export interface DatabaseState {
  walBytes: number;
  /** Transactions that wrote. */
  xid: number;
}

/** Sets the libraries that PostgreSQL loads at its next start; '' resets them. */
export async function preload(dataDir: string, libraries: 'pg_stat_statements' | ''): Promise<void> {
  const belfry = await startBelfry({ dataDir });
  const change =
    libraries === '' ? 'reset shared_preload_libraries' : `set shared_preload_libraries = '${libraries}'`;
  await belfry.db.query(sql(`bench_preload_${libraries}`, `alter system ${change}`));
  if (libraries !== '')
    await belfry.db.query(sql('bench_statements', `create extension if not exists ${libraries}`));
  await belfry.stop();
}

/** Resets the counters of statements. */
export async function resetStatements(db: Database): Promise<void> {
  await db.query(sql('bench_reset', 'select pg_stat_statements_reset()'));
}

/**
 * Prints the statements with the most time, as time for each of `units`. Returns how many statements ran.
 */
export async function showStatements(
  db: Database,
  { of, units, batches, most = 8 }: { of: string; units: number; batches: number; most?: number },
): Promise<number> {
  const statements = await db.query<{ calls: number; ms: number; blocks: number; query: string }>(
    sql(
      'bench_statement_list',
      `select calls, total_exec_time as ms, shared_blks_hit + shared_blks_read as blocks, query
      from pg_stat_statements
      where query not like '%bench%' and query not like 'select exists (select from jobs)%'
      order by total_exec_time desc`,
    ),
  );
  for (const { calls, ms, blocks, query } of statements.slice(0, most)) {
    const text = query.replaceAll(/\s+/g, ' ').slice(0, 70);
    const time = ((ms * 1000) / units).toFixed(2).padStart(8);
    const count = (calls / batches).toFixed(2).padStart(6);
    const each = (blocks / calls).toFixed(0).padStart(5);
    console.log(`      ${time} µs ${count} ${of} of ${each} blocks  ${text}`);
  }
  return statements.reduce((sum, one) => sum + one.calls, 0);
}

/** Reads what the database has written so far. */
export async function databaseState(db: Database): Promise<DatabaseState> {
  const [state] = await db.query<{ wal: number; xid: number }>(
    sql(
      'bench_state',
      `select pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::bigint as wal,
        pg_snapshot_xmax(pg_current_snapshot())::text::bigint as xid`,
    ),
  );
  return { walBytes: state?.wal ?? 0, xid: state?.xid ?? 0 };
}
