import type { ReplayWebhook } from '../../../contract/webhook.ts';
import { type Database, type Queryable, sql } from '../../../db/client.ts';
import { ClientError } from '../../../errors.ts';
import type { Clock } from '../../../lib/clock.ts';
import { firstIdAt, newId } from '../../../lib/ids.ts';
import { enqueue } from '../../../queue/enqueue.ts';
import { eventId } from '../../ground/events/expand.ts';
import { getEvent } from '../../ground/events/get.ts';
import { countOf } from '../../ground/events/stored-types.ts';
import { type ClaimedWebhook, type EventBatch, eventFilter, MAX_EVENTS, webhookJob } from './jobs.ts';
import { getWebhook } from './webhooks.ts';

// The replays of a webhook run one after the other: at the same time they would end no earlier.
const MAX_REPLAYS = 10;
const MAX_ROWS = 50; // of events, in one transaction

/** Sends events to a webhook once more. Throws if the webhook or the event is missing or disabled. */
export function replayMessages(
  { db, clock }: { db: Pick<Database, 'transaction'>; clock: Clock },
  projectId: string,
  webhookId: string,
  { event_id: single, since, until, status = 'failed' }: ReplayWebhook,
): Promise<void> {
  return db.transaction(async (tx) => {
    const webhook = await getWebhook(tx, projectId, webhookId);
    if (webhook === undefined) throw new ClientError('not_found');
    if (webhook.disabled_at !== null)
      throw new ClientError('validation_failed', ['The webhook is disabled: enable it first']);
    const nowMs = clock.now();
    if (single !== undefined) await replayOne(tx, projectId, webhookId, single.toLowerCase(), nowMs);
    if (since === undefined) return;
    const from = Math.max(0, Date.parse(since));
    const to = Math.max(0, until === undefined ? nowMs : Math.min(nowMs, Date.parse(until)));
    const added = await tx.query(insertReplay, [
      webhookId,
      newId(),
      status === 'failed',
      firstIdAt(from),
      firstIdAt(to),
      MAX_REPLAYS,
    ]);
    if (added.length === 0)
      throw new ClientError('validation_failed', ['The webhook has enough replays under way; wait for them']);
  });
}

async function replayOne(
  tx: Queryable,
  projectId: string,
  webhookId: string,
  id: string,
  nowMs: number,
): Promise<void> {
  if ((await getEvent(tx, projectId, id)) === undefined)
    throw new ClientError('not_found', ['There is no event with this event_id']);
  const payload = { webhook_id: webhookId, event_ids: [id], attempt: 0, since_ms: nowMs, replay: true };
  await enqueue(tx, [webhookJob(projectId, payload)]);
}

/**
 * Reads the next events of the oldest replay of each of these webhooks, and moves or ends the replay. Called
 * by the relay, which has locked the webhooks.
 */
export async function readReplays(
  tx: Queryable,
  webhooks: readonly ClaimedWebhook[],
): Promise<readonly EventBatch[]> {
  const rows = await tx.query<ReplayRow>(selectReplays, [webhooks.map(({ id }) => id)]);
  if (rows.length === 0) return [];
  const webhookOf = new Map(webhooks.map((webhook) => [webhook.id, webhook]));
  const replays = rows.flatMap(({ webhook_id: webhookId, id, failed_only: failedOnly }): Replay[] => {
    const webhook = webhookOf.get(webhookId);
    return webhook ? [{ webhook, id, failedOnly, eventIds: [], isReplay: true, last: '', isOver: true }] : [];
  });
  await readFailed(tx, byWebhook(replays.filter(({ failedOnly }) => failedOnly)));
  await readEvents(tx, byWebhook(replays.filter(({ failedOnly }) => !failedOnly)));
  const over = replays.filter(({ isOver }) => isOver);
  const going = replays.filter(({ isOver }) => !isOver);
  await tx.query(endReplays, [over.map(({ webhook }) => webhook.id), over.map(({ id }) => id)]);
  await tx.query(moveReplays, [
    going.map(({ webhook }) => webhook.id),
    going.map(({ id }) => id),
    going.map(({ last }) => last),
  ]);
  return replays;
}

interface ReplayRow {
  webhook_id: string;
  id: string;
  failed_only: boolean;
}

interface Replay extends EventBatch {
  id: string;
  failedOnly: boolean;
  /** The last event that was read. */
  last: string;
  isOver: boolean;
}

