import type { RecipientGroup } from '../../../contract/broadcast.ts';
import { textArray, uuidArray } from '../../../db/arrays.ts';
import { type Queryable, type Statement, sql } from '../../../db/client.ts';
import { notificationId } from '../../../lib/ids.ts';
import { assertCompleted, completeSql } from '../../../queue/complete.ts';
import type { BroadcastContent } from '../../ground/bus/messages.ts';
import { type EventDetails, type NewEvent, newEventId } from '../../ground/events/record.ts';
import { CREATED_AND_SENT } from '../../ground/events/stored-types.ts';
import type { Person } from '../../people/users/plan.ts';
import { broadcastProcessed, errorsJson } from '../ledger/finish.ts';
import { planJson, type StoredChannelPlan } from '../ledger/page-plan.ts';
import { HIDDEN, placeNow } from '../notifications/row.ts';

/*
 * What a fan-out writes, for each broadcast or page of one:
 *   notifications    a row for each user
 *   broadcast_users  the list of the users, with what is planned for them on other channels
 *   events           notification.created and delivery.sent of the inbox (one row for both),
 *                    broadcast.processed, and those of other channels
 *   broadcasts       status, total, failures, and how many deliveries are pending and awaited
 *
 * `writeFanOut` does it in the transaction of the jobs. The statement that accepts a broadcast
 * (accept/write-accepted.ts) does it for users who are known at that time, with `inboxRows`.
 */

/** A broadcast to be fanned out, or a page of it. */
export interface BroadcastPage {
  id: string;
  projectId: string;
  category: string | null;
  topic: string | null;
  /** What inboxes show; undefined on later pages, which do not load it. */
  content: BroadcastContent | undefined;
  /** The template of its texts, packed; null if they are the same for all users. */
  template: Buffer | null;
  /** What its texts add to the weight of its jobs. */
  textWeight: number;
  /** The trace context that its jobs continue. */
  traceparent: string | undefined;
  /**
   * Page 0 has the named recipients or, if there are none, the first users of the group; it sets the figures
   * of the broadcast. Later pages have users of the group, and add to the figures.
   */
  page: number;
  /** It was cancelled when it was loaded: it gets no more users. */
  cancelled: boolean;
  /** Whom it names, if it was cancelled before it was sent. */
  unsent: readonly Person[];
  /** The event `broadcast.created` is still missing: an earlier release accepted it. */
  lacksCreated: boolean;
  /** It was sent later than it was accepted, so its notifications arrive later than their ids say. */
  scheduled: boolean;
  /** The named recipients, and the index of each in the request. */
  people: readonly Person[];
  positions: readonly number[];
  /** The indexes of recipients that were erased since the broadcast was accepted. */
  erased: readonly number[];
  /** Set if the broadcast also goes to a group of users. A page has those after the user `after`. */
  group: { of: RecipientGroup; onThisPage: boolean; after: string | undefined } | undefined;
}

/** The same with its users. */
export interface AddressedPage extends BroadcastPage {
  /** Each once, ascending; with the ids of their notifications in the same order. */
  userIds: readonly string[];
  notificationIds: readonly string[];
  /** The `texts` of the notifications, in the same order; empty if they are those of the broadcast. */
  texts: readonly string[];
  /** How many recipients cannot be used. */
  unusable: number;
  /** The problems of recipients, also of those that can be used. */
  errors: readonly string[];
  /** Another page follows: with the users of the group behind this user, or with the first ones. */
  next: { after: string | undefined } | undefined;
}

/** Users in their order, so that rows are inserted into the primary key from left to right. */
export function withNotifications(
  broadcastId: string,
  users: Iterable<string>,
): Pick<AddressedPage, 'userIds' | 'notificationIds' | 'texts'> {
  const userIds = [...users].sort();
  const notificationIds = userIds.map((userId) => notificationId(broadcastId, userId));
  return { userIds, notificationIds, texts: [] };
}

/** A page that is to be written. */
export interface FannedOut extends AddressedPage {
  /** Deliveries without an outcome, and what has to happen before the broadcast is processed. */
  pending: number;
  awaited: number;
  /** The users whose inbox does not show it, or not yet. */
  hidden: ReadonlySet<string>;
  channels: readonly StoredChannelPlan[];
}

/**
 * How rows are inserted: `plain` takes a fifth less time, and fails where a notification exists already;
 * `careful` leaves such rows as they are.
 */
export type Insertion = 'plain' | 'careful';

/** Thrown when a broadcast was cancelled after it was loaded: nothing is written, and it is loaded again. */
export class CancelledMeanwhile extends Error {}

