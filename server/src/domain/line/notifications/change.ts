import type { EventType } from '../../../contract/event.ts';
import { type Queryable, type Statement, sql } from '../../../db/client.ts';
import type { Bus, ChangeName } from '../../ground/bus/messages.ts';
import { newEventId } from '../../ground/events/record.ts';

/** What a user can do to a notification. */
export type NotificationAction = 'read' | 'unread' | 'seen' | 'archive' | 'unarchive' | 'delete';

/**
 * Changes a notification, records the event and notifies the user's inboxes. Repeating it changes nothing.
 * Returns false if the user has no such notification, or discarded it.
 */
export async function changeNotification(
  { db, bus }: { db: Queryable; bus: Bus },
  action: NotificationAction,
  { projectId, userId, id, clientId }: ChangeRequest,
): Promise<boolean> {
  const [found] = await db.query<{ changed_at: Date | null }>(STATEMENTS[action], [
    userId,
    id,
    projectId,
    newEventId(),
  ]);
  if (found === undefined) return false;
  if (found.changed_at !== null) {
    bus.publish({
      type: 'changed',
      userId,
      name: ACTIONS[action].name,
      id: id.toLowerCase(),
      atMs: found.changed_at.getTime(),
      ...(clientId === undefined ? {} : { clientId }),
    });
  }
  return true;
}

export interface ChangeRequest {
  projectId: string;
  userId: string;
  id: string;
  /** The requesting client, which recognizes its own change by it. */
  clientId?: string | undefined;
}

interface Change {
  name: ChangeName;
  event: EventType;
  /** What is set; `at` is the time of the change. */
  set: string;
  /** When it changes anything. */
  due: string;
}

const ACTIONS = {
  read: {
    name: 'read',
    event: 'notification.read',
    set: 'read_at = found.at, seen_at = coalesce(n.seen_at, found.at)',
    due: 'read_at is null',
  },
  unread: {
    name: 'unread',
    event: 'notification.unread',
    set: 'read_at = null',
    due: 'read_at is not null',
  },
  seen: { name: 'seen', event: 'notification.seen', set: 'seen_at = found.at', due: 'seen_at is null' },
  archive: {
    name: 'archived',
    event: 'notification.archived',
    set: 'archived_at = found.at',
    due: 'archived_at is null',
  },
  unarchive: {
    name: 'unarchived',
    event: 'notification.unarchived',
    set: 'archived_at = null',
    due: 'archived_at is not null',
  },
  delete: { name: 'delete', event: 'notification.deleted', set: 'discarded_at = found.at', due: 'true' },
} as const satisfies Record<NotificationAction, Change>;

const STATEMENTS = Object.fromEntries(
  Object.entries(ACTIONS).map(([action, how]) => [action, sql(`${action}_notification`, changeText(how))]),
) as Record<NotificationAction, Statement>;

// Primary key. The row is locked before it is checked, so that of two concurrent changes one is made and the
// other sees it. The time has whole milliseconds, as clients get it.
function changeText({ event, set, due }: Change): string {
  return `with found as (
    select broadcast_id, ${due} as due, date_trunc('milliseconds', clock_timestamp()) as at
    from notifications
    where user_id = $1 and id = $2 and discarded_at is null
    for update
  ),
  changed as (
    update notifications n
    set ${set}, updated_at = found.at
    from found
    where found.due and n.user_id = $1 and n.id = $2
    returning n.user_id, n.broadcast_id, n.updated_at
  ),
  event as (
    insert into events (project_id, id, type, broadcast_id, user_ids)
    select $3, $4, '${event}', broadcast_id, array[user_id]
    from changed
  )
  select (select updated_at from changed) as changed_at
  from found`;
}
