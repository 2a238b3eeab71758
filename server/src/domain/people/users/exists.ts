import { type Queryable, sql } from '../../../db/client.ts';

/** Whether the project has this user; one that was deleted it has not. */
export async function userExists(db: Queryable, projectId: string, id: string): Promise<boolean> {
  return (await db.query(selectUser, [id, projectId])).length > 0;
}

// Primary key.
const selectUser = sql(
  'user_exists',
  'select from users where id = $1 and project_id = $2 and deleted_at is null',
);
