import { type Queryable, sql } from '../../../db/client.ts';
import { listStatements } from '../../../db/list-statements.ts';
import type { Cursor } from '../../../lib/cursor.ts';
import { isId } from '../../../lib/ids.ts';
import type { Sealer } from '../../../lib/seal.ts';
import { openToken } from './sealed.ts';
import { tokenHash } from './token-hash.ts';

/** A stored token. */
export interface TokenRow {
  user_id: string;
  id: string;
  public_id: string | null;
  sealed_data: Buffer;
  created_at: Date;
  updated_at: Date | null;
  discarded_at: Date | null;
}

/** Returns up to `limit` of the user's active tokens of a channel after the cursor. */
export async function listTokens(
  db: Queryable,
  userId: string,
  channel: string,
  { direction, id, limit }: Cursor,
): Promise<TokenRow[]> {
  return db.query<TokenRow>(LIST[direction], [userId, id, limit, channel]);
}

/** Returns a token of the user, active or discarded, by the id of its record. */
export async function getToken(
  db: Queryable,
  userId: string,
  channel: string,
  id: string,
): Promise<TokenRow | undefined> {
  const [row] = await db.query<TokenRow>(selectToken, [userId, id, channel]);
  return row;
}

/**
 * Returns the record id of a public id. Returns undefined if the user has no such token on this channel. A
 * UUID is returned as it is, even if no record has it.
 */
export async function recordId(
  db: Queryable,
  userId: string,
  channel: string,
  shownId: string,
): Promise<string | undefined> {
  if (isId(shownId)) return shownId.toLowerCase();
  const [row] = await db.query<{ id: string }>(selectId, [
    userId,
    channel,
    tokenHash({ publicId: shownId }),
    shownId,
  ]);
  return row?.id;
}

/** Returns the ids of the user's active tokens with this text, with their channels. */
export async function findActiveTokens(
  db: Queryable,
  userId: string,
  channels: readonly string[],
  text: string,
): Promise<{ id: string; channel: string }[]> {
  return db.query(selectActive, [userId, channels, tokenHash({ text })]);
}

/** Returns the token as JSON, or undefined if its key is lost. */
export function tokenJson(sealer: Sealer, row: TokenRow): string | undefined {
  const { user_id, id, public_id, sealed_data, created_at, updated_at, discarded_at } = row;
  const json = openToken(sealer, user_id, id, sealed_data);
  if (json === undefined) return undefined;
  const members = json === '{}' ? '' : `,${json.slice(1, -1)}`;
  const times = JSON.stringify({ created_at, updated_at, discarded_at });
  return `{"id":${JSON.stringify(public_id ?? id)}${members},${times.slice(1)}`;
}

const COLUMNS = 'user_id, id, public_id, sealed_data, created_at, updated_at, discarded_at';

// Index tokens_listed.
const LIST = listStatements('tokens', {
  select: COLUMNS,
  from: 'tokens',
  owner: 'user_id',
  where: 'channel = $4 and discarded_at is null',
});
// Primary key.
const selectToken = sql(
  'get_token',
  `select ${COLUMNS} from tokens where user_id = $1 and id = $2 and channel = $3`,
);
// Unique index tokens_unique, whose condition follows from the last one.
const selectId = sql(
  'find_token_by_public_id',
  `select id
  from tokens
  where user_id = $1 and channel = $2 and hash = $3 and public_id = $4`,
);
const selectActive = sql(
  'find_active_tokens',
  `select id, channel
  from tokens
  where user_id = $1 and channel = any ($2::text[]) and hash = $3 and discarded_at is null`,
);
