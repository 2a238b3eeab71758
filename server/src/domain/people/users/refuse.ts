import { uuidArray } from '../../../db/arrays.ts';
import { type Queryable, sql } from '../../../db/client.ts';

/** A deleted user that is a recipient of a broadcast. */
export interface RefusedRecipient {
  userId: string;
  broadcastId: string;
}

/** The error of such a recipient in the broadcast. */
export const USER_WAS_DELETED = 'this user is deleted: restore it with PUT /users and the same identity';

/** Records deleted users that a broadcast named, so that the purge finds and redacts the broadcast. */
export async function refuseRecipients(tx: Queryable, refused: readonly RefusedRecipient[]): Promise<void> {
  await tx.query(insertRefused, [
    uuidArray(refused.map(({ userId }) => userId)),
    uuidArray(refused.map(({ broadcastId }) => broadcastId)),
  ]);
}

// Primary key. Sorted, so that concurrent inserts do not deadlock.
const insertRefused = sql(
  'refuse_recipients',
  `insert into refused_recipients (user_id, broadcast_id)
  select user_id, broadcast_id
  from unnest($1::uuid[], $2::uuid[]) as r (user_id, broadcast_id)
  order by user_id, broadcast_id
  on conflict do nothing`,
);
