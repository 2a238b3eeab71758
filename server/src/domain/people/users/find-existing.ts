import type { Queryable } from '../../../db/client.ts';
import { type Identities, identityKeysOf } from '../../ground/identities/identities.ts';
import { findUsers, type NamedUser } from './find.ts';
import { findOwners } from './resolve.ts';

/**
 * Returns the id of each user that exists with all identities that name it, or null if nothing names one.
 * Undefined for others: such a user would have to be created, changed or left alone. Identities are looked up
 * in the cache, then in the database.
 */
export async function findExisting(
  db: Queryable,
  identities: Identities,
  named: readonly NamedUser[],
): Promise<(string | null | undefined)[]> {
  const byId = named.filter(({ id }) => id !== undefined);
  const foundById = byId.length === 0 ? [] : await findUsers(db, byId);
  const userOf = new Map(byId.map((one, index) => [one, foundById[index] ?? null]));
  const people = named.map(({ projectId, id, external_id: externalId, email }) =>
    id === undefined ? { projectId, externalId, email } : { projectId },
  );
  const names = people.map(identityKeysOf);
  const { removals } = identities;
  const { owners, deleted, found } = await findOwners(db, identities, people, names, false);
  if (identities.removals === removals) for (const [key, owner] of found) identities.set(key, owner);
  const ownerOf = (key: string) => {
    const owner = owners.get(key);
    return owner === undefined || deleted.has(owner) ? undefined : owner;
  };
  return named.map((one, index) => {
    const { id, email } = names[index] ?? {};
    if (one.id !== undefined || (id === undefined && email === undefined)) return userOf.get(one) ?? null;
    const user = ownerOf(id ?? email ?? '');
    return id === undefined || email === undefined || ownerOf(email) === user ? user : undefined;
  });
}
