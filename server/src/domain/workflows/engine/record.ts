import { isOwnEvent, RUN_STATES, type RunState } from '../../../contract/workflow.ts';
import { byteaArray, textArray, uuidArray } from '../../../db/arrays.ts';
import { type Queryable, sql } from '../../../db/client.ts';
import { writeJson } from '../../../lib/exact-numbers.ts';
import { packJson } from '../../../lib/packed-json.ts';
import { enqueue } from '../../../queue/enqueue.ts';
import { type JobKind, type NewJob, priorityFor } from '../../../queue/jobs.ts';
import { eventColumns, insertEventsText, type NewEvent } from '../../ground/events/record.ts';
import type { PendingBroadcast } from '../../line/accept/write-accepted.ts';
import { followEvents } from '../feed/feed.ts';
import { deleteDigests } from '../runs/digests.ts';
import { type NewRunEvent, runEvents, startedEvents } from '../runs/events.ts';
import { runJob } from '../runs/jobs.ts';
import { ENDED, type StepRow } from '../runs/row.ts';
import type { NewRun } from '../runs/start.ts';
import type { Collect, Throttle } from '../steps/command.ts';
import type { Advanced } from './advance.ts';
import { joinDigests } from './digests.ts';
import type { LoadedRun, RunJob } from './load.ts';
import { lookBack } from './look-back.ts';
import { markBroadcasts } from './mark-broadcasts.ts';
import type { SharedStep } from './shared-steps.ts';
import { takeSnapshot } from './snapshot.ts';
import { passThrottles } from './throttles.ts';

/** The turns of a batch of runs. */
export interface Turns {
  turns: readonly Advanced[];
  /** The jobs of the turns; none of runs that start. */
  jobs: readonly RunJob[];
  /** The runs by their id, if these are their first turns and they are not stored yet. */
  starting?: ReadonlyMap<string, NewRun>;
  nowMs: number;
  accept: (tx: Queryable, broadcasts: readonly PendingBroadcast[]) => Promise<void>;
}

/**
 * Records turns of runs in the caller's transaction, and accepts their broadcasts. A run that was cancelled,
 * or continued by an event, meanwhile stays as it is, and sends nothing. A step that has changed something
 * before this is recorded even so, with those before it. Returns the kinds of jobs that are ready.
 */
export async function recordTurns(
  tx: Queryable,
  { jobs, starting, turns: advanced, nowMs, accept }: Turns,
): Promise<readonly JobKind[]> {
  if (advanced.length === 0) {
    await accept(tx, []);
    return [];
  }
  const following = advanced.filter(waitsForOwnEvent);
  let waitsSince: string | null = null;
  if (following.length > 0) {
    await followEvents(
      tx,
      following.map(({ run }) => run.project_id),
    );
    waitsSince = await takeSnapshot(tx);
  }
  const decided = await decideShared(tx, advanced, { nowMs, stored: starting === undefined });
  const updated = starting
    ? new Set(decided.map(({ run }) => run.id))
    : await updateRuns(tx, decided, { nowMs, waitsSince });
  const current = decided.filter(({ run }) => updated.has(run.id));
  const turns = decided.flatMap((turn) => {
    if (updated.has(turn.run.id)) return [turn];
    return turn.actedSteps === undefined ? [] : [{ ...turn, steps: turn.steps.slice(0, turn.actedSteps) }];
  });
  await markBroadcasts(tx, current);
  // Before the events of their broadcasts.
  const started = starting ? startedEvents(turns.map(({ run }) => subjectOf(run))) : [];
  await accept(
    tx,
    current.flatMap(({ broadcast }) => broadcast ?? []),
  );
  const steps = turns.flatMap(({ run, steps }) => steps.map((step) => ({ ...step, runId: run.id })));
  const events = [
    ...started,
    ...runEvents([...turns.flatMap(eventsOfSteps), ...current.flatMap(eventOfEnd)]),
  ];
  const history = historyColumns(steps, events);
  if (starting) await insertRuns(tx, decided, { starting, nowMs, waitsSince, history });
  else if (steps.length > 0 || events.length > 0) await tx.query(writeHistory, history);
  const jobOf = new Map(jobs.map((job) => [job.payload.run_id, job]));
  const ready = await enqueue(
    tx,
    current.flatMap((turn) => {
      const { id } = turn.run;
      const job = jobOf.get(id);
      const traceparent = job === undefined ? starting?.get(id)?.traceparent : job.payload.traceparent;
      return nextJob(turn, { priority: job?.priority ?? priorityFor(1), traceparent });
    }),
  );
  await lookBack(
    tx,
    following.filter(({ run }) => updated.has(run.id)),
    nowMs,
  );
  return following.length === 0 ? ready : [...ready, 'run_workflow'];
}

