import type { Config } from '../../../config.ts';
import { uuidArray } from '../../../db/arrays.ts';
import { type Database, type Queryable, type Statement, sql } from '../../../db/client.ts';
import {
  createPartitions,
  dropPartitions,
  hasFirstPartition,
  type Kept,
  rangesWithoutDrop,
} from '../../../db/partitions.ts';
import type { Clock } from '../../../lib/clock.ts';
import { OLDEST } from '../../../lib/cursor.ts';
import { firstIdAt, notificationId } from '../../../lib/ids.ts';
import type { Sealer } from '../../../lib/seal.ts';
import { deleteNotifications } from './delete-rows.ts';
import { purgeUsers, TEXTS_OF_USERS } from './purge-users.ts';

const DAY_MS = 24 * 3_600_000;
// Long enough to notice a failure and replay it.
const WEBHOOK_MESSAGES_DAYS = 30;
// As long as a deleted user can be restored: when a user is erased, no import from before the deletion is
// left.
const IMPORTS_DAYS = 7;
// Long enough to see in a user's export why a device gets nothing.
const DISCARDED_TOKENS_DAYS = 30;
// How long a broadcast shows the depth of the run that sent it (decision 39). After that, its events count as
// those of a first run.
const CAUSES_DAYS = 30;
const ROWS = 1_000;
const BROADCASTS = 500;
// Pages of one transaction, as their lists of users take room: 16 bytes for each. A page has up to 1000
// users, but that of most broadcasts has one.
const PAGES = 500;
const PAGES_BYTES = 16 * 5_000;
// Broadcasts of an expired month that are kept, and their users: copied while deliveries wait for it.
const MOST_LEFT = 1_000;
const MOST_USERS_LEFT = 10_000;

export interface Retention {
  db: Pick<Database, 'query' | 'transaction'>;
  clock: Clock;
  sealer: Sealer;
  config: Pick<Config, 'EVENTS_RETENTION_DAYS' | 'NOTIFICATIONS_RETENTION_DAYS'>;
}

/**
 * Erases users whose grace period is over, and deletes whatever else has a retention that is over: events,
 * notifications, discarded tokens, messages of webhooks, imports, runs of workflows and more. Creates the
 * partitions of the coming months. Works in small transactions, so that it holds no lock for long and the
 * WAL does not swell. A purge that fails does not stop the others: all failures are thrown at the end.
 * Returns early when the signal is aborted.
 */
export async function purgeExpired(retention: Retention, signal: AbortSignal): Promise<void> {
  const failures: unknown[] = [];
  for (const purgeBatch of purges(retention, signal)) {
    try {
      while (!signal.aborted && (await purgeBatch()));
    } catch (error) {
      failures.push(error);
    }
  }
  if (failures.length > 0) throw new AggregateError(failures, 'some expired rows could not be deleted');
}

/** Deletes a batch. Returns whether there may be more. */
type Purge = () => Promise<boolean>;

function purges({ db, clock, sealer, config }: Retention, signal: AbortSignal): Purge[] {
  const before = (days: number) => firstIdAt(Math.max(0, clock.now() - days * DAY_MS));
  /** Runs a statement whose last value is the number of rows to delete. */
  const rows =
    (statement: Statement, ...values: readonly unknown[]): Purge =>
    async () =>
      (await db.query(statement, [...values, ROWS])).length === ROWS;
  const { EVENTS_RETENTION_DAYS: eventDays, NOTIFICATIONS_RETENTION_DAYS: notificationDays } = config;
  return [
    () => purgeUsers({ db, clock, sealer, signal }),
    rows(deleteOldMessages, before(WEBHOOK_MESSAGES_DAYS)),
    rows(deleteLeftMessages),
    rows(deleteReplays),
    rows(deleteWebhooks),
    rows(deleteImports, before(IMPORTS_DAYS)),
    rows(deleteDiscardedTokens, new Date(clock.now() - DISCARDED_TOKENS_DAYS * DAY_MS)),
    rows(deleteCauses, before(CAUSES_DAYS)),
    rows(deleteThrottles, new Date(clock.now())),
    once(() => createPartitions(db, 'events', clock.now())),
    once(() => createPartitions(db, 'deliveries', clock.now())),
    ...(eventDays > 0
      ? [
          once(() => dropPartitions(db, 'events', before(eventDays))),
          () => purgeFirstEvents(db, before(eventDays)),
          rows(deleteEventsWithoutMonth, before(eventDays)),
          rows(deleteRuns, new Date(clock.now() - eventDays * DAY_MS)),
        ]
      : []),
    ...(notificationDays > 0
      ? [
          () => purgeBroadcasts(db, clock.now() - notificationDays * DAY_MS),
          once(() => dropPartitions(db, 'deliveries', before(notificationDays), keptDeliveries)),
          rows(deleteDeliveriesWithoutMonth, before(notificationDays)),
        ]
      : []),
  ];
}

