import type { FastifyInstance } from 'fastify';
import { BRAND_HEADERS, brandWords } from './brand.ts';

// By name, because `*` does not cover Authorization.
const REQUEST_HEADERS = [
  'authorization',
  'content-type',
  'accept',
  'idempotency-key',
  'accept-version',
  'x-request-id',
  'last-event-id',
];
const REPLY_HEADERS = [
  'RateLimit-Limit',
  'RateLimit-Remaining',
  'RateLimit-Reset',
  'Retry-After',
  'Idempotency-Replayed',
  'X-Request-Id',
];
const METHODS = 'GET, HEAD, POST, PUT, PATCH, DELETE';
const MAX_AGE_SECONDS = 7200; // the longest that Chromium honours

/** Lets browsers of every origin call: nothing here relies on cookies. A preflight is answered before anything else. */
export function allowOrigins(fastify: FastifyInstance, brand: string): void {
  const ours = brandWords(brand).flatMap((word) => BRAND_HEADERS.map((name) => `x-${word}-${name}`));
  const allowed = [...REQUEST_HEADERS, ...ours].join(', ');
  const exposed = REPLY_HEADERS.join(', ');
  fastify.addHook('onRequest', (request, reply, done) => {
    if (request.headers.origin === undefined) {
      done();
      return;
    }
    reply.header('access-control-allow-origin', '*');
    if (request.method !== 'OPTIONS' || request.headers['access-control-request-method'] === undefined) {
      reply.header('access-control-expose-headers', exposed);
      done();
      return;
    }
    reply
      .code(204)
      .header('access-control-allow-methods', METHODS)
      .header('access-control-allow-headers', allowed)
      .header('access-control-max-age', String(MAX_AGE_SECONDS))
      .send();
  });
}