function waitsForOwnEvent({ next }: Advanced): boolean {
  return next.kind === 'wait' && next.event !== undefined && isOwnEvent(next.event);
}

/** Decides the steps that depend on other runs. Returns the turns with what follows. */
async function decideShared(
  tx: Queryable,
  turns: readonly Advanced[],
  { nowMs, stored }: { nowMs: number; stored: boolean },
): Promise<readonly Advanced[]> {
  const digested = turns.filter(({ run, place }) => run.digest?.isClosed === true && place !== run.place);
  if (digested.length === 0 && turns.every(({ shared }) => shared === undefined)) return turns;
  // Runs before digests, as in cancelRun.
  const current = stored ? await lockRuns(tx, turns) : new Set(turns.map(({ run }) => run.id));
  await deleteDigests(
    tx,
    digested.map(({ run }) => run.id),
  );
  const steps = turns.flatMap(({ run, place, shared }) =>
    shared !== undefined && current.has(run.id) ? [{ run, place, request: shared.request }] : [],
  );
  const decisions = new Map([
    ...(await joinDigests(tx, steps.filter(isCollect), nowMs)),
    ...(await passThrottles(tx, steps.filter(isThrottle), nowMs)),
  ]);
  return turns.map((turn) => {
    const decision = decisions.get(turn.run.id);
    return decision === undefined ? turn : (turn.shared?.decide(decision) ?? turn);
  });
}

function isCollect(step: SharedStep): step is SharedStep<Collect> {
  return step.request.kind === 'collect';
}

function isThrottle(step: SharedStep): step is SharedStep<Throttle> {
  return step.request.kind === 'throttle';
}

/** Locks the runs that are still in their turn, and returns their ids. */
async function lockRuns(tx: Queryable, turns: readonly Advanced[]): Promise<ReadonlySet<string>> {
  const rows = await tx.query<{ id: string }>(lockRunsInTurn, [
    uuidArray(turns.map(({ run }) => run.id)),
    turns.map(({ run }) => run.turn),
  ]);
  return new Set(rows.map(({ id }) => id));
}

/** Updates runs that are still in their turn, and returns their ids. */
async function updateRuns(
  tx: Queryable,
  turns: readonly Advanced[],
  { nowMs, waitsSince }: { nowMs: number; waitsSince: string | null },
): Promise<ReadonlySet<string>> {
  const values = [...columnsOf(turns, new Date(nowMs)), waitsSince];
  const rows = await tx.query<{ id: string }>(updateRunsInTurn, values);
  return new Set(rows.map(({ id }) => id));
}

/** Inserts runs as they are after their first turn, with their history. */
async function insertRuns(
  tx: Queryable,
  turns: readonly Advanced[],
  {
    starting,
    nowMs,
    waitsSince,
    history,
  }: {
    starting: ReadonlyMap<string, NewRun>;
    nowMs: number;
    waitsSince: string | null;
    history: unknown[];
  },
): Promise<void> {
  await tx.query(insertRunsAfterTurn, [
    ...history,
    ...columnsOf(turns, new Date(nowMs)),
    uuidArray(turns.map(({ run }) => run.project_id)),
    textArray(turns.map(({ run }) => run.workflow_key)),
    turns.map(({ run }) => run.version),
    textArray(turns.map(({ run }) => run.user_id)),
    turns.map(({ run }) => run.size),
    byteaArray(turns.map(({ run }) => starting.get(run.id)?.packed ?? null)),
    turns.map(({ run }) => run.created_at),
    turns.map(({ run }) => run.depth),
    waitsSince,
  ]);
}