const once =
  (work: () => Promise<void>): Purge =>
  async () => {
    await work();
    return false;
  };

/** Deletes events of the first partition, which contains more than a month, until it is dropped. */
async function purgeFirstEvents(db: Pick<Database, 'query'>, before: string): Promise<boolean> {
  if (!(await hasFirstPartition(db, 'events'))) return false;
  return (await db.query(deleteEvents, [before, ROWS])).length === ROWS;
}

/**
 * Deletes pages of expired broadcasts, or broadcasts without pages. One with pending deliveries stays, and
 * one that was scheduled counts from the time at which it was sent.
 */
async function purgeBroadcasts(
  db: Pick<Database, 'query' | 'transaction'>,
  beforeMs: number,
): Promise<boolean> {
  const expired = [firstIdAt(Math.max(0, beforeMs)), BROADCASTS, new Date(beforeMs)];
  if (await purgePages(db, expired)) return true;
  return (await db.query(deleteBroadcasts, expired)).length > 0;
}

/**
 * What is kept of the deliveries of an expired month: those of broadcasts that are kept longer, because they
 * were sent long after their request, or are not processed. They are few; otherwise the month waits.
 */
async function keptDeliveries(
  on: Queryable,
  { from, to }: { from: string | null; to: string },
): Promise<Kept> {
  const range = [from ?? OLDEST, to];
  const [left] = await on.query<{ broadcasts: number; users: number }>(countLeft, [...range, MOST_LEFT + 1]);
  if (left === undefined || left.broadcasts === 0) return 'none';
  if (left.broadcasts > MOST_LEFT || left.users > MOST_USERS_LEFT) return 'all';
  return { rows: deliveriesLeft, values: range };
}

/** Deletes pages of users with their notifications, and their deliveries unless their month is dropped. */
function purgePages(db: Pick<Database, 'transaction'>, expired: readonly unknown[]): Promise<boolean> {
  return db.transaction(async (tx) => {
    const pages = await tx.query<Page>(claimPages, [...expired, PAGES, PAGES_BYTES]);
    if (pages.length === 0) return false;
    const rowByRow = await rangesWithoutDrop(tx, 'deliveries');
    const texts = pages.filter((page) => page.has_texts);
    if (texts.length > 0)
      await tx.query(TEXTS_OF_USERS, [
        uuidArray(texts.flatMap((page) => page.user_ids.map(() => page.broadcast_id))),
        uuidArray(texts.flatMap((page) => page.user_ids)),
      ]);
    await tx.query(deleteNotifications, idsOf(pages));
    const undropped = pages.filter((page) => rowByRow.has(page.broadcast_id));
    if (undropped.length > 0) await tx.query(deleteDeliveries, idsOf(undropped));
    await tx.query(deletePages, [pages.map((page) => page.broadcast_id), pages.map((page) => page.page)]);
    return true;
  });
}

/** The ids of users and of their notifications. */
function idsOf(pages: readonly Page[]): string[] {
  const ids = pages.flatMap((page) =>
    page.user_ids.map((userId) => notificationId(page.broadcast_id, userId)),
  );
  return [uuidArray(pages.flatMap((page) => page.user_ids)), uuidArray(ids)];
}

interface Page {
  broadcast_id: string;
  page: number;
  user_ids: string[];
  /** A template made texts for its broadcast. */
  has_texts: boolean;
}

