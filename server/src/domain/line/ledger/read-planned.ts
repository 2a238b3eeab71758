import type { DeliveryRecord, DeliveryStatus } from '../../../contract/delivery.ts';
import { textArray, uuidArray } from '../../../db/arrays.ts';
import { type Queryable, type Statement, sql } from '../../../db/client.ts';
import { userNames } from '../../ground/identities/user-names.ts';
import { dueTimes } from './due-times.ts';
import {
  COLUMNS,
  type DeliveryRow,
  isNotificationOnly,
  type Planned,
  plannedDelivery,
  type ShownRow,
  stateOf,
} from './wire.ts';

/**
 * Returns planned deliveries with their present state: all, or those in one state, at most `limit`, in their
 * order. Three or four statements for any number, and one more if some have not ended.
 */
export async function readPlanned<One extends Planned>(
  db: Queryable,
  planned: readonly One[],
  { state, limit, brand }: { state: DeliveryStatus | undefined; limit: number; brand: string },
): Promise<{ planned: One; delivery: DeliveryRecord }[]> {
  const { found, rows } = await (state === undefined
    ? readFirst(db, planned, limit)
    : readInState(db, planned, { state, limit }));
  const rowOf = (one: Planned) => rows.get(keyOf(one));
  const open = found.filter((one) => isOpen(stateOf(one, rowOf(one))));
  const inInbox = found.filter(({ plan }) => plan.channel === 'in_app');
  const userIds = found.map(({ userId }) => userId);
  const [shown, due, names] = await Promise.all([
    readShown(db, inInbox),
    dueTimes(db, open),
    userNames(db, userIds),
  ]);
  return found.map((one) => {
    const delivery = plannedDelivery(one, {
      row: rowOf(one),
      shown: one.plan.channel === 'in_app' ? shown.get(one.notificationId) : undefined,
      due: due(one.userId, one.broadcastId, one.plan.channel),
      brand,
    });
    return { planned: one, delivery: { ...delivery, user: names.get(one.userId) ?? null } };
  });
}

/** Planned deliveries, and the stored ones among them by `keyOf`. */
interface Found<One> {
  found: One[];
  rows: ReadonlyMap<string, DeliveryRow>;
}

async function readFirst<One extends Planned>(
  db: Queryable,
  planned: readonly One[],
  limit: number,
): Promise<Found<One>> {
  const found = planned.slice(0, limit);
  return { found, rows: await readStored<DeliveryRow>(db, selectRows, found) };
}

/**
 * Searches thousands for a few. Those in another state are not read, except for the keys of deliveries that
 * were planned to be in this one. None is stored as scheduled.
 */
async function readInState<One extends Planned>(
  db: Queryable,
  planned: readonly One[],
  { state, limit }: { state: DeliveryStatus; limit: number },
): Promise<Found<One>> {
  const isPlannedSo = (one: One) => stateOf(one, undefined) === state;
  const [rows, stored] = await Promise.all([
    readStored<DeliveryRow>(db, selectInState, state === 'scheduled' ? [] : planned, state),
    readStored(db, selectKeys, planned.filter(isPlannedSo)),
  ]);
  const isInState = (one: One) => rows.has(keyOf(one)) || (isPlannedSo(one) && !stored.has(keyOf(one)));
  return { found: planned.filter(isInState).slice(0, limit), rows };
}

function isOpen(state: DeliveryStatus): boolean {
  return state === 'scheduled' || state === 'retrying';
}

type DeliveryKey = Pick<DeliveryRow, 'notification_id' | 'channel'>;

/** Reads the stored ones of planned deliveries, by `keyOf`. */
async function readStored<Row extends DeliveryKey = DeliveryKey>(
  db: Queryable,
  statement: Statement,
  planned: readonly Planned[],
  ...values: string[]
): Promise<Map<string, Row>> {
  const stored = planned.filter((one) => !isNotificationOnly(one));
  if (stored.length === 0) return new Map();
  const rows = await db.query<Row>(statement, [
    uuidArray(stored.map((one) => one.userId)),
    uuidArray(stored.map((one) => one.notificationId)),
    textArray(stored.map((one) => one.plan.channel)),
    ...values,
  ]);
  return new Map(rows.map((row) => [`${row.notification_id}.${row.channel}`, row]));
}

function keyOf({ notificationId, plan }: Planned): string {
  return `${notificationId}.${plan.channel}`;
}

async function readShown(db: Queryable, planned: readonly Planned[]): Promise<Map<string, ShownRow>> {
  if (planned.length === 0) return new Map();
  const rows = await db.query<ShownRow>(selectShown, [
    uuidArray(planned.map((one) => one.userId)),
    uuidArray(planned.map((one) => one.notificationId)),
  ]);
  return new Map(rows.map((row) => [row.id, row]));
}

// Primary key (user_id, notification_id, channel) of deliveries.
const selectStored = (columns: string) =>
  `select ${columns}
  from unnest($1::uuid[], $2::uuid[], $3::text[]) as wanted (user_id, notification_id, channel)
  join deliveries using (user_id, notification_id, channel)`;
const selectRows = sql('read_deliveries', selectStored(COLUMNS));
const selectInState = sql('read_deliveries_in_state', `${selectStored(COLUMNS)} where state = $4`);
const selectKeys = sql('read_keys_of_deliveries', selectStored('notification_id, channel'));
// Primary key (user_id, id).
const selectShown = sql(
  'read_shown',
  `select n.id, n.sent_at, n.clicked_at, n.clicks
  from unnest($1::uuid[], $2::uuid[]) as wanted (user_id, id)
  join notifications n using (user_id, id)`,
);
