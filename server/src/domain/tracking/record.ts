import { textArray, uuidArray } from '../../db/arrays.ts';
import { type Database, isDatabaseUnavailable, type Queryable, sql } from '../../db/client.ts';
import { Batcher } from '../../lib/batcher.ts';
import { notificationId } from '../../lib/ids.ts';
import type { Logger } from '../../lib/log.ts';
import { waitMs } from '../../lib/wait.ts';
import { type NewEvent, recordEvents } from '../events/record.ts';
import type { TrackedDelivery } from './links.ts';

/** Something that a recipient did. */
export type Hit = TrackedDelivery & { atMs: number } & (
    | { kind: 'open' }
    /** `url` where the link of an e-mail was followed. */
    | { kind: 'click'; url?: string }
  );

// What a crash loses; and what one statement writes.
const LINGER_MS = 100;
const MAX_HITS = 1_000;
// While the database is away. What comes besides is lost: nobody waits for it, and it would fill the memory.
const MAX_HELD = 20_000;
const KEEP_TRYING_MS = 120_000;
const RETRY_EVERY_MS = 250;

/** Writes down what recipients do, in batches, away from their requests. */
export class HitRecorder {
  readonly #db: Pick<Database, 'transaction'>;
  readonly #log: Logger;
  readonly #batcher: Batcher<Hit, undefined>;
  #held = 0;
  #lost = 0;
  #closing = false;

  constructor({ db, log }: { db: Pick<Database, 'transaction'>; log: Logger }) {
    this.#db = db;
    this.#log = log;
    this.#batcher = new Batcher({
      run: (hits) => this.#write(hits),
      concurrency: 1,
      maxItems: MAX_HITS,
      lingerMs: LINGER_MS,
    });
  }

  /** Notes it. Never waits, never fails. */
  note(hit: Hit): void {
    if (this.#held >= MAX_HELD) {
      this.#lost += 1;
      return;
    }
    this.#held += 1;
    void this.#batcher.add(hit);
  }

  /** Resolves when all that was noted is written, or lost. */
  drained(): Promise<void> {
    return this.#batcher.drained();
  }

  /** Writes what was noted, unless the database is away, and stops. */
  async close(): Promise<void> {
    this.#closing = true;
    await this.drained();
  }

  async #write(hits: Hit[]): Promise<undefined[]> {
    const until = Date.now() + KEEP_TRYING_MS;
    for (;;) {
      try {
        await this.#db.transaction((tx) => recordHits(tx, hits));
        break;
      } catch (error) {
        if (isDatabaseUnavailable(error) && !this.#closing && Date.now() < until) {
          await waitMs(RETRY_EVERY_MS);
          continue;
        }
        this.#lost += hits.length;
        this.#log.warn({ err: error, hits: hits.length }, 'opens and clicks could not be recorded');
        break;
      }
    }
    this.#held -= hits.length;
    if (this.#lost > 0 && this.#held < MAX_HELD) {
      this.#log.warn(
        { hits: this.#lost },
        'opens and clicks were lost: too many came while the database was away',
      );
      this.#lost = 0;
    }
    return hits.map(() => undefined);
  }
}

// Of one delivery. Who opens a link again and again has nothing new to tell.
export const MAX_CLICK_EVENTS = 100;

/**
 * Writes hits down in the caller's transaction, by a statement for all deliveries: figures and first times beside each, the event of the first
 * open, one of each click. What the project does not want to know at this moment, whenever its message was sent, is passed over; so is what users do who are deleted.
 */
export async function recordHits(tx: Queryable, hits: readonly Hit[]): Promise<void> {
  const deliveries = perDelivery(hits);
  const rows = await tx.query<Written>(writeHits, [
    uuidArray(deliveries.map((one) => one.projectId)),
    uuidArray(deliveries.map((one) => one.userId)),
    uuidArray(deliveries.map((one) => one.notificationId)),
    uuidArray(deliveries.map((one) => one.broadcastId)),
    textArray(deliveries.map((one) => one.channel)),
    deliveries.map((one) => one.opens.length),
    deliveries.map((one) => new Date(one.opens[0]?.atMs ?? 0)),
    deliveries.map((one) => one.clicks.length),
    deliveries.map((one) => new Date(one.clicks[0]?.atMs ?? 0)),
  ]);
  const written = new Map(rows.map((row) => [row.notification_id + row.channel, row]));
  const known = deliveries.flatMap((one) => {
    const row = written.get(one.notificationId + one.channel);
    return row === undefined ? [] : [{ ...one, row }];
  });
  await recordEvents(tx, [...openEvents(known), ...known.flatMap(clickEvents)]);
}

interface HitDelivery extends TrackedDelivery {
  notificationId: string;
  opens: readonly Hit[];
  clicks: readonly Extract<Hit, { kind: 'click' }>[];
}

type KnownDelivery = HitDelivery & { row: Written };

