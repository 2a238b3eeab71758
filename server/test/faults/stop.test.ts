import { rm } from 'node:fs/promises';
import { connect } from 'node:net';
import { expect, test } from 'vitest';
import { sql } from '../../src/db/client.ts';
import type { Opened } from '../../src/open.ts';
import { type BelfryProcess, startBelfry, withDatabaseOf } from '../support/belfry-process.ts';
import { newDataDir } from '../support/data-dir.ts';
import { expectExactlyOnce, load, messageIdOf, saveSmtp, settled } from '../support/faults.ts';
import { type Caller, caller, until } from '../support/service.ts';
import { startSmtpStandIn } from '../support/smtp-stand-in.ts';
import { startWebhookReceiver } from '../support/webhook-receiver.ts';

// Process managers wait 10 s. The rest is for a busy machine.
const STOPPED_WITHIN_MS = 15_000;

/** Registers a cleanup to run after the test, in reverse order. */
type Undo = (step: () => Promise<void>) => void;

async function ownDataDir(undo: Undo): Promise<string> {
  const dataDir = await newDataDir('stop');
  undo(() => rm(dataDir, { recursive: true, force: true }));
  return dataDir;
}

async function start(undo: Undo, dataDir: string): Promise<{ belfry: BelfryProcess; call: Caller }> {
  const belfry = await startBelfry(dataDir);
  undo(() => belfry.killTree());
  return { belfry, call: caller(() => belfry.address, belfry.credentials.project_jwt) };
}

async function startSmtp(undo: Undo) {
  const smtp = await startSmtpStandIn();
  undo(() => smtp.stop());
  return smtp;
}

/** Stops it as an operator does. Returns how long it took. */
async function stop(belfry: BelfryProcess): Promise<number> {
  const startedAt = performance.now();
  belfry.signal('SIGTERM');
  expect(await belfry.ended).toBe(0);
  const ms = performance.now() - startedAt;
  expect(belfry.tree()).toEqual([]);
  return ms;
}

async function count({ db }: Opened, text: string): Promise<number> {
  const [row] = await db.query<{ count: number }>(sql('', text));
  return row?.count ?? -1;
}

test('a stop under load completes requests, releases all leases, and no e-mail is sent twice', async ({
  onTestFinished: undo,
}) => {
  const dataDir = await ownDataDir(undo);
  const smtp = await startSmtp(undo);
  const { belfry, call } = await start(undo, dataDir);
  await saveSmtp({ call }, smtp);
  const running = load({ call }, { clients: 8 });
  await running.accepted(100);
  await smtp.waitFor(50);
  const askedAt = performance.now();
  const [tookMs] = await Promise.all([stop(belfry), running.refusedOrCut(8).then(() => running.stop())]);
  expect(tookMs).toBeLessThan(STOPPED_WITHIN_MS);
  for (const { status, startedAt, ms } of running.responses) {
    expect([201, 503, 0]).toContain(status);
    // Only requests that arrived during the stop may be rejected.
    if (status !== 201) expect(startedAt + ms).toBeGreaterThan(askedAt);
  }
  const left = await withDatabaseOf(dataDir, async (opened) => ({
    leases: await count(opened, 'select count(*) from leases'),
    leased: await count(opened, 'select count(*) from jobs where lease_id is not null'),
  }));
  expect(left).toEqual({ leases: 0, leased: 0 });
  const sentBefore = smtp.received.length;

  const again = await start(undo, dataDir);
  await settled(again.belfry);
  await stop(again.belfry);
  await withDatabaseOf(dataDir, async (opened) => {
    await expectExactlyOnce({ context: opened }, running);
    const wanted = await count(
      opened,
      'select count(*) from notifications n join users u on u.id = n.user_id where u.email is not null',
    );
    const ids = smtp.received.map(messageIdOf);
    console.log(
      `stopped in ${Math.round(tookMs)} ms; ${sentBefore} e-mails before, ${ids.length - sentBefore} ` +
        `after the restart`,
    );
    expect(new Set(ids).size).toBe(wanted);
    expect(ids).toHaveLength(wanted);
  });
});

// These two tests mostly wait, for timeouts of the stop: they run concurrently.
test.concurrent('a hanging webhook does not delay a stop, and gets its events after the next start', async ({
  onTestFinished: undo,
}) => {
  const dataDir = await ownDataDir(undo);
  const receiver = await startWebhookReceiver();
  undo(() => receiver.stop());
  const { belfry, call } = await start(undo, dataDir);
  receiver.reply(() => {});
  const types = ['user.created'];
  expect((await call('PUT', '/webhooks', { url: receiver.url, event_types: types })).status).toBe(200);
  await call('PUT', '/users', { external_id: 'ada' });
  const [hanging] = await receiver.waitFor(1);
  expect(await stop(belfry)).toBeLessThan(STOPPED_WITHIN_MS);
  receiver.reply(204);
  const { call: again } = await start(undo, dataDir);
  await receiver.waitFor(2);
  expect(receiver.received.map(({ id }) => id)).toEqual([hanging?.id, hanging?.id]);
  const [webhook] = (await again('GET', '/webhooks')).body.data;
  expect(webhook.failing_since).toBeNull();
});

test.concurrent('a hanging mail server and an endless request do not delay a stop', async ({
  onTestFinished: undo,
}) => {
  const dataDir = await ownDataDir(undo);
  const smtp = await startSmtp(undo);
  const { belfry, call } = await start(undo, dataDir);
  await saveSmtp({ call }, smtp);
  smtp.fail({ at: 'rcpt', how: 'hang' });
  const recipients = Array.from({ length: 30 }, (_, index) => ({ email: `hang-${index}@example.com` }));
  const { body } = await call('POST', '/broadcasts', { title: 'x', recipients });
  const slow = connect(Number(new URL(belfry.address).port), '127.0.0.1');
  slow.on('error', () => {}); // the server closes it
  slow.write(
    `POST /v2/broadcasts HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${belfry.credentials.project_jwt}\r\n` +
      'Content-Type: application/json\r\nContent-Length: 1000\r\n\r\n{',
  );
  // Each connection of the pool sends one, the rest wait.
  await until(
    () => smtp.connections().open,
    (now) => now >= 8,
  );
  const tookMs = await stop(belfry);
  console.log(`stopped in ${Math.round(tookMs)} ms with everything hanging`);
  expect(tookMs).toBeLessThan(STOPPED_WITHIN_MS);
  await withDatabaseOf(dataDir, async (opened) => {
    expect(await count(opened, 'select count(*) from leases')).toBe(0);
    expect(await count(opened, 'select count(*) from jobs where lease_id is not null')).toBe(0);
    // Sends in flight are retried later; here, now.
    await opened.db.query(sql('', 'update jobs set due_at = null'));
  });
  smtp.heal();
  const again = await start(undo, dataDir);
  await smtp.waitFor(30);
  await settled(again.belfry);
  const response = await again.call('GET', `/broadcasts/${body.id}`);
  expect(response.body.status).toEqual({
    status: 'processed',
    summary: { total: 30, failures: 0, pending: 0 },
    errors: null,
  });
  expect(smtp.received).toHaveLength(30);
});
