import { exactJson } from '../../../lib/json-text.ts';

/** Times of a notification, in unix milliseconds of the database's clock. */
export interface NotificationTimes {
  sentAtMs: number;
  seenAtMs: number | null;
  readAtMs: number | null;
  archivedAtMs: number | null;
  discardedAtMs: number | null;
  snoozedUntilMs: number | null;
  updatedAtMs: number | null;
}

/**
 * Returns a function that makes the contract's `Notification` as JSON text, for notifications of one
 * broadcast with the same times: the common part is made once. `content` is the result of `contentJson`.
 */
export function notificationJson(
  createdAtMs: number,
  times: NotificationTimes,
  content: string,
): (id: string, userId: string) => string {
  const same =
    `"status":"${statusOf(times)}",${content},` +
    `"created_at":${iso(createdAtMs)},"updated_at":${iso(times.updatedAtMs ?? times.sentAtMs)},` +
    `"sent_at":${iso(times.sentAtMs)},"seen_at":${iso(times.seenAtMs)},"read_at":${iso(times.readAtMs)},` +
    `"archived_at":${iso(times.archivedAtMs)},"discarded_at":${iso(times.discardedAtMs)},` +
    `"snoozed_until":${iso(times.snoozedUntilMs)}}`;
  return (id, userId) => `{"id":"${id}","user_id":"${userId}",${same}`;
}

/** The content of a broadcast in the inbox: members of a JSON object without braces. */
export function contentJson({
  message,
  inApp,
  category,
  topic,
}: {
  /** JSON. */
  message: string;
  /** JSON of the override, if there is one. */
  inApp: string | null;
  category: string | null;
  topic: string | null;
}): string {
  const merged = inApp === null ? message : withOverride(message, inApp);
  return merged.slice(1, -1) + labelsJson({ category, topic });
}

/** The members that follow the texts. */
export function labelsJson({ category, topic }: { category: string | null; topic: string | null }): string {
  return `,"category":${JSON.stringify(category)},"topic":${JSON.stringify(topic)}`;
}

/** An override has texts alone: the custom attributes keep their spelling. */
function withOverride(text: string, override: string): string {
  const { custom_attributes: attributes, ...texts } = JSON.parse(text);
  const attributesJson = exactJson(Buffer.from(text), 'custom_attributes', attributes);
  const merged = JSON.stringify({ ...texts, ...JSON.parse(override) });
  return `${merged.slice(0, -1)},"custom_attributes":${attributesJson}}`;
}

function statusOf({ seenAtMs, readAtMs, archivedAtMs, snoozedUntilMs }: NotificationTimes): string {
  if (snoozedUntilMs !== null) return 'snoozed';
  if (archivedAtMs !== null) return 'archived';
  if (readAtMs !== null) return 'read';
  return seenAtMs === null ? 'unseen' : 'unread';
}

/** A time as JSON. */
export function iso(ms: number | null): string {
  return ms === null ? 'null' : `"${new Date(ms).toISOString()}"`;
}
