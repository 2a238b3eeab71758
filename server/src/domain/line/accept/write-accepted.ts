import type { Recipient } from '../../../contract/broadcast.ts';
import { byteaArray, textArray, uuidArray } from '../../../db/arrays.ts';
import { type Queryable, sql } from '../../../db/client.ts';
import type { Reservation } from '../../../queue/producer.ts';
import type { BroadcastContent } from '../../ground/bus/messages.ts';
import { newEventId, USERS_PER_EVENT_ROW } from '../../ground/events/record.ts';
import { CREATED_AND_SENT } from '../../ground/events/stored-types.ts';
import { type IdempotencyKey, STORED_MS } from '../../ground/requests/idempotency.ts';
import type { BroadcastFormat, BroadcastParts } from '../broadcasts/stored-broadcast.ts';
import { fanOutRows, inboxSentDetails, SENT_AT } from '../fan-out/write-fan-out.ts';

/** What a broadcast is accepted at most once by. */
export type Once = 'by id' | 'by key';

/** A broadcast that is ready to be written. */
export interface PendingBroadcast {
  id: string;
  projectId: string;
  idempotency: IdempotencyKey | undefined;
  content: BroadcastContent;
  overrides: Buffer | null;
  /** `TemplateReference`. */
  template: Buffer | null;
  recipients: readonly Recipient[];
  packedRecipients: Buffer | null;
  /** How many recipients name a user. */
  named: number;
  /** When its fan-out is due; null if at once. */
  sendAt: Date | null;
  /** What was ignored in the request, as the column has it. */
  errors: string | null;
  priority: number;
  weight: number;
  /** The trace context that its jobs continue. */
  traceparent: string | null;
  /** What the response is made of. */
  parts: BroadcastParts;
  format: BroadcastFormat | undefined;
  /** The bytes of the values of the statement. */
  bytes: number;
}

/** Each user once, ascending, with the ids of their notifications in the same order. */
export interface KnownRecipients {
  userIds: readonly string[];
  notificationIds: readonly string[];
}

/** What was accepted. */
export interface Accepted {
  /** The broadcasts that were written; those with a used id or key were not. */
  ids: ReadonlySet<string>;
  /** The job of each that is to be fanned out now. */
  jobIds: ReadonlyMap<string, number>;
  /** `sent_at` of the notifications. */
  sentAt: Date;
}

/** The known recipients of each broadcast. */
type Known = readonly (KnownRecipients | undefined)[];

/**
 * Writes broadcasts, all of them accepted at most once `by id`, `by key` or neither, by one statement. A
 * broadcast with known recipients is written with its notifications, as its fan-out would write them; any
 * other with the job that fans it out, under the lease of the reservation if that includes it.
 */
export async function writeAccepted(
  db: Queryable,
  broadcasts: readonly PendingBroadcast[],
  known: Known,
  {
    once,
    reservation,
    nowMs,
    brand,
  }: { once: Once | undefined; reservation: Reservation | undefined; nowMs: number; brand: string },
): Promise<Accepted> {
  const anyKnown = known.some((one) => one !== undefined);
  const [row] = await db.query<{ accepted: string | null; jobs: string | null; sent_at: Date }>(
    STATEMENTS[once ?? 'always'][anyKnown ? 'fannedOut' : 'queued'],
    [
      ...columns(broadcasts, known, reservation),
      ...(once === 'by key' ? keyColumns(broadcasts, nowMs) : []),
      ...(anyKnown ? knownColumns(broadcasts, known, brand) : []),
    ],
  );
  const ids = once === undefined ? broadcasts.map(({ id }) => id) : JSON.parse(row?.accepted ?? '[]');
  const jobs: Record<string, number> = JSON.parse(row?.jobs ?? '{}');
  return {
    ids: new Set<string>(ids),
    jobIds: new Map(Object.entries(jobs)),
    sentAt: row?.sent_at ?? new Date(),
  };
}

function columns(
  broadcasts: readonly PendingBroadcast[],
  known: Known,
  reservation: Reservation | undefined,
): unknown[] {
  return [
    uuidArray(broadcasts.map((one) => one.id)),
    uuidArray(broadcasts.map((one) => one.projectId)),
    textArray(broadcasts.map((one) => one.content.category)),
    textArray(broadcasts.map((one) => one.content.topic)),
    byteaArray(broadcasts.map((one) => one.content.message)),
    byteaArray(broadcasts.map((one) => one.content.inApp)),
    byteaArray(broadcasts.map((one) => one.overrides)),
    byteaArray(broadcasts.map((one) => one.packedRecipients)),
    broadcasts.map((one, index) => known[index]?.userIds.length ?? one.named),
    broadcasts.map((one) => one.priority),
    broadcasts.map((one) => one.weight),
    textArray(broadcasts.map((one) => (reservation?.includes(one) ? reservation.leaseId : null))),
    broadcasts.map((one) => one.sendAt),
    textArray(broadcasts.map((one) => one.errors)),
    byteaArray(broadcasts.map((one) => one.template)),
    textArray(broadcasts.map((one) => one.traceparent)),
    uuidArray(createdEvents(broadcasts)),
  ];
}

