import type { Queryable } from '../../../db/client.ts';
import type { Cursor } from '../../../lib/cursor.ts';
import type { JsonText } from '../../../lib/json-text.ts';
import { type ListPage, readTextPage } from '../../../lib/page.ts';
import type { BroadcastContents } from './contents.ts';
import { findFewNotifications } from './few.ts';
import { notificationTexts } from './json.ts';
import { type ListedState, listNotifications } from './list.ts';
import type { NotificationFilter } from './row.ts';

/** The notifications of an inbox to list: all that are not archived if there is no `status`. */
export type InboxFilter = NotificationFilter & ListedState;

/**
 * Reads a page of a user's inbox, for every interface: the contract's `Notification`s as JSON texts, newest
 * arrival first. A page ends early when its texts have 16 MiB.
 */
export async function listInbox(
  { db, contents }: { db: Queryable; contents: BroadcastContents },
  user: { projectId: string; id: string },
  filter: InboxFilter,
  page: Cursor,
): Promise<ListPage<JsonText>> {
  const among = await findFewNotifications(db, { projectId: user.projectId, userId: user.id }, filter);
  return readTextPage(
    page,
    (cursor) => listNotifications(db, user.id, { ...filter, among }, cursor),
    (rows) => notificationTexts({ db, contents }, rows),
  );
}
