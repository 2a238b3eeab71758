import { type Queryable, sql } from '../../../db/client.ts';
import type { Sealer } from '../../../lib/seal.ts';
import { tokenCollection } from '../../../providers/index.ts';
import { openToken } from './sealed.ts';
import { tokenHash } from './token-hash.ts';

/**
 * Returns the owner of an active inbox token, and whether that user is deleted. Returns undefined for a token
 * that is unknown or discarded.
 */
export async function findInboxToken(
  { db, sealer }: { db: Queryable; sealer: Sealer },
  projectId: string,
  token: string,
): Promise<InboxTokenOwner | undefined> {
  const [row] = await db.query<{
    user_id: string;
    token_id: string;
    sealed_data: Buffer;
    user_deleted: boolean;
  }>(selectOwner, [projectId, tokenCollection('inbox').collection, tokenHash({ text: token })]);
  if (row === undefined) return undefined;
  const json = openToken(sealer, row.user_id, row.token_id, row.sealed_data);
  if (json === undefined) return undefined;
  const { connection_id } = JSON.parse(json) as { connection_id: string | null };
  return {
    userId: row.user_id,
    tokenId: row.token_id,
    connectionId: connection_id,
    userDeleted: row.user_deleted,
  };
}

interface InboxTokenOwner {
  userId: string;
  tokenId: string;
  connectionId: string | null;
  userDeleted: boolean;
}

// Primary keys of token_owners, tokens and users.
const selectOwner = sql(
  'find_token_owner',
  `select o.user_id, o.token_id, t.sealed_data, u.deleted_at is not null as user_deleted
  from token_owners o
  join tokens t on t.user_id = o.user_id and t.id = o.token_id
  left join users u on u.id = o.user_id
  where o.project_id = $1 and o.channel = $2 and o.hash = $3`,
);
