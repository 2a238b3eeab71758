import { uuidArray } from '../../db/arrays.ts';
import { type Queryable, type Statement, sql } from '../../db/client.ts';
import type { Cursor } from '../../lib/cursor.ts';
import {
  COLUMNS,
  filterCondition,
  filterValues,
  type KnownFilter,
  type NotificationRow,
  STANDING,
} from './row.ts';

const LIVE = 'archived_at is null and discarded_at is null';

export type NotificationStatus = keyof typeof STANDING;

/**
 * Up to `limit` of the user's notifications beyond the cursor, nearest first: those of a status, or all that are not archived.
 *
 * A filter by category or topic is applied on the way, so a page of what the user has rarely got costs a look at every newer notification
 * (0.2 µs each). An index that leads with the category would make every insert a third dearer. Where the ids are known of all that can be
 * meant, these are looked up instead.
 */
export async function listNotifications(
  db: Queryable,
  userId: string,
  { status, among, ...filter }: KnownFilter & { status?: NotificationStatus },
  { direction, id, limit }: Cursor,
): Promise<NotificationRow[]> {
  const name = `${status ?? 'live'}_${direction}` as const;
  const values = [userId, id, limit, ...filterValues(filter)];
  if (among === undefined) return db.query<NotificationRow>(WALKS[name], values);
  const beyond = among.filter((one) => (direction === 'older' ? one < id : one > id));
  return beyond.length === 0 ? [] : db.query<NotificationRow>(LOOK_UPS[name], [...values, uuidArray(beyond)]);
}

type Listed = NotificationStatus | 'live';

const WALKS = statements('', listText);
const LOOK_UPS = statements('few_', amongText);

function statements(
  name: string,
  text: (listed: Listed, direction: Cursor['direction']) => string,
): Record<`${Listed}_${Cursor['direction']}`, Statement> {
  return Object.fromEntries(
    (['live', 'unread', 'read', 'archived'] as const).flatMap((listed) =>
      (['older', 'newer'] as const).map((direction) => [
        `${listed}_${direction}`,
        sql(`list_${name}notifications_${listed}_${direction}`, text(listed, direction)),
      ]),
    ),
  ) as ReturnType<typeof statements>;
}

// Each standing is read from its partial index, which is in the order of the list. What is not archived is unread or read:
// the two are merged, and each stops at the limit.
function listText(listed: Listed, direction: Cursor['direction']): string {
  const [beyond, order] = direction === 'older' ? ['<', 'desc'] : ['>', 'asc'];
  const of = (standing: NotificationStatus) =>
    `select ${COLUMNS}
    from notifications
    where user_id = $1
      and id ${beyond} $2
      and ${STANDING[standing]}
      and ${filterCondition(4)}
    order by id ${order}
    limit $3`;
  if (listed !== 'live') return of(listed);
  return `select ${COLUMNS}
  from (
    (${of('unread')})
    union all
    (${of('read')})
  ) live
  order by id ${order}
  limit $3`;
}

// Primary key, or the partial index of the standing, by the ids.
function amongText(listed: Listed, direction: Cursor['direction']): string {
  const [beyond, order] = direction === 'older' ? ['<', 'desc'] : ['>', 'asc'];
  return `select ${COLUMNS}
  from notifications
  where user_id = $1
    and id = any ($7::uuid[])
    and id ${beyond} $2
    and ${listed === 'live' ? LIVE : STANDING[listed]}
    and ${filterCondition(4)}
  order by id ${order}
  limit $3`;
}
