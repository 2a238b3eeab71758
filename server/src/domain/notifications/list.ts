import { type Queryable, type Statement, sql } from '../../db/client.ts';
import type { Cursor } from '../../lib/cursor.ts';
import {
  COLUMNS,
  filterCondition,
  filterValues,
  type NotificationFilter,
  type NotificationRow,
  STANDING,
} from './row.ts';

export type NotificationStatus = keyof typeof STANDING;

/**
 * Up to `limit` of the user's notifications beyond the cursor, nearest first: those of a status, or all that are not archived.
 *
 * A filter by category or topic is applied on the way, so a page of a rare category costs a look at every newer notification
 * (0.5 µs each). An index that leads with the category would make every insert a third dearer.
 */
export async function listNotifications(
  db: Queryable,
  userId: string,
  { status, ...filter }: NotificationFilter & { status?: NotificationStatus },
  { direction, id, limit }: Cursor,
): Promise<NotificationRow[]> {
  const statement = STATEMENTS[`${status ?? 'live'}_${direction}`];
  return db.query<NotificationRow>(statement, [userId, id, limit, ...filterValues(filter)]);
}

type Listed = NotificationStatus | 'live';

const STATEMENTS = Object.fromEntries(
  (['live', 'unread', 'read', 'archived'] as const).flatMap((listed) =>
    (['older', 'newer'] as const).map((direction) => [
      `${listed}_${direction}`,
      sql(`list_notifications_${listed}_${direction}`, listText(listed, direction)),
    ]),
  ),
) as Record<`${Listed}_${Cursor['direction']}`, Statement>;

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
