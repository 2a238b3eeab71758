import type { DeliveryRecord } from '../../../contract/delivery.ts';
import type { Queryable } from '../../../db/client.ts';
import { ClientError } from '../../../errors.ts';
import { NEWEST, OLDEST } from '../../../lib/cursor.ts';
import { locateNotification, locateUsers } from './locate.ts';

/** A delivery with its place in the list, as a cursor. */
export interface ListedDelivery {
  id: string;
  delivery: DeliveryRecord;
}

/** The place of a delivery in the list of its broadcast. */
export interface Place {
  /** The page of the broadcast's users; undefined in the list of failed deliveries. */
  page: number | undefined;
  userId: string;
  channel: string;
}

/** A place as a cursor: unlike the delivery's id, it leads to a page of the list without a search. */
export function cursorOf({ page, userId, channel }: Place): string {
  return `${page ?? 'failed'}-${userId}.${channel}`;
}

/**
 * Returns the place of a cursor: of one made by `cursorOf`, of a delivery's id, or of one of the two ends.
 * Throws `validation_failed`, naming the `param`, for the cursor of another broadcast.
 */
export async function readPlace(
  db: Queryable,
  broadcastId: string,
  cursor: string,
  { withPage, param }: { withPage: boolean; param: string },
): Promise<Place | 'start' | 'end'> {
  if (cursor === NEWEST) return 'start';
  if (cursor === OLDEST) return 'end';
  const [, page, id = '', channel = ''] = /^(?:(\d+|failed)-)?([0-9a-f-]{36})\.([a-z_]+)$/.exec(cursor) ?? [];
  if (page !== undefined && page !== 'failed') return { page: Number(page), userId: id, channel };
  if (page === 'failed' && !withPage) return { page: undefined, userId: id, channel };
  const found =
    page === 'failed'
      ? (await locateUsers(db, broadcastId, [id]))[0]
      : await locateNotification(db, broadcastId, id);
  if (found === undefined || !found.plan.some((plan) => plan.channel === channel))
    throw new ClientError('validation_failed', [
      `Param '${param}' is not the id of a delivery of this broadcast`,
    ]);
  return { page: found.page, userId: found.userId, channel };
}
