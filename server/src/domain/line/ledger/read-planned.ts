import type { DeliveryRecord, DeliveryStatus } from '../../../contract/delivery.ts';
import { textArray, uuidArray } from '../../../db/arrays.ts';
import { type Queryable, sql } from '../../../db/client.ts';
import { userNames } from '../../ground/identities/user-names.ts';
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
 * order. Three statements for any number, and one more if some have not ended.
 */
export async function readPlanned<One extends Planned>(
  db: Queryable,
  planned: readonly One[],
  { state, limit, brand }: { state: DeliveryStatus | undefined; limit: number; brand: string },
): Promise<{ planned: One; delivery: DeliveryRecord }[]> {
  const rows = await readRows(
    db,
    planned.filter((one) => !isPlainInbox(one)),
  );
  const rowOf = (one: Planned) => rows.get(`${one.notificationId}.${one.plan.channel}`);
  const listed = planned
    .filter((one) => state === undefined || stateOf(one, rowOf(one)) === state)
    .slice(0, limit);
  const open = listed.filter((one) => isOpen(stateOf(one, rowOf(one))));
  const inInbox = listed.filter(({ plan }) => plan.channel === 'in_app');
  const userIds = listed.map(({ userId }) => userId);
  const [shown, due, names] = await Promise.all([
    readShown(db, inInbox),
    dueTimes(db, open),
    userNames(db, userIds),
  ]);
  return listed.map((one) => {
    const delivery = plannedDelivery(one, {
      row: rowOf(one),
      shown: one.plan.channel === 'in_app' ? shown.get(one.notificationId) : undefined,
      due: due(one.userId, one.broadcastId, one.plan.channel),
      brand,
    });
    return { planned: one, delivery: { ...delivery, user: names.get(one.userId) ?? null } };
  });
}

function isOpen(state: DeliveryStatus): boolean {
  return state === 'scheduled' || state === 'retrying';
}

async function readRows(db: Queryable, planned: readonly Planned[]): Promise<Map<string, DeliveryRow>> {
  if (planned.length === 0) return new Map();
  const rows = await db.query<DeliveryRow>(selectRows, [
    uuidArray(planned.map((one) => one.userId)),
    uuidArray(planned.map((one) => one.notificationId)),
    textArray(planned.map((one) => one.plan.channel)),
  ]);
  return new Map(rows.map((row) => [`${row.notification_id}.${row.channel}`, row]));
}

async function readShown(db: Queryable, planned: readonly Planned[]): Promise<Map<string, ShownRow>> {
  if (planned.length === 0) return new Map();
  const rows = await db.query<ShownRow>(selectShown, [
    uuidArray(planned.map((one) => one.userId)),
    uuidArray(planned.map((one) => one.notificationId)),
  ]);
  return new Map(rows.map((row) => [row.id, row]));
}

// Primary keys of deliveries (user_id, notification_id, channel) and notifications (user_id, id).
const selectRows = sql(
  'read_deliveries',
  `select ${COLUMNS}
  from unnest($1::uuid[], $2::uuid[], $3::text[]) as wanted (user_id, notification_id, channel)
  join deliveries using (user_id, notification_id, channel)`,
);
const selectShown = sql(
  'read_shown',
  `select n.id, n.sent_at, n.clicked_at, n.clicks
  from unnest($1::uuid[], $2::uuid[]) as wanted (user_id, id)
  join notifications n using (user_id, id)`,
);
