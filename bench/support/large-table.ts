import { type Database, sql } from '../../server/src/db/client.ts';
import { packJson } from '../../server/src/lib/packed-json.ts';

/** Users of a project with inboxes of different sizes. */
export interface LargeTable {
  heavyUser: string;
  /** 10,000 notifications: 40 a day for eight months. */
  busyUser: string;
  lightUser: string;
}

const HEAVY = 100_000;
const BUSY = 10_000;
const LIGHT = 100;

const LIGHT_ID = '01000000-0000-7000-8000-000000000001';
const HEAVY_ID = '01000000-0000-7000-8000-000000000002';
const BUSY_ID = '01000000-0000-7000-8000-000000000003';

/**
 * Adds users with 100,000, 10,000 and 100 notifications, each from a broadcast of its own. One in four is
 * read, and one in twenty archived.
 */
export async function fillInboxes(db: Database, projectId: string): Promise<LargeTable> {
  const message = packJson(
    JSON.stringify({
      title: 'Your order is on its way',
      content: 'It arrives <b>tomorrow</b>.',
      action_url: null,
      custom_attributes: null,
    }),
  );
  await db.query(insertBroadcasts, [projectId, message, HEAVY]);
  await addUser(db, projectId, HEAVY_ID, 'heavy');
  await addUser(db, projectId, BUSY_ID, 'busy');
  await addUser(db, projectId, LIGHT_ID, 'light');
  await db.query(insertInbox, [HEAVY_ID, 1, lowOf(HEAVY_ID)]);
  await db.query(insertInbox, [BUSY_ID, HEAVY / BUSY, lowOf(BUSY_ID)]);
  await db.query(insertInbox, [LIGHT_ID, HEAVY / LIGHT, lowOf(LIGHT_ID)]);
  await db.query(sql('bench_analyze', 'analyze notifications'));
  return { heavyUser: HEAVY_ID, busyUser: BUSY_ID, lightUser: LIGHT_ID };
}

/** Adds notifications of other users, ten each, until the table has this many rows. */
export async function growTo(db: Database, rows: number): Promise<void> {
  const [{ count } = { count: 0 }] = await db.query<{ count: number }>(
    sql('bench_count', 'select count(*) as count from notifications'),
  );
  const users = Math.ceil((rows - count) / 10);
  const portion = 10_000;
  for (let from = 0; from < users; from += portion)
    await db.query(insertOthers, [from, Math.min(portion, users - from)]);
  await db.query(sql('bench_vacuum', 'vacuum analyze notifications'));
}

async function addUser(db: Database, projectId: string, id: string, externalId: string): Promise<void> {
  await db.query(insertUser, [id, projectId, externalId]);
  await db.query(insertKey, [projectId, externalId, id]);
}

// Recent enough that retention deletes nothing during the benchmark.
const FIRST_MS = Date.now() - 12 * 24 * 3_600_000;

/**
 * SQL for the id (version 7) of number `number`, up to a million: their times are a second apart, and in the
 * past. `low` is the end of the id.
 */
export const ID_OF = (number: string, low = number) =>
  `(lpad(to_hex(${FIRST_MS} + ${number}::bigint * 1000), 12, '0') || '70008000' ||
    lpad(to_hex(${low}), 12, '0'))::uuid`;

/**
 * SQL for the id of the notification of broadcast number `broadcast` for the user whose id ends with `user`.
 */
export const NOTIFICATION_OF = (broadcast: string, user: string) =>
  ID_OF(broadcast, `(${broadcast}::bigint # (${user})::bigint)`);

/** The number at the end of an id. */
function lowOf(id: string): number {
  return Number.parseInt(id.slice(-12), 16);
}

const insertBroadcasts = sql(
  'bench_broadcasts',
  `insert into broadcasts (id, project_id, category, message, status, total)
  select ${ID_OF('n')}, $1, 'orders', $2, 'processed', 1
  from generate_series(1, $3::int) as n`,
);
const insertUser = sql(
  'bench_user',
  'insert into users (id, project_id, external_id, created_at, updated_at) values ($1, $2, $3, now(), now())',
);
const insertKey = sql(
  'bench_key',
  "insert into user_keys (project_id, kind, value, user_id) values ($1, 'external_id', $2, $3)",
);
const insertInbox = sql(
  'bench_inbox',
  `insert into notifications
    (user_id, id, broadcast_id, sent_at, category, read_at, seen_at, archived_at, updated_at)
  select $1, ${NOTIFICATION_OF('n', '$3')}, ${ID_OF('n')}, now(), 'orders',
    case when n / $2 % 4 = 0 then now() end, case when n / $2 % 4 = 0 then now() end,
    case when n / $2 % 20 = 1 then now() end, case when n / $2 % 4 = 0 or n / $2 % 20 = 1 then now() end
  from generate_series(1, ${HEAVY}, $2::int) as n`,
);
const insertOthers = sql(
  'bench_others',
  `insert into notifications (user_id, id, broadcast_id, sent_at, category)
  select ('02000000-0000-7000-8000-' || lpad(to_hex(u), 12, '0'))::uuid,
    ${ID_OF('n')}, ${ID_OF('n')}, now(), 'orders'
  from generate_series($1::int, $1::int + $2::int - 1) as u,
    lateral (select (u::bigint * 7919 + k * 9973) % ${HEAVY} + 1 as n from generate_series(1, 10) as k) as k
  on conflict do nothing`,
);
