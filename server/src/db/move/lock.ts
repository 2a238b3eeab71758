import type pg from 'pg';

/**
 * Locks moves of projects until the connection, to the database of the default cell, ends. A move takes the
 * lock alone; backups share it, and keep moves away. Returns whether it was free.
 */
export async function takeMovesLock(
  client: pg.Client,
  { shared = false }: { shared?: boolean } = {},
): Promise<boolean> {
  const { rows } = await client.query<{ taken: boolean }>(
    `select pg_try_advisory_lock${shared ? '_shared' : ''}(${MOVES}) as taken`,
  );
  return rows[0]?.taken === true;
}

const MOVES = "hashtextextended('moves of projects', 0)";
