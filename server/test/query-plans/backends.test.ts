import { randomBytes } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { ImportUser } from '../../src/contract/user-import.ts';
import { uuidArray } from '../../src/db/arrays.ts';
import { type Database, openDatabase } from '../../src/db/client.ts';
import { purgeExpired } from '../../src/domain/after/erasure/retention.ts';
import { exportUser } from '../../src/domain/after/export/export-user.ts';
import { createBus, type NodeBus } from '../../src/domain/ground/bus/bus.ts';
import { Identities } from '../../src/domain/ground/identities/identities.ts';
import { userNames } from '../../src/domain/ground/identities/user-names.ts';
import { countBroadcasts } from '../../src/domain/line/broadcasts/count.ts';
import { notificationsOfBroadcast } from '../../src/domain/line/ledger/of-broadcast.ts';
import { deliveriesOfUser } from '../../src/domain/line/ledger/of-user.ts';
import { BroadcastContents } from '../../src/domain/line/notifications/contents.ts';
import { listNumberedPage } from '../../src/domain/line/notifications/list-numbered.ts';
import { createImport } from '../../src/domain/people/imports/create.ts';
import { getImport, importFailures } from '../../src/domain/people/imports/get.ts';
import { importHandler } from '../../src/domain/people/imports/run.ts';
import { findActiveTokens } from '../../src/domain/people/tokens/list.ts';
import { tokenHash } from '../../src/domain/people/tokens/token-hash.ts';
import { getSubscription } from '../../src/domain/people/topics/list.ts';
import { exportUsers } from '../../src/domain/people/users/export.ts';
import { getUser } from '../../src/domain/people/users/get.ts';
import { createCategoryCache } from '../../src/domain/setup/categories/cache.ts';
import { createIntegrationCache } from '../../src/domain/setup/integrations/cache.ts';
import { firstIdAt, newId, notificationId } from '../../src/lib/ids.ts';
import { createLogger } from '../../src/lib/log.ts';
import { packJson } from '../../src/lib/packed-json.ts';
import { createSealer } from '../../src/lib/seal.ts';
import { BULK } from '../../src/queue/jobs.ts';
import { createTestDatabase, type TestDatabase } from '../support/database.ts';
import { readsOf } from '../support/reads-of.ts';
import { rowsOf } from '../support/rows.ts';
import { versionOf } from '../support/version-of.ts';
import { withClient } from '../support/with-client.ts';

// What the operations of a backend read: imports, exports, numbered pages and metrics. The plans are generic,
// first those made while the tables were empty, then those made when they were full.

const USERS = 20_000;
const BROADCASTS = 25_000;
/** Notifications, tokens, subscriptions and events of one user. */
const OF_USER = 3_000;
const ACTIVE_TOKENS = 20;
const PAGES = 40;
const ON_PAGE = 500;
const IMPORTS = 300;
const EXPIRED = 5;
const PAGE_OF_IMPORT = 1_000;
const DAY_MS = 24 * 3_600_000;
const clock = { now: Date.now };
const sealer = createSealer([randomBytes(32)]);
const log = createLogger({ level: 'silent' });

let database: TestDatabase;
let db: Database;
let bus: NodeBus;
let exported: Parameters<typeof exportUser>[0];

const [projectId, other, large, importId] = [newId(), newId(), newId(), newId()];
/** The user that has many of everything, and 20,000 others. */
const heavy = newId();
const users = manyIds(USERS);
const broadcasts = manyIds(BROADCASTS);
const expired = Array.from({ length: EXPIRED }, (_, n) => firstIdAt(Date.now() - 8 * DAY_MS + n));
const ofHeavy = broadcasts.slice(-OF_USER);

