import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { createTestDatabase, type TestDatabase } from '../../../../test/support/database.ts';
import type { DeliveryWindows, QuietHours } from '../../../contract/delivery-windows.ts';
import { type Database, openDatabase, type Queryable, sql } from '../../../db/client.ts';
import { newId } from '../../../lib/ids.ts';
import type { Category } from '../categories/cache.ts';
import { closedUntil, type TimedMessage } from './closed-until.ts';
import { type ProjectWindows, parseWindows, windowsOf } from './windows.ts';

const NOON = Date.UTC(2026, 6, 15, 12);
const HOUR_MS = 3_600_000;

let database: TestDatabase;
let db: Database;
const [ada, bob] = [newId(), newId()];

beforeAll(async () => {
  database = await createTestDatabase();
  db = openDatabase(database.connection, { size: 1, name: 'windows' });
});
afterAll(async () => {
  await db.close();
  await database.drop();
});

/** A window of two hours. */
const from = (hour: number) => [
  { from: `${String(hour).padStart(2, '0')}:00`, to: `${String(hour + 2).padStart(2, '0')}:00` },
];
const windows = (hour: number, zone?: string): DeliveryWindows => ({
  channels: [{ channel: 'email', windows: from(hour) }],
  ...(zone === undefined ? {} : { time_zone: zone }),
});
const project = (given: DeliveryWindows, hasUserWindows = false): ProjectWindows => ({
  ...parseWindows(JSON.stringify(given)),
  hasUserWindows,
});
const category = (changes: Partial<Category> = {}, hour?: number): Category => ({
  key: 'any',
  disabled: false,
  critical: false,
  channels: [
    {
      channel: 'email',
      delayMs: 0,
      condition: undefined,
      windows: hour === undefined ? undefined : windowsOf(from(hour)),
    },
  ],
  ...changes,
});
const message = (changes: Partial<TimedMessage> = {}): TimedMessage => ({
  userId: ada,
  channel: 'email',
  category: undefined,
  customAttributes: null,
  ...changes,
});
const noDatabase: Queryable = { query: () => Promise.reject(new Error('the database was queried')) };

/** Returns after how many hours each message may be delivered; 0 is at once. */
async function hoursUntil(
  given: ProjectWindows,
  messages: readonly TimedMessage[],
  through: Queryable = noDatabase,
): Promise<number[]> {
  const closed = await closedUntil(through, given, messages, NOON);
  return messages.map((one) => ((closed(one)?.untilMs ?? NOON) - NOON) / HOUR_MS);
}

describe('without windows of users', () => {
  test('the project’s windows apply to their channel in its time zone, without a query', async () => {
    const all = [message(), message({ channel: 'sms' }), message({ channel: 'in_app' })];
    expect(await hoursUntil(project(windows(18)), all)).toEqual([6, 0, 0]);
    expect(await hoursUntil(project(windows(18, 'Asia/Tokyo')), all)).toEqual([21, 0, 0]);
    expect(await hoursUntil(project(windows(11)), all)).toEqual([0, 0, 0]);
  });

  test('the windows of a category replace them', async () => {
    const all = [message({ category: category({}, 15) }), message({ category: category() }), message()];
    expect(await hoursUntil(project(windows(18)), all)).toEqual([3, 6, 6]);
    expect(await hoursUntil(project({ channels: [] }), all)).toEqual([3, 0, 0]);
  });

  test('a critical message does not wait, even among others that do', async () => {
    const critical = category({ critical: true }, 15);
    const all = [message(), message({ category: critical }), message({ category: category({}, 15) })];
    expect(await hoursUntil(project(windows(18)), all)).toEqual([6, 0, 3]);
  });

  test('the time zone in the custom attributes of a user applies, if it is valid', async () => {
    const zones = ['Asia/Tokyo', 'America/New_York', 'Nowhere/Land', 7].map((time_zone) =>
      message({ customAttributes: JSON.stringify({ time_zone }) }),
    );
    // It is 21:00 in Tokyo, and 08:00 in New York.
    expect(await hoursUntil(project(windows(18)), [...zones, message()])).toEqual([21, 10, 6, 6, 6]);
    expect(await hoursUntil(project(windows(18, 'Europe/Berlin')), zones)).toEqual([21, 10, 4, 4]);
  });
});

