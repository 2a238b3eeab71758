import { uuidArray } from '../../../db/arrays.ts';
import { type Queryable, sql } from '../../../db/client.ts';
import { parseUserReference } from '../../../lib/user-reference.ts';
import { identityValue } from '../../ground/identities/identities.ts';

export interface UserRow {
  id: string;
  external_id: string | null;
  email: string | null;
  first_name: string | null;
  last_name: string | null;
  locale: string | null;
  /** JSON text of an object. */
  custom_attributes: string | null;
  phone_numbers: string[];
  created_at: Date;
  updated_at: Date;
  last_seen_at: Date | null;
  last_notified_at: Date | null;
}

/** Returns one of the project's users; undefined if it does not exist or is deleted. */
export async function getUser(db: Queryable, projectId: string, id: string): Promise<UserRow | undefined> {
  return (await getUsers(db, projectId, [id]))[0];
}

/**
 * Returns the project's user with this UUID, `external_id:…` or `email:…`, in any case; undefined if there is
 * none or it is deleted. Never creates or restores a user.
 */
export async function getUserByReference(
  db: Queryable,
  projectId: string,
  reference: string,
): Promise<UserRow | undefined> {
  const named = parseUserReference(reference);
  if (named === undefined) return undefined;
  const { kind, value } = named;
  if (kind === 'id') return getUser(db, projectId, value);
  const identity = [projectId, kind, kind === 'email' ? identityValue(kind, value) : value];
  return (await db.query<UserRow>(selectByIdentity, identity))[0];
}

/** Returns those of these users that are of the project and not deleted. */
export function getUsers(db: Queryable, projectId: string, ids: readonly string[]): Promise<UserRow[]> {
  return db.query<UserRow>(selectUsers, [uuidArray(ids), projectId]);
}

/** Returns the API form of a user, as JSON text. */
export function userJson({ custom_attributes, created_at, updated_at, ...user }: UserRow): string {
  const { id, external_id, email, first_name, last_name, locale, phone_numbers } = user;
  const { last_seen_at, last_notified_at } = user;
  const identity = JSON.stringify({ id, external_id, email, first_name, last_name, locale, phone_numbers });
  const times = JSON.stringify({ created_at, updated_at, last_seen_at, last_notified_at });
  return `${identity.slice(0, -1)},"custom_attributes":${custom_attributes ?? 'null'},${times.slice(1)}`;
}

// Primary key of notifications, for the newest one.
export const USER_COLUMNS = `u.id, u.external_id, u.email, u.first_name, u.last_name, u.locale,
    u.custom_attributes, u.phone_numbers, u.created_at, u.updated_at, u.last_seen_at,
    (
      select n.sent_at from notifications n where n.user_id = u.id order by n.id desc limit 1
    ) as last_notified_at`;

// Primary key.
const selectUsers = sql(
  'get_users',
  `select ${USER_COLUMNS}
  from users u
  where u.id = any ($1::uuid[]) and u.project_id = $2 and u.deleted_at is null`,
);
// Primary keys of user_keys and of users.
const selectByIdentity = sql(
  'get_user_by_identity',
  `select ${USER_COLUMNS}
  from user_keys k
  join users u on u.id = k.user_id and u.project_id = k.project_id and u.deleted_at is null
  where k.project_id = $1 and k.kind = $2 and k.value = $3 and not k.deleted`,
);
