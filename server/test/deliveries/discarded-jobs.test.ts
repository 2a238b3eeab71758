import { afterAll, beforeAll, expect, test } from 'vitest';
import { deliveriesOf } from '../support/all-channels.ts';
import { saveSmtp } from '../support/faults.ts';
import { startTestService, type TestProject, type TestService, until } from '../support/service.ts';
import { type SmtpStandIn, startSmtpStandIn } from '../support/smtp-stand-in.ts';

// Deliveries whose job was discarded, because its worker has ended in each attempt.

let service: TestService;
let mail: SmtpStandIn;
let project: TestProject;

beforeAll(async () => {
  [service, mail] = await Promise.all([startTestService({ pollMs: 50 }), startSmtpStandIn()]);
  project = await service.createProject('discarded');
  await saveSmtp(project, mail);
});
afterAll(async () => {
  await Promise.all([service?.stop(), mail?.stop()]);
});

const REASON =
  'internal error: the server ended during 8 attempts; its log has the cause. ' +
  'Replay the delivery when that is corrected';

test('a delivery whose job was discarded says why, and the log whose it was', async () => {
  mail.fail({ at: 'rcpt', how: { reply: '451 4.3.0 try again later' } });
  const sent = await project.call('POST', '/broadcasts', {
    title: 'A secret title',
    recipients: [{ external_id: 'ada', email: 'ada@example.com' }],
  });
  const id = sent.body.id;
  await until(
    () =>
      service.rows(
        `update jobs set cut_offs = 8, attempt = 8, due_at = now()
        where kind = 'deliver' and payload->>'broadcast_id' = $1 and payload->>'back' = 'begun'
          and due_at is not null
        returning id`,
        [id],
      ),
    (rows) => rows.length > 0,
  );
  const [delivery] = await until(
    () => deliveriesOf(service, id),
    ([first]) => first?.state === 'failed',
  );
  expect(delivery).toMatchObject({ code: 'internal_error', reason: REASON });
  const events = await project.call('GET', '/events?type=delivery.failed');
  expect(JSON.stringify(events.body.data)).toContain(REASON);
  const [line = ''] = await until(
    async () => service.logged.filter((one) => one.includes('a job was discarded')),
    (found) => found.length > 0,
  );
  const [{ user_id: userId, id: notificationId } = { user_id: '', id: '' }] = await service.rows<{
    user_id: string;
    id: string;
  }>('select user_id, id from notifications where broadcast_id = $1', [id]);
  expect(JSON.parse(line)).toMatchObject({
    ...{ kind: 'deliver', projectId: project.id, attempts: 8, cutOffs: 8 },
    payload: { broadcast_id: id, channel: 'email', user_ids: [userId], notification_ids: [notificationId] },
    err: { message: 'its worker has ended in 8 attempts' },
  });
  expect(service.logged.join()).not.toMatch(/ada@|A secret title/);
});
