/**
 * SendGrid and Mailgun through the whole service: an e-mail is sent once after a transient failure, and a
 * permanent failure is reported.
 */
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { processedAtOnce } from '../support/all-channels.ts';
import { messageIdOf, saveSmtp } from '../support/faults.ts';
import { startMailgunStandIn } from '../support/mailgun-stand-in.ts';
import type { Outages } from '../support/outage.ts';
import { startSendGridStandIn } from '../support/sendgrid-stand-in.ts';
import {
  processed,
  startTestService,
  type TestProject,
  type TestService,
  until,
} from '../support/service.ts';
import { startSmtpStandIn } from '../support/smtp-stand-in.ts';

type Reply = { status: number; headers?: Record<string, string>; body: unknown };
/** What the two stand-ins have in common. */
type Vendor = {
  address: string;
  mails: readonly { id: string }[];
  reply(...replies: Reply[]): void;
  outages: Outages;
  stop(): Promise<void>;
};

const from = { email: 'news@mg.example.com', name: 'News' };
const CONFIGS = {
  sendgrid: { api_key: 'SG.canary', from },
  mailgun: { api_key: 'canary', domain: 'mg.example.com', region: 'us', from },
};
let vendors: Record<keyof typeof CONFIGS, Vendor>;
let service: TestService;

beforeAll(async () => {
  const [sendgrid, mailgun] = await Promise.all([
    startSendGridStandIn({ apiKey: CONFIGS.sendgrid.api_key, verified: [from.email] }),
    startMailgunStandIn({ apiKey: CONFIGS.mailgun.api_key, domain: CONFIGS.mailgun.domain }),
  ]);
  vendors = { sendgrid, mailgun };
  service = await startTestService({
    pollMs: 50,
    settings: {
      PROVIDER_SENDGRID_BASE_URL: sendgrid.address,
      PROVIDER_MAILGUN_BASE_URL: mailgun.address,
    },
  });
});
afterAll(async () => {
  await service?.stop();
  await Promise.all(Object.values(vendors ?? {}).map((one) => one.stop()));
});

async function setUp(provider: keyof typeof CONFIGS): Promise<TestProject> {
  const project = await service.createProject(`${provider} ${crypto.randomUUID()}`);
  expect((await project.call('PUT', `/integrations/${provider}`, CONFIGS[provider])).status).toBe(200);
  return project;
}

async function send(project: TestProject): Promise<string> {
  const sent = await project.call('POST', '/broadcasts', {
    title: 'Your order: Grüße 😀',
    content: 'It is <b>here</b>.',
    action_url: 'https://shop.example/1',
    recipients: [{ external_id: '42', email: 'ada@example.com', first_name: 'Ada' }],
  });
  expect(sent.status).toBe(201);
  return sent.body.id;
}

async function deliveryOf(broadcastId: string): Promise<Record<string, unknown> | undefined> {
  const [delivery] = await service.rows<Record<string, unknown>>(
    `select state, attempts, provider_id, code from deliveries where broadcast_id = $1
        and channel = 'email'`,
    [broadcastId],
  );
  return delivery;
}

describe.each(['sendgrid', 'mailgun'] as const)('%s', (provider) => {
  test('an e-mail is sent after a rate limit and a server error', async () => {
    const { mails, reply } = vendors[provider];
    const before = mails.length;
    const project = await setUp(provider);
    const headers = { 'retry-after': '0' };
    reply({ status: 429, headers, body: '' }, { status: 503, headers, body: '' });
    const id = await send(project);
    await processedAtOnce(service, project.call, id);
    expect(mails).toHaveLength(before + 1);
    expect(await deliveryOf(id)).toMatchObject({
      state: 'sent',
      attempts: 3,
      provider_id: mails.at(-1)?.id,
    });
  });

  test('an e-mail that was sent while the vendor was down arrives when it is back', async () => {
    const { mails, outages } = vendors[provider];
    const before = mails.length;
    const project = await setUp(provider);
    await outages.stop();
    const id = await send(project);
    await until(
      () => deliveryOf(id),
      (delivery) => Number(delivery?.attempts) > 0,
    );
    await outages.restart();
    await processedAtOnce(service, project.call, id);
    expect(mails).toHaveLength(before + 1);
    expect(await deliveryOf(id)).toMatchObject({ state: 'sent', provider_id: mails.at(-1)?.id });
  });

  test('a rejected key is reported, and the right one sends later e-mails', async () => {
    const { mails } = vendors[provider];
    const before = mails.length;
    const project = await setUp(provider);
    const path = `/integrations/${provider}`;
    await project.call('PUT', path, { ...CONFIGS[provider], api_key: 'SG.wrong' });
    const failing = await send(project);
    await processed(project.call, failing);
    expect(await deliveryOf(failing)).toMatchObject({ state: 'failed', attempts: 1, code: '401' });
    await project.call('PUT', path, CONFIGS[provider]);
    const good = await send(project);
    await processed(project.call, good);
    expect(await deliveryOf(good)).toMatchObject({ state: 'sent' });
    expect(mails).toHaveLength(before + 1);
  });
});

test('an e-mail that an integration may have sent goes over no other, also after a restart', async () => {
  const smtp = await startSmtpStandIn();
  onTestFinished(() => smtp.stop());
  const { mails, reply } = vendors.sendgrid;
  const before = mails.length;
  const project = await setUp('sendgrid');
  await saveSmtp(project, smtp);
  reply({ status: 503, headers: { 'retry-after': '60' }, body: '' });
  smtp.fail({ at: 'end', how: 'cut', times: 1 });
  const id = await send(project);
  await until(
    () => deliveryOf(id),
    (delivery) => Number(delivery?.attempts) > 0,
  );
  expect([mails.length - before, smtp.received.length]).toEqual([0, 1]);
  await service.restart();
  await processedAtOnce(service, project.call, id);
  expect(await deliveryOf(id)).toMatchObject({ state: 'sent', attempts: 2 });
  expect([mails.length - before, smtp.received.length]).toEqual([0, 2]);
  expect(new Set(smtp.received.map(messageIdOf)).size).toBe(1);
});
