import { createSecretKey, randomUUID } from 'node:crypto';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { capture } from '../../src/db/move/capture.ts';
import { listMovedTables } from '../../src/db/move/tables.ts';
import { HitRecorder } from '../../src/domain/after/tracking/record.ts';
import { TokenDiscarder } from '../../src/domain/people/tokens/discard-gone.ts';
import { saveToken } from '../../src/domain/people/tokens/save.ts';
import { PauseRecorder } from '../../src/domain/setup/integrations/pause-recorder.ts';
import { KeyUses } from '../../src/domain/setup/projects/key-uses.ts';
import { newId, notificationId } from '../../src/lib/ids.ts';
import { tokenCollection } from '../../src/providers/index.ts';
import { startTestService, type TestService } from '../support/service.ts';

// A node that has not heard of a move writes for a project that has left, and for others. If it waited for
// the end of the move, these tests would take two minutes.

let service: TestService;
/** A project that has left its cell, and one that stays, each with a user, a token and a delivery. */
let left: Filled;
let staying: Filled;

interface Filled {
  projectId: string;
  integrationId: string;
  userId: string;
  broadcastId: string;
}

beforeAll(async () => {
  service = await startTestService();
  [left, staying] = [await filled('left'), await filled('staying')];
  await service.rows('insert into leaving_projects (project_id, left_at) values ($1, now())', [
    left.projectId,
  ]);
  const client = await service.context.db.connect();
  await capture(client, await listMovedTables(client), left.projectId);
  await client.end();
});
afterAll(() => service?.stop());

async function filled(name: string): Promise<Filled> {
  const project = await service.createProject(name);
  const [projectId, integrationId, broadcastId] = [project.id, randomUUID(), newId()];
  const { body: user } = await project.call('PUT', '/users', { external_id: name });
  await service.rows(
    `insert into integrations values ($1, $2, 'ping_email', '\\x00', '2026-01-01Z', '2026-01-01Z')`,
    [integrationId, projectId],
  );
  const device = { device_token: name.padEnd(64, 'x') };
  await saveToken(service.context, tokenCollection('fcm'), { projectId, userId: user.id }, device);
  await service.rows('insert into tracking values ($1, true, true)', [projectId]);
  await service.rows(
    `insert into broadcasts (id, project_id, message, status) values ($1, $2, '\\x007b7d', 'processed')`,
    [broadcastId, projectId],
  );
  await service.rows(
    `insert into deliveries (
      user_id, notification_id, channel, broadcast_id, state, attempts, first_attempt_at, last_attempt_at
    )
    values ($1, $2, 'email', $3, 'sent', 1, now(), now())`,
    [user.id, notificationId(broadcastId, user.id), broadcastId],
  );
  return { projectId, integrationId, userId: user.id, broadcastId };
}

test('opens of a project that has left hold up no others', async () => {
  const hits = new HitRecorder({ db: service.context.db, log: service.context.log });
  for (const { projectId, broadcastId, userId } of [left, staying])
    hits.note({ kind: 'open', projectId, broadcastId, userId, channel: 'email', atMs: Date.now() });
  await hits.drained();
  const opened = await service.rows('select user_id from deliveries where opens > 0');
  expect(opened).toEqual([{ user_id: staying.userId }]);
});

test('tokens of a project that has left hold up no others', async () => {
  const discarder = new TokenDiscarder(service.context);
  const discards = [left, staying].map(async ({ projectId, userId }) => {
    const [token] = await service.rows<{ id: string }>('select id from tokens where user_id = $1', [userId]);
    const gone = { projectId, userId, tokenId: token?.id ?? '', channel: 'mobile_push/fcm' };
    await discarder.discard([{ ...gone, scope: 'token', reason: 'gone' }]);
  });
  expect(await Promise.allSettled(discards)).toMatchObject([{ status: 'rejected' }, { status: 'fulfilled' }]);
  const discarded = await service.rows('select user_id from tokens where discarded_at is not null');
  expect(discarded).toEqual([{ user_id: staying.userId }]);
});

test('uses of keys are written in the cell where the project lives', async () => {
  const uses = new KeyUses(service.context);
  const moved = newId(); // its rows have been deleted
  const key = { id: 'f00d', key: createSecretKey(Buffer.from('key')), validUntilMs: Infinity };
  for (const projectId of [moved, staying.projectId]) uses.note({ ...key, projectId });
  await uses.close();
  const written = await service.rows("select project_id from project_key_uses where key_id = 'f00d'");
  expect(written).toEqual([{ project_id: staying.projectId }]);
});

test('pauses of a project that has left hold up no others', async () => {
  const recorder = new PauseRecorder({ ...service.context, nodeId: 'test' });
  for (const { projectId, integrationId } of [left, staying])
    recorder.paused({
      ...{ projectId, integrationId, host: '', code: undefined, reason: 'it refuses' },
      version: new Date().toISOString(),
      ...{ sinceMs: Date.now(), untilMs: Date.now() + 60_000 },
    });
  const paused = () => service.rows('select project_id from integration_pauses');
  await expect.poll(paused).toEqual([{ project_id: staying.projectId }]);
  await recorder.close();
});
