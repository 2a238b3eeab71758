/**
 * Providers that only this test has stand-ins for: each message arrives once, before and after an outage of
 * the vendor.
 */
import { generateKeyPairSync } from 'node:crypto';
import { afterEach, expect, test } from 'vitest';
import { systemClock } from '../../src/lib/clock.ts';
import { createEgressGuard } from '../../src/lib/egress.ts';
import { apns } from '../../src/providers/apns/index.ts';
import { expo } from '../../src/providers/expo/index.ts';
import { fcm } from '../../src/providers/fcm/index.ts';
import { pingEmail } from '../../src/providers/ping-email/index.ts';
import type { PushMessage, Sender, SenderDeps, SendOutcome } from '../../src/providers/provider.ts';
import { createTransport, type OriginSetting } from '../../src/providers/shared/transport.ts';
import { teams } from '../../src/providers/teams/index.ts';
import { startApnsStandIn } from '../support/apns-stand-in.ts';
import { emailMessage } from '../support/email-message.ts';
import { startExpoStandIn } from '../support/expo-stand-in.ts';
import { startFcmStandIn } from '../support/fcm-stand-in.ts';
import { integrationConfigs } from '../support/integration-configs.ts';
import { notificationContent } from '../support/notification-content.ts';
import { expectRecovery, type Outages } from '../support/outage.ts';
import { startVendor } from '../support/vendor-stand-in.ts';

const cleanups: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
});

interface Started {
  outages: Outages;
  send(): Promise<SendOutcome>;
  arrived: readonly unknown[];
}

/** A sender as the engine creates it, connected to these vendors. */
function open<Message>(
  origins: Partial<Record<OriginSetting, string>>,
  connect: (deps: SenderDeps) => Sender<Message>,
  message: Message,
): () => Promise<SendOutcome> {
  const egress = createEgressGuard({ allow: '127.0.0.0/8' });
  const transport = createTransport({ egress, origins });
  const sender = connect({ egress, transport, clock: systemClock });
  cleanups.push(transport.close, sender.close);
  return () => sender.send(message);
}

const push = (deviceToken: string): PushMessage => ({
  ...notificationContent({ expiresAt: new Date(Date.now() + 3_600_000) }),
  token: { deviceToken },
  badge: { unread: 1, unseen: 1 },
});

const START: Record<string, () => Promise<Started>> = {
  async apns() {
    const { privateKey, publicKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
    const config = {
      app_id: 'com.example.app',
      badge: 'unread' as const,
      certificate: privateKey.export({ type: 'pkcs8', format: 'pem' }) as string,
      key_id: 'ABCDEFGHIJ',
      team_id: '0123456789',
    };
    const vendor = await startApnsStandIn({
      teamId: config.team_id,
      keyId: config.key_id,
      publicKey,
      topics: [config.app_id],
    });
    cleanups.push(vendor.stop);
    const send = open(
      { PROVIDER_APNS_BASE_URL: vendor.address },
      (deps) => apns.connect(config, deps),
      push('ab'.repeat(32)),
    );
    return { ...vendor, send, arrived: vendor.pushes };
  },

  async fcm() {
    const { privateKey } = generateKeyPairSync('rsa', { modulusLength: 2048 });
    const clientEmail = 'push@shop-1.iam.gserviceaccount.com';
    const vendor = await startFcmStandIn({ projectId: 'shop-1', clientEmail, privateKey });
    cleanups.push(vendor.stop);
    const config = {
      ...integrationConfigs.fcm.full,
      project_id: 'shop-1',
      client_email: clientEmail,
      private_key: privateKey.export({ type: 'pkcs8', format: 'pem' }) as string,
      token_uri: vendor.tokenUri,
      universe_domain: 'googleapis.com',
    } as Parameters<typeof fcm.connect>[0];
    const send = open(
      { PROVIDER_FCM_BASE_URL: vendor.address },
      (deps) => fcm.connect(config, deps),
      push('device'),
    );
    return { ...vendor, send, arrived: vendor.messages };
  },

  async expo() {
    const vendor = await startExpoStandIn({ accessToken: 'canary' });
    cleanups.push(vendor.stop);
    const config = { access_token: 'canary' };
    const message = push('ExponentPushToken[a]');
    const send = open(
      { PROVIDER_EXPO_BASE_URL: vendor.address },
      (deps) => expo.connect(config, deps),
      message,
    );
    return { ...vendor, send, arrived: vendor.messages };
  },

  async teams() {
    const vendor = await startVendor();
    cleanups.push(vendor.stop);
    vendor.reply({ status: 202 });
    const message = { ...notificationContent(), webhookUrl: `${vendor.address}/workflows/1` };
    const send = open({}, (deps) => teams.connect({}, deps), message);
    return { ...vendor, send, arrived: vendor.requests };
  },

  async ping_email() {
    const vendor = await startVendor();
    cleanups.push(vendor.stop);
    vendor.reply({ status: 202 });
    const send = open({}, (deps) => pingEmail.connect({ url: vendor.address }, deps), emailMessage());
    return { ...vendor, send, arrived: vendor.requests };
  },
};

test.each(Object.entries(START))('%s', async (name, start) => {
  const { outages, send, arrived } = await start();
  await expectRecovery(outages, send, { http2: name === 'apns' || name === 'fcm' });
  expect(arrived).toHaveLength(2);
});
