import { generateKeyPairSync } from 'node:crypto';
import { connect as connectHttp2 } from 'node:http2';
import { promisify } from 'node:util';
import { constants, gzip } from 'node:zlib';
import { Agent } from 'undici';
import { systemClock } from '../../server/src/lib/clock.ts';
import { createEgressGuard } from '../../server/src/lib/egress.ts';
import { apns } from '../../server/src/providers/apns/index.ts';
import { expo } from '../../server/src/providers/expo/index.ts';
import { fcm } from '../../server/src/providers/fcm/index.ts';
import type { PushMessage, Sender, SenderDeps } from '../../server/src/providers/provider.ts';
import { createTransport } from '../../server/src/providers/shared/transport.ts';
import { fcmAccount } from '../support/fcm-account.ts';
import { measured, type Rate } from '../support/in-flight.ts';
import { CONTENT } from '../support/notification-content.ts';
import type { Bench, Scenario } from '../support/scenario.ts';
import { median } from '../support/statistics.ts';
import { startTask } from '../support/task.ts';

const IN_FLIGHT = 500;
const ROUNDS = 5;
const EXPO_BATCH = 100;
const EXPO_REQUESTS = 6; // in flight, as its sender keeps them
const EXPO_PROJECTS = 1_000;

type Vendor = { http2: string; http1: string };

/**
 * (push) Pushes by APNs and FCM, against the same bytes by `node:http2` alone; and by Expo, against its
 * batches by undici alone.
 */
export const measurePush: Scenario = async (bench) => {
  const process = startTask('push-vendor.ts');
  const vendor = await process.request<Vendor>({});
  const egress = createEgressGuard({ allow: '127.0.0.0/8' });
  const transport = createTransport({
    egress,
    origins: {
      PROVIDER_APNS_BASE_URL: vendor.http2,
      PROVIDER_FCM_BASE_URL: vendor.http2,
      PROVIDER_EXPO_BASE_URL: vendor.http1,
    },
  });
  const deps = { egress, transport, clock: systemClock };
  const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  const certificate = privateKey.export({ type: 'pkcs8', format: 'pem' }).toString();
  const account = fcmAccount(`${vendor.http1}/token`);
  const senders = {
    APNs: apns.connect({ ...APNS, certificate }, deps),
    FCM: fcm.connect(account, deps),
  };
  const bare = {
    APNs: bareRequests(vendor, apns.build(MESSAGE, { ...APNS, certificate })),
    FCM: bareRequests(vendor, fcm.build(MESSAGE, account)),
  };
  try {
    for (const name of ['APNs', 'FCM'] as const) await compare(bench, name, senders[name], bare[name]);
    await compareExpo(bench, vendor, deps);
  } finally {
    await Promise.all(Object.values(senders).map((sender) => sender.close()));
    for (const { close } of Object.values(bare)) close();
    await transport.close();
    process.stop();
  }
};

/** In turns, so that other load on the machine affects both. */
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
    if (kind !== 'sent') throw new Error(`${name} returned ${kind}`);
  };
  await measured(sendOne, count / 4, IN_FLIGHT);
  await measured(send, count / 4, IN_FLIGHT);
  for (let round = 0; round < ROUNDS; round += 1) {
    alone.push(await measured(send, count, IN_FLIGHT));
    ours.push(await measured(sendOne, count, IN_FLIGHT));
  }
  figure({ name: `limit: node:http2 alone to ${name}`, value: rate(alone), unit: '/s', note: cpu(alone) });
  figure({ name: `pushes by ${name}`, value: rate(ours), unit: '/s', note: cpu(ours) });
  figure({
    name: `share of node:http2 alone, ${name}`,
    value: share(ours, alone),
    unit: '%',
    aim: { value: 70, better: 'more' },
    note: `one session, ${IN_FLIGHT} in flight, median of ${ROUNDS} rounds in turns`,
  });
}

/**
 * In turns, too. Expo accepts 600 a second of a project, so each batch belongs to another one of many
 * projects. The first limit is one batch, written and compressed beforehand; the second writes and compresses
 * it each time.
 */
