import { textArray, uuidArray } from '../../../db/arrays.ts';
import { type Queryable, sql } from '../../../db/client.ts';
import { chunksOf } from '../../../lib/chunks.ts';
import { writeJson } from '../../../lib/exact-numbers.ts';
import { ConditionError, evaluate } from '../../../lib/expression.ts';
import { takeTurns } from '../../../lib/take-turns.ts';
import { enqueue } from '../../../queue/enqueue.ts';
import { type NewJob, priorityFor, type WorkflowEvents } from '../../../queue/jobs.ts';
import { stepAt } from '../definitions/places.ts';
import type { ArrivedEvent } from '../feed/arrived-event.ts';
import { runJob } from '../runs/jobs.ts';
import { STAGES } from '../runs/row.ts';
import { type LoadedRun, loadRuns } from './load.ts';
import { readableOf } from './readable.ts';
import { visibilityIn } from './snapshot.ts';

// Runs that are in memory at the same time, with their inputs.
const RUNS_AT_ONCE = 500;
// Runs that are continued in the caller's transaction, and in that of a job.
const LIMITS = { now: 2_000, perJob: 1_000 };

/**
 * Continues the runs that wait for these events, in the caller's transaction: each with the first event that
 * its condition accepts. If a run and an event both have a user, it must be the same, and so with broadcasts.
 * An event that was recorded before a run began to wait does not continue it, unless it is of the broadcast
 * that the run has sent.
 *
 * Of very many runs, only the first are continued now. With `later`, which names the same events, jobs do the
 * others; a run that has another turn by then is not continued. `only` are the ids of the runs to continue.
 */
export async function continueWaiting(
  tx: Queryable,
  projectId: string,
  events: readonly ArrivedEvent[],
  {
    nowMs,
    only,
    later,
    limits = LIMITS,
  }: {
    nowMs: number;
    only?: ReadonlySet<string>;
    later?: WorkflowEvents;
    /** Replaced only by tests. */
    limits?: typeof LIMITS;
  },
): Promise<Continued> {
  const found = await tx.query<Waiting>(selectWaiting, [
    projectId,
    textArray(events.map(({ name }) => name)),
    textArray(events.map(({ userId }) => userId)),
  ]);
  // A run may be found by its user and by its event alone.
  const runs = new Map(found.map((run) => [run.id, run]));
  const candidates = [...runs.values()].filter(({ id }) => only?.has(id) ?? true);
  const now = later === undefined ? candidates : candidates.slice(0, limits.now);
  const rest = candidates.slice(now.length);
  const priority = priorityFor(candidates.length);
  const continued = await continueThose(tx, now, events, { priority, nowMs });
  if (later !== undefined)
    await enqueue(
      tx,
      chunksOf(rest, limits.perJob).map((runs): NewJob<'continue_workflows'> => {
        const payload = { ...later, runs: runs.map(({ id, turn }) => [id, turn] as const) };
        return { kind: 'continue_workflows', projectId, priority, weight: runs.length, payload };
      }),
    );
  return { continued, later: rest.length };
}

/** How many runs were continued, and how many are left to jobs. */
export interface Continued {
  continued: number;
  later: number;
}

/** Continues those of these runs that are still in these turns, and accept an event. Returns their number. */
export async function continueThose(
  tx: Queryable,
  runs: readonly Waiting[],
  events: readonly ArrivedEvent[],
  { priority, nowMs }: { priority: number; nowMs: number },
): Promise<number> {
  let continued = 0;
  for (const chunk of chunksOf(runs, RUNS_AT_ONCE)) {
    const accepted = await acceptEvents(tx, chunk, events);
    await continueRuns(tx, accepted, { events, priority, nowMs });
    continued += accepted.length;
  }
  return continued;
}

/** A run that waits in this turn. */
interface Waiting {
  id: string;
  turn: number;
}

/** A run that is locked. */
interface Locked {
  id: string;
  turn: number;
  waits_for: string | null;
  /** The snapshot in which it began to wait; null if that is not known, or does not matter. */
  waits_since: string | null;
}

/** A run, and the index of the event that continues it. */
interface Accepted {
  run: LoadedRun;
  event: number;
}

