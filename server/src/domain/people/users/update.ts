import { problemsWithin } from '../../../contract/problems.ts';
import type { SaveUser } from '../../../contract/user.ts';
import { type Database, type Queryable, sql } from '../../../db/client.ts';
import { ClientError } from '../../../errors.ts';
import type { Bus } from '../../ground/bus/messages.ts';
import type { EventDetails } from '../../ground/events/record.ts';
import {
  type Identities,
  type IdentityKind,
  identityKey,
  identityKeysOf,
  identityValue,
} from '../../ground/identities/identities.ts';
import { getUser, type UserRow } from './get.ts';
import { emptyPlan, type KnownUser, type Plan, type StoredUsers } from './plan.ts';
import { findOwners, publishChanges } from './resolve.ts';
import { ConflictingChange, retryOnConflict } from './retry-on-conflict.ts';
import { personOf } from './save.ts';
import { writeIdentities, writeUsers } from './write-users.ts';

/**
 * Updates a user of the project: a given member replaces the stored one, an absent one stays, null clears.
 * Unlike saveUser, it can replace the external id. Returns undefined if there is no such user. Throws
 * `validation_failed` if another user has an identity, or if the user would have none. `within` is the member
 * of the request that has the user, if it is not the request itself: problems name their field with it.
 * `cause` is added to the context of the event.
 */
export async function updateUser(
  {
    db,
    identities,
    bus,
    cause,
  }: {
    db: Pick<Database, 'transaction'>;
    identities: Identities;
    bus: Bus;
    cause?: EventDetails['context'];
  },
  projectId: string,
  userId: string,
  given: SaveUser,
  within?: string,
): Promise<UserRow | undefined> {
  const updated = await retryOnConflict(() =>
    db.transaction((tx) => update(tx, identities, { projectId, userId, within, cause }, given)),
  );
  if (updated === undefined) return undefined;
  publishChanges(bus, { restored: [], moved: updated.moved });
  return updated.user;
}

async function update(
  tx: Queryable,
  identities: Identities,
  {
    projectId,
    userId,
    within,
    cause,
  }: {
    projectId: string;
    userId: string;
    within: string | undefined;
    cause: EventDetails['context'];
  },
  given: SaveUser,
): Promise<{ user: UserRow; moved: string[] } | undefined> {
  const [before] = await tx.query<KnownUser>(selectIdentities, [userId, projectId]);
  if (before === undefined) return undefined;
  const person = { ...personOf(projectId, given), cause };
  const { owners, deleted } = await findOwners(tx, identities, [person], [identityKeysOf(person)], true);
  const { plan, problems } = planUpdate(projectId, before, given, { owners, deleted });
  if (problems.length > 0) throw new ClientError('validation_failed', problemsWithin(within, problems));
  const how = { restoring: false, insertion: 'plain' } as const;
  if (!(await writeIdentities(tx, plan, new Map([[userId, before]]), how))) throw new ConflictingChange();
  await writeUsers(tx, [person], plan, false);
  const user = await getUser(tx, projectId, userId);
  return user && { user, moved: [...plan.removedKeys.keys()] };
}

/** Plans the changes of a user's identities. A deleted user loses its address to this one. */
function planUpdate(
  projectId: string,
  { id: userId, externalId, email }: KnownUser,
  given: SaveUser,
  { owners, deleted }: Pick<StoredUsers, 'owners' | 'deleted'>,
): { plan: Plan; problems: string[] } {
  const plan = emptyPlan([userId]);
  const problems: string[] = [];
  const change = (kind: IdentityKind, from: string | null, to: string | null | undefined) => {
    if (to === undefined || to === from) return;
    plan.changed.set(userId, {
      ...plan.changed.get(userId),
      [kind === 'email' ? 'email' : 'externalId']: to,
    });
    // Another spelling of an address is the same identity.
    if (from !== null && to !== null && identityValue(kind, from) === identityValue(kind, to)) return;
    if (from !== null)
      plan.removedKeys.set(identityKey(projectId, kind, from), { projectId, kind, value: from, userId });
    if (to === null) return;
    const key = identityKey(projectId, kind, to);
    const owner = owners.get(key);
    if (owner !== undefined && owner !== userId) {
      if (kind === 'external_id' || !deleted.has(owner)) {
        const state = deleted.has(owner) ? ' that is deleted' : '';
        problems.push(`Param '${kind}' belongs to another user${state}`);
        return;
      }
      plan.released.add(owner);
      plan.removedKeys.set(key, { projectId, kind, value: to, userId: owner });
    }
    plan.addedKeys.set(key, { projectId, kind, value: to, userId });
  };
  change('external_id', externalId, given.external_id);
  change('email', email, given.email);
  const after = { externalId, email, ...plan.changed.get(userId) };
  if (after.externalId === null && after.email === null)
    problems.push("Param '(root)' must leave the user an external_id or an email");
  return { plan, problems };
}

// Primary key.
const selectIdentities = sql(
  'identities_to_update',
  `select id, external_id as "externalId", email
  from users
  where id = $1 and project_id = $2 and deleted_at is null`,
);
