import { type Queryable, sql } from '../../../db/client.ts';

/** A user, or the project if there is no user. */
export interface WindowsOwner {
  projectId: string;
  userId: string | undefined;
}

/** Returns the delivery windows of the project or of the user, as JSON text. */
export async function getWindows(db: Queryable, { projectId, userId }: WindowsOwner): Promise<string> {
  const [row] = await (userId === undefined
    ? db.query<Row>(ofProject, [projectId])
    : db.query<Row>(ofUser, [userId]));
  return row?.config ?? '{"channels":[]}';
}

interface Row {
  config: string;
}

// Primary keys.
const ofProject = sql(
  'get_project_delivery_windows',
  'select config from project_delivery_windows where project_id = $1',
);
const ofUser = sql(
  'get_user_delivery_windows',
  'select config from user_delivery_windows where user_id = $1',
);