/** The row of `broadcast.created` of each broadcast. Those of one project share it. */
function createdEvents(broadcasts: readonly PendingBroadcast[]): string[] {
  const { rowOf, rows } = shareEventRows(broadcasts.map(({ projectId }) => ({ kind: projectId, events: 1 })));
  const ids = Array.from({ length: rows }, newEventId);
  return rowOf.map((row) => ids[(row ?? 1) - 1] as string);
}

function keyColumns(broadcasts: readonly PendingBroadcast[], nowMs: number): unknown[] {
  return [
    broadcasts.map(({ idempotency }) => idempotency?.scope),
    broadcasts.map(({ idempotency }) => idempotency?.key),
    broadcasts.map(({ idempotency }) => idempotency?.requestHash),
    new Date(nowMs),
    new Date(nowMs - STORED_MS),
  ];
}

function knownColumns(broadcasts: readonly PendingBroadcast[], known: Known, brand: string): unknown[] {
  // Those of one project with the same number of users share the rows of their events.
  const events = shareEventRows(
    broadcasts.map(({ projectId }, index) => {
      const count = known[index]?.userIds.length;
      return count === undefined ? undefined : { kind: `${projectId} ${count}`, events: count };
    }),
  );
  const rows = Array.from({ length: events.rows });
  return [
    textArray(known.map((one) => one && uuidArray(one.userIds))),
    textArray(known.map((one) => one && uuidArray(one.notificationIds))),
    events.rowOf,
    // Ids rise: an event is listed after its cause.
    uuidArray(rows.map(newEventId)),
    uuidArray(rows.map(newEventId)),
    JSON.stringify(inboxSentDetails(brand)),
  ];
}

/** Lets broadcasts of one kind share a row of events. Returns the row of each, counted from 1. */
function shareEventRows(broadcasts: readonly ({ kind: string; events: number } | undefined)[]): {
  rowOf: (number | null)[];
  rows: number;
} {
  let rows = 0;
  const open = new Map<string, { row: number; events: number }>();
  const rowOf = broadcasts.map((one) => {
    if (one === undefined) return null;
    let shared = open.get(one.kind);
    if (shared === undefined || shared.events + one.events > USERS_PER_EVENT_ROW) {
      rows += 1;
      shared = { row: rows, events: 0 };
      open.set(one.kind, shared);
    }
    shared.events += one.events;
    return shared.row;
  });
  return { rowOf, rows };
}

