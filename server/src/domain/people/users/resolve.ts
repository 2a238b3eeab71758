import { textArray, uuidArray } from '../../../db/arrays.ts';
import { type Queryable, sql } from '../../../db/client.ts';
import { chunksOf } from '../../../lib/chunks.ts';
import type { Bus } from '../../ground/bus/messages.ts';
import {
  type Identities,
  type IdentityKeys,
  type IdentityKind,
  identityKeysOf,
  identityValue,
} from '../../ground/identities/identities.ts';
import { type KnownUser, type Person, type Plan, planUsers } from './plan.ts';
import { writeIdentities, writeUsers } from './write-users.ts';

/** The users of people. Call `remember` after the commit, and only then: it caches the identities. */
export interface Resolved {
  userIds: string[];
  created: ReadonlySet<string>;
  /** The users that were changed, each with an event. */
  updated: ReadonlySet<string>;
  conflicts: Plan['conflicts'];
  /** The deleted users of people, by the index of the person: nothing was written for them. */
  refused: Plan['deleted'];
  /** The deleted users that were restored. */
  restored: readonly string[];
  /** The cache keys of identities that belong to another user now, or to no user. */
  moved: readonly string[];
  remember(): void;
}

// If two processes name the same new user at once, one creates it, and the other finds it in the next round.
// Many clients that rename, delete and restore the same few users have been seen to need more than eight.
const MAX_ROUNDS = 20;

/**
 * Finds or creates the user of every person by a few statements, and writes their details: a given member
 * replaces the stored one, an absent one stays. Deleted users are restored, or left as they are. Runs in the
 * caller's transaction.
 */
export async function resolveUsers(
  tx: Queryable,
  identities: Identities,
  people: readonly Person[],
  deletedUsers: 'restore' | 'refuse' = 'refuse',
): Promise<Resolved> {
  const restoring = deletedUsers === 'restore';
  const names = people.map(identityKeysOf);
  for (let round = 1; round <= MAX_ROUNDS; round += 1) {
    const { removals } = identities;
    // The cache does not know which users are deleted, and may be stale after a conflict.
    const skipCache = restoring || round > 1;
    const { owners, deleted, found } = await findOwners(tx, identities, people, names, skipCache);
    const known = await findDetails(tx, names, owners);
    const plan = planUsers(people, { owners, known, deleted }, { restoring, names });
    const insertion = round === 1 ? 'plain' : 'unless taken';
    if (!(await writeIdentities(tx, plan, known, { restoring, insertion }))) continue;
    const restored = restoring ? [...new Set(plan.deleted.values())] : [];
    const updated = await writeUsers(tx, people, plan, restoring);
    return {
      userIds: plan.userIds,
      created: new Set(plan.created.keys()),
      updated,
      conflicts: plan.conflicts,
      refused: restoring ? new Map() : plan.deleted,
      restored,
      moved: [...plan.removedKeys.keys()],
      remember: () => remember(identities, plan, identities.removals === removals ? found : new Map()),
    };
  }
  throw new Error(`users could not be identified in ${MAX_ROUNDS} rounds`);
}

/** Publishes what has changed for caches and connections. Called after the commit. */
export function publishChanges(bus: Bus, { restored, moved }: Pick<Resolved, 'restored' | 'moved'>): void {
  for (const userId of restored) bus.publish({ type: 'user_restored', userId });
  for (const keys of chunksOf(moved, KEYS_PER_MESSAGE)) bus.publish({ type: 'identities_changed', keys });
}

// 1,600 bytes each at most, of 7,900 (bus/wire.ts).
const KEYS_PER_MESSAGE = 4;

interface Owners {
  /** The user of each identity. */
  owners: Map<string, string>;
  /** The deleted ones of these users. */
  deleted: Set<string>;
  /** The users that were read and are not deleted, for the cache. */
  found: Map<string, string>;
}

