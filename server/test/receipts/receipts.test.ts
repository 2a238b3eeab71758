/**
 * Delivery reports through the whole service: posted as vendors post them, with their effect on deliveries,
 * events and later messages.
 */
import { createHmac, generateKeyPairSync, randomUUID, sign } from 'node:crypto';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import type { Event } from '../../src/contract/event.ts';
import { newId } from '../../src/lib/ids.ts';
import { processed, startTestService, type TestProject, type TestService } from '../support/service.ts';
import {
  CERTIFICATE,
  confirmation,
  type Envelope,
  notification,
  signEnvelope,
  TOPIC,
} from '../support/sns.ts';
import { startVendor, type VendorStandIn } from '../support/vendor-stand-in.ts';

const clock = { offsetMs: 0, now: () => Date.now() + clock.offsetMs };
let service: TestService;
let project: TestProject;
let vendor: VendorStandIn;
let sns: VendorStandIn;
let made = 0;

beforeAll(async () => {
  [vendor, sns] = await Promise.all([startVendor(), startVendor()]);
  service = await startTestService({
    clock,
    settings: {
      PROVIDER_MAILGUN_BASE_URL: vendor.address,
      PROVIDER_SENDGRID_BASE_URL: vendor.address,
      PROVIDER_SES_BASE_URL: vendor.address,
      PROVIDER_SNS_BASE_URL: sns.address,
      RATE_LIMIT_IP: '0',
    },
  });
});
afterAll(async () => {
  await service?.stop();
  await Promise.all([vendor, sns].map((one) => one?.stop()));
});
beforeEach(async () => {
  made += 1;
  clock.offsetMs = 0;
  project = await service.createProject(`receipts ${made}`);
  vendor.reply({ status: 202, headers: { 'x-message-id': 'sg' } });
  sns.reply({ status: 200, body: CERTIFICATE });
});

const from = { email: 'news@example.com' };

async function setUp(provider: string, config: object, of = project): Promise<string> {
  const saved = await of.call('PUT', `/integrations/${provider}`, config);
  expect([saved.status, saved.body]).toMatchObject([200, {}]);
  return (await of.call('GET', `/integrations/${provider}`)).body.data[0].id;
}

interface Sent {
  id: string;
  email: string;
  reference: string;
}

/** Sends an e-mail and returns the request that the vendor got for it. */
async function send(email = `ada${made}@example.com`, of = project, body: object = {}): Promise<Sent> {
  const before = vendor.requests.length;
  const recipients = [{ external_id: email.split('@')[0], email }];
  const sent = await of.call('POST', '/broadcasts', { title: 'Hi', recipients, ...body });
  await processed(of.call, sent.body.id);
  const request = vendor.requests[before];
  const reference = /reference"[^\w]*(?:Value":")?([\w-]{43})/.exec(request?.body ?? '')?.[1] ?? '';
  expect(reference).toHaveLength(43);
  return { id: sent.body.id, email, reference };
}

async function post(path: string, body: string, headers: Record<string, string> = {}) {
  const response = await fetch(`${service.address}/v2/integrations/${path}`, {
    method: 'POST',
    body,
    headers: { 'content-type': 'application/json', ...headers },
  });
  return { status: response.status, text: await response.text() };
}

const deliveryOf = async (broadcastId: string) => {
  const [row] = await service.rows<Record<string, unknown>>(
    'select state, attempts, receipt, receipt_at, provider from deliveries where broadcast_id = $1',
    [broadcastId],
  );
  return row;
};
const REPORTS = ['delivered', 'bounced', 'dropped', 'complained'].map((kind) => `delivery.${kind}`).join();
const eventsOf = async (type: string, of = project) =>
  (await of.call('GET', `/events?type=${type}`)).body.data as Event[];
const reports = (of = project) => eventsOf(REPORTS, of);
const suppressed = async (of = project) =>
  ((await of.call('GET', '/suppressions')).body.data as Record<string, unknown>[]).map(
    ({ email, phone_number, reason, provider }) => [email ?? phone_number, reason, provider],
  );

