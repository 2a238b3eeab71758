/**
 * Microsoft Teams, through incoming webhooks.
 * https://learn.microsoft.com/microsoftteams/platform/webhooks-and-connectors/how-to/add-incoming-webhook
 */
import { type Static, Type } from 'typebox';
import { urlMember } from '../../lib/named-host.ts';
import type {
  Finding,
  Provider,
  Rejection,
  Sender,
  SenderDeps,
  SendOutcome,
  TargetedTokens,
  TeamsMessage,
  TokenTarget,
  VerifyDeps,
} from '../provider.ts';
import { destinationOutcome, secretsOfAddress } from '../shared/destination.ts';
import { httpOutcome, type ParsedResponse, rejected, retry } from '../shared/http-outcome.ts';
import { createHttpSender } from '../shared/http-sender.ts';
import { mergeOverride } from '../shared/override.ts';
import { verifyReachable } from '../shared/reachable.ts';
import { buildToFit } from '../shared/shrink.ts';
import { part, serverAddress, tokenSchemas } from '../shared/tokens.ts';
import type { HttpResult } from '../shared/transport.ts';

const config = Type.Object(
  {
    webhook: Type.Optional(
      Type.Object(
        {
          url: Type.String({
            format: 'uri',
            description:
              'The URL of an incoming webhook. It is a secret: anyone with it can post to the channel',
          }),
        },
        {
          title: 'TeamsIntegrationWebhook',
          additionalProperties: false,
          description: 'The default destination, for users without a webhook of their own',
        },
      ),
    ),
  },
  {
    additionalProperties: false,
    examples: [{ webhook: { url: 'https://example.webhook.office.com/webhookb2/xxxxxxxx' } }],
  },
);

const tokenMembers = {
  webhook: Type.Optional(
    part('TeamsTokenWebhook', {
      url: Type.Optional(
        serverAddress(
          'The webhook URL of a Teams workflow. If not given, the default of the integration is used.',
          // language-ignore: a URL
          'https://prod-01.westeurope.logic.azure.com/workflows/1a2b3c/triggers/manual/paths/invoke?sig=x1y2z3',
        ),
      ),
    }),
  ),
};
const tokenSchema = tokenSchemas('TeamsToken', { save: tokenMembers, saved: tokenMembers });
type TeamsToken = Static<typeof tokenSchema.save>;

const tokens: TargetedTokens<TeamsToken> = {
  collection: 'teams',
  kind: 'shared',
  ...tokenSchema,
  hosts: [urlMember('webhook.url')],
  identity: ({ webhook }) => ({ text: webhook?.url ?? '' }),
  target,
};

/** A message and the URL of the webhook to post it to. */
export type TeamsRequest = { webhookUrl: string; body: string };

/** Microsoft's limits per webhook. */
const RATES = [
  { limit: 4, windowMs: 1_000 },
  { limit: 60, windowMs: 30_000 },
  { limit: 100, windowMs: 3_600_000 },
  { limit: 150, windowMs: 2 * 3_600_000 },
  { limit: 1_800, windowMs: 24 * 3_600_000 },
];

export const teams: Provider<'teams', typeof config, TeamsRequest | Rejection, HttpResult> = {
  name: 'teams',
  title: 'Microsoft Teams',
  channel: 'teams',
  // language-ignore: a URL
  docs: 'https://learn.microsoft.com/microsoftteams/platform/webhooks-and-connectors/how-to/add-incoming-webhook',
  overrideKey: 'teams',
  guide: () => import('./guide.ts'),
  config,
  tokens,
  ownAddress: ({ webhook }) => (webhook === undefined ? undefined : { webhookUrl: webhook.url }),
  hosts: [urlMember('webhook.url')],
  verify,
  build,
  classify,
  rates: { destination: { key: ({ webhookUrl }) => webhookUrl, rates: RATES } },
  downstreamHost: ({ webhookUrl }) => URL.parse(webhookUrl)?.host ?? '',
  connect,
};

/** Returns the token's webhook; no address for a token that uses the integration's own. */
function target({ webhook }: TeamsToken): TokenTarget {
  const webhookUrl = webhook?.url;
  return webhookUrl === undefined
    ? { secrets: [] }
    : { address: { webhookUrl }, isFixed: true, secrets: [webhookUrl] };
}

/** Verifies only that the host may be called, because any request would post a message. */
async function verify({ webhook }: Static<typeof config>, { egress }: VerifyDeps): Promise<Finding[]> {
  return webhook === undefined ? [] : verifyReachable(egress, 'webhook.url', webhook.url);
}

const MAX_BYTES = 28 * 1024;
const CARD_TYPE = 'application/vnd.microsoft.card.adaptive';

