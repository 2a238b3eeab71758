/** A notification's own columns; what it says stands in its broadcast. */
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
 * Where a notification stands in the order of the inbox, that of arrival; the second column of the indexes
 * below. An id begins with the time at which the notification was made. One that was shown later has the time
 * of that in its `place`, and otherwise its id.
 */
export const PLACE = 'coalesce(place, id)';

/**
 * Where a notification stands, in the words of its indexes: a condition has to be that of a partial index for
 * the planner to take it. Discarded ones stand nowhere.
 */
export const STANDING = {
  /** Index inbox_unread. */
  unread: 'read_at is null and archived_at is null and discarded_at is null',
  /** Index inbox_read. */
  read: 'read_at is not null and archived_at is null and discarded_at is null',
  /** Index inbox_archived. */
  archived: 'archived_at is not null and discarded_at is null',
} as const;

/**
 * The `discarded_at` of a notification that the inbox does not show, or not yet, because its category or its
 * user has it so. As any other that is discarded it stands nowhere.
 */
export const HIDDEN = `'infinity'::timestamptz`;

/** Which notifications are meant; `category: null` are those without one. */
export interface NotificationFilter {
  category?: string | null;
  topic?: string;
}

/** A filter with, where they are known and few, the ids of all that it can mean (few.ts). */
export type KnownFilter = NotificationFilter & { among?: readonly string[] | undefined };

/**
 * The condition of a filter whose values are the parameters from number `first` on, as `filterValues` gives
 * them.
 */
export function filterCondition(first: number): string {
  const [category, none, topic] = [`$${first}::text`, `$${first + 1}::boolean`, `$${first + 2}::text`];
  return `(${category} is null or category = ${category}) and (not ${none} or category is null) and (${topic} is null or topic = ${topic})`;
}

/** The three values of a filter's parameters. */
export function filterValues({ category, topic }: NotificationFilter): unknown[] {
  return [category ?? null, category === null, topic ?? null];
}
