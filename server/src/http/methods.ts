import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { ClientError } from '../errors.ts';
import type { Api } from './api.ts';
import { sendError } from './error-handler.ts';

const METHODS = ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE'];

/** All paths with their methods. */
export interface KnownPaths {
  /** Whether the path of a request is one of the API, maybe with other methods. */
  has(request: Pick<FastifyRequest, 'url'>): boolean;
  /**
   * Call it when all routes are registered: from then on every known path responds 405 to the methods it does
   * not have, with `Allow`, and to OPTIONS after `countOptions` has let it pass.
   */
  finish(countOptions: (request: FastifyRequest, reply: FastifyReply, api: Api) => Promise<void>): void;
}

interface KnownPath {
  url: string;
  methods: Set<string>;
  api: Api;
  besideRecords: boolean;
}

/** Watches the routes of the API that are registered from now on. */
export function refuseOtherMethods(fastify: FastifyInstance): KnownPaths {
  const known = new Map<string, KnownPath>();
  const routes: { pattern: PathPattern; methods: string[] }[] = [];
  fastify.addHook('onRoute', ({ url, method, config }) => {
    const methodsOfRoute = [method].flat();
    routes.push({ pattern: patternOf(url), methods: methodsOfRoute });
    const { api, besideRecords = false } = config ?? {};
    if (api === undefined) return;
    const methods = known.get(url)?.methods ?? new Set();
    for (const one of methodsOfRoute) methods.add(one);
    if (methods.has('GET')) methods.add('HEAD'); // Fastify adds it by itself
    known.set(url, { url, methods, api, besideRecords });
  });
  let patterns: { pattern: RegExp; path: KnownPath }[] | undefined;
  /** The path that the router would choose: of those that differ, one without a parameter there. */
  const find = ({ url }: Pick<FastifyRequest, 'url'>): KnownPath | undefined => {
    patterns ??= [...known.values()]
      .sort((a, b) => (parametersLast(a.url) < parametersLast(b.url) ? -1 : 1))
      .map((path) => ({ pattern: pathPattern(path.url), path }));
    const path = decoded(url.split(/[?#]/, 1)[0] ?? '');
    return patterns.find(({ pattern }) => pattern.test(path))?.path;
  };
  return {
    has: (request) => find(request) !== undefined,
    finish(countOptions) {
      const paths = [...known.values()];
      const ofRecords = paths.map((path) => (path.besideRecords ? methodsOfRecords(path.url, known) : []));
      paths.forEach(({ methods }, index) => {
        for (const method of ofRecords[index] ?? []) methods.add(method);
      });
      const refuse = async ({ methods, api }: KnownPath, request: FastifyRequest, reply: FastifyReply) => {
        const allow = [...METHODS.filter((method) => methods.has(method)), 'OPTIONS'].join(', ');
        const headers = { ...api.headers, allow };
        if (request.method !== 'OPTIONS') {
          sendError(new ClientError('method_not_allowed', [], headers), reply, api.errorBody);
          return;
        }
        await countOptions(request, reply, api);
        reply.code(204).headers(headers).send();
      };
      // With a route for each of these methods there would be 1,419 instead of 507, and a start would take a
      // tenth more CPU time. Runs before the body is read, and without authentication: the methods of a path
      // are public.
      fastify.addHook('onRequest', (request, reply, done) => {
        // Every OPTIONS request has found the route of CORS.
        const path = request.is404 || request.method === 'OPTIONS' ? find(request) : undefined;
        if (path === undefined || path.methods.has(request.method)) done();
        else void refuse(path, request, reply).catch(done);
      });
      // For these, the router would choose another path: `DELETE /users/:user_id` for `/users/import`.
      const others = routes.slice();
      for (const path of paths) {
        const pattern = patternOf(path.url);
        const overlapping = others.filter((other) => shadows(pattern, other.pattern));
        const found = new Set(overlapping.flatMap(({ methods }) => methods));
        const method = METHODS.filter((one) => found.has(one) && !path.methods.has(one));
        if (method.length === 0) continue;
        fastify.route({
          url: path.url,
          method,
          schema: { hide: true },
          onRequest: (request, reply, done) => void refuse(path, request, reply).catch(done),
          handler: async () => {}, // `onRequest` has responded
        });
      }
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

interface PathPattern {
  url: string;
  /** What is before the first parameter. */
  start: string;
}

function patternOf(url: string): PathPattern {
  const end = url.search(/[:*]/);
  return { url, start: end < 0 ? url : url.slice(0, end) };
}

/** Whether there are paths that match both patterns, for which the router would choose the first one. */
function shadows(one: PathPattern, other: PathPattern): boolean {
  if (!one.start.startsWith(other.start)) return false; // most pairs
  if (parametersLast(one.url) >= parametersLast(other.url)) return false;
  if (other.url.endsWith('*')) return true;
  const parts = one.url.split('/');
  const others = other.url.split('/');
  return (
    parts.length === others.length &&
    parts.every((part, index) => part === others[index] || isParameter(part) || isParameter(others[index]))
  );
}

const isParameter = (part: string | undefined): boolean => part?.startsWith(':') ?? false;

/** A text by which paths are sorted: any fixed part is before a parameter. */
function parametersLast(url: string): string {
  return url.replaceAll(/:[^/]+|\*$/g, '\uffff');
}

/** The path as the router reads it: escapes of characters that have a meaning in paths remain. */
function decoded(path: string): string {
  try {
    return decodeURI(path);
  } catch {
    return path;
  }
}

/** The pattern of a path such as `/v2/users/:user_id`, with or without a slash at the end. */
function pathPattern(url: string): RegExp {
  const parts = url
    .split('/')
    .map((part) => (part.startsWith(':') ? '[^/]+' : part.replace(/[.*+?^${}()|[\]\\]/g, '\\$&')));
  return new RegExp(`^${parts.join('/')}/?$`);
}
