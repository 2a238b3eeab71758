import type { Recipient } from '../../../contract/broadcast.ts';
import { byteaArray, textArray, uuidArray } from '../../../db/arrays.ts';
import { type Queryable, sql } from '../../../db/client.ts';
import type { Reservation } from '../../../queue/producer.ts';
import type { BroadcastContent } from '../../ground/bus/messages.ts';
import { newEventId, USERS_PER_EVENT_ROW } from '../../ground/events/record.ts';
import { CREATED_AND_SENT } from '../../ground/events/stored-types.ts';
import { type IdempotencyKey, STORED_MS } from '../../ground/requests/idempotency.ts';
import type { BroadcastFormat, BroadcastParts } from '../broadcasts/stored-broadcast.ts';
import { inboxRows, inboxSentDetails, SENT_AT } from '../fan-out/write-fan-out.ts';

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
  const fannedOut = known.includes(undefined) ? (known.some((one) => one) ? 'some' : 'none') : 'all';
  const { statement, columns, scalars } = STATEMENTS[once ?? 'always'][fannedOut];
  const events = fannedOut === 'none' ? NO_EVENTS : sentEvents(broadcasts, known);
  const batch: Batch = { broadcasts, known, reservation, nowMs, brand, events };
  const values = [...columns, ...scalars].map(({ of }) => of(batch));
  const [row] = await db.query<{ accepted: string | null; jobs: string | null; sent_at: Date }>(
    statement,
    values,
  );
  const ids = once === undefined ? broadcasts.map(({ id }) => id) : JSON.parse(row?.accepted ?? '[]');
  const jobs: Record<string, number> = JSON.parse(row?.jobs ?? '{}');
  return {
    ids: new Set<string>(ids),
    jobIds: new Map(Object.entries(jobs)),
    sentAt: row?.sent_at ?? new Date(),
  };
}

/** What the values of a statement are made of. */
interface Batch {
  broadcasts: readonly PendingBroadcast[];
  known: Known;
  reservation: Reservation | undefined;
  nowMs: number;
  brand: string;
  /** The rows of the events of the inbox: how many there are, and that of each broadcast. */
  events: SharedRows;
}

/** A parameter of a statement. That of a column is a list with a value for each broadcast. */
interface Parameter {
  name: string;
  type: string;
  of: (batch: Batch) => unknown;
}

const uuids = (name: string, of: (one: PendingBroadcast) => string): Parameter => ({
  ...{ name, type: 'uuid[]' },
  of: ({ broadcasts }) => uuidArray(broadcasts.map(of)),
});
const texts = (name: string, of: (one: PendingBroadcast) => string | null | undefined): Parameter => ({
  ...{ name, type: 'text[]' },
  of: ({ broadcasts }) => textArray(broadcasts.map(of)),
});
const bytes = (name: string, of: (one: PendingBroadcast) => Buffer | null): Parameter => ({
  ...{ name, type: 'bytea[]' },
  of: ({ broadcasts }) => byteaArray(broadcasts.map(of)),
});
const others = (name: string, type: string, of: (one: PendingBroadcast) => unknown): Parameter => ({
  ...{ name, type },
  of: ({ broadcasts }) => broadcasts.map(of),
});

const COLUMNS: readonly Parameter[] = [
  uuids('id', ({ id }) => id),
  uuids('project_id', ({ projectId }) => projectId),
  texts('category', ({ content }) => content.category),
  texts('topic', ({ content }) => content.topic),
  bytes('message', ({ content }) => content.message),
  bytes('in_app', ({ content }) => content.inApp),
  bytes('overrides', ({ overrides }) => overrides),
  bytes('recipients', ({ packedRecipients }) => packedRecipients),
  {
    ...{ name: 'total', type: 'int[]' },
    of: ({ broadcasts, known }) =>
      broadcasts.map(({ named }, index) => known[index]?.userIds.length ?? named),
  },
  {
    ...{ name: 'created_event', type: 'uuid[]' },
    of: ({ broadcasts }) => uuidArray(createdEvents(broadcasts)),
  },
];
/** What only the fan-out of a broadcast needs, which broadcasts with known recipients have behind them. */
const QUEUED_COLUMNS: readonly Parameter[] = [
  bytes('template', ({ template }) => template),
  others('send_at', 'timestamptz[]', ({ sendAt }) => sendAt),
  texts('errors', ({ errors }) => errors),
  others('priority', 'smallint[]', ({ priority }) => priority),
  others('weight', 'int[]', ({ weight }) => weight),
  {
    ...{ name: 'reserved_under', type: 'uuid[]' },
    of: ({ broadcasts, reservation }) =>
      textArray(broadcasts.map((one) => (reservation?.includes(one) ? reservation.leaseId : null))),
  },
  texts('traceparent', ({ traceparent }) => traceparent),
];
const KNOWN_COLUMNS: readonly Parameter[] = [
  {
    ...{ name: 'user_ids', type: 'text[]' },
    of: ({ known }) => textArray(known.map((one) => one && uuidArray(one.userIds))),
  },
  {
    ...{ name: 'notification_ids', type: 'text[]' },
    of: ({ known }) => textArray(known.map((one) => one && uuidArray(one.notificationIds))),
  },
  { name: 'event_row', type: 'int[]', of: ({ events }) => events.rowOf },
];
const KEY_COLUMNS: readonly Parameter[] = [
  texts('scope', ({ idempotency }) => idempotency?.scope),
  texts('key', ({ idempotency }) => idempotency?.key),
  others('request_hash', 'bytea[]', ({ idempotency }) => idempotency?.requestHash),
];
const KEY_SCALARS: readonly Parameter[] = [
  { name: 'now', type: 'timestamptz', of: ({ nowMs }) => new Date(nowMs) },
  { name: 'oldest', type: 'timestamptz', of: ({ nowMs }) => new Date(nowMs - STORED_MS) },
];
// Ids rise: an event is listed after its cause.
const newEventIds = ({ events }: Batch) => uuidArray(Array.from({ length: events.rows }, newEventId));
const KNOWN_SCALARS: readonly Parameter[] = [
  { name: 'sent', type: 'uuid[]', of: newEventIds },
  { name: 'processed', type: 'uuid[]', of: newEventIds },
  { name: 'sent_details', type: 'json', of: ({ brand }) => JSON.stringify(inboxSentDetails(brand)) },
];

