import { uuidArray } from '../../server/src/db/arrays.ts';
import { type Database, sql } from '../../server/src/db/client.ts';
import { newId } from '../../server/src/lib/ids.ts';
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

/** The ids of every hundredth of the broadcasts. */
export async function someBroadcasts(db: Database): Promise<string[]> {
  return (await db.query<{ id: string }>(selectSomeBroadcasts)).map(({ id }) => id);
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

/** Adds the users `user-1` to `user-<count>`, with both identities. */
export async function growUsers(db: Database, projectId: string, count: number): Promise<void> {
  const portion = 100_000;
  for (let from = 1; from <= count; from += portion)
    await db.query(insertUsers, [projectId, from, Math.min(count, from + portion - 1)]);
  await db.query(sql('bench_vacuum_users', 'vacuum analyze users, user_keys'));
}

/**
 * Adds users with 10,000 unread notifications each. Broadcasts reach all of them, so neighbouring rows belong
 * to different users. Returns the names of the users.
 */
export async function addUnreadInboxes(db: Database, projectId: string, count: number): Promise<string[]> {
  const users = Array.from({ length: count }, () => newId());
  const names = users.map((id) => `unread-${id}`);
  for (const [place, id] of users.entries()) await addUser(db, projectId, id, names[place] ?? '');
  await db.query(insertUnread, [uuidArray(users)]);
  return names;
}

/**
 * Gives each of these users more notifications, number `from + 1` to number `to`, one in four of them read,
 * and each with an e-mail that was sent.
 */
export async function growWithDeliveries(
  db: Database,
  { users, from, to }: { users: number; from: number; to: number },
): Promise<void> {
  const portion = Math.max(1, Math.floor(500_000 / (to - from)));
  for (let first = 1; first <= users; first += portion)
    await db.query(insertWithDeliveries, [first, Math.min(users, first + portion - 1), from + 1, to]);
  await db.query(sql('bench_vacuum_both', 'vacuum analyze notifications, deliveries'));
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
const selectSomeBroadcasts = sql(
  'bench_some_broadcasts',
  `select ${ID_OF('n')} as id from generate_series(100, ${HEAVY}, 100) as n`,
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
const insertUnread = sql(
  'bench_unread',
  `insert into notifications (user_id, id, broadcast_id, sent_at, category)
  select user_id, ${NOTIFICATION_OF('n', 'number')}, ${ID_OF('n')}, now(), 'orders'
  from generate_series(1, ${HEAVY}, ${HEAVY / BUSY}) as n,
    unnest($1::uuid[]) with ordinality as u (user_id, number)
  order by n, number`,
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
const insertUsers = sql(
  'bench_users',
  `with made as (
    insert into users (id, project_id, external_id, email, first_name, created_at, updated_at)
    select ${ID_OF('n')}, $1::uuid, 'user-' || n, 'person' || n || '@example.com', 'Ada', now(), now()
    from generate_series($2::int, $3::int) as n
    returning id, external_id, email
  )
  insert into user_keys (project_id, kind, value, user_id)
  select $1::uuid, 'external_id', external_id, id from made
  union all
  select $1::uuid, 'email', email, id from made`,
);
const insertWithDeliveries = sql(
  'bench_with_deliveries',
  `with made as (
    insert into notifications (user_id, id, broadcast_id, sent_at, category, read_at, seen_at, updated_at)
    select ${ID_OF('u')}, ${NOTIFICATION_OF('n', 'u')}, ${ID_OF('n')}, now(), 'orders',
      case when k % 4 = 0 then now() end, case when k % 4 = 0 then now() end,
      case when k % 4 = 0 then now() end
    from generate_series($1::int, $2::int) as u,
      generate_series($3::int, $4::int) as k,
      lateral (select (u::bigint * 7919 + k * 9973) % ${HEAVY} + 1 as n) as b
    on conflict do nothing
    returning user_id, id, broadcast_id
  )
  insert into deliveries
    (user_id, notification_id, channel, broadcast_id, state, attempts, provider, provider_id,
      first_attempt_at, last_attempt_at)
  select user_id, id, 'email', broadcast_id, 'sent', 1, 'smtp', 'accepted', now(), now()
  from made`,
);
