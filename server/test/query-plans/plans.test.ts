import { afterAll, beforeAll, expect, test } from 'vitest';
import { type Database, openDatabase, sql } from '../../src/db/client.ts';
import { listWebhooks } from '../../src/domain/after/webhooks/webhooks.ts';
import { createBus, type NodeBus } from '../../src/domain/ground/bus/bus.ts';
import { Identities } from '../../src/domain/ground/identities/identities.ts';
import { listBroadcasts, listNumberedBroadcasts } from '../../src/domain/line/broadcasts/get.ts';
import { wakeHandler } from '../../src/domain/line/deliver/wake-waiting.ts';
import { findFewBroadcasts } from '../../src/domain/line/notifications/find-few.ts';
import { snoozeNotification } from '../../src/domain/line/notifications/snooze.ts';
import { SharedRateLimiter } from '../../src/domain/line/sending/shared-rate-limiter.ts';
import { listUsers } from '../../src/domain/people/users/list.ts';
import { resolveUsers } from '../../src/domain/people/users/resolve.ts';
import {
  claimProbe,
  endPauses,
  loadPausesOf,
  releaseProbes,
} from '../../src/domain/setup/integrations/pauses.ts';
import { wakeWaiting } from '../../src/domain/setup/integrations/waiting-jobs.ts';
import { systemClock } from '../../src/lib/clock.ts';
import { NEWEST } from '../../src/lib/cursor.ts';
import { newId, notificationId } from '../../src/lib/ids.ts';
import { createLogger } from '../../src/lib/log.ts';
import type { Job } from '../../src/queue/jobs.ts';
import { MAX_COUNTED, measureQueue } from '../../src/queue/measure.ts';
import { createTestDatabase, type TestDatabase } from '../support/database.ts';
import { readsOf } from '../support/reads-of.ts';

let database: TestDatabase;
let db: Database;
let bus: NodeBus;

beforeAll(async () => {
  database = await createTestDatabase();
  db = openDatabase(database.connection, { size: 1, name: 'plans', isDistributed: false });
  bus = createBus({ db, log: createLogger({ level: 'silent' }), nodeId: newId(), shared: false });
});
afterAll(async () => {
  await bus.close();
  await db.close();
  await database.drop();
});

test('a plan that is made while its table is empty scans no table', async () => {
  const projectId = newId();
  // After some calls, PostgreSQL uses one plan for all values.
  for (let count = 0; count < 12; count += 1) {
    const people = [{ projectId, externalId: 'ada', email: 'ada@example.com', firstName: `Ada ${count}` }];
    await db.transaction((tx) => resolveUsers(tx, new Identities(bus), people));
  }
  const plans = await plansOf("statement ~* '(join|update|from) (users|user_keys)'");
  expect(plans.map((one) => one.name)).toEqual(expect.arrayContaining(['select_owners', 'update_users']));
  for (const { plan } of plans) expect(plan).not.toContain('Seq Scan');
});

test('the lists of a project skip no rows of younger projects', async () => {
  const [older, younger] = [newId(), newId()];
  // Most rows belong to one project. Then the primary key, which orders all projects by time, looks cheaper.
  await db.query(
    sql(
      '',
      `do $$ begin
        insert into users (id, project_id, created_at, updated_at)
        select lpad(to_hex(n), 32, '0')::uuid, case when n < 9000 then '${older}' else '${younger}' end::uuid,
          now(), now()
        from generate_series(1, 10000) as n;
        insert into broadcasts (id, project_id, message)
        select lpad(to_hex(n), 32, '0')::uuid, case when n < 9000 then '${older}' else '${younger}' end::uuid,
          '\\x007b7d'
        from generate_series(1, 10000) as n;
        analyze users, broadcasts;
      end $$`,
    ),
  );
  for (const direction of ['older', 'newer'] as const) {
    const cursor = { direction, id: NEWEST, limit: 51 };
    await listUsers(db, older, undefined, cursor);
    await listBroadcasts(db, older, cursor);
    await listBroadcasts(db, older, cursor, { scheduled: true });
    await listNumberedBroadcasts(db, older, { page: 3, perPage: 50 }, () => '{}');
    await listWebhooks(db, older, cursor);
  }
  const scheduled = await plansOf("name ~ '^list_scheduled_broadcasts_(older|newer)$'");
  for (const { plan } of scheduled) expect(plan).toMatch(/ broadcasts_scheduled /);
  expect(scheduled).toHaveLength(2);
  const numbered = await plansOf("name in ('count_broadcasts', 'list_numbered_broadcasts')");
  for (const { plan } of numbered) expect(plan).toMatch(/ broadcasts_of_project\b/);
  expect(numbered).toHaveLength(2);
  const plans = await plansOf("name ~ '^list_(users|broadcasts|webhooks)_(older|newer)$'");
  expect(plans).toHaveLength(6);
  for (const { name, plan } of plans)
    expect([name, plan]).toEqual([name, expect.stringMatching(/_of_project\b/)]);
});

