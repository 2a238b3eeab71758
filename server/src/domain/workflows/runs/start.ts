import { byteaArray, textArray, uuidArray } from '../../../db/arrays.ts';
import { type Database, type Queryable, sql } from '../../../db/client.ts';
import { ClientError } from '../../../errors.ts';
import type { Clock } from '../../../lib/clock.ts';
import { isEmailAddress } from '../../../lib/email-address.ts';
import { isExternalId } from '../../../lib/external-id.ts';
import { isId, newId } from '../../../lib/ids.ts';
import { memberOf } from '../../../lib/members.ts';
import { packJson } from '../../../lib/packed-json.ts';
import { enqueue } from '../../../queue/enqueue.ts';
import { priorityFor } from '../../../queue/jobs.ts';
import type { Bus } from '../../ground/bus/messages.ts';
import { recordEvents } from '../../ground/events/record.ts';
import type { Identities } from '../../ground/identities/identities.ts';
import { findUsers } from '../../people/users/find-many.ts';
import type { Person } from '../../people/users/plan.ts';
import { publishChanges, resolveUsers } from '../../people/users/resolve.ts';
import { retryOnConflict } from '../../people/users/retry-on-conflict.ts';
import { FIRST } from '../definitions/places.ts';
import { runJob } from './jobs.ts';

interface StartContext {
  db: Pick<Database, 'transaction'>;
  clock: Clock;
  identities: Identities;
  bus: Bus;
}

type Input = Readonly<Record<string, unknown>>;

/**
 * Starts a run of a workflow for each of up to 1000 inputs, with a few statements in one transaction. Returns
 * their ids, in order. Throws `not_found` for an unknown workflow and `validation_failed` for a disabled one.
 */
export async function startRuns(
  context: StartContext,
  projectId: string,
  key: string,
  inputs: readonly Input[],
): Promise<string[]> {
  const nowMs = context.clock.now();
  const { ids, users } = await retryOnConflict(() =>
    context.db.transaction((tx) => start(tx, context.identities, { projectId, key, inputs, nowMs })),
  );
  users?.remember();
  if (users !== undefined) publishChanges(context.bus, users);
  return ids;
}

interface Start {
  projectId: string;
  key: string;
  inputs: readonly Input[];
  nowMs: number;
}

async function start(tx: Queryable, identities: Identities, { projectId, key, inputs, nowMs }: Start) {
  const { userIds, users } = await resolve(tx, identities, projectId, inputs);
  const ids = inputs.map(() => newId());
  const texts = inputs.map((input) => JSON.stringify(input));
  const sizes = texts.map(({ length }) => length);
  const started = await tx.query(insertRuns, [
    projectId,
    key,
    uuidArray(ids),
    textArray(userIds),
    byteaArray(texts.map((text) => packJson(text))),
    new Date(nowMs),
    FIRST,
    sizes,
  ]);
  if (started.length === 0) await refuse(tx, projectId, key);
  const priority = priorityFor(ids.length);
  await enqueue(
    tx,
    ids.map((id, at) => runJob({ id, projectId, turn: 0, size: sizes[at] ?? 0 }, { priority })),
  );
  await recordEvents(
    tx,
    ids.map((id, at) => ({
      projectId,
      type: 'workflow.run.started',
      ...withUser(userIds[at]),
      details: { context: { run_id: id, workflow_key: key } },
    })),
  );
  return { ids, users };
}

async function refuse(tx: Queryable, projectId: string, key: string): Promise<never> {
  const [workflow] = await tx.query(selectWorkflow, [projectId, key]);
  if (workflow === undefined) throw new ClientError('not_found');
  throw new ClientError('validation_failed', [`Param 'key' names a workflow that is disabled`]);
}

/** The user of an event; an event without one has none. */
export function withUser(userId: string | null | undefined): { userIds?: readonly string[] } {
  return userId ? { userIds: [userId] } : {};
}

/** Finds or creates the users of inputs. An input without a user that can be identified has none. */
async function resolve(tx: Queryable, identities: Identities, projectId: string, inputs: readonly Input[]) {
  const named = inputs.map(({ user }) => namedUser(user));
  const userIds = inputs.map((): string | undefined => undefined);
  const byId = named.flatMap((one, at) => (one?.id === undefined ? [] : [{ at, id: one.id }]));
  if (byId.length > 0) {
    const found = await findUsers(tx, projectId, byId);
    for (const [index, { at }] of byId.entries()) userIds[at] = found[index];
  }
  const people = named.flatMap((one, at) => (one === undefined || one.id !== undefined ? [] : [{ at, one }]));
  if (people.length === 0) return { userIds, users: undefined };
  const users = await resolveUsers(
    tx,
    identities,
    people.map(({ one }): Person => ({ projectId, externalId: one.external_id, email: one.email })),
  );
  for (const [index, { at }] of people.entries())
    if (!users.refused.has(index)) userIds[at] = users.userIds[index];
  return { userIds, users };
}

interface NamedUser {
  id?: string;
  external_id?: string;
  email?: string;
}

function namedUser(given: unknown): NamedUser | undefined {
  const [id, externalId, email] = ['id', 'external_id', 'email'].map((name) => memberOf(given, name));
  if (typeof id === 'string' && isId(id)) return { id };
  const named = {
    ...(typeof externalId === 'string' && isExternalId(externalId) ? { external_id: externalId } : {}),
    ...(typeof email === 'string' && isEmailAddress(email) ? { email } : {}),
  };
  return Object.keys(named).length === 0 ? undefined : named;
}

// Primary key of workflows, both.
const insertRuns = sql(
  'start_workflow_runs',
  `insert into workflow_runs (
    id, project_id, workflow_key, version, user_id, state, place, stage, turn, due_at, size, input,
    created_at
  )
  select r.id, $1, w.key, w.version, r.user_id, 0, $7, 0, 0, $6, r.size, r.input, $6
  from workflows w
  cross join unnest($3::uuid[], $4::uuid[], $5::bytea[], $8::int[]) r (id, user_id, input, size)
  where w.project_id = $1 and w.key = $2 and not w.disabled
  returning id`,
);
const selectWorkflow = sql('workflow_exists', 'select from workflows where project_id = $1 and key = $2');
