import { type Queryable, type Statement, sql } from '../../../db/client.ts';
import { OLDEST } from '../../../lib/cursor.ts';
import { complete } from '../../../queue/complete.ts';
import { enqueue } from '../../../queue/enqueue.ts';
import type { Handler } from '../../../queue/handler.ts';
import { BULK, type Job, type JobPayloads } from '../../../queue/jobs.ts';
import type { Context } from '../../context.ts';
import { addError } from '../../line/ledger/finish.ts';
import { type DeliveryKey, sendAnew } from './send-anew.ts';

/*
 * A million deliveries may have failed. They are gone through in the order of users' ids, a part by each transaction, which also writes the job of
 * the next part: whoever is killed, it goes on behind the last part that was written. What fails again meanwhile has failed after it was asked
 * for, and is left alone.
 */

// So many are sent anew by one transaction: about 100 ms of work.
const AT_ONCE = 2_000;

interface ReplayedBroadcast {
  id: string;
  projectId: string;
  textWeight: number;
}

/**
 * Sends all of a broadcast anew that failed before `askedAt`: the first of them at once, the rest by jobs.
 * Answers how many they are.
 */
export async function replayAllFailed(
  tx: Queryable,
  { id, projectId, textWeight }: ReplayedBroadcast,
  { channel, askedAt, nowMs }: { channel: string | undefined; askedAt: string; nowMs: number },
): Promise<number> {
  const first: Part = {
    broadcast_id: id,
    ...(channel === undefined ? {} : { channel }),
    after: { user_id: OLDEST, channel: '' },
    asked_at: askedAt,
    text_weight: textWeight,
  };
  const part = await replayPart(tx, projectId, first, nowMs);
  return part.count + (part.next === undefined ? 0 : await countFailed(tx, part.next));
}

/** What the parts after the first tell the rest of the server, after their commits. */
export interface ReplayListener {
  onQueued(): void;
}

/** Sends the next part of what failed anew. */
export function replayHandler(context: Context, listener: ReplayListener): Handler<'replay'> {
  return {
    slots: 2,
    slotsPerPartition: 1,
    gatherBelow: 0,
    maxJobs: 1,
    maxWeight: 1,
    maxPartitions: 1,
    async run(jobs, leaseId) {
      for (const job of jobs) await runJob(context, job, leaseId);
      listener.onQueued();
    },
    discard: (job, leaseId) => discard(context, job, leaseId),
  };
}

async function runJob({ db, clock }: Context, job: Job<'replay'>, leaseId: string): Promise<void> {
  const { id, projectId, payload } = job;
  await db.transaction(async (tx) => {
    await complete(tx, leaseId, [id]);
    await replayPart(tx, projectId, payload, clock.now());
  });
}

async function discard({ db }: Context, { id, payload }: Job<'replay'>, leaseId: string): Promise<void> {
  await db.transaction(async (tx) => {
    await complete(tx, leaseId, [id]);
    await addError(tx, payload.broadcast_id, 'Not all that failed could be replayed: internal error');
  });
}

type Part = JobPayloads['replay'];

/** Sends a part anew, and writes the job of the next, if there is one. */
async function replayPart(
  tx: Queryable,
  projectId: string,
  part: Part,
  nowMs: number,
): Promise<{ count: number; next: Part | undefined }> {
  const rows = await tx.query<{ user_id: string; channel: string }>(
    part.channel === undefined ? selectFailed.all : selectFailed.onChannel,
    valuesOf(part),
  );
  const keys = rows.map((row): DeliveryKey => ({ userId: row.user_id, channel: row.channel }));
  const broadcast = {
    id: part.broadcast_id,
    projectId,
    textWeight: part.text_weight,
    recipients: keys.length,
  };
  const count = await sendAnew(tx, broadcast, { state: 'failed', keys, nowMs });
  const last = rows.at(-1);
  if (last === undefined || rows.length < AT_ONCE) return { count, next: undefined };
  const next = { ...part, after: { user_id: last.user_id, channel: last.channel } };
  await enqueue(tx, [{ kind: 'replay', projectId, priority: BULK, weight: 1, payload: next }]);
  return { count, next };
}

async function countFailed(tx: Queryable, part: Part): Promise<number> {
  const [row] = await tx.query<{ failed: number }>(
    part.channel === undefined ? countRest.all : countRest.onChannel,
    valuesOf(part),
  );
  return row?.failed ?? 0;
}

function valuesOf({ broadcast_id, after, asked_at, channel }: Part): unknown[] {
  const values = [broadcast_id, after.user_id, after.channel, asked_at];
  return channel === undefined ? values : [...values, channel];
}

// Index deliveries_failed (broadcast_id, user_id, channel).
const beyond = `broadcast_id = $1 and state = 'failed' and (user_id, channel) > ($2, $3) and last_attempt_at <= $4::timestamptz`;
const both = (name: string, text: (condition: string) => string): Record<'all' | 'onChannel', Statement> => ({
  all: sql(name, text(beyond)),
  onChannel: sql(`${name}_on_channel`, text(`${beyond} and channel = $5`)),
});
const selectFailed = both(
  'replay_failed_deliveries',
  (condition) => `select user_id, channel
  from deliveries
  where ${condition}
  order by user_id, channel
  limit ${AT_ONCE}`,
);
const countRest = both(
  'count_failed_deliveries',
  (condition) => `select count(*)::int as failed from deliveries where ${condition}`,
);
