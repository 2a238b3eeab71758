import { type Database, type Queryable, sql } from '../../db/client.ts';
import { newId } from '../../lib/ids.ts';
import { recordEvents } from '../events/record.ts';
import type { Bus } from '../realtime/messages.ts';
import { type TokenChannel, tokenHash } from './channels.ts';
import { discarded, saved } from './events.ts';

// A token that others save and discard at the same moment: each round somebody gets through.
const MAX_ROUNDS = 10;

/**
 * Saves a token of the user and answers what is stored. The same token again makes no second record; a device's token that
 * another user had moves here: that record is discarded, and what hangs on it is told.
 */
export async function saveToken<Body>(
  { db, bus }: { db: Pick<Database, 'query' | 'transaction'>; bus: Bus },
  channel: TokenChannel<Body>,
  { projectId, userId }: { projectId: string; userId: string },
  body: Body,
): Promise<Record<string, unknown>> {
  const stored = channel.stored(body);
  const save: Save = {
    projectId,
    userId,
    channel: channel.name,
    hash: tokenHash(channel.identity(body)),
    data: JSON.stringify(stored),
  };
  if (channel.kind === 'shared') {
    await db.transaction((tx) => upsert(tx, save));
    return stored;
  }
  for (let round = 1; round <= MAX_ROUNDS; round += 1) {
    const former = await db.transaction((tx) => claim(tx, save));
    if (former === undefined) continue;
    if (former !== null) {
      bus.publish({ type: 'token_discarded', userId: former.user_id, tokenId: former.token_id });
    }
    return stored;
  }
  throw new Error(`a token could not be saved in ${MAX_ROUNDS} rounds`);
}

interface Save {
  projectId: string;
  userId: string;
  channel: string;
  hash: Buffer;
  data: string;
}

interface Owner {
  user_id: string;
  token_id: string;
}

/**
 * Makes the user the owner; answers the record of another user that was discarded for it, null where there was none, and
 * undefined when the owner vanished meanwhile. The row of token_owners is locked first, here as in `discardToken`, so that all
 * who touch a token queue up at the same door.
 */
async function claim(tx: Queryable, save: Save): Promise<Owner | null | undefined> {
  const { projectId, userId, channel, hash, data } = save;
  const id = newId();
  const device = [projectId, channel, hash];
  const [won] = await tx.query<Owner>(insertOwner, [...device, userId, id]);
  if (won !== undefined) {
    await tx.query(insertToken, [userId, id, projectId, channel, hash, data]);
    await recordEvents(tx, [saved(save, id)]);
    return null;
  }
  const [owner] = await tx.query<Owner>(lockOwner, device);
  if (owner === undefined) return undefined;
  if (owner.user_id === userId) {
    const changed = await tx.query(updateToken, [userId, owner.token_id, data]);
    if (changed.length > 0) await recordEvents(tx, [saved(save, owner.token_id)]);
    return null;
  }
  await tx.query(discardFormer, [owner.user_id, owner.token_id]);
  await tx.query(moveOwner, [...device, userId, id]);
  await tx.query(insertToken, [userId, id, projectId, channel, hash, data]);
  await recordEvents(tx, [
    discarded({ projectId, channel, userId: owner.user_id }, owner.token_id),
    saved(save, id),
  ]);
  return owner;
}

async function upsert(tx: Queryable, save: Save): Promise<void> {
  const { projectId, userId, channel, hash, data } = save;
  const [written] = await tx.query<{ id: string }>(upsertToken, [
    userId,
    newId(),
    projectId,
    channel,
    hash,
    data,
  ]);
  if (written !== undefined) await recordEvents(tx, [saved(save, written.id)]);
}

// Primary key of token_owners: of two users who save a token at once, the second waits here for the first one's commit.
const insertOwner = sql(
  'insert_token_owner',
  `insert into token_owners (project_id, channel, hash, user_id, token_id)
  values ($1, $2, $3, $4, $5)
  on conflict do nothing
  returning user_id, token_id`,
);
const lockOwner = sql(
  'lock_token_owner',
  `select user_id, token_id
  from token_owners
  where project_id = $1 and channel = $2 and hash = $3
  for update`,
);
const moveOwner = sql(
  'move_token_owner',
  `update token_owners
  set user_id = $4, token_id = $5
  where project_id = $1 and channel = $2 and hash = $3`,
);
const insertToken = sql(
  'insert_token',
  `insert into tokens (user_id, id, project_id, channel, hash, data, created_at)
  values ($1, $2, $3, $4, $5, $6, now())`,
);
const updateToken = sql(
  'update_token',
  `update tokens
  set data = $3, updated_at = now()
  where user_id = $1 and id = $2 and data::text is distinct from $3::json::text
  returning id`,
);
const discardFormer = sql(
  'discard_former_token',
  `update tokens
  set discarded_at = now()
  where user_id = $1 and id = $2 and discarded_at is null`,
);
// Unique index tokens_active_of_user.
const upsertToken = sql(
  'upsert_token',
  `insert into tokens (user_id, id, project_id, channel, hash, data, created_at)
  values ($1, $2, $3, $4, $5, $6, now())
  on conflict (user_id, channel, hash) where discarded_at is null
  do update set data = excluded.data, updated_at = now()
  where tokens.data::text is distinct from excluded.data::text
  returning id`,
);
