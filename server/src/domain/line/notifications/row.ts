import { textArray } from '../../../db/arrays.ts';

/** A notification's own columns; its content is that of its broadcast (contents.ts, texts.ts). */
export interface NotificationRow {
  id: string;
  user_id: string;
  broadcast_id: string;
  /** Whose texts of the broadcast it has: a locale's, or empty for its own; null for those of all. */
  texts: string | null;
  sent_at: Date;
  seen_at: Date | null;
  read_at: Date | null;
  archived_at: Date | null;
  /** Null if the notification is hidden. */
  discarded_at: Date | null;
  snoozed_until: Date | null;
  updated_at: Date | null;
}

/**
 * The `discarded_at` of a notification that the inbox does not show, or not yet: by its category's config or
 * its user's preferences, or because it is snoozed.
 */
export const HIDDEN = `'infinity'::timestamptz`;

/** The columns by name, for rows whose `discarded_at` is not `HIDDEN`, or was replaced. */
export const COLUMN_NAMES = `id, user_id, broadcast_id, texts, sent_at, seen_at, read_at, archived_at,
    discarded_at, snoozed_until, updated_at`;

/** The columns of any row. */
export const COLUMNS = COLUMN_NAMES.replace(
  'discarded_at',
  `nullif(discarded_at, ${HIDDEN}) as discarded_at`,
);

/**
 * The place of a notification in the order of the inbox, that of arrival: the second column of the indexes
 * below. It is the id, which begins with the time of the notification, or the column `place` if it was shown
 * later.
 */
export const PLACE = 'coalesce(place, id)';

/** SQL: the place of a notification that is shown later than its id says: its id with the time of now. */
export const placeNow = (id: string) => `overlay(
        replace(${id}::text, '-', '')
        placing lpad(to_hex(floor(extract(epoch from now()) * 1000)::bigint), 12, '0')
        from 1
      )::uuid`;

/**
 * The condition of each status, word for word that of a partial index: otherwise the planner does not use it.
 * Discarded and hidden notifications have none, except snoozed ones.
 */
export const IN_STATUS = {
  /** Index inbox_unread. */
  unread: 'read_at is null and archived_at is null and discarded_at is null',
  /** Index inbox_read. */
  read: 'read_at is not null and archived_at is null and discarded_at is null',
  /** Index inbox_archived. */
  archived: 'archived_at is not null and discarded_at is null',
  /** Index inbox_snoozed. */
  snoozed: 'snoozed_until is not null',
} as const;

export type NotificationStatus = keyof typeof IN_STATUS;

/** The columns of a notification in a status. Only a snoozed one can have a `discarded_at`. */
export const columnsOf = (status: NotificationStatus) => (status === 'snoozed' ? COLUMNS : COLUMN_NAMES);

/** The condition of a notification that its user can read and change: in the inbox, archived or snoozed. */
export const REACHABLE = '(discarded_at is null or snoozed_until is not null)';

/** SQL: what is set of the row `n` when a notification is shown as a new one of this moment. */
export const SHOW = `discarded_at = null,
      snoozed_until = null,
      seen_at = null,
      read_at = null,
      sent_at = date_trunc('milliseconds', now()),
      updated_at = date_trunc('milliseconds', now()),
      place = ${placeNow('n.id')}`;

/**
 * The condition of unread notifications that were seen, word for word that of the index inbox_seen. New
 * notifications are not in it, so it costs an insert nothing.
 */
export const SEEN_UNREAD = `seen_at is not null and ${IN_STATUS.unread}`;

/** A filter of notifications: those of one of the categories, and under one of the topics. */
export interface NotificationFilter {
  /** Null matches notifications without a category. */
  categories?: readonly (string | null)[];
  topics?: readonly string[];
}

/** A filter by state; what is undefined matches all. */
export interface StateFilter {
  read?: boolean | undefined;
  seen?: boolean | undefined;
  archived?: boolean | undefined;
}

/** A filter with the ids of all notifications that it can match, if they are known and few (few.ts). */
export type KnownFilter = NotificationFilter & { among?: readonly string[] | undefined };

export function isFiltered({ categories, topics }: NotificationFilter): boolean {
  return categories !== undefined || topics !== undefined;
}

/** The condition of a filter, whose parameters from number `first` on are those of `filterValues`. */
export function filterCondition(first: number): string {
  const [categories, none, topics] = [`$${first}::text[]`, `$${first + 1}::boolean`, `$${first + 2}::text[]`];
  return `(${categories} is null or category = any (${categories}) or ${none} and category is null)
      and (${topics} is null or topic = any (${topics}))`;
}

/** The values of a filter's three parameters. */
export function filterValues({ categories, topics }: NotificationFilter): unknown[] {
  const named = categories?.filter((category) => category !== null);
  return [
    named === undefined ? null : textArray(named),
    categories?.includes(null) ?? false,
    topics === undefined ? null : textArray(topics),
  ];
}

/** The condition of a filter by `read` and `seen`, whose values are the parameters from number `first` on. */
export function stateCondition(first: number): string {
  const is = (flag: string, column: string) => `(${flag} is null or (${column} is not null) = ${flag})`;
  return `${is(`$${first}::boolean`, 'read_at')}
      and ${is(`$${first + 1}::boolean`, 'seen_at')}`;
}
