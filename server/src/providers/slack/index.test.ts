import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { VendorReply } from '../../../test/support/http-stand-in.ts';
import { bareContent, notificationContent } from '../../../test/support/notification-content.ts';
import { conforms } from '../../../test/support/provider-conformance.ts';
import { startVendor, type VendorStandIn } from '../../../test/support/vendor-stand-in.ts';
import { systemClock } from '../../lib/clock.ts';
import { createEgressGuard } from '../../lib/egress.ts';
import type { Override, SlackMessage } from '../provider.ts';
import { createTransport } from '../shared/transport.ts';
import { slackbot } from '../slackbot/index.ts';
import { slack } from './index.ts';

const CONFIG = {
  app_id: 'A1',
  client_id: '1.2',
  client_secret: 'c'.repeat(32),
  signing_secret: 's'.repeat(32),
};
const TOKEN = 'xoxb-canary-of-the-installation';
const PATH = '/services/T00000000/B00000000/canary-of-the-channel';

const byApi = (members: Partial<SlackMessage> = {}): SlackMessage => ({
  ...notificationContent(),
  to: { channelId: 'C024BE91L', accessToken: TOKEN },
  ...members,
});
const byWebhook = (members: Partial<SlackMessage> = {}): SlackMessage => ({
  ...notificationContent(),
  to: { webhookUrl: `https://hooks.slack.com${PATH}` },
  ...members,
});

interface Payload {
  text: string;
  blocks: { type: string; text?: { type: string; text: string }; elements?: object[] }[];
  [name: string]: unknown;
}
function payload(message: SlackMessage): Payload {
  const request = slack.build(message, CONFIG);
  if ('kind' in request) throw new Error(request.reason);
  return JSON.parse(String(request.body));
}

const LINK = 'https://shop.example.com/orders/42?from=news&step=1';
const BLOCKS = [
  { type: 'header', text: { type: 'plain_text', text: 'Your order has shipped', emoji: true } },
  { type: 'section', text: { type: 'mrkdwn', text: 'It arrives on *Monday*.' } },
  {
    type: 'actions',
    elements: [{ type: 'button', text: { type: 'plain_text', text: 'Open' }, url: LINK }],
  },
];
const TEXT = `*Your order has shipped*\nIt arrives on *Monday*.\n${LINK.replace('&', '&amp;')}`;
const HTML = { content: '<p>It arrives on <b>Monday</b>.</p>' };

