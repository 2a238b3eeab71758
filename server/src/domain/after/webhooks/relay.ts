import { type Database, type Queryable, sql } from '../../../db/client.ts';
import type { Clock } from '../../../lib/clock.ts';
import { enqueue } from '../../../queue/enqueue.ts';
import { eventId } from '../../ground/events/expand.ts';
import { feedHorizon } from '../../ground/events/feed.ts';
import { FeedLoop, type FeedLoopOptions } from '../../ground/events/feed-loop.ts';
import { countOf } from '../../ground/events/stored-types.ts';
import { type ClaimedWebhook, type EventBatch, eventFilter, MAX_EVENTS, webhookJobs } from './jobs.ts';
import { readReplays } from './replays.ts';

// A webhook with more unfinished messages gets no further jobs: its events wait in the feed.
const MAX_PENDING = 5_000;
const MAX_WEBHOOKS = 50; // in one transaction
// Rows of events in one transaction: of one webhook's feed, and of all feeds together.
const MAX_ROWS = { each: 500, together: 2_500 };

/**
 * Relays the events of projects to their webhooks: reads them from the feed and writes jobs that send them.
 * Each webhook has a position in the feed, which moves in the transaction that adds the jobs: no event is
 * skipped or queued twice, whatever crashes. Projects without webhooks cost nothing.
 *
 * The row of a webhook is locked by the relay of one server at a time, and by almost nothing else: outcomes
 * update it only when the webhook starts or stops failing. So `skip locked` never skips a webhook for good.
 */
export class WebhookRelay {
  readonly #db: Database;
  readonly #clock: Clock;
  readonly #onQueued: () => void;
  readonly #loop: FeedLoop;
  #after = '00000000-0000-0000-0000-000000000000';

  constructor(options: FeedLoopOptions & { db: Database; clock: Clock; onQueued: () => void }) {
    this.#db = options.db;
    this.#clock = options.clock;
    this.#onQueued = options.onQueued;
    this.#loop = new FeedLoop(options, {
      read: (isStopped) => this.#relayAll(isStopped),
      failure: 'events could not be queued for webhooks; the next poll retries it',
    });
  }

  start(): void {
    this.#loop.start();
  }

  /** There may be new events. */
  wake(): void {
    this.#loop.wake();
  }

  stop(): Promise<void> {
    return this.#loop.stop();
  }

  async #relayAll(isStopped: () => boolean): Promise<void> {
    for (let more = true; more && !isStopped(); ) {
      const { queued, last } = await relayEvents({ db: this.#db, clock: this.#clock }, this.#after);
      this.#after = last ?? this.#after;
      if (queued > 0) this.#onQueued();
      more = last !== undefined;
    }
  }
}

/**
 * Queues the next events of some webhooks that have any, starting behind the webhook `after`. Returns the
 * number of events, and the last of these webhooks.
 */
export async function relayEvents(
  { db, clock }: { db: Pick<Database, 'transaction' | 'query' | 'isDistributed'>; clock: Clock },
  after: string,
): Promise<{ queued: number; last: string | undefined }> {
  const horizon = await feedHorizon(db);
  return db.transaction(async (tx) => {
    const values = [after, MAX_PENDING, MAX_WEBHOOKS, horizon];
    const webhooks = await tx.query<ClaimedWebhook>(claimWebhooks, values);
    if (webhooks.length === 0) return { queued: 0, last: undefined };
    const nowMs = clock.now();
    const batches = [...(await readFeeds(tx, webhooks, horizon)), ...(await readReplays(tx, webhooks))];
    await enqueue(
      tx,
      batches.flatMap((batch) => webhookJobs(batch, nowMs)),
    );
    const queued = batches.reduce((sum, { eventIds }) => sum + eventIds.length, 0);
    return { queued, last: webhooks.at(-1)?.id };
  });
}

/** Reads the next events of each feed, and moves each webhook's position. */
async function readFeeds(
  tx: Queryable,
  webhooks: readonly ClaimedWebhook[],
  horizon: string,
): Promise<EventBatch[]> {
  const rows = await tx.query<FeedRow>(selectFeeds, [
    webhooks.map(({ id }) => id),
    Math.min(MAX_ROWS.each, Math.ceil(MAX_ROWS.together / webhooks.length)),
    horizon,
  ]);
  const filter = eventFilter(webhooks);
  const rowsOf = Map.groupBy(rows, (row) => row.webhook_id);
  const batches = webhooks.flatMap((webhook) => {
    const batch = { webhook, eventIds: [] as string[], isReplay: false };
    let last: FeedRow | undefined;
    for (const row of rowsOf.get(webhook.id) ?? []) {
      if (batch.eventIds.length >= MAX_EVENTS) break; // the next transaction starts there
      batch.eventIds.push(...filter(webhook.id, row));
      last = row;
    }
    return last === undefined ? [] : [{ ...batch, last }];
  });
  await tx.query(moveFeeds, [
    batches.map(({ webhook }) => webhook.id),
    batches.map(({ last }) => last.xact),
    batches.map(({ last }) => eventId(last.id, countOf(last) - 1)),
  ]);
  return batches;
}

interface FeedRow {
  webhook_id: string;
  xact: string;
  id: string;
  type: string;
  size: number;
}

// Index webhooks_active; for each webhook one row of events_feed (project_id, xact, id), the primary key of
// webhook_replays and, if there are events, jobs_of_partition (partition_key). Skips webhooks that the relay
// of another server has locked.
const claimWebhooks = sql(
  'claim_webhooks',
  `select w.id, w.project_id, w.event_types
  from webhooks w
  where w.disabled_at is null and w.deleted_at is null
    and (
      exists (
        select from events e
        where e.project_id = w.project_id and (e.xact, e.id) > (w.feed_xact, w.feed_id)
          and e.xact < $4::xid8
      )
      or exists (select from webhook_replays r where r.webhook_id = w.id)
    )
    and coalesce((select sum(weight) from jobs j where j.partition_key = w.id), 0) < $2
  order by w.id <= $1, w.id
  limit $3
  for update of w skip locked`,
);
// Primary key of webhooks; index events_feed (project_id, xact, id).
const selectFeeds = sql(
  'read_feeds_of_webhooks',
  `select w.id as webhook_id, f.xact, f.id, f.type, f.size
  from unnest($1::uuid[]) with ordinality as r (id, place)
  join webhooks w on w.id = r.id
  cross join lateral (
    select e.xact, e.id, e.type, e.size
    from events e
    where e.project_id = w.project_id and (e.xact, e.id) > (w.feed_xact, w.feed_id)
      and e.xact < $3::xid8
    order by e.xact, e.id
    limit $2
  ) f
  order by r.place, f.xact, f.id`,
);
const moveFeeds = sql(
  'move_feeds_of_webhooks',
  `update webhooks
  set feed_xact = m.xact, feed_id = m.id
  from unnest($1::uuid[], $2::xid8[], $3::uuid[]) as m (webhook_id, xact, id)
  where webhooks.id = m.webhook_id`,
);
