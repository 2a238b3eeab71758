import { afterAll, afterEach, beforeAll, expect, test, vi } from 'vitest';
import { timeOf } from '../../src/lib/ids.ts';
import { bringForward } from '../support/all-channels.ts';
import { saveSmtp } from '../support/faults.ts';
import { processed, startTestService, type TestService, until } from '../support/service.ts';
import { type SmtpStandIn, startSmtpStandIn } from '../support/smtp-stand-in.ts';

// A server whose clock is wrong and corrected later. Due times do not depend on it, because the clock of the
// database counts.

const DAY_MS = 86_400_000;
let service: TestService;
let mail: SmtpStandIn;

beforeAll(async () => {
  [service, mail] = await Promise.all([startTestService({ pollMs: 50 }), startSmtpStandIn()]);
  await saveSmtp(service.project, mail);
  await service.project.call('PUT', '/channels', {
    key: 'later',
    channels: [
      { channel: 'email', delay: 900 },
      { channel: 'in_app', delay: 900 },
    ],
  });
});
afterAll(async () => {
  await Promise.all([service?.stop(), mail?.stop()]);
});
afterEach(() => {
  vi.restoreAllMocks();
});

test.each([
  ['ahead', 31],
  ['behind', -31],
])(
  'e-mails that a server sends while its clock is a month %s are due, and sent, in time',
  async (_, days) => {
    const { project } = service;
    const right = Date.now;
    vi.spyOn(Date, 'now').mockImplementation(() => right() + days * DAY_MS);
    await service.restart();
    mail.received.length = 0;
    mail.fail({ at: 'end', how: { reply: '451 4.3.0 Later' } });
    const send = async (body: object) => {
      const recipients = [{ external_id: 'ada', email: 'ada@example.com' }];
      const sent = await project.call('POST', '/broadcasts', { title: 'Hello', recipients, ...body });
      expect(sent.status).toBe(201);
      return sent.body.id as string;
    };
    const [retried, scheduled] = [await send({}), await send({ category: 'later' })];
    const near = (ms: number) => Math.abs(ms - right()) < 3_600_000;
    for (const id of [retried, scheduled]) expect([id, near(timeOf(id))]).toEqual([id, true]);
    const jobs = await until(
      () =>
        service.rows<{ due_at: Date }>(
          "select due_at from jobs where kind = 'deliver' and due_at is not null",
        ),
      (found) => found.length >= 2,
    );
    for (const { due_at: dueAt } of jobs) expect([dueAt, near(dueAt.getTime())]).toEqual([dueAt, true]);
    const { body } = await project.call('GET', '/events?limit=100');
    for (const { timestamp } of body.data)
      expect([timestamp, near(Date.parse(timestamp))]).toEqual([timestamp, true]);

    vi.restoreAllMocks();
    mail.heal();
    await bringForward(service);
    for (const id of [retried, scheduled]) {
      await until(
        () => bringForward(service).then(() => project.call('GET', `/broadcasts/${id}`)),
        (response) => response.body.status.summary.pending === 0,
      );
      expect((await processed(project.call, id)).status.summary).toEqual({
        total: 1,
        failures: 0,
        pending: 0,
      });
    }
    expect(mail.received).toHaveLength(2);
  },
);
