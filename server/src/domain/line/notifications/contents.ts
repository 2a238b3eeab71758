import { LRUCache } from 'lru-cache';
import { type Queryable, sql } from '../../../db/client.ts';
import type { BroadcastContent } from '../../ground/bus/messages.ts';
import { contentJson } from './wire.ts';

// Larger ones are left out of frames, and clients fetch them: with many thousand connections every byte is
// multiplied.
const MAX_CONTENT_BYTES = 64 * 1024;
const CACHE_BYTES = 16 * 1024 * 1024;
const ENTRY_BYTES = 200;
const MAX_PER_QUERY = 256;

/**
 * The part of a notification that is the same for all users of a broadcast, as members of a JSON object
 * without the braces: made once, and kept for a while because the pages of a broadcast and the users who come
 * back ask for the same few.
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

  /** The content if it is at hand. An empty string: it is too large for a frame. */
  get(broadcastId: string): string | undefined {
    return this.#recent.get(broadcastId);
  }

  /** Takes the content from someone who has the row at hand. */
  put(broadcastId: string, row: BroadcastContent): string {
    const content = serialize(row);
    this.#recent.set(broadcastId, content);
    return content;
  }

  /**
   * The contents of these broadcasts, in a statement for every 256. A broadcast that does not exist has none.
   */
  async load(broadcastIds: Iterable<string>): Promise<Map<string, string>> {
    const found = new Map<string, string>();
    const unknown: string[] = [];
    for (const id of new Set(broadcastIds)) {
      const content = this.#recent.get(id);
      if (content === undefined) unknown.push(id);
      else found.set(id, content);
    }
    for (let from = 0; from < unknown.length; from += MAX_PER_QUERY) {
      const ids = unknown.slice(from, from + MAX_PER_QUERY);
      const rows = await this.#db.query<Row>(selectContents, [ids, MAX_CONTENT_BYTES]);
      for (const { id, category, topic, message, in_app: inApp } of rows) {
        found.set(id, this.put(id, { category, topic, message: message ?? TOO_LARGE, inApp }));
      }
    }
    return found;
  }
}

interface Row {
  id: string;
  category: string | null;
  topic: string | null;
  message: Buffer | null;
  in_app: Buffer | null;
}

// Primary key of broadcasts. What is too large even when packed need not leave the database.
const selectContents = sql(
  'select_contents',
  `select id, category, topic,
    case when octet_length(message) + coalesce(octet_length(in_app), 0) <= $2 then message end as message,
    case when octet_length(message) + coalesce(octet_length(in_app), 0) <= $2 then in_app end as in_app
  from broadcasts
  where id = any ($1)`,
);

const TOO_LARGE = Buffer.alloc(MAX_CONTENT_BYTES + 1);

function serialize(content: BroadcastContent): string {
  const { message, inApp } = content;
  // What is too large even when packed is not worth unpacking.
  if (message.length + (inApp?.length ?? 0) > MAX_CONTENT_BYTES) return '';
  const json = contentJson(content);
  return Buffer.byteLength(json) > MAX_CONTENT_BYTES ? '' : json;
}
