import { LRUCache } from 'lru-cache';
import { textArray, uuidArray } from '../../../db/arrays.ts';
import { type Queryable, sql } from '../../../db/client.ts';
import { readJson } from '../../../lib/exact-numbers.ts';
import { notificationId } from '../../../lib/ids.ts';
import { unpackJson, unpackJsonInTurns } from '../../../lib/packed-json.ts';
import type { Job } from '../../../queue/jobs.ts';
import {
  type BroadcastTexts,
  loadNotificationData,
  loadUserData,
  type UserData,
} from '../../line/routing/condition-data.ts';
import { type Program, parseProgram } from '../definitions/program.ts';
import { loadSteps } from '../runs/get.ts';
import { RUN_COLUMNS, type RunRow, type Stage, type StepRow } from '../runs/row.ts';

export type RunJob = Job<'run_workflow'> | Job<'call_workflow'>;

/** A run as a turn begins, with what its conditions and templates may read. */
export interface LoadedRun extends RunRow {
  project_id: string;
  stage: Stage;
  turn: number;
  due_at: Date;
  input: Readonly<Record<string, unknown>>;
  /** Characters of its input and outputs as JSON. */
  size: number;
  /** The input of the next step as JSON, rendered in an earlier turn. */
  prepared: string | null;
  data: Readonly<Record<string, unknown>>;
  broadcast_id: string | null;
  depth: number;
  program: Program;
  steps: readonly StepRow[];
  user: UserData | null;
  notification: object | null;
  /** Its last broadcast has not been fanned out: it may have a notification soon. */
  awaitsNotification: boolean;
  /** The digest that the run waits for. */
  digest: Digest | null;
}

export type Digest =
  | { isClosed: false; closesAtMs: number }
  /** The inputs of the runs, in the order in which they started. */
  | { isClosed: true; output: { items: readonly unknown[]; count: number } };

/** What is not stored in the row of a run. */
type Loaded = 'program' | 'steps' | 'user' | 'notification' | 'awaitsNotification' | 'digest';

type StoredRun = Omit<LoadedRun, Loaded | 'input' | 'prepared' | 'data'> & {
  input: Buffer;
  prepared: Buffer | null;
  data: string | null;
};

/** Loads the runs that are still in the turn of their job, by the id of the run, with a few statements. */
export async function loadRuns(
  db: Queryable,
  jobs: readonly { payload: { run_id: string; turn: number } }[],
): Promise<Map<string, LoadedRun>> {
  const stored = await db.query<StoredRun>(selectRuns, [
    uuidArray(jobs.map(({ payload }) => payload.run_id)),
    jobs.map(({ payload }) => payload.turn),
  ]);
  const programs = await loadPrograms(db, stored);
  const reading = (what: keyof Program['reads']) => stored.filter((run) => programs.get(run.id)?.reads[what]);
  const steps = await loadSteps(db, reading('steps'));
  const users = await loadUsers(db, reading('user'));
  const notifications = await loadNotifications(db, reading('notification'));
  return new Map(
    stored.map(({ input, prepared, data, ...run }) => [
      run.id,
      {
        ...run,
        input: readJson(unpackJson(input)) as LoadedRun['input'],
        prepared: prepared && unpackJson(prepared),
        data: data === null ? {} : (readJson(data) as LoadedRun['data']),
        program: programs.get(run.id) as Program,
        steps: steps.get(run.id) ?? [],
        user: users.get(run.user_id ?? '') ?? null,
        ...notifications(run),
        digest: null,
      },
    ]),
  );
}

/** Loads the programs of runs that have not begun, and those of their users that are not `known`. */
export async function withPrograms(
  db: Queryable,
  runs: readonly Omit<LoadedRun, Loaded>[],
  known: ReadonlyMap<string, UserData>,
): Promise<LoadedRun[]> {
  const programs = await loadPrograms(db, runs);
  const users = await loadUsers(
    db,
    runs.filter(({ id, user_id: userId }) => programs.get(id)?.reads.user && !known.has(userId ?? '')),
  );
  const userOf = (id = '') => known.get(id) ?? users.get(id) ?? null;
  return runs.map((run) => ({
    ...run,
    program: programs.get(run.id) as Program,
    steps: [],
    user: userOf(run.user_id ?? undefined),
    notification: null,
    awaitsNotification: false,
    digest: null,
  }));
}

// The estimate of a program (`bytes`) is about twice what it usually takes.
const MAX_BYTES = 128_000_000;
const programs = new LRUCache<string, { program: Program }>({ maxSize: MAX_BYTES });

type OfProgram = Pick<StoredRun, 'id' | 'project_id' | 'workflow_key' | 'version'>;

/** The programs of runs, by the id of the run. A version never changes. */
async function loadPrograms(db: Queryable, runs: readonly OfProgram[]): Promise<Map<string, Program>> {
  const found = new Map<string, Program>();
  const missing = new Map<string, OfProgram[]>();
  for (const run of runs) {
    const name = `${run.project_id} ${run.version} ${run.workflow_key}`;
    const known = programs.get(name);
    if (known === undefined) missing.set(name, [...(missing.get(name) ?? []), run]);
    else found.set(run.id, known.program);
  }
  if (missing.size === 0) return found;
  const wanted = [...missing.values()].flatMap(([run]) => run ?? []);
  const rows = await db.query<{ place: number; steps: Buffer }>(selectVersions, [
    uuidArray(wanted.map((run) => run.project_id)),
    textArray(wanted.map((run) => run.workflow_key)),
    wanted.map((run) => run.version),
  ]);
  const names = [...missing.keys()];
  for (const { place, steps } of rows) {
    const text = unpackJson(steps);
    const { program } = await parseProgram(readJson(text));
    const name = names[place - 1] ?? '';
    programs.set(name, { program }, { size: program.bytes });
    for (const { id } of missing.get(name) ?? []) found.set(id, program);
  }
  return found;
}