function build(message: TeamsMessage): TeamsRequest | Rejection {
  return buildToFit(message, {
    build: assemble,
    bytesOf: ({ body }) => Buffer.byteLength(body),
    maxBytes: MAX_BYTES,
  });
}

function assemble(message: TeamsMessage): TeamsRequest | Rejection {
  const { override, webhookUrl } = message;
  // An override may be a whole card, which then replaces ours.
  const isCard = override?.type === 'AdaptiveCard';
  const merged = mergeOverride<object>(isCard ? {} : messageWith(cardOf(message)), override, { locked: [] });
  if ('kind' in merged) return merged;
  return { webhookUrl, body: JSON.stringify(isCard ? messageWith(merged.payload) : merged.payload) };
}

function messageWith(card: object): object {
  return { type: 'message', attachments: [{ contentType: CARD_TYPE, contentUrl: null, content: card }] };
}

function cardOf(message: TeamsMessage): object {
  const url = linkOf(message);
  return {
    $schema: 'http://adaptivecards.io/schemas/adaptive-card.json',
    type: 'AdaptiveCard',
    version: '1.4',
    msteams: { width: 'Full' },
    body: [
      { type: 'TextBlock', text: escaped(message.title), weight: 'Bolder', size: 'Medium', wrap: true },
      ...(message.text === '' ? [] : [{ type: 'TextBlock', text: escaped(message.text), wrap: true }]),
    ],
    ...(url === undefined ? {} : { actions: [{ type: 'Action.OpenUrl', title: message.actionLabel, url }] }),
  };
}

/**
 * Escapes text for a card, which renders some Markdown: a link must not hide its address behind a text, and a
 * line break takes two newlines.
 */
function escaped(text: string): string {
  return text.replaceAll('](', ']\\(').replace(/\r?\n/g, '\n\n');
}

/** Returns the link if it is http or https: Teams opens nothing else. */
function linkOf({ actionUrl }: TeamsMessage): string | undefined {
  const url = actionUrl === null ? null : URL.parse(actionUrl);
  return url?.protocol === 'https:' || url?.protocol === 'http:' ? url.href : undefined;
}

function classify(response: HttpResult): SendOutcome {
  return httpOutcome(response, 'Teams', meaning);
}

// Someone may switch the workflow on again; hourly attempts are enough.
const SWITCHED_OFF_RETRY_MS = 3_600_000;

/** Classifies a response. Success is 202, or 200 with `1`. A connector reports errors as 200 with a text. */
function meaning(response: ParsedResponse): SendOutcome | undefined {
  const { status, text } = response;
  if (status === 202 || (status === 200 && text.trim() === '1')) return { kind: 'sent' };
  const { reason } = response;
  const statusInText = /HTTP error (\d{3})/i.exec(text.slice(0, 10_000))?.[1];
  const actualStatus = status === 200 && statusInText !== undefined ? Number(statusInText) : status;
  const code = String(actualStatus);
  if (actualStatus === 429) return retry(response, { code });
  if (actualStatus >= 500 || actualStatus === 408)
    return status === 200 ? retry(response, { code }) : undefined;
  if (/WorkflowTriggerIsNotEnabled/i.test(text))
    return retry(response, { code: 'WorkflowTriggerIsNotEnabled', retryAfterMs: SWITCHED_OFF_RETRY_MS });
  if ([401, 403, 404, 410].includes(actualStatus) || NO_WEBHOOK.test(text))
    return { kind: 'token_gone', scope: 'token', reason, code };
  if (actualStatus >= 400 || /Bad payload received|Summary or Text is required/i.test(text))
    return rejected('message', response, code);
  return undefined;
}

const NO_WEBHOOK = /webhook\b.{0,200}\bnot found|connector configuration not found/i;

const CONCURRENCY = 64; // for all channels; the rate per channel is limited by RATES

function connect({ webhook }: Static<typeof config>, { transport }: SenderDeps): Sender<TeamsMessage> {
  const sender = createHttpSender({
    concurrency: CONCURRENCY,
    secrets: ({ webhookUrl }: TeamsMessage) => secretsOfAddress(webhookUrl),
    build,
    exchange: ({ webhookUrl, body }) =>
      transport.at(webhookUrl).request({
        method: 'POST',
        path: '',
        headers: { 'content-type': 'application/json; charset=utf-8' },
        body,
      }),
    classify,
  });
  return {
    ...sender,
    async send(message) {
      const outcome = await sender.send(message);
      return message.webhookUrl === webhook?.url ? configOutcome(outcome) : destinationOutcome(outcome);
    },
  };
}

/** Blames the config, not a user's token, if the project's own webhook is gone. */
function configOutcome(outcome: SendOutcome): SendOutcome {
  if (outcome.kind !== 'token_gone') return outcome;
  const { reason, code } = outcome;
  return { kind: 'rejected', scope: 'config', reason, code };
}
