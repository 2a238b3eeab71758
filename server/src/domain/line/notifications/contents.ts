import { LRUCache } from 'lru-cache';
import { type Queryable, sql } from '../../../db/client.ts';
import { chunksOf } from '../../../lib/chunks.ts';
import { readJson, writeJson } from '../../../lib/exact-numbers.ts';
import { unpackShortJson } from '../../../lib/packed-json.ts';
import type { BroadcastContent } from '../../ground/bus/messages.ts';

// Frames leave larger ones out, and clients fetch them: thousands of connections multiply every byte.
const MAX_CONTENT_BYTES = 64 * 1024;
// A long text for e-mail may have a short override for the inbox.
const MAX_OVERRIDDEN_BYTES = 1024 * 1024;
const CACHE_BYTES = 16 * 1024 * 1024;
const ENTRY_BYTES = 200;
const MAX_PER_QUERY = 256;

/**
 * The part of a notification that is the same for all users of a broadcast, as members of a JSON object
 * without the braces. It is made once and cached, because inboxes show the same recent broadcasts.
 */
export class BroadcastContents {
  readonly #db: Queryable;
  readonly #recent = new LRUCache<string, string>({
    maxSize: CACHE_BYTES,
    sizeCalculation: (content) => ENTRY_BYTES + 2 * content.length,
  });

  constructor({ db }: { db: Queryable }) {
    this.#db = db;
  }

  /** Returns the content if it is cached; empty if it is too large for a frame, or differs by user. */
  get(broadcastId: string): string | undefined {
    return this.#recent.get(broadcastId);
  }

  /** Caches the content of a row that was read. */
  put(broadcastId: string, row: BroadcastContent): string {
    const content = serialize(row);
    this.#recent.set(broadcastId, content);
    return content;
  }

  /** Returns the contents of those of the broadcasts that exist, by a statement for every 256. */
  async load(broadcastIds: Iterable<string>): Promise<Map<string, string>> {
    const found = new Map<string, string>();
    const unknown: string[] = [];
    for (const id of new Set(broadcastIds)) {
      const content = this.#recent.get(id);
      if (content === undefined) unknown.push(id);
      else found.set(id, content);
    }
    for (const ids of chunksOf(unknown, MAX_PER_QUERY)) {
      const rows = await this.#db.query<ContentRow & { id: string }>(selectContents, [ids]);
      for (const row of rows) found.set(row.id, this.put(row.id, contentOf(row)));
    }
    return found;
  }
}

/** What `CONTENT_COLUMNS` selects. */
export interface ContentRow {
  category: string | null;
  topic: string | null;
  message: Buffer | null;
  in_app: Buffer | null;
}

// A content that is too large even when packed stays in the database.
const isSmall = `template is null
      and octet_length(message) + coalesce(octet_length(in_app), 0) <= ${MAX_CONTENT_BYTES}`;

/**
 * The columns of broadcasts with what a frame shows; the texts are null if they are too large, or not the
 * same for all users.
 */
export const CONTENT_COLUMNS = `category, topic,
    case when ${isSmall} then message end as message, case when ${isSmall} then in_app end as in_app`;

/** Returns the content of a row; it stays too large if it was. */
export function contentOf({ category, topic, message, in_app: inApp }: ContentRow): BroadcastContent {
  return { category, topic, message: message ?? TOO_LARGE, inApp };
}

/** The content that frames show when a broadcast is accepted. */
export function shownContent(content: BroadcastContent, template: Buffer | null): BroadcastContent {
  return template === null ? content : { ...content, message: TOO_LARGE };
}

// Primary key of broadcasts.
const selectContents = sql(
  'select_contents',
  `select id, ${CONTENT_COLUMNS} from broadcasts where id = any ($1)`,
);

const TOO_LARGE = Buffer.alloc(MAX_CONTENT_BYTES + 1);

function serialize({ message, inApp, category, topic }: BroadcastContent): string {
  // A content that is too large even when packed is not unpacked.
  if (message.length + (inApp?.length ?? 0) > MAX_CONTENT_BYTES) return '';
  const text = unpackShortJson(message, inApp === null ? MAX_CONTENT_BYTES : MAX_OVERRIDDEN_BYTES);
  const override = inApp && unpackShortJson(inApp, MAX_CONTENT_BYTES);
  if (text === undefined || override === undefined) return '';
  const json = contentJson({ message: text, inApp: override, category, topic });
  return Buffer.byteLength(json) > MAX_CONTENT_BYTES ? '' : json;
}

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

/** An override has texts alone. */
function withOverride(text: string, override: string): string {
  const { custom_attributes, ...texts } = readJson(text) as Record<string, unknown>;
  return writeJson({ ...texts, ...JSON.parse(override), custom_attributes });
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
