import type { Config } from '../../../config.ts';
import type { Database } from '../../../db/client.ts';
import type { Clock } from '../../../lib/clock.ts';
import { firstIdAt } from '../../../lib/ids.ts';
import type { Sealer } from '../../../lib/seal.ts';
import { purgeEvents } from './purge-events.ts';
import { purgeNotifications } from './purge-notifications.ts';
import { purgeUsers } from './purge-users.ts';
import { purgeWebhooks } from './purge-webhooks.ts';

const DAY_MS = 24 * 3_600_000;

/** What it takes to delete what is older than it is kept. */
export interface Retention {
  db: Pick<Database, 'query' | 'transaction'>;
  clock: Clock;
  sealer: Sealer;
  config: Pick<Config, 'EVENTS_RETENTION_DAYS' | 'NOTIFICATIONS_RETENTION_DAYS'>;
}

/**
 * Erases users whose time to come back is over; deletes events and notifications that are older than they are
 * kept, and what became of webhooks' messages, each in small batches of a transaction each: nobody waits for
 * a lock, and the log does not swell. What cannot be deleted keeps nothing else from it; all of that is
 * thrown in the end. Ends early when the signal says so.
 */
export async function purgeExpired(
  { db, clock, sealer, config }: Retention,
  signal: AbortSignal,
): Promise<void> {
  const { EVENTS_RETENTION_DAYS: eventDays, NOTIFICATIONS_RETENTION_DAYS: notificationDays } = config;
  const before = (days: number) => firstIdAt(Math.max(0, clock.now() - days * DAY_MS));
  const failures: unknown[] = [];
  const untilDone = async (purge: () => Promise<boolean>) => {
    try {
      while (!signal.aborted && (await purge()));
    } catch (error) {
      failures.push(error);
    }
  };
  await untilDone(() => purgeUsers({ db, clock, sealer, signal }));
  await untilDone(() => purgeWebhooks(db, clock.now()));
  if (eventDays > 0) await untilDone(() => purgeEvents(db, before(eventDays)));
  if (notificationDays > 0) await untilDone(() => purgeNotifications(db, before(notificationDays)));
  if (failures.length > 0) throw new AggregateError(failures, 'not all that is over could be deleted');
}
