import type { Queryable } from '../../../db/client.ts';
import type { ClientError } from '../../../errors.ts';
import { findExisting } from '../../people/users/find-existing.ts';
import { FIRST } from '../definitions/places.ts';
import { STAGES } from '../runs/row.ts';
import {
  findVersions,
  inStartTransaction,
  type NewRun,
  namedUser,
  resolveUsersOf,
  type StartContext,
} from '../runs/start.ts';
import { type LoadedRun, withPrograms } from './load.ts';

/** A run before its first turn, or why it cannot start. */
export type LoadedStart = { run: LoadedRun } | { refusal: ClientError };

type LoadContext = StartContext & { db: Queryable };

/** Loads what the first turns of runs need, with a few statements for all of them. Creates their users. */
export async function loadStarts(context: LoadContext, runs: readonly NewRun[]): Promise<LoadedStart[]> {
  const { db, clock } = context;
  const { versionOf, refusalOf } = await findVersions(db, runs);
  const accepted = runs.filter((run) => refusalOf(run) === undefined);
  const userIds = await findOrCreateUsers(context, accepted);
  const now = new Date(clock.now());
  const begun = accepted.map((run, index) => ({
    ...beforeTurn(run, now),
    version: versionOf(run),
    user_id: userIds[index] ?? null,
  }));
  const loaded = new Map((await withPrograms(db, begun)).map((run) => [run.id, run]));
  return runs.map((run) => {
    const refusal = refusalOf(run);
    return refusal === undefined ? { run: loaded.get(run.id) as LoadedRun } : { refusal };
  });
}

async function findOrCreateUsers(
  context: LoadContext,
  runs: readonly NewRun[],
): Promise<(string | null | undefined)[]> {
  const named = runs.map(({ projectId, input }) => ({ projectId, ...namedUser(input.user) }));
  const found = await findExisting(context.db, context.identities, named);
  const others = runs.filter((_, index) => found[index] === undefined);
  if (others.length === 0) return found;
  const created = await inStartTransaction(context, async (tx) => {
    const { userIds, users } = await resolveUsersOf(tx, context.identities, others);
    return { users, result: new Map(others.map((run, index) => [run, userIds[index]])) };
  });
  return runs.map((run, index) => found[index] ?? created.get(run));
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
