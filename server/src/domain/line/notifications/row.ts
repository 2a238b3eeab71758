/** A notification's own columns; its content is that of its broadcast. */
export interface NotificationRow {
  id: string;
  user_id: string;
  broadcast_id: string;
  sent_at: Date;
  seen_at: Date | null;
  read_at: Date | null;
  archived_at: Date | null;
  discarded_at: Date | null;
  updated_at: Date | null;
}

export const COLUMNS =
  'id, user_id, broadcast_id, sent_at, seen_at, read_at, archived_at, discarded_at, updated_at';

/**
 * The place of a notification in the order of the inbox, that of arrival: the second column of the indexes
 * below. It is the id, which begins with the time of the notification, or the column `place` if it was shown
 * later.
 */
export const PLACE = 'coalesce(place, id)';

/**
 * The condition of each status, word for word that of a partial index: otherwise the planner does not use it.
 * Discarded notifications have no status.
 */
export const IN_STATUS = {
  /** Index inbox_unread. */
  unread: 'read_at is null and archived_at is null and discarded_at is null',
  /** Index inbox_read. */
  read: 'read_at is not null and archived_at is null and discarded_at is null',
  /** Index inbox_archived. */
  archived: 'archived_at is not null and discarded_at is null',
} as const;

export type NotificationStatus = keyof typeof IN_STATUS;

/**
 * The `discarded_at` of a notification that the inbox does not show, or not yet, by its category's config or
 * its user's preferences. Like other discarded ones it has no status.
 */
export const HIDDEN = `'infinity'::timestamptz`;

/** A filter of notifications; `category: null` matches those without one. */
export interface NotificationFilter {
  category?: string | null;
  topic?: string;
}

/** A filter with the ids of all notifications that it can match, if they are known and few (few.ts). */
export type KnownFilter = NotificationFilter & { among?: readonly string[] | undefined };

/** The condition of a filter, whose parameters from number `first` on are those of `filterValues`. */
export function filterCondition(first: number): string {
  const [category, none, topic] = [`$${first}::text`, `$${first + 1}::boolean`, `$${first + 2}::text`];
  return `(${category} is null or category = ${category})
      and (not ${none} or category is null)
      and (${topic} is null or topic = ${topic})`;
}

/** The values of a filter's three parameters. */
export function filterValues({ category, topic }: NotificationFilter): unknown[] {
  return [category ?? null, category === null, topic ?? null];
}
