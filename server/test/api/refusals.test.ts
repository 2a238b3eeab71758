/**
 * Rejections that a single recipient may cause must not stop the messages to others. The senders are real,
 * the vendors are stand-ins.
 */
import { generateKeyPairSync } from 'node:crypto';
import { afterEach, describe, expect, test } from 'vitest';
import type { NewEvent } from '../../src/domain/ground/events/record.ts';
import { type AttemptResult, Dispatcher } from '../../src/domain/line/sending/dispatcher.ts';
import type { OpenedIntegration } from '../../src/domain/setup/integrations/cache.ts';
import { createEgressGuard } from '../../src/lib/egress.ts';
import { newId } from '../../src/lib/ids.ts';
import { delivering } from '../../src/providers/index.ts';
import type { MessageOf, SendOutcome } from '../../src/providers/provider.ts';
import type { Rejections } from '../../src/providers/shared/rejections.ts';
import { createTransport } from '../../src/providers/shared/transport.ts';
import { emailMessage } from '../support/email-message.ts';
import { startFcmStandIn } from '../support/fcm-stand-in.ts';
import type { VendorReply } from '../support/http-stand-in.ts';
import { integrationConfigs, integrationRejections } from '../support/integration-configs.ts';
import { notificationContent } from '../support/notification-content.ts';
import { startSmtpStandIn } from '../support/smtp-stand-in.ts';
import { startVendor } from '../support/vendor-stand-in.ts';

describe('the rejections of the vendors', () => {
  const expected: Record<Rejections[number][2], (outcome: SendOutcome) => void> = {
    destination: (outcome) => {
      expect(outcome).toMatchObject({ suspect: 'config' });
      if (outcome.kind !== 'token_gone')
        expect(outcome).toMatchObject({ kind: 'rejected', scope: 'message' });
    },
    integration: (outcome) => expect(outcome).toMatchObject({ kind: 'rejected', scope: 'config' }),
    vendor: (outcome) => expect(outcome).toMatchObject({ kind: 'retry' }),
  };
  const rows = [...integrationRejections].flatMap(([name, rejections]) =>
    rejections.map(([description, reply, cause]) => [name, description, cause, reply] as const),
  );

  test.each(rows)('%s, %s: the cause is the %s', (name, _description, cause, reply) => {
    const provider = delivering.get(name);
    if (provider === undefined) throw new Error(`no provider ${name}`);
    expected[cause](provider.classify(reply as never));
  });

  test('cover every provider, or another one with the same classification', () => {
    const covered = new Set([...integrationRejections.keys()].map((name) => delivering.get(name)?.classify));
    const others = [...delivering.values()].filter(({ classify }) => !covered.has(classify));
    expect(others.map(({ name }) => name)).toEqual([]);
  });
});

const cleanups: (() => unknown)[] = [];
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
});

/** Sends to one user. The vendor rejects `bad`. */
type Send = (userId: string, kind: 'good' | 'bad') => Promise<AttemptResult>;
interface Scene {
  send: Send;
  events: NewEvent[];
}

function scene<C extends keyof MessageOf>(
  channel: C,
  { provider, config }: { provider: string; config: object },
  origins: NonNullable<Parameters<typeof createTransport>[0]['origins']>,
  message: (kind: 'good' | 'bad', id: string) => MessageOf[C],
): Scene {
  const egress = createEgressGuard({ allow: '127.0.0.1/32' });
  const transport = createTransport({ egress, origins });
  const events: NewEvent[] = [];
  const dispatcher = new Dispatcher({
    egress,
    transport,
    clock: { now: () => Date.now() },
    config: { BRAND: 'belfry' },
    pauses: {
      paused: (_pause, event) => event && events.push(event),
      resumed: (_key, event) => events.push(event),
      released() {},
      claimProbe: async () => undefined,
    },
    discarder: { add() {} },
    recorder: { isBlocked: false },
    cancelled: { has: () => false },
  });
  cleanups.push(
    () => transport.close(),
    () => dispatcher.close({ graceMs: 0 }),
  );
  const integration: OpenedIntegration = {
    projectId: newId(),
    id: newId(),
    provider,
    channel,
    version: '1',
    config: { ...(config as Record<string, unknown>), max_per_second: undefined },
  };
  return {
    events,
    send(userId, kind) {
      const targetId = newId();
      const draft = { channel, render: () => message(kind, targetId) };
      return dispatcher.send({
        integrations: [integration],
        draft,
        targetId,
        broadcastId: targetId,
        userId,
        weight: 1,
      });
    },
  };
}

const mailTo = (kind: string, id: string) =>
  emailMessage({ deliveryId: id, to: { email: `${kind}@example.com` } });
const pushTo = (device: string) => ({
  ...notificationContent({ expiresAt: new Date(Date.now() + 3_600_000) }),
  token: { deviceToken: device },
  badge: { unread: 1, unseen: 1 },
});

/** Starts an HTTP vendor that rejects messages to the bad recipient. */
async function startRejecting(rejection: VendorReply, acceptance: VendorReply): Promise<string> {
  const vendor = await startVendor();
  cleanups.push(vendor.stop);
  // As a word: ids are hexadecimal, and may contain it.
  vendor.reply(({ body }) => (/\bbad\b|19005550/.test(body) ? rejection : acceptance));
  return vendor.address;
}

const twilio = async (code: number): Promise<Scene> => {
  const address = await startRejecting(
    { status: 400, body: { code, message: 'no' } },
    { status: 201, body: { sid: 'SM1' } },
  );
  const { minimal: config } = integrationConfigs.twilio;
  return scene('sms', { provider: 'twilio', config }, { PROVIDER_TWILIO_BASE_URL: address }, (kind) => ({
    ...notificationContent(),
    to: kind === 'bad' ? '+19005550001' : '+14155550001',
  }));
};

