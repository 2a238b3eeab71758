import { byteaArray, textArray, uuidArray } from '../../../db/arrays.ts';
import { type Queryable, type Statement, sql } from '../../../db/client.ts';
import { isId } from '../../../lib/ids.ts';
import { packJson, unpackShortJson } from '../../../lib/packed-json.ts';
import { contentJson } from './contents.ts';
import type { NotificationRow } from './row.ts';

/*
 * The texts of broadcasts with a template, as their notifications show them (broadcast_texts). A row is for
 * all users with a locale, or for one user if the texts differ by user. `texts` of a notification says which.
 */

/** The `texts` of a notification that has its own. */
export const OWN_TEXTS = '';

/** The texts of a notification in the inbox. */
export interface InboxTexts {
  title: string;
  content: string | null;
  action_url: string | null;
}

export interface TextsRow {
  broadcastId: string;
  /** The locale, or the id of the user. */
  reader: string;
  texts: InboxTexts;
}

/**
 * Stores texts. Several pages store the texts of a locale. With `careful`, those of users may exist as well,
 * from the same fan-out before.
 */
export async function insertTexts(
  tx: Queryable,
  rows: readonly TextsRow[],
  insertion: 'plain' | 'careful',
): Promise<void> {
  const isOwn = ({ reader }: TextsRow) => insertion === 'plain' && isId(reader);
  await insert(
    tx,
    upsertTexts,
    rows.filter((row) => !isOwn(row)),
  );
  await insert(tx, insertOwnTexts, rows.filter(isOwn));
}

async function insert(tx: Queryable, statement: Statement, rows: readonly TextsRow[]): Promise<void> {
  if (rows.length === 0) return;
  await tx.query(statement, [
    uuidArray(rows.map(({ broadcastId }) => broadcastId)),
    textArray(rows.map(({ reader }) => reader)),
    byteaArray(rows.map(({ texts }) => packJson(JSON.stringify(texts)))),
  ]);
}

type Row = Pick<NotificationRow, 'id' | 'user_id' | 'broadcast_id' | 'texts'>;

// Longer ones are read one at a time.
const MAX_SHORT_BYTES = 64 * 1024;

/**
 * Returns the contents of those of these notifications that have texts of a template, by their id, as members
 * of a JSON object without the braces. Leaves out long ones.
 */
export async function loadTexts(db: Queryable, rows: readonly Row[]): Promise<ReadonlyMap<string, string>> {
  const templated = rows.filter(({ texts }) => texts !== null);
  if (templated.length === 0) return new Map();
  const found = await db.query<{
    place: number;
    category: string | null;
    topic: string | null;
    message: Buffer;
    texts: Buffer;
  }>(selectShort, [
    uuidArray(templated.map((row) => row.broadcast_id)),
    textArray(templated.map(readerOf)),
    MAX_SHORT_BYTES,
  ]);
  return new Map(
    found.flatMap(({ place, category, topic, message, texts }) => {
      const [shared, own] = [message, texts].map((packed) => unpackShortJson(packed, MAX_SHORT_BYTES));
      if (shared === undefined || own === undefined) return [];
      return [
        [templated[place - 1]?.id ?? '', contentJson({ message: shared, inApp: own, category, topic })],
      ];
    }),
  );
}

/** Returns the texts of a notification, packed; undefined if they are those of its broadcast. */
export async function readTexts(db: Queryable, row: Row): Promise<Buffer | undefined> {
  if (row.texts === null) return undefined;
  const [found] = await db.query<{ texts: Buffer }>(selectTexts, [row.broadcast_id, readerOf(row)]);
  return found?.texts;
}

function readerOf({ texts, user_id: userId }: Row): string {
  return texts === null || texts === OWN_TEXTS ? userId : texts;
}

/** SQL: the reader of the texts of a notification `n`. */
export const READER = `case when n.texts = '${OWN_TEXTS}' then n.user_id::text else n.texts end`;

// Primary keys, both.
const selectShort = sql(
  'select_short_broadcast_texts',
  `select place::int as place, b.category, b.topic, b.message, t.texts
  from unnest($1::uuid[], $2::text[]) with ordinality as n (broadcast_id, reader, place)
  cross join lateral (
    select category, topic, message from broadcasts where id = n.broadcast_id limit 1
  ) b
  cross join lateral (
    select texts from broadcast_texts where broadcast_id = n.broadcast_id and reader = n.reader limit 1
  ) t
  where octet_length(b.message) <= $3 and octet_length(t.texts) <= $3`,
);
const selectTexts = sql(
  'select_broadcast_texts',
  'select texts from broadcast_texts where broadcast_id = $1 and reader = $2',
);
// Primary key, in its order, so that concurrent fan-outs to one topic do not deadlock.
const INSERT = `insert into broadcast_texts (broadcast_id, reader, texts)
  select broadcast_id, reader, texts
  from unnest($1::uuid[], $2::text[], $3::bytea[]) as t (broadcast_id, reader, texts)`;
const upsertTexts = sql(
  'upsert_broadcast_texts',
  `${INSERT}
  order by broadcast_id, reader
  on conflict (broadcast_id, reader) do update set texts = excluded.texts`,
);
const insertOwnTexts = sql('insert_broadcast_texts', INSERT);
