import { type Queryable, sql } from '../../db/client.ts';

/** When the project's messages go out, as JSON text. */
export async function getProjectWindows(db: Queryable, projectId: string): Promise<string> {
  const [row] = await db.query<{ config: string }>(selectOfProject, [projectId]);
  return row?.config ?? NONE;
}

/** When the user wants to be reached, as JSON text. */
export async function getUserWindows(db: Queryable, userId: string): Promise<string> {
  const [row] = await db.query<{ config: string }>(selectOfUser, [userId]);
  return row?.config ?? NONE;
}

const NONE = '{"channels":[]}';

// Primary keys.
const selectOfProject = sql(
  'get_project_delivery_windows',
  'select config from project_delivery_windows where project_id = $1',
);
const selectOfUser = sql(
  'get_user_delivery_windows',
  'select config from user_delivery_windows where user_id = $1',
);
