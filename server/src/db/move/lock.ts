import type pg from 'pg';

/**
 * Takes the lock of moves of projects, in the database of the default cell, until the connection ends. A move
 * takes it alone; backups share it, and keep moves away. Returns whether it was free.
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
