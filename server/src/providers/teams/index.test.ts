import { AdaptiveCard, SerializationContext, Version } from 'adaptivecards';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { bareContent, notificationContent } from '../../../test/support/notification-content.ts';
import { conforms } from '../../../test/support/provider-conformance.ts';
import { startVendor, type VendorStandIn } from '../../../test/support/vendor-stand-in.ts';
import { systemClock } from '../../lib/clock.ts';
import { createEgressGuard } from '../../lib/egress.ts';
import type { Override, TeamsMessage } from '../provider.ts';
import { createTransport } from '../shared/transport.ts';
import { teams } from './index.ts';

const PATH = '/webhookb2/0123456789abcdef@tenant/IncomingWebhook/canary-of-the-channel/1';

const post = (members: Partial<TeamsMessage> = {}): TeamsMessage => ({
  ...notificationContent(),
  webhookUrl: `https://example.webhook.office.com${PATH}`,
  ...members,
});

interface PostedMessage {
  type: string;
  attachments: { contentType: string; contentUrl: null; content: Record<string, unknown> }[];
}

function built(message: TeamsMessage): PostedMessage & { bytes: number; card: Record<string, unknown> } {
  const request = teams.build(message, {});
  if ('kind' in request) throw new Error(request.reason);
  const json: PostedMessage = JSON.parse(request.body);
  return { ...json, bytes: Buffer.byteLength(request.body), card: json.attachments[0]?.content ?? {} };
}

/** The errors that the library for cards finds in a card. */
function faultsOf(card: object): string[] {
  const parsed = new AdaptiveCard();
  const context = new SerializationContext(new Version(1, 4));
  parsed.parse(card, context);
  const { validationEvents } = parsed.validateProperties();
  const found = Array.from({ length: context.eventCount }, (_, index) => context.getEventAt(index).message);
  return [...found, ...validationEvents.map(({ message }) => message)];
}

describe('the message', () => {
  test('a full message is a card with a button', () => {
    const { type, attachments, card } = built(post({ content: '<p>It arrives on <b>Monday</b>.</p>' }));
    expect({ type, attachments }).toEqual({
      type: 'message',
      attachments: [
        {
          contentType: 'application/vnd.microsoft.card.adaptive',
          contentUrl: null,
          content: {
            $schema: 'http://adaptivecards.io/schemas/adaptive-card.json',
            type: 'AdaptiveCard',
            version: '1.4',
            msteams: { width: 'Full' },
            body: [
              {
                type: 'TextBlock',
                text: 'Your order has shipped',
                weight: 'Bolder',
                size: 'Medium',
                wrap: true,
              },
              { type: 'TextBlock', text: 'It arrives on Monday.', wrap: true },
            ],
            actions: [
              {
                type: 'Action.OpenUrl',
                title: 'Open',
                url: 'https://shop.example.com/orders/42?from=news&step=1',
              },
            ],
          },
        },
      ],
    });
    expect(faultsOf(card)).toEqual([]);
  });

  test('a message without content is its title', () => {
    const { card } = built(post(bareContent()));
    expect(card.body).toMatchObject([{ text: 'Your order has shipped' }]);
    expect(card).not.toHaveProperty('actions');
    expect(faultsOf(card)).toEqual([]);
  });

  test('the library finds errors', () => {
    expect(faultsOf({ type: 'AdaptiveCard', version: '1.4', body: [{ type: 'TextBlok' }] })).not.toEqual([]);
  });

  test('lines stay lines, and a text makes no links that hide their address', () => {
    const { card } = built(post({ text: 'one\r\ntwo\nsee [bank](https://evil.example.com)' }));
    expect(card.body).toMatchObject([{}, { text: 'one\n\ntwo\n\nsee [bank]\\(https://evil.example.com)' }]);
  });

  test('the button has the label of the message', () => {
    expect(built(post({ actionLabel: 'Ouvrir' })).card.actions).toMatchObject([{ title: 'Ouvrir' }]);
  });

  test.each(['javascript:alert(1)', '/orders/42', 'app://orders/42'])('%s is no button', (actionUrl) => {
    expect(built(post({ actionUrl })).card).not.toHaveProperty('actions');
  });

  test('an override is merged into the message', () => {
    expect(built(post({ override: { summary: 'Shipped' } }))).toMatchObject({
      type: 'message',
      summary: 'Shipped',
    });
    const attachments = [{ contentType: 'application/vnd.microsoft.card.adaptive', content: { body: [] } }];
    expect(built(post({ override: { attachments } })).attachments).toEqual(attachments);
  });

  test('an override that is a card replaces ours', () => {
    const override: Override = {
      type: 'AdaptiveCard',
      version: '1.2',
      body: [{ type: 'TextBlock', text: 'Mine' }],
      speak: null,
    };
    const { type, attachments, card } = built(post({ override }));
    const { speak: _, ...kept } = override;
    expect([type, attachments.length, card]).toEqual(['message', 1, kept]);
    expect(faultsOf(card)).toEqual([]);
  });

  test('a card with names that could change prototypes is rejected', () => {
    const override = JSON.parse('{"type":"AdaptiveCard","body":[{"__proto__":{"x":1}}]}');
    expect(teams.build(post({ override }), {})).toMatchObject({ kind: 'rejected', code: 'bad_override' });
  });

  test('a long text is cut to Teams’s limit, a card that is too large is rejected', () => {
    const { bytes, card } = built(post({ text: 'ü😀'.repeat(50_000) }));
    expect(bytes).toBeLessThanOrEqual(28 * 1024);
    expect(bytes).toBeGreaterThan(28 * 1024 - 16);
    expect(card).toHaveProperty('actions');
    const override = { type: 'AdaptiveCard', body: [{ type: 'TextBlock', text: 'x'.repeat(28 * 1024) }] };
    expect(teams.build(post({ override }), {})).toMatchObject({ kind: 'rejected', code: 'too_big' });
  });
});

