import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { type Database, sql } from '../../src/db/client.ts';
import { OutcomeRecorder } from '../../src/domain/line/deliver/record.ts';
import { MAX_MARKS, markTexts, unmarkTexts } from '../../src/domain/line/sending/text-marks.ts';
import { newId } from '../../src/lib/ids.ts';
import { bringForward, deliveriesOf } from '../support/all-channels.ts';
import {
  processed,
  startTestService,
  type TestProject,
  type TestService,
  until,
} from '../support/service.ts';
import { type SmtpStandIn, startSmtpStandIn } from '../support/smtp-stand-in.ts';
import { startVendor, type VendorStandIn } from '../support/vendor-stand-in.ts';
import { QUEUED } from '../support/vendors.ts';

// What costs money and cannot be taken back; and addresses that a provider has refused for good.

let service: TestService;
let phone: VendorStandIn;
let mail: SmtpStandIn;
let project: TestProject;
let made = 0;

beforeAll(async () => {
  [phone, mail] = await Promise.all([startVendor(), startSmtpStandIn()]);
  service = await startTestService({
    settings: { PROVIDER_TWILIO_BASE_URL: phone.address },
    pollMs: 50,
    timeouts: { connectMs: 1_000, replyMs: 1_000 },
  });
});
afterAll(async () => {
  await service?.stop();
  await Promise.all([phone?.stop(), mail?.stop()]);
});
beforeEach(async () => {
  made += 1;
  project = await service.createProject(`text messages ${made}`);
  const config = { account_sid: 'AC1', api_key: 'SK1', api_secret: 'secret', from: '+14155550100' };
  await project.call('PUT', '/integrations/twilio', config);
  phone.answer(QUEUED);
});

async function send(phone_numbers = ['+1 500-555-0001'], body: object = {}): Promise<string> {
  const recipients = [{ external_id: 'ada', phone_numbers }];
  return (await project.call('POST', '/broadcasts', { title: 'Your code', recipients, ...body })).body.id;
}
const numbers = () => phone.requests.map(({ body }) => new URLSearchParams(body).get('To'));
/** Waits for the end, with every retry at once. */
const ended = (id: string) =>
  until(
    () => bringForward(service).then(() => project.call('GET', `/broadcasts/${id}`)),
    ({ body }) => body.status.status === 'processed' && body.status.summary.pending === 0,
    { everyMs: 50, withinMs: 20_000 },
  );
const refused = (code: number) => ({
  status: 400,
  body: { code, message: `refused: ${code}`, status: 400 },
});

describe('a text message of which it is not known whether it was sent', () => {
  test('is sent once more', async () => {
    phone.answer('cut', QUEUED);
    const id = await send();
    await ended(id);
    expect(numbers()).toEqual(['+15005550001', '+15005550001']);
    expect(await deliveriesOf(service, id)).toMatchObject([{ state: 'sent', attempts: 2 }]);
  });

  test('is never sent a third time', async () => {
    phone.answer('cut');
    const id = await send();
    await ended(id);
    expect(numbers()).toHaveLength(2);
    expect(await deliveriesOf(service, id)).toMatchObject([
      { state: 'failed', code: 'ambiguous', attempts: 2 },
    ]);
    expect((await project.call('GET', `/broadcasts/${id}`)).body.status.summary).toEqual({
      total: 1,
      failures: 1,
      pending: 0,
    });
  });

  test('counts although others were surely not sent between', async () => {
    const busy = { status: 429, body: { code: 20429, message: 'Too many', status: 429 } };
    phone.answer(busy, busy, 'cut', busy, busy, 'cut', QUEUED);
    const id = await send();
    await ended(id);
    expect(numbers()).toHaveLength(6);
    expect(await deliveriesOf(service, id)).toMatchObject([
      { state: 'failed', code: 'ambiguous', attempts: 6 },
    ]);
  });

  test('what was written down before a crash counts as sent', async () => {
    phone.answer('cut', QUEUED);
    const id = await send();
    // As a process leaves it that was killed between writing the second one down and hearing of it.
    await until(
      () =>
        service.context.db.query(
          sql(
            '',
            'update deliveries set unsure = 2 where broadcast_id = $1 and unsure = 1 and attempts = 1 returning 1',
          ),
          [id],
        ),
      (rows) => rows.length === 1,
    );
    await ended(id);
    expect(numbers()).toHaveLength(1);
    expect(await deliveriesOf(service, id)).toMatchObject([{ state: 'failed', code: 'ambiguous' }]);
  });
});