/**
 * Writes everything that a fan-out makes of its broadcasts, and ends their jobs, by one statement: each list
 * of users is sent once for all its rows. `events` are those of other channels. Returns the time of the
 * notifications. Throws `LeaseLost` if a job is no longer held, and `CancelledMeanwhile`.
 */
export async function writeFanOut(
  tx: Queryable,
  {
    broadcasts,
    events,
    brand,
  }: { broadcasts: readonly FannedOut[]; events: readonly NewEvent[]; brand: string },
  jobs: { ids: readonly number[]; leaseId: string },
  insertion: Insertion,
): Promise<Date> {
  // Ids rise: events are listed in the order of these lines.
  const created = broadcasts.map(newEventId);
  const notified = broadcasts.map(newEventId);
  const further = events.map(newEventId);
  const processed = broadcasts.map(newEventId);
  const [row] = await tx.query<{ completed: number; cancelled: number; sent_at: Date }>(
    STATEMENTS[insertion],
    [
      uuidArray(broadcasts.map((one) => one.id)),
      uuidArray(broadcasts.map((one) => one.projectId)),
      textArray(broadcasts.map((one) => one.category)),
      textArray(broadcasts.map((one) => one.topic)),
      textArray(broadcasts.map((one) => uuidArray(one.userIds))),
      textArray(broadcasts.map((one) => uuidArray(one.notificationIds))),
      broadcasts.map((one) => one.unusable),
      broadcasts.map((one) => one.pending),
      textArray(broadcasts.map(errorsOf)),
      uuidArray(created),
      uuidArray(notified),
      uuidArray(processed),
      textArray(broadcasts.map(processedDetails)),
      jobs.ids,
      jobs.leaseId,
      textArray(broadcasts.map(hiddenArray)),
      uuidArray(events.map((event) => event.projectId)),
      uuidArray(further),
      textArray(events.map((event) => event.type)),
      uuidArray(events.map((event) => event.broadcastId ?? '')),
      textArray(events.map((event) => uuidArray(event.userIds ?? []))),
      textArray(events.map((event) => JSON.stringify(event.details))),
      broadcasts.map((one) => one.page),
      textArray(broadcasts.map((one) => planJson(one.channels))),
      broadcasts.map((one) => one.awaited),
      JSON.stringify(inboxSentDetails(brand)),
      broadcasts.map((one) => one.scheduled),
      textArray(broadcasts.map((one) => textArray(one.texts))),
      broadcasts.map((one) => one.lacksCreated),
    ],
  );
  assertCompleted(jobs.ids, row?.completed ?? 0);
  if (row?.cancelled !== broadcasts.filter(({ cancelled }) => cancelled).length)
    throw new CancelledMeanwhile('a broadcast was cancelled while it was fanned out');
  return row?.sent_at ?? new Date();
}

/** The details of `delivery.sent` in the inbox, which shows it at once. Its provider is the brand. */
export function inboxSentDetails(brand: string): EventDetails {
  return { level: 'info', context: { channel: 'in_app', provider: brand, attempt: 1 } };
}

function errorsOf({ errors }: FannedOut): string | null {
  return errors.length === 0 ? null : errorsJson(errors);
}

/** Whether the notification is hidden, for each of the users; empty if it is for none of them. */
function hiddenArray({ userIds, hidden }: FannedOut): string {
  return hidden.size === 0 ? '{}' : `{${userIds.map((userId) => hidden.has(userId)).join(',')}}`;
}

/**
 * The details of `broadcast.processed`; null while something is awaited, and for later pages, which are
 * counted down (topic-pages.ts).
 */
function processedDetails(one: FannedOut): string | null {
  const { projectId, id, page, userIds, unusable, pending, awaited } = one;
  if (awaited > 0 || page > 0) return null;
  const total = userIds.length + unusable;
  return JSON.stringify(broadcastProcessed(projectId, id, { total, failures: unusable, pending }).details);
}

// now() is the time of the transaction: one time for all its rows.
export const SENT_AT = `date_trunc('milliseconds', now())`;

/**
 * The notifications and the lists of users, as common table expressions. `from` has the columns id, category,
 * topic, page, user_ids, notification_ids, hidden (empty if none is), texts (likewise), plan and scheduled.
 */
