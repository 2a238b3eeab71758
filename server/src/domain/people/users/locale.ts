import { type Queryable, sql } from '../../../db/client.ts';

/** Returns the locale of one of the project's users; null if it has none, or if there is no such user. */
export async function localeOf(db: Queryable, projectId: string, id: string): Promise<string | null> {
  const [user] = await db.query<{ locale: string | null }>(selectLocale, [id, projectId]);
  return user?.locale ?? null;
}

// Primary key.
const selectLocale = sql(
  'locale_of_user',
  'select locale from users where id = $1 and project_id = $2 and deleted_at is null',
);
