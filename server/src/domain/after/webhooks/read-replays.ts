import { type Queryable, sql } from '../../../db/client.ts';
import { eventId } from '../../ground/events/expand.ts';
import { countOf } from '../../ground/events/stored-types.ts';
import { type ClaimedWebhook, MAX_EVENTS, type Stretch, wantedBy } from './stretch.ts';

const MAX_ROWS = 50; // of events, in a turn

/**
 * Reads on in the oldest replay of each of these webhooks, and moves it or ends it. For the pump, which has
 * them locked.
 */
export async function readReplays(tx: Queryable, webhooks: readonly ClaimedWebhook[]): Promise<Stretch[]> {
  const replays = await tx.query<ReplayRow>(selectReplays, [webhooks.map(({ id }) => id)]);
  if (replays.length === 0) return [];
  const [failed, all] = [replays.filter((one) => one.failed_only), replays.filter((one) => !one.failed_only)];
  const parts = [
    ...(await readFailed(tx, failed)),
    ...(await readEvents(
      tx,
      all,
      webhooks.filter(({ id }) => all.some((one) => one.webhook_id === id)),
    )),
  ];
  const over = parts.filter((part) => part.over);
  const going = parts.filter((part) => !part.over);
  await tx.query(endReplays, [over.map(({ webhookId }) => webhookId), over.map(({ replayId }) => replayId)]);
  await tx.query(moveReplays, [
    going.map(({ webhookId }) => webhookId),
    going.map(({ replayId }) => replayId),
    going.map(({ last }) => last),
  ]);
  return parts;
}

interface ReplayRow {
  webhook_id: string;
  id: string;
  failed_only: boolean;
}

interface Part extends Stretch {
  replayId: string;
  /** The last event that was read. */
  last: string;
  over: boolean;
}

function partsOf(replays: readonly ReplayRow[]): Map<string, Part> {
  return new Map(
    replays.map(({ webhook_id: webhookId, id: replayId }) => [
      webhookId,
      { webhookId, replayId, eventIds: [], replay: true, last: '', over: true },
    ]),
  );
}

/** The messages that were given up. */
async function readFailed(tx: Queryable, replays: readonly ReplayRow[]): Promise<Part[]> {
  if (replays.length === 0) return [];
  const parts = partsOf(replays);
  const rows = await tx.query<{ webhook_id: string; id: string }>(selectFailed, [
    replays.map((one) => one.webhook_id),
    replays.map((one) => one.id),
    MAX_EVENTS,
  ]);
  for (const { webhook_id: webhookId, id } of rows) {
    const part = parts.get(webhookId);
    if (part === undefined) continue;
    part.eventIds.push(id);
    part.last = id;
    part.over = part.eventIds.length < MAX_EVENTS;
  }
  return [...parts.values()];
}

/** The events of the webhook's types. */
async function readEvents(
  tx: Queryable,
  replays: readonly ReplayRow[],
  webhooks: readonly ClaimedWebhook[],
): Promise<Part[]> {
  if (replays.length === 0) return [];
  const parts = partsOf(replays);
  const idOf = new Map(replays.map((one) => [one.webhook_id, one.id]));
  const rows = await tx.query<EventsRow>(selectEvents, [
    webhooks.map(({ id }) => id),
    webhooks.map(({ id }) => idOf.get(id)),
    webhooks.map((one) => one.project_id),
    MAX_ROWS,
  ]);
  const wanted = wantedBy(webhooks);
  for (const row of rows) {
    const part = parts.get(row.webhook_id);
    if (part === undefined) continue;
    part.over = false;
    if (part.eventIds.length >= MAX_EVENTS) continue;
    part.eventIds.push(...wanted(row.webhook_id, row));
    part.last = eventId(row.id, countOf(row) - 1);
    part.over = row.place < MAX_ROWS;
  }
  return [...parts.values()];
}

interface EventsRow {
  webhook_id: string;
  id: string;
  type: string;
  size: number;
  place: number;
}

// Primary key of webhook_replays (webhook_id, id): one at a time.
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
