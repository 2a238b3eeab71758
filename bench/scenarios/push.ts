import { generateKeyPairSync, type KeyObject } from 'node:crypto';
import { connect as connectHttp2 } from 'node:http2';
import { gzipSync } from 'node:zlib';
import { systemClock } from '../../server/src/lib/clock.ts';
import { createEgressGuard } from '../../server/src/lib/egress.ts';
import { apns } from '../../server/src/providers/apns.ts';
import { expo } from '../../server/src/providers/expo.ts';
import { fcm } from '../../server/src/providers/fcm.ts';
import type { PushMessage, Sender } from '../../server/src/providers/provider.ts';
import { createTransport } from '../../server/src/providers/transport.ts';
import { measured, type Rate } from '../support/in-flight.ts';
import type { Bench, Scenario } from '../support/scenario.ts';
import { median } from '../support/statistics.ts';
import { startTask } from '../support/task.ts';

const IN_FLIGHT = 500;
const ROUNDS = 5;
const EXPO_BATCH = 100;

type Vendor = { http2: string; http1: string };

/** (push) Pushes by APNs and FCM, against the same bytes by `node:http2` alone; and what one by Expo costs, which takes 600 a second. */
export const measurePush: Scenario = async (bench) => {
  const process = startTask('push-vendor.ts');
  const vendor = await process.ask<Vendor>({});
  const egress = createEgressGuard({ allow: '127.0.0.0/8' });
  const transport = createTransport({
    egress,
    origins: { apns: vendor.http2, fcm: vendor.http2, expo: vendor.http1 },
  });
  const deps = { egress, transport, clock: systemClock };
  const rsa = pem(generateKeyPairSync('rsa', { modulusLength: 2048 }).privateKey);
  const ec = pem(generateKeyPairSync('ec', { namedCurve: 'P-256' }).privateKey);
  const account = { ...ACCOUNT, private_key: rsa, token_uri: `${vendor.http1}/token` };
  const senders = {
    APNs: apns.connect({ ...APNS, certificate: ec }, deps),
    FCM: fcm.connect(account, deps),
    Expo: expo.connect({ access_token: 'token' }, deps),
  };
  const asFcm = fcm.build(MESSAGE, account);
  const bare = {
    APNs: bareRequests(vendor, apns.build(MESSAGE, { ...APNS, certificate: ec })),
    FCM: bareRequests(vendor, { ...asFcm, body: JSON.stringify(asFcm) }),
  };
  try {
    for (const name of ['APNs', 'FCM'] as const) await compare(bench, name, senders[name], bare[name]);
    await costOfExpo(bench, vendor, senders.Expo);
  } finally {
    await Promise.all(Object.values(senders).map((sender) => sender.close()));
    for (const { close } of Object.values(bare)) close();
    await transport.close();
    process.stop();
  }
};

/** In turns, so that what else the machine does falls on both. */
async function compare(
  { quick, figure }: Bench,
  name: string,
  sender: Sender<PushMessage>,
  { send }: { send: () => Promise<unknown> },
): Promise<void> {
  const count = quick ? 2_000 : 20_000;
  const ours: Rate[] = [];
  const alone: Rate[] = [];
  const sendOne = async () => {
    const { kind } = await sender.send(MESSAGE);
    if (kind !== 'sent') throw new Error(`${name} answered ${kind}`);
  };
  await measured(sendOne, count / 4, IN_FLIGHT);
  await measured(send, count / 4, IN_FLIGHT);
  for (let round = 0; round < ROUNDS; round += 1) {
    alone.push(await measured(send, count, IN_FLIGHT));
    ours.push(await measured(sendOne, count, IN_FLIGHT));
  }
  const cpu = (rates: Rate[]) => `CPU each: ${median(rates.map(({ cpuMicros }) => cpuMicros)).toFixed(0)} µs`;
  const rate = (rates: Rate[]) => median(rates.map(({ perSecond }) => perSecond));
  figure({ name: `limit: node:http2 alone to ${name}`, value: rate(alone), unit: '/s', note: cpu(alone) });
  figure({ name: `pushes by ${name}`, value: rate(ours), unit: '/s', note: cpu(ours) });
  figure({
    name: `share of node:http2 alone, ${name}`,
    value: 100 * median(ours.map(({ perSecond }, round) => perSecond / (alone[round]?.perSecond ?? 0))),
    unit: '%',
    aim: { value: 70, better: 'more' },
    note: `one session, ${IN_FLIGHT} in flight, median of ${ROUNDS} rounds in turns`,
  });
}

