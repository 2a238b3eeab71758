import { afterEach, expect, test } from 'vitest';
import { dueNow, expectExactlyOnce, load, messageIdOf, saveSmtp } from '../support/faults.ts';
import { processed, startTestService, type TestService, until } from '../support/service.ts';
import { startSmtpStandIn } from '../support/smtp-stand-in.ts';
import { startMeasuredServer } from '../support/start-measured-server.ts';
import { ended, inState, STATE, startRun } from '../support/workflows.ts';

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

test('a clock that jumps by an hour, back and forth, loses nothing, and ids still rise', async () => {
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
      const [row] = await service.rows<{ count: number }>('select count(*) from jobs');
      return row?.count;
    },
    (left) => left === 0,
    { everyMs: 100 },
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

// A module that moves the clock of a process by 31 days.
const AHEAD = `data:text/javascript,${encodeURIComponent(`
  const Right = Date;
  const now = () => Right.now() + 31 * 86_400_000;
  globalThis.Date = class extends Right {
    constructor(...given) { super(...(given.length === 0 ? [now()] : given)); }
    static now() { return now(); }
  };
`)}`;

test('a node whose clock is 31 days ahead follows the clock of the database', async () => {
  const server = await startMeasuredServer(['--import', AHEAD]);
  undo.push(() => server.stop());
  const [project] = server.projects;
  if (project === undefined) throw new Error('it has no project');
  const recipients = [{ external_id: 'ada' }];
  const sendAt = new Date(Date.now() + HOUR_MS).toISOString();
  const later = await project.call('POST', '/broadcasts', { title: 'Later', recipients, send_at: sendAt });
  expect(later.status).toBe(201);
  const user = { user: recipients[0] };
  const hello = { command: 'broadcast', input: { title: 'Waited' } };
  const waiting = await startRun(project, [{ command: 'wait', input: { duration: 86_400 } }, hello], user);
  await inState(project, waiting, STATE.waiting);
  // What is due at once, after them.
  const soon = await startRun(project, [{ command: 'wait', input: { duration: 1 } }, hello], user);
  expect((await ended(project, soon)).status.state).toBe(STATE.completed);
  const { body } = await project.call('POST', '/broadcasts', { title: 'Now', recipients });
  expect(Math.abs(Date.parse(body.created_at) - Date.now())).toBeLessThan(HOUR_MS);
  await processed(project.call, body.id);
  const inbox = (await project.as('ada')('GET', '/notifications')).body.data;
  expect(inbox.map(({ title }: { title: string }) => title)).toEqual(['Now', 'Waited']);
  await inState(project, waiting, STATE.waiting);
  expect((await project.call('GET', `/broadcasts/${later.body.id}`)).body.status).toMatchObject({
    status: 'enqueued',
  });
});
