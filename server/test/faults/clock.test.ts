import { afterEach, expect, test } from 'vitest';
import { sql } from '../../src/db/client.ts';
import { dueNow, expectExactlyOnce, load, messageIdOf, saveSmtp } from '../support/faults.ts';
import { startTestService, type TestService, until } from '../support/service.ts';
import { startSmtpStandIn } from '../support/smtp-stand-in.ts';

const HOUR_MS = 3_600_000;

const undo: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const step of undo.splice(0).reverse()) await step();
});

/** A service with an adjustable clock. */
async function start(): Promise<{ service: TestService; clock: { now(): number; offMs: number } }> {
  const clock = { offMs: 0, now: () => Date.now() + clock.offMs };
  const service = await startTestService({ clock });
  undo.push(() => service.stop());
  return { service, clock };
}

test('a clock that jumps by an hour, back and forth, loses nothing, and ids still rise', {
  timeout: 60_000,
}, async () => {
  const { service, clock } = await start();
  const smtp = await startSmtpStandIn();
  undo.push(() => smtp.stop());
  await saveSmtp(service.project, smtp);
  // Some e-mails have to be retried, at a time that the clock gives.
  smtp.fail({ at: 'mail', how: { reply: '451 4.3.0 Try again later' }, times: 20 });
  const running = load(service.project, { clients: 1 });
  for (const offMs of [HOUR_MS, 0, -HOUR_MS, HOUR_MS, -HOUR_MS, 0]) {
    clock.offMs = offMs;
    await running.accepted(running.responses.length + 15);
  }
  await running.stop();
  expect(running.responses.filter(({ status }) => status !== 201)).toEqual([]);
  const ids = running.responses.map(({ id }) => id);
  expect(ids).toEqual([...ids].sort());
  expect(new Set(ids).size).toBe(ids.length);
  await until(
    async () => {
      await dueNow(service);
      const [row] = await service.context.db.query<{ count: number }>(sql('', 'select count(*) from jobs'));
      return row?.count;
    },
    (left) => left === 0,
    { withinMs: 20_000, everyMs: 100 },
  );
  await expectExactlyOnce(service, running);
  const emails = smtp.received.map(messageIdOf);
  expect(new Set(emails).size).toBe(emails.length);
});

test('the expiry of tokens follows the current clock', async () => {
  const { service, clock } = await start();
  const seconds = Math.floor(Date.now() / 1000);
  const call = service.project.as('clock', { nbf: seconds - 60, exp: seconds + 1_800 });
  const status = async () => (await call('GET', '/notifications')).status;
  expect(await status()).toBe(200);
  clock.offMs = HOUR_MS;
  expect(await status()).toBe(401);
  clock.offMs = -HOUR_MS;
  expect(await status()).toBe(401);
  clock.offMs = 0;
  expect(await status()).toBe(200);
});
