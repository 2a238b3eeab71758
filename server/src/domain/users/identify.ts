import { type Database, sql } from '../../db/client.ts';
import { type Identities, identityKey } from './identities.ts';
import { resolveUsers } from './resolve.ts';

/** The user that a User JWT names, created at first use. A known user costs no statement. */
export async function identifyUser(
  { db, identities }: { db: Database; identities: Identities },
  projectId: string,
  named: { externalId?: string | undefined; email?: string | undefined },
): Promise<{ userId: string }> {
  // The external id wins. For a user who is known by it the address in the token says nothing: tokens live long and addresses change.
  const { externalId, email } = named;
  const key =
    externalId !== undefined
      ? identityKey(projectId, 'external_id', externalId)
      : identityKey(projectId, 'email', email ?? '');
  const cached = identities.get(key);
  if (cached !== undefined) return { userId: cached };
  if (externalId !== undefined) {
    const { forgotten } = identities;
    const [known] = await db.query<{ user_id: string }>(selectByExternalId, [projectId, externalId]);
    if (known) {
      if (identities.forgotten === forgotten) identities.remember(key, known.user_id);
      return { userId: known.user_id };
    }
  }
  const resolved = await db.transaction((tx) =>
    resolveUsers(tx, identities, [{ projectId, externalId, email }]),
  );
  resolved.remember();
  const userId = resolved.userIds[0];
  if (userId === undefined) throw new Error('a person without a user');
  return { userId };
}

// Primary key of user_keys.
const selectByExternalId = sql(
  'select_user_by_external_id',
  "select user_id from user_keys where project_id = $1 and kind = 'external_id' and value = $2",
);