test('is marked when its send starts, not while it waits for a permit', async () => {
  phone.answer('hang');
  const recipients = Array.from({ length: 100 }, (_, index) => ({
    external_id: `user-${index}`,
    phone_numbers: [`+1500555${2000 + index}`],
  }));
  const { body } = await project.call('POST', '/broadcasts', { title: 'Your code', recipients });
  const inFlight = await until(
    () => phone.requests.length,
    (count) => count === 64,
  );
  const marked = await service.context.db.query(
    sql('', 'select 1 from deliveries where broadcast_id = $1 and unsure > 0'),
    [body.id],
  );
  expect(marked).toHaveLength(inFlight);
  phone.answer(QUEUED);
  await ended(body.id);
});

describe('the marks of text messages', () => {
  const text = (changes: object = {}) => ({
    userId: newId(),
    notificationId: newId(),
    broadcastId: newId(),
    channel: 'sms',
    attempt: 0,
    firstAttemptMs: Date.now(),
    ...changes,
  });
  const unsureOf = ({ notificationId }: { notificationId: string }) =>
    service.context.db.query(sql('', 'select unsure from deliveries where notification_id = $1'), [
      notificationId,
    ]);

  test('let each delivery be sent as often as may be, and no more', async () => {
    const { db } = service.context;
    const [one, other] = [text(), text()];
    for (let count = 1; count <= MAX_MARKS; count += 1)
      expect([...(await markTexts(db, [one]))]).toEqual([[one.notificationId, count]]);
    expect([...(await markTexts(db, [one, other]))]).toEqual([[other.notificationId, 1]]);
  });

  test('leave nothing behind of what was not even tried', async () => {
    const { db } = service.context;
    const texts = [text(), text({ attempt: 1 })];
    await markTexts(db, texts);
    await markTexts(db, texts);
    await unmarkTexts(db, texts);
    for (const one of texts) expect(await unsureOf(one)).toEqual([{ unsure: 1 }]);
    await unmarkTexts(db, texts);
    const [first, second] = texts;
    expect(await unsureOf(first as ReturnType<typeof text>)).toEqual([]);
    expect(await unsureOf(second as ReturnType<typeof text>)).toEqual([{ unsure: 0 }]);
  });

  test('of many who mark the same at once, none is lost', async () => {
    const { db } = service.context;
    const texts = Array.from({ length: 50 }, () => text());
    const marks = await Promise.all(
      Array.from({ length: 6 }, (_, index) => markTexts(db, index % 2 ? texts : texts.toReversed())),
    );
    expect(marks.reduce((sum, marked) => sum + marked.size, 0)).toBe(texts.length * MAX_MARKS);
  });

  /** A recorder whose database commits, and breaks the connection before it says so: the first time. */
  function forgetfulRecorder() {
    const { db, addressKeys, log } = service.context;
    let told = false;
    const forgetful: Database = {
      ...db,
      async transaction(work) {
        const result = await db.transaction(work);
        if (told) return result;
        told = true;
        throw Object.assign(new Error('the connection broke'), { code: 'ECONNRESET' });
      },
    };
    return new OutcomeRecorder({ db: forgetful, addressKeys, log, onRecorded: () => {} });
  }

  test('are taken back once, also where the answer to the commit was lost', async () => {
    const { db } = service.context;
    const one = text();
    await markTexts(db, [one]);
    await markTexts(db, [one]);
    const outcome = {
      ...one,
      projectId: project.id,
      state: 'retrying' as const,
      attempts: 2,
      ...{ integrationId: null, provider: null, providerId: null, code: '429', reason: 'too many' },
      durationMs: 1,
      notSent: true,
    };
    await forgetfulRecorder().report({ outcome });
    expect(await unsureOf(one)).toEqual([{ unsure: 1 }]);
  });

  test('of what was not even tried are taken back with the end of its job, and once', async () => {
    const { db } = service.context;
    const [tried, untried] = [text(), text({ attempt: 1 })];
    await markTexts(db, [tried, untried]);
    await markTexts(db, [untried]);
    const leaseId = newId();
    const [job] = await db.query<{ id: number }>(
      sql(
        '',
        "insert into jobs (kind, project_id, lease_id, payload) values ('deliver', $1, $2, '{}') returning id",
      ),
      [project.id, leaseId],
    );
    const finished = { jobId: job?.id ?? 0, leaseId, retries: [], unmarked: [untried] };
    await forgetfulRecorder().report({ finished });
    expect(await unsureOf(untried)).toEqual([{ unsure: 1 }]);
    // Who has lost the job meanwhile takes back what is theirs, too.
    await markTexts(db, [untried]);
    const recorder = new OutcomeRecorder({ ...service.context, onRecorded: () => {} });
    await recorder.report({ finished });
    expect(await unsureOf(untried)).toEqual([{ unsure: 1 }]);
  });
});

