import { textArray, uuidArray } from '../../../db/arrays.ts';
import { type Queryable, sql } from '../../../db/client.ts';
import { chunksOf } from '../../../lib/chunks.ts';
import { type Condition, ConditionError, evaluate, parseCondition } from '../../../lib/expression.ts';
import { firstIdAt } from '../../../lib/ids.ts';
import { memberOf } from '../../../lib/members.ts';
import { takeTurns } from '../../../lib/take-turns.ts';
import { priorityFor } from '../../../queue/jobs.ts';
import { recordEvents } from '../../ground/events/record.ts';
import type { Resolved } from '../../people/users/resolve.ts';
import type { ArrivedEvent } from '../feed/arrived-event.ts';
import { findVersions, newRun, type StartContext, writeRuns } from '../runs/start.ts';

/** The longest chain of runs that cause each other by events. */
const MAX_DEPTH = 5;
/** The most runs of a workflow that events start for a user in a while. */
const MAX_RUNS_OF_USER = 100;
const WHILE_MS = 3_600_000;
const RUNS_AT_ONCE = 1_000;

/** A run that an event starts. */
interface Start {
  key: string;
  event: ArrivedEvent;
  depth: number;
}

/**
 * Starts the runs whose triggers accept these events, in the caller's transaction. Returns their number, and
 * the users to remember after the commit.
 */
export async function startTriggered(
  tx: Queryable,
  context: Pick<StartContext, 'clock' | 'identities'>,
  projectId: string,
  events: readonly ArrivedEvent[],
): Promise<{ started: number; users: Resolved | undefined }> {
  const accepted = await acceptEvents(tx, projectId, events);
  const allowed = await withoutLoops(tx, context, projectId, await withDepth(tx, accepted));
  let users: Resolved | undefined;
  for (const chunk of chunksOf(allowed, RUNS_AT_ONCE)) {
    const runs = chunk.map(({ key, event, depth }) => newRun(projectId, key, event.value, { depth }));
    const { versionOf } = await findVersions(tx, runs);
    const how = { versionOf, priority: priorityFor(allowed.length) };
    const resolved = await writeRuns(tx, context, runs, how);
    // Only a posted event can create a user, and it starts each workflow once.
    users ??= resolved.users;
  }
  return { started: allowed.length, users };
}

interface TriggerRow {
  event: string;
  workflow_key: string;
  condition: string | null;
  since: string;
}

/** Returns each pair of an event and a workflow with a trigger that accepts it. */
async function acceptEvents(
  tx: Queryable,
  projectId: string,
  events: readonly ArrivedEvent[],
): Promise<Omit<Start, 'depth'>[]> {
  const names = [...new Set(events.map(({ name }) => name))];
  const rows = await tx.query<TriggerRow>(selectTriggers, [projectId, textArray(names)]);
  if (rows.length === 0) return [];
  const between = takeTurns();
  const triggers: { event: string; key: string; accepts: (event: object) => boolean }[] = [];
  for (const { event, workflow_key: key, condition, since } of rows) {
    await between();
    const holds = await acceptance(condition);
    const accepts = (value: object) => !isBefore(value, since) && holds(value);
    triggers.push({ event, key, accepts });
  }
  const of = Map.groupBy(triggers, ({ event }) => event);
  const accepted: Omit<Start, 'depth'>[] = [];
  for (const event of events) {
    const keys = new Set<string>();
    for (const one of of.get(event.name) ?? []) {
      await between();
      if (!keys.has(one.key) && one.accepts(event.value)) keys.add(one.key);
    }
    for (const key of keys) accepted.push({ key, event });
  }
  return accepted;
}

/** Whether an event of Belfry was recorded before this id. */
function isBefore(event: object, id: string): boolean {
  const of = memberOf(event, 'type') === undefined ? undefined : memberOf(event, 'id');
  return typeof of === 'string' && of < id;
}

async function acceptance(text: string | null): Promise<(event: object) => boolean> {
  const condition = text === null ? undefined : await parseCondition(text, ['event']);
  if (condition === undefined) return () => true;
  return 'problem' in condition ? () => false : (event) => holds(condition, event);
}

function holds(condition: Condition, event: object): boolean {
  try {
    return evaluate(condition, { event });
  } catch (error) {
    if (error instanceof ConditionError) return false;
    throw error;
  }
}

