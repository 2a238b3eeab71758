import { type Database, type Queryable, sql } from '../../src/db/client.ts';

/** What some work read in the tables of the service. */
export interface Reads {
  /** The tables of which a statement read everything. */
  scanned: string[];
  /** The rows that were read in all tables. Entries of indexes that need no row do not count. */
  rows: number;
}

/**
 * Returns what `work` reads, and rolls it back. The database must have one connection, and `work` must not
 * commit.
 */
export async function readsOf(db: Database, work: () => Promise<unknown>): Promise<Reads> {
  await db.query(sql('', 'begin'));
  try {
    const before = await counted(db);
    await work();
    const after = await counted(db);
    const scansBefore = new Map(before.map(({ table, scans }) => [table, scans]));
    const sum = (tables: readonly Counted[]) => tables.reduce((all, { rows }) => all + rows, 0);
    return {
      scanned: after.flatMap(({ table, scans }) => (scans > (scansBefore.get(table) ?? 0) ? [table] : [])),
      rows: sum(after) - sum(before),
    };
  } finally {
    await db.query(sql('', 'rollback'));
  }
}

interface Counted {
  table: string;
  scans: number;
  rows: number;
}

async function counted(db: Queryable): Promise<Counted[]> {
  await db.query(sql('', 'select pg_stat_force_next_flush()'));
  return db.query<Counted>(
    sql(
      '',
      `select relname as table, seq_scan::int as scans,
        (seq_tup_read + coalesce(idx_tup_fetch, 0))::int as rows
      from pg_stat_xact_user_tables`,
    ),
  );
}
