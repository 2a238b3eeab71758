import type { Queryable } from '../../../db/client.ts';
import { timeOf } from '../../../lib/ids.ts';
import { type JsonText, joinTexts } from '../../../lib/json-text.ts';
import { stringInTurns, unpackJsonInThread, unpackJsonInTurns } from '../../../lib/packed-json.ts';
import { readLongTexts } from '../broadcasts/long-texts.ts';
import { type BroadcastContents, contentJson, labelsJson, notificationJson } from './contents.ts';
import type { NotificationRow } from './row.ts';
import { loadTexts, readTexts } from './texts.ts';

// The limit for all texts of one response. A notification may have 10 MiB, and a page of a hundred would take
// the memory of the whole server: such a page ends earlier, and `links.next` continues from there.
const MAX_PAGE_CHARACTERS = 16 * 1024 * 1024;

interface Contents {
  db: Queryable;
  contents: BroadcastContents;
}

/**
 * Returns the contract's `Notification`s as JSON texts, in their order: as many as a response can hold, and
 * at least one. The content of a broadcast is copied as it is stored, without parsing it. Long contents stay
 * bytes.
 */
export function notificationTexts(context: Contents, rows: readonly NotificationRow[]): Promise<JsonText[]> {
  return textsOf(context, rows, (row, content) => {
    if (typeof content === 'string') return rowJson(row, content);
    const [before = '', after = ''] = rowJson(row, PLACEHOLDER).split(PLACEHOLDER);
    return joinTexts([before, content, after]);
  });
}

// Occurs in no other member.
const PLACEHOLDER = '"content"';

/**
 * Returns the same as strings, in the contract's form or in another one: `toJson` gets the content as members
 * of a JSON object, without braces.
 */
export function notificationsJson(
  context: Contents,
  rows: readonly NotificationRow[],
  toJson: (row: NotificationRow, content: string) => string = rowJson,
): Promise<string[]> {
  return textsOf(context, rows, async (row, content) => toJson(row, await stringInTurns(content)));
}

async function textsOf<Text extends JsonText>(
  { db, contents }: Contents,
  rows: readonly NotificationRow[],
  toText: (row: NotificationRow, content: JsonText) => Text | Promise<Text>,
): Promise<Text[]> {
  const said = await contents.load(rows.map((row) => row.broadcast_id));
  const own = await loadTexts(db, rows);
  const texts: Text[] = [];
  let characters = 0;
  for (const row of rows) {
    const known = own.get(row.id) ?? said.get(row.broadcast_id);
    // Empty: too large for the cache. These are read one at a time, so that memory holds one of them.
    const text = await toText(row, known ? known : await largeContent(db, row));
    characters += text.length;
    if (texts.length > 0 && characters > MAX_PAGE_CHARACTERS) break;
    texts.push(text);
  }
  return texts;
}

/** Returns the contract's `Notification` as JSON; `content` has members of it, without braces. */
export function rowJson(row: NotificationRow, content: string): string {
  const times = {
    sentAtMs: row.sent_at.getTime(),
    seenAtMs: ms(row.seen_at),
    readAtMs: ms(row.read_at),
    archivedAtMs: ms(row.archived_at),
    discardedAtMs: ms(row.discarded_at),
    snoozedUntilMs: ms(row.snoozed_until),
    updatedAtMs: ms(row.updated_at),
  };
  return notificationJson(timeOf(row.id), times, content)(row.id, row.user_id);
}

function ms(time: Date | null): number | null {
  return time === null ? null : time.getTime();
}

async function largeContent(db: Queryable, row: NotificationRow): Promise<JsonText> {
  const { broadcast_id: broadcastId } = row;
  const texts = await readLongTexts(db, broadcastId);
  if (texts === undefined) throw new Error(`the broadcast ${broadcastId} of a notification does not exist`);
  const { category, topic } = texts;
  const own = await readTexts(db, row);
  const inApp = own === undefined ? texts.inApp : [own];
  const message = await unpackJsonInThread(texts.message);
  if (inApp === null && typeof message !== 'string')
    return joinTexts([message.withoutBraces(), labelsJson({ category, topic })]);
  return contentJson({
    message: await stringInTurns(message),
    inApp: inApp && (await unpackJsonInTurns(inApp)),
    category,
    topic,
  });
}
