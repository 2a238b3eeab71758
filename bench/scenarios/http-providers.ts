import { createSecretKey } from 'node:crypto';
import { Agent } from 'undici';
import { systemClock } from '../../server/src/lib/clock.ts';
import { createEgressGuard } from '../../server/src/lib/egress.ts';
import { mailgun } from '../../server/src/providers/mailgun/index.ts';
import { pingEmail } from '../../server/src/providers/ping-email/index.ts';
import type { EmailMessage, SendOutcome } from '../../server/src/providers/provider.ts';
import { sendgrid } from '../../server/src/providers/sendgrid/index.ts';
import { ses } from '../../server/src/providers/ses/index.ts';
import {
  createTransport,
  type HttpRequest,
  type Transport,
} from '../../server/src/providers/shared/transport.ts';
import { slack } from '../../server/src/providers/slack/index.ts';
import { teams } from '../../server/src/providers/teams/index.ts';
import { twilio } from '../../server/src/providers/twilio/index.ts';
import { measured, type Rate } from '../support/in-flight.ts';
import { CONTENT } from '../support/notification-content.ts';
import type { Bench, Scenario } from '../support/scenario.ts';
import { median } from '../support/statistics.ts';
import { startTask } from '../support/task.ts';

const IN_FLIGHT = 32;
const ROUNDS = 5;

type Subject = { send(): Promise<SendOutcome>; close(): Promise<void> };

/**
 * (http) Messages to vendors with HTTP/1.1, against the same requests by undici alone, in turns.
 */
export const measureHttpProviders: Scenario = async (bench) => {
  const process = startTask('http-vendor.ts');
  const { address } = await process.request<{ address: string }>({});
  const egress = createEgressGuard({ allow: '127.0.0.0/8' });
  const origins = {
    PROVIDER_SENDGRID_BASE_URL: address,
    PROVIDER_SES_BASE_URL: address,
    PROVIDER_MAILGUN_BASE_URL: address,
    PROVIDER_TWILIO_BASE_URL: address,
    PROVIDER_SLACK_API_URL: address,
  };
  const requests: HttpRequest[] = [];
  const transport = createTransport({ egress, origins });
  const deps = { egress, clock: systemClock, transport };
  const agent = new Agent({ connections: 64, pipelining: 1 });
  try {
    for (const [name, open] of Object.entries(SUBJECTS)) {
      const seen = open({ ...deps, transport: recording(transport, requests) }, address);
      await expectSent(name, seen.send);
      const { method, path, headers, body = '' } = requests.at(-1) as HttpRequest;
      const bare = async () => {
        const url = new URL(path, address);
        const response = await agent.request({
          origin: url.origin,
          path: url.pathname,
          method,
          headers: { ...headers },
          body,
        });
        await response.body.text();
      };
      const subject = open(deps, address);
      await compare(bench, name, () => expectSent(name, subject.send), bare);
      await Promise.all([seen.close(), subject.close()]);
    }
  } finally {
    await agent.close();
    await transport.close();
    process.stop();
  }
};

/** The same transport, which records its requests. */
function recording(transport: Transport, requests: HttpRequest[]): Transport {
  const noting = (endpoint: ReturnType<Transport['at']>) => ({
    ...endpoint,
    request: (request: HttpRequest) => {
      const { pathname, search } = new URL(endpoint.base + request.path);
      requests.push({ ...request, path: pathname + search });
      return endpoint.request(request);
    },
  });
  return {
    ...transport,
    at: (base) => noting(transport.at(base)),
    vendor: (name, origin) => noting(transport.vendor(name, origin)),
  };
}

async function expectSent(name: string, send: () => Promise<SendOutcome>): Promise<void> {
  const outcome = await send();
  if (outcome.kind !== 'sent') throw new Error(`${name} returned ${JSON.stringify(outcome)}`);
}

