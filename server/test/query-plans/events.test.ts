import { afterAll, beforeAll, expect, test } from 'vitest';
import { type Database, openDatabase, sql } from '../../src/db/client.ts';
import { purgeExpired } from '../../src/domain/after/erasure/retention.ts';
import { listMessages } from '../../src/domain/after/webhooks/messages.ts';
import { relayEvents } from '../../src/domain/after/webhooks/relay.ts';
import { replayMessages } from '../../src/domain/after/webhooks/replays.ts';
import { saveWebhook } from '../../src/domain/after/webhooks/webhooks.ts';
import { feedEnd, findPosition, readFeed } from '../../src/domain/ground/events/feed.ts';
import { getEvents } from '../../src/domain/ground/events/get.ts';
import { listEvents } from '../../src/domain/ground/events/list.ts';
import { createProject } from '../../src/domain/setup/projects/create.ts';
import { NEWEST, OLDEST } from '../../src/lib/cursor.ts';
import { newId } from '../../src/lib/ids.ts';
import { createSealer } from '../../src/lib/seal.ts';
import { createTestDatabase, type TestDatabase } from '../support/database.ts';
import { until } from '../support/service.ts';

const TABLES = 'events\\w*|webhook\\w*|broadcasts|broadcast_users|notifications|deliveries';
const clock = { now: Date.now };
let database: TestDatabase;
let db: Database;

beforeAll(async () => {
  database = await createTestDatabase();
  db = openDatabase(database.connection, { size: 1, name: 'event plans', isDistributed: false });
  await db.query(sql('', 'set plan_cache_mode = force_generic_plan'));
});
afterAll(async () => {
  await db.close();
  await database.drop();
});

/** Runs every statement about events, webhooks and retention while the tables are nearly empty. */
async function prepareAll(): Promise<void> {
  const sealer = createSealer([Buffer.alloc(32, 1)]);
  const projectId = (await createProject({ db, sealer }, 'plans'))?.id ?? '';
  for (const direction of ['older', 'newer'] as const) {
    const cursor = { direction, id: NEWEST, limit: 51 };
    for (const types of [undefined, ['user.updated', 'user.created'] as const])
      await listEvents(db, projectId, { types }, cursor);
    for (const state of [undefined, 'failed'] as const) await listMessages(db, projectId, state, cursor);
  }
  await getEvents(db, projectId, [newId()]);
  await readFeed(db, [{ projectId, after: await feedEnd(db) }]);
  await findPosition(db, projectId, newId());
  const saved = await saveWebhook({ db, sealer }, projectId, { url: 'https://example.com' });
  const id = saved?.id ?? '';
  for (const status of ['all', 'failed'] as const)
    await replayMessages({ db, clock }, projectId, id, { since: new Date(0).toISOString(), status });
  await until(
    () => relayEvents({ db, clock }, OLDEST),
    ({ last }) => last === undefined,
  );
  await db.query(
    sql(
      'test_old',
      `with old as (insert into broadcasts (id, project_id, message, status) values ($1, $2, '', 'processed'))
      insert into broadcast_users values ($1, 0, array[$1]::uuid[])`,
    ),
    ['00000000-0000-7000-8000-000000000000', projectId],
  );
  const config = { EVENTS_RETENTION_DAYS: 1, NOTIFICATIONS_RETENTION_DAYS: 1 };
  await purgeExpired({ db, clock, sealer, config }, new AbortController().signal);
}

test('plans that are made while the tables are empty scan no large table', async () => {
  await prepareAll();
  const statements = await db.query<{ name: string; parameters: number }>(
    sql(
      '',
      `select name, cardinality(parameter_types) as parameters
      from pg_prepared_statements
      where statement ~* '(from|join|update|into) (${TABLES})\\M' and name !~ '^test_'`,
    ),
  );
  expect(statements.map(({ name }) => name)).toEqual(
    expect.arrayContaining([
      'list_events_older',
      'list_events_of_types_newer',
      'get_events',
      'read_feed',
      'read_feeds_of_webhooks',
      'claim_webhooks',
      'replay_events',
      'replay_failed_messages',
      'purge_events',
      'purge_notifications',
      'purge_broadcasts',
      'purge_webhook_messages',
    ]),
  );
  for (const { name, parameters } of statements) {
    const values = parameters === 0 ? '' : `(${Array.from({ length: parameters }, () => 'null').join(', ')})`;
    const rows = await db.query<Record<'QUERY PLAN', string>>(sql('', `explain execute ${name}${values}`));
    const plan = rows.map((row) => row['QUERY PLAN']).join('\n');
    // Hash and merge joins read all rows of a table or a project.
    expect([name, plan]).toEqual([name, expect.not.stringMatching(/Seq Scan|Hash|Merge Join/)]);
    // A lookup in a large table needs more than the project or the webhook.
    for (const [, conditions = ''] of plan.matchAll(
      /on (?:events|webhook_messages) ?\w*.*\n\s+Index Cond: (.+)/g,
    ))
      expect([name, conditions]).toEqual([name, expect.stringMatching(/\bid\b|webhook_id = w\.id\)$/)]);
  }
});
