import type { FastifyInstance } from 'fastify';
import type { Config } from '../config.ts';
import { type Span, startSpan, within } from '../lib/tracing.ts';

declare module 'fastify' {
  interface FastifyRequest {
    span: Span | undefined;
  }
}

/**
 * Records a span for each request of an operation. It continues the trace of the caller if `traceparent` may
 * be read. Paths and queries are left out, because they have ids and names of users.
 */
export function traceRequests(
  fastify: FastifyInstance,
  { OTEL_PROPAGATORS, PUBLIC_URL }: Pick<Config, 'OTEL_PROPAGATORS' | 'PUBLIC_URL'>,
): void {
  const readsTraceparent = OTEL_PROPAGATORS.includes('tracecontext');
  // Proxies end TLS, so the public address shows how clients connect.
  const scheme = PUBLIC_URL?.startsWith('https:') ? 'https' : 'http';
  fastify.decorateRequest('span', undefined);
  fastify.addHook('onRequest', (request, reply, done) => {
    const { url: route = '', config } = request.routeOptions;
    if (config.operationId === undefined) return done();
    const { traceparent } = request.headers;
    const span = startSpan(`${request.method} ${route}`, {
      kind: 'server',
      parent: readsTraceparent && typeof traceparent === 'string' ? traceparent : undefined,
      attributes: {
        'http.request.method': request.method,
        'http.route': route,
        'url.scheme': scheme,
        'belfry.operation': config.operationId,
      },
    });
    request.span = span;
    // Also for a client that goes away, for which `onResponse` is not called.
    reply.raw.once('close', () => {
      const { statusCode, writableFinished } = reply.raw;
      if (reply.raw.headersSent) span?.set({ 'http.response.status_code': statusCode });
      if (!writableFinished) span?.fail('aborted');
      else if (statusCode >= 500) span?.fail(String(statusCode));
      span?.end();
    });
    within(span, done);
  });
  // Events of a request body arrive outside of its span, so it is entered again.
  fastify.addHook('preHandler', (request, _reply, done) => within(request.span, done));
  fastify.addHook('onResponse', (request, _reply, done) => within(request.span, done)); // logs the request
}
