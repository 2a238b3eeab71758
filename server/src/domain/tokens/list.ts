import { type Queryable, type Statement, sql } from '../../db/client.ts';
import type { Cursor } from '../../lib/cursor.ts';

/** A stored token. */
export interface TokenRow {
  id: string;
  /** JSON text of the members that are the channel's own. */
  data: string;
  created_at: Date;
  updated_at: Date | null;
  discarded_at: Date | null;
}

/** Up to `limit` of the user's active tokens of a channel beyond the cursor, nearest first. */
export async function listTokens(
  db: Queryable,
  userId: string,
  channel: string,
  { direction, id, limit }: Cursor,
): Promise<TokenRow[]> {
  return db.query<TokenRow>(LIST[direction], [userId, channel, id, limit]);
}

/** A token of the user, active or discarded. */
export async function getToken(
  db: Queryable,
  userId: string,
  channel: string,
  id: string,
): Promise<TokenRow | undefined> {
  const [row] = await db.query<TokenRow>(selectToken, [userId, id.toLowerCase(), channel]);
  return row;
}

const COLUMNS = 'id, data, created_at, updated_at, discarded_at';

// Primary key (user_id, id), or tokens_active_of_user: a user has few.
const listText = (beyond: '<' | '>', order: 'desc' | 'asc') =>
  `select ${COLUMNS}
  from tokens
  where user_id = $1 and channel = $2 and discarded_at is null and id ${beyond} $3
  order by id ${order}
  limit $4`;
const LIST: Record<Cursor['direction'], Statement> = {
  older: sql('list_older_tokens', listText('<', 'desc')),
  newer: sql('list_newer_tokens', listText('>', 'asc')),
};
const selectToken = sql(
  'get_token',
  `select ${COLUMNS} from tokens where user_id = $1 and id = $2 and channel = $3`,
);
