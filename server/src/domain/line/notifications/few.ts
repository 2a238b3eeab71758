import type { Queryable } from '../../../db/client.ts';
import { notificationId } from '../../../lib/ids.ts';
import { findFewBroadcasts } from './find-few.ts';
import type { NotificationFilter } from './row.ts';

/**
 * Returns the ids of all notifications that a filter can match, if the project has sent few broadcasts of
 * that category or topic; undefined if it has sent many, or the filter has none or several. With these ids a
 * large inbox is not read for its rare notifications.
 */
export async function findFewNotifications(
  db: Queryable,
  { projectId, userId }: { projectId: string; userId: string },
  { categories = [], topics = [] }: NotificationFilter,
): Promise<string[] | undefined> {
  const [category, topic] = [only(categories), only(topics)];
  const broadcastIds =
    (topic === undefined ? undefined : await findFewBroadcasts(db, projectId, { topic })) ??
    (category === undefined ? undefined : await findFewBroadcasts(db, projectId, { category }));
  return broadcastIds?.map((broadcastId) => notificationId(broadcastId, userId));
}

function only<Item>(items: readonly Item[]): Item | undefined {
  return items.length === 1 ? items[0] : undefined;
}
