import { afterAll, beforeAll, expect, test } from 'vitest';
import { type Database, openDatabase, sql } from '../../src/db/client.ts';
import { MessageRecorder } from '../../src/domain/after/webhooks/record.ts';
import { relayEvents } from '../../src/domain/after/webhooks/relay.ts';
import { saveWebhook } from '../../src/domain/after/webhooks/webhooks.ts';
import { recordEvents } from '../../src/domain/ground/events/record.ts';
import { createProject } from '../../src/domain/setup/projects/create.ts';
import { OLDEST } from '../../src/lib/cursor.ts';
import { newId } from '../../src/lib/ids.ts';
import { createLogger } from '../../src/lib/log.ts';
import { createSealer } from '../../src/lib/seal.ts';
import { createTestDatabase, type TestDatabase } from '../support/database.ts';
import { until } from '../support/service.ts';

const clock = { now: Date.now };
let database: TestDatabase;
let db: Database;

beforeAll(async () => {
  database = await createTestDatabase();
  db = openDatabase(database.connection, { size: 4, name: 'test' });
});
afterAll(async () => {
  await db.close();
  await database.drop();
});

const run = (text: string) => db.query(sql('', text));

test('the feed of a webhook is read while outcomes of its messages are being committed', async () => {
  const sealer = createSealer([Buffer.alloc(32, 1)]);
  const projectId = (await createProject({ db, sealer }, 'relay'))?.id ?? '';
  const saved = await saveWebhook({ db, sealer }, projectId, { url: 'https://example.com' });
  const webhookId = saved?.id ?? '';
  await recordEvents(db, [{ projectId, type: 'user.updated' }]);
  await run(`create function wait_at_commit() returns trigger language plpgsql as
    'begin perform pg_advisory_xact_lock(42); return null; end'`);
  await run(`create constraint trigger wait_at_commit after insert on webhook_messages
    deferrable initially deferred for each row execute function wait_at_commit()`);
  const holder = await db.connect();
  await holder.query('select pg_advisory_lock(42)');
  const log = createLogger({ level: 'silent' });
  const recorder = new MessageRecorder({ db, clock, log, onRecorded: () => {}, onUnblocked: () => {} });
  const attempt = { accepted: true, gone: false, status: 204, reason: null, retryAfterMs: null };
  const recorded = recorder.report({
    accepted: {
      ...{ webhookId, projectId, id: newId(), type: 'user.updated', state: 'sent', attempts: 1 },
      ...{ attempt: { ...attempt, durationMs: 1, atMs: clock.now() } },
      ...{ reason: null, nextAttemptMs: null, replay: false },
    },
  });
  await until(
    () =>
      run("select 1 from pg_stat_activity where datname = current_database() and wait_event = 'advisory'"),
    (rows) => rows.length > 0,
  );
  try {
    // The feed ends before the oldest transaction of the whole database server, which may be another test's.
    const { queued } = await until(
      () => relayEvents({ db, clock }, OLDEST),
      (turn) => turn.queued > 0,
    );
    expect(queued).toBeGreaterThan(0);
  } finally {
    await holder.end();
    await recorded;
  }
});
