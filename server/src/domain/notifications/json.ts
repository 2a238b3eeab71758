import { type Queryable, sql } from '../../db/client.ts';
import { timeOf } from '../../lib/ids.ts';
import { unpackJson } from '../../lib/packed-json.ts';
import type { BroadcastContents } from '../realtime/contents.ts';
import type { NotificationRow } from './row.ts';

// What the texts of one answer may have together. A notification's own may be 10 MiB, and a page of a hundred of those would
// take the memory of the whole server: such a page ends earlier, and `links.next` goes on from there.
const MAX_PAGE_CHARACTERS = 16 * 1024 * 1024;

/**
 * The wire form of notifications as JSON texts, in their order: of as many, and of at least one, as an answer can hold. What a
 * broadcast says is put in as it is stored, without being parsed.
 */
export async function notificationsJson(
  { db, contents }: { db: Queryable; contents: BroadcastContents },
  rows: readonly NotificationRow[],
): Promise<string[]> {
  const said = await contents.load(rows.map((row) => row.broadcast_id));
  const texts: string[] = [];
  let characters = 0;
  for (const row of rows) {
    const known = said.get(row.broadcast_id);
    // Empty: too large to be remembered. These are read one at a time, so that there is never more than one to spare.
    const text = notificationJson(row, known ? known : await largeContent(db, row.broadcast_id));
    characters += text.length;
    if (texts.length > 0 && characters > MAX_PAGE_CHARACTERS) break;
    texts.push(text);
  }
  return texts;
}

function notificationJson(row: NotificationRow, content: string): string {
  const createdAt = new Date(timeOf(row.id));
  return (
    `{"id":"${row.id}","user_id":"${row.user_id}","status":"${statusOf(row)}",${content},` +
    `"created_at":${iso(createdAt)},"updated_at":${iso(row.updated_at ?? row.sent_at)},"sent_at":${iso(row.sent_at)},` +
    `"seen_at":${iso(row.seen_at)},"read_at":${iso(row.read_at)},"archived_at":${iso(row.archived_at)},` +
    `"discarded_at":${iso(row.discarded_at)}}`
  );
}

function statusOf({ seen_at, read_at, archived_at }: NotificationRow): string {
  if (archived_at !== null) return 'archived';
  if (read_at !== null) return 'read';
  return seen_at === null ? 'unseen' : 'unread';
}

function iso(time: Date | null): string {
  return time === null ? 'null' : `"${time.toISOString()}"`;
}

async function largeContent(db: Queryable, broadcastId: string): Promise<string> {
  const [row] = await db.query<{
    category: string | null;
    topic: string | null;
    message: Buffer;
    in_app: Buffer | null;
  }>(selectContent, [broadcastId]);
  if (row === undefined) throw new Error(`notifications of ${broadcastId}, which does not exist`);
  const message = unpackJson(row.message);
  const said =
    row.in_app === null
      ? message
      : JSON.stringify({ ...JSON.parse(message), ...JSON.parse(unpackJson(row.in_app)) });
  return `${said.slice(1, -1)},"category":${JSON.stringify(row.category)},"topic":${JSON.stringify(row.topic)}`;
}

// Primary key.
const selectContent = sql(
  'get_notification_content',
  'select category, topic, message, in_app from broadcasts where id = $1',
);