beforeAll(async () => {
  database = await createTestDatabase();
  db = openDatabase(database.connection, { size: 1, name: 'backend plans', isDistributed: false });
  bus = createBus({ db, log, nodeId: newId(), shared: false });
  exported = {
    db,
    brand: 'service',
    contents: new BroadcastContents({ db }),
    categories: createCategoryCache({ db, bus }),
    integrations: createIntegrationCache({ db, sealer, log, bus }),
  };
  await rowsOf(db, 'set plan_cache_mode = force_generic_plan');
  for (const [, work] of READS) await readsOf(db, () => work());
  // An automatic analyze amid the tests would change some of these plans.
  await rowsOf(
    db,
    `do $$ begin execute (
      select string_agg(format('alter table %s set (autovacuum_enabled = off)', oid::regclass), '; ')
      from pg_class
      where relnamespace = 'public'::regnamespace and relkind = 'r'
    ); end $$`,
  );
  await fill();
  await rowsOf(db, 'vacuum notifications');
});
afterAll(async () => {
  await bus.close();
  await db.close();
  await database.drop();
});

function manyIds(count: number): string[] {
  return Array.from({ length: count }, () => newId());
}

async function fill(): Promise<void> {
  const message = packJson('{"title":"T","content":null,"action_url":null,"custom_attributes":null}');
  const all = [...users, heavy];
  await rowsOf(
    db,
    `with made as (
      insert into users
        (id, project_id, external_id, email, custom_attributes, created_at, updated_at, deleted_at)
      select id, case when n % 4 = 0 then $2::uuid else $1::uuid end, 'user-' || n,
        'user-' || n || '@example.com', '{"plan": "pro"}', now(), now(), case when n % 10 = 1 then now() end
      from unnest($3::uuid[]) with ordinality as u (id, n)
      returning id, project_id, external_id, email, deleted_at
    )
    insert into user_keys (project_id, kind, value, user_id, deleted)
    select project_id, kind, value, id, deleted_at is not null
    from made, lateral (values ('external_id', external_id), ('email', email)) as k (kind, value)`,
    [projectId, other, uuidArray(users)],
  );
  await rowsOf(
    db,
    `insert into users (id, project_id, external_id, created_at, updated_at)
    values ($1, $2, 'heavy', now(), now())`,
    [heavy, projectId],
  );
  await rowsOf(
    db,
    `insert into broadcasts (id, project_id, message, status, category, topic, total)
    select id, case when n % 20 = 0 then $2::uuid else $1::uuid end, $3, 'processed', 'c' || n % 7,
      case when n % 3 = 0 then 't' || n % 50 end, 2
    from unnest($4::uuid[]) with ordinality as b (id, n)`,
    [projectId, other, message, uuidArray([large, ...broadcasts])],
  );
  // A broadcast to all, and others to the user and one more.
  for (let page = 0; page < PAGES; page += 1) {
    const some = all.slice(page * ON_PAGE, (page + 1) * ON_PAGE + (page === PAGES - 1 ? 1 : 0));
    await rowsOf(db, 'insert into broadcast_users values ($1, $2, $3::uuid[], $4)', [
      large,
      page,
      uuidArray(some),
      '[{"channel":"in_app"},{"channel":"email","due":1}]',
    ]);
    await notify(
      some,
      some.map(() => large),
    );
  }
  await rowsOf(
    db,
    `insert into broadcast_users (broadcast_id, page, user_ids, plan)
    select id, 0, array[$1::uuid, $2::uuid], null from unnest($3::uuid[]) as b (id)`,
    [users[0], heavy, uuidArray(ofHeavy)],
  );
  await notify(
    ofHeavy.map(() => heavy),
    ofHeavy,
  );
  await rowsOf(
    db,
    `insert into subscriptions (user_id, topic, id, project_id, categories)
    select $1, 'topic-' || n, gen_random_uuid(), $2, '{"*": {"status": "subscribed"}}'
    from generate_series(1, ${OF_USER}) n`,
    [heavy, projectId],
  );
  await rowsOf(
    db,
    `insert into tokens (user_id, id, project_id, channel, hash, sealed_data, created_at, discarded_at)
    select $1, gen_random_uuid(), $2, 'mobile_push/fcm',
      case n when 1 then $3 else sha256(n::text::bytea) end, '',
      now(), case when n > ${ACTIVE_TOKENS} then now() end
    from generate_series(1, ${OF_USER}) n`,
    [heavy, projectId, tokenHash({ text: 'text' })],
  );
  const thisMonth = newId().slice(0, 13);
  for (const [owner, events] of [
    [heavy, OF_USER],
    [undefined, 5 * OF_USER],
  ] as const)
    await rowsOf(
      db,
      `insert into events (project_id, id, type, user_ids, details)
      select $1, overlay(overlay(gen_random_uuid()::text placing '0000' from 33) placing $4 from 1)::uuid,
        'subscription.saved', array[coalesce($2::uuid, gen_random_uuid())], '{"context": {"topic": "t"}}'
      from generate_series(1, $3::int)`,
      [projectId, owner, events, thisMonth],
    );
  await rowsOf(
    db,
    `insert into user_imports (id, project_id, status, total, created_at)
    select id, $1, 'processed', 10, now() from unnest($2::uuid[]) as i (id)`,
    [projectId, uuidArray([importId, ...manyIds(IMPORTS), ...expired])],
  );
  await rowsOf(
    db,
    `insert into user_import_pages (import_id, page, failures, size)
    select id, page, $1, 1 from user_imports, generate_series(0, 9) as page`,
    [packJson('[{"row":1,"user":{},"errors":[]}]')],
  );
}