/** The first 13 values of the statements that write runs after a turn. */
function columnsOf(turns: readonly Advanced[], now: Date): unknown[] {
  return [
    uuidArray(turns.map(({ run }) => run.id)),
    turns.map(({ run }) => run.turn),
    turns.map(({ next }) => stateAfter(next)),
    textArray(turns.map(({ place }) => place)),
    turns.map(({ stage }) => stage),
    turns.map(({ next }) => dueAt(next, now)),
    textArray(turns.map(({ data, run }) => (data === run.data ? null : writeJson(data)))),
    turns.map(({ broadcastId }) => broadcastId),
    textArray(turns.map(({ next }) => errorOf(next))),
    now,
    turns.map(({ added }) => added),
    textArray(turns.map(({ next }) => (next.kind === 'wait' ? next.event : undefined))),
    byteaArray(turns.map(({ prepared }) => (prepared === null ? null : packJson(prepared)))),
  ];
}

function stateAfter({ kind }: Advanced['next']): RunState {
  if (kind === 'continue') return RUN_STATES.running;
  if (kind === 'wait') return RUN_STATES.waiting;
  if (kind === 'complete') return RUN_STATES.completed;
  return kind === 'abort' ? RUN_STATES.aborted : RUN_STATES.failed;
}

function dueAt(next: Advanced['next'], now: Date): Date | null {
  if (next.kind === 'continue') return next.dueAtMs === undefined ? now : new Date(next.dueAtMs);
  if (next.kind === 'wait' && next.untilMs !== undefined) return new Date(next.untilMs);
  return null;
}

function errorOf(next: Advanced['next']): string | null {
  if (next.kind === 'fail') return next.error;
  return next.kind === 'abort' ? next.reason : null;
}

function nextJob(
  { run, added, prepared, next }: Advanced,
  { priority, traceparent }: { priority: number; traceparent: string | undefined },
): NewJob[] {
  const { id, project_id: projectId, turn } = run;
  const size = run.size + added + (prepared?.length ?? 0);
  const to = { id, projectId, turn: turn + 1, size, traceparent };
  if (next.kind === 'continue') return [runJob(to, { priority, dueAtMs: next.dueAtMs, calls: next.calls })];
  if (next.kind === 'wait' && next.untilMs !== undefined)
    return [runJob(to, { priority, dueAtMs: next.untilMs })];
  return [];
}

const FINAL_EVENTS = { complete: 'completed', abort: 'aborted', fail: 'failed' } as const;

function eventsOfSteps({ run, steps }: Advanced): NewRunEvent[] {
  return steps
    .filter(({ state }) => state !== 'waiting')
    .map(({ place, command, state, error }) => ({
      ...subjectOf(run),
      type: 'workflow.run.step',
      ...(error === null ? {} : { level: 'error', log: error }),
      payload: { place, command, state },
    }));
}

function eventOfEnd({ run, next }: Advanced): NewRunEvent[] {
  if (next.kind === 'continue' || next.kind === 'wait') return [];
  const error = errorOf(next);
  return [
    {
      ...subjectOf(run),
      type: `workflow.run.${FINAL_EVENTS[next.kind]}`,
      ...(next.kind === 'fail' ? { level: 'error' as const } : {}),
      ...(error === null ? {} : { log: error }),
    },
  ];
}

function subjectOf(run: LoadedRun) {
  const { id: runId, project_id: projectId, workflow_key: key, user_id: userId } = run;
  return { runId, projectId, key, userId };
}

/** The values $1 to $14 of the statements that write steps and events. */
function historyColumns(
  steps: readonly (StepRow & { runId: string })[],
  events: readonly NewEvent[],
): unknown[] {
  // A step that waited and ended in the same turn is one row.
  const rows = [...new Map(steps.map((step) => [`${step.runId} ${step.place}`, step])).values()];
  return [
    uuidArray(rows.map((step) => step.runId)),
    textArray(rows.map((step) => step.place)),
    textArray(rows.map((step) => step.command)),
    textArray(rows.map((step) => step.state)),
    rows.map((step) => step.started_at),
    rows.map((step) => step.completed_at),
    textArray(rows.map((step) => step.output)),
    textArray(rows.map((step) => step.error)),
    ...eventColumns(events),
  ];
}

