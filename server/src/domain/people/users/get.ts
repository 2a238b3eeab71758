import { type Queryable, sql } from '../../../db/client.ts';

/** A user as stored, with the time of the newest notification. */
export interface UserRow {
  id: string;
  external_id: string | null;
  email: string | null;
  first_name: string | null;
  last_name: string | null;
  /** JSON text of an object. */
  custom_attributes: string | null;
  phone_numbers: string[];
  created_at: Date;
  updated_at: Date;
  last_seen_at: Date | null;
  last_notified_at: Date | null;
}

/** One of the project's users; undefined for another project's, and for one that was deleted. */
export async function getUser(db: Queryable, projectId: string, id: string): Promise<UserRow | undefined> {
  const [row] = await db.query<UserRow>(selectUser, [id, projectId]);
  return row;
}

/** The wire form of a user, as JSON text. */
export function userJson({ custom_attributes, created_at, updated_at, ...user }: UserRow): string {
  const { id, external_id, email, first_name, last_name, phone_numbers, last_seen_at, last_notified_at } =
    user;
  const identity = JSON.stringify({ id, external_id, email, first_name, last_name, phone_numbers });
  const times = JSON.stringify({ created_at, updated_at, last_seen_at, last_notified_at });
  return `${identity.slice(0, -1)},"custom_attributes":${custom_attributes ?? 'null'},${times.slice(1)}`;
}

// The newest notification by primary key, from its end.
export const USER_COLUMNS = `u.id, u.external_id, u.email, u.first_name, u.last_name, u.custom_attributes, u.phone_numbers,
    u.created_at, u.updated_at, u.last_seen_at,
    (select n.sent_at from notifications n where n.user_id = u.id order by n.id desc limit 1) as last_notified_at`;

// Primary key.
const selectUser = sql(
  'get_user',
  `select ${USER_COLUMNS}
  from users u
  where u.id = $1 and u.project_id = $2 and u.deleted_at is null`,
);
