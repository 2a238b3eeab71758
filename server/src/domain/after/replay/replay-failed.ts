import { type Queryable, type Statement, sql } from '../../../db/client.ts';
import { OLDEST } from '../../../lib/cursor.ts';
import { complete } from '../../../queue/complete.ts';
import { discardReason } from '../../../queue/discard-reason.ts';
import { enqueue } from '../../../queue/enqueue.ts';
import { type Handler, ONE_JOB } from '../../../queue/handler.ts';
import { BULK, type Job, type JobKind, type JobPayloads } from '../../../queue/jobs.ts';
import type { Context } from '../../context.ts';
import { addError } from '../../line/ledger/finish.ts';
import { type DeliveryKey, replayKeys } from './replay-keys.ts';

/*
 * A million deliveries may have failed. They are replayed in the order of users' ids, one chunk in each
 * transaction, which also writes the job of the next chunk: after a crash it continues behind the last chunk
 * that was committed. Deliveries that fail after the request are not replayed.
 */

// Deliveries in one transaction: about 100 ms of work.
const CHUNK = 2_000;

interface ReplayedBroadcast {
  id: string;
  projectId: string;
  textWeight: number;
}

/**
 * Replays all deliveries of a broadcast that failed before `askedAt`: the first chunk immediately, the rest
 * by jobs. Returns their number.
 */
export async function replayAllFailed(
  tx: Queryable,
  { id, projectId, textWeight }: ReplayedBroadcast,
  { channel, askedAt, nowMs }: { channel: string | undefined; askedAt: string; nowMs: number },
): Promise<number> {
  const first: Chunk = {
    broadcast_id: id,
    channel,
    after: { user_id: OLDEST, channel: '' },
    asked_at: askedAt,
    text_weight: textWeight,
  };
  const { count, next } = await replayChunk(tx, projectId, first, nowMs);
  return count + (next === undefined ? 0 : await countFailed(tx, next));
}

/** The kinds of the jobs that a replay writes. */
export const REPLAY_KINDS = ['deliver', 'replay'] as const satisfies JobKind[];

/** Replays the next chunk. */
export function replayHandler(context: Context): Handler<'replay'> {
  return {
    work: 'bulk',
    slots: 2,
    slotsPerPartition: 1,
    ...ONE_JOB,
    async run(jobs, leaseId) {
      for (const job of jobs) await runJob(context, job, leaseId);
      return REPLAY_KINDS;
    },
    discard: (job, leaseId, error) => discard(context, job, leaseId, error),
  };
}

async function runJob({ db, clock }: Context, job: Job<'replay'>, leaseId: string): Promise<void> {
  const { id, projectId, payload } = job;
  await db.transaction(async (tx) => {
    await complete(tx, leaseId, [id]);
    if ((await tx.query(selectCancelled, [payload.broadcast_id])).length > 0) return;
    await replayChunk(tx, projectId, payload, clock.now());
  });
}

async function discard({ db }: Context, job: Job<'replay'>, leaseId: string, error: unknown): Promise<void> {
  await db.transaction(async (tx) => {
    await complete(tx, leaseId, [job.id]);
    const reason = discardReason(job, error);
    await addError(tx, job.payload.broadcast_id, `Not all that failed could be replayed: ${reason}`);
  });
}

type Chunk = JobPayloads['replay'];

/** Replays a chunk, and writes the job of the next one, if any. */
async function replayChunk(
  tx: Queryable,
  projectId: string,
  chunk: Chunk,
  nowMs: number,
): Promise<{ count: number; next: Chunk | undefined }> {
  const rows = await tx.query<{ user_id: string; channel: string }>(
    chunk.channel === undefined ? selectFailed.all : selectFailed.onChannel,
    valuesOf(chunk),
  );
  const keys = rows.map((row): DeliveryKey => ({ userId: row.user_id, channel: row.channel }));
  const broadcast = { id: chunk.broadcast_id, projectId, textWeight: chunk.text_weight };
  const count = await replayKeys(tx, broadcast, { state: 'failed', keys, nowMs });
  const last = rows.at(-1);
  if (last === undefined || rows.length < CHUNK) return { count, next: undefined };
  const next = { ...chunk, after: { user_id: last.user_id, channel: last.channel } };
  await enqueue(tx, [{ kind: 'replay', projectId, priority: BULK, weight: 1, payload: next }]);
  return { count, next };
}

async function countFailed(tx: Queryable, chunk: Chunk): Promise<number> {
  const [row] = await tx.query<{ failed: number }>(
    chunk.channel === undefined ? countRest.all : countRest.onChannel,
    valuesOf(chunk),
  );
  return row?.failed ?? 0;
}

function valuesOf({ broadcast_id, after, asked_at, channel }: Chunk): unknown[] {
  const values = [broadcast_id, after.user_id, after.channel, asked_at];
  return channel === undefined ? values : [...values, channel];
}

// Primary key.
const selectCancelled = sql(
  'cancelled_while_replayed',
  'select 1 from broadcasts where id = $1 and cancelled_at is not null',
);
// Index deliveries_failed (broadcast_id, user_id, channel).
const beyond = `broadcast_id = $1 and state = 'failed' and (user_id, channel) > ($2, $3)
    and last_attempt_at <= $4::timestamptz`;
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
  limit ${CHUNK}`,
);
const countRest = both(
  'count_failed_deliveries',
  (condition) => `select count(*)::int as failed from deliveries where ${condition}`,
);
