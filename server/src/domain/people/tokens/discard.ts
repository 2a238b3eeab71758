import { type Database, sql } from '../../../db/client.ts';
import type { Bus } from '../../ground/bus/messages.ts';
import { recordEvents } from '../../ground/events/record.ts';
import { discarded } from './events.ts';

/**
 * Discards a token of the user and closes its connections. Returns its public id and when it was discarded,
 * which may be earlier. Returns undefined if the user has no such token on this channel.
 */
export async function discardToken(
  { db, bus }: { db: Pick<Database, 'transaction'>; bus: Bus },
  channel: string,
  { projectId, userId, id }: { projectId: string; userId: string; id: string },
): Promise<{ id: string; at: Date } | undefined> {
  const result = await db.transaction(async (tx) => {
    const [token] = await tx.query<Token>(selectToken, [userId, id, channel]);
    if (token === undefined) return undefined;
    const shownId = token.public_id ?? token.id;
    if (token.discarded_at !== null) return { id: shownId, at: token.discarded_at, now: false };
    // Deletes the owner first, as `saveToken` locks it first, so that the token cannot move meanwhile.
    await tx.query(deleteOwner, [projectId, channel, token.hash, userId, token.id]);
    const [done] = await tx.query<{ discarded_at: Date }>(markDiscarded, [userId, channel, token.id]);
    if (done !== undefined) {
      await recordEvents(tx, [discarded({ projectId, userId, channel }, shownId)]);
      return { id: shownId, at: done.discarded_at, now: true };
    }
    const [before] = await tx.query<Token>(selectToken, [userId, id, channel]);
    return before?.discarded_at ? { id: shownId, at: before.discarded_at, now: false } : undefined;
  });
  if (result?.now) bus.publish({ type: 'token_discarded', userId, tokenId: id });
  return result;
}

interface Token {
  id: string;
  public_id: string | null;
  hash: Buffer;
  discarded_at: Date | null;
}

// Primary keys.
const selectToken = sql(
  'select_token_to_discard',
  'select id, public_id, hash, discarded_at from tokens where user_id = $1 and id = $2 and channel = $3',
);
const deleteOwner = sql(
  'delete_token_owner',
  `delete from token_owners
  where project_id = $1 and channel = $2 and hash = $3 and user_id = $4 and token_id = $5`,
);
// Primary key, or index tokens_listed.
const markDiscarded = sql(
  'discard_token',
  `update tokens
  set discarded_at = now()
  where user_id = $1 and channel = $2 and id = $3 and discarded_at is null
  returning discarded_at`,
);
