import { byteaArray, textArray, uuidArray } from '../../../db/arrays.ts';
import { type Queryable, sql } from '../../../db/client.ts';
import { newEventId } from '../../ground/events/record.ts';
import { CREATED_AND_SENT } from '../../ground/events/stored-types.ts';
import { type IdempotencyKey, STORED_MS } from '../../ground/requests/idempotency.ts';
import type { PackedBroadcast } from '../broadcasts/stored-broadcast.ts';
import { inboxSentDetails } from '../fan-out/inbox-sent.ts';
import type { KnownRecipients } from './known-recipients.ts';

/** What a broadcast is accepted at most once by. */
export type Once = 'by id' | 'by key';

/** A broadcast to be accepted. */
export interface NewBroadcastRow {
  id: string;
  projectId: string;
  idempotency: IdempotencyKey | undefined;
  category: string | null;
  topic: string | null;
  columns: PackedBroadcast;
  /** How many recipients name somebody. */
  named: number;
  priority: number;
  weight: number;
  /** What is answered. */
  json: string | Buffer;
}

/** What was written. */
export interface Accepted {
  /** The broadcasts that are accepted; the keys of the others were used before. */
  ids: ReadonlySet<string>;
  /** The job of each that is to be fanned out. */
  jobIds: ReadonlyMap<string, number>;
  /** `sent_at` of the notifications. */
  sentAt: Date;
}

/**
 * Writes broadcasts, all of them with an idempotency key or none, by one statement: each with all its
 * notifications where these are known, and else with the job that will find them out, under `leaseId` if
 * there is one. Neither is ever there without the other.
 */
export async function writeAccepted<Broadcast extends NewBroadcastRow>(
  db: Queryable,
  broadcasts: readonly Broadcast[],
  reached: ReadonlyMap<Broadcast, KnownRecipients>,
  {
    once,
    leaseId,
    nowMs,
    brand,
  }: { once: Once | undefined; leaseId: string | undefined; nowMs: number; brand: string },
): Promise<Accepted> {
  const keyed = once === 'by key';
  const atOnce = reached.size > 0;
  const [row] = await db.query<{ accepted: string | null; jobs: string | null; sent_at: Date }>(
    STATEMENTS[once ?? 'plain'][atOnce ? 'atOnce' : 'queued'],
    [
      ...columns(broadcasts, reached, leaseId),
      ...(keyed ? keyColumns(broadcasts, nowMs) : []),
      ...(atOnce ? reachedColumns(broadcasts, reached, brand) : []),
    ],
  );
  const ids = row?.accepted ? (JSON.parse(row.accepted) as string[]) : [];
  const jobs = row?.jobs ? (JSON.parse(row.jobs) as Record<string, number>) : {};
  return {
    ids: new Set(once === undefined ? broadcasts.map(({ id }) => id) : ids),
    jobIds: new Map(Object.entries(jobs)),
    sentAt: row?.sent_at ?? new Date(),
  };
}

function columns<Broadcast extends NewBroadcastRow>(
  broadcasts: readonly Broadcast[],
  reached: ReadonlyMap<Broadcast, KnownRecipients>,
  leaseId: string | undefined,
): unknown[] {
  return [
    uuidArray(broadcasts.map((one) => one.id)),
    uuidArray(broadcasts.map((one) => one.projectId)),
    textArray(broadcasts.map((one) => one.category)),
    textArray(broadcasts.map((one) => one.topic)),
    byteaArray(broadcasts.map((one) => one.columns.message)),
    byteaArray(broadcasts.map((one) => one.columns.inApp)),
    byteaArray(broadcasts.map((one) => one.columns.overrides)),
    byteaArray(broadcasts.map((one) => one.columns.recipients)),
    broadcasts.map((one) => reached.get(one)?.userIds.length ?? one.named),
    broadcasts.map((one) => one.priority),
    broadcasts.map((one) => one.weight),
    leaseId,
  ];
}

