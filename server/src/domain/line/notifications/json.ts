import { type Queryable, sql } from '../../../db/client.ts';
import { timeOf } from '../../../lib/ids.ts';
import type { BroadcastContents } from './contents.ts';
import type { NotificationRow } from './row.ts';
import { contentJson, notificationJson } from './wire.ts';

// What the texts of one answer may have together. A notification's own may be 10 MiB, and a page of a hundred
// of those would take the memory of the whole server: such a page ends earlier, and `links.next` goes on from
// there.
const MAX_PAGE_CHARACTERS = 16 * 1024 * 1024;

/**
 * The wire form of notifications as JSON texts, in their order: of as many, and of at least one, as an answer
 * can hold. What a broadcast says is put in as it is stored, without being parsed.
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
    // Empty: too large to be remembered. These are read one at a time, so that there is never more than one
    // to spare.
    const text = rowJson(row, known ? known : await largeContent(db, row.broadcast_id));
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
  if (row === undefined) throw new Error(`notifications of ${broadcastId}, which does not exist`);
  return contentJson({ category: row.category, topic: row.topic, message: row.message, inApp: row.in_app });
}

// Primary key.
const selectContent = sql(
  'get_notification_content',
  'select category, topic, message, in_app from broadcasts where id = $1',
);
