import type { Emulator } from 'emulate';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { systemClock } from '../../src/lib/clock.ts';
import { createEgressGuard } from '../../src/lib/egress.ts';
import type { Sender, SlackMessage, SmsMessage } from '../../src/providers/provider.ts';
import { createTransport, type Transport } from '../../src/providers/shared/transport.ts';
import { slack } from '../../src/providers/slack/index.ts';
import { twilio } from '../../src/providers/twilio/index.ts';
import { startEmulator } from '../support/emulator.ts';
import { notificationContent } from '../support/notification-content.ts';
import { expectRecovery, type Outages } from '../support/outage.ts';

// Our requests and our reading of the responses, against emulators that others wrote and that can disagree
// with us.

const egress = createEgressGuard({ allow: '127.0.0.0/8' });
const HTML = { content: '<p>It arrives on <b>Monday</b> &amp; not before.</p>' };

describe('Slack', () => {
  const app = {
    app_id: 'A1',
    client_id: '1.2',
    client_secret: 'c'.repeat(32),
    signing_secret: 's'.repeat(32),
  };
  let emulator: Emulator;
  let address: string;
  let outages: Outages;
  let transport: Transport;
  let sender: Sender<SlackMessage>;
  beforeAll(async () => {
    ({ emulator, address, outages } = await startEmulator('slack', {
      users: [{ name: 'ann' }],
      channels: [{ name: 'orders' }],
      tokens: [
        {
          token: 'xoxb-bot',
          user: 'ann',
          type: 'bot',
          scopes: ['chat:write', 'channels:read', 'channels:history'],
        },
        { token: 'xoxb-reader', user: 'ann', type: 'bot', scopes: ['channels:read'] },
      ],
      strict_scopes: true,
    }));
    transport = createTransport({ egress, origins: { PROVIDER_SLACK_API_URL: `${address}/api` } });
    sender = slack.connect(app, { egress, transport, clock: systemClock });
  });
  afterAll(async () => {
    await sender?.close();
    await transport?.close();
    await emulator?.close();
  });

  async function slackApi(method: string, body: object): Promise<Record<string, unknown>> {
    const response = await fetch(`${address}/api/${method}`, {
      method: 'POST',
      headers: { authorization: 'Bearer xoxb-bot', 'content-type': 'application/json' },
      body: JSON.stringify(body),
    });
    return (await response.json()) as Record<string, unknown>;
  }
  async function idOf(channel: string): Promise<string> {
    const { channels } = (await slackApi('conversations.list', {})) as {
      channels: { id: string; name: string }[];
    };
    return channels.find(({ name }) => name === channel)?.id ?? '';
  }
  async function messagesIn(channel: string): Promise<Record<string, unknown>[]> {
    const { messages } = await slackApi('conversations.history', { channel: await idOf(channel) });
    return messages as Record<string, unknown>[];
  }
  const TEXT = expect.stringMatching(
    /^\*Your order has shipped\*\nIt arrives on \*Monday\* &amp; not before\.\nhttps:/,
  );
  const BLOCKS = [{ type: 'header' }, { type: 'section' }, { type: 'actions' }];
  const to = (channelId: string, accessToken = 'xoxb-bot'): SlackMessage => ({
    ...notificationContent(HTML),
    to: { channelId, accessToken },
  });

  test('a message through the API appears in the channel', async () => {
    const outcome = await sender.send(to(await idOf('orders')));
    expect(outcome).toEqual({ kind: 'sent', providerId: expect.stringMatching(/^\d+\.\d+$/) });
    expect((await messagesIn('orders'))[0]).toMatchObject({
      ts: outcome.kind === 'sent' ? outcome.providerId : '',
      text: TEXT,
      blocks: BLOCKS,
    });
  });

  test('a message to a webhook appears in its channel', async () => {
    // The webhook that the emulator has from the start.
    const webhookUrl = `${address}/services/T000000001/B000000001/X000000001`;
    expect(await sender.send({ ...notificationContent(HTML), to: { webhookUrl } })).toEqual({ kind: 'sent' });
    expect((await messagesIn('general'))[0]).toMatchObject({
      subtype: 'bot_message',
      text: TEXT,
      blocks: BLOCKS,
    });
  });

  test('messages before and after an outage of Slack appear in the channel, and none twice', async () => {
    const webhookUrl = `${address}/services/T000000001/B000000001/X000000001`;
    for (const [channel, message] of [
      ['orders', to(await idOf('orders'))],
      ['general', { ...notificationContent(HTML), to: { webhookUrl } }],
    ] as const) {
      const before = await messagesIn(channel);
      await expectRecovery(outages, () => sender.send(message));
      expect(await messagesIn(channel)).toHaveLength(before.length + 2);
    }
  });

  test('blocks that Slack does not know are reported', async () => {
    const override = { blocks: 'none' };
    const outcome = await sender.send({ ...to(await idOf('orders')), override });
    expect(outcome).toMatchObject({
      kind: 'rejected',
      scope: 'message',
      code: expect.stringMatching(/^invalid_/),
    });
  });

  test('an unknown channel and a token without the scope', async () => {
    expect(await sender.send(to('C0NOWHERE'))).toMatchObject({
      kind: 'token_gone',
      scope: 'token',
      code: 'channel_not_found',
    });
    expect(await sender.send(to(await idOf('orders'), 'xoxb-reader'))).toMatchObject({
      kind: 'rejected',
      scope: 'message',
      suspect: 'config',
      code: 'missing_scope',
    });
  });
});