/** Locks the runs that still wait, and returns those whose condition accepts an event. */
async function acceptEvents(
  tx: Queryable,
  candidates: readonly Waiting[],
  events: readonly ArrivedEvent[],
): Promise<Accepted[]> {
  const locked = await tx.query<Locked>(lockWaiting, [uuidArray(candidates.map(({ id }) => id))]);
  const runs = await loadRuns(
    tx,
    locked.map(({ id, turn }) => ({ payload: { run_id: id, turn } })),
  );
  const waits = new Map(locked.map((row) => [row.id, row]));
  const byName = Map.groupBy(events.keys(), (index) => events[index]?.name);
  const between = takeTurns();
  const accepted: Accepted[] = [];
  for (const { id, turn } of candidates) {
    const run = runs.get(id);
    // It may have come to another step before it was locked.
    if (run?.turn !== turn) continue;
    const { waits_for: name, waits_since: since } = waits.get(id) as Locked;
    const isEarlier = since === null ? () => false : visibilityIn(since);
    for (const index of byName.get(name ?? '') ?? []) {
      const event = events[index] as ArrivedEvent;
      if (!isSameOrNone(event.userId, run.user_id) || !isSameOrNone(event.broadcastId, run.broadcast_id))
        continue;
      const isOfOwnBroadcast = event.broadcastId !== null && event.broadcastId === run.broadcast_id;
      if (event.xact !== null && !isOfOwnBroadcast && isEarlier(event.xact)) continue;
      await between();
      if (!accepts(run, event.value)) continue;
      accepted.push({ run, event: index });
      break;
    }
  }
  return accepted;
}

function isSameOrNone(one: string | null, other: string | null): boolean {
  return one === null || other === null || one === other;
}

function accepts(run: LoadedRun, event: object): boolean {
  const condition = stepAt(run.program, run.place)?.accepts;
  if (condition === undefined) return true;
  try {
    return evaluate(condition, { ...readableOf(run), event });
  } catch (error) {
    if (error instanceof ConditionError) return false;
    throw error;
  }
}

async function continueRuns(
  tx: Queryable,
  accepted: readonly Accepted[],
  { events, priority, nowMs }: { events: readonly ArrivedEvent[]; priority: number; nowMs: number },
): Promise<void> {
  if (accepted.length === 0) return;
  // Each output once, because many runs may store the same.
  const outputs = new Map<number, string>();
  for (const { event } of accepted)
    if (!outputs.has(event)) outputs.set(event, writeJson({ event: events[event]?.value }));
  const indexes = [...outputs.keys()];
  await tx.query(updateWaiting, [uuidArray(accepted.map(({ run }) => run.id)), new Date(nowMs)]);
  await tx.query(storeOutputs, [
    uuidArray(accepted.map(({ run }) => run.id)),
    textArray(accepted.map(({ run }) => run.place)),
    accepted.map(({ event }) => indexes.indexOf(event) + 1),
    textArray([...outputs.values()]),
  ]);
  await enqueue(
    tx,
    accepted.map(({ run: { id, project_id: projectId, turn, size }, event }) =>
      runJob({ id, projectId, turn: turn + 1, size: size + (outputs.get(event)?.length ?? 0) }, { priority }),
    ),
  );
}

// Index workflow_runs_waiting (project_id, waits_for, user_id). `offset 0`, so that each event is looked up
// in it. With `is not null`, a plan that is made while there are no runs reads workflow_runs_of_user instead.
// Returns runs, not their pairs with events, of which there may be millions.
const selectWaiting = sql(
  'runs_that_wait_for_events',
  `with arrived as (
    select distinct name, user_id
    from unnest($2::text[], $3::uuid[]) as e (name, user_id)
  )
  select r.id, r.turn
  from arrived a
  cross join lateral (
    select id, turn
    from workflow_runs
    where project_id = $1 and waits_for = a.name and user_id = a.user_id
    offset 0
  ) r
  union all
  select r.id, r.turn
  from (select distinct name from arrived) a
  cross join lateral (
    select id, turn
    from workflow_runs
    where project_id = $1 and waits_for = a.name and user_id is null
    offset 0
  ) r
  union all
  select r.id, r.turn
  from (select distinct name from arrived where user_id is null) a
  cross join lateral (
    select id, turn
    from workflow_runs
    where project_id = $1 and waits_for = a.name and (user_id is null) is false
    offset 0
  ) r
  order by id`,
);
// Primary key. In the order of the ids, so that two transactions lock runs in the same order.
const lockWaiting = sql(
  'lock_waiting_runs',
  `select id, turn, waits_for, waits_since::text as waits_since
  from workflow_runs
  where id = any ($1::uuid[])
  order by id
  for update`,
);
// A new turn makes the job of the timeout void.
const updateWaiting = sql(
  'continue_waiting_runs',
  `update workflow_runs
  set state = 1, stage = ${STAGES.eventArrived}, turn = turn + 1, due_at = $2, waits_for = null
  where id = any ($1::uuid[])`,
);
const storeOutputs = sql(
  'store_events_of_runs',
  `update workflow_run_steps s
  set output = ($4::text[])[o.output]::json
  from unnest($1::uuid[], $2::text[], $3::int[]) as o (run_id, place, output)
  where s.run_id = any ($1::uuid[]) and s.run_id = o.run_id and s.place = o.place`,
);
