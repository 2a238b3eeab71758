import { textArray, uuidArray } from '../../../db/arrays.ts';
import { type Database, type Queryable, sql } from '../../../db/client.ts';
import type { Clock } from '../../../lib/clock.ts';
import { OLDEST } from '../../../lib/cursor.ts';
import { enqueueStarts, nextStart, type ScheduleRow } from '../definitions/schedules.ts';

// A clock that goes back by less repeats no start, as it repeats no id (db/database-clock.ts).
const AHEAD_MS = 24 * 3_600_000;
const PAGE = 500;

type Place = Pick<ScheduleRow, 'project_id' | 'workflow_key' | 'place'>;

/**
 * Sets the next start of each schedule that skips one of its times by more than a day, because it was planned
 * while the clock was ahead: it would start nothing until the clock is there once more.
 */
export async function correctStarts(
  { db, clock }: { db: Pick<Database, 'transaction'>; clock: Clock },
  signal: AbortSignal,
): Promise<void> {
  let after: Place | undefined = { project_id: OLDEST, workflow_key: '', place: 0 };
  while (after !== undefined && !signal.aborted) {
    const from: Place = after;
    after = await db.transaction((tx) => correctPage(tx, clock.now(), from));
  }
}

/** Returns the last schedule of the page; undefined if no page follows. */
async function correctPage(tx: Queryable, nowMs: number, after: Place): Promise<Place | undefined> {
  const rows = await tx.query<ScheduleRow & { next_at: Date }>(lockPage, [
    after.project_id,
    after.workflow_key,
    after.place,
    new Date(nowMs + AHEAD_MS),
    PAGE,
  ]);
  const wrong = rows.filter((row) => {
    const first = nextStart(row, nowMs + AHEAD_MS);
    return first !== null && first < row.next_at;
  });
  const corrected = wrong.map((row) => ({ ...row, next_at: nextStart(row, nowMs) }));
  if (corrected.length > 0) {
    await updateStarts(tx, corrected);
    await enqueueStarts(tx, corrected);
  }
  return rows.length === PAGE ? rows.at(-1) : undefined;
}

/** Stores the next starts of these schedules, whose rows are locked. */
export async function updateStarts(tx: Queryable, rows: readonly ScheduleRow[]): Promise<void> {
  await tx.query(updateNext, [
    uuidArray(rows.map(({ project_id }) => project_id)),
    textArray(rows.map(({ workflow_key }) => workflow_key)),
    rows.map(({ place }) => place),
    rows.map(({ next_at }) => next_at),
  ]);
}

// Primary key, both.
const lockPage = sql(
  'lock_later_workflow_schedules',
  `select project_id, workflow_key, place, schedule, time_zone, next_at
  from workflow_schedules
  where (project_id, workflow_key, place) > ($1, $2, $3)
    and next_at > $4
  order by project_id, workflow_key, place
  limit $5
  for update`,
);
const updateNext = sql(
  'update_workflow_schedules',
  `update workflow_schedules s
  set next_at = n.next_at
  from unnest($1::uuid[], $2::text[], $3::int[], $4::timestamptz[])
    as n (project_id, workflow_key, place, next_at)
  where s.project_id = n.project_id and s.workflow_key = n.workflow_key and s.place = n.place`,
);