describe('Twilio', () => {
  const config = { account_sid: 'AC1', api_key: 'SK1', api_secret: 'canary', from: '+14155550100' };
  let emulator: Emulator;
  let address: string;
  let outages: Outages;
  let transport: Transport;
  beforeAll(async () => {
    ({ emulator, address, outages } = await startEmulator('twilio', {
      account: { sid: config.account_sid },
      api_keys: [{ sid: config.api_key, secret: config.api_secret }],
      phone_numbers: [{ phone_number: config.from }],
    }));
    transport = createTransport({ egress, origins: { PROVIDER_TWILIO_BASE_URL: address } });
  });
  afterAll(async () => {
    await transport?.close();
    await emulator?.close();
  });

  const sms: SmsMessage = { ...notificationContent(), to: '+1 500 555 0001' };
  async function send(settings = config) {
    const sender = twilio.connect(settings, { egress, transport, clock: systemClock });
    const outcome = await sender.send(sms);
    await sender.close();
    return outcome;
  }

  async function queued(): Promise<unknown[]> {
    const response = await fetch(`${address}/2010-04-01/Accounts/AC1/Messages.json`, {
      headers: { authorization: `Basic ${btoa('SK1:canary')}` },
    });
    return ((await response.json()) as { messages: unknown[] }).messages;
  }

  test('a message is queued as it was written', async () => {
    const outcome = await send();
    expect(outcome).toEqual({ kind: 'sent', providerId: expect.stringMatching(/^SM/) });
    const response = await fetch(
      `${address}/2010-04-01/Accounts/AC1/Messages/${outcome.kind === 'sent' ? outcome.providerId : ''}.json`,
      { headers: { authorization: `Basic ${btoa('SK1:canary')}` } },
    );
    expect(await response.json()).toMatchObject({
      to: '+15005550001',
      from: '+14155550100',
      body: `Your order has shipped\nIt arrives on Monday.\n${sms.actionUrl}`,
    });
  });

  test('messages before and after an outage of Twilio are queued, and none twice', async () => {
    const sender = twilio.connect(config, { egress, transport, clock: systemClock });
    const before = await queued();
    await expectRecovery(outages, () => sender.send(sms));
    expect(await queued()).toHaveLength(before.length + 2);
    await sender.close();
  });

  test('wrong credentials are errors of the config; a foreign number may be one', async () => {
    expect(await send({ ...config, api_secret: 'wrong' })).toMatchObject({
      kind: 'rejected',
      scope: 'config',
      code: '20003',
    });
    expect(await send({ ...config, account_sid: 'AC2' })).toMatchObject({
      kind: 'rejected',
      scope: 'config',
    });
    expect(await send({ ...config, from: '+14155550999' })).toMatchObject({
      kind: 'rejected',
      scope: 'message', // some numbers can send to certain countries only
      suspect: 'config',
    });
  });
});
