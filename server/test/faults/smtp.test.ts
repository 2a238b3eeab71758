import { afterAll, afterEach, beforeAll, expect, test } from 'vitest';
import { dueNow, messageIdOf, saveSmtp } from '../support/faults.ts';
import { processed, startTestService, type TestService, until } from '../support/service.ts';
import { type SmtpStandIn, startSmtpStandIn } from '../support/smtp-stand-in.ts';

let service: TestService;
let smtp: SmtpStandIn;
let aheadMs = 0;

beforeAll(async () => {
  service = await startTestService({
    pollMs: 50,
    clock: { now: () => Date.now() + aheadMs },
    // One test waits for it. The others must not hit it, even on a busy machine.
    timeouts: { replyMs: 4_000 },
  });
  smtp = await startSmtpStandIn();
  await saveSmtp(service.project, smtp);
});
afterAll(async () => {
  await service.stop();
  await smtp.stop();
});
afterEach(() => {
  smtp.heal();
  smtp.received.splice(0);
});

const people = (name: string, count: number) =>
  Array.from({ length: count }, (_, index) => ({ email: `${name}-${index}@example.com` }));

async function send(name: string, count: number): Promise<string> {
  const { status, body } = await service.project.call('POST', '/broadcasts', {
    title: name,
    content: 'Hello',
    recipients: people(name, count),
  });
  expect(status).toBe(201);
  return body.id;
}

const statesOf = async (id: string) =>
  Object.fromEntries(
    (
      await service.rows<{ state: string; count: number }>(
        'select state, count(*) from deliveries where broadcast_id = $1 group by state',
        [id],
      )
    ).map(({ state, count }) => [state, count]),
  );

/** Waits until it is processed, and runs every retry and ends every pause at once. */
async function processedSoon(id: string) {
  await until(
    async () => {
      await dueNow(service);
      aheadMs += 10_000;
      return (await service.project.call('GET', `/broadcasts/${id}`)).body.status.summary.pending;
    },
    (pending) => pending === 0,
    { everyMs: 50 },
  );
  return processed(service.project.call, id);
}

/** How many of its e-mails arrived, and how many different ones. */
async function arrivedOf(id: string): Promise<{ all: number; distinct: number }> {
  const ids = new Set(
    (await service.rows<{ id: string }>('select id from notifications where broadcast_id = $1', [id])).map(
      (row) => row.id,
    ),
  );
  const mine = smtp.received.map(messageIdOf).filter((one) => ids.has(one));
  return { all: mine.length, distinct: new Set(mine).size };
}

test('a mail server that is down and comes back: every e-mail waits, and is sent once', async () => {
  await smtp.stop();
  const id = await send('away', 150);
  await until(
    () => statesOf(id),
    // The others wait: after a number of failures, no connection is tried for each.
    (states) => (states.retrying ?? 0) >= 20,
  );
  expect(Object.keys(await statesOf(id))).toEqual(['retrying']);
  const { body } = await service.project.call('GET', `/broadcasts/${id}`);
  expect(body.status).toMatchObject({ summary: { total: 150, failures: 0, pending: 150 }, errors: null });
  await smtp.restart();
  expect((await processedSoon(id)).status).toEqual({
    status: 'processed',
    summary: { total: 150, failures: 0, pending: 0 },
    errors: null,
  });
  expect(await statesOf(id)).toEqual({ sent: 150 });
  expect(await arrivedOf(id)).toEqual({ all: 150, distinct: 150 });
});

test('a mail server whose connections break during its work: all arrive, and few twice', async () => {
  const id = await send('cut', 300);
  await smtp.waitFor(40);
  await smtp.stop();
  await until(
    () => statesOf(id),
    (states) => (states.retrying ?? 0) > 0,
  );
  await smtp.restart();
  expect((await processedSoon(id)).status.summary).toEqual({ total: 300, failures: 0, pending: 0 });
  const { all, distinct } = await arrivedOf(id);
  console.log(`connections broken: ${all} e-mails for ${distinct} notifications`);
  expect(distinct).toBe(300);
  // Only e-mails without an acknowledgement may be sent again: one a connection.
  expect(all - distinct).toBeLessThanOrEqual(8);
});

test.each(['connect', 'mail', 'rcpt', 'body', 'end'] as const)(
  'conversations that break at %s are retried',
  async (at) => {
    smtp.fail({ at, how: 'cut', times: 6 });
    const id = await send(`break-${at}`, 20);
    expect((await processedSoon(id)).status.summary).toEqual({ total: 20, failures: 0, pending: 0 });
    const { all, distinct } = await arrivedOf(id);
    expect(distinct).toBe(20);
    expect(all - distinct).toBeLessThanOrEqual(at === 'end' ? 6 : 0);
  },
);

test('a recipient that the server rejects is counted and named, the others get their e-mails', async () => {
  smtp.fail({
    at: 'rcpt',
    how: { reply: '550 5.1.1 No such user here' },
    when: ({ to }) => to === 'refused-3@example.com',
  });
  const id = await send('refused', 10);
  const { status } = await processed(service.project.call, id);
  const [user] = await service.rows<{ id: string }>(
    "select id from users where email = 'refused-3@example.com'",
  );
  expect(status).toEqual({
    status: 'processed',
    summary: { total: 10, failures: 1, pending: 0 },
    errors: [{ message: expect.stringContaining(`email to user ${user?.id} (r***@example.com) failed`) }],
  });
  expect(status.errors[0].message).toContain('No such user here');
  expect(await arrivedOf(id)).toEqual({ all: 9, distinct: 9 });
});

test('a server that never responds delays a delivery by the timeout, and no other project', async () => {
  smtp.fail({ at: 'mail', how: 'hang', when: ({ from }) => from === 'belfry@example.com' });
  const id = await send('hang', 5);
  const other = await service.createProject('other');
  const fine = await startSmtpStandIn();
  try {
    await saveSmtp(other, fine);
    const { body } = await other.call('POST', '/broadcasts', { title: 'x', recipients: people('fine', 5) });
    await processed(other.call, body.id);
    expect(fine.received).toHaveLength(5);
  } finally {
    await fine.stop();
  }
  await until(
    () => statesOf(id),
    (states) => states.retrying === 5,
  );
  smtp.heal();
  expect((await processedSoon(id)).status.summary).toEqual({ total: 5, failures: 0, pending: 0 });
});
