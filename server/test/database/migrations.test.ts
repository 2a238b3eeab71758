import { randomUUID } from 'node:crypto';
import pg from 'pg';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { openDatabase } from '../../src/db/client.ts';
import { migrate, schemaVersion } from '../../src/db/migrate.ts';
import { migrations } from '../../src/db/migrations.ts';
import { claim } from '../../src/queue/claim.ts';
import { ALL_PRIORITIES } from '../../src/queue/jobs.ts';
import { createTestDatabase, type TestDatabase } from '../support/database.ts';
import { until } from '../support/service.ts';

// An update of a database while servers of the previous release use it.

const name = `updated_${randomUUID().replaceAll('-', '')}`;
let database: TestDatabase;
let admin: pg.Client;
let before: pg.Client;
let after: pg.Client;

const connect = async () => {
  const client = new pg.Client({ ...database.connection, database: name });
  await client.connect();
  return client;
};

beforeAll(async () => {
  database = await createTestDatabase();
  admin = new pg.Client(database.connection);
  await admin.connect();
  await admin.query(`create database ${name}`);
  before = await connect();
  after = await connect();
});
afterAll(async () => {
  await before?.end();
  await after?.end();
  await admin.query(`drop database ${name} with (force)`);
  await admin.end();
  await database.drop();
});

test('a migration retries after a deadlock with a running server', async () => {
  await migrate(after, { to: 15 });
  const id = randomUUID();
  await before.query(
    "insert into broadcasts (id, project_id, message, status, pending) values ($1, $1, '', 'processing', 1)",
    [id],
  );
  await before.query(
    `insert into jobs (kind, project_id, priority, weight, payload)
    values ('deliver', $1, 1, 1, json_build_object('broadcast_id', $1::uuid))`,
    [id],
  );
  // The server completes a job and then updates the counts, as when it writes outcomes. It waits longer for
  // the lock, so PostgreSQL cancels the migration.
  await before.query("begin; set local deadlock_timeout = '1min'");
  await before.query('delete from jobs');
  const migrating = migrate(after, { to: 16 });
  await until(
    async () =>
      (
        await admin.query(
          `select from pg_stat_activity
          where datname = $1 and wait_event_type = 'Lock' and query like '%awaited%'`,
          [name],
        )
      ).rowCount,
    (waiting) => waiting === 1,
  );
  await before.query('update broadcasts set pending = 0 where id = $1', [id]);
  await before.query('commit');
  expect(await migrating).toEqual([16]);
  expect(await schemaVersion(after)).toBe(16);
  expect((await after.query('select pending, awaited from broadcasts')).rows).toEqual([
    { pending: 0, awaited: 0 },
  ]);
});

// From this version on. Earlier ones change tables that were small.
const FIRST_CHECKED = 31;

test('no migration locks a table against reads while it builds an index of it', async () => {
  await migrate(after, { to: FIRST_CHECKED - 1 });
  const checked = migrations().filter(({ version }) => version >= FIRST_CHECKED);
  const locked: string[][] = [];
  for (const migration of checked) {
    if (!migration.transaction) {
      await migrate(after, { to: migration.version });
      continue;
    }
    await after.query('begin');
    const tables = await after.query<{ oid: number }>("select oid from pg_class where relkind = 'r'");
    await after.query(migration.text);
    // A new index has its lock from the transaction that builds it.
    const { rows } = await after.query<{ name: string }>(
      `select distinct t.relname as name
      from pg_locks own
      join pg_class t on t.oid = own.relation
      join pg_index i on i.indrelid = t.oid
      join pg_locks built on built.relation = i.indexrelid and built.mode = 'AccessExclusiveLock'
      where own.pid = pg_backend_pid() and built.pid = own.pid and own.mode = 'AccessExclusiveLock'
        and t.oid = any ($1::oid[])`,
      [tables.rows.map(({ oid }) => oid)],
    );
    locked.push(rows.map(({ name: table }) => `${migration.name}: ${table}`));
    await after.query('insert into migrations (version, name) values ($1, $2)', [
      migration.version,
      migration.name,
    ]);
    await after.query('commit');
  }
  expect(locked.flat()).toEqual([]);
});

test('webhook jobs of a program before schema 30 are claimed by webhook, for its project', async () => {
  await migrate(after);
  const [projectId, webhookId] = [randomUUID(), randomUUID()];
  await before.query(
    `insert into projects (id, name, api_key, sealed_api_secret, sealed_signing_key)
    values ($1, 'updated', 'key', '', '')`,
    [projectId],
  );
  await before.query(
    `insert into webhooks (
      id, project_id, url, event_types, sealed_secret, feed_xact, feed_id, created_at, updated_at
    )
    values ($1, $2, 'https://example.com', '{}', '', '0', $1, now(), now())`,
    [webhookId, projectId],
  );
  await before.query(
    `insert into jobs (kind, project_id, priority, weight, lease_id, payload)
    select 'webhook', $1, 1, 1, lease_id::uuid, json_build_object('webhook_id', $1::uuid)
    from (values (null), (gen_random_uuid()::text)) as l (lease_id)`,
    [webhookId],
  );
  const db = openDatabase({ ...database.connection, database: name }, { size: 1, name: 'test' });
  try {
    await after.query(migrations().find(({ version }) => version === 66)?.text ?? '');
    const jobs = await claim(db, {
      ...{ kind: 'send_webhook', leaseId: randomUUID(), maxJobs: 10, maxWeight: 10, maxPartitions: 10 },
      ...{ exceptPartitions: [], afterPartition: randomUUID(), oldestFirst: false },
      priorities: ALL_PRIORITIES,
    });
    expect(jobs).toMatchObject([{ projectId, partitionKey: webhookId, payload: { webhook_id: webhookId } }]);
  } finally {
    await db.close();
  }
});