const SCENES: Record<string, () => Promise<Scene>> = {
  'Twilio 21408: the region is not enabled': () => twilio(21_408),
  'Twilio 21612: no route to the number': () => twilio(21_612),
  'Twilio 21608: a trial account': () => twilio(21_608),
  'Twilio 21606: the sender cannot be used for the number': () => twilio(21_606),
  async 'FCM THIRD_PARTY_AUTH_ERROR: an iOS token without a key for APNs'() {
    const { privateKey } = generateKeyPairSync('rsa', { modulusLength: 2048 });
    const account = { projectId: 'shop', clientEmail: 'push@shop.example' };
    const google = await startFcmStandIn({ ...account, privateKey });
    cleanups.push(google.stop);
    google.fail('bad', {
      status: 401,
      body: {
        error: {
          status: 'UNAUTHENTICATED',
          details: [
            {
              '@type': 'type.googleapis.com/google.firebase.fcm.v1.FcmError',
              errorCode: 'THIRD_PARTY_AUTH_ERROR',
            },
          ],
        },
      },
    });
    const config = {
      ...integrationConfigs.fcm.minimal,
      project_id: account.projectId,
      client_email: account.clientEmail,
      private_key: privateKey.export({ type: 'pkcs8', format: 'pem' }) as string,
      token_uri: google.tokenUri,
    };
    return scene(
      'mobile_push',
      { provider: 'fcm', config },
      { PROVIDER_FCM_BASE_URL: google.address },
      pushTo,
    );
  },
  async 'Expo InvalidCredentials of one ticket'() {
    const vendor = await startVendor();
    cleanups.push(vendor.stop);
    vendor.reply(({ body }) => ({
      status: 200,
      body: {
        data: (JSON.parse(body) as { to: string }[]).map(({ to }) =>
          to.includes('bad')
            ? { status: 'error', message: 'no', details: { error: 'InvalidCredentials' } }
            : { status: 'ok', id: 'r1' },
        ),
      },
    }));
    const { minimal: config } = integrationConfigs.expo;
    return scene(
      'mobile_push',
      { provider: 'expo', config },
      { PROVIDER_EXPO_BASE_URL: vendor.address },
      (kind) => pushTo(`ExponentPushToken[${kind}]`),
    );
  },
  async 'SMTP 554 5.7.1 at RCPT'() {
    const server = await startSmtpStandIn();
    cleanups.push(server.stop);
    server.fail({
      at: 'rcpt',
      how: { reply: '554 5.7.1 Relay access denied' },
      when: ({ to }) => to?.startsWith('bad') === true,
    });
    const config = {
      host: server.host,
      port: server.port,
      username: '',
      password: '',
      from: { email: 'news@example.com' },
      security: 'none',
    };
    return scene('email', { provider: 'smtp', config }, {}, mailTo);
  },
  async 'SES in the sandbox, with an unverified recipient'() {
    const address = await startRejecting(
      {
        status: 400,
        headers: { 'x-amzn-errortype': 'MessageRejected' },
        body: {
          message:
            'Email address is not verified. The following identities failed the check in region ' +
            'EU-WEST-1: bad@example.com',
        },
      },
      { status: 200, body: { MessageId: '1' } },
    );
    return scene(
      'email',
      { provider: 'ses', config: integrationConfigs.ses.full },
      { PROVIDER_SES_BASE_URL: address },
      mailTo,
    );
  },
  async 'SendGrid with a rejected recipient'() {
    const address = await startRejecting(
      { status: 403, body: { errors: [{ field: 'personalizations.0.to.0.email', message: 'no' }] } },
      { status: 202 },
    );
    const config = integrationConfigs.sendgrid.full;
    return scene('email', { provider: 'sendgrid', config }, { PROVIDER_SENDGRID_BASE_URL: address }, mailTo);
  },
  async 'Mailgun with an unauthorized recipient'() {
    const address = await startRejecting(
      {
        status: 403,
        body: {
          message: 'Free accounts are for test purposes only. Add the address to authorized recipients',
        },
      },
      { status: 200, body: { id: '<1@b.de>' } },
    );
    const config = integrationConfigs.mailgun.full;
    return scene('email', { provider: 'mailgun', config }, { PROVIDER_MAILGUN_BASE_URL: address }, mailTo);
  },
};

describe.each(Object.entries(SCENES))('%s', (_name, start) => {
  const rejected = { kind: 'done', outcome: { kind: 'rejected', scope: 'message' } };
  const sent = { kind: 'done', outcome: { kind: 'sent' } };

  test('fails that delivery, and the next one is sent at once', async () => {
    const { send, events } = await start();
    expect(await send('hostile', 'bad')).toMatchObject(rejected);
    expect(await send('another', 'good')).toMatchObject(sent);
    expect(events).toEqual([]);
  });

  test('does not pause the integration, however often it happens to one user', async () => {
    const { send, events } = await start();
    for (let n = 0; n < 25; n += 1) expect(await send('hostile', 'bad')).toMatchObject(rejected);
    expect(await send('another', 'good')).toMatchObject(sent);
    expect(events).toEqual([]);
  });

  test('pauses the integration after ten users in a row, without a success in between', async () => {
    const { send, events } = await start();
    for (let n = 0; n < 9; n += 1) expect(await send(`user ${n}`, 'bad')).toMatchObject(rejected);
    expect(await send('another', 'good')).toMatchObject(sent);
    for (let n = 0; n < 10; n += 1) expect(await send(`user ${n}`, 'bad')).toMatchObject(rejected);
    expect(events).toMatchObject([{ type: 'integration.paused' }]);
    expect(await send('another', 'good')).toMatchObject({ kind: 'deferred' });
  });
});
