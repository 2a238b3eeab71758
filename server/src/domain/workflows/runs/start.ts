import { MAX_MESSAGES, problemsWithin } from '../../../contract/problems.ts';
import type { SaveUser } from '../../../contract/user.ts';
import { validatorFor } from '../../../contract/validation.ts';
import { RunUser } from '../../../contract/workflow.ts';
import { byteaArray, textArray, uuidArray } from '../../../db/arrays.ts';
import { type Database, type Queryable, sql } from '../../../db/client.ts';
import { ClientError } from '../../../errors.ts';
import type { Clock } from '../../../lib/clock.ts';
import { readEmail } from '../../../lib/email-address.ts';
import { writeJson } from '../../../lib/exact-numbers.ts';
import { EXTERNAL_ID_RULE, readExternalId } from '../../../lib/external-id.ts';
import { isId, newId } from '../../../lib/ids.ts';
import { memberOf } from '../../../lib/members.ts';
import { packJson } from '../../../lib/packed-json.ts';
import { activeSpan } from '../../../lib/tracing.ts';
import { enqueue } from '../../../queue/enqueue.ts';
import { priorityFor } from '../../../queue/jobs.ts';
import type { Bus } from '../../ground/bus/messages.ts';
import { recordEvents } from '../../ground/events/record.ts';
import type { Identities } from '../../ground/identities/identities.ts';
import { findUsers } from '../../people/users/find.ts';
import { emptyPlan, hasDetails, type Person } from '../../people/users/plan.ts';
import { publishChanges, type Resolved, resolveUsers } from '../../people/users/resolve.ts';
import { retryOnConflict } from '../../people/users/retry-on-conflict.ts';
import { personOf } from '../../people/users/save.ts';
import { writeUsers } from '../../people/users/write-users.ts';
import { FIRST } from '../definitions/places.ts';
import { startedEvents } from './events.ts';
import { runJob } from './jobs.ts';

export interface StartContext {
  db: Pick<Database, 'transaction'>;
  clock: Clock;
  identities: Identities;
  bus: Bus;
}

/** A run to start. */
export interface NewRun {
  id: string;
  projectId: string;
  key: string;
  input: Readonly<Record<string, unknown>>;
  /** Packed JSON of the input. */
  packed: Buffer;
  /** Characters of the input as JSON. */
  size: number;
  /** How many runs have led to this one by events, with itself. */
  depth: number;
  /** Details of its user that are saved when it starts. */
  details: Person | undefined;
  /** The trace context that its first job continues. */
  traceparent: string | undefined;
}

const isRunUser = validatorFor('body', RunUser);

/** Returns a run to start. With `savesUser`, its input may have details of its user that are saved. */
export function newRun(
  projectId: string,
  key: string,
  input: NewRun['input'],
  { depth = 0, savesUser = false } = {},
): NewRun {
  const person = savesUser && isRunUser(input.user) ? personOf(projectId, input.user as SaveUser) : undefined;
  const text = writeJson(input);
  const traceparent = activeSpan()?.traceparent;
  return {
    id: newId(),
    projectId,
    key,
    input,
    packed: packJson(text),
    size: text.length,
    depth,
    details: person !== undefined && hasDetails(person) ? person : undefined,
    traceparent,
  };
}

/**
 * Starts a run of a workflow for each of up to 1000 inputs, with a few statements in one transaction. Returns
 * their ids, in order. Throws `not_found` for an unknown workflow, and `validation_failed` for a disabled one
 * and for users that cannot be used.
 */
export async function startRuns(
  context: StartContext,
  projectId: string,
  key: string,
  inputs: readonly NewRun['input'][],
): Promise<string[]> {
  const runs = inputs.map((input) => newRun(projectId, key, input, { savesUser: true }));
  return inStartTransaction(context, async (tx) => {
    const { versionOf, refusalOf } = await findVersions(tx, runs);
    for (const run of runs) {
      const refusal = refusalOf(run);
      if (refusal !== undefined) throw refusal;
    }
    const how = { versionOf, priority: priorityFor(runs.length) };
    const { users, problems } = await writeRuns(tx, context, runs, how);
    const wrong = [...problems].flatMap(([at, problem]) => problemsWithin(`inputs.${at}`, [problem]));
    if (wrong.length > 0) throw new ClientError('validation_failed', wrong.slice(0, MAX_MESSAGES));
    return { users, result: runs.map(({ id }) => id) };
  });
}