async function loadUsers(
  db: Queryable,
  runs: readonly Pick<StoredRun, 'user_id'>[],
): Promise<ReadonlyMap<string, UserData>> {
  const ids = runs.flatMap(({ user_id: id }) => id ?? []);
  return ids.length === 0 ? new Map() : loadUserData(db, ids);
}

// A batch has up to 256 runs. Of longer messages, conditions read the state alone.
const MAX_MESSAGE_BYTES = 64 * 1024;
const NO_TEXTS = { title: '', content: null, action_url: null };

type BroadcastRow = Omit<BroadcastTexts, 'message'> & { message: Buffer | null; is_waiting: boolean };

type OfNotification = Pick<LoadedRun, 'notification' | 'awaitsNotification'>;

/** Returns the notification of a run: that of its user, of the last broadcast that it sent. */
async function loadNotifications(
  db: Queryable,
  runs: readonly StoredRun[],
): Promise<(run: { user_id: string | null; broadcast_id: string | null }) => OfNotification> {
  const sent = runs.flatMap(({ user_id: userId, broadcast_id: id }) =>
    userId && id ? [{ userId, id }] : [],
  );
  if (sent.length === 0) return () => ({ notification: null, awaitsNotification: false });
  const rows = await db.query<BroadcastRow>(selectBroadcasts, [
    uuidArray([...new Set(sent.map(({ id }) => id))]),
  ]);
  const waiting = new Set(rows.flatMap(({ id, is_waiting: isWaiting }) => (isWaiting ? [id] : [])));
  const broadcasts = new Map<string, BroadcastTexts>();
  for (const { message, is_waiting: _, ...row } of rows)
    broadcasts.set(row.id, {
      ...row,
      message:
        message === null
          ? NO_TEXTS
          : (readJson(await unpackJsonInTurns([message])) as BroadcastTexts['message']),
    });
  const pairs = sent.flatMap(({ userId, id }) => {
    const broadcast = broadcasts.get(id);
    return broadcast === undefined ? [] : [{ broadcast, userId }];
  });
  const data = await loadNotificationData(db, pairs);
  return ({ user_id: userId, broadcast_id: id }) => {
    const notification = (userId && id && data.get(notificationId(id, userId))) || null;
    return { notification, awaitsNotification: notification === null && waiting.has(id ?? '') };
  };
}

/**
 * Gives runs that are late a new time, because notifications take their time from it. Only before a turn
 * begins for the first time, and while the lease of the job holds: afterwards, and for a server that has
 * claimed the job meanwhile, it has to stay, because the id of the broadcast follows from it.
 */
export async function dateLateTurns(
  db: Queryable,
  leaseId: string,
  { jobs, runs, nowMs }: { jobs: readonly RunJob[]; runs: ReadonlyMap<string, LoadedRun>; nowMs: number },
): Promise<void> {
  const late = jobs.filter(({ attempt, payload }) => {
    const dueAt = runs.get(payload.run_id)?.due_at;
    return dueAt !== undefined && attempt === 1 && nowMs - dueAt.getTime() > MAX_DELAY_MS;
  });
  if (late.length === 0) return;
  const now = new Date(nowMs);
  const dated = await db.query<{ id: string }>(updateDueTimes, [
    uuidArray(late.map(({ payload }) => payload.run_id)),
    late.map(({ payload }) => payload.turn),
    late.map(({ id }) => id),
    leaseId,
    now,
  ]);
  for (const { id } of dated) {
    const run = runs.get(id);
    if (run !== undefined) run.due_at = now;
  }
}

const MAX_DELAY_MS = 60_000;

// Primary keys, all. With `limit 1`, because otherwise a plan may read all runs that have not ended.
const updateDueTimes = sql(
  'date_workflow_turns',
  `with held as (
    select id from jobs where id = any ($3::bigint[]) and lease_id = $4 order by id for share
  ),
  late as materialized (
    select r.id
    from unnest($1::uuid[], $2::int[], $3::bigint[]) as t (id, turn, job_id)
    join workflow_runs r using (id, turn)
    where r.id = any ($1::uuid[]) and t.job_id = any (array(select id from held))
    order by r.id
    for update of r
  )
  update workflow_runs
  set due_at = $5
  where id = any (array(select id from late))
  returning id`,
);
const selectRuns = sql(
  'workflow_runs_in_turn',
  `select r.*
  from unnest($1::uuid[], $2::int[]) as j (id, turn)
  cross join lateral (
    select ${RUN_COLUMNS}, project_id, stage, turn, due_at, size, input, prepared, data::text as data,
      broadcast_id, depth
    from workflow_runs
    where id = j.id and turn = j.turn and state < 3
    limit 1
  ) r`,
);
const selectVersions = sql(
  'versions_of_workflow_runs',
  `select place::int as place, v.steps
  from unnest($1::uuid[], $2::text[], $3::int[]) with ordinality as r (project_id, key, version, place)
  join workflow_versions v using (project_id, key, version)`,
);
const selectBroadcasts = sql(
  'broadcasts_of_workflow_runs',
  `select id, category, topic, status = 'enqueued' and send_at is null as is_waiting,
    case when octet_length(message) <= ${MAX_MESSAGE_BYTES} then message end as message
  from broadcasts
  where id = any ($1::uuid[])`,
);
