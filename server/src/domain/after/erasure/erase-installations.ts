import { textArray, uuidArray } from '../../../db/arrays.ts';
import { type Queryable, sql } from '../../../db/client.ts';
import type { Sealer } from '../../../lib/seal.ts';
import {
  ALL_USERS,
  openRecord,
  type StoredInstallation,
  sealRecord,
} from '../../people/installations/record.ts';

/**
 * Deletes the users' own installations. From installations that serve a whole workspace, removes the user who
 * installed them and that user's own tokens: the workspace stays connected.
 */
export async function eraseInstallations(
  tx: Queryable,
  sealer: Sealer,
  userIds: readonly string[],
): Promise<void> {
  await tx.query(deleteOwn, [uuidArray(userIds)]);
  const rows = await tx.query<Row>(lockInstalled, [uuidArray(userIds), ALL_USERS]);
  if (rows.length === 0) return;
  const anonymous = rows.map(({ project_id: projectId, provider, id, sealed_record }) => {
    const key = { projectId, provider, id, ownerId: ALL_USERS };
    const record = openRecord<StoredInstallation>(sealer, key, sealed_record);
    return record === undefined
      ? sealed_record
      : sealRecord(sealer, key, { ...record, authed_user: { id: '' } });
  });
  await tx.query(writeAnonymous, [
    uuidArray(rows.map((row) => row.project_id)),
    textArray(rows.map((row) => row.provider)),
    textArray(rows.map((row) => row.id)),
    anonymous,
    ALL_USERS,
  ]);
}

interface Row {
  project_id: string;
  provider: string;
  id: string;
  sealed_record: Buffer;
}

// Index installations_by_installer, like the next: the owner of an installation has installed it.
const deleteOwn = sql(
  'delete_own_installations',
  `with own as (
    select project_id, provider, id, owner_id
    from installations
    where installed_by = any($1::uuid[]) and owner_id = installed_by
    order by project_id, provider, id, owner_id
    for update
  )
  delete from installations i
  using own
  where i.project_id = own.project_id and i.provider = own.provider and i.id = own.id
    and i.owner_id = own.owner_id`,
);
const lockInstalled = sql(
  'lock_installed_installations',
  `select project_id, provider, id, sealed_record
  from installations
  where installed_by = any($1::uuid[]) and owner_id = $2
  order by project_id, provider, id
  for no key update`,
);
// Primary key.
const writeAnonymous = sql(
  'anonymize_installations',
  `update installations i
  set sealed_record = a.sealed_record, installed_by = $5
  from unnest($1::uuid[], $2::text[], $3::text[], $4::bytea[]) as a (project_id, provider, id, sealed_record)
  where i.project_id = a.project_id and i.provider = a.provider and i.id = a.id and i.owner_id = $5`,
);
