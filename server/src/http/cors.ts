import cors, { type FastifyCorsOptions } from '@fastify/cors';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { BRAND_HEADERS, brandWords } from './brand.ts';

const METHODS = ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE'];
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
const EXPOSED_HEADERS = [
  'RateLimit-Limit',
  'RateLimit-Remaining',
  'RateLimit-Reset',
  'Retry-After',
  'Idempotency-Replayed',
  'X-Request-Id',
  'Deprecation',
  'Link',
].join(', ');
const MAX_AGE_SECONDS = 7200; // the longest that Chromium honours
const NO_CORS: FastifyCorsOptions = { origin: false };

/**
 * Lets browsers of every origin call, because no credential is a cookie. A preflight gets its response before
 * authentication and rate limits; any other OPTIONS request goes on to its route.
 */
export async function allowOrigins(fastify: FastifyInstance, brand: string): Promise<void> {
  const brandHeaders = brandWords(brand).flatMap((word) => BRAND_HEADERS.map((name) => `x-${word}-${name}`));
  const options: FastifyCorsOptions = {
    origin: '*',
    methods: METHODS,
    allowedHeaders: [...REQUEST_HEADERS, ...brandHeaders].join(', '),
    exposedHeaders: EXPOSED_HEADERS,
    maxAge: MAX_AGE_SECONDS,
  };
  const withoutPreflight = { ...options, preflight: false };
  await fastify.register(cors, {
    delegator({ headers }, done) {
      if (headers.origin === undefined) done(null, NO_CORS);
      else done(null, headers['access-control-request-method'] === undefined ? withoutPreflight : options);
    },
  });
}

/** The same for a request that Fastify rejects before any hook runs. */
export function showToOrigins({ headers }: FastifyRequest, reply: FastifyReply): void {
  if (headers.origin === undefined) return;
  reply.header('access-control-allow-origin', '*').header('access-control-expose-headers', EXPOSED_HEADERS);
}
