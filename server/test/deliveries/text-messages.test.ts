import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { type Database, sql } from '../../src/db/client.ts';
import { createOutcomeRecorder } from '../../src/domain/line/deliver/record.ts';
import { MAX_MARKS, markTexts, removeMarks } from '../../src/domain/line/sending/text-marks.ts';
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

// Text messages cost money and cannot be undone, and providers reject some addresses for good.

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
  phone.reply(QUEUED);
});

async function send(phone_numbers = ['+1 500-555-0001'], body: object = {}): Promise<string> {
  const recipients = [{ external_id: 'ada', phone_numbers }];
  return (await project.call('POST', '/broadcasts', { title: 'Your code', recipients, ...body })).body.id;
}
const numbers = () => phone.requests.map(({ body }) => new URLSearchParams(body).get('To'));
/** Waits for the end, and runs every retry at once. */
const ended = (id: string) =>
  until(
    () => bringForward(service).then(() => project.call('GET', `/broadcasts/${id}`)),
    ({ body }) => body.status.status === 'processed' && body.status.summary.pending === 0,
    { everyMs: 50 },
  );
const refused = (code: number) => ({
  status: 400,
  body: { code, message: `refused: ${code}`, status: 400 },
});

describe('a text message with an ambiguous outcome', () => {
  test('is sent once more', async () => {
    phone.reply('cut', QUEUED);
    const id = await send();
    await ended(id);
    expect(numbers()).toEqual(['+15005550001', '+15005550001']);
    expect(await deliveriesOf(service, id)).toMatchObject([{ state: 'sent', attempts: 2 }]);
  });

  test('is never sent a third time', async () => {
    phone.reply('cut');
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

  test('is counted even if unambiguous failures occur in between', async () => {
    const busy = { status: 429, body: { code: 20429, message: 'Too many', status: 429 } };
    phone.reply(busy, busy, 'cut', busy, busy, 'cut', QUEUED);
    const id = await send();
    await ended(id);
    expect(numbers()).toHaveLength(6);
    expect(await deliveriesOf(service, id)).toMatchObject([
      { state: 'failed', code: 'ambiguous', attempts: 6 },
    ]);
  });

  test('that was marked before a crash counts as sent', async () => {
    phone.reply('cut', QUEUED);
    const id = await send();
    // The state after a process was killed between marking the second send and learning its outcome.
    await until(
      () =>
        service.rows(
          `update deliveries
            set unsure = 2 -- language-ignore: the name of the column
            where broadcast_id = $1 and attempts = 1
              and unsure = 1 -- language-ignore: the name of the column
            returning 1`,
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
  phone.reply('hang');
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
    sql('', 'select 1 from deliveries where broadcast_id = $1 and unsure > 0' /* language-ignore: column */),
    [body.id],
  );
  expect(marked).toHaveLength(inFlight);
  phone.reply(QUEUED);
  await ended(body.id);
});

describe('the marks of ambiguous sends', () => {
  const text = (changes: object = {}) => ({
    userId: newId(),
    notificationId: newId(),
    broadcastId: newId(),
    channel: 'sms',
    attempt: 0,
    firstAttemptMs: Date.now(),
    ...changes,
  });
  const marksOf = ({ notificationId }: { notificationId: string }) =>
    service.context.db.query(
      sql(
        '',
        'select unsure as marks from deliveries where notification_id = $1' /* language-ignore: column */,
      ),
      [notificationId],
    );

  test('limit how often each delivery is sent', async () => {
    const { db } = service.context;
    const [one, other] = [text(), text()];
    for (let count = 1; count <= MAX_MARKS; count += 1)
      expect([...(await markTexts(db, [one]))]).toEqual([[one.notificationId, count]]);
    expect([...(await markTexts(db, [one, other]))]).toEqual([[other.notificationId, 1]]);
  });

  test('are removed if nothing was sent', async () => {
    const { db } = service.context;
    const texts = [text(), text({ attempt: 1 })];
    await markTexts(db, texts);
    await markTexts(db, texts);
    await removeMarks(db, texts);
    for (const one of texts) expect(await marksOf(one)).toEqual([{ marks: 1 }]);
    await removeMarks(db, texts);
    const [first, second] = texts;
    expect(await marksOf(first as ReturnType<typeof text>)).toEqual([]);
    expect(await marksOf(second as ReturnType<typeof text>)).toEqual([{ marks: 0 }]);
  });

  test('of concurrent deliveries are all kept', async () => {
    const { db } = service.context;
    const texts = Array.from({ length: 50 }, () => text());
    const marks = await Promise.all(
      Array.from({ length: 6 }, (_, index) => markTexts(db, index % 2 ? texts : texts.toReversed())),
    );
    expect(marks.reduce((sum, marked) => sum + marked.size, 0)).toBe(texts.length * MAX_MARKS);
  });

  /** A recorder whose first commit succeeds, but is not confirmed because the connection breaks. */
  function forgetfulRecorder() {
    const { db, addressKeys, log } = service.context;
    let committed = false;
    const forgetful: Database = {
      ...db,
      async transaction(work) {
        const result = await db.transaction(work);
        if (committed) return result;
        committed = true;
        throw Object.assign(new Error('the connection broke'), { code: 'ECONNRESET' });
      },
    };
    return createOutcomeRecorder({ db: forgetful, addressKeys, log });
  }

  test('are removed once, even if the response to the commit was lost', async () => {
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
      hasUnusedMark: true,
    };
    await forgetfulRecorder().report({ outcome });
    expect(await marksOf(one)).toEqual([{ marks: 1 }]);
  });

  test('of unsent messages are removed once, together with the end of their job', async () => {
    const { db } = service.context;
    const [tried, untried] = [text(), text({ attempt: 1 })];
    await markTexts(db, [tried, untried]);
    await markTexts(db, [untried]);
    const leaseId = newId();
    const [job] = await db.query<{ id: number }>(
      sql(
        '',
        `insert into jobs (kind, project_id, lease_id, payload) values ('deliver', $1, $2, '{}')
          returning id`,
      ),
      [project.id, leaseId],
    );
    const finished = { jobId: job?.id ?? 0, leaseId, retries: [], unusedMarks: [untried] };
    await forgetfulRecorder().report({ finished });
    expect(await marksOf(untried)).toEqual([{ marks: 1 }]);
    // A worker that lost the job meanwhile removes its own mark, too.
    await markTexts(db, [untried]);
    const recorder = createOutcomeRecorder(service.context);
    await recorder.report({ finished });
    expect(await marksOf(untried)).toEqual([{ marks: 1 }]);
  });
});

describe('a number that the provider rejects', () => {
  test('fails over to the next number within the same attempt, and is not used again', async () => {
    phone.reply(refused(21211), QUEUED);
    const two = ['+1 500-555-0001', '+1 500-555-0002'];
    const id = await send(two);
    await processed(project.call, id);
    expect(numbers()).toEqual(['+15005550001', '+15005550002']);
    expect(await deliveriesOf(service, id)).toMatchObject([{ state: 'sent', attempts: 1 }]);
    phone.reply(QUEUED);
    await processed(project.call, await send(two));
    expect(numbers()).toEqual(['+15005550002']);
  });

  test('is not retried if the next number is rate limited', async () => {
    const config = { account_sid: 'AC1', api_key: 'SK1', api_secret: 'secret', from: '+14155550100' };
    await project.call('PUT', '/integrations/twilio', { ...config, max_per_second: 0.4 });
    phone.reply(refused(21211), QUEUED);
    const id = await send(['+1 500-555-0001', '+1 500-555-0002']);
    await ended(id);
    expect(numbers()).toEqual(['+15005550001', '+15005550002']);
    expect(await deliveriesOf(service, id)).toMatchObject([{ state: 'sent', attempts: 2 }]);
  });

  test('fails the delivery if it is the only one, and skips the next; events do not contain it', async () => {
    phone.reply(refused(21610));
    const first = await send();
    await processed(project.call, first);
    expect(await deliveriesOf(service, first)).toMatchObject([{ state: 'failed', code: '21610' }]);
    phone.reply(QUEUED);
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

test('a rejected e-mail address is suppressed with the outcome and not used again', async () => {
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