describe('a number that the provider refuses', () => {
  test('is followed by the next, within the same attempt, and is never sent to again', async () => {
    phone.answer(refused(21211), QUEUED);
    const two = ['+1 500-555-0001', '+1 500-555-0002'];
    const id = await send(two);
    await processed(project.call, id);
    expect(numbers()).toEqual(['+15005550001', '+15005550002']);
    expect(await deliveriesOf(service, id)).toMatchObject([{ state: 'sent', attempts: 1 }]);
    phone.answer(QUEUED);
    await processed(project.call, await send(two));
    expect(numbers()).toEqual(['+15005550002']);
  });

  test('is not tried again where the next one has to wait its turn', async () => {
    const config = { account_sid: 'AC1', api_key: 'SK1', api_secret: 'secret', from: '+14155550100' };
    await project.call('PUT', '/integrations/twilio', { ...config, max_per_second: 0.4 });
    phone.answer(refused(21211), QUEUED);
    const id = await send(['+1 500-555-0001', '+1 500-555-0002']);
    await ended(id);
    expect(numbers()).toEqual(['+15005550001', '+15005550002']);
    expect(await deliveriesOf(service, id)).toMatchObject([{ state: 'sent', attempts: 2 }]);
  });

  test('as the only one has the delivery fail, and the next one skipped; the events do not name it', async () => {
    phone.answer(refused(21610));
    const first = await send();
    await processed(project.call, first);
    expect(await deliveriesOf(service, first)).toMatchObject([{ state: 'failed', code: '21610' }]);
    phone.answer(QUEUED);
    const second = await send(['+15005550001']);
    await processed(project.call, second);
    expect(await deliveriesOf(service, second)).toMatchObject([
      { state: 'skipped', code: 'address_suppressed' },
    ]);
    expect(numbers()).toEqual([]);
    const events = JSON.stringify((await project.call('GET', '/events')).body);
    expect(events).toContain('suppression.added');
    expect(events.replace(/[^0-9a-z]/g, '')).not.toContain('5005550001');
  });
});

test('an e-mail address that is refused is suppressed with the outcome, and nothing is sent to it again', async () => {
  await project.call('PUT', '/integrations/smtp', {
    host: '127.0.0.1',
    port: mail.port,
    username: '',
    password: '',
    from: { email: 'news@example.com' },
    security: 'none',
  });
  mail.fail({ at: 'rcpt', how: { reply: '550 5.1.1 <gone@example.com>: no such user' }, times: 1 });
  const broadcast = async (external_id: string) => {
    const recipients = [{ external_id, email: 'gone@example.com' }];
    return (await project.call('POST', '/broadcasts', { title: 'Hi', recipients })).body.id;
  };
  const first = await broadcast('ada');
  await processed(project.call, first);
  expect(await deliveriesOf(service, first)).toMatchObject([
    { state: 'failed', reason: expect.stringContaining('<[address]>: no such user') },
  ]);
  const { data } = (await project.call('GET', '/suppressions')).body;
  expect(data).toMatchObject([{ kind: 'email', reason: 'rejected', provider: 'smtp' }]);
  const second = await broadcast('ada');
  await processed(project.call, second);
  expect(await deliveriesOf(service, second)).toMatchObject([{ code: 'address_suppressed' }]);
  expect(mail.received).toEqual([]);
});
