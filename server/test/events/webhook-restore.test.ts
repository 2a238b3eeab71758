import { PassThrough } from 'node:stream';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { backup } from '../../src/db/backup.ts';
import { openDatabase, sql } from '../../src/db/client.ts';
import { restore } from '../../src/db/restore.ts';
import { relayEvents } from '../../src/domain/after/webhooks/relay.ts';
import { saveWebhook } from '../../src/domain/after/webhooks/webhooks.ts';
import { readFeed } from '../../src/domain/ground/events/feed.ts';
import { recordEvents } from '../../src/domain/ground/events/record.ts';
import { createProject } from '../../src/domain/setup/projects/create.ts';
import { OLDEST } from '../../src/lib/cursor.ts';
import { newId } from '../../src/lib/ids.ts';
import { createSealer } from '../../src/lib/seal.ts';
import { createTestDatabase, type TestDatabase } from '../support/database.ts';
import { until } from '../support/service.ts';

let source: TestDatabase;
let target: TestDatabase;
beforeAll(async () => {
  [source, target] = await Promise.all([createTestDatabase(), createTestDatabase()]);
});
afterAll(() => Promise.all([source.drop(), target.drop()]));

const queued = sql('test_queued', "select payload from jobs where kind = 'send_webhook'");

test('restored on another server, webhooks send all unsent events, and the feed has all events', async () => {
  const sealer = createSealer([Buffer.alloc(32, 1)]);
  const db = openDatabase(source.connection, { size: 4, name: 'source' });
  const project = await createProject({ db, sealer }, 'restored');
  const projectId = project?.id ?? '';
  const record = async () => {
    await recordEvents(db, [{ projectId, type: 'user.updated', userIds: [newId(), newId()] }]);
  };
  await record();
  const url = 'https://example.com';
  const first = await saveWebhook({ db, sealer }, projectId, { url, event_types: ['user.updated'] });
  await record();
  await until(
    () => relayEvents({ db, clock: { now: Date.now } }, OLDEST),
    ({ queued: count }) => count > 0,
  );
  await record();
  // Saved at the last moment: it has read nothing.
  const second = await saveWebhook({ db, sealer }, projectId, { url, event_types: ['user.updated'] });
  // As on a server that has had many more transactions.
  await db.query(sql('test_age', "update events set xact = '9000000000000'"));
  await db.query(sql('test_age_webhooks', "update webhooks set feed_xact = '9000000000000'"));
  await db.query(sql('test_age_ids', 'delete from jobs'));
  const file = new PassThrough();
  await Promise.all([backup(source, file), restore(target, file)]);
  await db.close();

  const restored = openDatabase(target.connection, { size: 4, name: 'target' });
  await recordEvents(restored, [{ projectId, type: 'user.updated' }]);
  const [part] = await until(
    () => readFeed(restored, [{ projectId, after: { xact: '0', eventId: OLDEST } }]),
    ([one]) => (one?.events.length ?? 0) >= 9,
  );
  // Three rows of two, two saved webhooks, and the last.
  expect(part?.events).toHaveLength(9);
  while ((await relayEvents({ db: restored, clock: { now: Date.now } }, OLDEST)).last !== undefined);
  const jobs = (await restored.query<{ payload: string }>(queued)).map(
    ({ payload }) => JSON.parse(payload) as { webhook_id: string; event_ids: string[] },
  );
  const sentTo = (id: string | undefined) =>
    new Set(jobs.filter((job) => job.webhook_id === id).flatMap((job) => job.event_ids));
  const users =
    part?.events.filter(({ event }) => event.type === 'user.updated').map(({ event }) => event.id) ?? [];
  // Events after each position are sent; those of the minute before are sent again.
  for (const id of users.slice(-3)) expect(sentTo(first?.id)).toContain(id);
  expect(sentTo(second?.id)).toContain(users.at(-1));
  await restored.close();
});
