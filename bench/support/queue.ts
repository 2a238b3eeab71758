import { sql } from '../../server/src/db/client.ts';
import { type Belfry, until } from './belfry.ts';

/** A fan-out that waits. */
export interface Hold {
  /** Resolves when something waits for it. */
  reached(): Promise<void>;
  /** Continues it and returns the time. */
  release(): Promise<number>;
}

/**
 * Makes the fan-outs of accepted broadcasts wait: inserts into users and notifications wait for a lock.
 * Accepting does the same work.
 */
export async function holdFanOut({ db }: Belfry): Promise<Hold> {
  const client = await db.connect();
  await client.query('begin');
  await client.query('lock table user_keys, notifications in share mode');
  const waiting = sql('bench_waiting', "select from pg_stat_activity where wait_event_type = 'Lock'");
  return {
    reached: () => until('something waits', async () => (await db.query(waiting)).length > 0),
    async release() {
      const releasedMs = performance.now();
      await client.end();
      return releasedMs;
    },
  };
}

/** Resolves when the queue is empty. */
export async function queueEmpty({ db }: Belfry): Promise<void> {
  const any = sql('bench_any_job', 'select exists (select from jobs) as some');
  await until('the queue is empty', async () => (await db.query<{ some: boolean }>(any))[0]?.some === false);
}
