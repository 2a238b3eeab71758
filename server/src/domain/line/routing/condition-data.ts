import type {
  CONTENT_MEMBERS,
  DataOf,
  NOTIFICATION_STATE,
  USER_MEMBERS,
} from '../../../contract/readable.ts';
import { uuidArray } from '../../../db/arrays.ts';
import { type Queryable, sql } from '../../../db/client.ts';
import { readJson } from '../../../lib/exact-numbers.ts';
import { type ConditionData, ConditionError } from '../../../lib/expression.ts';
import { notificationId, timeOf } from '../../../lib/ids.ts';
import { unpackJson } from '../../../lib/packed-json.ts';
import type { Members } from '../../../lib/variables.ts';
import type { UserRow } from '../../people/users/get.ts';
import { READER } from '../notifications/texts.ts';

/** The content of a broadcast, as it is stored. */
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

/**
 * Loads the data that conditions can read about these users' notifications of these broadcasts, by two
 * statements.
 */
export async function loadConditionData(
  db: Queryable,
  pairs: readonly { broadcast: BroadcastTexts; userId: string }[],
): Promise<(broadcastId: string, userId: string) => ConditionData> {
  const [users, notifications] = await Promise.all([
    loadUserData(
      db,
      pairs.map(({ userId }) => userId),
    ),
    loadNotificationData(db, pairs),
  ]);
  const broadcastOf = new Map(pairs.map(({ broadcast }) => [broadcast.id, broadcast]));
  return (broadcastId, userId) => {
    const broadcast = broadcastOf.get(broadcastId);
    return {
      user: users.get(userId) ?? null,
      notification: notifications.get(notificationId(broadcastId, userId)) ?? null,
      input: broadcast === undefined ? null : contentOf(broadcast)({}),
    };
  };
}

/** Loads the `user` of conditions, by the id of the user. Deleted users are included. */
export async function loadUserData(
  db: Queryable,
  userIds: readonly string[],
): Promise<ReadonlyMap<string, UserData>> {
  const users = await db.query<ConditionUser>(selectUsers, [uuidArray([...new Set(userIds)])]);
  return new Map(users.map((row) => [row.id, userData(row)]));
}

/** Loads the `notification` of conditions for users of these broadcasts, by its id. */
export async function loadNotificationData(
  db: Queryable,
  pairs: readonly { broadcast: BroadcastTexts; userId: string }[],
): Promise<ReadonlyMap<string, object>> {
  const ids = pairs.map(({ broadcast, userId }) => notificationId(broadcast.id, userId));
  const rows = await db.query<NotificationRow>(selectNotifications, [
    uuidArray(pairs.map(({ userId }) => userId)),
    uuidArray(ids),
  ]);
  const broadcastOf = new Map(pairs.map(({ broadcast }, index) => [ids[index] as string, broadcast]));
  return new Map(
    rows.map((row) => {
      const texts = row.texts === null ? {} : JSON.parse(unpackJson(row.texts));
      const data = contentOf(broadcastOf.get(row.id) as BroadcastTexts)({
        ...texts,
        ...notificationData(row),
      });
      return [row.id, data];
    }),
  );
}

// As JSON. Listing the members of a larger object takes so long that a condition that does so twenty times
// would block the process.
const MAX_ATTRIBUTES_CHARACTERS = 128 * 1024;

/** Adds attributes that are parsed when a condition reads them; that throws if they are too large. */
function withAttributes<Of extends object>(of: Of, read: () => { json: string; value?: unknown } | null): Of {
  let found: { value: unknown } | undefined;
  return Object.defineProperty(of, 'custom_attributes', {
    enumerable: true,
    get() {
      if (found !== undefined) return found.value;
      const attributes = read();
      if (attributes !== null && attributes.json.length > MAX_ATTRIBUTES_CHARACTERS)
        throw new ConditionError(`custom_attributes have more than ${MAX_ATTRIBUTES_CHARACTERS} characters`);
      found = { value: attributes === null ? null : (attributes.value ?? readJson(attributes.json)) };
      return found.value;
    },
  });
}

/** A function that adds members to the content of a broadcast. */
function contentOf({ message, category, topic }: BroadcastTexts): (members: object) => object {
  const { custom_attributes: attributes, title, content, action_url } = message;
  const data = { title, content, action_url, category, topic } satisfies WithoutAttributes<
    typeof CONTENT_MEMBERS
  >;
  const read = () => (attributes ? { json: JSON.stringify(attributes), value: attributes } : null);
  return (members) => withAttributes({ ...data, ...members }, read);
}

/** The data has exactly the members that are known when a condition is saved; attributes are added. */
type WithoutAttributes<Of extends Members> = DataOf<Omit<Of, 'custom_attributes'>>;

/** The columns of `users` from which `userData` makes the `user` of conditions. */
export type ConditionUser = Omit<UserRow, 'updated_at' | 'last_notified_at'>;
export const CONDITION_USER_COLUMNS = `id, external_id, email, first_name, last_name, locale,
    custom_attributes::text as custom_attributes, phone_numbers, created_at, last_seen_at`;

/** The `user` of conditions. */
export type UserData = Pick<UserRow, 'id' | 'external_id' | 'email' | 'locale'>;

/** Returns the `user` of conditions and templates. */
export function userData({
  custom_attributes: json,
  created_at,
  last_seen_at,
  ...row
}: ConditionUser): UserData {
  const { id, external_id, email, first_name, last_name, locale, phone_numbers } = row;
  const data = {
    id,
    external_id,
    email,
    first_name,
    last_name,
    locale,
    phone_numbers,
    created_at: created_at.toISOString(),
    last_seen_at: last_seen_at?.toISOString() ?? null,
  } satisfies WithoutAttributes<typeof USER_MEMBERS>;
  return withAttributes(data, () => (json === null ? null : { json }));
}

interface NotificationRow {
  id: string;
  user_id: string;
  sent_at: Date;
  seen_at: Date | null;
  read_at: Date | null;
  archived_at: Date | null;
  /** Its own texts, packed, if the broadcast has a template. */
  texts: Buffer | null;
  /** By the user. */
  deleted: boolean;
}

/** A user who deleted or archived a notification has seen it. */
function notificationData({
  id,
  user_id,
  sent_at,
  seen_at,
  read_at,
  archived_at,
  deleted,
}: NotificationRow): DataOf<typeof NOTIFICATION_STATE> {
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
  `select ${CONDITION_USER_COLUMNS} from users where id = any ($1::uuid[])`,
);
const selectNotifications = sql(
  'condition_notifications',
  `select n.id, n.user_id, n.sent_at, n.seen_at, n.read_at, n.archived_at,
    coalesce(isfinite(n.discarded_at), false) as deleted, t.texts
  from unnest($1::uuid[], $2::uuid[]) as wanted (user_id, id)
  join notifications n using (user_id, id)
  left join lateral (
    select texts
    from broadcast_texts
    where n.texts is not null and broadcast_id = n.broadcast_id and reader = ${READER}
    limit 1
  ) t on true`,
);
