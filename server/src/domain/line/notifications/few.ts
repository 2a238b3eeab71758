import type { Queryable } from '../../../db/client.ts';
import { notificationId } from '../../../lib/ids.ts';
import { findFewBroadcasts } from './find-few.ts';
import type { NotificationFilter } from './row.ts';

/**
 * The ids of all notifications that a filter can mean, where the project has sent few broadcasts of that
 * category or topic; undefined where it has sent many, or nothing is filtered. With them a large inbox need
 * not be walked for what is hardly ever in it.
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
