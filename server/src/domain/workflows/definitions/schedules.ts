import type { WorkflowTrigger } from '../../../contract/workflow.ts';
import { byteaArray, textArray } from '../../../db/arrays.ts';
import { type Queryable, sql } from '../../../db/client.ts';
import { parseSchedule } from '../../../lib/cron.ts';
import { writeJson } from '../../../lib/exact-numbers.ts';
import { itemsOf, memberOf } from '../../../lib/members.ts';
import { packJson } from '../../../lib/packed-json.ts';
import { isTimeZone } from '../../../lib/time-zone.ts';
import { enqueue } from '../../../queue/enqueue.ts';
import { type NewJob, priorityFor } from '../../../queue/jobs.ts';

const DEFAULT_TIME_ZONE = 'UTC';

/** Returns the problems of triggers of any shape that their schema does not find. */
export function scheduleProblems(triggers: unknown, nowMs: number): string[] {
  return itemsOf(triggers).flatMap((trigger, index) => {
    const [expression, timeZone = DEFAULT_TIME_ZONE] = [
      memberOf(trigger, 'schedule'),
      memberOf(trigger, 'time_zone'),
    ];
    if (typeof expression !== 'string' || typeof timeZone !== 'string') return [];
    const place = `Param 'triggers.${index}`;
    const isKnown = isTimeZone(timeZone);
    const problems = isKnown
      ? []
      : [`${place}.time_zone' is not the IANA name of a time zone, such as Europe/Berlin`];
    const schedule = parseSchedule(expression, isKnown ? timeZone : DEFAULT_TIME_ZONE);
    if ('problem' in schedule)
      problems.push(`${place}.schedule' is not a cron expression: ${schedule.problem}`);
    else if (schedule.nextAfter(nowMs) === undefined) problems.push(`${place}.schedule' is never due`);
    return problems;
  });
}

/** A row of workflow_schedules. */
export interface ScheduleRow {
  project_id: string;
  workflow_key: string;
  place: number;
  schedule: string;
  time_zone: string;
  next_at: Date | null;
}

/** Replaces the schedules of a workflow. One that stays keeps its next start, which may be due already. */
export async function saveSchedules(
  tx: Queryable,
  projectId: string,
  key: string,
  { triggers, nowMs }: { triggers: readonly WorkflowTrigger[]; nowMs: number },
): Promise<void> {
  const before = await tx.query<ScheduleRow>(deleteSchedules, [projectId, key]);
  const planned = new Map(before.map((row) => [`${row.time_zone} ${row.schedule}`, row.next_at]));
  const rows = triggers.flatMap((trigger, place) => {
    const { schedule, time_zone = DEFAULT_TIME_ZONE, missed, input } = trigger;
    if (schedule === undefined) return [];
    const row = { project_id: projectId, workflow_key: key, place, schedule, time_zone };
    return [
      {
        ...row,
        skip_missed: missed === 'skip',
        input: packJson(writeJson(input ?? {})),
        next_at: planned.get(`${time_zone} ${schedule}`) ?? nextStart(row, nowMs),
      },
    ];
  });
  if (rows.length === 0) return;
  await tx.query(insertSchedules, [
    projectId,
    key,
    rows.map(({ place }) => place),
    textArray(rows.map(({ schedule }) => schedule)),
    textArray(rows.map(({ time_zone }) => time_zone)),
    rows.map(({ skip_missed }) => skip_missed),
    byteaArray(rows.map(({ input }) => input)),
    rows.map(({ next_at }) => next_at),
  ]);
  await enqueueStarts(tx, rows);
}

/** Returns when a schedule starts a run next, after this time; null if it never does. */
export function nextStart(
  { schedule, time_zone }: Pick<ScheduleRow, 'schedule' | 'time_zone'>,
  afterMs: number,
): Date | null {
  const parsed = parseSchedule(schedule, time_zone);
  // The time zone may be gone since the schedule was saved.
  if ('problem' in parsed) return null;
  const ms = parsed.nextAfter(afterMs);
  return ms === undefined ? null : new Date(ms);
}

/** Enqueues the next start of these schedules. */
export async function enqueueStarts(tx: Queryable, rows: readonly ScheduleRow[]): Promise<void> {
  const jobs = rows.flatMap(({ project_id: projectId, workflow_key, place, next_at }): NewJob[] => {
    if (next_at === null) return [];
    const dueAtMs = next_at.getTime();
    const payload = { workflow_key, place, at_ms: dueAtMs };
    return [{ kind: 'start_workflow', projectId, priority: priorityFor(1), weight: 1, dueAtMs, payload }];
  });
  await enqueue(tx, jobs);
}

// Primary key, both. A job without its row does nothing.
const deleteSchedules = sql(
  'delete_workflow_schedules',
  `delete from workflow_schedules
  where project_id = $1 and workflow_key = $2
  returning project_id, workflow_key, place, schedule, time_zone, next_at`,
);
const insertSchedules = sql(
  'insert_workflow_schedules',
  `insert into workflow_schedules (
    project_id, workflow_key, place, schedule, time_zone, skip_missed, input, next_at
  )
  select $1, $2, place, schedule, time_zone, skip_missed, input, next_at
  from unnest($3::int[], $4::text[], $5::text[], $6::boolean[], $7::bytea[], $8::timestamptz[])
    as s (place, schedule, time_zone, skip_missed, input, next_at)`,
);
