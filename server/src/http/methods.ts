import type { FastifyInstance } from 'fastify';
import { ClientError } from '../errors.ts';

const METHODS = ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE'];

/**
 * Watches the routes that are registered from now on. The answer, called when all are, makes every known path say 405 to the
 * methods it does not have, with `Allow`, and answer OPTIONS.
 */
export function refuseOtherMethods(fastify: FastifyInstance, prefix: string): () => void {
  const known = new Map<string, Set<string>>();
  fastify.addHook('onRoute', ({ url, method }) => {
    if (!url.startsWith(prefix)) return;
    const methods = known.get(url) ?? new Set();
    for (const one of [method].flat()) methods.add(one);
    if (methods.has('GET')) methods.add('HEAD'); // Fastify adds it by itself
    known.set(url, methods);
  });
  return () => {
    for (const [url, methods] of [...known]) {
      const allow = [...METHODS.filter((method) => methods.has(method)), 'OPTIONS'].join(', ');
      fastify.route({
        url,
        method: METHODS.filter((method) => !methods.has(method)),
        schema: { hide: true },
        onRequest: async () => {
          // Before the body is read, and whoever asks: which methods a path has is no secret.
          throw new ClientError('method_not_allowed', [], { allow });
        },
        handler: () => {},
      });
      fastify.route({
        url,
        method: 'OPTIONS',
        schema: { hide: true },
        handler: (_request, reply) => reply.code(204).header('allow', allow).send(),
      });
    }
  };
}
