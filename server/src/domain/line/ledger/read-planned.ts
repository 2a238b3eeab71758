import type { UserName } from '../../../contract/common.ts';
import type { DeliveryRecord, DeliveryStatus } from '../../../contract/delivery.ts';
import { textArray, uuidArray } from '../../../db/arrays.ts';
import { type Queryable, type Statement, sql } from '../../../db/client.ts';
import { maskedEmail } from '../../ground/identities/user-names.ts';
import { dueTimes } from './due-times.ts';
import {
  COLUMNS,
  type DeliveryRow,
  isPlainInbox,
  type Planned,
  plannedDelivery,
  type ShownRow,
  stateOf,
} from './wire.ts';

/**
 * Returns planned deliveries with their present state: all, or those in one state, at most `limit`, in their
 * order. Two statements for any number, and one more if some have not ended.
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
  const [{ shown, names }, due] = await Promise.all([readDetails(db, found), dueTimes(db, open)]);
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
  const stored = planned.filter((one) => !isPlainInbox(one));
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

/** What is shown beside the states of deliveries. */
interface Details {
  /** By notification, of those that are in the inbox and stored. */
  shown: ReadonlyMap<string, ShownRow>;
  /** By user, of those that are not deleted. */
  names: ReadonlyMap<string, UserName>;
}

async function readDetails(db: Queryable, planned: readonly Planned[]): Promise<Details> {
  const shown = new Map<string, ShownRow>();
  const names = new Map<string, UserName>();
  if (planned.length === 0) return { shown, names };
  const inInbox = planned.filter(({ plan }) => plan.channel === 'in_app');
  const rows = await db.query<DetailsRow>(selectDetails, [
    uuidArray(inInbox.map((one) => one.userId)),
    uuidArray(inInbox.map((one) => one.notificationId)),
    uuidArray([...new Set(planned.map((one) => one.userId))]),
  ]);
  for (const { id, sent_at, clicked_at, clicks, user_id, external_id, email } of rows) {
    if (id !== null) shown.set(id, { sent_at, clicked_at, clicks });
    if (user_id !== null) names.set(user_id, { external_id, email });
  }
  return { shown, names };
}

/** A notification or null, and beside it another user or null. */
interface DetailsRow extends UserName, ShownRow {
  id: string | null;
  user_id: string | null;
}

// Primary key (user_id, notification_id, channel) of deliveries.
const selectStored = (columns: string) =>
  `select ${columns}
  from unnest($1::uuid[], $2::uuid[], $3::text[]) as wanted (user_id, notification_id, channel)
  join deliveries using (user_id, notification_id, channel)`;
const selectRows = sql('read_deliveries', selectStored(COLUMNS));
// The offset keeps the condition out of the join, which otherwise may begin with all that are in the state.
const selectInState = sql(
  'read_deliveries_in_state',
  `select * from (${selectStored(COLUMNS)} offset 0) stored where state = $4`,
);
const selectKeys = sql('read_keys_of_deliveries', selectStored('notification_id, channel'));
// Primary keys of notifications (user_id, id) and users. Two lists, side by side, in one statement.
const selectDetails = sql(
  'read_delivery_details',
  `select n.id, n.sent_at, n.clicked_at, n.clicks, u.id as user_id, u.external_id,
    ${maskedEmail('u.email')} as email
  from unnest($1::uuid[], $2::uuid[], $3::uuid[]) as wanted (recipient_id, notification_id, user_id)
  left join notifications n on n.user_id = wanted.recipient_id and n.id = wanted.notification_id
  left join users u on u.id = wanted.user_id and u.deleted_at is null`,
);
