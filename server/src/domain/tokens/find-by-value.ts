import { createHash } from 'node:crypto';
import { type Queryable, sql } from '../../db/client.ts';

/** The active inbox token of a value, and whose it is. */
export interface InboxTokenOwner {
  userId: string;
  tokenId: string;
  /** The one realtime connection that it is meant for. */
  connectionId: string | null;
}

/** Whose inbox token this is; undefined when it is unknown to the project or discarded. */
export async function findInboxToken(
  db: Queryable,
  projectId: string,
  value: string,
): Promise<InboxTokenOwner | undefined> {
  const hash = createHash('sha256').update(value).digest();
  const [row] = await db.query<{ user_id: string; id: string; data: string }>(selectOwner, [projectId, hash]);
  if (row === undefined) return undefined;
  const { connection_id: connectionId } = JSON.parse(row.data) as { connection_id?: unknown };
  return {
    userId: row.user_id,
    tokenId: row.id,
    connectionId: typeof connectionId === 'string' ? connectionId : null,
  };
}

// Primary keys of token_owners (project_id, channel, hash) and of tokens (user_id, id).
const selectOwner = sql(
  'select_inbox_token_owner',
  `select t.user_id, t.id, t.data
  from token_owners o
  join tokens t on t.user_id = o.user_id and t.id = o.token_id
  where o.project_id = $1
    and o.channel = 'in_app/inbox'
    and o.hash = $2
    and t.discarded_at is null`,
);
