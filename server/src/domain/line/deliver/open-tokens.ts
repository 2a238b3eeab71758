import { textArray, uuidArray } from '../../../db/arrays.ts';
import { type Queryable, sql } from '../../../db/client.ts';
import type { Sealer } from '../../../lib/seal.ts';
import { MAX_ACTIVE_TOKENS } from '../../people/tokens/discard-oldest.ts';
import { openToken } from '../../people/tokens/sealed.ts';

/** A token to send to. */
export interface OpenedToken {
  id: string;
  /** From tokens.channel. */
  collection: string;
  /** Its members as they were saved; undefined if they cannot be decrypted. */
  data: unknown;
}

/** The tokens to load for a user: the newest of these collections, or those with these ids. */
export interface TokensOf {
  userId: string;
  collections: readonly string[];
  ids?: ReadonlySet<string>;
}

/**
 * Loads the active tokens for each request, the newest first, by one statement. Tokens that were discarded
 * since the fan-out are left out. Each token is decrypted once.
 */
export async function openTokens<Asked extends TokensOf>(
  { db, sealer }: { db: Queryable; sealer: Sealer },
  asked: readonly Asked[],
): Promise<ReadonlyMap<Asked, readonly OpenedToken[]>> {
  const holders = new Map<string, { userId: string; collection: string }>();
  for (const { userId, collections } of asked)
    for (const collection of collections) holders.set(userId + collection, { userId, collection });
  if (holders.size === 0) return new Map();
  const rows = await db.query<Row>(selectTokens, [
    uuidArray([...holders.values()].map(({ userId }) => userId)),
    textArray([...holders.values()].map(({ collection }) => collection)),
    MAX_ACTIVE_TOKENS,
  ]);
  const byHolder = Map.groupBy(rows, (row) => row.user_id + row.channel);
  const opened = new Map<string, OpenedToken>();
  const open = (row: Row): OpenedToken => {
    const token = opened.get(row.id) ?? openedToken(sealer, row);
    opened.set(row.id, token);
    return token;
  };
  return new Map(
    asked.map((one) => {
      const { userId, collections, ids } = one;
      const all = collections.flatMap((collection) => byHolder.get(userId + collection) ?? []);
      const meant = ids === undefined ? newest(all) : all.filter(({ id }) => ids.has(id));
      return [one, meant.map(open)];
    }),
  );
}

/** Ids are in the order of creation. */
function newest(rows: Row[]): Row[] {
  return rows.sort((a, b) => (a.id > b.id ? -1 : 1)).slice(0, MAX_ACTIVE_TOKENS);
}

function openedToken(sealer: Sealer, { user_id, id, channel: collection, sealed_data }: Row): OpenedToken {
  const json = openToken(sealer, user_id, id, sealed_data);
  return { id, collection, data: json === undefined ? undefined : (JSON.parse(json) as unknown) };
}

interface Row {
  user_id: string;
  id: string;
  channel: string;
  sealed_data: Buffer;
}

// Index tokens_listed, for each user and collection.
const selectTokens = sql(
  'tokens_to_deliver_to',
  `select w.user_id, w.channel, t.id, t.sealed_data
  from unnest($1::uuid[], $2::text[]) as w (user_id, channel)
  cross join lateral (
    select id, sealed_data
    from tokens
    where user_id = w.user_id and channel = w.channel and discarded_at is null
    order by id desc
    limit $3
  ) t`,
);
