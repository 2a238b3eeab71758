import { type Queryable, sql } from '../../../db/client.ts';

/** Returns whether the project has this user and it is not deleted. */
export async function userExists(db: Queryable, projectId: string, id: string): Promise<boolean> {
  return (await db.query(selectUser, [id, projectId])).length > 0;
}

// Primary key.
const selectUser = sql(
  'user_exists',
  'select from users where id = $1 and project_id = $2 and deleted_at is null',
);