function keyColumns(broadcasts: readonly NewBroadcastRow[], nowMs: number): unknown[] {
  return [
    broadcasts.map(({ idempotency }) => idempotency?.scope),
    broadcasts.map(({ idempotency }) => idempotency?.key),
    broadcasts.map(({ idempotency }) => idempotency?.requestHash),
    broadcasts.map(({ json }) => json.toString()),
    new Date(nowMs),
    new Date(nowMs - STORED_MS),
  ];
}

function reachedColumns<Broadcast extends NewBroadcastRow>(
  broadcasts: readonly Broadcast[],
  reached: ReadonlyMap<Broadcast, KnownRecipients>,
  brand: string,
): unknown[] {
  const users = broadcasts.map((one) => reached.get(one));
  const events = sharedEvents(broadcasts, users);
  const rows = Array.from({ length: events.rows });
  return [
    textArray(users.map((one) => one && uuidArray(one.userIds))),
    textArray(users.map((one) => one && uuidArray(one.notificationIds))),
    events.rowOf,
    // Ids rise: what follows from another thing is listed after it.
    uuidArray(rows.map(newEventId)),
    uuidArray(rows.map(newEventId)),
    uuidArray(rows.map(newEventId)),
    JSON.stringify(inboxSentDetails(brand)),
  ];
}

// As many events as a row may stand for.
const MAX_EVENTS = 1_000;

/**
 * Broadcasts of one project to as many users each share the rows of their events. Answers the row of each,
 * from 1 on.
 */
function sharedEvents(
  broadcasts: readonly NewBroadcastRow[],
  users: readonly (KnownRecipients | undefined)[],
): { rowOf: (number | null)[]; rows: number } {
  let rows = 0;
  const open = new Map<string, { row: number; events: number }>();
  const rowOf = broadcasts.map(({ projectId }, place) => {
    const count = users[place]?.userIds.length;
    if (count === undefined) return null;
    const like = `${projectId} ${count}`;
    let shared = open.get(like);
    if (shared === undefined || shared.events + count > MAX_EVENTS) {
      rows += 1;
      shared = { row: rows, events: 0 };
      open.set(like, shared);
    }
    shared.events += count;
    return shared.row;
  });
  return { rowOf, rows };
}

const COMMON = `$1::uuid[], $2::uuid[], $3::text[], $4::text[], $5::bytea[], $6::bytea[], $7::bytea[], $8::bytea[], $9::int[],
        $10::smallint[], $11::int[]`;
const COMMON_COLUMNS =
  'id, project_id, category, topic, message, in_app, overrides, recipients, total, priority, weight';
const KEY = '$13::text[], $14::text[], $15::bytea[], $16::text[]';
const KEY_COLUMNS = 'scope, key, request_hash, reply';
const REACHED_COLUMNS = 'user_ids, notification_ids, events';
const SENT_AT = `date_trunc('milliseconds', now())`;

/** Each broadcast of `input`, and the job that acts on it where its users are not known. */
const inserted = (input: string, atOnce: boolean, onConflict = '') => `inserted as (
    insert into broadcasts (id, project_id, category, topic, message, in_app, overrides, recipients, total, status)
    select id, project_id, category, topic, message, in_app, overrides, recipients, total,
      ${atOnce ? `case when user_ids is null then 'enqueued' else 'processed' end` : `'enqueued'`}
    from ${input}
    ${onConflict}
  )`;
const queued = (input: string, atOnce: boolean) => `queued as (
    insert into jobs (kind, project_id, priority, weight, lease_id, attempt, payload)
    select 'fan_out', project_id, priority, weight, $12::uuid, num_nonnulls($12::uuid), json_build_object('broadcast_id', id)
    from ${input}
    ${atOnce ? 'where user_ids is null' : ''}
    returning id, payload
  )`;

/**
 * What a fan-out would write (write-fan-out.ts), of the others. Rows of events that are of one broadcast say
 * so in broadcast_id.
 */
