import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import { startTestService, type TestProject, type TestService, until } from '../support/service.ts';
import { type SmtpStandIn, startSmtpStandIn } from '../support/smtp-stand-in.ts';

let service: TestService;
let mail: SmtpStandIn;
let project: TestProject;
let made = 0;

beforeAll(async () => {
  [service, mail] = await Promise.all([startTestService({ pollMs: 50 }), startSmtpStandIn()]);
});
afterAll(async () => {
  await Promise.all([service?.stop(), mail?.stop()]);
});
beforeEach(async () => {
  made += 1;
  project = await service.createProject(`deferred ${made}`);
  await project.call('PUT', '/integrations/smtp', {
    host: '127.0.0.1',
    port: mail.port,
    username: '',
    password: '',
    from: { email: 'news@example.com' },
    security: 'none',
  });
  mail.heal();
});

const send = async (): Promise<string> => {
  const recipients = [{ external_id: 'ada', email: 'ada@example.com' }];
  return (await project.call('POST', '/broadcasts', { title: 'Hello', recipients })).body.id;
};
const jobsOf = (id: string) =>
  service.rows<{ due_at: Date }>(
    `select due_at from jobs where payload->>'broadcast_id' = $1 and payload->>'back' is not null
        and due_at is not null`,
    [id],
  );
const emailOf = async (id: string) =>
  (await project.call('GET', `/broadcasts/${id}/deliveries?channel=email`)).body.data[0];

test('a delivery that waits for its window shows when it opens, also in lists', async () => {
  const [today = ''] = new Intl.DateTimeFormat('en', { weekday: 'long', timeZone: 'UTC' })
    .format(Date.now())
    .split(' ');
  const days = ['monday', 'tuesday', 'wednesday', 'thursday', 'friday', 'saturday', 'sunday'];
  const other = days[(days.indexOf(today.toLowerCase()) + 3) % 7];
  const windows = [{ days: [other], from: '10:00', to: '12:00' }];
  const saved = await project.call('PUT', '/channels/delivery_windows', {
    channels: [{ channel: 'email', windows }],
  });
  expect(saved.status).toBe(200);
  const id = await send();
  const [job] = await until(
    () => jobsOf(id),
    (jobs) => jobs.length === 1,
  );
  const delivery = await emailOf(id);
  expect(delivery).toMatchObject({ state: 'scheduled', due_at: job?.due_at.toISOString() });
  expect(Date.parse(delivery.due_at)).toBeGreaterThan(Date.now() + 24 * 3_600_000);
  const { body } = await project.call('GET', `/notifications/${delivery.notification_id}/deliveries`);
  expect(body.data.find((one: { channel: string }) => one.channel === 'email').due_at).toBe(delivery.due_at);
});

test('a retried delivery shows the time of the retry, and an ended one shows no time', async () => {
  mail.fail({ at: 'rcpt', how: { reply: '451 4.3.0 try again later' } });
  const id = await send();
  const move = (to: string) =>
    service.rows<{ due_at: Date }>(
      `update jobs set due_at = ${to} where payload->>'broadcast_id' = $1
          and payload->>'back' is not null and due_at is not null returning due_at`,
      [id],
    );
  // An attempt that has started shows no time.
  const [job] = await until(
    () => move("date_trunc('milliseconds', now() + interval '1 hour')"),
    (jobs) => jobs.length === 1,
  );
  expect(await emailOf(id)).toMatchObject({ state: 'retrying', due_at: job?.due_at.toISOString() });
  mail.heal();
  await move('now()');
  const ended = await until(
    () => emailOf(id),
    ({ state }) => state === 'sent',
  );
  expect(ended.due_at).toBeNull();
});
