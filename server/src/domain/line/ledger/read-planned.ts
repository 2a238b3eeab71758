import type { DeliveryRecord, DeliveryStatus } from '../../../contract/delivery.ts';
import { textArray, uuidArray } from '../../../db/arrays.ts';
import { type Queryable, sql } from '../../../db/client.ts';
import { userNames } from '../../ground/identities/user-names.ts';
import { dueTimes } from './due-times.ts';
import { explainWaiting } from './explain-waiting.ts';
import {
  COLUMNS,
  type DeliveryRow,
  isNotificationOnly,
  type Planned,
  plannedDelivery,
  type ShownRow,
  stateOf,
} from './wire.ts';

/** What reading deliveries of a project needs. */
export interface LedgerContext {
  db: Queryable;
  /** The provider name of the inbox. */
  brand: string;
  projectId: string;
}

/**
 * Returns planned deliveries with their present state, in their order. `known` are their rows, if they were
 * read before. Three statements at once for any number, and two more at once if some have not ended.
 */
export async function readPlanned(
  context: LedgerContext,
  planned: readonly Planned[],
  known?: readonly (DeliveryRow | undefined)[],
): Promise<DeliveryRecord[]> {
  const { db, brand } = context;
  const [rows, shown, names] = await Promise.all([
    known ?? readRows(db, planned),
    readShown(db, planned),
    userNames(
      db,
      planned.map(({ userId }) => userId),
    ),
  ]);
  const states = planned.map((one, index) => stateOf(one, rows[index]));
  const [due, explained] = await Promise.all([
    dueTimes(
      db,
      planned.filter((_, index) => states[index] === 'scheduled' || states[index] === 'retrying'),
    ),
    states.includes('scheduled') ? explainWaiting(context) : (delivery: DeliveryRecord) => delivery,
  ]);
  return planned.map((one, index) => {
    const delivery = plannedDelivery(one, {
      row: rows[index],
      shown: one.plan.channel === 'in_app' ? shown.get(one.notificationId) : undefined,
      due: due(one.userId, one.broadcastId, one.plan.channel),
      brand,
    });
    return explained({ ...delivery, user: names.get(one.userId) ?? null });
  });
}

/** Returns those of planned deliveries that are in a state, in their order, with the rows of those stored. */
export async function findInState<One extends Planned>(
  db: Queryable,
  planned: readonly One[],
  state: DeliveryStatus,
): Promise<{ planned: One; row: DeliveryRow | undefined }[]> {
  const isPlannedSo = (one: One) => stateOf(one, undefined) === state;
  // None is stored as scheduled.
  const stored = planned.filter(
    (one) => !isNotificationOnly(one) && (state !== 'scheduled' || isPlannedSo(one)),
  );
  const rows =
    stored.length === 0
      ? []
      : await db.query<FoundRow>(selectInState, [
          ...keysOf(stored),
          textArray(stored.map((one) => String(isPlannedSo(one)))),
          state,
        ]);
  const found = new Map(rows.map((row) => [stored[row.number - 1], row]));
  return planned.flatMap((one) => {
    if (isNotificationOnly(one)) return isPlannedSo(one) ? [{ planned: one, row: undefined }] : [];
    const row = found.get(one);
    return row === undefined ? [] : [{ planned: one, row: isStored(row) ? row : undefined }];
  });
}

/** A delivery that was found; all columns are null if it is not stored. */
type FoundRow = { number: number } & (DeliveryRow | { state: null });

function isStored(row: FoundRow): row is FoundRow & DeliveryRow {
  return row.state !== null;
}

/** The rows of planned deliveries, in their order; undefined for those that are not stored. */
async function readRows(
  db: Queryable,
  planned: readonly Planned[],
): Promise<readonly (DeliveryRow | undefined)[]> {
  const stored = planned.filter((one) => !isNotificationOnly(one));
  if (stored.length === 0) return [];
  const rows = await db.query<DeliveryRow>(selectRows, keysOf(stored));
  const byKey = new Map(rows.map((row) => [`${row.notification_id}.${row.channel}`, row]));
  return planned.map(({ notificationId, plan }) => byKey.get(`${notificationId}.${plan.channel}`));
}

function keysOf(planned: readonly Planned[]): string[] {
  return [
    uuidArray(planned.map((one) => one.userId)),
    uuidArray(planned.map((one) => one.notificationId)),
    textArray(planned.map((one) => one.plan.channel)),
  ];
}

async function readShown(db: Queryable, planned: readonly Planned[]): Promise<Map<string, ShownRow>> {
  const inInbox = planned.filter(({ plan }) => plan.channel === 'in_app');
  if (inInbox.length === 0) return new Map();
  const rows = await db.query<ShownRow>(selectShown, [
    uuidArray(inInbox.map((one) => one.userId)),
    uuidArray(inInbox.map((one) => one.notificationId)),
  ]);
  return new Map(rows.map((row) => [row.id, row]));
}

// Primary key (user_id, notification_id, channel) of deliveries.
const selectRows = sql(
  'read_deliveries',
  `select ${COLUMNS}
  from unnest($1::uuid[], $2::uuid[], $3::text[]) as wanted (user_id, notification_id, channel)
  join deliveries using (user_id, notification_id, channel)`,
);
// The same. Looked up one by one, because an outer join was planned as a hash while the table was empty.
const selectInState = sql(
  'find_deliveries_in_state',
  `select wanted.number::int as number, stored.*
  from unnest($1::uuid[], $2::uuid[], $3::text[], $4::boolean[]) with ordinality
    as wanted (user_id, notification_id, channel, is_planned_so, number)
  left join lateral (
    select ${COLUMNS}
    from deliveries d
    where d.user_id = wanted.user_id and d.notification_id = wanted.notification_id
      and d.channel = wanted.channel
    offset 0
  ) stored on true
  where coalesce(stored.state = $5, wanted.is_planned_so)`,
);
// Primary key (user_id, id).
const selectShown = sql(
  'read_shown',
  `select n.id, n.sent_at, n.clicked_at, n.clicks
  from unnest($1::uuid[], $2::uuid[]) as wanted (user_id, id)
  join notifications n using (user_id, id)`,
);
