import type { Queryable } from '../../../db/client.ts';
import { bothDirections } from '../../../db/list-statements.ts';
import { type Cursor, NEWEST, OLDEST, type SearchedRows } from '../../../lib/cursor.ts';
import { joinName, type NamedRow, nameIn } from '../../ground/identities/user-names.ts';
import { cursorOf, type ListedDelivery, type Place } from './list-cursor.ts';
import { COLUMNS, type DeliveryRow, storedDelivery } from './wire.ts';

/** Returns up to `limit` of a broadcast's failed deliveries beyond a place, or from an end, by users' ids. */
export async function listFailed(
  db: Queryable,
  {
    broadcastId,
    channel,
    from,
    direction,
    limit,
  }: {
    broadcastId: string;
    channel: string | undefined;
    from: Place | undefined;
    direction: Cursor['direction'];
    limit: number;
  },
): Promise<SearchedRows<ListedDelivery>> {
  const rows = await db.query<DeliveryRow & NamedRow>(
    STATEMENTS[channel === undefined ? 'all' : 'onChannel'][direction],
    [
      broadcastId,
      from?.userId ?? (direction === 'older' ? OLDEST : NEWEST),
      from?.channel ?? '',
      limit,
      ...(channel === undefined ? [] : [channel]),
    ],
  );
  return {
    rows: rows.map((row) => ({
      id: cursorOf({ page: undefined, userId: row.user_id, channel: row.channel }),
      delivery: { ...storedDelivery(row), user: nameIn(row) },
    })),
  };
}

// Index deliveries_failed (broadcast_id, user_id, channel), and the primary key of users.
const both = (name: string, condition: string) =>
  // Rising: the list begins with the smallest user id.
  bothDirections(name, (_beyond, falling) => {
    const [beyond, order] = falling === 'desc' ? ['>', 'asc'] : ['<', 'desc'];
    return `select ${COLUMNS}, named.*
  from deliveries
  ${joinName('user_id')}
  where broadcast_id = $1 and state = 'failed' and (user_id, channel) ${beyond} ($2, $3) ${condition}
  order by user_id ${order}, channel ${order}
  limit $4`;
  });
const STATEMENTS = {
  all: both('failed_deliveries', ''),
  onChannel: both('failed_deliveries_on_channel', 'and channel = $5'),
};
