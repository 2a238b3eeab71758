import { type Queryable, sql } from '../db/client.ts';
import type { JobKind } from './jobs.ts';

// More than this at once would be one long transaction; the next turn follows immediately.
const AT_ONCE = 2000;

/** Makes scheduled jobs whose time has come ready; answers their kinds, and whether more may be waiting. */
export async function promote(db: Queryable, nowMs: number): Promise<{ kinds: Set<JobKind>; more: boolean }> {
  const rows = await db.query<{ kind: JobKind }>(promoteDue, [new Date(nowMs), AT_ONCE]);
  return { kinds: new Set(rows.map((row) => row.kind)), more: rows.length === AT_ONCE };
}

// Index jobs_scheduled (due_at).
const promoteDue = sql(
  'promote',
  `update jobs
  set due_at = null
  where id in (
    select id
    from jobs
    where due_at <= $1 and lease_id is null
    order by due_at
    limit $2
    for update skip locked
  )
  returning kind`,
);
