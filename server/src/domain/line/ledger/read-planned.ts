import type { UserName } from '../../../contract/common.ts';
import type { DeliveryRecord, DeliveryStatus } from '../../../contract/delivery.ts';
import { textArray, uuidArray } from '../../../db/arrays.ts';
import { type Queryable, sql } from '../../../db/client.ts';
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
  const rows = await readRows(
    db,
    planned.filter((one) => !isPlainInbox(one)),
  );
  const rowOf = (one: Planned) => rows.get(`${one.notificationId}.${one.plan.channel}`);
  const listed = planned
    .filter((one) => state === undefined || stateOf(one, rowOf(one)) === state)
    .slice(0, limit);
  const open = listed.filter((one) => isOpen(stateOf(one, rowOf(one))));
  const [users, due] = await Promise.all([readUsers(db, listed), dueTimes(db, open)]);
  return listed.map((one) => {
    const { shown, user } = users.get(one.notificationId) ?? {};
    const delivery = plannedDelivery(one, {
      row: rowOf(one),
      shown: one.plan.channel === 'in_app' ? shown : undefined,
      due: due(one.userId, one.broadcastId, one.plan.channel),
      brand,
    });
    return { planned: one, delivery: { ...delivery, user: user ?? null } };
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

/** The user of a planned delivery, and its notification as the inbox shows it; undefined if it is erased. */
interface UserOf {
  shown: ShownRow | undefined;
  user: UserName | undefined;
}

/** Returns the users by the ids of their notifications. */
async function readUsers(db: Queryable, planned: readonly Planned[]): Promise<Map<string, UserOf>> {
  if (planned.length === 0) return new Map();
  const userOf = new Map(planned.map((one) => [one.notificationId, one.userId]));
  const rows = await db.query<UserOfRow>(selectUsers, [
    uuidArray([...userOf.values()]),
    uuidArray([...userOf.keys()]),
  ]);
  return new Map(
    rows.map(({ id, sent_at, clicked_at, clicks, known, external_id, email }) => [
      id,
      {
        shown: sent_at === null ? undefined : { sent_at, clicked_at, clicks },
        user: known ? { external_id, email } : undefined,
      },
    ]),
  );
}

interface UserOfRow extends UserName, Omit<ShownRow, 'sent_at'> {
  id: string;
  sent_at: Date | null;
  known: boolean;
}

// Primary keys of deliveries (user_id, notification_id, channel), notifications (user_id, id) and users.
const selectRows = sql(
  'read_deliveries',
  `select ${COLUMNS}
  from unnest($1::uuid[], $2::uuid[], $3::text[]) as wanted (user_id, notification_id, channel)
  join deliveries using (user_id, notification_id, channel)`,
);
const selectUsers = sql(
  'read_planned_users',
  `select wanted.id, n.sent_at, n.clicked_at, n.clicks,
    u.id is not null as known, u.external_id, ${maskedEmail('u.email')} as email
  from unnest($1::uuid[], $2::uuid[]) as wanted (user_id, id)
  left join notifications n using (user_id, id)
  left join users u on u.id = wanted.user_id and u.deleted_at is null`,
);
