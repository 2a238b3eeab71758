import type { ReplayDeliveries } from '../../../contract/delivery.ts';
import { textArray, uuidArray } from '../../../db/arrays.ts';
import { type Database, type Queryable, sql } from '../../../db/client.ts';
import { ClientError } from '../../../errors.ts';
import type { Clock } from '../../../lib/clock.ts';
import { notificationId } from '../../../lib/ids.ts';
import { memberOf } from '../../../lib/members.ts';
import { unpackJsonInThread } from '../../../lib/packed-json.ts';
import { fanOutWeight } from '../../../queue/jobs.ts';
import { locateUsers } from '../../line/ledger/locate.ts';
import { replayAllFailed } from './replay-failed.ts';
import { type DeliveryKey, replayKeys } from './replay-keys.ts';

/**
 * Replays deliveries of a broadcast that failed or, of users who are named, were skipped. They start over,
 * with another day to succeed, and are `pending` in the figures of the broadcast, which stays `processed`.
 * Returns how many they are; the rest of a large broadcast follows by a job. What is requested twice at the
 * same time is done once. Throws `not_found` if the project has no such broadcast, and `validation_failed`
 * for skipped ones without users.
 */
export async function replayDeliveries(
  { db, clock }: { db: Pick<Database, 'transaction'>; clock: Clock },
  projectId: string,
  broadcastId: string,
  given: ReplayDeliveries,
): Promise<number> {
  const problems = replayProblems(given);
  if (problems.length > 0) throw new ClientError('validation_failed', problems);
  const { state = 'failed', channel, user_ids: userIds } = given;
  return db.transaction(async (tx) => {
    const found = await findBroadcast(tx, projectId, broadcastId);
    if (found === undefined) throw new ClientError('not_found');
    if (found.cancelled) throw new ClientError('validation_failed', [BROADCAST_CANCELLED]);
    const broadcast = { id: broadcastId, projectId, textWeight: found.textWeight };
    if (userIds === undefined)
      return replayAllFailed(tx, broadcast, { channel, askedAt: found.askedAt, nowMs: clock.now() });
    const people = [...new Set(userIds.map((id) => id.toLowerCase()))];
    const keys =
      state === 'failed'
        ? await failedOf(tx, broadcastId, people, channel)
        : await skippedOf(tx, broadcastId, people, channel);
    return replayKeys(tx, broadcast, { state, keys, nowMs: clock.now() });
  });
}

/** Returns the problem of a replay of skipped deliveries without `user_ids`. The body can have any shape. */
export function replayProblems(body: unknown): string[] {
  return memberOf(body, 'state') === 'skipped' && memberOf(body, 'user_ids') === undefined
    ? ["Param 'user_ids' is missing: it is required with state skipped"]
    : [];
}

const BROADCAST_CANCELLED = 'The broadcast was cancelled, so nothing of it is replayed: send a new broadcast';

async function findBroadcast(
  tx: Queryable,
  projectId: string,
  id: string,
): Promise<{ textWeight: number; askedAt: string; cancelled: boolean } | undefined> {
  const [row] = await tx.query<{
    message: Buffer;
    overrides: Buffer | null;
    asked_at: string;
    cancelled: boolean;
  }>(selectBroadcast, [id, projectId]);
  if (row === undefined) return undefined;
  const texts = [row.message, ...(row.overrides === null ? [] : [row.overrides])];
  const lengths = await Promise.all(texts.map(async (text) => (await unpackJsonInThread([text])).length));
  const characters = lengths.reduce((sum, length) => sum + length, 0);
  const { asked_at: askedAt, cancelled } = row;
  return { textWeight: fanOutWeight({ recipients: 0, characters }), askedAt, cancelled };
}

async function failedOf(
  tx: Queryable,
  broadcastId: string,
  userIds: readonly string[],
  channel: string | undefined,
): Promise<DeliveryKey[]> {
  const rows = await tx.query<{ user_id: string; channel: string }>(selectFailed, [
    uuidArray(userIds),
    uuidArray(userIds.map((userId) => notificationId(broadcastId, userId))),
    channel ?? null,
    broadcastId,
  ]);
  return rows.map((row) => ({ userId: row.user_id, channel: row.channel }));
}

/** Deliveries that the plan skipped get a row here. Those that were skipped later have one. */
async function skippedOf(
  tx: Queryable,
  broadcastId: string,
  userIds: readonly string[],
  channel: string | undefined,
): Promise<DeliveryKey[]> {
  const located = await locateUsers(tx, broadcastId, userIds);
  const planned = located.flatMap(({ userId, notificationId: id, plan, place }) =>
    plan
      .filter((one) => channel === undefined || one.channel === channel)
      .map((one) => ({
        userId,
        id,
        channel: one.channel,
        skippedByPlan: one.skippedAt(place) !== undefined,
      })),
  );
  const skippedByPlan = planned.filter((one) => one.skippedByPlan);
  await tx.query(insertSkipped, [
    broadcastId,
    uuidArray(skippedByPlan.map((one) => one.userId)),
    uuidArray(skippedByPlan.map((one) => one.id)),
    textArray(skippedByPlan.map((one) => one.channel)),
  ]);
  return planned.map((one) => ({ userId: one.userId, channel: one.channel }));
}

// Primary key.
const selectBroadcast = sql(
  'broadcast_to_replay',
  `select message, overrides, now()::text as asked_at, cancelled_at is not null as cancelled
  from broadcasts
  where id = $1 and project_id = $2`,
);
// Primary key (user_id, notification_id, channel), or deliveries_failed. Looked up one by one, because a join
// was planned as a hash of the table while it was empty.
const selectFailed = sql(
  'failed_deliveries_of_users',
  `select wanted.user_id, failed.channel
  from unnest($1::uuid[], $2::uuid[]) as wanted (user_id, notification_id)
  cross join lateral (
    select channel
    from deliveries d
    where d.user_id = wanted.user_id and d.notification_id = wanted.notification_id
      and d.broadcast_id = $4 and d.state = 'failed' and ($3::text is null or d.channel = $3)
    offset 0
  ) failed`,
);
const insertSkipped = sql(
  'insert_skipped_deliveries',
  `insert into deliveries (
    user_id, notification_id, channel, broadcast_id, state, attempts, first_attempt_at, last_attempt_at
  )
  select user_id, notification_id, channel, $1, 'skipped', 0, now(), now()
  from unnest($2::uuid[], $3::uuid[], $4::text[]) as s (user_id, notification_id, channel)
  order by user_id, notification_id, channel
  on conflict do nothing`,
);
