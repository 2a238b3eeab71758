import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { ClientError } from '../errors.ts';
import type { Api } from './api.ts';

const METHODS = ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE'];

/** All paths with their methods. */
export interface KnownPaths {
  /**
   * Call it when all routes are registered: from then on every known path responds 405 to the methods it does
   * not have, with `Allow`, and to OPTIONS after `countOptions` has let it pass.
   */
  finish(countOptions: (request: FastifyRequest, reply: FastifyReply) => Promise<void>): void;
  /**
   * Throws the same for methods that no route can have, such as TRACE, at a known path. For requests that
   * have found no route.
   */
  refuse(request: Pick<FastifyRequest, 'method' | 'url'>): void;
}

interface KnownPath {
  methods: Set<string>;
  api: Api;
  besideRecords: boolean;
}

/** Watches the routes of the API that are registered from now on. */
export function refuseOtherMethods(fastify: FastifyInstance): KnownPaths {
  const known = new Map<string, KnownPath>();
  fastify.addHook('onRoute', ({ url, method, config }) => {
    const { api, besideRecords = false } = config ?? {};
    if (api === undefined) return;
    const methods = known.get(url)?.methods ?? new Set();
    for (const one of [method].flat()) methods.add(one);
    if (methods.has('GET')) methods.add('HEAD'); // Fastify adds it by itself
    known.set(url, { methods, api, besideRecords });
  });
  const refusals: { path: RegExp; error: () => ClientError }[] = [];
  return {
    finish(countOptions) {
      // Complete before the routes below are watched too.
      const paths = [...known].map(([url, { methods, api, besideRecords }]) => ({
        ...{ url, api },
        methods: new Set([...methods, ...(besideRecords ? methodsOfRecords(url, known) : [])]),
      }));
      for (const { url, methods, api } of paths) {
        const allow = [...METHODS.filter((method) => methods.has(method)), 'OPTIONS'].join(', ');
        const error = () => new ClientError('method_not_allowed', [], { ...api.headers, allow });
        refusals.push({ path: pathPattern(url), error });
        fastify.route({
          url,
          method: [...METHODS.filter((method) => !methods.has(method)), 'OPTIONS'],
          config: { api },
          schema: { hide: true },
          onRequest: async (request, reply) => {
            // Before the body is read, and without authentication: the methods of a path are public.
            if (request.method !== 'OPTIONS') throw error();
            await countOptions(request, reply);
          },
          handler: (_request, reply) =>
            reply
              .code(204)
              .headers({ ...api.headers, allow })
              .send(),
        });
      }
    },
    refuse({ method, url }) {
      if (METHODS.includes(method) || method === 'OPTIONS') return;
      const path = url.split('?', 1)[0] ?? '';
      // The router chooses the path with the fewest parameters.
      const [refusal] = refusals
        .filter((one) => one.path.test(path))
        .sort((a, b) => a.path.source.split('[^').length - b.path.source.split('[^').length);
      if (refusal !== undefined) throw refusal.error();
    },
  };
}

/** The methods of the path with a parameter in place of the end of this one. */
function methodsOfRecords(url: string, known: ReadonlyMap<string, KnownPath>): string[] {
  const start = `${url.slice(0, url.lastIndexOf('/'))}/:`;
  return [...known].flatMap(([other, { methods }]) =>
    other.startsWith(start) && pathPattern(other).test(url) ? [...methods] : [],
  );
}

/** The pattern of a path such as `/v2/users/:user_id`, with or without a slash at the end. */
function pathPattern(url: string): RegExp {
  const parts = url
    .split('/')
    .map((part) => (part.startsWith(':') ? '[^/]+' : part.replace(/[.*+?^${}()|[\]\\]/g, '\\$&')));
  return new RegExp(`^${parts.join('/')}/?$`);
}