/** Adds how many runs have caused each other before: the run that caused the event, and those before it. */
async function withDepth(tx: Queryable, starts: readonly Omit<Start, 'depth'>[]): Promise<Start[]> {
  const depths = new Map<string, number>();
  const runIds = starts.flatMap(({ event }) => causeOf(event, 'run_id') ?? []);
  const broadcastIds = starts.flatMap(({ event }) => causeOf(event, 'broadcast_id') ?? []);
  if (runIds.length + broadcastIds.length > 0) {
    const rows = await tx.query<{ id: string; depth: number }>(selectDepths, [
      uuidArray([...new Set(runIds)]),
      uuidArray([...new Set(broadcastIds)]),
    ]);
    for (const { id, depth } of rows) depths.set(id, depth);
  }
  return starts.map(({ key, event }) => ({
    key,
    event,
    depth: 1 + (depths.get(causeOf(event, 'run_id') ?? causeOf(event, 'broadcast_id') ?? '') ?? 0),
  }));
}

/** Returns the id of the run, or of the broadcast, that has caused an event of Belfry. */
function causeOf({ value }: ArrivedEvent, name: 'run_id' | 'broadcast_id'): string | undefined {
  const id = memberOf(memberOf(value, 'context'), name);
  return typeof id === 'string' ? id : undefined;
}

/** Returns the runs that may start, and records why the others may not. */
async function withoutLoops(
  tx: Queryable,
  { clock }: Pick<StartContext, 'clock'>,
  projectId: string,
  starts: readonly Start[],
): Promise<readonly Start[]> {
  if (starts.length === 0) return starts;
  const pairs = new Map(starts.map((start) => [pairOf(start), start]));
  const rows = await tx.query<{ place: number; runs: number }>(countRuns, [
    textArray([...pairs.values()].map(({ event }) => event.userId)),
    textArray([...pairs.values()].map(({ key }) => key)),
    firstIdAt(clock.now() - WHILE_MS),
    MAX_RUNS_OF_USER,
  ]);
  const names = [...pairs.keys()];
  const runs = new Map(rows.map(({ place, runs }) => [names[place - 1], runs]));
  const reasonAgainst = (start: Start) => {
    if (start.depth > MAX_DEPTH) return `the event was caused by a chain of ${MAX_DEPTH} runs`;
    if (start.event.userId === null) return undefined;
    const count = runs.get(pairOf(start)) ?? 0;
    runs.set(pairOf(start), count + 1);
    return count < MAX_RUNS_OF_USER
      ? undefined
      : `the workflow has had ${MAX_RUNS_OF_USER} runs for the user within an hour`;
  };
  const checked = starts.map((start) => ({ start, log: reasonAgainst(start) }));
  await recordEvents(
    tx,
    checked.flatMap(({ start: { key, event }, log }) =>
      log === undefined
        ? []
        : [
            {
              projectId,
              type: 'workflow.run.prevented' as const,
              ...(event.userId === null ? {} : { userIds: [event.userId] }),
              details: { level: 'error' as const, log, context: { workflow_key: key, event: event.name } },
            },
          ],
    ),
  );
  return checked.flatMap(({ start, log }) => (log === undefined ? [start] : []));
}

function pairOf({ key, event: { userId } }: Start): string {
  return `${userId} ${key}`;
}

// Index workflow_triggers_of_event (project_id, event), and the primary key of workflows.
const selectTriggers = sql(
  'triggers_of_events',
  `select t.event, t.workflow_key, t.condition, t.since
  from unnest($2::text[]) as e (name)
  cross join lateral (
    select event, workflow_key, place, condition, since
    from workflow_triggers
    where project_id = $1 and event = e.name
    offset 0
  ) t
  cross join lateral (
    select
    from workflows
    where project_id = $1 and key = t.workflow_key and not disabled
    limit 1
  ) w
  order by t.workflow_key, t.place`,
);
// Primary keys.
const selectDepths = sql(
  'depths_of_causes',
  `select id, depth
  from workflow_runs
  where id = any ($1::uuid[])
  union all
  select broadcast_id, depth
  from workflow_broadcasts
  where broadcast_id = any ($2::uuid[])`,
);
// Index workflow_runs_of_user (user_id, id).
const countRuns = sql(
  'recent_runs_of_users',
  `select place::int as place, r.count::int as runs
  from unnest($1::uuid[], $2::text[]) with ordinality as s (user_id, key, place)
  cross join lateral (
    select count(*) as count
    from (
      select
      from workflow_runs
      where user_id = s.user_id and id >= $3 and workflow_key = s.key
      limit $4
    ) recent
  ) r`,
);