/** The row of `broadcast.created` of each broadcast. Those of one project share it. */
function createdEvents(broadcasts: readonly PendingBroadcast[]): string[] {
  const { rowOf, rows } = shareEventRows(broadcasts.map(({ projectId }) => ({ kind: projectId, events: 1 })));
  const ids = Array.from({ length: rows }, newEventId);
  return rowOf.map((row) => ids[(row ?? 1) - 1] as string);
}

/** The rows of the other events. Broadcasts of one project with the same number of users share them. */
function sentEvents(broadcasts: readonly PendingBroadcast[], known: Known): SharedRows {
  return shareEventRows(
    broadcasts.map(({ projectId }, index) => {
      const count = known[index]?.userIds.length;
      return count === undefined ? undefined : { kind: `${projectId} ${count}`, events: count };
    }),
  );
}

interface SharedRows {
  /** The row of each broadcast, counted from 1. */
  rowOf: (number | null)[];
  rows: number;
}

const NO_EVENTS: SharedRows = { rowOf: [], rows: 0 };

/** Lets broadcasts of one kind share a row of events. */
function shareEventRows(broadcasts: readonly ({ kind: string; events: number } | undefined)[]): SharedRows {
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

/** Which of the broadcasts of a statement have known recipients. */
type FannedOut = 'none' | 'some' | 'all';

/**
 * The statement for a batch, and its parameters. That for broadcasts of which all have known recipients has
 * no part for jobs: it takes a sixth less of PostgreSQL's time.
 */
function acceptStatement(name: string, once: Once | undefined, fannedOut: FannedOut) {
  const columns = [
    ...COLUMNS,
    ...(fannedOut === 'all' ? [] : QUEUED_COLUMNS),
    ...(fannedOut === 'none' ? [] : KNOWN_COLUMNS),
    ...(once === 'by key' ? KEY_COLUMNS : []),
  ];
  const scalars = [...(once === 'by key' ? KEY_SCALARS : []), ...(fannedOut === 'none' ? [] : KNOWN_SCALARS)];
  const values = columns.map(({ type }, index) => `$${index + 1}::${type}`);
  const scalar = (wanted: string) => {
    const index = scalars.findIndex(({ name }) => name === wanted);
    return `$${columns.length + index + 1}::${scalars[index]?.type}`;
  };
  const text = acceptText(once, fannedOut, {
    input: `unnest(${values.join(', ')})\n      as i (${columns.map(({ name }) => name).join(', ')})`,
    scalar,
  });
  return { statement: sql(name, text), columns, scalars };
}

function acceptText(
  once: Once | undefined,
  fannedOut: FannedOut,
  { input, scalar }: { input: string; scalar: (name: string) => string },
): string {
  const from = once === undefined ? 'input' : 'chosen';
  const [names, values, status] = {
    none: [QUEUED_NAMES, QUEUED_VALUES, `'enqueued'`],
    some: [QUEUED_NAMES, QUEUED_VALUES, `case when user_ids is null then 'enqueued' else 'processed' end`],
    all: ['', '', `'processed'`],
  }[fannedOut];
  return `with input as materialized (
    select *${fannedOut === 'all' ? '' : ', case when send_at > now() then send_at end as due_at'}
    from ${input}
  ),
  ${once === 'by key' ? `${chosenByKey(scalar)},` : ''}
  inserted as (
    insert into broadcasts
      (id, project_id, category, topic, message, in_app, overrides, recipients, total${names}, status)
    select id, project_id, category, topic, message, in_app, overrides, recipients, total${values}, ${status}
    from ${once === 'by id' ? 'input order by id on conflict (id) do nothing returning id' : from}
  ),
  ${once === 'by id' ? `${CHOSEN_BY_ID},` : ''}
  ${fannedOut === 'all' ? '' : `${queuedText(from, fannedOut)},`}
  ${fannedOut === 'none' ? '' : `${fannedOutText(from)},`}
  ${recordedText(from, fannedOut, scalar)}
  select ${once === undefined ? 'null' : '(select json_agg(id) from chosen)'} as accepted,
    ${fannedOut === 'all' ? 'null' : JOB_IDS} as jobs, ${SENT_AT} as sent_at`;
}

const QUEUED_NAMES = ', template, send_at, waiting, errors';
const QUEUED_VALUES = ', template, send_at, case when due_at is not null then true end, errors::json';
const JOB_IDS = `(select json_object_agg(payload ->> 'broadcast_id', id) from queued where due_at is null)`;

// The primary key of idempotency_keys decides: a concurrent request with the same key waits for the first to
// commit, then gets no row and writes nothing. Of the response only the id is stored, as JSON.
const chosenByKey = (scalar: (name: string) => string) => `fresh as (
    insert into idempotency_keys as k (project_id, scope, key, request_hash, status, body, created_at)
    select project_id, scope, key, request_hash, 201, to_json(id)::text, ${scalar('now')}
    from input
    order by project_id, scope, key
    on conflict (project_id, scope, key) do update
      set request_hash = excluded.request_hash, status = excluded.status, body = excluded.body,
        created_at = excluded.created_at
      where k.created_at <= ${scalar('oldest')}
    returning project_id, scope, key
  ),
  chosen as materialized (
    select input.* from input join fresh using (project_id, scope, key)
  )`;
// The primary key of broadcasts decides in the same way.
const CHOSEN_BY_ID = `chosen as materialized (
    select input.* from input join inserted using (id)
  )`;

function queuedText(from: string, fannedOut: FannedOut): string {
  return `queued as (
    insert into jobs (kind, project_id, priority, weight, due_at, lease_id, attempt, payload)
    select 'fan_out', project_id, priority, weight, due_at, lease_id, num_nonnulls(lease_id),
      case when traceparent is null then json_build_object('broadcast_id', id, 'created', true)
        else json_build_object('broadcast_id', id, 'created', true, 'traceparent', traceparent) end
    from ${from}, lateral (select case when due_at is null then reserved_under end as lease_id) held
    ${fannedOut === 'some' ? 'where user_ids is null' : ''}
    returning id, payload, due_at
  )`;
}

/** The fan-out of the broadcasts with known recipients. */
function fannedOutText(from: string): string {
  return `fanned_out as materialized (
    select id, project_id, category, topic, user_ids::uuid[], notification_ids::uuid[], total, event_row
    from ${from}
    where user_ids is not null
  ),
  ${inboxRows('fanned_out')}`;
}

/** The events. A row of one broadcast has its id alone. */
function recordedText(from: string, fannedOut: FannedOut, scalar: (name: string) => string): string {
  const created = `select project_id, created_event, 'broadcast.created', array_agg(id), null::uuid[],
        null::json
      from ${from}
      group by project_id, created_event`;
  const ofInbox = () => `union all
      select project_id, (${scalar('sent')})[event_row], '${CREATED_AND_SENT}', array_agg(id),
        array_agg(user_id), ${scalar('sent_details')}
      from fanned_out, unnest(user_ids) as user_id
      group by project_id, event_row
      union all
      select project_id, (${scalar('processed')})[event_row], 'broadcast.processed', array_agg(id), null,
        json_build_object('payload', json_build_object('total', total, 'failures', 0, 'pending', 0))
      from fanned_out
      group by project_id, event_row, total`;
  return `recorded as (
    insert into events (project_id, id, type, broadcast_id, broadcast_ids, user_ids, details)
    select project_id, id, type,
      case when broadcast_ids[1] = all (broadcast_ids) then broadcast_ids[1] end,
      case when broadcast_ids[1] <> any (broadcast_ids) then broadcast_ids end,
      user_ids, details
    from (
      ${created}
      ${fannedOut === 'none' ? '' : ofInbox()}
    ) as event (project_id, id, type, broadcast_ids, user_ids, details)
  )`;
}

const statements = (name: string, once?: Once) => ({
  none: acceptStatement(name, once, 'none'),
  some: acceptStatement(`${name}_some_fanned_out`, once, 'some'),
  all: acceptStatement(`${name}_fanned_out`, once, 'all'),
});
const STATEMENTS = {
  always: statements('accept'),
  'by key': statements('accept_by_key', 'by key'),
  'by id': statements('accept_by_id', 'by id'),
};
