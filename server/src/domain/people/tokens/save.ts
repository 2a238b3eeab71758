import { type Database, type Queryable, sql } from '../../../db/client.ts';
import { newId } from '../../../lib/ids.ts';
import type { Sealer } from '../../../lib/seal.ts';
import type { TokenCollection, TokenMembers } from '../../../providers/provider.ts';
import type { Bus } from '../../ground/bus/messages.ts';
import { type NewEvent, recordEvents } from '../../ground/events/record.ts';
import { discardOldest } from './discard-oldest.ts';
import { discarded, saved } from './events.ts';
import { openToken, sealToken } from './sealed.ts';
import { tokenHash } from './token-hash.ts';

// For concurrent saves and discards of one token. One of them succeeds in each round.
const MAX_ROUNDS = 10;

/**
 * Saves a token of the user and returns the stored one. The same token has one record. A device of another
 * user moves to this user: the other record is discarded, and its connections are notified. A new token
 * replaces the user's oldest one in the collection if there are too many.
 */
export async function saveToken(
  { db, bus, sealer }: { db: Pick<Database, 'transaction'>; bus: Bus; sealer: Sealer },
  tokens: TokenCollection,
  { projectId, userId }: { projectId: string; userId: string },
  body: TokenMembers,
): Promise<TokenMembers> {
  const stored = tokens.stored?.(body) ?? body;
  const identity = tokens.identity(body);
  const save: Save = {
    sealer,
    projectId,
    userId,
    channel: tokens.collection,
    publicId: 'publicId' in identity ? identity.publicId : null,
    hash: tokenHash(identity),
    json: JSON.stringify(stored),
  };
  const attempt = tokens.kind === 'device' ? claim : share;
  for (let round = 1; round <= MAX_ROUNDS; round += 1) {
    const gone = await db.transaction((tx) => attempt(tx, save));
    if (gone === undefined) continue;
    for (const { user_id, token_id } of gone) {
      bus.publish({ type: 'token_discarded', userId: user_id, tokenId: token_id });
    }
    return stored;
  }
  throw new Error(`a token could not be saved in ${MAX_ROUNDS} rounds`);
}

interface Save {
  sealer: Sealer;
  projectId: string;
  userId: string;
  channel: string;
  publicId: string | null;
  hash: Buffer;
  json: string;
}

interface Owner {
  user_id: string;
  token_id: string;
}

/**
 * Makes the user the owner. Returns the discarded records, or undefined if the owner was deleted meanwhile.
 * Like `discardToken`, it locks the row of token_owners first, so that all changes of a token wait for the
 * same lock.
 */
async function claim(tx: Queryable, save: Save): Promise<Owner[] | undefined> {
  const { projectId, userId, channel, hash } = save;
  const id = newId();
  const device = [projectId, channel, hash];
  const won = await tx.query(insertOwner, [...device, userId, id]);
  if (won.length > 0) {
    await tx.query(insertToken, rowOf(save, id));
    return makeRoom(tx, save, 'device', id, [saved(save, id)]);
  }
  const [owner] = await tx.query<Owner & { sealed_data: Buffer }>(lockOwner, device);
  if (owner === undefined) return undefined;
  if (owner.user_id === userId) {
    await update(tx, save, { id: owner.token_id, sealed_data: owner.sealed_data });
    return [];
  }
  await tx.query(discardFormer, [owner.user_id, channel, owner.token_id]);
  await tx.query(moveOwner, [...device, userId, id]);
  await tx.query(insertToken, rowOf(save, id));
  const oldest = await makeRoom(tx, save, 'device', id, [
    discarded({ projectId, channel, userId: owner.user_id }, owner.token_id),
    saved(save, id),
  ]);
  return [owner, ...oldest];
}

/**
 * Saves a token that several users may have. Returns the discarded records, or undefined if the user's record
 * was deleted meanwhile.
 */