/** Runs a transaction that starts runs. Retries it, and publishes the changes of users afterwards. */
export async function inStartTransaction<Result>(
  { db, bus }: StartContext,
  work: (tx: Queryable) => Promise<{ users: Resolved | undefined; result: Result }>,
): Promise<Result> {
  const { users, result } = await retryOnConflict(() => db.transaction(work));
  users?.remember();
  if (users !== undefined) publishChanges(bus, users);
  return result;
}

type OfWorkflow = Pick<NewRun, 'projectId' | 'key'>;

/** The newest versions of workflows. */
interface Versions {
  versionOf(run: OfWorkflow): number;
  /** Returns why a run cannot start, if so: its workflow does not exist or is disabled. */
  refusalOf(run: OfWorkflow): ClientError | undefined;
}

/** Finds the newest version of the workflow of each run. */
export async function findVersions(tx: Queryable, runs: readonly OfWorkflow[]): Promise<Versions> {
  const named = [...new Map(runs.map((run) => [nameOf(run), run])).values()];
  const rows = await tx.query<{ place: number; version: number; disabled: boolean }>(selectWorkflows, [
    uuidArray(named.map(({ projectId }) => projectId)),
    textArray(named.map(({ key }) => key)),
  ]);
  const found = new Map(rows.map((row) => [nameOf(named[row.place - 1] as OfWorkflow), row]));
  return {
    versionOf: (run) => found.get(nameOf(run))?.version ?? 0,
    refusalOf: (run) => refusalBy(found.get(nameOf(run))),
  };
}

/** Returns why a workflow starts no run, if so: it does not exist or is disabled. */
export function refusalBy(workflow: { disabled: boolean } | undefined): ClientError | undefined {
  if (workflow === undefined) return new ClientError('not_found');
  if (!workflow.disabled) return undefined;
  return new ClientError('validation_failed', ["Param 'key' names a workflow that is disabled"]);
}

function nameOf({ projectId, key }: OfWorkflow): string {
  return `${projectId} ${key}`;
}

/**
 * Writes runs of existing workflows, with their jobs and events, in the caller's transaction. Finds or
 * creates their users; call `remember` of these after the commit. A run whose user cannot be used is written
 * without one; its event has the reason, and so has `problems` by the index of the run.
 */
export async function writeRuns(
  tx: Queryable,
  { clock, identities }: Pick<StartContext, 'clock' | 'identities'>,
  runs: readonly NewRun[],
  { versionOf, priority }: Pick<Versions, 'versionOf'> & { priority: number },
): Promise<Pick<ResolvedUsers, 'users' | 'problems'>> {
  const { userIds, users, problems } = await resolveUsersOf(tx, identities, runs);
  await tx.query(insertRuns, [
    uuidArray(runs.map(({ id }) => id)),
    uuidArray(runs.map(({ projectId }) => projectId)),
    textArray(runs.map(({ key }) => key)),
    runs.map(versionOf),
    textArray(userIds),
    byteaArray(runs.map(({ packed }) => packed)),
    runs.map(({ size }) => size),
    FIRST,
    new Date(clock.now()),
    runs.map(({ depth }) => depth),
  ]);
  await enqueue(
    tx,
    runs.map((run) => runJob({ ...run, turn: 0 }, { priority })),
  );
  const started = runs.map(({ id, projectId, key }, at) => ({
    runId: id,
    projectId,
    key,
    userId: userIds[at],
    ...(problems.has(at) && { level: 'warn' as const, log: `The run has no user: ${problems.get(at)}` }),
  }));
  await recordEvents(tx, startedEvents(started));
  return { users, problems };
}

/** The users of runs. */
interface ResolvedUsers {
  /** By the index of the run; undefined if it has none. */
  userIds: (string | undefined)[];
  users: Resolved | undefined;
  /** Why runs do not have the user that their input names, by the index of the run. */
  problems: ReadonlyMap<number, string>;
}

/** The problem of an input with an `id` that no user has. */
export const UNKNOWN_USER_ID = "Param 'user.id' names no user, or one that is deleted";
const DELETED_USER =
  "Param 'user' names a user that is deleted: restore it with PUT /users and the same identity";