/** The statement for broadcasts of which some are fanned out at the same time, or none is. */
function acceptText(once: Once | undefined, fannedOut: boolean): string {
  const firstOfKnown = once === 'by key' ? 23 : 18;
  const known = (offset: number) => `$${firstOfKnown + offset}`;
  const values = ['$1::uuid[], $2::uuid[], $3::text[], $4::text[], $5::bytea[], $6::bytea[], $7::bytea[]'];
  const names = ['id, project_id, category, topic, message, in_app, overrides'];
  values.push(
    '$8::bytea[], $9::int[], $10::smallint[], $11::int[], $12::uuid[], $13::timestamptz[], $14::text[]',
    '$15::bytea[], $16::text[], $17::uuid[]',
  );
  names.push(
    'recipients, total, priority, weight, reserved_under, send_at, errors, template, traceparent',
    'created_event',
  );
  if (once === 'by key') {
    values.push('$18::text[], $19::text[], $20::bytea[]');
    names.push('scope, key, request_hash');
  }
  if (fannedOut) {
    values.push(`${known(0)}::text[], ${known(1)}::text[], ${known(2)}::int[]`);
    names.push('user_ids, notification_ids, event_row');
  }
  const from = once === undefined ? 'input' : 'chosen';
  return `with input as materialized (
    select *, case when send_at > now() then send_at end as due_at
    from unnest(${values.join(',\n        ')})
      as i (${names.join(',\n        ')})
  ),
  ${once === 'by key' ? `${CHOSEN_BY_KEY},` : ''}
  inserted as (
    insert into broadcasts
      (id, project_id, category, topic, message, in_app, overrides, recipients, template, total, send_at,
        waiting, errors, status)
    select id, project_id, category, topic, message, in_app, overrides, recipients, template, total, send_at,
      case when due_at is not null then true end, errors::json,
      ${fannedOut ? `case when user_ids is null then 'enqueued' else 'processed' end` : `'enqueued'`}
    from ${once === 'by id' ? 'input order by id on conflict (id) do nothing returning id' : from}
  ),
  ${once === 'by id' ? `${CHOSEN_BY_ID},` : ''}
  queued as (
    insert into jobs (kind, project_id, priority, weight, due_at, lease_id, attempt, payload)
    select 'fan_out', project_id, priority, weight, due_at, lease_id, num_nonnulls(lease_id),
      case when traceparent is null then json_build_object('broadcast_id', id, 'created', true)
        else json_build_object('broadcast_id', id, 'created', true, 'traceparent', traceparent) end
    from ${from}, lateral (select case when due_at is null then reserved_under end as lease_id) held
    ${fannedOut ? 'where user_ids is null' : ''}
    returning id, payload, due_at
  ),
  created as (
    insert into events (project_id, id, type, broadcast_id, broadcast_ids)
    select project_id, created_event, 'broadcast.created',
      case when count(*) = 1 then (array_agg(id))[1] end, case when count(*) > 1 then array_agg(id) end
    from ${from}
    group by project_id, created_event
  )
  ${fannedOut ? `, ${fannedOutText(from, [known(3), known(4)], known(5))}` : ''}
  select ${once === undefined ? 'null' : '(select json_agg(id) from chosen)'} as accepted,
    (select json_object_agg(payload ->> 'broadcast_id', id) from queued where due_at is null) as jobs,
    ${SENT_AT} as sent_at`;
}

// The primary key of idempotency_keys decides: a concurrent request with the same key waits for the first to
// commit, then gets no row and writes nothing. Of the response only the id is stored, as JSON.
const CHOSEN_BY_KEY = `fresh as (
    insert into idempotency_keys as k (project_id, scope, key, request_hash, status, body, created_at)
    select project_id, scope, key, request_hash, 201, to_json(id)::text, $21
    from input
    order by project_id, scope, key
    on conflict (project_id, scope, key) do update
      set request_hash = excluded.request_hash, status = excluded.status, body = excluded.body,
        created_at = excluded.created_at
      where k.created_at <= $22
    returning project_id, scope, key
  ),
  chosen as materialized (
    select input.* from input join fresh using (project_id, scope, key)
  )`;
// The primary key of broadcasts decides in the same way.
const CHOSEN_BY_ID = `chosen as materialized (
    select input.* from input join inserted using (id)
  )`;

/** The fan-out of broadcasts with known recipients. An event row of one broadcast has its id alone. */
function fannedOutText(from: string, [sent, processed]: string[], sentDetails: string): string {
  return `fanned_out as materialized (
    select id, project_id, category, topic, 0 as page, user_ids::uuid[], notification_ids::uuid[],
      '{}'::boolean[] as hidden, '{}'::text[] as texts, null::json as plan, false as scheduled, total,
      event_row
    from ${from}
    where user_ids is not null
  ),
  ${fanOutRows('fanned_out', 'plain')},
  recorded as (
    insert into events (project_id, id, type, broadcast_id, broadcast_ids, user_ids, details)
    select project_id, id, type,
      case when broadcast_ids[1] = all (broadcast_ids) then broadcast_ids[1] end,
      case when broadcast_ids[1] <> any (broadcast_ids) then broadcast_ids end,
      user_ids, details
    from (
      select project_id, (${sent}::uuid[])[event_row], '${CREATED_AND_SENT}', array_agg(id),
        array_agg(user_id), ${sentDetails}::json
      from fanned_out, unnest(user_ids) as user_id
      group by project_id, event_row
      union all
      select project_id, (${processed}::uuid[])[event_row], 'broadcast.processed', array_agg(id), null,
        json_build_object('payload', json_build_object('total', total, 'failures', 0, 'pending', 0))
      from fanned_out
      group by project_id, event_row, total
    ) as event (project_id, id, type, broadcast_ids, user_ids, details)
  )`;
}

const statements = (name: string, once?: Once) => ({
  queued: sql(name, acceptText(once, false)),
  fannedOut: sql(`${name}_fanned_out`, acceptText(once, true)),
});
const STATEMENTS = {
  always: statements('accept'),
  'by key': statements('accept_by_key', 'by key'),
  'by id': statements('accept_by_id', 'by id'),
};
