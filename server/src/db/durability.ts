import { type Queryable, sql } from './client.ts';

/** The settings of a connection that decide whether a commit survives a crash. */
export interface Durability {
  synchronous_commit: string;
  fsync: string;
  full_page_writes: string;
}

/** What can be lost with these settings, and what to do about it. */
export interface Risk {
  message: string;
  advice: string;
}

/** Reads the settings as they apply to this connection. Any user may read them. */
export async function readDurability(db: Queryable): Promise<Durability> {
  const [row] = await db.query<Durability>(selectDurability);
  if (row === undefined) throw new Error('the database returned no settings');
  return row;
}

/**
 * The `synchronous_commit` that connections need if the database sets this one. Every value except `off`
 * waits for the server's own disk, so only `off` is replaced. The operator's choice for standbys
 * (`remote_apply`, `remote_write`, `local`) stays.
 */
export function neededSynchronousCommit(found: string): string {
  return found === 'off' ? 'on' : found;
}

/** The risks of these settings; empty if a crash loses nothing. */
export function risksOf({ synchronous_commit, fsync, full_page_writes }: Durability): Risk[] {
  return [
    synchronous_commit === 'off' && {
      message: 'synchronous_commit is off: a crash of the database loses broadcasts that were accepted',
      advice: 'run: alter role <user of DATABASE_URL> set synchronous_commit = on',
    },
    fsync === 'off' && {
      message: 'fsync is off: a crash of the machine can lose accepted broadcasts and damage the database',
      advice: 'set fsync = on in postgresql.conf and reload it',
    },
    full_page_writes === 'off' && {
      message: 'full_page_writes is off: a crash of the machine can damage the database',
      advice: 'set full_page_writes = on in postgresql.conf and reload it',
    },
  ].filter((risk) => risk !== false);
}

/** One line with all three values. */
export function describeDurability({ synchronous_commit, fsync, full_page_writes }: Durability): string {
  return `synchronous_commit ${synchronous_commit}, fsync ${fsync}, full_page_writes ${full_page_writes}`;
}

const selectDurability = sql(
  'select_durability',
  `select current_setting('synchronous_commit') as synchronous_commit, current_setting('fsync') as fsync,
    current_setting('full_page_writes') as full_page_writes`,
);
