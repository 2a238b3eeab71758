import { type Queryable, sql } from '../../../db/client.ts';
import { timeOf } from '../../../lib/ids.ts';
import type { BroadcastContents } from './contents.ts';
import type { NotificationRow } from './row.ts';
import { contentJson, notificationJson } from './wire.ts';

// The limit for all texts of one response. A notification may have 10 MiB, and a page of a hundred would take
// the memory of the whole server: such a page ends earlier, and `links.next` continues from there.
const MAX_PAGE_CHARACTERS = 16 * 1024 * 1024;

/**
 * Returns the contract's `Notification`s as JSON texts, in their order: as many as a response can hold, and
 * at least one. The content of a broadcast is copied as it is stored, without parsing it: `toJson` gets it as
 * members of a JSON object, without braces.
 */
export async function notificationsJson(
  { db, contents }: { db: Queryable; contents: BroadcastContents },
  rows: readonly NotificationRow[],
  toJson: (row: NotificationRow, content: string) => string = rowJson,
): Promise<string[]> {
  const said = await contents.load(rows.map((row) => row.broadcast_id));
  const texts: string[] = [];
  let characters = 0;
  for (const row of rows) {
    const known = said.get(row.broadcast_id);
    // Empty: too large for the cache. These are read one at a time, so that memory holds one of them.
    const text = toJson(row, known ? known : await largeContent(db, row.broadcast_id));
    characters += text.length;
    if (texts.length > 0 && characters > MAX_PAGE_CHARACTERS) break;
    texts.push(text);
  }
  return texts;
}

function rowJson(row: NotificationRow, content: string): string {
  const times = {
    sentAtMs: row.sent_at.getTime(),
    seenAtMs: ms(row.seen_at),
    readAtMs: ms(row.read_at),
    archivedAtMs: ms(row.archived_at),
    discardedAtMs: ms(row.discarded_at),
    updatedAtMs: ms(row.updated_at),
  };
  return notificationJson(timeOf(row.id), times, content)(row.id, row.user_id);
}

function ms(time: Date | null): number | null {
  return time === null ? null : time.getTime();
}

async function largeContent(db: Queryable, broadcastId: string): Promise<string> {
  const [row] = await db.query<{
    category: string | null;
    topic: string | null;
    message: Buffer;
    in_app: Buffer | null;
  }>(selectContent, [broadcastId]);
  if (row === undefined) throw new Error(`the broadcast ${broadcastId} of a notification does not exist`);
  return contentJson({ category: row.category, topic: row.topic, message: row.message, inApp: row.in_app });
}

// Primary key.
const selectContent = sql(
  'get_notification_content',
  'select category, topic, message, in_app from broadcasts where id = $1',
);