/**
 * Finds or creates the users of runs in the caller's transaction. A run whose input does not identify a user
 * has none.
 */
export async function resolveUsersOf(
  tx: Queryable,
  identities: Identities,
  runs: readonly NewRun[],
): Promise<ResolvedUsers> {
  const problems = new Map<number, string>();
  const named = runs.map(({ projectId, input, details }) => ({
    projectId,
    ...namedUser(input.user),
    details,
  }));
  for (const [at, { problem }] of named.entries()) if (problem !== undefined) problems.set(at, problem);
  const userIds = runs.map((): string | undefined => undefined);
  const byId = named.flatMap((one, at) => (one.id === undefined ? [] : [{ ...one, at }]));
  if (byId.length > 0) {
    const found = await findUsers(tx, byId);
    for (const [index, { at }] of byId.entries()) {
      userIds[at] = found[index];
      if (found[index] === undefined) problems.set(at, UNKNOWN_USER_ID);
    }
    await saveDetails(
      tx,
      byId.map(({ details }, index) => ({ userId: found[index], details })),
    );
  }
  const people = named.flatMap((one, at) =>
    one.external_id === undefined && one.email === undefined ? [] : [{ ...one, at }],
  );
  if (people.length === 0) return { userIds, users: undefined, problems };
  const users = await resolveUsers(
    tx,
    identities,
    people.map(({ projectId, external_id: externalId, email, details }): Person => {
      return { ...details, projectId, externalId, email };
    }),
  );
  for (const [index, { at }] of people.entries())
    if (users.refused.has(index)) problems.set(at, DELETED_USER);
    else userIds[at] = users.userIds[index];
  return { userIds, users, problems };
}

/** Saves details of users that are named by their id. */
async function saveDetails(
  tx: Queryable,
  users: readonly { userId: string | undefined; details: Person | undefined }[],
): Promise<void> {
  const described = users.flatMap(({ userId, details }) =>
    userId === undefined || details === undefined ? [] : [{ userId, details }],
  );
  if (described.length === 0) return;
  await writeUsers(
    tx,
    described.map(({ details }) => details),
    emptyPlan(described.map(({ userId }) => userId)),
    false,
  );
}

interface NamedUser {
  id?: string;
  external_id?: string;
  email?: string;
  /** Why the identity that is given names no user. */
  problem?: string;
}

/**
 * Returns what identifies the user that an input names: `id`, or else `external_id`, or else `email`. One
 * that is not valid is a problem, because the next one could identify another user.
 */
export function namedUser(given: unknown): NamedUser {
  const [id, externalId, email] = ['id', 'external_id', 'email'].map((name) => memberOf(given, name) ?? null);
  if (id !== null)
    return typeof id === 'string' && isId(id) ? { id } : { problem: "Param 'user.id' must be a UUID" };
  const address = readEmail(email);
  if (externalId !== null) {
    const read = readExternalId(externalId);
    if (read === undefined) return { problem: `Param 'user.external_id' ${EXTERNAL_ID_RULE}` };
    return { external_id: read, ...(address === undefined ? {} : { email: address }) };
  }
  if (email === null) return {};
  return address === undefined
    ? { problem: "Param 'user.email' must be an e-mail address" }
    : { email: address };
}

// Primary key of workflows.
const selectWorkflows = sql(
  'workflows_to_run',
  `select named.place::int as place, w.version, w.disabled
  from unnest($1::uuid[], $2::text[]) with ordinality as named (project_id, key, place)
  cross join lateral (
    select version, disabled
    from workflows
    where project_id = named.project_id and key = named.key
    limit 1
  ) w`,
);
const insertRuns = sql(
  'start_workflow_runs',
  `insert into workflow_runs (
    id, project_id, workflow_key, version, user_id, state, place, stage, turn, due_at, size, input,
    created_at, depth
  )
  select id, project_id, key, version, user_id, 0, $8, 0, 0, $9, size, input, $9, depth
  from unnest(
    $1::uuid[], $2::uuid[], $3::text[], $4::int[], $5::uuid[], $6::bytea[], $7::int[], $10::smallint[]
  ) as r (id, project_id, key, version, user_id, input, size, depth)`,
);
