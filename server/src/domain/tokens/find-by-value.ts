import { type Queryable, sql } from '../../db/client.ts';
import { inboxTokens, tokenHash } from './channels.ts';

/** Whose active inbox token this is; undefined for one that is unknown or discarded. */
export async function findInboxToken(
  db: Queryable,
  projectId: string,
  token: string,
): Promise<{ userId: string; tokenId: string; connectionId: string | null } | undefined> {
  const [row] = await db.query<{ user_id: string; token_id: string; connection_id: string | null }>(
    selectOwner,
    [projectId, inboxTokens.name, tokenHash(token)],
  );
  return row && { userId: row.user_id, tokenId: row.token_id, connectionId: row.connection_id };
}

// Primary keys of token_owners and tokens.
const selectOwner = sql(
  'find_token_owner',
  `select o.user_id, o.token_id, t.data ->> 'connection_id' as connection_id
  from token_owners o
  join tokens t on t.user_id = o.user_id and t.id = o.token_id
  where o.project_id = $1 and o.channel = $2 and o.hash = $3`,
);
