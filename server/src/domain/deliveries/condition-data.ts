import { uuidArray } from '../../db/arrays.ts';
import { type Queryable, sql } from '../../db/client.ts';
import type { ConditionData } from '../../lib/expression.ts';
import { notificationId, timeOf } from '../../lib/ids.ts';

/** What a broadcast says, as it is stored. */
export interface BroadcastTexts {
  id: string;
  category: string | null;
  topic: string | null;
  message: {
    title: string;
    content: string | null;
    action_url: string | null;
    custom_attributes?: Record<string, unknown> | null;
  };
}

/** What conditions can ask about these users' notifications of these broadcasts, as it stands now, by two statements. */
export async function loadConditionData(
  db: Queryable,
  pairs: readonly { broadcast: BroadcastTexts; userId: string }[],
): Promise<(broadcastId: string, userId: string) => ConditionData> {
  const userIds = [...new Set(pairs.map(({ userId }) => userId))];
  const [users, notifications] = await Promise.all([
    db.query<UserRow>(selectUsers, [uuidArray(userIds)]),
    db.query<NotificationRow>(selectNotifications, [
      uuidArray(pairs.map(({ userId }) => userId)),
      uuidArray(pairs.map(({ broadcast, userId }) => notificationId(broadcast.id, userId))),
    ]),
  ]);
  const userOf = new Map(users.map((row) => [row.id, userData(row)]));
  const stateOf = new Map(notifications.map((row) => [row.id, row]));
  const broadcastOf = new Map(pairs.map(({ broadcast }) => [broadcast.id, broadcast]));
  return (broadcastId, userId) => {
    const broadcast = broadcastOf.get(broadcastId);
    const state = stateOf.get(notificationId(broadcastId, userId));
    const said = broadcast && {
      ...broadcast.message,
      category: broadcast.category,
      topic: broadcast.topic,
    };
    return {
      user: userOf.get(userId) ?? null,
      notification: said && state ? { ...said, ...notificationData(state) } : null,
      input: said ?? null,
    };
  };
}

interface UserRow {
  id: string;
  external_id: string | null;
  email: string | null;
  first_name: string | null;
  last_name: string | null;
  custom_attributes: string | null;
  phone_numbers: string[];
  created_at: Date;
  last_seen_at: Date | null;
}

function userData({ custom_attributes, created_at, last_seen_at, ...row }: UserRow): object {
  return {
    ...row,
    custom_attributes:
      custom_attributes === null ? null : (JSON.parse(custom_attributes) as Record<string, unknown>),
    created_at: created_at.toISOString(),
    last_seen_at: last_seen_at?.toISOString() ?? null,
  };
}

interface NotificationRow {
  id: string;
  user_id: string;
  sent_at: Date;
  seen_at: Date | null;
  read_at: Date | null;
  archived_at: Date | null;
  /** By the user. */
  deleted: boolean;
}

/** Who has deleted a notification has seen it, and whoever has archived it as well. */
function notificationData({
  id,
  user_id,
  sent_at,
  seen_at,
  read_at,
  archived_at,
  deleted,
}: NotificationRow): object {
  const read = read_at !== null;
  const archived = archived_at !== null;
  const seen = seen_at !== null || read || archived || deleted;
  return {
    id,
    user_id,
    status: archived ? 'archived' : read ? 'read' : seen ? 'unread' : 'unseen',
    seen,
    unseen: !seen,
    read,
    unread: !read,
    archived,
    deleted,
    created_at: new Date(timeOf(id)).toISOString(),
    sent_at: sent_at.toISOString(),
    seen_at: seen_at?.toISOString() ?? null,
    read_at: read_at?.toISOString() ?? null,
    archived_at: archived_at?.toISOString() ?? null,
  };
}

// Primary keys.
const selectUsers = sql(
  'condition_users',
  `select id, external_id, email, first_name, last_name, custom_attributes::text as custom_attributes, phone_numbers, created_at,
    last_seen_at
  from users
  where id = any ($1::uuid[])`,
);
const selectNotifications = sql(
  'condition_notifications',
  `select n.id, n.user_id, n.sent_at, n.seen_at, n.read_at, n.archived_at,
    coalesce(isfinite(n.discarded_at), false) as deleted
  from unnest($1::uuid[], $2::uuid[]) as wanted (user_id, id)
  join notifications n using (user_id, id)`,
);
