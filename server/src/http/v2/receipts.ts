import type { FastifyRequest } from 'fastify';
import { Type } from 'typebox';
import { described, Id } from '../../contract/common.ts';
import { receiveReport, receiveServerReport } from '../../domain/after/receipts/receive-report.ts';
import type { ErrorCode } from '../../errors.ts';
import { type IntegrationName, integrations } from '../../providers/index.ts';
import type { Integration, ReportRequest } from '../../providers/provider.ts';
import { type App, publicRoute } from '../route.ts';
import { countingStrangers, inEveryCell, inSigningCell } from './vendor-webhooks.ts';

// SendGrid's lists of events are the largest: up to 768 kB.
const BODY_LIMIT_BYTES = 1024 * 1024;

const ReceiptReply = Type.Object(
  {
    challenge: Type.Optional(
      Type.String({ description: 'The value that the provider expects in the response.' }),
    ),
  },
  { title: 'ReceiptReply', examples: [{}] },
);

const ERRORS: readonly ErrorCode[] = [
  'invalid_signature',
  'payload_too_large',
  'unsupported_media_type',
  'validation_failed',
];

/** Registers the delivery-status webhooks of vendors. Wrong signatures count in the limits of `app`. */
export function receiptRoutes(scope: App, app: App): void {
  for (const integration of Object.values(integrations) as Integration[]) {
    reportRoute(scope, app, integration);
    serverReportRoute(scope, app, integration);
  }
}

function reportRoute(scope: App, app: App, { name, docs, channel, receipts: reader }: Integration): void {
  if (reader === undefined || channel === undefined) return;
  const reporting = { name: name as IntegrationName, channel, reader };
  publicRoute(scope, {
    ...COMMON,
    url: `/integrations/${name}/webhooks/incoming/:id`,
    operationId: `receive${name.charAt(0).toUpperCase()}${name.slice(1)}Receipts`,
    summary: `Receive delivery reports of ${name}`,
    description:
      `Called by the provider with the id of the integration: see ${docs}. The signature is verified with ` +
      'the config of the integration. Reports become `delivery.delivered`, `delivery.bounced`, ' +
      '`delivery.dropped` or `delivery.complained` events, suppress addresses and discard tokens; a ' +
      'repeated report is recorded once.',
    params: Type.Object({ id: described(Id, 'The id of the integration.') }),
    errors: ['invalid_id', ...ERRORS],
    handler: ({ params, request, reply }) =>
      countingStrangers(app, request, reply, () =>
        inSigningCell(scope, params.id.toLowerCase(), (context, id) =>
          receiveReport(context, reporting, id, reported(app, request)),
        ),
      ),
  });
}

/** Reports about the server's own app have one address for all projects. */
function serverReportRoute(
  scope: App,
  app: App,
  { name, wireName = name, serverReceipts }: Integration,
): void {
  if (serverReceipts === undefined) return;
  const { config } = app.context;
  publicRoute(scope, {
    ...COMMON,
    url: `/integrations/${wireName}/webhooks/incoming`,
    operationId: `receive${name.charAt(0).toUpperCase()}${name.slice(1)}Receipts`,
    summary: serverReceipts.summary.replace('<brand>', config.BRAND),
    description: serverReceipts.description,
    errors: ERRORS,
    handler: ({ request, reply }) =>
      countingStrangers(app, request, reply, () =>
        inEveryCell(scope, (context) =>
          receiveServerReport(
            context,
            { name: name as IntegrationName, reader: serverReceipts.reader },
            serverReceipts.config({ ...config }),
            reported(app, request),
          ),
        ),
      ),
  });
}

const COMMON = {
  method: 'POST',
  tags: ['Integrations'] as [string],
  bodyLimit: BODY_LIMIT_BYTES,
  reply: { 200: ReceiptReply },
} as const;

function reported(app: App, request: FastifyRequest): Omit<ReportRequest, 'nowMs'> {
  const { PUBLIC_URL } = app.context.config;
  return {
    headers: request.headers,
    body: Buffer.isBuffer(request.body) ? request.body : Buffer.alloc(0),
    url: (PUBLIC_URL ?? `http://${request.host}`) + request.originalUrl,
  };
}