const fannedOut = (
  input: string,
  eventIds: readonly string[],
  sentDetails: string,
) => `reached as materialized (
    select id, project_id, category, topic, user_ids::uuid[], notification_ids::uuid[], total, events
    from ${input}
    where user_ids is not null
  ),
  notified as (
    insert into notifications (user_id, id, broadcast_id, sent_at, category, topic)
    select n.user_id, n.id, reached.id, ${SENT_AT}, category, topic
    from reached, unnest(user_ids, notification_ids) as n (user_id, id)
  ),
  listed as (
    insert into broadcast_users (broadcast_id, page, user_ids)
    select id, 0, user_ids
    from reached
  ),
  recorded as (
    insert into events (project_id, id, type, broadcast_id, broadcast_ids, user_ids, details)
    select project_id, id, type,
      case when broadcast_ids[1] = all (broadcast_ids) then broadcast_ids[1] end,
      case when broadcast_ids[1] <> any (broadcast_ids) then broadcast_ids end,
      user_ids, details
    from (
      select project_id, (${eventIds[0]}::uuid[])[events], 'broadcast.created', array_agg(id), null::uuid[], null::json
      from reached
      group by project_id, events
      union all
      select project_id, (${eventIds[1]}::uuid[])[events], '${CREATED_AND_SENT}', array_agg(id), array_agg(user_id), ${sentDetails}::json
      from reached, unnest(user_ids) as user_id
      group by project_id, events
      union all
      select project_id, (${eventIds[2]}::uuid[])[events], 'broadcast.processed', array_agg(id), null,
        json_build_object('payload', json_build_object('total', total, 'failures', 0, 'pending', 0))
      from reached
      group by project_id, events, total
    ) as event (project_id, id, type, broadcast_ids, user_ids, details)
  )`;

function acceptText(once: Once | undefined, atOnce: boolean): string {
  const keyed = once === 'by key';
  const first = keyed ? 19 : 13;
  const place = (offset: number) => `$${first + offset}`;
  const values = [
    COMMON,
    ...(keyed ? [KEY] : []),
    ...(atOnce ? [`${place(0)}::text[], ${place(1)}::text[], ${place(2)}::int[]`] : []),
  ];
  const columns = [COMMON_COLUMNS, ...(keyed ? [KEY_COLUMNS] : []), ...(atOnce ? [REACHED_COLUMNS] : [])];
  const input = once === undefined ? 'input' : 'chosen';
  return `with input as materialized (
    select *
    from unnest(${values.join(', ')})
      as i (${columns.join(', ')})
  ),
  ${keyed ? CHOSEN_BY_KEY : ''}
  ${once === 'by id' ? `${inserted('input', atOnce, CHOSEN_BY_ID)}` : inserted(input, atOnce)},
  ${queued(input, atOnce)}
  ${atOnce ? `, ${fannedOut(input, [place(3), place(4), place(5)], place(6))}` : ''}
  select ${once === undefined ? 'null' : '(select json_agg(id) from chosen)'} as accepted,
    (select json_object_agg(payload ->> 'broadcast_id', id) from queued) as jobs, ${SENT_AT} as sent_at`;
}

// The row of the broadcast decides: a concurrent insert of the same id waits for the first to commit.
const CHOSEN_BY_ID = `on conflict (id) do nothing
    returning id
  ),
  chosen as materialized (
    select input.* from input join inserted using (id)`;

// The key's row decides (primary key of idempotency_keys): a twin waits for the first to commit, then gets no
// row and writes nothing.
const CHOSEN_BY_KEY = `fresh as (
    insert into idempotency_keys as k (project_id, scope, key, request_hash, status, body, created_at)
    select project_id, scope, key, request_hash, 201, reply, $17
    from input
    on conflict (project_id, scope, key) do update
      set request_hash = excluded.request_hash, status = excluded.status, body = excluded.body, created_at = excluded.created_at
      where k.created_at <= $18
    returning project_id, scope, key
  ),
  chosen as materialized (
    select input.* from input join fresh using (project_id, scope, key)
  ),`;

const statements = (name: string, once?: Once) => ({
  queued: sql(name, acceptText(once, false)),
  atOnce: sql(`${name}_at_once`, acceptText(once, true)),
});
const STATEMENTS = {
  plain: statements('accept'),
  'by key': statements('accept_by_key', 'by key'),
  'by id': statements('accept_by_id', 'by id'),
};