async function share(tx: Queryable, save: Save): Promise<Owner[] | undefined> {
  const { userId, channel, publicId, hash } = save;
  const id = newId();
  const made = await tx.query(insertTokenOnce, rowOf(save, id));
  if (made.length > 0) {
    return makeRoom(tx, save, 'shared', id, [saved(save, publicId ?? id)]);
  }
  const [record] = await tx.query<Stored & { discarded_at: Date | null }>(lockToken, [userId, channel, hash]);
  if (record === undefined) return undefined;
  if (record.discarded_at === null) {
    await update(tx, save, record);
    return [];
  }
  // It stays discarded, and the new record gets its public id (decision 20).
  await tx.query(releasePublicId, [userId, record.id]);
  await tx.query(insertToken, rowOf(save, id));
  return makeRoom(tx, save, 'shared', id, [saved(save, publicId ?? id)]);
}

/** Discards the tokens that exceed the limit, and records the events of all. Returns the discarded ones. */
async function makeRoom(
  tx: Queryable,
  save: Save,
  kind: 'device' | 'shared',
  savedId: string,
  events: readonly NewEvent[],
): Promise<Owner[]> {
  const oldest = await discardOldest(tx, kind, { ...save, savedId });
  await recordEvents(tx, [...events, ...oldest.events]);
  return oldest.tokenIds.map((token_id) => ({ user_id: save.userId, token_id }));
}

interface Stored {
  id: string;
  sealed_data: Buffer;
}

/** Updates a record that the caller has locked. If nothing changed, it updates only the time of the save. */
async function update(tx: Queryable, save: Save, { id, sealed_data }: Stored): Promise<void> {
  const { sealer, userId, publicId, json } = save;
  if (openToken(sealer, userId, id, sealed_data) === json) {
    await tx.query(touchToken, [userId, id]);
    return;
  }
  await tx.query(updateToken, [userId, id, sealToken(sealer, userId, id, json)]);
  await recordEvents(tx, [saved(save, publicId ?? id)]);
}

function rowOf({ sealer, userId, projectId, channel, publicId, hash, json }: Save, id: string): unknown[] {
  return [userId, id, projectId, channel, publicId, hash, sealToken(sealer, userId, id, json)];
}

// Primary key of token_owners. If two users save a token at once, the second waits for the first one's
// commit.
const insertOwner = sql(
  'insert_token_owner',
  `insert into token_owners (project_id, channel, hash, user_id, token_id)
  values ($1, $2, $3, $4, $5)
  on conflict do nothing
  returning user_id`,
);
// Primary keys. Locks only the owner's row: see `claim`.
const lockOwner = sql(
  'lock_token_owner',
  `select o.user_id, o.token_id, t.sealed_data
  from token_owners o
  join tokens t on t.user_id = o.user_id and t.id = o.token_id
  where o.project_id = $1 and o.channel = $2 and o.hash = $3
  for update of o`,
);
const moveOwner = sql(
  'move_token_owner',
  `update token_owners
  set user_id = $4, token_id = $5
  where project_id = $1 and channel = $2 and hash = $3`,
);
const INSERT_TOKEN = `
  insert into tokens (user_id, id, project_id, channel, public_id, hash, sealed_data, created_at)
  values ($1, $2, $3, $4, $5, $6, $7, now())`;
const insertToken = sql('insert_token', INSERT_TOKEN);
// Unique index tokens_unique.
const insertTokenOnce = sql(
  'insert_token_once',
  `${INSERT_TOKEN}
  on conflict do nothing
  returning id`,
);
// Unique index tokens_unique, whose condition is repeated word for word.
const lockToken = sql(
  'lock_token',
  `select id, sealed_data, discarded_at
  from tokens
  where user_id = $1 and channel = $2 and hash = $3 and (discarded_at is null or public_id is not null)
  for update`,
);
// Primary key, all.
const releasePublicId = sql(
  'release_public_id',
  'update tokens set public_id = null where user_id = $1 and id = $2',
);
const updateToken = sql(
  'update_token',
  `update tokens
  set sealed_data = $3, updated_at = now()
  where user_id = $1 and id = $2`,
);
const touchToken = sql('touch_token', 'update tokens set saved_at = now() where user_id = $1 and id = $2');
// Primary key, or index tokens_listed.
const discardFormer = sql(
  'discard_former_token',
  `update tokens
  set discarded_at = now()
  where user_id = $1 and channel = $2 and id = $3 and discarded_at is null`,
);