type Replays = ReadonlyMap<string, Replay>;

function byWebhook(replays: readonly Replay[]): Replays {
  return new Map(replays.map((replay) => [replay.webhook.id, replay]));
}

/** Reads failed messages. */
async function readFailed(tx: Queryable, replays: Replays): Promise<void> {
  if (replays.size === 0) return;
  const rows = await tx.query<{ webhook_id: string; id: string }>(selectFailed, [
    [...replays.keys()],
    [...replays.values()].map(({ id }) => id),
    MAX_EVENTS,
  ]);
  for (const { webhook_id: webhookId, id } of rows) {
    const replay = replays.get(webhookId);
    if (replay === undefined) continue;
    replay.eventIds.push(id);
    replay.last = id;
    replay.isOver = replay.eventIds.length < MAX_EVENTS;
  }
}

/** Reads the events that each webhook is subscribed to. */
async function readEvents(tx: Queryable, replays: Replays): Promise<void> {
  if (replays.size === 0) return;
  const all = [...replays.values()];
  const rows = await tx.query<EventsRow>(selectEvents, [
    [...replays.keys()],
    all.map(({ id }) => id),
    all.map(({ webhook }) => webhook.project_id),
    MAX_ROWS,
  ]);
  const filter = eventFilter(all.map(({ webhook }) => webhook));
  for (const row of rows) {
    const replay = replays.get(row.webhook_id);
    if (replay === undefined) continue;
    replay.isOver = false;
    if (replay.eventIds.length >= MAX_EVENTS) continue;
    replay.eventIds.push(...filter(row.webhook_id, row));
    replay.last = eventId(row.id, countOf(row) - 1);
    replay.isOver = row.place < MAX_ROWS;
  }
}

interface EventsRow {
  webhook_id: string;
  id: string;
  type: string;
  size: number;
  place: number;
}

// Primary key of webhook_replays (webhook_id, id).
const insertReplay = sql(
  'insert_webhook_replay',
  `with capacity as materialized (
    select count(*) < $6 as is_left
    from webhook_replays
    where webhook_id = $1
  )
  insert into webhook_replays (webhook_id, id, failed_only, after_id, until_id)
  select $1, $2, $3, $4, $5
  from capacity
  where is_left
  returning id`,
);
// Primary key of webhook_replays (webhook_id, id): the oldest of each webhook.
const selectReplays = sql(
  'select_webhook_replays',
  `select r.webhook_id, r.id, r.failed_only
  from unnest($1::uuid[]) as w (id)
  cross join lateral (
    select webhook_id, id, failed_only
    from webhook_replays
    where webhook_id = w.id
    order by id
    limit 1
  ) r`,
);
// Index webhook_messages_by_state (webhook_id, state, id).
const selectFailed = sql(
  'replay_failed_messages',
  `select r.webhook_id, m.id
  from unnest($1::uuid[], $2::uuid[]) as w (webhook_id, id)
  join webhook_replays r on r.webhook_id = w.webhook_id and r.id = w.id
  cross join lateral (
    select id
    from webhook_messages
    where webhook_id = r.webhook_id and state = 'failed' and id > r.after_id and id < r.until_id
    order by id
    limit $3
  ) m
  order by r.webhook_id, m.id`,
);
// Primary key of events (project_id, id).
const selectEvents = sql(
  'replay_events',
  `select r.webhook_id, e.id, e.type, e.size, e.place::int as place
  from unnest($1::uuid[], $2::uuid[], $3::uuid[]) as w (webhook_id, id, project_id)
  join webhook_replays r on r.webhook_id = w.webhook_id and r.id = w.id
  cross join lateral (
    select id, type, size, row_number() over (order by id) as place
    from events
    where project_id = w.project_id and id > r.after_id and id < r.until_id
    order by id
    limit $4
  ) e
  order by r.webhook_id, e.id`,
);
const endReplays = sql(
  'end_webhook_replays',
  `delete from webhook_replays r
  using unnest($1::uuid[], $2::uuid[]) as d (webhook_id, id)
  where r.webhook_id = d.webhook_id and r.id = d.id`,
);
const moveReplays = sql(
  'move_webhook_replays',
  `update webhook_replays r
  set after_id = m.after_id
  from unnest($1::uuid[], $2::uuid[], $3::uuid[]) as m (webhook_id, id, after_id)
  where r.webhook_id = m.webhook_id and r.id = m.id`,
);