/** Writes notifications, of which every second one is read, with deliveries by e-mail. */
async function notify(to: readonly string[], of: readonly string[]): Promise<void> {
  const ids = of.map((broadcast, index) => notificationId(broadcast, to[index] ?? ''));
  await rowsOf(
    db,
    `with made as (
      insert into notifications (user_id, id, broadcast_id, sent_at, seen_at, read_at, category)
      select user_id, id, broadcast_id, now(), case when n % 3 = 0 then now() end,
        case when n % 6 = 0 then now() end, 'c' || n % 7
      from unnest($1::uuid[], $2::uuid[], $3::uuid[]) with ordinality as t (user_id, id, broadcast_id, n)
      returning user_id, id, broadcast_id
    )
    insert into deliveries (
      user_id, notification_id, channel, broadcast_id, state, attempts, first_attempt_at, last_attempt_at
    )
    select user_id, id, 'email', broadcast_id, 'sent', 1, now(), now() from made`,
    [uuidArray(to), uuidArray(ids), uuidArray(of)],
  );
}

/** Imports a page of users of whom half exist. */
async function importPage(): Promise<void> {
  const rows = Array.from({ length: PAGE_OF_IMPORT }, (_, index): [number, ImportUser] => {
    const name = index % 2 ? `user-${index * 8 - 1}` : `new-${index}`;
    return [index + 1, { external_id: name, email: `${name}@example.com`, first_name: 'New' }];
  });
  const within = { ...db, transaction: <Result>(work: (tx: Database) => Promise<Result>) => work(db) };
  const page = { size: PAGE_OF_IMPORT, rows: packJson(JSON.stringify(rows)), failures: null };
  await createImport({ db: within }, projectId, [page, page]);
  const leaseId = newId();
  const [job] = await rowsOf<{ id: number; payload: string }>(
    db,
    `update jobs
    set lease_id = $1
    where kind = 'import_users' and due_at is null and lease_id is null
    returning id, payload`,
    [leaseId],
  );
  if (job === undefined) throw new Error('the import has no job');
  const handler = importHandler({ db: within, identities: new Identities(bus), bus });
  const of = { id: job.id, projectId, partitionKey: projectId, payload: JSON.parse(job.payload) };
  await handler.run(
    [{ kind: 'import_users', priority: BULK, weight: 1, attempt: 0, cutOffs: 0, ...of }],
    leaseId,
    () => {},
  );
}

async function drain(parts: AsyncIterable<string>): Promise<string[]> {
  const texts: string[] = [];
  for await (const text of parts) texts.push(text);
  return texts;
}

const exportHeavy = async () => {
  const user = await getUser(db, projectId, heavy);
  return user && drain(exportUser(exported, projectId, user));
};
const inbox = (filter: Parameters<typeof listNumberedPage>[2], page = 1) =>
  listNumberedPage(db, { projectId, id: heavy }, filter, { page, perPage: 15 });
const ofLarge = (page: number) =>
  notificationsOfBroadcast({ db, brand: 'service', projectId }, large, { page, perPage: 20 });