/** Expo lets no more through than 600 a second, so what counts is what they leave of the processor. */
async function costOfExpo({ quick, figure }: Bench, vendor: Vendor, sender: Sender<PushMessage>) {
  const count = quick ? 600 : 3_000;
  const message = { ...MESSAGE, token: { deviceToken: 'ExponentPushToken[a]' } };
  const batch = gzipSync(JSON.stringify(Array(EXPO_BATCH).fill(expo.build(message, { access_token: '' }))));
  const bareBatch = async () => {
    const headers = { 'content-encoding': 'gzip', 'content-type': 'application/json' };
    const answer = await fetch(`${vendor.http1}/send`, { method: 'POST', headers, body: batch });
    await answer.text();
  };
  const alone = await measured(bareBatch, count / EXPO_BATCH, 6);
  const ours = await measured(() => sender.send(message), count, 600);
  figure({
    name: 'a push by Expo',
    value: ours.cpuMicros,
    unit: 'µs CPU',
    note: `${ours.perSecond.toFixed(0)}/s; in ready-made batches by fetch: ${(alone.cpuMicros / EXPO_BATCH).toFixed(0)} µs`,
  });
}

/** The request, again and again on one session. */
function bareRequests({ http2 }: Vendor, built: object): { send: () => Promise<unknown>; close(): void } {
  const { path, headers, body } = built as { path: string; headers?: Record<string, string>; body: string };
  const session = connectHttp2(http2);
  const authorization = `bearer ${'x'.repeat(200)}`;
  return {
    send: () =>
      new Promise((resolve, reject) => {
        const stream = session.request({ ':method': 'POST', ':path': path, authorization, ...headers });
        stream.on('error', reject);
        stream.on('end', resolve);
        stream.resume();
        stream.end(body);
      }),
    close: () => session.close(),
  };
}

function pem(key: KeyObject): string {
  return key.export({ type: 'pkcs8', format: 'pem' }).toString();
}

const APNS = {
  app_id: 'com.example.app',
  badge: 'unread',
  key_id: 'ABCDEFGHIJ',
  team_id: '0123456789',
} as const;

const ACCOUNT = {
  type: 'service_account',
  project_id: 'p',
  private_key_id: 'i',
  client_email: 'push@p.example',
  client_id: '1',
  auth_uri: 'https://accounts.google.com/o/oauth2/auth',
  auth_provider_x509_cert_url: 'https://www.googleapis.com/oauth2/v1/certs',
  client_x509_cert_url: 'https://www.googleapis.com/robot/v1/metadata/x509/p',
  universe_domain: 'googleapis.com',
} as const;

const MESSAGE: PushMessage = {
  deliveryId: '0198c0de-0000-7000-8000-000000000001',
  reference: 'AZjA3gAAcACAAAAAAAAAAQGYwN4AAHAAgAAAAAAAAAo',
  notificationId: '0198c0de-0000-7000-8000-00000000000a',
  title: 'Your order has shipped',
  content: 'It arrives on Monday.',
  text: 'It arrives on Monday, between nine and twelve. You can still change where it goes.',
  actionUrl: 'https://shop.example.com/orders/42?from=news&step=1',
  category: 'orders',
  topic: 'order-42',
  customAttributes: { order: { id: 42 } },
  expiresAt: new Date(Date.now() + 86_400_000),
  token: { deviceToken: 'ab'.repeat(32) },
  badge: { unread: 3, unseen: 5 },
};
