import { type Database, type Queryable, sql } from '../../../db/client.ts';
import type { Clock } from '../../../lib/clock.ts';
import type { Logger } from '../../../lib/log.ts';
import { enqueue } from '../../../queue/enqueue.ts';
import type { NewJob } from '../../../queue/jobs.ts';
import type { Bus } from '../../ground/bus/messages.ts';
import { eventId } from '../../ground/events/expand.ts';
import { countOf } from '../../ground/events/stored-types.ts';
import { webhookJob } from './deliver.ts';
import { readReplays } from './read-replays.ts';
import { type ClaimedWebhook, MAX_EVENTS, type Stretch, wantedBy } from './stretch.ts';

// Most of what happens is announced on the bus; the poll finds the rest.
const POLL_MS = 1_000;
// Under load thousands of changes a second are announced.
const PAUSE_MS = 100;
// The feed is not read on for a webhook with more unfinished messages: what waits, waits as the events that
// it is.
const MAX_PENDING = 5_000;
const MAX_WEBHOOKS = 50; // a turn
// Of one webhook's feed in a turn, and of all together unless they are more than can have so few each.
const MAX_ROWS = { each: 500, together: 2_500 };
const EVENTS_PER_JOB = 50;

/**
 * Turns the events of projects into jobs for their webhooks. Each webhook has its own place in the feed,
 * which moves in the transaction that adds the jobs: no event is left out or taken twice, whatever is killed.
 * Projects without webhooks cost nothing.
 *
 * A webhook's row is locked by the pump of one server at a time, and by next to nothing else: those that
 * record outcomes write it only when the webhook begins or ceases to fail. So a row that is locked is in good
 * hands, and `skip locked` leaves nothing behind.
 */
export class WebhookPump {
  readonly #db: Database;
  readonly #clock: Clock;
  readonly #log: Logger;
  readonly #onQueued: () => void;
  readonly #unsubscribe: () => void;
  readonly #pollMs: number;
  #poll: NodeJS.Timeout | undefined;
  #pause: NodeJS.Timeout | undefined;
  #running: Promise<void> | undefined;
  #isWoken = false;
  #stopped = false;
  #after = '00000000-0000-0000-0000-000000000000';

  constructor(options: {
    db: Database;
    bus: Bus;
    clock: Clock;
    log: Logger;
    onQueued: () => void;
    pollMs?: number | undefined;
  }) {
    this.#pollMs = options.pollMs ?? POLL_MS;
    this.#db = options.db;
    this.#clock = options.clock;
    this.#log = options.log;
    this.#onQueued = options.onQueued;
    this.#unsubscribe = options.bus.subscribe(() => this.wake());
  }

  start(): void {
    this.#poll = setInterval(() => this.#run(), this.#pollMs);
  }

