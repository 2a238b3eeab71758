import { textArray, uuidArray } from '../../../db/arrays.ts';
import { type Database, isOfOneItem, type Queryable, sql } from '../../../db/client.ts';
import { Batcher } from '../../../lib/batcher.ts';
import { notificationId } from '../../../lib/ids.ts';
import type { Logger } from '../../../lib/log.ts';
import { waitMs } from '../../../lib/wait.ts';
import { type NewEvent, recordEvents } from '../../ground/events/record.ts';
import type { TrackedDelivery } from '../../ground/links/links.ts';
import { trackingOf } from '../../setup/tracking/settings.ts';

/** An open or a click of a recipient. */
export type Hit = TrackedDelivery & { atMs: number } & (
    | { kind: 'open' }
    /** `url` is set for a link of an e-mail. */
    | { kind: 'click'; url?: string }
  );

// What a crash loses, and what one statement writes.
const LINGER_MS = 100;
const MAX_HITS = 1_000;
// While the database is unavailable. Further hits are dropped, so that they do not fill the memory.
const MAX_HELD = 20_000;
const KEEP_TRYING_MS = 120_000;
const RETRY_EVERY_MS = 250;

/** Records opens and clicks in batches, apart from the requests. */
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

  /** Queues a hit. Never waits, never throws. */
  note(hit: Hit): void {
    if (this.#held >= MAX_HELD) {
      this.#lost += 1;
      return;
    }
    this.#held += 1;
    void this.#batcher.add(hit);
  }

  /** Resolves when all queued hits are written or dropped. */
  drained(): Promise<void> {
    return this.#batcher.drained();
  }

  /** Writes the queued hits, unless the database is unavailable, and stops. */
  async close(): Promise<void> {
    this.#closing = true;
    await this.drained();
  }

  async #write(hits: Hit[]): Promise<undefined[]> {
    const errors = await this.#record(hits);
    if (errors.length > 0)
      this.#log.warn({ err: errors[0], hits: errors.length }, 'opens and clicks could not be recorded');
    this.#held -= hits.length;
    if (this.#lost > 0 && this.#held < MAX_HELD) {
      this.#log.warn(
        { hits: this.#lost },
        'opens and clicks were dropped: too many arrived while the database was unavailable',
      );
      this.#lost = 0;
    }
    return hits.map(() => undefined);
  }

  /** Returns an error for each hit that could not be recorded. The others of its batch are. */
  async #record(hits: readonly Hit[]): Promise<unknown[]> {
    const until = performance.now() + KEEP_TRYING_MS;
    for (;;)
      try {
        await this.#db.transaction((tx) => recordHits(tx, hits));
        return [];
      } catch (error) {
        if (isOfOneItem(error) && hits.length > 1) {
          const errors: unknown[] = [];
          for (const hit of hits) errors.push(...(await this.#record([hit])));
          return errors;
        }
        if (isOfOneItem(error) || this.#closing || performance.now() > until) return hits.map(() => error);
        await waitMs(RETRY_EVERY_MS);
      }
  }
}

// For each delivery: further clicks are only counted.
export const MAX_CLICK_EVENTS = 100;

/**
 * Records hits in the caller's transaction, with one statement for all deliveries: counts and first times, an
 * event for the first open and one for each click. Ignores hits that the project does not track now, and hits
 * of deleted users.
 */
export async function recordHits(tx: Queryable, hits: readonly Hit[]): Promise<void> {
  const wanted = await wantedOf(tx, hits);
  if (wanted.length === 0) return;
  const deliveries = perDelivery(wanted);
  const rows = await tx.query<TrackedRow>(writeHits, [
    uuidArray(deliveries.map((one) => one.projectId)),
    uuidArray(deliveries.map((one) => one.userId)),
    uuidArray(deliveries.map((one) => one.notificationId)),
    uuidArray(deliveries.map((one) => one.broadcastId)),
    textArray(deliveries.map((one) => one.channel)),
    deliveries.map((one) => one.opens.length),
    deliveries.map((one) => timeOf(one.opens)),
    deliveries.map((one) => one.clicks.length),
    deliveries.map((one) => timeOf(one.clicks)),
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

type KnownDelivery = HitDelivery & { row: TrackedRow };

interface TrackedRow {
  notification_id: string;
  channel: string;
  provider: string | null;
  /** Including these. */
  opens: number;
  clicks: number;
}

/** The hits that their projects track. */
async function wantedOf(tx: Queryable, hits: readonly Hit[]): Promise<Hit[]> {
  const projectIds = [...new Set(hits.map(({ projectId }) => projectId))];
  const tracking = await trackingOf(tx, projectIds);
  return hits.filter(
    ({ kind, projectId }) => tracking.get(projectId)?.[kind === 'open' ? 'opens' : 'clicks'],
  );
}

/**
 * Groups hits by delivery, because a statement can update a row only once. Sorted like outcomes, so that the
 * two cannot deadlock.
 */
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

function timeOf([first]: readonly Hit[]): Date | null {
  return first === undefined ? null : new Date(first.atMs);
}

function openEvents(known: readonly KnownDelivery[]): NewEvent[] {
  const first = known.filter(({ opens, row }) => opens.length > 0 && row.opens === opens.length);
  return [...Map.groupBy(first, ({ broadcastId }) => broadcastId)].map(([broadcastId, group]) => ({
    projectId: group[0]?.projectId ?? '',
    type: 'delivery.opened',
    broadcastId,
    userIds: group.map(({ userId }) => userId),
    details: group.map(({ row }) => ({ level: 'info', context: contextOf(row) })),
  }));
}

/** Each event has its own row, so that the index finds it when the user is purged. */
function clickEvents({ projectId, broadcastId, userId, clicks, row }: KnownDelivery): NewEvent[] {
  const before = row.clicks - clicks.length;
  const room = Math.max(0, MAX_CLICK_EVENTS - before);
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

function contextOf({ channel, provider }: TrackedRow): Record<string, string> {
  return { channel, ...(provider === null ? {} : { provider }) };
}

// Primary keys of broadcasts, users, deliveries and notifications. A hit can arrive before the outcome of its
// delivery: then the row is inserted here without an attempt, unless nothing of the broadcast is pending,
// because then every delivery has its row. The lateral joins force look-ups: joins and `exists` were planned
// as hashes of whole tables while these were empty.
const writeHits = sql(
  'record_hits',
  `with ours as (
    select g.*, b.pending
    from unnest(
      $1::uuid[], $2::uuid[], $3::uuid[], $4::uuid[], $5::text[], $6::int[], $7::timestamptz[], $8::int[],
      $9::timestamptz[]
    ) as g (project_id, user_id, notification_id, broadcast_id, channel, opens, opened_at, clicks, clicked_at)
    cross join lateral (select project_id, pending from broadcasts where id = g.broadcast_id limit 1) b
    cross join lateral (select deleted_at from users where id = g.user_id limit 1) u
    where b.project_id = g.project_id and u.deleted_at is null
  ),
  known as materialized (
    select *
    from ours o
    where coalesce(
      (
        select true
        from deliveries d
        where d.user_id = o.user_id and d.notification_id = o.notification_id and d.channel = o.channel
        limit 1
      ),
      pending > 0 and (
        select true
        from notifications n
        where n.user_id = o.user_id and n.id = o.notification_id
        limit 1
      )
    )
  )
  insert into deliveries as d (
    user_id, notification_id, channel, broadcast_id, state, attempts, first_attempt_at, last_attempt_at,
    opens, opened_at, clicks, clicked_at
  )
  select user_id, notification_id, channel, broadcast_id, 'retrying', 0, now(), now(),
    opens, opened_at, clicks, clicked_at
  from known
  order by user_id, notification_id, channel
  on conflict (user_id, notification_id, channel) do update
  set opens = d.opens + excluded.opens,
    opened_at = coalesce(d.opened_at, excluded.opened_at),
    clicks = d.clicks + excluded.clicks,
    clicked_at = coalesce(d.clicked_at, excluded.clicked_at)
  returning notification_id, channel, provider, opens, clicks`,
);