describe('SendGrid', () => {
  const { publicKey, privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  const config = {
    api_key: 'SG.x',
    from,
    webhook_public_key: publicKey.export({ format: 'der', type: 'spki' }).toString('base64'),
  };
  const report = (id: string, events: unknown, { key = privateKey, atMs = clock.now() } = {}) => {
    const [body, time] = [JSON.stringify(events), String(Math.floor(atMs / 1000))];
    const signature = sign('sha256', Buffer.from(time + body), key).toString('base64');
    return post(`sendgrid/webhooks/incoming/${id}`, body, {
      'x-twilio-email-event-webhook-signature': signature,
      'x-twilio-email-event-webhook-timestamp': time,
    });
  };
  const event = (sent: Sent, more: object) => ({
    email: sent.email,
    timestamp: Math.floor(clock.now() / 1000) - 5,
    reference: sent.reference,
    sg_event_id: randomUUID(),
    ...more,
  });
  const BOUNCE = { event: 'bounce', type: 'bounce', status: '5.1.1', reason: '550 5.1.1 no such user' };

  test('a report counts once; a stronger one replaces it, a weaker one does not', async () => {
    const id = await setUp('sendgrid', config);
    const sent = await send();
    const delivered = event(sent, { event: 'delivered', response: '250 OK' });
    expect(await report(id, [delivered])).toEqual({ status: 200, text: '{}' });
    expect(await deliveryOf(sent.id)).toMatchObject({ state: 'sent', receipt: 'delivered' });
    expect((await deliveryOf(sent.id))?.receipt_at).toEqual(new Date(delivered.timestamp * 1000));
    await Promise.all([1, 2, 3, 4].map(() => report(id.toUpperCase(), [delivered, delivered])));
    expect((await reports()).map(({ type }) => type)).toEqual(['delivery.delivered']);
    await report(id, [event(sent, { event: 'spamreport' })]);
    await report(id, [event(sent, { event: 'dropped', reason: 'Bounced Address' })]);
    await report(id, [event(sent, { event: 'delivered' })]);
    expect(await deliveryOf(sent.id)).toMatchObject({ state: 'sent', receipt: 'complained' });
    expect((await reports()).map(({ type }) => type)).toEqual(['delivery.complained', 'delivery.delivered']);
    expect(await suppressed()).toEqual([[sent.email, 'complained', 'sendgrid']]);
  });

  test('concurrent reports on the same deliveries, in any order, leave the strongest of each', async () => {
    const id = await setUp('sendgrid', config);
    const sent = [await send(`one${made}@example.com`), await send(`two${made}@example.com`)];
    const kinds = [
      { event: 'delivered' },
      BOUNCE,
      { event: 'dropped', reason: 'Invalid' },
      { event: 'spamreport' },
    ];
    const responses = await Promise.all(
      Array.from({ length: 24 }, (_, number) => {
        const both = number % 2 === 0 ? sent : sent.toReversed();
        return report(
          id,
          both.map((one) => event(one, kinds[(number >> 1) % 4] ?? {})),
        );
      }),
    );
    expect(new Set(responses.map(({ status }) => status))).toEqual(new Set([200]));
    for (const one of sent) {
      expect(await deliveryOf(one.id)).toMatchObject({ state: 'sent', receipt: 'complained' });
      const reported = (await reports()).filter(({ context }) => context?.broadcast_id === one.id);
      const types = reported.map(({ type }) => type);
      expect(types[0]).toBe('delivery.complained');
      expect(new Set(types).size).toBe(types.length);
    }
    expect((await suppressed()).map(([, reason]) => reason)).toEqual(['complained', 'complained']);
  });

  test('a bounced address is suppressed until that is lifted; a repeated report is ignored', async () => {
    const id = await setUp('sendgrid', config);
    const sent = await send();
    const bounce = event(sent, { ...BOUNCE, reason: `550 5.1.1 ${sent.email} is unknown` });
    await report(id, [bounce]);
    expect(await reports()).toMatchObject([
      {
        type: 'delivery.bounced',
        level: 'warn',
        log: '550 5.1.1 [address] is unknown',
        context: { channel: 'email', provider: 'sendgrid', broadcast_id: sent.id, code: '5.1.1' },
      },
    ]);
    expect(await suppressed()).toEqual([[sent.email, 'bounced', 'sendgrid']]);
    const next = await project.call('POST', '/broadcasts', {
      title: 'Again',
      recipients: [{ email: sent.email }],
    });
    await processed(project.call, next.body.id);
    expect(await deliveryOf(next.body.id)).toMatchObject({ state: 'skipped', receipt: null });

    const [{ id: suppression }] = (await project.call('GET', '/suppressions')).body.data;
    expect((await project.call('DELETE', `/suppressions/${suppression}`)).status).toBe(204);
    expect((await report(id, [bounce])).status).toBe(200);
    expect(await suppressed()).toEqual([]);
    expect(await reports()).toHaveLength(1);
  });

  test('a thousand events of many broadcasts and users are processed in one request', async () => {
    const id = await setUp('sendgrid', config);
    const count = 500;
    const recipients = Array.from({ length: count }, (_, index) => ({
      email: `u${index}.${made}@example.com`,
    }));
    const before = vendor.requests.length;
    const broadcast = await project.call('POST', '/broadcasts', { title: 'Many', recipients });
    await processed(project.call, broadcast.body.id);
    const references = vendor.requests
      .slice(before)
      .map(({ body }) => JSON.parse(body).personalizations[0])
      .map(({ to, custom_args }) => ({ id: '', email: to[0].email, reference: custom_args.reference }));
    expect(new Set(references.map(({ reference }) => reference)).size).toBe(count);
    const statements = await counting(async () => {
      const events = references.flatMap((one, index) => [
        event(one, { event: 'delivered' }),
        event(one, index % 10 === 0 ? BOUNCE : { event: 'deferred' }),
      ]);
      expect((await report(id, events)).status).toBe(200);
    });
    expect(statements).toBeLessThan(20);
    const kinds = await project.call('GET', '/events?type=delivery.bounced&limit=100');
    expect(kinds.body.data).toHaveLength(count / 10);
    expect(await suppressed()).toHaveLength(count / 10);
    const rows = await service.rows<{ receipt: string; count: number }>(
      'select receipt, count(*)::int from deliveries where broadcast_id = $1 group by 1 order by 1',
      [broadcast.body.id],
    );
    expect(rows).toEqual([
      { receipt: 'bounced', count: 50 },
      { receipt: 'delivered', count: 450 },
    ]);
  });

  test('an unsubscribe disables the category for its user, and no other', async () => {
    const id = await setUp('sendgrid', config);
    const sent = await send(undefined, project, { category: 'news' });
    await report(id, [event(sent, { event: 'unsubscribe' })]);
    const next = await project.call('POST', '/broadcasts', {
      title: 'News',
      category: 'news',
      recipients: [{ email: sent.email }],
    });
    await processed(project.call, next.body.id);
    expect(await deliveryOf(next.body.id)).toBeUndefined();
    const other = await send(sent.email, project, { category: 'orders' });
    expect(await deliveryOf(other.id)).toMatchObject({ state: 'sent' });
    expect([await suppressed(), await reports()]).toEqual([[], []]);
  });

  test('each of many unsubscribes in one report has an event of its own', async () => {
    const id = await setUp('sendgrid', config);
    const sent = [
      await send('eve@example.com', project, { category: 'news' }),
      await send('mallory@example.com', project, { category: 'offers' }),
      await send('trent@example.com', project),
    ];
    await report(
      id,
      sent.map((one) => event(one, { event: 'unsubscribe' })),
    );
    const events = (await eventsOf('preferences.updated')).map(({ context, payload }) => [
      context?.user_id,
      payload,
    ]);
    const idOf = async (name: string) =>
      (await project.call('PUT', '/users', { external_id: name })).body.id as string;
    const off = (category: string | null) => ({ changes: [{ category, channel: 'email', enabled: false }] });
    expect(events).toHaveLength(3);
    expect(events).toEqual(
      expect.arrayContaining([
        [await idOf('eve'), off('news')],
        [await idOf('mallory'), off('offers')],
        [await idOf('trent'), off(null)],
      ]),
    );
  });

  test('a category that the user enabled again is not disabled by a repeated report', async () => {
    const id = await setUp('sendgrid', config);
    const sent = await send(undefined, project, { category: 'news' });
    const unsubscribe = event(sent, { event: 'unsubscribe' });
    const preferences = async () => (await eventsOf('preferences.updated')).length;
    await report(id, [unsubscribe, { ...unsubscribe, sg_event_id: randomUUID() }]);
    expect(await preferences()).toBe(1);
    const user = project.as(sent.email.split('@')[0] ?? '');
    const channels = [{ name: 'email', enabled: true }];
    const switchedOn = await user('PUT', '/channels/user_preferences', {
      categories: [{ key: 'news', channels }],
    });
    expect([switchedOn.status, await preferences()]).toEqual([204, 2]);
    await report(id, [unsubscribe]);
    expect(await preferences()).toBe(2);
    clock.offsetMs = 60_000;
    await report(id, [event(sent, { event: 'unsubscribe' })]);
    expect(await preferences()).toBe(3);
  });

  test('unsigned or old requests and unknown integrations get the same rejection', async () => {
    const id = await setUp('sendgrid', config);
    const { webhook_public_key: _, ...keyless } = config;
    const other = await service.createProject(`without a key ${made}`);
    const without = await setUp('sendgrid', keyless, other);
    const sent = await send();
    const events = [event(sent, BOUNCE)];
    const stranger = generateKeyPairSync('ec', { namedCurve: 'P-256' }).privateKey;
    const responses = await Promise.all([
      report(id, events, { key: stranger }),
      report(id, events, { atMs: clock.now() - 26 * 3_600_000 }),
      report(without, events),
      report(newId(), events),
      post(`sendgrid/webhooks/incoming/${id}`, JSON.stringify(events)),
    ]);
    for (const response of responses)
      expect([response.status, response.text]).toEqual([401, responses[0]?.text]);
    expect((await report(id, {})).status).toBe(422);
    expect((await report('x', events)).status).toBe(400);
    const large = [{ ...event(sent, BOUNCE), filler: 'x'.repeat(1024 * 1024) }];
    expect((await report(id, large)).status).toBe(413);
    const deflated = await post(`sendgrid/webhooks/incoming/${id}`, 'x', { 'content-encoding': 'gzip' });
    expect([deflated.status, deflated.text]).toEqual([
      415,
      expect.stringContaining('"The request body must not have a Content-Encoding"'),
    ]);
    expect(await deliveryOf(sent.id)).toMatchObject({ state: 'sent', receipt: null });
    expect([await reports(), await suppressed()]).toEqual([[], []]);
  });

  test('a project cannot report on deliveries of another project', async () => {
    await setUp('sendgrid', config);
    const sent = await send();
    const other = await service.createProject(`another ${made}`);
    const id = await setUp('sendgrid', config, other);
    expect((await report(id, [event(sent, BOUNCE), event(sent, { event: 'unsubscribe' })])).status).toBe(200);
    expect(await deliveryOf(sent.id)).toMatchObject({ receipt: null });
    expect([await reports(), await suppressed(), await reports(other)]).toEqual([[], [], []]);
    // The address has bounced for the other project's own vendor, too.
    expect(await suppressed(other)).toEqual([[null, 'bounced', 'sendgrid']]);
  });

  test('unknown references are ignored, and the rest is processed', async () => {
    const id = await setUp('sendgrid', config);
    const sent = await send();
    const strange = ['', 'x', 'A'.repeat(43), 1, null, `${sent.reference}A`].map((reference) => ({
      ...event(sent, { event: 'delivered' }),
      reference,
    }));
    const odd = { ...event(sent, BOUNCE), reason: 'a\u0000b\ud800', status: '\u0000', email: '\u0000' };
    expect((await report(id, [...strange, odd, { event: 'bounce' }, 1, null, [], {}])).status).toBe(200);
    expect(await deliveryOf(sent.id)).toMatchObject({ receipt: 'bounced' });
    expect(await reports()).toMatchObject([{ type: 'delivery.bounced', log: 'a b�' }]);
  });

  test('the event of a temporary rejection contains no address', async () => {
    const id = await setUp('sendgrid', config);
    const sent = await send();
    const reason = `452 4.2.2 <${sent.email}>: over quota, as is "other@example.org" (forwarded)`;
    await report(id, [event(sent, { event: 'bounce', type: 'blocked', reason })]);
    expect(await reports()).toMatchObject([
      { log: '452 4.2.2 <[address]>: over quota, as is "[address]" (forwarded)' },
    ]);
    expect(await suppressed()).toEqual([]);
  });

  test('a long reason is cut between characters, after its addresses were removed', async () => {
    const id = await setUp('sendgrid', config);
    const sent = await send();
    const reason = `${'x'.repeat(480)} ${'ada.lovelace@example.org'} ${'😀'.repeat(20)}`;
    await report(id, [event(sent, { event: 'bounce', type: 'blocked', reason })]);
    const [recorded] = await reports();
    expect(recorded?.log).toMatch(/^x+ \[address\] (😀)+\ufffd$/u);
    expect(recorded?.log).toHaveLength(500);
  });

  test('a report that arrives before the outcome of the send counts as if it had come later', async () => {
    const id = await setUp('sendgrid', config);
    const early: Promise<{ status: number }>[] = [];
    // The vendor reports before it responds.
    const { promise, resolve } = Promise.withResolvers<void>();
    vendor.reply((request) => {
      const { to, custom_args } = JSON.parse(request.body).personalizations[0];
      const sent = { id: '', email: to[0].email, reference: custom_args.reference };
      early.push(report(id, [event(sent, BOUNCE)]));
      resolve();
      return { status: 202 };
    });
    const email = `early${made}@example.com`;
    const broadcast = await project.call('POST', '/broadcasts', { title: 'Hi', recipients: [{ email }] });
    await promise;
    expect((await early[0])?.status).toBe(200);
    const { status } = await processed(project.call, broadcast.body.id);
    expect(status.summary).toEqual({ total: 1, failures: 0, pending: 0 });
    expect(await deliveryOf(broadcast.body.id)).toMatchObject({
      state: 'sent',
      attempts: 1,
      receipt: 'bounced',
    });
    expect(await reports()).toMatchObject([
      { type: 'delivery.bounced', context: { broadcast_id: broadcast.body.id } },
    ]);
    const sent = (await project.call('GET', '/events?type=delivery.sent')).body.data as {
      context: { channel: string };
    }[];
    expect(sent.map(({ context }) => context.channel).sort()).toEqual(['email', 'in_app']);
  });
});

describe('SES', () => {
  const config = {
    key_id: 'AKIA',
    secret_key: 's',
    region: 'eu-west-1',
    from,
    configuration_set: 'mail',
    topic_arn: TOPIC,
  };
  const report = (id: string, envelope: Envelope) =>
    post(`ses/webhooks/incoming/${id}`, JSON.stringify(envelope), {
      'content-type': 'text/plain; charset=UTF-8',
      'x-amz-sns-message-type': envelope.Type ?? '',
    });
  const signed = (message: object, more: Envelope = {}) =>
    signEnvelope(notification(message, { SignatureVersion: '2', ...more }));
  const bounce = ({ email, reference }: Sent) => ({
    eventType: 'Bounce',
    mail: { tags: { reference: [reference] } },
    bounce: {
      bounceType: 'Permanent',
      bouncedRecipients: [{ emailAddress: email, status: '5.1.1', diagnosticCode: 'smtp; 550 unknown' }],
      timestamp: new Date(clock.now()).toISOString(),
    },
  });
  const setUpSes = async () => {
    vendor.reply({ status: 200, body: { MessageId: 'ses-1' } });
    return setUp('ses', config);
  };
  const paths = () => sns.requests.map(({ path }) => path);

  test('other projects that save the same id and topic take no report away', async () => {
    const id = newId();
    const own = await service.createProject(`own ${made}`);
    const later = await service.createProject(`later ${made}`);
    vendor.reply({ status: 200, body: { MessageId: 'ses-1' } });
    for (const one of [project, own, later])
      expect((await one.call('PUT', `/integrations/ses?id=${id}`, config)).status).toBe(200);
    const sent = await send('eve@example.com', own);
    expect((await report(id, signed(bounce(sent)))).status).toBe(200);
    expect(await deliveryOf(sent.id)).toMatchObject({ receipt: 'bounced' });
    expect(await suppressed(own)).toEqual([[sent.email, 'bounced', 'ses']]);
    expect([await reports(project), await reports(later)]).toEqual([[], []]);
  });

  test('the subscription is confirmed, a bounce processed, and the certificate fetched once', async () => {
    const id = await setUpSes();
    const sent = await send();
    expect((await report(id, signEnvelope(confirmation()))).status).toBe(200);
    expect(paths().at(-1)).toMatch(/^\/\?Action=ConfirmSubscription&TopicArn=arn:aws:sns:/);
    const envelope = signed(bounce(sent));
    for (let times = 0; times < 3; times += 1) expect((await report(id, envelope)).status).toBe(200);
    expect(paths().filter((path) => path.endsWith('.pem')).length).toBeLessThanOrEqual(1);
    expect(await deliveryOf(sent.id)).toMatchObject({ state: 'sent', receipt: 'bounced', provider: 'ses' });
    expect(await reports()).toMatchObject([{ type: 'delivery.bounced', context: { code: '5.1.1' } }]);
    expect(await suppressed()).toEqual([[sent.email, 'bounced', 'ses']]);
    const end = { ...confirmation(), Type: 'UnsubscribeConfirmation' };
    const before = paths().length;
    expect((await report(id, signEnvelope(end))).status).toBe(200);
    expect(paths()).toHaveLength(before);
  });

  test('if SNS does not respond, the request is rejected for a retry', async () => {
    const id = await setUpSes();
    await report(id, signed({})); // now the certificate is cached
    sns.reply({ status: 500 });
    expect((await report(id, signEnvelope(confirmation()))).status).toBe(503);
    expect(paths()).toHaveLength(1);
  });

  test('other topics, foreign signatures and foreign certificates are rejected', async () => {
    const id = await setUpSes();
    const sent = await send();
    const stranger = generateKeyPairSync('rsa', { modulusLength: 2048 }).privateKey;
    const SigningCertURL =
      'https://sns.eu-west-1.amazonaws.com.evil.example/SimpleNotificationService-00.pem';
    const before = paths().length;
    for (const envelope of [
      signed(bounce(sent), { TopicArn: `${TOPIC}-of-others` }),
      signed(bounce(sent), { SigningCertURL }),
    ])
      expect((await report(id, envelope)).status).toBe(401);
    expect(paths()).toHaveLength(before);
    expect((await report(id, signEnvelope(notification(bounce(sent)), stranger))).status).toBe(401);
    const without = await service.createProject(`without a topic ${made}`);
    const { topic_arn: _, ...topicless } = config;
    expect((await report(await setUp('ses', topicless, without), signed(bounce(sent)))).status).toBe(401);
    expect(await deliveryOf(sent.id)).toMatchObject({ receipt: null });
  });
});

describe('Mailgun', () => {
  const KEY = 'canary-signing-key';
  const report = (
    id: string,
    data: object,
    { token = randomUUID() as string, key = KEY, atMs = clock.now() } = {},
  ) => {
    const timestamp = String(Math.floor(atMs / 1000));
    const signature = createHmac('sha256', key)
      .update(timestamp + token)
      .digest('hex');
    return post(
      `mailgun/webhooks/incoming/${id}`,
      JSON.stringify({ signature: { timestamp, token, signature }, 'event-data': data }),
    );
  };
  const data = ({ email, reference }: Sent, more: object) => ({
    recipient: email,
    timestamp: clock.now() / 1000,
    'user-variables': { reference },
    ...more,
  });
  const FAILED = {
    event: 'failed',
    severity: 'permanent',
    reason: 'bounce',
    'delivery-status': { code: 550, message: 'No such user' },
  };
  const setUpMailgun = async () => {
    vendor.reply({ status: 200, body: { id: '<1@mg.example.com>' } });
    return setUp('mailgun', {
      api_key: 'k',
      domain: 'mg.example.com',
      region: 'eu',
      from,
      webhook_signing_key: KEY,
    });
  };

  test('a failure is processed, and its signature is valid for that alone', async () => {
    const id = await setUpMailgun();
    const [sent, second] = [await send(), await send(`second${made}@example.com`)];
    const token = randomUUID();
    expect(await report(id, data(sent, FAILED), { token })).toEqual({ status: 200, text: '{}' });
    expect((await report(id, data(second, FAILED), { token })).status).toBe(401);
    expect(await deliveryOf(sent.id)).toMatchObject({ receipt: 'bounced', provider: 'mailgun' });
    expect(await deliveryOf(second.id)).toMatchObject({ receipt: null });
    expect(await suppressed()).toEqual([[sent.email, 'bounced', 'mailgun']]);
    expect((await report(id, data(second, FAILED), { key: 'other' })).status).toBe(401);
    expect((await report(id, data(second, FAILED), { atMs: clock.now() - 26 * 3_600_000 })).status).toBe(401);
    expect((await report(id, data(second, FAILED), { token: 'x'.repeat(300) })).status).toBe(401);
    expect((await report(id, { id: 1 })).status).toBe(422);
  });

  test('a signature is not valid after the record of its first use has expired', async () => {
    const id = await setUpMailgun();
    const [sent, second] = [await send(), await send(`second${made}@example.com`)];
    const [token, atMs] = [randomUUID(), clock.now()];
    expect((await report(id, data(sent, FAILED), { token, atMs: atMs + 4 * 60_000 })).status).toBe(200);
    for (clock.offsetMs = 0; clock.offsetMs < 26 * 3_600_000; clock.offsetMs += 15 * 60_000) {
      const again = await report(id, data(second, FAILED), { token, atMs: atMs + 4 * 60_000 });
      expect([clock.offsetMs, again.status]).toEqual([clock.offsetMs, 401]);
    }
    expect(await deliveryOf(second.id)).toMatchObject({ receipt: null });
  });

  test('a repeated request with the same signature gets the same response', async () => {
    const id = await setUpMailgun();
    const sent = await send();
    const [token, one] = [randomUUID(), data(sent, FAILED)];
    const responses = await Promise.all([1, 2, 3].map(() => report(id, one, { token })));
    expect(responses.map(({ status }) => status)).toEqual([200, 200, 200]);
    expect(await reports()).toHaveLength(1);
  });
});

test('the API description lists each of these statuses, and no other', async () => {
  const { paths } = (await project.call('GET', '/openapi.json')).body;
  const statusesOf = (path: string) => Object.keys(paths[`/integrations/${path}`].post.responses).join();
  for (const vendor of ['sendgrid', 'ses', 'mailgun', 'twilio', 'slack'])
    expect(statusesOf(`${vendor}/webhooks/incoming/{id}`)).toBe('200,400,401,413,415,422,429,500,503');
  expect(statusesOf('service_slackbot/webhooks/incoming')).toBe('200,401,413,415,422,429,500,503');
});

/** Counts the statements that the service's pool sends meanwhile. */
async function counting(work: () => Promise<void>): Promise<number> {
  const { db } = service.context;
  const original = db.transaction;
  let count = 0;
  db.transaction = (run) =>
    original((tx) =>
      run({
        query: (statement, values) => {
          count += 1;
          return tx.query(statement, values);
        },
      }),
    );
  try {
    await work();
  } finally {
    db.transaction = original;
  }
  return count;
}
