import { type Queryable, sql } from '../db/client.ts';
import type { JobKind } from './jobs.ts';

// More in one statement would be a long transaction. The next statement follows immediately.
const MAX_JOBS = 2000;

/** Makes scheduled jobs that are due ready. Returns their kinds, and whether there may be more. */
export async function promote(db: Queryable, nowMs: number): Promise<{ kinds: Set<JobKind>; more: boolean }> {
  const rows = await db.query<{ kind: JobKind }>(promoteDue, [new Date(nowMs), MAX_JOBS]);
  return { kinds: new Set(rows.map((row) => row.kind)), more: rows.length === MAX_JOBS };
}

// Index jobs_scheduled (due_at), then the primary key; for the array see claim.ts. A job waits from when it
// is due.
const promoteDue = sql(
  'promote',
  `update jobs
  set due_at = null, enqueued_at = due_at
  where id = any (array(
    select id
    from jobs
    where due_at <= $1 and lease_id is null
    order by due_at
    limit $2
    for update skip locked
  ))
  returning kind`,
);
