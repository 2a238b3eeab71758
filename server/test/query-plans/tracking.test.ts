import { afterAll, beforeAll, expect, test } from 'vitest';
import { type Database, openDatabase } from '../../src/db/client.ts';
import { purgeUsers } from '../../src/domain/after/erasure/purge-users.ts';
import { recordClick } from '../../src/domain/after/tracking/click.ts';
import { type Hit, recordHits } from '../../src/domain/after/tracking/record.ts';
import { newId, notificationId } from '../../src/lib/ids.ts';
import { createSealer } from '../../src/lib/seal.ts';
import { createTestDatabase, type TestDatabase } from '../support/database.ts';
import { rowsOf } from '../support/rows.ts';

// What statements of tracking read if there are many deliveries and clicks.

const USERS = 20_000;
const HITS = 200;
const projectId = newId();
const broadcastId = newId();
const userIds = Array.from({ length: USERS }, () => newId());
const clock = { now: Date.now };
const sealer = createSealer([Buffer.alloc(32, 7)]);
let database: TestDatabase;
let db: Database;

beforeAll(async () => {
  database = await createTestDatabase();
  db = openDatabase(database.connection, { size: 1, name: 'tracking plans', isDistributed: false });
  // The plans are made while the tables are empty.
  await rowsOf(db, 'set plan_cache_mode = force_generic_plan');
  await rowsOf(db, 'insert into tracking values ($1, true, true)', [projectId]);
  await useAll();
  await rowsOf(
    db,
    `insert into broadcasts (id, project_id, message, status) values ($1, $2, '\\x007b7d', 'processed')`,
    [broadcastId, projectId],
  );
  await rowsOf(
    db,
    `insert into users (id, project_id, created_at, updated_at, deleted_at)
    select id, $2, now(), now(), case when n = 1 then '-infinity'::timestamptz end
    from unnest($1::uuid[]) with ordinality as u (id, n)`,
    [userIds, projectId],
  );
  const ids = userIds.map((userId) => notificationId(broadcastId, userId));
  await rowsOf(
    db,
    `with sent as (
      insert into notifications (user_id, id, broadcast_id, sent_at)
      select user_id, id, $3, now() from unnest($1::uuid[], $2::uuid[]) as n (user_id, id)
    ), clicked as (
      insert into events (project_id, id, type, broadcast_id, user_ids, details)
      select $4, gen_random_uuid(), 'delivery.clicked', $3, array[user_id],
        '{"context":{"channel":"email"},"payload":{"url":"x"}}'
      from unnest($1::uuid[]) as n (user_id)
    )
    insert into deliveries (
      user_id, notification_id, channel, broadcast_id, state, attempts, first_attempt_at, last_attempt_at
    )
    select user_id, id, 'email', $3, 'sent', 1, now(), now()
    from unnest($1::uuid[], $2::uuid[]) as n (user_id, id)`,
    [userIds, ids, broadcastId, projectId],
  );
});
afterAll(async () => {
  await db?.close();
  await database?.drop();
});

const hitOf = (userId: string): Hit => ({
  kind: 'click',
  projectId,
  broadcastId,
  userId,
  channel: 'email',
  atMs: Date.now(),
  url: 'https://x.example/',
});

async function useAll(): Promise<void> {
  await db.transaction((tx) => recordHits(tx, userIds.slice(1, 1 + HITS).map(hitOf)));
  const [, userId = ''] = userIds;
  const of = { projectId, userId, id: notificationId(broadcastId, userId) };
  await recordClick({ db }, { ...of, channel: 'in_app' });
  await recordClick({ db }, { ...of, channel: 'mobile_push' });
  while (await purgeUsers({ db, clock, sealer }));
}

async function readsOf(work: () => Promise<unknown>): Promise<{ scanned: number; rows: number }> {
  const counted = async () => {
    await rowsOf(db, 'select pg_stat_force_next_flush()');
    const [row] = await rowsOf<{ scanned: number; rows: number }>(
      db,
      `select sum(seq_tup_read)::int as scanned, sum(idx_tup_fetch)::int as rows
      from pg_stat_user_tables
      where relname in ('broadcasts', 'deliveries', 'notifications', 'events', 'users')`,
    );
    return row ?? { scanned: 0, rows: 0 };
  };
  const before = await counted();
  await work();
  const after = await counted();
  return { scanned: after.scanned - before.scanned, rows: after.rows - before.rows };
}

test('clicks are written by primary keys, and those of erased users are found by their index', async () => {
  const reads = await readsOf(useAll);
  expect(reads.scanned).toBe(0);
  expect(reads.rows).toBeLessThan(HITS * 6);
  const [left] = await rowsOf<{ urls: number }>(
    db,
    `select count(*)::int as urls
    from events
    where user_ids = array[$1::uuid] and details -> 'payload' is not null`,
    [userIds[0]],
  );
  expect(left?.urls).toBe(0);
  const [clicked] = await rowsOf<{ clicks: number }>(db, 'select sum(clicks)::int as clicks from deliveries');
  expect(clicked?.clicks).toBe(HITS);
});