describe('with windows of users', () => {
  const save = (userId: string, given: DeliveryWindows, quiet?: QuietHours) =>
    db.query(
      sql(
        '',
        `insert into user_delivery_windows (user_id, config, quiet_hours) values ($1, $2, $3)
        on conflict (user_id) do update set config = excluded.config, quiet_hours = excluded.quiet_hours`,
      ),
      [userId, JSON.stringify(given), quiet ? JSON.stringify(quiet) : null],
    );
  const inTokyo = JSON.stringify({ time_zone: 'Asia/Tokyo' });

  test('the user’s windows and time zone override those of the category and the project', async () => {
    await save(ada, windows(16, 'America/New_York')); // eight hours from now
    await save(bob, windows(16)); // in any time zone that is known
    const all = [message(), message({ userId: bob }), message({ userId: newId() })];
    const inBerlin = project(windows(18, 'Europe/Berlin'), true);
    expect(await hoursUntil(inBerlin, all, db)).toEqual([8, 2, 4]);
    const others = all.map((one) => ({ ...one, customAttributes: inTokyo, category: category({}, 15) }));
    expect(await hoursUntil(inBerlin, others, db)).toEqual([8, 19, 18]);
  });

  test('they apply to their channels; on other channels only the time zone does', async () => {
    await save(ada, {
      time_zone: 'America/New_York',
      channels: [{ channel: 'sms', windows: from(16) }],
    });
    const all = [message(), message({ channel: 'sms' })];
    expect(await hoursUntil(project(windows(18, 'Asia/Tokyo'), true), all, db)).toEqual([10, 8]);
  });

  test('a critical message does not wait', async () => {
    await save(ada, windows(16));
    const all = [message({ category: category({ critical: true }) }), message()];
    expect(await hoursUntil(project({ channels: [] }, true), all, db)).toEqual([0, 4]);
  });

  describe('and quiet hours', () => {
    const quiet = (hours: string, to: string) => ({ from: hours, to });
    const all = ['sms', 'mobile_push', 'web_push', 'slack', 'teams', 'email', 'in_app'].map((channel) =>
      message({ channel }),
    );

    test('text, push and chat messages wait until they end; e-mails and the inbox do not', async () => {
      await save(ada, { channels: [] }, quiet('11:00', '15:00'));
      expect(await hoursUntil(project({ channels: [] }, true), all, db)).toEqual([3, 3, 3, 3, 3, 0, 0]);
      const critical = all.map((one) => ({ ...one, category: category({ critical: true }) }));
      expect(await hoursUntil(project({ channels: [] }, true), critical, db)).toEqual(all.map(() => 0));
    });

    test('they are in the time zone of the user', async () => {
      await save(ada, { time_zone: 'Asia/Tokyo', channels: [] }, quiet('20:00', '07:00')); // it is 21:00
      await save(bob, { channels: [] }, quiet('20:00', '07:00'));
      const sms = [ada, bob].map((userId) => message({ userId, channel: 'sms' }));
      expect(await hoursUntil(project({ channels: [] }, true), sms, db)).toEqual([10, 0]);
      const inTokyoToo = sms.map((one) => ({ ...one, customAttributes: inTokyo }));
      expect(await hoursUntil(project({ channels: [] }, true), inTokyoToo, db)).toEqual([10, 10]);
    });

    test('a message waits for its window and for their end', async () => {
      const sms = (hour: number) => ({ channels: [{ channel: 'sms' as const, windows: from(hour) }] });
      const closedFor = async (hour: number, hours: QuietHours) => {
        await save(ada, { channels: [] }, hours);
        const one = message({ channel: 'sms' });
        const closed = (await closedUntil(db, project(sms(hour), true), [one], NOON))(one);
        return closed && [(closed.untilMs - NOON) / HOUR_MS, closed.code];
      };
      expect(await closedFor(11, quiet('11:30', '12:30'))).toEqual([0.5, 'quiet_hours']);
      expect(await closedFor(14, quiet('11:00', '15:00'))).toEqual([3, 'outside_window']);
      expect(await closedFor(14, quiet('20:00', '07:00'))).toEqual([2, 'outside_window']);
      expect(await closedFor(11, quiet('11:30', '13:30'))).toEqual([23, 'quiet_hours']);
      expect(await closedFor(11, quiet('20:00', '07:00'))).toBeUndefined();
    });

    test('quiet hours that cover all windows are ignored, so that no message waits forever', async () => {
      await save(ada, { channels: [] }, quiet('07:00', '22:00'));
      const given = { channels: [{ channel: 'sms' as const, windows: from(18) }] };
      expect(await hoursUntil(project(given, true), [message({ channel: 'sms' })], db)).toEqual([6]);
    });
  });

  test('the windows of all users are read in one statement', async () => {
    let statements = 0;
    const counting: Queryable = {
      query: (statement, values) => {
        statements += 1;
        return db.query(statement, values);
      },
    };
    await hoursUntil(
      project({ channels: [] }, true),
      Array.from({ length: 50 }, () => message({ userId: newId() })),
      counting,
    );
    expect(statements).toBe(1);
  });
});
