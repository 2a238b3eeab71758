import { Type } from 'typebox';
import { Id } from '../../contract/common.ts';
import { EmptyObject } from '../../contract/integration.ts';
import { type ReceivingProvider, receiveWebhook } from '../../domain/inbound/receive.ts';
import { ClientError } from '../../errors.ts';
import { eventsource } from '../../providers/eventsource.ts';
import { github } from '../../providers/github.ts';
import type { Receiver } from '../../providers/provider.ts';
import { stripe } from '../../providers/stripe.ts';
import { type App, publicRoute } from '../route.ts';
import { countingStrangers } from './counting-strangers.ts';
import { receiptRoutes } from './receipts.ts';

// What is taken in becomes an event, which is read with others.
const BODY_LIMIT_BYTES = 256 * 1024;
const ENCODED = 'The request body must not have a Content-Encoding';

/** The webhooks that vendors send: verified by their signatures, mostly over the bytes of the body. */
export async function inboundRoutes(app: App): Promise<void> {
  await app.fastify.register((scope, _options, done) => {
    scope.removeAllContentTypeParsers();
    scope.addContentTypeParser('*', { parseAs: 'buffer' }, (request, body, parsed) => {
      const encoded = (request.headers['content-encoding'] ?? 'identity') !== 'identity';
      parsed(encoded ? new ClientError('unsupported_media_type', [ENCODED]) : null, body);
    });
    // A vendor sends for many projects from few addresses: counted is only who fails to sign, and from where that has been too often nothing
    // is read or verified.
    const uncounted = {
      ...app,
      fastify: scope,
      limits: { ...app.limits, stranger: app.limits.unsignedHeldUp },
    };
    for (const { name, docs, receives } of [github, stripe, eventsource])
      if (receives)
        inboundRoute(uncounted, app, { name: name as ReceivingProvider, docs, receiver: receives });
    receiptRoutes(uncounted, app);
    done();
  });
}

function inboundRoute(
  app: App,
  counting: App,
  {
    name,
    docs,
    receiver,
  }: { name: ReceivingProvider; docs: string; receiver: Receiver<{ webhook_signing_secret?: string }> },
): void {
  publicRoute(app, {
    method: 'POST',
    url: `/integrations/${name}/webhooks/incoming/:id`,
    operationId: `receive${name.charAt(0).toUpperCase()}${name.slice(1)}Webhook`,
    summary: `Take in a webhook of ${name}`,
    description:
      `For the vendor, with the id of the integration: see ${docs}. The body is what the vendor sends, verified by its signature with the ` +
      'integration’s signing secret. It is recorded as an event `integration.received`; a delivery that is repeated within a day is recorded once.',
    tags: ['Integrations'],
    params: Type.Object({ id: Id }),
    bodyLimit: BODY_LIMIT_BYTES,
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
        receiveWebhook(app.context, { provider: name, receiver }, params.id.toLowerCase(), received),
      );
      return {};
    },
  });
}
