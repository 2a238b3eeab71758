import { type Queryable, sql } from '../../../db/client.ts';
import { COLUMNS, type NotificationRow, REACHABLE } from './row.ts';

/** Returns one of the user's notifications; undefined if the user has none with this id, or discarded it. */
export async function getNotification(
  db: Queryable,
  userId: string,
  id: string,
): Promise<NotificationRow | undefined> {
  const [row] = await db.query<NotificationRow>(selectNotification, [userId, id]);
  return row;
}

// Primary key.
const selectNotification = sql(
  'get_notification',
  `select ${COLUMNS}
  from notifications
  where user_id = $1 and id = $2 and ${REACHABLE}`,
);
