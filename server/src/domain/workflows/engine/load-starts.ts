import { problemsWithin } from '../../../contract/problems.ts';
import { textArray, uuidArray } from '../../../db/arrays.ts';
import { type Queryable, sql } from '../../../db/client.ts';
import { ClientError } from '../../../errors.ts';
import {
  CONDITION_USER_COLUMNS,
  type ConditionUser,
  type UserData,
  userData,
} from '../../line/routing/condition-data.ts';
import { findExisting } from '../../people/users/find-existing.ts';
import { FIRST } from '../definitions/places.ts';
import { STAGES } from '../runs/row.ts';
import {
  inStartTransaction,
  type NewRun,
  namedUser,
  refusalBy,
  resolveUsersOf,
  type StartContext,
  UNKNOWN_USER_ID,
} from '../runs/start.ts';
import { type LoadedRun, withPrograms } from './load.ts';

/** A run before its first turn, or why it cannot start. */
export type LoadedStart = { run: LoadedRun } | { refusal: ClientError };

type LoadContext = StartContext & { db: Queryable };

/**
 * Loads what the first turns of runs need: by one statement, if their users are known and their programs were
 * loaded before. Creates users.
 */
export async function loadStarts(context: LoadContext, runs: readonly NewRun[]): Promise<LoadedStart[]> {
  const { db, clock, identities } = context;
  const named = runs.map(({ projectId, input }) => ({ projectId, ...namedUser(input.user) }));
  const found = await findExisting(db, identities, named);
  // Those with details are found when these are saved.
  const existing = found.map((id, index) => (runs[index]?.details === undefined ? id : undefined));
  const { refusalOf: refusalByWorkflow, versionOf, users } = await findWorkflowsAndUsers(db, runs, existing);
  const runnable = runs.filter((run) => refusalByWorkflow(run) === undefined);
  const existingOf = new Map(runs.map((run, index) => [run, existing[index]]));
  const { created, problems } = await createUsers(
    context,
    runnable.filter((run) => existingOf.get(run) === undefined),
  );
  for (const id of created.values()) users.delete(id ?? '');
  for (const [index, run] of runs.entries()) {
    const { id, problem } = named[index] ?? {};
    if (problem !== undefined) problems.set(run, problem);
    else if (id !== undefined && existing[index] === null) problems.set(run, UNKNOWN_USER_ID);
  }
  const refusalOf = (run: NewRun) => refusalByWorkflow(run) ?? refusalByUser(problems.get(run));
  const accepted = runnable.filter((run) => refusalOf(run) === undefined);
  const now = new Date(clock.now());
  const begun = accepted.map((run) => ({
    ...beforeTurn(run, now),
    version: versionOf(run),
    user_id: existingOf.get(run) ?? created.get(run) ?? null,
  }));
  const loaded = new Map((await withPrograms(db, begun, users)).map((run) => [run.id, run]));
  return runs.map((run) => {
    const refusal = refusalOf(run);
    return refusal === undefined ? { run: loaded.get(run.id) as LoadedRun } : { refusal };
  });
}

type StartRow = { version: number | null; disabled: boolean } & (ConditionUser | { id: null });

/** Finds the newest version of the workflow of each run, and the data of its user. */
async function findWorkflowsAndUsers(
  db: Queryable,
  runs: readonly NewRun[],
  userIds: readonly (string | null | undefined)[],
) {
  const rows = await db.query<StartRow>(selectStarts, [
    uuidArray(runs.map(({ projectId }) => projectId)),
    textArray(runs.map(({ key }) => key)),
    textArray(userIds),
  ]);
  const rowOf = new Map(runs.map((run, index) => [run, rows[index]]));
  const users = new Map<string, UserData>();
  for (const row of rows) if (row.id !== null && !users.has(row.id)) users.set(row.id, userData(row));
  return {
    users,
    versionOf: (run: NewRun) => rowOf.get(run)?.version ?? 0,
    refusalOf(run: NewRun) {
      const row = rowOf.get(run);
      return refusalBy(row?.version === null ? undefined : row);
    },
  };
}

function refusalByUser(problem: string | undefined): ClientError | undefined {
  return problem === undefined
    ? undefined
    : new ClientError('validation_failed', problemsWithin('input', [problem]));
}

/** Creates or finds the users of runs. */
async function createUsers(
  context: LoadContext,
  runs: readonly NewRun[],
): Promise<{ created: ReadonlyMap<NewRun, string | undefined>; problems: Map<NewRun, string> }> {
  if (runs.length === 0) return { created: new Map(), problems: new Map() };
  return inStartTransaction(context, async (tx) => {
    const { userIds, users, problems } = await resolveUsersOf(tx, context.identities, runs);
    const created = new Map(runs.map((run, index) => [run, userIds[index]]));
    const ofRuns = new Map([...problems].map(([index, problem]) => [runs[index] as NewRun, problem]));
    return { users, result: { created, problems: ofRuns } };
  });
}

function beforeTurn({ id, projectId, key, input, size, depth }: NewRun, now: Date) {
  return {
    id,
    project_id: projectId,
    workflow_key: key,
    state: 0 as const,
    place: FIRST,
    stage: STAGES.notBegun,
    turn: 0,
    due_at: now,
    size,
    input,
    prepared: null,
    data: {},
    broadcast_id: null,
    depth,
    error: null,
    created_at: now,
    started_at: null,
    completed_at: null,
  };
}

// Primary keys.
const selectStarts = sql(
  'starts_of_workflow_runs',
  `select w.version, w.disabled, u.*
  from unnest($1::uuid[], $2::text[], $3::uuid[]) with ordinality as r (project_id, key, user_id, place)
  left join lateral (
    select version, disabled
    from workflows
    where project_id = r.project_id and key = r.key
    limit 1
  ) w on true
  left join lateral (
    select ${CONDITION_USER_COLUMNS}
    from users
    where id = r.user_id
    limit 1
  ) u on true
  order by r.place`,
);