test('a search reads identities and users by their primary keys', async () => {
  for (const direction of ['older', 'newer'] as const)
    await listUsers(db, newId(), 'ada', { direction, id: NEWEST, limit: 51 });
  const plans = await plansOf("name ~ '^list_users_matching'");
  expect(plans).toHaveLength(2);
  for (const { plan } of plans) {
    expect(plan).toMatch(/users_(pkey|of_project)[\s\S]*Index Cond: .*id = ANY/);
    expect(plan).toMatch(/user_keys_pkey[\s\S]*Index Cond: .*value >= /);
    // PostgreSQL 15 removes duplicates of the few that it found by HashAggregate.
    expect(plan).not.toMatch(/Seq Scan|Hash (?:Join|Cond)|Merge/);
  }
});

test('few broadcasts are found by their index, even if nearly all have one category', async () => {
  const projectId = newId();
  await db.query(
    sql(
      '',
      `do $$ begin
        insert into broadcasts (id, project_id, category, topic, message)
        select gen_random_uuid(), '${projectId}', 'orders', 'orders', ''
        from generate_series(1, 10000);
        analyze broadcasts;
      end $$`,
    ),
  );
  await findFewBroadcasts(db, projectId, { category: 'news' });
  await findFewBroadcasts(db, projectId, { category: null });
  await findFewBroadcasts(db, projectId, { topic: 'news' });
  const plans = await plansOf("name ~ '^few_broadcasts_'");
  expect(plans).toHaveLength(3);
  for (const { name, plan } of plans)
    expect([name, plan]).toEqual([
      name,
      expect.stringMatching(/Index Only Scan using broadcasts_of_(category|topic)\b/),
    ]);
});

test('rates and pauses that nodes share are read and written by key', async () => {
  await db.query(
    sql(
      '',
      `do $$ begin
        insert into rate_schedules select n::text, 1, '', now() from generate_series(1, 10000) n;
        insert into projects values ('${PROJECT}', 'paused', 'key', '', '');
        insert into integrations values ('${PROJECT}', '${PROJECT}', 'smtp', '', now(), now());
        insert into integration_pauses
        select '${PROJECT}', '${PROJECT}', n::text, now(), now(), now(), null, ''
        from generate_series(1, 10000) n;
        analyze rate_schedules, integrations, integration_pauses;
      end $$`,
    ),
  );
  const log = createLogger({ level: 'silent' });
  const limiter = new SharedRateLimiter({ db, log, clock: { now: () => Date.now() } });
  await limiter.take([{ key: 'k', rates: [{ limit: 1, windowMs: 1_000 }] }], 't', Date.now());
  const key = { projectId: PROJECT, integrationId: PROJECT, host: 'host' };
  await claimProbe(db, { key, version: new Date().toISOString(), nodeId: 'n', nowMs: Date.now() });
  await releaseProbes(db, 'n', [key]);
  await loadPausesOf(db, [key]);
  await endPauses(db, [key]);
  const plans = await plansOf(
    "name ~ '^(swap_rate_schedules|(claim|release|select|delete)_integration_p.*)$'",
  );
  const names = plans.map(({ name }) => name).toSorted();
  expect(names).toEqual([
    'claim_integration_probe',
    'delete_integration_pauses',
    'release_integration_probes',
    'select_integration_pauses_of',
    'swap_rate_schedules',
  ]);
  for (const { name, plan } of plans)
    expect([name, plan]).toEqual([name, expect.not.stringMatching(/Seq Scan on (rate|integration)/)]);
});
const PROJECT = newId();

