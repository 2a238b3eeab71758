import { type Queryable, sql } from '../../../db/client.ts';
import { COLUMNS, type NotificationRow } from './row.ts';

/** One of the user's notifications; undefined for one that is not theirs, does not exist or was discarded. */
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
  where user_id = $1 and id = $2 and discarded_at is null`,
);