// Primary keys of webhooks and of webhook_messages (webhook_id, id). Messages that are retried or replayed
// now stay.
const deleteOldMessages = sql(
  'purge_webhook_messages',
  `delete from webhook_messages
  where ctid = any (array(
    select m.ctid
    from webhooks w
    cross join lateral (
      select ctid
      from webhook_messages
      where webhook_id = w.id and id < $1 and state <> 'retrying'
      order by id
      limit $2
      for update skip locked
    ) m
    limit $2
  ))
  returning 1`,
);
// Index webhooks_deleted, like the following.
const deleteLeftMessages = sql(
  'purge_messages_of_deleted_webhooks',
  `delete from webhook_messages
  where ctid = any (array(
    select m.ctid
    from webhooks w
    cross join lateral (
      select ctid
      from webhook_messages
      where webhook_id = w.id
      limit $1
      for update skip locked
    ) m
    where w.deleted_at is not null
    limit $1
  ))
  returning 1`,
);
const deleteReplays = sql(
  'purge_webhook_replays',
  `delete from webhook_replays
  where ctid = any (array(
    select r.ctid
    from webhooks w
    cross join lateral (
      select ctid from webhook_replays where webhook_id = w.id limit $1 for update skip locked
    ) r
    where w.deleted_at is not null
    limit $1
  ))
  returning 1`,
);
// Remaining jobs find no webhook and end.
const deleteWebhooks = sql(
  'purge_webhooks',
  `delete from webhooks
  where id = any (array(
    select w.id
    from webhooks w
    where w.deleted_at is not null
      and (select m.webhook_id from webhook_messages m where m.webhook_id = w.id limit 1) is null
    limit $1
    for update of w skip locked
  ))
  returning 1`,
);
// Primary keys.
const deleteImports = sql(
  'purge_imports',
  `with expired as (
    delete from user_imports
    where id = any (array(
      select id
      from user_imports
      where id < $1 and status = 'processed'
      order by id
      limit $2
      for update skip locked
    ))
    returning id
  ),
  pages as (
    delete from user_import_pages
    where import_id in (select id from expired)
  )
  select 1 from expired`,
);
// Index tokens_discarded. A token that is being saved again stays.
const deleteDiscardedTokens = sql(
  'purge_discarded_tokens',
  `delete from tokens
  where ctid = any (array(
    select ctid
    from tokens
    where discarded_at < $1
    order by discarded_at
    limit $2
    for update skip locked
  ))
  returning 1`,
);
// Primary key.
const deleteCauses = sql(
  'purge_workflow_broadcasts',
  `delete from workflow_broadcasts
  where broadcast_id = any (array(
    select broadcast_id
    from workflow_broadcasts
    where broadcast_id < $1
    order by broadcast_id
    limit $2
    for update skip locked
  ))
  returning 1`,
);
// Index workflow_runs_ended, and primary keys.
const deleteRuns = sql(
  'purge_workflow_runs',
  `with expired as (
    delete from workflow_runs
    where id = any (array(
      select id
      from workflow_runs
      where completed_at < $1
      order by completed_at
      limit $2
      for update skip locked
    ))
    returning id
  ),
  steps as (
    delete from workflow_run_steps
    where run_id = any (array(select id from expired))
  ),
  digests as (
    delete from workflow_digests
    where run_id = any (array(select id from expired))
  ),
  items as (
    delete from workflow_digest_items
    where run_id = any (array(select id from expired))
  )
  select 1 from expired`,
);
// Index workflow_throttles_expired.
const deleteThrottles = sql(
  'purge_workflow_throttles',
  `delete from workflow_throttles
  where key = any (array(
    select key
    from workflow_throttles
    where expires_at < $1
    order by expires_at
    limit $2
    for update skip locked
  ))
  returning 1`,
);
// Primary keys of projects and of events_first (project_id, id). By ctid: one statement, and one partition.
const deleteEvents = sql(
  'purge_events',
  `delete from events_first
  where ctid = any (array(
    select e.ctid
    from projects p
    cross join lateral (
      select ctid
      from events_first
      where project_id = p.id and id < $1
      order by id
      limit $2
      for update skip locked
    ) e
    limit $2
  ))
  returning 1`,
);
// Rows whose month was dropped before they came, with a project from another cell for example. Nearly always
// there are none.
const deleteEventsWithoutMonth = sql(
  'purge_events_without_month',
  `delete from events_default
  where ctid = any (array(
    select ctid from events_default where id < $1 limit $2 for update skip locked
  ))
  returning 1`,
);
// Primary key of broadcasts. As with months, the deliveries of a broadcast that is kept longer are kept.
const deleteDeliveriesWithoutMonth = sql(
  'purge_deliveries_without_month',
  `delete from deliveries_default
  where ctid = any (array(
    select d.ctid
    from deliveries_default d
    where d.notification_id < $1
      and (select b.id from broadcasts b where b.id = d.broadcast_id) is null
    limit $2
    for update of d skip locked
  ))
  returning 1`,
);
const expired = `select b.id
    from projects p
    cross join lateral (
      select id
      from broadcasts
      where project_id = p.id and id < $1 and status = 'processed' and pending <= 0
        and (send_at is null or send_at < $3)
      order by id
      limit $2
    ) b
    limit $2`;