function fanOutRows(from: string, insertion: Insertion): string {
  const onConflict = (key: string) =>
    insertion === 'careful' ? `order by ${key} on conflict do nothing` : '';
  return `notified as (
    insert into notifications
      (user_id, id, broadcast_id, texts, sent_at, category, topic, discarded_at, place, updated_at)
    select n.user_id, n.id, f.id, n.texts, ${SENT_AT}, category, topic, case when n.hidden then ${HIDDEN} end,
      case when scheduled and n.hidden is not true then ${placeNow('n.id')} end,
      case when scheduled and n.hidden is not true then ${SENT_AT} end
    from ${from} f, unnest(user_ids, notification_ids, hidden, texts) as n (user_id, id, hidden, texts)
    ${onConflict('n.user_id, n.id')}
  ),
  listed as (
    insert into broadcast_users (broadcast_id, page, user_ids, plan)
    select id, page, user_ids, plan
    from ${from}
    where user_ids <> '{}'
    ${onConflict('id, page')}
  )`;
}

/**
 * The same rows of broadcasts that only the inbox shows, to all their users, at once and with one text.
 * `from` has the columns id, category, topic, user_ids and notification_ids.
 */
export function inboxRows(from: string): string {
  return `notified as (
    insert into notifications (user_id, id, broadcast_id, sent_at, category, topic)
    select n.user_id, n.id, f.id, ${SENT_AT}, category, topic
    from ${from} f, unnest(user_ids, notification_ids) as n (user_id, id)
  ),
  listed as (
    insert into broadcast_users (broadcast_id, page, user_ids)
    select id, 0, user_ids
    from ${from}
  )`;
}

// Broadcasts and jobs by primary key.
const fanOutText = (insertion: Insertion) => `
  with input as materialized (
    select id, project_id, category, topic, user_ids::uuid[], notification_ids::uuid[], unusable, pending,
      errors::json, created_event, notified_event, processed_event, processed::json, hidden::boolean[], page,
      plan::json, awaited, scheduled, texts::text[], lacks_created
    from unnest($1::uuid[], $2::uuid[], $3::text[], $4::text[], $5::text[], $6::text[], $7::int[], $8::int[],
        $9::text[], $10::uuid[], $11::uuid[], $12::uuid[], $13::text[], $16::text[], $23::int[], $24::text[],
        $25::int[], $27::boolean[], $28::text[], $29::boolean[])
      as b (id, project_id, category, topic, user_ids, notification_ids, unusable, pending,
        errors, created_event, notified_event, processed_event, processed, hidden, page, plan,
        awaited, scheduled, texts, lacks_created)
  ),
  completed as (
    ${completeSql('$14', '$15')}
  ),
  ${fanOutRows('input', insertion)},
  recorded as (
    insert into events (project_id, id, type, broadcast_id, user_ids, details)
    select project_id, event.id, event.type, input.id, event.user_ids, event.details
    from input, lateral (
      values (created_event, 'broadcast.created', null::uuid[], null::json, lacks_created),
        (notified_event, '${CREATED_AND_SENT}', user_ids, $26::json, user_ids <> '{}' and hidden = '{}'),
        (notified_event, 'notification.created', user_ids, null, user_ids <> '{}' and hidden <> '{}'),
        (processed_event, 'broadcast.processed', null, processed, processed is not null)
    ) as event (id, type, user_ids, details, happened)
    where happened
    union all
    select project_id, id, type, broadcast_id, user_ids::uuid[], details::json
    from unnest($17::uuid[], $18::uuid[], $19::text[], $20::uuid[], $21::text[], $22::text[])
      as further (project_id, id, type, broadcast_id, user_ids, details)
  ),
  progressed as (
    update broadcasts
    set status = case
        when page > 0 then broadcasts.status
        when processed is null then 'processing'
        else 'processed'
      end,
      total = case when page = 0 then 0 else broadcasts.total end + cardinality(user_ids) + unusable,
      failures = case when page = 0 then 0 else broadcasts.failures end + unusable,
      pending = case when page = 0 then 0 else broadcasts.pending end + input.pending,
      awaited = case when page = 0 then 0 else broadcasts.awaited end + input.awaited,
      errors = case
        when page > 0 or input.errors is null then broadcasts.errors
        when broadcasts.errors is null then input.errors
        else (broadcasts.errors::jsonb || input.errors::jsonb)::json
      end,
      waiting = null
    from input
    where broadcasts.id = input.id
    returning cancelled_at
  )
  select (select count(*)::int from completed) as completed,
    (select count(cancelled_at)::int from progressed) as cancelled, ${SENT_AT} as sent_at`;

const STATEMENTS: Record<Insertion, Statement> = {
  plain: sql('fan_out', fanOutText('plain')),
  careful: sql('fan_out_careful', fanOutText('careful')),
};