// Primary keys, all.
const lockRunsInTurn = sql(
  'lock_workflow_turns',
  `select r.id
  from unnest($1::uuid[], $2::int[]) as t (id, turn)
  join workflow_runs r using (id, turn)
  where r.id = any ($1::uuid[])
  order by r.id
  for update of r`,
);
const updateRunsInTurn = sql(
  'record_workflow_turns',
  `with locked as materialized (
    select r.id
    from unnest($1::uuid[], $2::int[]) as t (id, turn)
    join workflow_runs r using (id, turn)
    where r.id = any ($1::uuid[])
    order by r.id
    for update of r
  )
  update workflow_runs r
  set state = t.state, place = t.place, stage = t.stage, turn = r.turn + 1, due_at = t.due_at,
    size = r.size + t.added, prepared = t.prepared, data = coalesce(t.data::json, r.data),
    broadcast_id = t.broadcast_id, waits_for = t.waits_for, error = t.error,
    waits_since = case when t.waits_for is not null then $14::pg_snapshot end,
    started_at = coalesce(r.started_at, $10), completed_at = case when t.state >= ${ENDED} then $10 end
  from unnest(
    $1::uuid[], $2::int[], $3::smallint[], $4::text[], $5::smallint[], $6::timestamptz[], $7::text[],
    $8::uuid[], $9::text[], $11::int[], $12::text[], $13::bytea[]
  ) as t (id, turn, state, place, stage, due_at, data, broadcast_id, error, added, waits_for, prepared)
  where r.id = any (array(select id from locked)) and r.id = t.id and r.turn = t.turn
  returning r.id`,
);
const insertStepsText = `insert into workflow_run_steps as s (
    run_id, place, command, state, started_at, completed_at, output, error
  )
  select run_id, place, command, state, started_at, completed_at, output::json, error
  from unnest(
    $1::uuid[], $2::text[], $3::text[], $4::text[], $5::timestamptz[], $6::timestamptz[], $7::text[],
    $8::text[]
  ) as t (run_id, place, command, state, started_at, completed_at, output, error)`;
// Replaces what earlier turns recorded about the same steps.
const writeHistory = sql(
  'record_workflow_history',
  `with steps as (
    ${insertStepsText}
    on conflict (run_id, place) do update
    set state = excluded.state, completed_at = excluded.completed_at, error = excluded.error,
      output = coalesce(excluded.output, case when s.state = 'waiting' then s.output end),
      started_at = case when s.state = 'waiting' then s.started_at else excluded.started_at end
  )
  ${insertEventsText(9)}`,
);
const insertRunsAfterTurn = sql(
  'start_workflow_runs_with_turns',
  `with steps as (${insertStepsText}),
  events as (${insertEventsText(9)})
  insert into workflow_runs (
    id, project_id, workflow_key, version, user_id, state, place, stage, turn, due_at, size, input, prepared,
    data, broadcast_id, waits_for, waits_since, error, created_at, started_at, completed_at, depth
  )
  select id, project_id, key, version, user_id, state, place, stage, turn + 1, due_at, size + added, input,
    prepared, data::json, broadcast_id, waits_for, case when waits_for is not null then $36::pg_snapshot end,
    error, created_at,
    $24::timestamptz, case when state >= ${ENDED} then $24::timestamptz end, depth
  from unnest(
    $15::uuid[], $16::int[], $17::smallint[], $18::text[], $19::smallint[], $20::timestamptz[], $21::text[],
    $22::uuid[], $23::text[], $25::int[], $26::text[], $27::bytea[], $28::uuid[], $29::text[], $30::int[],
    $31::uuid[], $32::int[], $33::bytea[], $34::timestamptz[], $35::smallint[]
  ) as t (
    id, turn, state, place, stage, due_at, data, broadcast_id, error, added, waits_for, prepared, project_id,
    key, version, user_id, size, input, created_at, depth
  )`,
);