test('the queue is measured without reading all of its jobs', async () => {
  await db.query(
    sql(
      '',
      `do $$ begin
        insert into jobs (kind, project_id, payload) select 'deliver', '${PROJECT}', '{}'
        from generate_series(1, 50000);
        analyze jobs;
      end $$`,
    ),
  );
  const { scanned, rows } = await readsOf(db, () => measureQueue(db));
  expect(scanned).not.toContain('jobs');
  expect(rows).toBeLessThan(MAX_COUNTED + 100);
});

test('the job of a snooze is replaced without reading those of others', async () => {
  const [userId, broadcastId] = [newId(), newId()];
  const id = notificationId(broadcastId, userId);
  await db.query(
    sql(
      '',
      `do $$ begin
        insert into notifications (user_id, id, broadcast_id, sent_at)
        values ('${userId}', '${id}', '${broadcastId}', now());
        insert into jobs (kind, project_id, due_at, payload)
        select 'unsnooze', '${PROJECT}', now() + interval '1 day', json_build_object('notification_id', n)
        from generate_series(1, 50000) n;
        analyze jobs;
      end $$`,
    ),
  );
  const request = { projectId: PROJECT, userId, id };
  const untilMs = Date.now() + 3_600_000;
  const snooze = (count: number) =>
    snoozeNotification({ db, bus, clock: systemClock }, request, new Date(untilMs + count).toISOString());
  for (let count = 0; count < 12; count += 1) await snooze(count);
  const { scanned, rows } = await readsOf(db, () => snooze(12));
  expect(scanned).not.toContain('jobs');
  expect(rows).toBeLessThan(20);
});

test('what waits for an integration is found without reading other jobs', async () => {
  const projectId = newId();
  await db.query(
    sql(
      '',
      `do $$ begin
        insert into jobs (kind, project_id, due_at, payload)
        select 'deliver', '${projectId}', now() + interval '1 day',
          json_build_object('channel', 'sms', 'back', 'begun', 'broadcast_id', gen_random_uuid())
        from generate_series(1, 20000) n;
        insert into jobs (kind, project_id, due_at, payload)
        select 'deliver', case when n <= 5 then '${projectId}' else '${PROJECT}' end::uuid,
          now() + interval '1 day',
          json_build_object(
            'channel', 'sms', 'back', 'begun', 'broadcast_id', gen_random_uuid(), 'waits_for', 'rate'
          )
        from generate_series(1, 10000) n;
        analyze jobs;
      end $$`,
    ),
  );
  // In the transaction that is rolled back.
  const joined: Database = { ...db, transaction: (work) => work(db) };
  const handler = wakeHandler({ db: joined, clock: systemClock });
  const leaseId = newId();
  const claim = "update jobs set lease_id = $1 where kind = 'wake_waiting' returning id::int";
  await wakeWaiting(db, projectId, 'sms');
  const [{ id } = { id: 0 }] = await db.query<{ id: number }>(sql('', claim), [leaseId]);
  const job: Job<'wake_waiting'> = {
    ...{ id, kind: 'wake_waiting', projectId, partitionKey: projectId, priority: 0, weight: 1 },
    ...{ attempt: 1, cutOffs: 0, payload: { channel: 'sms' } },
  };
  const woken = "select from jobs where project_id = $1 and due_at is null and payload ->> 'woken' = 'true'";
  const { scanned, rows } = await readsOf(db, async () => {
    await wakeWaiting(db, projectId, 'sms');
    await handler.run([job], leaseId, () => {});
  });
  expect(scanned).not.toContain('jobs');
  expect(rows).toBeLessThan(60);
  await handler.run([job], leaseId, () => {});
  expect(await db.query(sql('', woken), [projectId])).toHaveLength(5);
});

/** The generic plans of the prepared statements that match the condition. */
async function plansOf(condition: string): Promise<{ name: string; plan: string }[]> {
  const statements = await db.query<{ name: string; parameters: number }>(
    sql(
      '',
      `select name, cardinality(parameter_types) as parameters
      from pg_prepared_statements
      where ${condition}`,
    ),
  );
  const plans: { name: string; plan: string }[] = [];
  await db.query(sql('', 'set plan_cache_mode = force_generic_plan'));
  for (const { name, parameters } of statements) {
    const values = Array.from({ length: parameters }, () => 'null').join(', ');
    const lines = await db.query<Record<'QUERY PLAN', string>>(sql('', `explain execute ${name}(${values})`));
    plans.push({ name, plan: lines.map((line) => line['QUERY PLAN']).join('\n') });
  }
  return plans;
}