  /** There may be new events. */
  wake(): void {
    if (this.#stopped || this.#poll === undefined) return;
    this.#pause ??= setTimeout(() => {
      this.#pause = undefined;
      this.#run();
    }, PAUSE_MS);
  }

  async stop(): Promise<void> {
    this.#stopped = true;
    this.#unsubscribe();
    clearInterval(this.#poll);
    clearTimeout(this.#pause);
    await this.#running;
  }

  #run(): void {
    if (this.#stopped) return;
    this.#isWoken = this.#running !== undefined;
    this.#running ??= this.#pumpAll().finally(() => {
      this.#running = undefined;
      // Its last look may have been before what it was woken for.
      if (this.#isWoken) this.#run();
    });
  }

  async #pumpAll(): Promise<void> {
    try {
      for (let more = true; more && !this.#stopped; ) {
        const turn = await pump({ db: this.#db, clock: this.#clock }, this.#after);
        this.#after = turn.last ?? this.#after;
        if (turn.queued > 0) this.#onQueued();
        more = turn.more;
      }
    } catch (error) {
      this.#log.warn({ err: error }, 'events could not be handed to webhooks; it is tried again');
    }
  }
}

/** One turn: reads on for webhooks for which there is something, beginning behind the webhook `after`. */
export async function pump(
  { db, clock }: { db: Pick<Database, 'transaction'>; clock: Clock },
  after: string,
): Promise<{ queued: number; last: string | undefined; more: boolean }> {
  return db.transaction(async (tx) => {
    const webhooks = await tx.query<ClaimedWebhook>(claimWebhooks, [after, MAX_PENDING, MAX_WEBHOOKS]);
    if (webhooks.length === 0) return { queued: 0, last: undefined, more: false };
    const nowMs = clock.now();
    const parts = [...(await readFeeds(tx, webhooks)), ...(await readReplays(tx, webhooks))];
    await enqueue(
      tx,
      parts.flatMap((part) => jobsOf(part, nowMs)),
    );
    const total = parts.reduce((sum, { eventIds }) => sum + eventIds.length, 0);
    return { queued: total, last: webhooks.at(-1)?.id, more: true };
  });
}

function jobsOf({ webhookId, eventIds, replay }: Stretch, nowMs: number): NewJob<'webhook'>[] {
  const jobs: NewJob<'webhook'>[] = [];
  for (let from = 0; from < eventIds.length; from += EVENTS_PER_JOB) {
    jobs.push(
      webhookJob({
        webhook_id: webhookId,
        event_ids: eventIds.slice(from, from + EVENTS_PER_JOB),
        attempt: 0,
        since_ms: nowMs,
        ...(replay ? { replay } : {}),
      }),
    );
  }
  return jobs;
}

/** Reads on in the feeds, and moves each webhook's place. */
async function readFeeds(tx: Queryable, webhooks: readonly ClaimedWebhook[]): Promise<Stretch[]> {
  const rows = await tx.query<FeedRow>(selectFeeds, [
    webhooks.map(({ id }) => id),
    Math.min(MAX_ROWS.each, Math.ceil(MAX_ROWS.together / webhooks.length)),
  ]);
  const wanted = wantedBy(webhooks);
  const stretches = new Map<string, Stretch & { last: FeedRow }>();
  for (const row of rows) {
    const stretch = stretches.get(row.webhook_id) ?? {
      webhookId: row.webhook_id,
      eventIds: [],
      replay: false,
      last: row,
    };
    if (stretch.eventIds.length >= MAX_EVENTS) continue; // the next turn begins there
    stretches.set(row.webhook_id, stretch);
    stretch.last = row;
    stretch.eventIds.push(...wanted(row.webhook_id, row));
  }
  const read = [...stretches.values()];
  await tx.query(moveOn, [
    read.map(({ webhookId }) => webhookId),
    read.map(({ last }) => last.xact),
    read.map(({ last }) => eventId(last.id, countOf(last) - 1)),
  ]);
  return read;
}

interface FeedRow {
  webhook_id: string;
  xact: string;
  id: string;
  type: string;
  size: number;
}

// Index webhooks_active; of each webhook a look into events_feed (project_id, xact, id), the primary key of
// webhook_replays and, if there is something, jobs_of_webhooks (project_id). A webhook that another server's
// pump has locked is left to it.
const claimWebhooks = sql(
  'claim_webhooks',
  `select w.id, w.project_id, w.event_types
  from webhooks w
  where w.disabled_at is null and w.deleted_at is null
    and (
      exists (
        select from events e
        where e.project_id = w.project_id and (e.xact, e.id) > (w.feed_xact, w.feed_id)
          and e.xact < pg_snapshot_xmin(pg_current_snapshot())
      )
      or exists (select from webhook_replays r where r.webhook_id = w.id)
    )
    and coalesce((select sum(weight) from jobs j where j.kind = 'webhook' and j.project_id = w.id), 0) < $2
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
      and e.xact < pg_snapshot_xmin(pg_current_snapshot())
    order by e.xact, e.id
    limit $2
  ) f
  order by r.place, f.xact, f.id`,
);
const moveOn = sql(
  'move_webhooks_on',
  `update webhooks
  set feed_xact = m.xact, feed_id = m.id
  from unnest($1::uuid[], $2::xid8[], $3::uuid[]) as m (webhook_id, xact, id)
  where webhooks.id = m.webhook_id`,
);
