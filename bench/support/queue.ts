import { sql } from '../../server/src/db/client.ts';
import { type Belfry, until } from './belfry.ts';

/** From now on what is accepted waits: new fan-outs get a due time that never comes. The accept itself does the same work. */
export async function holdFanOut({ db }: Belfry): Promise<void> {
  await db.query(sql('bench_hold', "alter table jobs alter column due_at set default 'infinity'"));
}

/** Lets what waits begin, and what comes now go its usual way. Resolves when the worker has begun; answers that time. */
export async function releaseFanOut({ db }: Belfry): Promise<number> {
  await db.query(sql('bench_release', 'alter table jobs alter column due_at drop default'));
  const [{ waiting } = { waiting: 0 }] = await db.query<{ waiting: number }>(
    sql(
      'bench_ready',
      "with ready as (update jobs set due_at = null where due_at = 'infinity' returning id) select count(*)::int as waiting from ready",
    ),
  );
  if (waiting === 0) throw new Error('nothing waits');
  const leased = sql('bench_leased', 'select exists (select from jobs where lease_id is not null) as leased');
  await until(
    'the worker begins',
    async () => (await db.query<{ leased: boolean }>(leased))[0]?.leased === true,
    { everyMs: 1 },
  );
  return performance.now();
}

/** Resolves when nothing is left to do. */
export async function queueEmpty({ db }: Belfry): Promise<void> {
  const any = sql('bench_any_job', 'select exists (select from jobs) as some');
  await until('the queue is empty', async () => (await db.query<{ some: boolean }>(any))[0]?.some === false);
}
