import { sql } from '../../server/src/db/client.ts';
import { type Belfry, until } from './belfry.ts';

/** A fan-out that is held back. */
export interface Hold {
  /** Lets it go on; answers that time. */
  release(): Promise<number>;
}

/**
 * From now on what is accepted waits: whoever writes users or notifications waits for a lock. The accept
 * itself does the same work.
 */
export async function holdFanOut({ db }: Belfry): Promise<Hold> {
  const client = await db.connect();
  await client.query('begin');
  await client.query('lock table user_keys, notifications in share mode');
  return {
    async release() {
      const releasedMs = performance.now();
      await client.end();
      return releasedMs;
    },
  };
}

/** Resolves when nothing is left to do. */
export async function queueEmpty({ db }: Belfry): Promise<void> {
  const any = sql('bench_any_job', 'select exists (select from jobs) as some');
  await until('the queue is empty', async () => (await db.query<{ some: boolean }>(any))[0]?.some === false);
}