describe('what is posted', () => {
  test('to a channel through the API: blocks, a text, and the ids for other apps', () => {
    const request = slack.build(byApi(HTML), CONFIG);
    expect(request).toMatchObject({
      method: 'POST',
      path: '/chat.postMessage',
      headers: { 'content-type': 'application/json; charset=utf-8', authorization: `Bearer ${TOKEN}` },
    });
    expect(payload(byApi(HTML))).toEqual({
      channel: 'C024BE91L',
      text: TEXT,
      blocks: BLOCKS,
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
  });

  test('to a webhook: the same without members of the API', () => {
    expect(slack.build(byWebhook(HTML), CONFIG)).toMatchObject({
      webhookUrl: `https://hooks.slack.com${PATH}`,
      path: '',
      headers: { 'content-type': 'application/json; charset=utf-8' },
    });
    expect(payload(byWebhook(HTML))).toEqual({ text: TEXT, blocks: BLOCKS, unfurl_links: false });
  });

  test('a bare message is its title', () => {
    const { text, blocks } = payload(byWebhook(bareContent()));
    expect(text).toBe('*Your order has shipped*');
    expect(blocks).toEqual(BLOCKS.slice(0, 1));
  });

  test('a plain text is unchanged, but mentions no user', () => {
    const text = 'a <b and c> d & <!channel> *bold*';
    const { blocks } = payload(byApi({ content: text, text }));
    expect(blocks[1]?.text?.text).toBe('a &lt;b and c&gt; d &amp; &lt;!channel&gt; *bold*');
  });

  test('a link that is too long for a button when it is encoded is text', () => {
    const actionUrl = `https://example.com/${'ü'.repeat(1000)}?a=1&b=2`;
    const { text, blocks } = payload(byApi({ actionUrl }));
    const shown = actionUrl.replace('&', '&amp;');
    expect(text).toContain(`\n${shown}`);
    expect(blocks.at(-1)).toEqual({ type: 'section', text: { type: 'mrkdwn', text: shown } });
    expect(JSON.stringify(blocks)).not.toContain('button');
  });

  test.each(['/orders/42', 'app://orders', 'javascript:alert(1)', `https://example.com/${'x'.repeat(3000)}`])(
    '%.30s is no link that Slack opens',
    (actionUrl) => {
      const { text, blocks } = payload(byApi({ actionUrl }));
      expect(blocks.map(({ type }) => type)).toEqual(['header', 'section']);
      expect(text).toBe('*Your order has shipped*\nIt arrives on Monday.');
    },
  );

  test('the button has the label of the message', () => {
    const [, , actions] = payload(byApi({ actionLabel: 'Ouvrir' })).blocks;
    expect(actions?.elements).toMatchObject([{ text: { text: 'Ouvrir' } }]);
  });

  test('all parts keep to Slack’s limits, and the link stays', () => {
    const text = '<&😀'.repeat(5000);
    const { blocks, text: whole } = payload(byApi({ title: 'ü😀'.repeat(100), content: text, text }));
    const [header, section, actions] = blocks;
    expect(header?.text?.text.length).toBeLessThanOrEqual(150);
    expect(section?.text?.text.length).toBeLessThanOrEqual(3000);
    expect(section?.text?.text).toMatch(/^(?:&lt;|&amp;|😀)+…$/u);
    expect(actions?.elements).toHaveLength(1);
    expect(whole.length).toBeLessThanOrEqual(4000);
    expect(whole.endsWith(`…\n${LINK.replace('&', '&amp;')}`)).toBe(true);
  });

  test('an override replaces blocks, adds members, and does not change the destination', () => {
    const override: Override = {
      channel: 'C666',
      token: 'xoxb-stolen',
      blocks: [{ type: 'divider' }],
      username: 'Shop',
      unfurl_links: null,
    };
    const sent = payload(byApi({ override }));
    expect(sent).toMatchObject({ channel: 'C024BE91L', blocks: [{ type: 'divider' }], username: 'Shop' });
    expect(sent).not.toHaveProperty('token');
    expect(sent).not.toHaveProperty('unfurl_links');
    expect(payload(byWebhook({ override }))).not.toHaveProperty('channel');
  });

  test('both apps send the same', () => {
    expect(slackbot.build(byApi(), { enabled: true })).toEqual(slack.build(byApi(), CONFIG));
    expect(slackbot.classify).toBe(slack.classify);
  });
});

describe('classify', () => {
  const gone = { kind: 'token_gone', scope: 'token' };
  const uninstalled = { kind: 'token_gone', scope: 'installation' };
  const either = { kind: 'rejected', scope: 'message', suspect: 'config' };
  const message = { kind: 'rejected', scope: 'message' };
  const retry = { kind: 'retry', ambiguous: false };
  const doubt = { kind: 'retry', ambiguous: true };

  test.each<[string, Record<string, unknown>]>([
    ...[
      'account_inactive',
      'token_revoked',
      'invalid_auth',
      'invalid_refresh_token',
      'user_removed_from_team',
    ].map((word): [string, object & Record<string, unknown>] => [word, uninstalled]),
    ...['channel_not_found', 'is_archived', 'not_in_channel'].map(
      (word): [string, Record<string, unknown>] => [word, gone],
    ),
    ...['missing_scope', 'not_allowed_token_type', 'not_authed'].map(
      (word): [string, Record<string, unknown>] => [word, either],
    ),
    ...[
      'ekm_access_denied',
      'org_login_required',
      'team_access_not_granted',
      'restricted_action',
      'msg_too_long',
      'msg_blocks_too_long',
      'no_text',
      'invalid_blocks',
      'invalid_arguments',
      'too_many_attachments',
      'a_word_that_is_new',
    ].map((word): [string, Record<string, unknown>] => [word, message]),
    ...['ratelimited', 'rate_limited', 'service_unavailable', 'request_timeout', 'token_expired'].map(
      (word): [string, Record<string, unknown>] => [word, retry],
    ),
    ...['fatal_error', 'internal_error'].map((word): [string, Record<string, unknown>] => [word, doubt]),
  ])('error %s of the API', (error, expected) => {
    const outcome = slack.classify({ status: 200, headers: {}, text: JSON.stringify({ ok: false, error }) });
    expect(outcome).toMatchObject({ ...expected, code: error, reason: `Slack responded with 200: ${error}` });
  });

  test.each<[number, string, Record<string, unknown>]>([
    [404, 'no_service', gone],
    [404, 'no_service_id', gone],
    [404, 'no_team', gone],
    [404, 'no_active_hooks', gone],
    [404, 'channel_not_found', gone],
    [403, 'invalid_token', gone],
    [403, 'team_disabled', gone],
    [410, 'channel_is_archived', gone],
    [400, 'user_not_found', gone],
    [403, 'action_prohibited', message],
    [403, 'posting_to_general_channel_denied', message],
    [400, 'invalid_payload', message],
    [400, 'no_text', message],
    [400, 'invalid_blocks', message],
    [400, 'invalid_blocks_format', message],
    [400, 'too_many_attachments', message],
    [400, 'missing_text_or_fallback_or_attachments', message],
    [500, 'rollup_error', retry],
    [503, 'whatever', retry],
  ])('%d %s from a webhook', (status, text, expected) => {
    expect(slack.classify({ status, headers: {}, text })).toMatchObject({
      ...expected,
      code: status === 503 ? '503' : text,
    });
  });

  test('too many requests are retried when Slack permits', () => {
    const response = {
      status: 429,
      headers: { 'retry-after': '30' },
      text: '{"ok":false,"error":"ratelimited"}',
    };
    expect(slack.classify(response)).toMatchObject({ ...retry, retryAfterMs: 30_000, code: 'ratelimited' });
  });

  test('success is "ok" in either form', () => {
    const classify = (text: string) => slack.classify({ status: 200, headers: {}, text });
    expect(classify('ok')).toEqual({ kind: 'sent' });
    expect(classify('{"ok":true,"channel":"C1","ts":"1503435956.000247"}')).toEqual({
      kind: 'sent',
      providerId: '1503435956.000247',
    });
    expect(classify('')).toMatchObject(doubt);
  });
});

describe('sending', () => {
  let vendor: VendorStandIn;
  beforeAll(async () => {
    vendor = await startVendor();
  });
  afterAll(() => vendor.stop());

  async function send(message: SlackMessage, allow = '') {
    const egress = createEgressGuard({ allow });
    const transport = createTransport({
      egress,
      origins: { PROVIDER_SLACK_API_URL: `${vendor.address}/api` },
    });
    const sender = slack.connect(CONFIG, { egress, transport, clock: systemClock });
    const outcome = await sender.send(message);
    await sender.close();
    await transport.close();
    return outcome;
  }

  test('through the API is one request with the token of the installation', async () => {
    vendor.reply({ status: 200, body: { ok: true, ts: '1.2', channel: 'C024BE91L' } });
    expect(await send(byApi())).toEqual({ kind: 'sent', providerId: '1.2' });
    const body = JSON.stringify(payload(byApi()));
    expect(vendor.requests).toEqual([
      {
        method: 'POST',
        path: '/api/chat.postMessage',
        headers: {
          host: vendor.address.slice('http://'.length),
          connection: 'keep-alive',
          'user-agent': 'Belfry',
          accept: '*/*',
          authorization: `Bearer ${TOKEN}`,
          'content-type': 'application/json; charset=utf-8',
          'content-length': String(Buffer.byteLength(body)),
        },
        body,
      },
    ]);
  });

  describe('to a channel that the app is not in', () => {
    const notIn = { status: 200, body: { ok: false, error: 'not_in_channel' } };
    const paths = () => vendor.requests.map(({ path }) => path);

    test('joins the channel and posts again', async () => {
      const posted = { status: 200, body: { ok: true, ts: '1.2', channel: 'C024BE91L' } };
      vendor.reply(notIn, { status: 200, body: { ok: true, channel: { id: 'C024BE91L' } } }, posted);
      expect(await send(byApi())).toEqual({ kind: 'sent', providerId: '1.2' });
      expect(paths()).toEqual(['/api/chat.postMessage', '/api/conversations.join', '/api/chat.postMessage']);
      const [first, join, second] = vendor.requests;
      expect(JSON.parse(join?.body ?? '')).toEqual({ channel: 'C024BE91L' });
      expect(join?.headers.authorization).toBe(`Bearer ${TOKEN}`);
      expect(second?.body).toBe(first?.body);
    });

    test('is not joined because of the text of a message', async () => {
      const message = { text: 'not_in_channel' };
      vendor.reply({ status: 200, body: { ok: true, ts: '1.2', channel: 'C024BE91L', message } });
      expect(await send(byApi())).toEqual({ kind: 'sent', providerId: '1.2' });
      expect(paths()).toEqual(['/api/chat.postMessage']);
    });

    test.each(['missing_scope', 'method_not_supported_for_channel_type', 'is_archived'])(
      'is not sent if it cannot join: %s',
      async (error) => {
        vendor.reply(notIn, { status: 200, body: { ok: false, error } });
        const outcome = await send(byApi());
        expect(outcome).toMatchObject({ kind: 'token_gone', scope: 'token', code: 'not_in_channel' });
        expect(paths()).toEqual(['/api/chat.postMessage', '/api/conversations.join']);
      },
    );

    test.each<[string, VendorReply | 'cut']>([
      ['too many requests', { status: 429, headers: { 'retry-after': '30' } }],
      ['an outage', { status: 503 }],
      ['a broken connection', 'cut'],
    ])('is retried after %s while joining', async (_name, reply) => {
      vendor.reply(notIn, reply);
      expect(await send(byApi())).toMatchObject({ kind: 'retry' });
    });
  });

  test('to a webhook is one request to its URL, without a token', async () => {
    vendor.reply({ status: 200, body: 'ok' });
    const message = byWebhook({ to: { webhookUrl: `${vendor.address}${PATH}` } });
    expect(await send(message, '127.0.0.0/8')).toEqual({ kind: 'sent' });
    expect(vendor.requests).toMatchObject([
      { method: 'POST', path: PATH, body: JSON.stringify(payload(message)) },
    ]);
    expect(vendor.requests[0]?.headers).not.toHaveProperty('authorization');
  });

  test('to an address within our own network is rejected, and the token is discarded', async () => {
    vendor.reply({ status: 200, body: 'ok' });
    const outcome = await send(byWebhook({ to: { webhookUrl: `${vendor.address}${PATH}` } }));
    expect(outcome).toMatchObject({ kind: 'token_gone', scope: 'token', code: 'EGRESS_REFUSED' });
    expect(vendor.requests).toEqual([]);
  });
});

conforms(
  'slack',
  {
    open: (_address, deps) => slack.connect(CONFIG, deps(['PROVIDER_SLACK_API_URL'])),
    message: () => byApi(),
    accepts: { status: 200, body: { ok: true, ts: '1.2' } },
    sent: { kind: 'sent', providerId: '1.2' },
    secrets: [TOKEN, CONFIG.client_secret, CONFIG.signing_secret],
  },
  'by its API',
);

conforms(
  'slack',
  {
    open: (_address, deps) => slack.connect(CONFIG, deps()),
    message: (address) => byWebhook({ to: { webhookUrl: `${address}${PATH}` } }),
    accepts: { status: 200, body: 'ok' },
    sent: { kind: 'sent' },
    secrets: ['canary-of-the-channel'],
    // The response of an address that a user saved never blames the integration.
    except: { 'a redirect': { kind: 'rejected', scope: 'message' } },
  },
  'by a webhook',
);

conforms('slackbot', {
  open: (_address, deps) => slackbot.connect({ enabled: true }, deps(['PROVIDER_SLACK_API_URL'])),
  message: () => byApi(),
  accepts: { status: 200, body: { ok: true, ts: '1.2' } },
  sent: { kind: 'sent', providerId: '1.2' },
  secrets: [TOKEN],
});
