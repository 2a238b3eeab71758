import type { Queryable } from '../../../db/client.ts';
import { notificationId } from '../../../lib/ids.ts';
import { findFewBroadcasts } from './find-few.ts';
import type { NotificationFilter } from './row.ts';

/**
 * Returns the ids of all notifications that a filter can match, if the project has sent few broadcasts of
 * that category or topic; undefined if it has sent many, or there is no filter. With these ids a large inbox
 * is not read for its rare notifications.
 */
export async function findFewNotifications(
  db: Queryable,
  { projectId, userId }: { projectId: string; userId: string },
  { category, topic }: NotificationFilter,
): Promise<string[] | undefined> {
  const broadcastIds =
    (topic === undefined ? undefined : await findFewBroadcasts(db, projectId, { topic })) ??
    (category === undefined ? undefined : await findFewBroadcasts(db, projectId, { category }));
  return broadcastIds?.map((broadcastId) => notificationId(broadcastId, userId));
}
