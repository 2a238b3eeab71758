import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
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
const EXPOSED = [
  'RateLimit-Limit',
  'RateLimit-Remaining',
  'RateLimit-Reset',
  'Retry-After',
  'Idempotency-Replayed',
  'X-Request-Id',
].join(', ');
const METHODS = 'GET, HEAD, POST, PUT, PATCH, DELETE';
const MAX_AGE_SECONDS = 7200; // the longest that Chromium honours

/**
 * Lets browsers of every origin call: nothing here relies on cookies. A preflight is answered before anything
 * else.
 */
export function allowOrigins(fastify: FastifyInstance, brand: string): void {
  const ours = brandWords(brand).flatMap((word) => BRAND_HEADERS.map((name) => `x-${word}-${name}`));
  const allowed = [...REQUEST_HEADERS, ...ours].join(', ');
  fastify.addHook('onRequest', (request, reply, done) => {
    const preflight =
      request.method === 'OPTIONS' && request.headers['access-control-request-method'] !== undefined;
    if (request.headers.origin === undefined || !preflight) {
      showToOrigins(request, reply);
      done();
      return;
    }
    reply
      .header('access-control-allow-origin', '*')
      .code(204)
      .header('access-control-allow-methods', METHODS)
      .header('access-control-allow-headers', allowed)
      .header('access-control-max-age', String(MAX_AGE_SECONDS))
      .send();
  });
}

/** Lets the page that asks read the answer, with the headers that matter. */
export function showToOrigins(request: FastifyRequest, reply: FastifyReply): void {
  if (request.headers.origin === undefined) return;
  reply.header('access-control-allow-origin', '*').header('access-control-expose-headers', EXPOSED);
}
