import fc from 'fast-check';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { Event, EventType } from '../../src/contract/event.ts';
import { type Database, openDatabase, sql } from '../../src/db/client.ts';
import { listEvents } from '../../src/domain/ground/events/list.ts';
import { newEventId } from '../../src/domain/ground/events/record.ts';
import { CREATED_AND_SENT } from '../../src/domain/ground/events/stored-types.ts';
import { NEWEST, OLDEST } from '../../src/lib/cursor.ts';
import { newId } from '../../src/lib/ids.ts';
import { createTestDatabase, type TestDatabase } from '../support/database.ts';

let database: TestDatabase;
let db: Database;
beforeAll(async () => {
  database = await createTestDatabase();
  db = openDatabase(database.connection, { size: 1, name: 'test', isDistributed: false });
});
afterAll(async () => {
  await db?.close();
  await database?.drop();
});

const TYPES = ['notification.created', 'delivery.sent', 'user.updated', 'broadcast.created'] as const;
const storedRow = fc.record({
  type: fc.constantFrom(CREATED_AND_SENT, CREATED_AND_SENT, ...TYPES),
  size: fc.integer({ min: 1, max: 6 }),
  hasUsers: fc.boolean(),
  sharesBroadcasts: fc.boolean(),
  eachDetails: fc.boolean(),
});

interface Expected {
  id: string;
  type: string;
  user: string | undefined;
  broadcast: string | undefined;
  mark: number | undefined;
}

const insert = sql(
  'test_insert_event',
  `insert into events (project_id, id, type, broadcast_id, broadcast_ids, user_ids, details)
  values ($1, $2, $3, $4, $5, $6, $7)`,
);

/** Writes a row, and returns the events that it stands for, one by one. */
async function write(projectId: string, row: typeof storedRow extends fc.Arbitrary<infer T> ? T : never) {
  const hasUsers = row.hasUsers || row.type === CREATED_AND_SENT;
  const isOne = !hasUsers && !row.sharesBroadcasts;
  const places = Array.from({ length: isOne ? 1 : row.size }, (_, place) => place);
  const users = places.map(newId);
  const broadcasts = places.map(newId);
  const marks = places.map((place) => (row.eachDetails ? place : 7));
  const details = marks.map((mark) => ({ context: { mark } }));
  const id = newEventId();
  await db.query(insert, [
    projectId,
    id,
    row.type,
    row.sharesBroadcasts ? null : broadcasts[0],
    row.sharesBroadcasts ? broadcasts : null,
    hasUsers ? users : null,
    JSON.stringify(row.eachDetails ? details : details[0]),
  ]);
  const types = row.type.split('+');
  return types.flatMap((type, part) =>
    places.map((place): Expected => {
      const number = part * places.length + place;
      return {
        id: id.slice(0, -4) + number.toString(16).padStart(4, '0'),
        type,
        user: hasUsers ? users[place] : undefined,
        broadcast: broadcasts[row.sharesBroadcasts ? place : 0],
        mark: part === types.length - 1 ? marks[place] : undefined,
      };
    }),
  );
}

const shown = ({ id, type, context }: Event): unknown => ({
  id,
  type,
  user: context?.user_id,
  broadcast: context?.broadcast_id,
  mark: context?.mark,
});

test('pages of mixed rows are pages of the events they stand for, in both directions', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(storedRow, { minLength: 1, maxLength: 8 }),
      fc.option(fc.subarray<EventType>([...TYPES], { minLength: 1 }), { nil: undefined }),
      fc.integer({ min: 1, max: 8 }),
      fc.constantFrom('older' as const, 'newer' as const),
      fc.option(fc.nat(), { nil: undefined }),
      async (rows, types, limit, direction, start) => {
        const projectId = newId();
        const all: Expected[] = [];
        for (const row of rows) all.push(...(await write(projectId, row)));
        if (direction === 'older') all.reverse();
        const from = start === undefined ? undefined : start % all.length;
        const beyond = from === undefined ? all : all.slice(from + 1);
        const expected = beyond.filter(
          ({ type }) => types === undefined || types.includes(type as EventType),
        );
        let id = from === undefined ? (direction === 'older' ? NEWEST : OLDEST) : (all[from]?.id ?? '');
        for (let at = 0; at <= expected.length; at += limit) {
          const page = await listEvents(db, projectId, { types }, { direction, id, limit });
          expect(page.map(shown)).toEqual(expected.slice(at, at + limit));
          id = page.at(-1)?.id ?? id;
        }
      },
    ),
    { numRuns: 100 },
  );
});
