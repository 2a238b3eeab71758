import { textArray, uuidArray } from '../../../db/arrays.ts';
import { sql } from '../../../db/client.ts';
import { readJson } from '../../../lib/exact-numbers.ts';
import { unpackJson } from '../../../lib/packed-json.ts';
import { complete } from '../../../queue/complete.ts';
import type { Handler } from '../../../queue/handler.ts';
import { type Job, type JobKind, priorityFor } from '../../../queue/jobs.ts';
import { enqueueStarts, nextStart, type ScheduleRow } from '../definitions/schedules.ts';
import { findVersions, inStartTransaction, newRun, type StartContext, writeRuns } from '../runs/start.ts';
import { updateStarts } from './correct-starts.ts';

type StartJob = Job<'start_workflow'>;

// A start that is later is missed: no server was running.
const MISSED_AFTER_MS = 60_000;

/** Starts runs by the schedules of their workflows, many with a few statements. */
export function scheduleHandler(context: StartContext): Handler<'start_workflow'> {
  return {
    slots: 1,
    slotsPerPartition: 1,
    gatherBelow: 0,
    maxJobs: 128,
    maxWeight: 2_048,
    maxPartitions: 32,
    run: (jobs, leaseId) => startDue(context, leaseId, { jobs, starts: isWanted }),
    // The schedule continues with its next start.
    discard: async (job, leaseId) => {
      await startDue(context, leaseId, { jobs: [job], starts: () => false });
    },
  };
}

interface Due extends ScheduleRow {
  next_at: Date;
  skip_missed: boolean;
  input: Buffer;
}

function isWanted({ next_at, skip_missed }: Due, nowMs: number): boolean {
  return !skip_missed || nowMs - next_at.getTime() <= MISSED_AFTER_MS;
}

/**
 * Starts the runs that are due, and sets the next start of their schedules, in one transaction. A schedule
 * that missed several starts has one. A workflow that is disabled has none.
 */
function startDue(
  context: StartContext,
  leaseId: string,
  { jobs, starts }: { jobs: readonly StartJob[]; starts: (due: Due, nowMs: number) => boolean },
): Promise<readonly JobKind[]> {
  return inStartTransaction(context, async (tx) => {
    await complete(
      tx,
      leaseId,
      jobs.map(({ id }) => id),
    );
    const due = await tx.query<Due>(lockDue, [
      uuidArray(jobs.map(({ projectId }) => projectId)),
      textArray(jobs.map(({ payload }) => payload.workflow_key)),
      jobs.map(({ payload }) => payload.place),
      jobs.map(({ payload }) => new Date(payload.at_ms)),
    ]);
    const nowMs = context.clock.now();
    const wanted = due
      .filter((row) => starts(row, nowMs))
      .map((row) =>
        newRun(row.project_id, row.workflow_key, readJson(unpackJson(row.input)) as Record<string, unknown>, {
          savesUser: true,
        }),
      );
    const { versionOf, refusalOf } = await findVersions(tx, wanted);
    const runs = wanted.filter((run) => refusalOf(run) === undefined);
    const { users } =
      runs.length === 0
        ? {}
        : await writeRuns(tx, context, runs, { versionOf, priority: priorityFor(runs.length) });
    // Not before the start itself, if the clock was set back.
    const next = due.map((row) => ({
      ...row,
      next_at: nextStart(row, Math.max(nowMs, row.next_at.getTime())),
    }));
    await updateStarts(tx, next);
    await enqueueStarts(tx, next);
    return { users, result: ['run_workflow'] };
  });
}

// Primary key. Another transaction has set the next start, or the schedule is gone: no row. Each
// save of a schedule enqueues its next start once more.
const lockDue = sql(
  'lock_due_workflow_schedules',
  `select s.project_id, s.workflow_key, s.place, s.schedule, s.time_zone, s.skip_missed, s.input, s.next_at
  from (
    select distinct project_id, workflow_key, place, next_at
    from unnest($1::uuid[], $2::text[], $3::int[], $4::timestamptz[])
      as j (project_id, workflow_key, place, next_at)
  ) d
  join workflow_schedules s using (project_id, workflow_key, place, next_at)
  order by s.project_id, s.workflow_key, s.place
  for update of s`,
);