/** Finds the owner of each identity that has one: in the cache, or by primary key of user_keys. */
export async function findOwners(
  tx: Queryable,
  identities: Identities,
  people: readonly Person[],
  names: readonly IdentityKeys[],
  skipCache: boolean,
): Promise<Owners> {
  const owners = new Map<string, string>();
  const deleted = new Set<string>();
  const found = new Map<string, string>();
  const unknown = new Map<string, UnknownKeys>();
  const look = (key: string | undefined, { projectId }: Person, kind: IdentityKind, value = '') => {
    if (key === undefined || owners.has(key)) return;
    const cached = skipCache ? undefined : identities.get(key);
    if (cached !== undefined) {
      owners.set(key, cached);
      return;
    }
    const group = `${projectId}${kind}`;
    const keys = unknown.get(group)?.keys ?? new Map<string, string>();
    if (keys.size === 0) unknown.set(group, { projectId, kind, keys });
    keys.set(identityValue(kind, value), key);
  };
  people.forEach((person, index) => {
    look(names[index]?.id, person, 'external_id', person.externalId);
    look(names[index]?.email, person, 'email', person.email);
  });
  if (unknown.size === 0) return { owners, deleted, found };
  const groups = [...unknown.values()];
  const rows = await tx.query<{ place: number; value: string; user_id: string; deleted: boolean }>(
    selectOwners,
    [
      uuidArray(groups.map((group) => group.projectId)),
      textArray(groups.map((group) => group.kind)),
      textArray(groups.map((group) => textArray([...group.keys.keys()]))),
    ],
  );
  for (const row of rows) {
    const key = groups[row.place - 1]?.keys.get(row.value) as string;
    owners.set(key, row.user_id);
    if (row.deleted) deleted.add(row.user_id);
    else found.set(key, row.user_id);
  }
  return { owners, deleted, found };
}

/** The identities of a kind in a project that are to be looked up: their cache keys by their values. */
interface UnknownKeys {
  projectId: string;
  kind: IdentityKind;
  keys: Map<string, string>;
}

/**
 * Reads users whose two identities are named together and do not both lead to them: only these can change.
 */
async function findDetails(
  tx: Queryable,
  names: readonly IdentityKeys[],
  owners: ReadonlyMap<string, string>,
): Promise<Map<string, KnownUser>> {
  const wanted = new Set<string>();
  for (const { id, email } of names) {
    if (id === undefined || email === undefined) continue;
    const byId = owners.get(id);
    const byMail = owners.get(email);
    if (byId === byMail) continue;
    if (byId !== undefined) wanted.add(byId);
    if (byMail !== undefined) wanted.add(byMail);
  }
  if (wanted.size === 0) return new Map();
  const rows = await tx.query<{ id: string; external_id: string | null; email: string | null }>(
    selectDetails,
    [[...wanted]],
  );
  return new Map(rows.map((row) => [row.id, { id: row.id, externalId: row.external_id, email: row.email }]));
}

/** Caches the identities that were read or written. Cached entries keep their expiry. */
function remember(identities: Identities, plan: Plan, found: ReadonlyMap<string, string>): void {
  for (const [key, owner] of found) identities.set(key, owner);
  for (const [key] of plan.removedKeys) identities.remove(key);
  for (const [key, { userId }] of plan.addedKeys) identities.set(key, userId);
}

// Primary key of user_keys. It is searched once for all values of a kind in a project, so that neighbours are
// read together. The subqueries hide the lengths of the arrays: every call would be planned again. Without
// `offset 0`, a plan made while a project has few users joins all of its identities and compares each with
// all values: 0.7 ms for each user of a first large broadcast or import.
const selectOwners = sql(
  'select_owners',
  `select wanted.place::int as place, k.value, k.user_id, k.deleted
  from unnest((select $1::uuid[]), (select $2::text[]), (select $3::text[])) with ordinality
    as wanted (project_id, kind, keys, place)
  cross join lateral (
    select k.value, k.user_id, k.deleted
    from user_keys k
    where k.project_id = wanted.project_id and k.kind = wanted.kind and k.value = any (wanted.keys::text[])
    offset 0
  ) k`,
);
const selectDetails = sql(
  'select_identities',
  'select id, external_id, email from users where id = any ($1::uuid[])',
);
