import { textArray, uuidArray } from '../../../db/arrays.ts';
import { type Queryable, type Statement, sql } from '../../../db/client.ts';
import { assertSettled, settled } from '../../../queue/settle.ts';
import { type NewEvent, newEventId } from '../../ground/events/record.ts';
import { CREATED_AND_SENT } from '../../ground/events/stored-types.ts';
import { broadcastProcessed } from '../ledger/finish.ts';
import { planJson, type StoredChannelPlan } from '../ledger/page-plan.ts';
import { HELD_BACK } from '../notifications/row.ts';
import { inboxSentDetails } from './inbox-sent.ts';

/** A broadcast, or a page of it, whose users are known and whose deliveries are planned. */
interface FannedOut {
  id: string;
  projectId: string;
  /** Its first page says all that is known of it; a later one adds to that. */
  page: number;
  category: string | null;
  topic: string | null;
  /** Ascending, each once; and their notifications' ids in the same order. */
  userIds: readonly string[];
  notificationIds: readonly string[];
  /** How many recipients cannot be used at all. */
  unusable: number;
  errors: readonly string[];
  /** Deliveries that have not ended, and what has to happen before it is processed. */
  pending: number;
  awaited: number;
  /** The users whose inbox does not show it, or not yet. */
  heldBack: ReadonlySet<string>;
  plan: readonly StoredChannelPlan[];
}

/**
 * How notifications are inserted: as if none were there, which spares a fifth of the time, or with a look at
 * each.
 */
export type Insertion = 'plain' | 'careful';

/**
 * Writes all that a fan-out makes of its broadcasts, and ends their jobs, by one statement: each list of
 * users travels, and is read, once for the notifications, the broadcast's list and the event. `events` are
 * further ones of these broadcasts. Answers the time of the notifications. Throws `LeaseLost` when a job is
 * no longer ours.
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
  // Ids rise: events are listed in the order in which these lines make them.
  const created = broadcasts.map(newEventId);
  const notified = broadcasts.map(newEventId);
  const further = events.map(newEventId);
  const processed = broadcasts.map(newEventId);
  const [row] = await tx.query<{ settled: number; sent_at: Date }>(statements[insertion], [
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
    textArray(broadcasts.map(heldBackOf)),
    uuidArray(events.map((event) => event.projectId)),
    uuidArray(further),
    textArray(events.map((event) => event.type)),
    uuidArray(events.map((event) => event.broadcastId ?? '')),
    textArray(events.map((event) => uuidArray(event.userIds ?? []))),
    textArray(events.map((event) => JSON.stringify(event.details))),
    broadcasts.map((one) => one.page),
    textArray(broadcasts.map((one) => planJson(one.plan))),
    broadcasts.map((one) => one.awaited),
    JSON.stringify(inboxSentDetails(brand)),
  ]);
  assertSettled(jobs.ids, row?.settled ?? 0);
  return row?.sent_at ?? new Date();
}

function errorsOf({ errors }: FannedOut): string | null {
  return errors.length === 0 ? null : JSON.stringify(errors.map((message) => ({ message })));
}

/** For each of the users whether the inbox holds it back; nothing where it does for nobody. */
function heldBackOf({ userIds, heldBack }: FannedOut): string {
  return heldBack.size === 0 ? '{}' : `{${userIds.map((userId) => heldBack.has(userId)).join(',')}}`;
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

// Broadcasts and jobs by primary key. now() is the time of the transaction: one time for all its rows.
const write = (onConflict: string) => `
  with input as materialized (
    select id, project_id, category, topic, user_ids::uuid[], notification_ids::uuid[], unusable, pending, errors::json,
      created_event, notified_event, processed_event, processed::json, held_back::boolean[], page, plan::json, awaited,
      date_trunc('milliseconds', now()) as sent_at
    from unnest($1::uuid[], $2::uuid[], $3::text[], $4::text[], $5::text[], $6::text[], $7::int[], $8::int[], $9::text[],
        $10::uuid[], $11::uuid[], $12::uuid[], $13::text[], $16::text[], $23::int[], $24::text[], $25::int[])
      as b (id, project_id, category, topic, user_ids, notification_ids, unusable, pending, errors,
        created_event, notified_event, processed_event, processed, held_back, page, plan, awaited)
  ),
  settled as (
    ${settled('$14', '$15')}
  ),
  notified as (
    insert into notifications (user_id, id, broadcast_id, sent_at, category, topic, discarded_at)
    select n.user_id, n.id, input.id, sent_at, category, topic, case when n.held_back then ${HELD_BACK} end
    from input, unnest(user_ids, notification_ids, held_back) as n (user_id, id, held_back)
    ${onConflict}
  ),
  reached as (
    insert into broadcast_users (broadcast_id, page, user_ids, plan)
    select id, page, user_ids, plan
    from input
    where user_ids <> '{}'
    on conflict do nothing
  ),
  recorded as (
    insert into events (project_id, id, type, broadcast_id, user_ids, details)
    select project_id, event.id, event.type, input.id, event.user_ids, event.details
    from input, lateral (
      values (created_event, 'broadcast.created', null::uuid[], null::json, page = 0),
        (notified_event, '${CREATED_AND_SENT}', user_ids, $26::json, user_ids <> '{}' and held_back = '{}'),
        (notified_event, 'notification.created', user_ids, null, user_ids <> '{}' and held_back <> '{}'),
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
      errors = case when page = 0 then input.errors else broadcasts.errors end
    from input
    where broadcasts.id = input.id
  )
  select (select count(*)::int from settled) as settled, date_trunc('milliseconds', now()) as sent_at`;

const statements: Record<Insertion, Statement> = {
  plain: sql('fan_out', write('')),
  careful: sql('fan_out_again', write('on conflict do nothing')),
};
