import { uuidArray } from '../../../db/arrays.ts';
import { type Queryable, type Statement, sql } from '../../../db/client.ts';
import { type Cursor, NEWEST } from '../../../lib/cursor.ts';
import {
  COLUMN_NAMES,
  COLUMNS,
  columnsOf,
  filterCondition,
  filterValues,
  IN_STATUS,
  type KnownFilter,
  type NotificationRow,
  type NotificationStatus,
  PLACE,
  type StateFilter,
  stateCondition,
} from './row.ts';

const LIVE = 'archived_at is null and discarded_at is null';

/**
 * Returns up to `limit` of the user's notifications beyond the cursor, nearest first: those of a status, or
 * all that are not archived. The order is that of their arrival (`PLACE`).
 *
 * A filter by category or topic is applied while the inbox is read: a page of a rare category reads every
 * newer notification (0.2 µs each). An index by category would make every insert a third slower. Instead, if
 * the ids of all matching notifications are known (`among`), they are looked up.
 */
export async function listNotifications(
  db: Queryable,
  userId: string,
  { status, among, read, seen, ...filter }: KnownFilter & ListedState,
  { direction, id, limit }: Cursor,
): Promise<NotificationRow[]> {
  const part = direction === 'older' && id === NEWEST ? 'newest' : direction;
  const name = `${status ?? 'live'}_${part}` as const;
  const values = [userId, id, limit, ...filterValues(filter)];
  if (among?.length === 0) return [];
  if (read !== undefined || seen !== undefined) {
    const all = [...values, among === undefined ? null : uuidArray(among), read ?? null, seen ?? null];
    return db.query<NotificationRow>(BY_STATE[name], all);
  }
  if (among === undefined) return db.query<NotificationRow>(WALKS[name], values);
  return db.query<NotificationRow>(LOOK_UPS[name], [...values, uuidArray(among)]);
}

/** A status, and of these what is also read or seen. */
export type ListedState = { status?: NotificationStatus | undefined } & Omit<StateFilter, 'archived'>;

type Listed = NotificationStatus | 'live';
/** The part of a list to read. `newest` is the first page: it is read most, and looks up no cursor. */
type Part = 'newest' | Cursor['direction'];

// Where the list continues: at the place of the notification whose id is the cursor (primary key). Its place
// is the id itself if it was not shown later, or does not exist.
const CURSOR_PLACE = 'coalesce((select place from notifications where user_id = $1 and id = $2), $2)';
const PARTS = {
  newest: { beyond: `${PLACE} < $2`, order: 'desc' },
  older: { beyond: `${PLACE} < ${CURSOR_PLACE}`, order: 'desc' },
  newer: { beyond: `${PLACE} > ${CURSOR_PLACE}`, order: 'asc' },
} as const satisfies Record<Part, object>;

const WALKS = statements('', walkText);
const BY_STATE = statements('state_', (listed, part) =>
  walkText(listed, part, `and ($7::uuid[] is null or id = any ($7))\n      and ${stateCondition(8)}`),
);
const LOOK_UPS = statements('few_', lookUpText);

function statements(
  name: string,
  text: (listed: Listed, part: Part) => string,
): Record<`${Listed}_${Part}`, Statement> {
  return Object.fromEntries(
    (['live', 'unread', 'read', 'archived', 'snoozed'] as const).flatMap((listed) =>
      (['newest', 'older', 'newer'] as const).map((part) => [
        `${listed}_${part}`,
        sql(`list_${name}notifications_${listed}_${part}`, text(listed, part)),
      ]),
    ),
  ) as ReturnType<typeof statements>;
}

// Each status is read from its partial index, which is in the order of the list. Notifications that are not
// archived are unread or read: the two lists are merged, and each stops at the limit.
function walkText(listed: Listed, part: Part, more = ''): string {
  const { beyond, order } = PARTS[part];
  const of = (status: NotificationStatus) =>
    `select ${columnsOf(status)}, ${PLACE} as place
    from notifications
    where user_id = $1
      and ${beyond}
      and ${IN_STATUS[status]}
      and ${filterCondition(4)} ${more}
    order by ${PLACE} ${order}
    limit $3`;
  const shown = listed === 'live' ? `(${of('unread')}) union all (${of('read')})` : of(listed);
  return `select ${COLUMN_NAMES}
  from (
    ${shown}
  ) shown
  order by place ${order}
  limit $3`;
}

/** SQL: the newest notifications of a user that are not archived, unordered, with their place. */
export function newestOf(userId: string, limit: string): string {
  const of = (status: NotificationStatus) =>
    `select ${columnsOf(status)}, ${PLACE} as place
      from notifications
      where user_id = ${userId}
        and ${IN_STATUS[status]}
      order by ${PLACE} desc
      limit ${limit}`;
  return `(${of('unread')}) union all (${of('read')})`;
}

// Primary key, by the ids.
function lookUpText(listed: Listed, part: Part): string {
  const { beyond, order } = PARTS[part];
  return `select ${COLUMNS}
  from notifications
  where user_id = $1
    and id = any ($7::uuid[])
    and ${beyond}
    and ${listed === 'live' ? LIVE : IN_STATUS[listed]}
    and ${filterCondition(4)}
  order by ${PLACE} ${order}
  limit $3`;
}