interface Written {
  notification_id: string;
  channel: string;
  provider: string | null;
  /** Before this, and of this. */
  opens_before: number;
  opens: number;
  clicks_before: number;
  clicks: number;
}

/** One statement can touch a row once. In the order in which outcomes are written, so that the two wait for each other and not in a circle. */
function perDelivery(hits: readonly Hit[]): HitDelivery[] {
  const groups = Map.groupBy(hits, ({ channel, broadcastId, userId }) => `${userId}${broadcastId}${channel}`);
  const deliveries = [...groups.values()].flatMap((group): HitDelivery[] => {
    const [first] = group;
    if (first === undefined) return [];
    const { projectId, broadcastId, userId, channel } = first;
    return [
      {
        projectId,
        broadcastId,
        userId,
        channel,
        notificationId: notificationId(broadcastId, userId),
        opens: group.filter(({ kind }) => kind === 'open'),
        clicks: group.filter((hit) => hit.kind === 'click'),
      },
    ];
  });
  return deliveries.sort((a, b) => (a.userId < b.userId ? -1 : 1));
}

function openEvents(known: readonly KnownDelivery[]): NewEvent[] {
  const first = known.filter(({ row }) => row.opens > 0 && row.opens_before === 0);
  return [...Map.groupBy(first, ({ broadcastId }) => broadcastId)].map(([broadcastId, group]) => ({
    projectId: group[0]?.projectId ?? '',
    type: 'delivery.opened',
    broadcastId,
    userIds: group.map(({ userId }) => userId),
    details: group.map(({ row }) => ({ level: 'info', context: contextOf(row) })),
  }));
}

/** Each in a row of its own, by which they are found when the user is purged. */
function clickEvents({ projectId, broadcastId, userId, clicks, row }: KnownDelivery): NewEvent[] {
  const room = Math.min(row.clicks, Math.max(0, MAX_CLICK_EVENTS - row.clicks_before));
  return clicks.slice(0, room).map(({ url }) => ({
    projectId,
    type: 'delivery.clicked',
    broadcastId,
    userIds: [userId],
    details: {
      level: 'info',
      context: contextOf(row),
      ...(url === undefined ? {} : { payload: { url } }),
    },
  }));
}

function contextOf({ channel, provider }: Written): Record<string, string> {
  return { channel, ...(provider === null ? {} : { provider }) };
}

// Primary keys of broadcasts, tracking, users, deliveries and notifications. A hit can come before the outcome of the sending itself: then the row is
// made here, as one whose attempt is not written down yet. Not where the broadcast is processed, which is when every delivery has its row.
const writeHits = sql(
  'record_hits',
  `with ours as (
    select g.user_id, g.notification_id, g.broadcast_id, g.channel, b.status,
      case when t.opens then g.opens else 0 end as opens,
      case when t.opens and g.opens > 0 then g.opened_at end as opened_at,
      case when t.clicks then g.clicks else 0 end as clicks,
      case when t.clicks and g.clicks > 0 then g.clicked_at end as clicked_at
    from unnest(
      $1::uuid[], $2::uuid[], $3::uuid[], $4::uuid[], $5::text[], $6::int[], $7::timestamptz[], $8::int[], $9::timestamptz[]
    ) as g (project_id, user_id, notification_id, broadcast_id, channel, opens, opened_at, clicks, clicked_at)
    join broadcasts b on b.id = g.broadcast_id and b.project_id = g.project_id
    join tracking t on t.project_id = g.project_id
    join users u on u.id = g.user_id and u.deleted_at is null
  ),
  known as (
    select *
    from ours o
    where opens + clicks > 0
      and (
        exists (
          select from deliveries d
          where d.user_id = o.user_id and d.notification_id = o.notification_id and d.channel = o.channel
        )
        or status <> 'processed' and exists (
          select from notifications n
          where n.user_id = o.user_id and n.id = o.notification_id
        )
      )
  ),
  written as (
    insert into deliveries as d (
      user_id, notification_id, channel, broadcast_id, state, attempts, first_attempt_at, last_attempt_at,
      opens, opened_at, clicks, clicked_at
    )
    select user_id, notification_id, channel, broadcast_id, 'retrying', 0, now(), now(), opens, opened_at, clicks, clicked_at
    from known
    order by user_id, notification_id, channel
    on conflict (user_id, notification_id, channel) do update
    set opens = d.opens + excluded.opens,
      opened_at = coalesce(d.opened_at, excluded.opened_at),
      clicks = d.clicks + excluded.clicks,
      clicked_at = coalesce(d.clicked_at, excluded.clicked_at)
    returning user_id, notification_id, channel, provider, opens, clicks
  )
  select k.notification_id, k.channel, w.provider, w.opens - k.opens as opens_before, k.opens,
    w.clicks - k.clicks as clicks_before, k.clicks
  from written w
  join known k using (user_id, notification_id, channel)`,
);
