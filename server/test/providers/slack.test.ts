/** Compares our Slack sender with Slack's own client, which also verifies the stand-in. */
import { LogLevel, WebClient } from '@slack/web-api';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { systemClock } from '../../src/lib/clock.ts';
import { createEgressGuard } from '../../src/lib/egress.ts';
import type { SendOutcome, SlackMessage } from '../../src/providers/provider.ts';
import { createTransport, type Transport } from '../../src/providers/shared/transport.ts';
import { slack } from '../../src/providers/slack/index.ts';
import { exchangeCode, renewTokens } from '../../src/providers/slack/oauth.ts';
import { notificationContent } from '../support/notification-content.ts';
import { expectRecovery } from '../support/outage.ts';
import { type SlackStandIn, startSlackStandIn } from '../support/slack-stand-in.ts';

const APP = { client_id: '11.22', client_secret: 'c'.repeat(32) };
const app = { appId: 'A0TEST', clientId: APP.client_id, clientSecret: APP.client_secret };
const config = { app_id: 'A0TEST', ...APP, signing_secret: 's'.repeat(32) };
const TOKEN = 'xoxb-canary';
const egress = createEgressGuard({ allow: '127.0.0.0/8' });
let vendor: SlackStandIn;
let transport: Transport;

beforeAll(async () => {
  vendor = await startSlackStandIn();
  vendor.apps.set(APP.client_id, APP.client_secret);
  transport = createTransport({ egress, origins: { PROVIDER_SLACK_API_URL: vendor.apiUrl } });
});
afterAll(async () => {
  await transport?.close();
  await vendor?.close();
});
beforeEach(() => {
  vendor.posted.length = 0;
  vendor.tokenRequests.length = 0;
  vendor.rotate = undefined;
});

const theirs = (token?: string) =>
  new WebClient(token, {
    slackApiUrl: vendor.apiUrl,
    logLevel: LogLevel.ERROR,
    retryConfig: { retries: 0 },
    rejectRateLimitedCalls: true,
  });
const to = (channelId: string): SlackMessage => ({
  ...notificationContent({ content: 'It arrives on <b>Monday</b> & not before.' }),
  to: { channelId, accessToken: TOKEN },
});

async function ours(message: SlackMessage): Promise<SendOutcome> {
  const sender = slack.connect(config, { egress, transport, clock: systemClock });
  const outcome = await sender.send(message);
  await sender.close();
  return outcome;
}

/** The message of `to()` in the form of Slack's client. */
const written = (channel: string) => ({
  channel,
  text:
    '*Your order has shipped*\nIt arrives on *Monday* &amp; not ' +
    'before.\nhttps://shop.example.com/orders/42?from=news&amp;step=1',
  blocks: [
    {
      type: 'header' as const,
      text: { type: 'plain_text' as const, text: 'Your order has shipped', emoji: true },
    },
    {
      type: 'section' as const,
      text: { type: 'mrkdwn' as const, text: 'It arrives on *Monday* &amp; not before.' },
    },
    {
      type: 'actions' as const,
      elements: [
        {
          type: 'button' as const,
          text: { type: 'plain_text' as const, text: 'Open' },
          url: 'https://shop.example.com/orders/42?from=news&step=1',
        },
      ],
    },
  ],
  unfurl_links: false,
  metadata: {
    event_type: 'notification',
    event_payload: {
      id: '0198c0de-0000-7000-8000-00000000000a',
      category: 'orders',
      topic: 'order-42',
    },
  },
});

describe("Slack's own client", () => {
  test('posts what we post, and gets the response that it expects', async () => {
    const response = await theirs(TOKEN).chat.postMessage(written('C1'));
    expect(response).toMatchObject({ ok: true, channel: 'C1', ts: expect.stringMatching(/^\d+\.\d{6}$/) });
    expect(await ours(to('C1'))).toMatchObject({ kind: 'sent' });
    const [first, second] = vendor.posted;
    expect(second).toEqual(first);
  });

  test('gets the reason of a rejection, and the time to wait', async () => {
    vendor.refusals.set('C2', ['is_archived', { status: 429, headers: { 'retry-after': '7' } }]);
    await expect(theirs(TOKEN).chat.postMessage(written('C2'))).rejects.toMatchObject({
      code: 'slack_webapi_platform_error',
      data: { ok: false, error: 'is_archived' },
    });
    await expect(theirs(TOKEN).chat.postMessage(written('C2'))).rejects.toMatchObject({
      code: 'slack_webapi_rate_limited_error',
      retryAfter: 7,
    });
    vendor.refusals.set('C2', ['is_archived', { status: 429, headers: { 'retry-after': '7' } }]);
    expect(await ours(to('C2'))).toMatchObject({ kind: 'token_gone', code: 'is_archived' });
    expect(await ours(to('C2'))).toMatchObject({ kind: 'retry', ambiguous: false, retryAfterMs: 7000 });
    expect(vendor.posted).toEqual([]);
  });

  test('gets for a code and for a refresh token what we get', async () => {
    vendor.rotate = 43_200;
    const code = vendor.code();
    const granted = await theirs().oauth.v2.access({ ...APP, code });
    expect(granted).toMatchObject({ ok: true, app_id: 'A0TEST', team: { id: 'T0TEAM' }, expires_in: 43_200 });
    await expect(theirs().oauth.v2.access({ ...APP, code })).rejects.toMatchObject({
      data: { error: 'code_already_used' },
    });
    expect(await exchangeCode(transport, app, { code })).toEqual({
      kind: 'refused',
      code: 'code_already_used',
    });
    const { refresh_token = '' } = granted;
    const grant_type = 'refresh_token' as const;
    expect(await theirs().oauth.v2.access({ ...APP, grant_type, refresh_token })).toMatchObject({
      ok: true,
      refresh_token: expect.stringMatching(/^xoxe-/),
    });
    // It has been used.
    expect(await renewTokens(transport, app, refresh_token)).toEqual({
      kind: 'refused',
      code: 'invalid_refresh_token',
    });
    await expect(
      theirs().oauth.v2.access({ ...APP, client_secret: 'wrong', code: vendor.code() }),
    ).rejects.toMatchObject({ data: { error: 'bad_client_secret' } });
  });
});

test('posts each message once, before and after an outage of Slack', async () => {
  const sender = slack.connect(config, { egress, transport, clock: systemClock });
  await expectRecovery(vendor.outages, () => sender.send(to('C3')));
  expect(vendor.posted).toHaveLength(2);
  await sender.close();
});