async function compareExpo({ quick, figure }: Bench, vendor: Vendor, deps: SenderDeps): Promise<void> {
  const messages = Array.from({ length: EXPO_BATCH }, (_, index) => ({
    ...MESSAGE,
    token: { deviceToken: `ExponentPushToken[${String(index).padStart(22, 'x')}]` },
  }));
  const bare = await bareBatches(vendor, messages);
  const ours = ourBatches(deps, messages);
  const ways = { ready: bare.ready, fresh: bare.fresh, ours: ours.send };
  const rates = { ready: [] as Rate[], fresh: [] as Rate[], ours: [] as Rate[] };
  for (let round = -1; round < ROUNDS; round += 1)
    for (const way of ['ready', 'fresh', 'ours'] as const) {
      const { perSecond, cpuMicros } = await measured(ways[way], quick ? 100 : 1_000, EXPO_REQUESTS);
      const each = { perSecond: perSecond * EXPO_BATCH, cpuMicros: cpuMicros / EXPO_BATCH };
      if (round >= 0) rates[way].push(each); // round -1 warms up
    }
  await Promise.all([bare.close(), ours.close()]);
  const limit = 'limit: undici alone to Expo, batches';
  figure({ name: `${limit} ready-made`, value: rate(rates.ready), unit: '/s', note: cpu(rates.ready) });
  figure({ name: `${limit} made each time`, value: rate(rates.fresh), unit: '/s', note: cpu(rates.fresh) });
  figure({ name: 'pushes by Expo', value: rate(rates.ours), unit: '/s', note: cpu(rates.ours) });
  figure({
    name: 'share of undici alone, Expo, batches ready-made',
    value: share(rates.ours, rates.ready),
    unit: '%',
    note: 'a request of a hundred messages, without the time to write it',
  });
  figure({
    name: 'share of undici alone, Expo, batches made each time',
    value: share(rates.ours, rates.fresh),
    unit: '%',
    aim: { value: 70, better: 'more' },
    note: `${EXPO_REQUESTS} batches of ${EXPO_BATCH} in flight, median of ${ROUNDS} rounds in turns`,
  });
}

/** Posts a batch as the sender writes it, many times. */
async function bareBatches({ http1 }: Vendor, messages: PushMessage[]) {
  const built = messages.map((message) => expo.build(message, EXPO));
  const write = () => zipped(JSON.stringify(built), { level: constants.Z_BEST_SPEED }); // as the sender does
  const written = await write();
  const agent = new Agent({ connections: EXPO_REQUESTS, pipelining: 1 });
  const headers = {
    authorization: `Bearer ${EXPO.access_token}`,
    'content-type': 'application/json',
    accept: 'application/json',
    'content-encoding': 'gzip',
  };
  const post = async (body: Buffer) => {
    const path = '/--/api/v2/push/send';
    const response = await agent.request({ origin: http1, path, method: 'POST', headers, body });
    await response.body.text();
  };
  return { ready: () => post(written), fresh: async () => post(await write()), close: () => agent.close() };
}

/** Sends the messages of one batch, each time by the sender of another project. */
function ourBatches(deps: SenderDeps, messages: PushMessage[]) {
  const senders = Array.from({ length: EXPO_PROJECTS }, () => expo.connect(EXPO, deps));
  let next = 0;
  return {
    async send() {
      const sender = senders[next++ % EXPO_PROJECTS];
      const outcomes = await Promise.all(messages.map((message) => sender?.send(message)));
      const other = outcomes.find((outcome) => outcome?.kind !== 'sent');
      if (other !== undefined) throw new Error(`Expo returned ${JSON.stringify(other)}`);
    },
    close: () => Promise.all(senders.map((sender) => sender.close())),
  };
}

const zipped = promisify(gzip);

const rate = (rates: Rate[]) => median(rates.map(({ perSecond }) => perSecond));
const cpu = (rates: Rate[]) => `CPU each: ${median(rates.map(({ cpuMicros }) => cpuMicros)).toFixed(1)} µs`;
const share = (ours: Rate[], alone: Rate[]) =>
  100 * median(ours.map(({ perSecond }, round) => perSecond / (alone[round]?.perSecond ?? 0)));

/** Sends the same request many times over one session. */
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

const EXPO = { access_token: 'token' };

const APNS = {
  app_id: 'com.example.app',
  badge: 'unread',
  key_id: 'ABCDEFGHIJ',
  team_id: '0123456789',
} as const;

const MESSAGE: PushMessage = {
  ...CONTENT,
  token: { deviceToken: 'ab'.repeat(32) },
  badge: { unread: 3, unseen: 5 },
};
