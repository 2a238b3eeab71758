import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { createTestDatabase, type TestDatabase } from '../../../../test/support/database.ts';
import type { DeliveryWindows } from '../../../contract/delivery-windows.ts';
import { type Database, openDatabase, type Queryable, sql } from '../../../db/client.ts';
import { newId } from '../../../lib/ids.ts';
import type { Category } from '../categories/of-project.ts';
import { closedUntil, type Timed } from './closed-until.ts';
import { ownWindows, type ProjectWindows, windowsOf } from './of-project.ts';

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

/** Open for two hours from then on, by the clock of wherever it is. */
const from = (hour: number) => [
  { from: `${String(hour).padStart(2, '0')}:00`, to: `${String(hour + 2).padStart(2, '0')}:00` },
];
const said = (hour: number, zone?: string): DeliveryWindows => ({
  channels: [{ channel: 'email', windows: from(hour) }],
  ...(zone === undefined ? {} : { time_zone: zone }),
});
const project = (given: DeliveryWindows, ofUsers = false): ProjectWindows => ({
  ...ownWindows(JSON.stringify(given)),
  ofUsers,
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
const message = (changes: Partial<Timed> = {}): Timed => ({
  userId: ada,
  channel: 'email',
  category: undefined,
  customAttributes: null,
  ...changes,
});
const nobodyAsks: Queryable = { query: () => Promise.reject(new Error('the database was asked')) };

/** After how many hours each goes out; 0 is at once. */
async function hoursUntil(
  windows: ProjectWindows,
  messages: readonly Timed[],
  through: Queryable = nobodyAsks,
): Promise<number[]> {
  const closed = await closedUntil(through, windows, messages, NOON);
  return messages.map((one) => ((closed(one) ?? NOON) - NOON) / HOUR_MS);
}

describe('where users have said nothing', () => {
  test('the project’s windows count by its clock, on their channel alone, and no database is asked', async () => {
    const all = [message(), message({ channel: 'sms' }), message({ channel: 'in_app' })];
    expect(await hoursUntil(project(said(18)), all)).toEqual([6, 0, 0]);
    expect(await hoursUntil(project(said(18, 'Asia/Tokyo')), all)).toEqual([21, 0, 0]);
    expect(await hoursUntil(project(said(11)), all)).toEqual([0, 0, 0]);
  });

  test('those of a category take their place, for its messages', async () => {
    const all = [message({ category: category({}, 15) }), message({ category: category() }), message()];
    expect(await hoursUntil(project(said(18)), all)).toEqual([3, 6, 6]);
    expect(await hoursUntil(project({ channels: [] }), all)).toEqual([3, 0, 0]);
  });

  test('what is critical goes out at once, also among others that wait', async () => {
    const critical = category({ critical: true }, 15);
    const all = [message(), message({ category: critical }), message({ category: category({}, 15) })];
    expect(await hoursUntil(project(said(18)), all)).toEqual([6, 0, 3]);
  });

  test('each user is judged by the zone that the project has told of them, if it is one', async () => {
    const zones = ['Asia/Tokyo', 'America/New_York', 'Nowhere/Land', 7].map((time_zone) =>
      message({ customAttributes: JSON.stringify({ time_zone }) }),
    );
    // It is nine in the evening in Tokyo, and eight in the morning in New York.
    expect(await hoursUntil(project(said(18)), [...zones, message()])).toEqual([21, 10, 6, 6, 6]);
    expect(await hoursUntil(project(said(18, 'Europe/Berlin')), zones)).toEqual([21, 10, 4, 4]);
  });
});

describe('where users have said something', () => {
  const say = (userId: string, given: DeliveryWindows) =>
    db.query(
      sql(
        '',
        `insert into user_delivery_windows (user_id, config) values ($1, $2)
        on conflict (user_id) do update set config = excluded.config`,
      ),
      [userId, JSON.stringify(given)],
    );
  const inTokyo = JSON.stringify({ time_zone: 'Asia/Tokyo' });

  test('the user’s own windows count before the category’s and the project’s, by the user’s own clock before all others', async () => {
    await say(ada, said(16, 'America/New_York')); // eight hours from now
    await say(bob, said(16)); // by whatever clock is known
    const all = [message(), message({ userId: bob }), message({ userId: newId() })];
    const windows = project(said(18, 'Europe/Berlin'), true);
    expect(await hoursUntil(windows, all, db)).toEqual([8, 2, 4]);
    const told = all.map((one) => ({ ...one, customAttributes: inTokyo, category: category({}, 15) }));
    expect(await hoursUntil(windows, told, db)).toEqual([8, 19, 18]);
  });

  test('on the channels that they have named; the others follow the rest, by the user’s clock', async () => {
    await say(ada, {
      time_zone: 'America/New_York',
      channels: [{ channel: 'sms', windows: from(16) }],
    });
    const all = [message(), message({ channel: 'sms' })];
    expect(await hoursUntil(project(said(18, 'Asia/Tokyo'), true), all, db)).toEqual([10, 8]);
  });

  test('what is critical goes out at once all the same', async () => {
    await say(ada, said(16));
    const all = [message({ category: category({ critical: true }) }), message()];
    expect(await hoursUntil(project({ channels: [] }, true), all, db)).toEqual([0, 4]);
  });

  test('they are read by one statement, however many they are', async () => {
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
