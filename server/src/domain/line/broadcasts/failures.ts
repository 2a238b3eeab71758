import type { UserName } from '../../../contract/common.ts';
import type { Queryable } from '../../../db/client.ts';
import { userNames } from '../../ground/identities/user-names.ts';

// More failures than these are in the events and in the list of deliveries.
const MAX_ERRORS = 1_000;

/** A failed delivery; its reason is null if its user was erased. */
type Failure = [channel: string, userId: string, reason: string | null];

/**
 * SQL: the first failed deliveries of a row of `broadcasts` as JSON, in the order of the list of deliveries;
 * null if none failed. Read by the index deliveries_failed (broadcast_id, user_id, channel).
 */
export const FAILURES = `case when failed_users > 0 then (
      select coalesce(json_agg(json_build_array(channel, user_id, reason) order by user_id, channel), '[]')
      from (
        select channel, user_id, reason
        from deliveries d
        where d.broadcast_id = broadcasts.id and d.state = 'failed'
        order by user_id, channel
        limit ${MAX_ERRORS}
      ) failed
    ) end`;

/** Returns the JSON text of the errors of a broadcast: those found before it was sent, then its failures. */
export async function withFailures(
  db: Queryable,
  errors: string | null,
  failures: string | null,
): Promise<string | null> {
  if (failures === null) return errors;
  const failed = JSON.parse(failures) as Failure[];
  const names = await userNames(
    db,
    failed.map(([, userId]) => userId),
  );
  const before = JSON.parse(errors ?? '[]') as object[];
  const after = failed.map(([channel, userId, reason]) => ({
    message:
      `${channel} to user ${userId}${nameText(names.get(userId))} failed` +
      (reason === null ? '' : `: ${reason}`),
  }));
  return JSON.stringify([...before, ...after]);
}

function nameText(name: UserName | undefined): string {
  const known = [name?.external_id, name?.email].filter((one) => one != null);
  return known.length === 0 ? '' : ` (${known.join(', ')})`;
}
