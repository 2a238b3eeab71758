import type { FastifyRequest } from 'fastify';
import { Type } from 'typebox';
import { Id } from '../../contract/common.ts';
import { takeInReport, takeInServerReport } from '../../domain/after/receipts/take-in.ts';
import type { ErrorCode } from '../../errors.ts';
import { type IntegrationName, integrations, wireNameOf } from '../../providers/index.ts';
import type { Integration, ReportRequest } from '../../providers/provider.ts';
import { slackReceipts } from '../../providers/slack/receipts.ts';
import { type App, publicRoute } from '../route.ts';
import { countingStrangers } from './counting-strangers.ts';

// SendGrid's lists of events are the largest: up to 768 kB.
const BODY_LIMIT_BYTES = 1024 * 1024;

const Taken = Type.Object(
  { challenge: Type.Optional(Type.String({ description: 'What the vendor wants back, where it does.' })) },
  { title: 'ReceiptReply', examples: [{}] },
);

const ERRORS: readonly ErrorCode[] = [
  'invalid_signature',
  'payload_too_large',
  'unsupported_media_type',
  'validation_failed',
];

/** What vendors report of the messages that they were given. `app` is where who fails to sign is counted. */
export function receiptRoutes(scope: App, app: App): void {
  for (const integration of Object.values(integrations) as Integration[])
    reportRoute(scope, app, integration);
  serverReportRoute(scope, app);
}

function reportRoute(scope: App, app: App, { name, docs, channel, receipts: reader }: Integration): void {
  if (reader === undefined || channel === undefined) return;
  const reporting = { name: name as IntegrationName, channel, reader };
  publicRoute(scope, {
    ...COMMON,
    url: `/integrations/${name}/webhooks/incoming/:id`,
    operationId: `receive${name.charAt(0).toUpperCase()}${name.slice(1)}Receipts`,
    summary: `Take in what ${name} reports of messages`,
    description:
      `For the vendor, with the id of the integration: see ${docs}. The body is what the vendor sends, verified by its signature; an ` +
      'integration whose config lacks what that takes refuses it. It becomes `delivery.delivered`, `delivery.bounced`, ' +
      '`delivery.dropped` or `delivery.complained`, suppresses addresses and discards tokens; what is repeated is recorded once.',
    params: Type.Object({ id: Id }),
    errors: ['invalid_id', ...ERRORS],
    handler: ({ params, request, reply }) =>
      countingStrangers(app, request, reply, () =>
        takeInReport(scope.context, reporting, params.id.toLowerCase(), reported(app, request)),
      ),
  });
}

/** An app has one address for all that Slack reports of it: with the server's own app it is no project's. */
function serverReportRoute(scope: App, app: App): void {
  const { name, wireName, docs } = integrations.slackbot;
  const { BRAND, SLACKBOT_SIGNING_SECRET } = app.context.config;
  publicRoute(scope, {
    ...COMMON,
    url: `/integrations/${wireName}/webhooks/incoming`,
    operationId: 'receiveSlackbotReceipts',
    summary: `Take in what Slack reports of ${wireNameOf(name, BRAND)}, the app of this server`,
    description:
      `For Slack: see ${docs}. Verified by its signature with the SLACKBOT_SIGNING_SECRET of the server. Where the app was taken out of a ` +
      'workspace, or a channel is no more, the tokens of all projects that lead there are discarded.',
    errors: ERRORS,
    handler: ({ request, reply }) =>
      countingStrangers(app, request, reply, () =>
        takeInServerReport(
          scope.context,
          { name: 'slackbot', reader: slackReceipts },
          { signing_secret: SLACKBOT_SIGNING_SECRET },
          reported(app, request),
        ),
      ),
  });
}

const COMMON = {
  method: 'POST',
  tags: ['Integrations'] as [string],
  bodyLimit: BODY_LIMIT_BYTES,
  reply: { 200: Taken },
} as const;

function reported(app: App, request: FastifyRequest): Omit<ReportRequest, 'nowMs'> {
  const { PUBLIC_URL } = app.context.config;
  return {
    headers: request.headers,
    body: Buffer.isBuffer(request.body) ? request.body : Buffer.alloc(0),
    url: (PUBLIC_URL ?? `http://${request.host}`) + request.originalUrl,
  };
}