async function compare(
  { quick, figure }: Bench,
  name: string,
  send: () => Promise<unknown>,
  bare: () => Promise<unknown>,
): Promise<void> {
  const count = quick ? 2_000 : 10_000;
  await measured(send, count / 2, IN_FLIGHT);
  await measured(bare, count / 2, IN_FLIGHT);
  const ours: Rate[] = [];
  const alone: Rate[] = [];
  for (let round = 0; round < ROUNDS; round += 1) {
    alone.push(await measured(bare, count, IN_FLIGHT));
    ours.push(await measured(send, count, IN_FLIGHT));
  }
  const cpu = (rates: Rate[]) => median(rates.map(({ cpuMicros }) => cpuMicros));
  const byCpu = ((100 * cpu(alone)) / cpu(ours)).toFixed(0);
  figure({
    name: `messages by ${name}`,
    value: median(ours.map(({ perSecond }) => perSecond)),
    unit: '/s',
    note: `CPU each: ${cpu(ours).toFixed(0)} µs; by undici alone ${cpu(alone).toFixed(0)} µs`,
  });
  figure({
    name: `share of undici alone, ${name}`,
    value: 100 * median(ours.map(({ perSecond }, round) => perSecond / (alone[round]?.perSecond ?? 0))),
    unit: '%',
    aim: { value: 70, better: 'more' },
    note: `by CPU ${byCpu} %; ${IN_FLIGHT} in flight, median of ${ROUNDS} rounds in turns`,
  });
}

const FROM = { email: 'hello@example.com', name: 'Example' };
const PARAGRAPH = `<p style="margin:0 0 16px">${CONTENT.text}</p>`;
const TEXT = `${CONTENT.text}\n\n`.repeat(4);
const EMAIL: EmailMessage = {
  deliveryId: CONTENT.deliveryId,
  reference: CONTENT.reference,
  to: { email: 'ada@example.com', name: 'Ada L' },
  subject: CONTENT.title,
  // Three kilobytes, as in a rendered e-mail.
  html: `<!doctype html><html><body>${PARAGRAPH.repeat(25)}</body></html>`,
  text: TEXT,
  headers: {
    'List-Unsubscribe': `<https://notify.example.com/u/${'a'.repeat(80)}>`,
    'List-Unsubscribe-Post': 'List-Unsubscribe=One-Click',
  },
  date: new Date('2026-07-01T12:00:00Z'),
  critical: false,
  notification: () => ({
    id: CONTENT.notificationId,
    title: CONTENT.title,
    content: CONTENT.content,
    actionUrl: CONTENT.actionUrl,
    category: CONTENT.category,
    topic: CONTENT.topic,
    customAttributes: CONTENT.customAttributes,
    overrides: null,
    updatedAt: new Date(),
    recipient: {
      id: CONTENT.notificationId,
      externalId: '42',
      email: 'ada@example.com',
      firstName: 'Ada',
      lastName: 'L',
      locale: null,
      customAttributes: { plan: 'pro' },
      phoneNumbers: [],
      createdAt: new Date(),
      updatedAt: new Date(),
      lastSeenAt: null,
      lastNotifiedAt: null,
    },
  }),
  signing: { header: 'x-belfry-signature', keys: [createSecretKey(Buffer.alloc(32))] },
};

type Deps = Parameters<typeof ses.connect>[1];
const emails = (sender: {
  send(message: EmailMessage): Promise<SendOutcome>;
  close(): Promise<void>;
}): Subject => ({
  send: () => sender.send(EMAIL),
  close: () => sender.close(),
});

const SUBJECTS: Record<string, (deps: Deps, address: string) => Subject> = {
  SendGrid: (deps) => emails(sendgrid.connect({ api_key: 'SG.xxxxxxxxxxxx.yyyyyyyyyyyy', from: FROM }, deps)),
  SES: (deps) =>
    emails(
      ses.connect(
        { key_id: 'AKIAEXAMPLE', secret_key: 'x'.repeat(40), region: 'eu-west-1', from: FROM },
        deps,
      ),
    ),
  Mailgun: (deps) =>
    emails(mailgun.connect({ api_key: 'key-x', domain: 'mg.example.com', region: 'us', from: FROM }, deps)),
  'a mailer of the project': (deps, address) => emails(pingEmail.connect({ url: `${address}/ping` }, deps)),
  Twilio(deps) {
    const config = { account_sid: 'AC1', api_key: 'SK1', api_secret: 'secret', from: '+14155550100' };
    const sender = twilio.connect(config, deps);
    return { send: () => sender.send({ ...CONTENT, to: '+15005550001' }), close: () => sender.close() };
  },
  Slack(deps) {
    const config = {
      app_id: 'A1',
      client_id: '1.2',
      client_secret: 'x'.repeat(32),
      signing_secret: 'y'.repeat(32),
    };
    const sender = slack.connect(config, deps);
    const to = { channelId: 'C1', accessToken: 'xoxb-1' };
    return { send: () => sender.send({ ...CONTENT, to }), close: () => sender.close() };
  },
  Teams(deps, address) {
    const sender = teams.connect({}, deps);
    const webhookUrl = `${address}/teams`;
    return { send: () => sender.send({ ...CONTENT, webhookUrl }), close: () => sender.close() };
  },
};
