import type { IncomingMessage } from 'node:http';
import type { FastifyRequest } from 'fastify';
import { Type } from 'typebox';
import { described, Id } from '../../contract/common.ts';
import { EmptyObject } from '../../contract/integration.ts';
import { MAX_PAYLOAD_BYTES, receiveWebhook } from '../../domain/after/inbound/receive.ts';
import { ClientError } from '../../errors.ts';
import { scanObject } from '../../lib/json-member.ts';
import { type IntegrationName, integrations } from '../../providers/index.ts';
import type { Integration } from '../../providers/provider.ts';
import { type App, publicRoute } from '../route.ts';
import { receiptRoutes } from './receipts.ts';
import { countingStrangers, inSigningCell } from './vendor-webhooks.ts';

const OPENING_BRACE = 0x7b;
const OPENING_BRACKET = 0x5b;
// Twilio sends about 30.
const MAX_FIELDS = 1_000;
// The largest report of SendGrid, a thousand events, has some 30,000.
const LIMITS = { keysAndValues: 50_000, inMember: 0, levels: 100 };
// A push of 2,048 commits, the most that GitHub lists, has 80,000.
const KEYS_AND_VALUES_OF_LONG = 100_000;
const ByIntegration = Type.Object({ id: described(Id, 'The id of the integration.') });
const ENCODED = 'The request body must not have a Content-Encoding';

/** Registers the webhooks of vendors. Their signatures verify them, mostly over the bytes of the body. */
export async function inboundRoutes(app: App): Promise<void> {
  await app.fastify.register((scope, _options, done) => {
    scope.removeAllContentTypeParsers();
    scope.addContentTypeParser('*', async (request: FastifyRequest, payload: IncomingMessage) => {
      const body = await app.readBody(request, payload, request.routeOptions.bodyLimit);
      const encoded = (request.headers['content-encoding'] ?? 'identity') !== 'identity';
      if (encoded) throw new ClientError('unsupported_media_type', [ENCODED]);
      const { limits } = request.routeOptions.config;
      refuseManyValues(body, Math.max(LIMITS.keysAndValues, limits?.keysAndValues ?? 0));
      return body;
    });
    // A vendor sends for many projects from few addresses, so only wrong signatures count. An address with
    // too many of them is rejected before its body is read.
    const uncounted = {
      ...app,
      fastify: scope,
      limits: { ...app.limits, stranger: app.limits.checkUnsigned },
    };
    for (const integration of Object.values(integrations) as Integration[])
      inboundRoute(uncounted, app, integration);
    receiptRoutes(uncounted, app);
    done();
  });
}

/** Bodies are JSON or forms, and some readers parse them before the signature can be verified. */
function refuseManyValues(body: Buffer, keysAndValues: number): void {
  const { exceeded } = scanObject(body, { limits: { ...LIMITS, keysAndValues } });
  if (exceeded === 'levels') throw new ClientError('validation_failed', ['The webhook is nested too deeply']);
  if (exceeded !== undefined || hasManyFields(body)) {
    throw new ClientError('payload_too_large', ['The webhook has too many keys and values']);
  }
}

function hasManyFields(body: Buffer): boolean {
  if (body[0] === OPENING_BRACE || body[0] === OPENING_BRACKET) return false;
  let fields = 1;
  for (let at = body.indexOf('&'); at >= 0 && fields <= MAX_FIELDS; at = body.indexOf('&', at + 1))
    fields += 1;
  return fields > MAX_FIELDS;
}

function inboundRoute(app: App, counting: App, { name, docs, receives: receiver }: Integration): void {
  if (receiver === undefined) return;
  const provider = name as IntegrationName;
  publicRoute(app, {
    method: 'POST',
    url: `/integrations/${name}/webhooks/incoming/:id`,
    operationId: `receive${name.charAt(0).toUpperCase()}${name.slice(1)}Webhook`,
    summary: `Receive a webhook of ${name}`,
    description:
      `Called by the provider with the id of the integration: see ${docs}. The signature is verified with ` +
      'the signing secret of the integration. The body becomes an event `integration.received`, and the ' +
      `input of a run of the workflow \`integration.${name}.<event>\`, if there is one. A repetition ` +
      `within a day is ignored.${receiver.note === undefined ? '' : ` ${receiver.note}`}`,
    tags: ['Integrations'],
    params: ByIntegration,
    bodyLimit: receiver.maxBytes ?? MAX_PAYLOAD_BYTES,
    ...(receiver.maxBytes === undefined ? {} : { keysAndValues: KEYS_AND_VALUES_OF_LONG }),
    reply: { 201: EmptyObject },
    errors: [
      'invalid_id',
      'invalid_signature',
      'payload_too_large',
      'unsupported_media_type',
      'validation_failed',
    ],
    async handler({ params, context, request, reply }) {
      const body = Buffer.isBuffer(request.body) ? request.body : Buffer.alloc(0);
      const received = { headers: request.headers, body, nowMs: context.clock.now() };
      await countingStrangers(counting, request, reply, () =>
        inSigningCell(app, params.id.toLowerCase(), (context, id) =>
          receiveWebhook(context, { provider, receiver }, id, received),
        ),
      );
      return {};
    },
  });
}
