import type { IncomingMessage } from 'node:http';
import type { FastifyInstance } from 'fastify';
import { ClientError } from '../errors.ts';

// A name or an address. Links in responses contain it if PUBLIC_URL is not set.
const HOST = /^(?:[a-z0-9_][a-z0-9._-]{0,252}|\[[0-9a-f:.]{2,45}\])(?::[0-9]{1,5})?$/i;

/** The problem with a request's Host header (RFC 9112, 3.2); undefined if it is valid. */
export function hostProblem({ rawHeaders, httpVersion }: IncomingMessage): string | undefined {
  let host: string | undefined;
  for (let at = 0; at < rawHeaders.length; at += 2) {
    const name = rawHeaders[at] as string;
    if (name.length !== 4 || name.toLowerCase() !== 'host') continue;
    if (host !== undefined) return 'The request has more than one Host header';
    host = rawHeaders[at + 1] as string;
  }
  if (host === undefined) return httpVersion === '1.0' ? undefined : 'The Host header is missing';
  return host === '' || HOST.test(host)
    ? undefined
    : 'The Host header is not a host name with an optional port';
}

/** Rejects requests with an invalid Host header. */
export function checkHost(fastify: FastifyInstance): void {
  fastify.addHook('onRequest', (request, _reply, done) => {
    const problem = hostProblem(request.raw);
    done(problem === undefined ? undefined : new ClientError('bad_request', [problem]));
  });
}