describe('classify', () => {
  const gone = { kind: 'token_gone', scope: 'token' };
  const message = { kind: 'rejected', scope: 'message' };
  const retry = { kind: 'retry', ambiguous: false };
  const said = (words: string) => `Webhook message delivery failed with error: ${words}`;
  test.each<[number, string, Record<string, unknown>]>([
    [202, '', { kind: 'sent' }],
    [200, '1', { kind: 'sent' }],
    [200, '', { kind: 'retry', ambiguous: true }],
    [200, 'something new', { kind: 'retry', ambiguous: true }],
    [
      200,
      said('Microsoft Teams endpoint returned HTTP error 429 with ContextId tcid=0'),
      { ...retry, code: '429' },
    ],
    [200, said('Microsoft Teams endpoint returned HTTP error 503'), { ...retry, code: '503' }],
    [200, said('Microsoft Teams endpoint returned HTTP error 413'), { ...message, code: '413' }],
    [200, said('Microsoft Teams endpoint returned HTTP error 404'), gone],
    [200, 'Bad payload received by generic incoming webhook.', message],
    [200, 'Summary or Text is required.', message],
    [200, 'Connector configuration not found', gone],
    [400, 'Webhook "x" was not found', gone],
    [400, 'Bad payload received by generic incoming webhook.', message],
    [
      400,
      '{"error":{"code":"WorkflowTriggerIsNotEnabled","message":"off"}}',
      { ...retry, retryAfterMs: 3_600_000 },
    ],
    [401, '{"error":{"code":"DirectApiAuthorizationRequired","message":"no"}}', gone],
    [403, '', gone],
    [404, '', gone],
    [410, '', gone],
    [408, '', retry],
    [413, '', message],
    [429, '', retry],
    [500, '', retry],
  ])('%d %s', (status, text, expected) => {
    expect(teams.classify({ status, headers: {}, text })).toMatchObject(expected);
  });
});

describe('sending', () => {
  let vendor: VendorStandIn;
  beforeAll(async () => {
    vendor = await startVendor();
  });
  afterAll(() => vendor.stop());

  async function send(message: TeamsMessage, allow = '127.0.0.0/8') {
    const egress = createEgressGuard({ allow });
    const transport = createTransport({ egress });
    const sender = teams.connect({}, { egress, transport, clock: systemClock });
    const outcome = await sender.send(message);
    await sender.close();
    await transport.close();
    return outcome;
  }

  test('is one request to the URL, with its query', async () => {
    vendor.reply({ status: 202 });
    const message = post({ webhookUrl: `${vendor.address}/workflows/1/invoke?api-version=1&sig=a%2Bb` });
    expect(await send(message)).toEqual({ kind: 'sent' });
    const request = teams.build(message, {});
    const body = 'kind' in request ? '' : request.body;
    expect(vendor.requests).toEqual([
      {
        method: 'POST',
        path: '/workflows/1/invoke?api-version=1&sig=a%2Bb',
        headers: {
          host: vendor.address.slice('http://'.length),
          connection: 'keep-alive',
          'user-agent': 'Belfry',
          accept: '*/*',
          'content-type': 'application/json; charset=utf-8',
          'content-length': String(Buffer.byteLength(body)),
        },
        body,
      },
    ]);
  });

  test('a token with an address within our own network is discarded', async () => {
    vendor.reply({ status: 202 });
    expect(await send(post({ webhookUrl: vendor.address }), '')).toMatchObject({
      kind: 'token_gone',
      code: 'EGRESS_REFUSED',
    });
    expect(vendor.requests).toEqual([]);
  });
});

conforms('teams', {
  open: (_address, deps) => teams.connect({}, deps()),
  message: (address) => post({ webhookUrl: `${address}${PATH}?sig=canary-of-a-signature` }),
  accepts: { status: 202 },
  sent: { kind: 'sent' },
  secrets: ['canary-of-the-channel', 'canary-of-a-signature'],
  except: {
    // A workflow responds with 202 and no body.
    'garbage body': { kind: 'sent' },
    'a page as body': { kind: 'sent' },
    // The response of an address that a user saved never blames the integration.
    'a redirect': { kind: 'rejected', scope: 'message' },
  },
});