/** Operations, and the most rows that each reads. */
const READS: [what: string, work: () => Promise<unknown>, most: number][] = [
  // The import and its page, and for each user that exists two identities, the row, and the row to update.
  ['the import of a page', importPage, 4 * PAGE_OF_IMPORT],
  ['an import', () => getImport(db, projectId, importId), 1],
  ['the failures of an import', () => importFailures(db, importId), 10],
  // For each user an entry to find the end of the page, the row, and the newest notification.
  ['a page of the export of users', () => exportUsers(db, projectId, 'ndjson').next(), 3 * 1_000],
  ['the export of all users', () => drain(exportUsers(db, projectId, 'ndjson')), 3 * USERS],
  // Four rows for a notification: it, its content, its page of users and its state; and two for an event.
  ['the export of a user', exportHeavy, 9 * OF_USER],
  ['metrics by day', () => countBroadcasts({ db, clock }, projectId, 'day'), 20_000],
  ['metrics by category', () => countBroadcasts({ db, clock }, projectId, 'category'), 20_000],
  ['metrics by topic', () => countBroadcasts({ db, clock }, projectId, 'topic'), 20_000],
  ['a subscription', () => getSubscription(db, heavy, 'topic-7'), 1],
  // A plan made while the table was empty may read all active tokens of the channels, of which there are few.
  [
    'a token by its text',
    () => findActiveTokens(db, heavy, ['mobile_push/apns', 'mobile_push/fcm'], 'text'),
    ACTIVE_TOKENS,
  ],
  ['the names of users', () => userNames(db, users.slice(0, 50)), 50],
  ['page 1 of an inbox', () => inbox({}), 3 * 15],
  ['page 100 of an inbox', () => inbox({}, 100), 3 * 1_500],
  ['the unseen ones of an inbox', () => inbox({ seen: false }), 3 * 15],
  // Counted in their rows, and maybe by those of their broadcasts; and what the page shows.
  ['a category of an inbox', () => inbox({ categories: ['c1'] }), 2.5 * OF_USER],
  ['all of an inbox, with what is archived', () => inbox({ archived: 'any' }), OF_USER + 100],
  // Twice the pages of users; the notification, its e-mail, its state and the user.
  ['page 1 of the notifications of a broadcast', () => ofLarge(1), 2 * PAGES + 4 * 20],
  ['page 900 of the notifications of a broadcast', () => ofLarge(900), 2 * PAGES + 4 * 20],
  [
    'the deliveries of notifications of a user',
    () =>
      deliveriesOfUser(
        { db, brand: 'service', projectId },
        heavy,
        [large, ...ofHeavy.slice(0, 20)].map((id) => ({ id: notificationId(id, heavy), broadcast_id: id })),
      ),
    PAGES + 4 * 21,
  ],
  [
    'the purge of imports',
    () =>
      purgeExpired(
        {
          db: { query: db.query, transaction: (work) => work(db) },
          sealer,
          clock,
          config: { EVENTS_RETENTION_DAYS: 0, NOTIFICATIONS_RETENTION_DAYS: 0 },
        },
        new AbortController().signal,
      ),
    // Each is found and deleted, with its pages.
    EXPIRED * (2 + 2 * 10),
  ],
];

/** Until the first analyze, PostgreSQL 15 reads all identities and users for these; 17 does not. */
const WHOLE_TABLE = new Set(['the import of a page', 'the export of a user']);

describe.each([
  ['plans made while the tables were empty', undefined],
  ['plans made when the tables were full', 'analyze'],
])('with %s', (_when, prepare) => {
  beforeAll(async () => {
    if (prepare !== undefined) await rowsOf(db, prepare);
  });

  test.for(READS)('%s reads a bounded number of rows', async ([what, work, most], { skip }) => {
    const version = await withClient(database.connection, versionOf);
    skip(prepare === undefined && version < 170_000 && WHOLE_TABLE.has(what), 'as PostgreSQL 15 plans it');
    const { scanned, rows } = await readsOf(db, work);
    expect({ what, scanned, rows: rows <= most ? most : rows }).toEqual({ what, scanned: [], rows: most });
  });
});
