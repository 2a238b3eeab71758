import { exactJson } from '../../../lib/json-text.ts';
import { unpackJson } from '../../../lib/packed-json.ts';
import type { BroadcastContent } from '../../ground/bus/messages.ts';

/** Times of a notification, in unix milliseconds of the database's clock. */
export interface NotificationTimes {
  sentAtMs: number;
  seenAtMs: number | null;
  readAtMs: number | null;
  archivedAtMs: number | null;
  discardedAtMs: number | null;
  updatedAtMs: number | null;
}

/**
 * The wire form of notifications of one broadcast that have the same times, as JSON text: what is the same
 * for all is put together once. `content` is what `contentJson` made.
 */
export function notificationJson(
  createdAtMs: number,
  times: NotificationTimes,
  content: string,
): (id: string, userId: string) => string {
  const same =
    `"status":"${statusOf(times)}",${content},` +
    `"created_at":${iso(createdAtMs)},"updated_at":${iso(times.updatedAtMs ?? times.sentAtMs)},"sent_at":${iso(times.sentAtMs)},` +
    `"seen_at":${iso(times.seenAtMs)},"read_at":${iso(times.readAtMs)},"archived_at":${iso(times.archivedAtMs)},` +
    `"discarded_at":${iso(times.discardedAtMs)}}`;
  return (id, userId) => `{"id":"${id}","user_id":"${userId}",${same}`;
}

/**
 * What a broadcast says in the inbox, its overrides for it merged in: members of a JSON object without the
 * braces.
 */
export function contentJson({ message, inApp, category, topic }: BroadcastContent): string {
  const text = unpackJson(message);
  const said = inApp === null ? text : withOverride(text, unpackJson(inApp));
  return `${said.slice(1, -1)},"category":${JSON.stringify(category)},"topic":${JSON.stringify(topic)}`;
}

/** The override has texts alone: the custom attributes stay as they were written. */
function withOverride(text: string, override: string): string {
  const { custom_attributes: attributes, ...texts } = JSON.parse(text);
  const attributesJson = exactJson(Buffer.from(text), 'custom_attributes', attributes);
  return `${JSON.stringify({ ...texts, ...JSON.parse(override) }).slice(0, -1)},"custom_attributes":${attributesJson}}`;
}

function statusOf({ seenAtMs, readAtMs, archivedAtMs }: NotificationTimes): string {
  if (archivedAtMs !== null) return 'archived';
  if (readAtMs !== null) return 'read';
  return seenAtMs === null ? 'unseen' : 'unread';
}

/** A time as it is on the wire, as JSON. */
export function iso(ms: number | null): string {
  return ms === null ? 'null' : `"${new Date(ms).toISOString()}"`;
}
