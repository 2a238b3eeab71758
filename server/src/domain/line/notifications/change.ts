import type { EventType } from '../../../contract/event.ts';
import { type Queryable, type Statement, sql } from '../../../db/client.ts';
import type { Bus, ChangeName } from '../../ground/bus/messages.ts';
import { newEventId } from '../../ground/events/record.ts';
import { REACHABLE } from './row.ts';

/** What a user can do to a notification. */
export type NotificationAction = 'read' | 'unread' | 'seen' | 'archive' | 'unarchive' | 'delete';

/**
 * Changes a notification, records the event and notifies the user's inboxes. Repeating it changes nothing.
 * Returns false if the user has no such notification, or discarded it.
 */
export async function changeNotification(
  { db, bus }: { db: Queryable; bus: Bus },
  action: NotificationAction,
  request: ChangeRequest,
): Promise<boolean> {
  const { projectId, userId, id } = request;
  const seenEventId = action === 'read' ? [newEventId()] : [];
  const values = [userId, id, projectId, newEventId(), ...seenEventId];
  const [found] = await db.query<FoundToChange>(STATEMENTS[action], values);
  publishChange(bus, ACTIONS[action].name, request, found);
  return found !== undefined;
}

/** Notifies the user's inboxes of a change, unless it changed nothing. */
export function publishChange(
  bus: Bus,
  name: ChangeName,
  { userId, id, clientId }: ChangeRequest,
  found: FoundToChange | undefined,
): void {
  const atMs = found?.changed_at?.getTime();
  if (atMs === undefined) return;
  const from = clientId === undefined ? {} : { clientId };
  bus.publish({ type: 'changed', userId, name, id: id.toLowerCase(), atMs, ...from });
}

export interface ChangeRequest {
  projectId: string;
  userId: string;
  id: string;
  /** The requesting client, which recognizes its own change by it. */
  clientId?: string | undefined;
}

/** What `changeText` selects: no row if the user has no such notification, or discarded it. */
export interface FoundToChange {
  /** Null if nothing had to be changed. */
  changed_at: Date | null;
}

interface Change {
  event: EventType;
  /** What is set; `at` is the time of the change. */
  set: string;
  /** When it changes anything. */
  due: string;
  /** The value with the id of a `notification.seen`, if it marks the notification as seen as well. */
  seenEventId?: `$${number}` | '';
}

const ACTIONS = {
  read: {
    name: 'read',
    event: 'notification.read',
    set: 'read_at = found.at',
    due: 'read_at is null',
    seenEventId: '$5',
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
    set: 'archived_at = found.at, discarded_at = null, snoozed_until = null',
    due: 'archived_at is null',
  },
  unarchive: {
    name: 'unarchived',
    event: 'notification.unarchived',
    set: 'archived_at = null',
    due: 'archived_at is not null',
  },
  delete: {
    name: 'delete',
    event: 'notification.deleted',
    set: 'discarded_at = found.at, snoozed_until = null',
    due: 'true',
  },
} as const satisfies Record<NotificationAction, Change & { name: ChangeName }>;

const STATEMENTS = Object.fromEntries(
  Object.entries(ACTIONS).map(([action, how]) => [action, sql(`${action}_notification`, changeText(how))]),
) as Record<NotificationAction, Statement>;

/**
 * SQL that changes a notification and records the event, with the values user, notification, project and
 * event id. If the change marks an unseen notification as seen, that has an event too. Primary key. The row
 * is locked before it is checked, so that of two concurrent changes one is made and the other sees it. The
 * time has whole milliseconds, as clients get it.
 */
export function changeText({ event, set, due, seenEventId = '' }: Change): string {
  return `with found as (
    select broadcast_id, ${due} as due, seen_at is null as unseen,
      date_trunc('milliseconds', clock_timestamp()) as at
    from notifications
    where user_id = $1 and id = $2 and ${REACHABLE}
    for update
  ),
  changed as (
    update notifications n
    set ${set}, updated_at = found.at${seenEventId && ', seen_at = coalesce(n.seen_at, found.at)'}
    from found
    where found.due and n.user_id = $1 and n.id = $2
    returning n.user_id, n.broadcast_id, n.updated_at
  ),
  event as (
    insert into events (project_id, id, type, broadcast_id, user_ids)
    select $3, e.id, e.type, changed.broadcast_id, array[changed.user_id]
    from changed
    cross join found
    cross join lateral (
      values ($4::uuid, '${event}', true)
      ${seenEventId && `, (${seenEventId}::uuid, 'notification.seen', found.unseen)`}
    ) e (id, type, occurred)
    where e.occurred
  )
  select (select updated_at from changed) as changed_at
  from found`;
}
