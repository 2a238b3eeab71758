import type { Delivery, DeliveryStatus } from '../../contract/delivery.ts';
import { textArray, uuidArray } from '../../db/arrays.ts';
import { type Queryable, sql } from '../../db/client.ts';
import { COLUMNS, type DeliveryRow, isPlainInbox, type Planned, plannedDelivery, stateOf } from './wire.ts';

/**
 * What became of planned deliveries: of those in this state, or of all, at most `limit`, in their order, each with what it was planned as. Two
 * statements, whatever their number.
 */
export async function readPlanned<One extends Planned>(
  db: Queryable,
  planned: readonly One[],
  { state, limit, brand }: { state: DeliveryStatus | undefined; limit: number; brand: string },
): Promise<{ planned: One; delivery: Delivery }[]> {
  const rows = await readRows(
    db,
    planned.filter((one) => !isPlainInbox(one)),
  );
  const rowOf = (one: Planned) => rows.get(`${one.notificationId}.${one.plan.channel}`);
  const listed = planned
    .filter((one) => state === undefined || stateOf(one, rowOf(one)) === state)
    .slice(0, limit);
  const sentAt = await readSentAt(db, listed.filter(isPlainInbox));
  return listed.map((one) => ({
    planned: one,
    delivery: plannedDelivery(one, { row: rowOf(one), sentAt: sentAt.get(one.notificationId), brand }),
  }));
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

async function readSentAt(db: Queryable, planned: readonly Planned[]): Promise<Map<string, Date>> {
  if (planned.length === 0) return new Map();
  const rows = await db.query<{ id: string; sent_at: Date }>(selectSentAt, [
    uuidArray(planned.map((one) => one.userId)),
    uuidArray(planned.map((one) => one.notificationId)),
  ]);
  return new Map(rows.map((row) => [row.id, row.sent_at]));
}

// Primary keys of deliveries (user_id, notification_id, channel) and notifications (user_id, id).
const selectRows = sql(
  'read_deliveries',
  `select ${COLUMNS}
  from unnest($1::uuid[], $2::uuid[], $3::text[]) as wanted (user_id, notification_id, channel)
  join deliveries using (user_id, notification_id, channel)`,
);
const selectSentAt = sql(
  'read_sent_at',
  `select n.id, n.sent_at
  from unnest($1::uuid[], $2::uuid[]) as wanted (user_id, id)
  join notifications n using (user_id, id)`,
);
