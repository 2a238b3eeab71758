import { createECDH, randomBytes } from 'node:crypto';
import { createRequire } from 'node:module';
import type { Clock } from '../../server/src/lib/clock.ts';
import { createEgressGuard } from '../../server/src/lib/egress.ts';
import type { WebPushMessage } from '../../server/src/providers/provider.ts';
import type { Endpoint, Transport } from '../../server/src/providers/shared/transport.ts';
import { webPush } from '../../server/src/providers/web-push/index.ts';
import { createVapidKeys } from '../../server/src/providers/web-push/vapid.ts';
import type { Scenario } from '../support/scenario.ts';
import { median } from '../support/statistics.ts';

const require = createRequire(import.meta.url);
// The package that most servers use. It has no types.
const peer = require('web-push') as {
  generateRequestDetails(
    subscription: { endpoint: string; keys: { p256dh: string; auth: string } },
    payload: string,
    options: { vapidDetails: { subject: string; publicKey: string; privateKey: string } },
  ): unknown;
};

const CONTACT = 'mailto:ops@example.com';
const SERVICES = [
  'https://fcm.googleapis.com',
  'https://updates.push.services.mozilla.com',
  'https://web.push.apple.com',
];
const ROUNDS = 5;

/**
 * (web-push) The CPU time of a push until it is ready to be written, each to another browser; and the same by
 * the `web-push` package.
 */
export const measureWebPush: Scenario = async ({ quick, figure }) => {
  const count = quick ? 500 : 2_000;
  await cpuMicroseconds([message(0)], peerSend()); // warms up
  const messages = Array.from({ length: count }, (_, index) => message(index));
  const cpu = { again: [] as number[], first: [] as number[], peer: [] as number[] };
  for (let round = 0; round < ROUNDS; round++) {
    const send = ourSend({ now: () => Date.now() });
    cpu.peer.push(await cpuMicroseconds(messages, peerSend()));
    cpu.first.push(await cpuMicroseconds(messages, send));
    cpu.again.push(await cpuMicroseconds(messages, send));
  }
  const times = (ours: readonly number[]) =>
    median(cpu.peer.map((peer, round) => peer / (ours[round] ?? peer)));
  const subscriptions = `${count} subscriptions at ${SERVICES.length} push services`;
  const note = `${subscriptions}, median of ${ROUNDS} interleaved rounds`;
  figure({ name: 'a push by the web-push package', value: median(cpu.peer), unit: 'µs CPU', note });
  const cases = [
    ['for the first time', cpu.first],
    ['again', cpu.again],
  ] as const;
  for (const [when, ours] of cases) {
    figure({ name: `a push to a browser, ${when}`, value: median(ours), unit: 'µs CPU' });
    figure({
      name: `times quicker than the package, ${when}`,
      value: times(ours),
      unit: 'x',
      aim: { value: 2, better: 'more' },
    });
  }
};

const VAPID = createVapidKeys();

function ourSend(clock: Clock): (message: WebPushMessage) => Promise<unknown> {
  const taken = Promise.resolve({ status: 201, headers: {}, text: '' });
  const at = (base: string): Endpoint => ({ base, request: () => taken, connect: refuse });
  const refuse = () => Promise.reject(new Error('nothing is connected to'));
  const egress = createEgressGuard({ allow: '' });
  const transport: Transport = {
    timeouts: { connectMs: 0, replyMs: 0, idleMs: 0 },
    at,
    vendor: (_vendor, origin) => at(origin),
    close: async () => {},
  };
  const sender = webPush.connect(VAPID, { egress, transport, clock, contact: CONTACT });
  return (message) => sender.send(message);
}

function peerSend(): (message: WebPushMessage) => Promise<unknown> {
  const vapidDetails = { subject: CONTACT, publicKey: VAPID.public_key, privateKey: VAPID.private_key };
  return async ({
    endpoint,
    keys,
    notificationId,
    title,
    text,
    actionUrl,
    category,
    topic,
    customAttributes,
  }) =>
    peer.generateRequestDetails(
      { endpoint, keys },
      JSON.stringify({
        id: notificationId,
        title,
        content: text,
        action_url: actionUrl,
        category,
        topic,
        custom_attributes: customAttributes,
      }),
      { vapidDetails },
    );
}

async function cpuMicroseconds(
  messages: readonly WebPushMessage[],
  send: (message: WebPushMessage) => Promise<unknown>,
): Promise<number> {
  const before = process.cpuUsage();
  for (const message of messages) await send(message);
  const { user, system } = process.cpuUsage(before);
  return (user + system) / messages.length;
}

function message(index: number): WebPushMessage {
  const pair = createECDH('prime256v1');
  return {
    deliveryId: `delivery-${index}`,
    reference: 'AZjA3gAAcACAAAAAAAAAAQGYwN4AAHAAgAAAAAAAAAo',
    notificationId: `0198c0de-0000-7000-8000-${String(index).padStart(12, '0')}`,
    title: 'Your order has shipped',
    content: 'It arrives on Monday.',
    text: 'It arrives on Monday, between nine and twelve. You can still change where it goes. '.repeat(2),
    actionUrl: 'https://shop.example.com/orders/42?from=news&step=1',
    actionLabel: 'Open',
    category: 'orders',
    topic: null,
    customAttributes: { order: { id: index } },
    expiresAt: new Date(Date.now() + 86_400_000),
    endpoint: `${SERVICES[index % SERVICES.length]}/send/${randomBytes(24).toString('base64url')}`,
    keys: { p256dh: pair.generateKeys('base64url'), auth: randomBytes(16).toString('base64url') },
  };
}