// Index broadcasts_of_project (project_id, id); primary keys of broadcast_users (broadcast_id, page) and
// broadcast_texts. The size of a list that is stored apart is known without reading it. Skips pages that
// another node is purging.
const claimPages = sql(
  'purge_claim_pages',
  `with expired as materialized (
    ${expired}
  ),
  near as materialized (
    select u.broadcast_id, u.page, pg_column_size(u.user_ids) as bytes
    from expired
    join broadcast_users u on u.broadcast_id = expired.id
    limit $4
  ),
  chosen as materialized (
    select broadcast_id, page
    from (
      select broadcast_id, page, sum(bytes) over (rows unbounded preceding) - bytes as before
      from near
    ) counted
    where before < $5
  )
  select u.broadcast_id, u.page, u.user_ids,
    (select true from broadcast_texts where broadcast_id = u.broadcast_id limit 1) is not null as has_texts
  from chosen
  join broadcast_users u using (broadcast_id, page)
  for update of u skip locked`,
);
const deleteDeliveries = sql(
  'purge_deliveries',
  `with gone as materialized (
    select d.user_id, d.notification_id, d.channel
    from (select * from unnest($1::uuid[], $2::uuid[]) as g (user_id, id) order by user_id, id) g
    cross join lateral (
      select user_id, notification_id, channel
      from deliveries d
      where d.user_id = g.user_id and d.notification_id = g.id
      order by channel
      for update
    ) d
  )
  delete from deliveries d
  using gone
  where d.user_id = gone.user_id and d.notification_id = gone.notification_id and d.channel = gone.channel`,
);
// Primary key.
const countLeft = sql(
  'broadcasts_left_of_month',
  `select count(*)::int as broadcasts, coalesce(sum(total), 0)::int as users
  from (
    select total
    from broadcasts
    where id >= $1 and id < $2
    limit $3
  ) b`,
);
/** SQL that selects the deliveries in a partition whose broadcasts exist. Primary keys. */
const deliveriesLeft = (partition: string) =>
  `select d.*
  from broadcasts b
  join broadcast_users u on u.broadcast_id = b.id
  cross join lateral unnest(u.user_ids) as member (user_id)
  join ${partition} d on d.user_id = member.user_id and d.broadcast_id = b.id
  where b.id >= $1 and b.id < $2`;
const deletePages = sql(
  'purge_pages',
  `delete from broadcast_users u
  using unnest($1::uuid[], $2::int[]) as d (broadcast_id, page)
  where u.broadcast_id = d.broadcast_id and u.page = d.page`,
);
// Primary keys of broadcasts, broadcast_users and broadcast_texts. A broadcast whose pages another node is
// purging stays.
const deleteBroadcasts = sql(
  'purge_broadcasts',
  `with deleted as (
    delete from broadcasts b
    where b.id = any (array(
      select id from broadcasts where id = any (array(
        ${expired}
      ))
      order by id
      for update
    ))
      and (select u.broadcast_id from broadcast_users u where u.broadcast_id = b.id limit 1) is null
    returning id
  ),
  texts as (
    delete from broadcast_texts
    where broadcast_id = any (array(select id from deleted))
  )
  select 1 from deleted`,
);
