import type { IncomingMessage, Server } from 'node:http';
import type { Socket } from 'node:net';
import Fastify, {
  type FastifyBaseLogger,
  type FastifyInstance,
  type FastifyRequest,
  type FastifyServerOptions,
  LogController,
} from 'fastify';
import { validatorFor } from '../contract/validation.ts';
import { OwnWindows } from '../domain/ground/requests/rate-windows.ts';
import { newId } from '../lib/ids.ts';
import type { Logger } from '../lib/log.ts';
import { isTracing } from '../lib/tracing.ts';
import { connectionsRefused, httpSeconds, type MetricsOfOthers } from '../metrics.ts';
import { readBodies } from './bodies/read-bodies.ts';
import { type BodyReader, bodyReader } from './bodies/read-body.ts';
import { brandWords } from './brand.ts';
import type { CellRouter } from './cells.ts';
import { clientAddress } from './client-address.ts';
import type { HttpContext } from './context.ts';
import { allowOrigins, showToOrigins } from './cors.ts';
import { docsRoutes } from './docs/docs-routes.ts';
import { closeAfterEarlyResponses } from './early-response.ts';
import { handleError, rejectExpectation, respondToBadSocket } from './error-handler.ts';
import { FreeTextPaths } from './free-text-paths.ts';
import { graphqlApi, graphqlRoute } from './graphql/index.ts';
import { checkHost } from './host.ts';
import { type ResponseHolder, responseHolder } from './large-responses.ts';
import { refuseOtherMethods } from './methods.ts';
import { describeRoutes, serveDescriptions } from './openapi/openapi.ts';
import { operationsRoutes, readiness } from './operations.ts';
import { demoPage } from './pages/demo.ts';
import { homePage, sendNothing } from './pages/home.ts';
import { iconRoutes } from './pages/icons.ts';
import { preferencesPage } from './pages/preferences-page.ts';
import { pushPage } from './pages/push-page.ts';
import { trackedRoutes } from './pages/tracked.ts';
import { unsubscribePage } from './pages/unsubscribe.ts';
import { createRateLimits, type RateLimits } from './rate-limit.ts';
import { refusal } from './refuse-together.ts';
import { STALLED_MS } from './reply.ts';
import { checkRole, checkRoleOfSockets, type PassOn } from './roles.ts';
import { type App, countCaller } from './route.ts';
import { traceRequests } from './trace-requests.ts';
import { v1Api } from './v1/api.ts';
import { v1Routes } from './v1/index.ts';
import { v2Api } from './v2/api.ts';
import { inboundRoutes } from './v2/inbound.ts';
import { v2Routes } from './v2/index.ts';

declare module 'fastify' {
  interface FastifyInstance {
    /** Reads bodies within the budget of the process. */
    readBody: BodyReader;
    /** Holds large responses within the budget of the process. */
    holdResponse: ResponseHolder;
    /** What serves its GraphQL. */
    graphqlApp: App;
    /** Whether responses close their connections. */
    closing: { now: boolean };
  }
}

export interface ServerOptions {
  /** Validates every response against the schema of its route; for tests. */
  checkReplies?: boolean;
  /** How realtime connections reach the process that serves them, if this one does not. */
  passOn?: PassOn;
  /** Whether the server accepts connections itself; by default it does. */
  listens?: boolean;
  /** The metrics of the other processes of this node. */
  metricsOfOthers?: MetricsOfOthers;
  /** The limits that the WebSockets and other nodes share with this server. */
  limits?: RateLimits;
  /** The other cells, which get the requests of their projects. Only for the server of the default cell. */
  cells?: CellRouter;
  /** For the server of another cell: that of the default cell, which accepts its connections. */
  front?: FastifyInstance;
  /** Other timeouts; for tests. */
  timeouts?: Partial<typeof TIMEOUTS>;
  /** Where the built documentation is stored; for tests. */
  docsCache?: string;
  /** Registers more routes; for tests. */
  routes?: (app: App) => void;
}

// A connection must send the head of its first request within 10 s, and a whole request within 2 min (10 MiB
// over a slow network), so that slow or silent clients cannot hold sockets. A client that is still sending
// when the response starts has 2 s to read it. One that reads nothing of a large response is disconnected
// after a minute or two, and within 10 s if the response had to be sent although it exceeds the budget.
const TIMEOUTS = {
  headMs: 10_000,
  requestMs: 120_000,
  lingerMs: 2_000,
  checkEveryMs: 2_000,
  stalledMs: STALLED_MS,
  crowdedMs: 5_000,
};

/**
 * Creates the HTTP server with all routes, which does not listen yet. `close` drains requests and closes the
 * connections.
 */
export async function createServer(
  context: HttpContext,
  options: ServerOptions = {},
): Promise<FastifyInstance> {
  const { config, clock } = context;
  const addressOf = clientAddress(config.TRUSTED_PROXIES);
  const timeouts = { ...TIMEOUTS, ...options.timeouts };
  const freeTexts = new FreeTextPaths();
  const fastify = newFastify(context, timeouts, freeTexts);
  limitConnections(fastify.server, { log: context.log, max: config.MAX_CONNECTIONS });
  closeUnusedConnections(fastify);
  fastify.server.on('checkExpectation', rejectExpectation);
  const shared: Omit<App, 'api'> = {
    fastify,
    context,
    limits: options.limits ?? createRateLimits({ config, windows: new OwnWindows({ clock }) }),
    readBody: options.front?.readBody ?? bodyReader(context, addressOf),
    checkReplies: options.checkReplies ?? false,
    cells: options.cells,
  };
  fastify.decorate('readBody', shared.readBody);
  fastify.decorate(
    'holdResponse',
    options.front?.holdResponse ?? responseHolder(context, addressOf, timeouts),
  );
  const v2: App = { ...shared, api: v2Api(context) };
  const v1: App = { ...shared, api: v1Api(context, v2.api) };
  const knownPaths = refuseOtherMethods(fastify);
  freeTexts.watch(fastify);
  readBodies(shared);
  if (isTracing()) traceRequests(fastify, config);
  fastify.decorate('closing', options.front?.closing ?? closing(fastify, options.listens ?? true));
  observe(fastify, context, addressOf);
  fastify.setErrorHandler(handleError); // of the routes from here on
  await allowOrigins(fastify, config.BRAND);
  checkHost(fastify);
  checkRole(fastify, { roles: config.ROLE, passOn: options.passOn, knownPaths });
  closeAfterEarlyResponses(fastify, timeouts.lingerMs);
  fastify.setNotFoundHandler(async (request, reply) => {
    await shared.limits.stranger(request, reply);
    return sendNothing(request, reply);
  });
  fastify.setValidatorCompiler(({ schema, httpPart }) => validatorFor(httpPart, schema as object));
  fastify.setSchemaErrorFormatter((errors, part) => refusal(errors as Parameters<typeof refusal>[0], part));
  // JSON.stringify, because a serializer made from a schema drops or changes members that the schema lacks.
  fastify.setSerializerCompiler(() => JSON.stringify);
  await describeRoutes(fastify);
  v2Routes(v2);
  await inboundRoutes(v2);
  v1Routes(v1);
  const graphql = { ...shared, api: graphqlApi(v1.api) };
  fastify.decorate('graphqlApp', graphql);
  graphqlRoute(graphql);
  options.routes?.(v2);
  const whyNotReady = readiness(context);
  operationsRoutes(fastify, context, whyNotReady, options);
  iconRoutes(fastify);
  homePage(v2, whyNotReady);
  await unsubscribePage(v2);
  await preferencesPage(v2);
  await trackedRoutes(v2);
  pushPage(v2);
  serveDescriptions(fastify, [v2.api, v1.api]);
  docsRoutes(v2, options.docsCache);
  if (options.front === undefined) demoPage(v2); // only the first cell has the project `demo`
  knownPaths.finish((request, reply, api) => countCaller({ ...shared, api }, request, reply));
  checkRoleOfSockets(fastify, config.ROLE, options.passOn);
  await fastify.ready();
  return fastify;
}

/** The path and query of a request target, which may be a whole URL (RFC 9112, 3.2.2). */
function withoutOrigin(target: string): string {
  if (target.startsWith('/')) return target;
  const path = target.replace(/^https?:\/\/[^/?]*/i, '');
  return path.startsWith('?') || path === '' ? `/${path}` : path;
}

function newFastify(
  context: HttpContext,
  timeouts: typeof TIMEOUTS,
  freeTexts: FreeTextPaths,
): FastifyInstance {
  return Fastify({
    loggerInstance: context.log as FastifyBaseLogger,
    logController: new LogController({ disableRequestLogging: true }), // `observe` logs each request
    childLoggerFactory: (logger) => logger, // a logger for each request would be the largest cost here
    requestIdHeader: false,
    genReqId: (request) => requestId(request.headers['x-request-id']),
    rewriteUrl: ({ url = '/', method }) => freeTexts.encode(withoutOrigin(url), method),
    // Links use PUBLIC_URL or the Host header, and limits use client-address.ts. Other headers of proxies are
    // ignored.
    trustProxy: false,
    routerOptions: {
      ignoreTrailingSlash: true,
      maxParamLength: 1024,
      constraints: { apiKey: apiKeyConstraint(context.config.BRAND) },
    },
    requestTimeout: timeouts.requestMs,
    http: {
      requireHostHeader: false, // Node's own error has no body; see host.ts
      headersTimeout: timeouts.headMs,
      connectionsCheckingInterval: timeouts.checkEveryMs,
      // Java's client, and curl with --http2, offer `Upgrade: h2c` with the first request. RFC 9110, 7.8
      // allows to ignore that.
      shouldUpgradeCallback: ({ headers }) => headers.upgrade?.toLowerCase() === 'websocket',
    },
    keepAliveTimeout: 72_000, // longer than the 60 s of common load balancers, so that they close first
    forceCloseConnections: 'idle',
    return503OnClosing: false, // requests during the drain get a response with `Connection: close`
    clientErrorHandler: (error, socket) => respondToBadSocket(error, socket),
    frameworkErrors: (error, request, reply) => {
      showToOrigins(request, reply); // no hook has run
      handleError(error, request, reply);
    },
  });
}

type Constraints = NonNullable<NonNullable<FastifyServerOptions['routerOptions']>['constraints']>;

/** Distinguishes routes at the same path by the header `X-<BRAND>-API-KEY`. */
function apiKeyConstraint(brand: string): Constraints[string] {
  const headers = brandWords(brand).map((word) => `x-${word}-api-key`);
  return {
    name: 'apiKey',
    storage() {
      const routes = new Map();
      return {
        get: (isGiven) => routes.get(isGiven) ?? null,
        set: (isGiven, route) => routes.set(isGiven, route),
      };
    },
    deriveConstraint: (request) =>
      headers.some((name) => request.headers[name] !== undefined) ? 'given' : (undefined as never),
  };
}

const WARN_EVERY_MS = 60_000;

/** Closes further connections at once, including WebSockets and streams; 0 means no limit. */
function limitConnections(server: Server, { log, max }: { log: Logger; max: number }): void {
  if (max === 0) return;
  // Also closes them if the process shares its port with others. The types lack this option.
  Object.assign(server, { maxConnections: max, dropMaxConnection: true });
  let warnedMs = Number.NEGATIVE_INFINITY;
  server.on('drop', () => {
    connectionsRefused.inc();
    if (performance.now() < warnedMs + WARN_EVERY_MS) return;
    warnedMs = performance.now();
    log.warn({ max }, 'connections are rejected: MAX_CONNECTIONS are open');
  });
}

// At a stop, a client that has just connected still has this long to send its request.
const FIRST_REQUEST_MS = 1_000;

/**
 * Closes, at a stop, connections that were opened in advance, as browsers and load balancers do. Node does
 * not count a connection as idle before its first request, so the stop would take its whole grace period.
 */
function closeUnusedConnections(fastify: FastifyInstance): void {
  const unused = new Set<Socket>();
  fastify.server.on('connection', (socket: Socket) => {
    unused.add(socket);
    socket.once('close', () => unused.delete(socket));
  });
  fastify.server.on('request', ({ socket }) => unused.delete(socket));
  fastify.addHook('preClose', (done) => {
    const close = () => {
      for (const socket of unused) if (socket.bytesRead === 0) socket.destroy();
    };
    // After what has arrived is read, also in a process that stood still.
    setTimeout(() => setImmediate(close), FIRST_REQUEST_MS).unref();
    done();
  });
}

/** Returns what serves a connection that another process has accepted, after it has read `head`. */
export function serveConnections(server: Server, max: number): (socket: Socket, head: Buffer) => void {
  let open = 0;
  return (socket, head) => {
    if (max !== 0 && open >= max) {
      server.emit('drop');
      socket.destroy();
      return;
    }
    open += 1;
    socket.once('close', () => {
      open -= 1;
    });
    socket.unshift(head);
    server.emit('connection', socket);
  };
}

function requestId(given: string | string[] | undefined): string {
  return typeof given === 'string' && /^[\w.:=+/-]{1,128}$/.test(given) ? given : newId();
}

/** Whether connections are closed: when the server is, and after every request if it does not listen. */
function closing(fastify: FastifyInstance, listens: boolean): FastifyInstance['closing'] {
  // A connection that another process has accepted is for one request: the next may need that process.
  const state = { now: !listens };
  fastify.addHook('preClose', async () => {
    state.now = true;
  });
  return state;
}

/**
 * Adds the request's id to every response, logs every request and counts it in the metrics. Notes those that
 * may have changed something although they failed.
 */
function observe(
  fastify: FastifyInstance,
  { log, clock, lostResponses }: HttpContext,
  addressOf: (request: IncomingMessage) => string,
): void {
  const { closing } = fastify;
  fastify.decorateRequest('caller', undefined);
  fastify.decorateRequest('failure', undefined);
  fastify.decorateRequest('response', undefined);
  fastify.decorateRequest('heldBody', undefined);
  fastify.addHook('onRequest', (request, reply, done) => {
    request.response = reply.raw;
    // Nearly every response is private to the owner of the token. Others override this.
    reply
      .header('x-request-id', request.id)
      .header('cache-control', 'no-store')
      .header('x-content-type-options', 'nosniff');
    done();
  });
  fastify.addHook('onSend', (_request, reply, _payload, done) => {
    if (closing.now) reply.header('connection', 'close');
    done();
  });
  fastify.addHook('onResponse', (request, reply, done) => {
    const { statusCode, elapsedTime } = reply;
    const operation = request.routeOptions.config.operationId ?? 'other';
    httpSeconds.observe({ operation, status: statusCode }, elapsedTime / 1000);
    const { failure, method } = request;
    // If it changed something, no message was published, and a repeated request will publish none.
    if (failure !== undefined && !READS.has(method)) lostResponses.note(failure, clock.now() - elapsedTime);
    const level = levelOf(statusCode);
    if (log.isLevelEnabled(level)) log[level](lineOf(request, statusCode, elapsedTime, addressOf), 'request');
    done();
  });
}

const READS = new Set(['GET', 'HEAD', 'OPTIONS']);

function levelOf(status: number): 'error' | 'warn' | 'info' | 'debug' {
  if (status === 503) return 'warn'; // the database is unavailable, which can cause thousands of these
  return status >= 500 ? 'error' : status >= 400 ? 'info' : 'debug';
}

/**
 * The path without the query, which may be private; only the pattern if the path contains a secret. What
 * names a user or a device is replaced, also in paths that no route has.
 */
function loggablePath({ url, routeOptions }: FastifyRequest): string | undefined {
  if (routeOptions.config.secretPath) return routeOptions.url;
  let path = url.split('?', 1)[0] ?? '';
  for (const [pattern, replacement] of PRIVATE_PARTS) path = path.replace(pattern, replacement);
  return path.slice(0, 300);
}

const PRIVATE_PARTS: [RegExp, string][] = [
  // Also for a method or a spelling that no route has: `/preferences%2F<token>`, `/%70references/<token>`.
  [/((?:unsubscribe|preferences)\/|\/t\/[co]\/).*/i, '$1:token'],
  [/(?:external_id|email)(?::|%(?:25)*3A)[^/]*/gi, ':user_id'],
  [
    /(\/(?:push_subscriptions|tokens)\/)(?![\da-f]{8}(?:-[\da-f]{4}){3}-[\da-f]{12}(?:\/|$))[^/]+/i,
    '$1:token',
  ],
  // The token of a link has 66 characters or more.
  [/[\w%-]{60,}/g, ':token'],
];

function lineOf(
  request: FastifyRequest,
  status: number,
  elapsedMs: number,
  addressOf: (request: IncomingMessage) => string,
): object {
  return {
    request_id: request.id,
    method: request.method,
    path: loggablePath(request),
    status,
    ms: Math.round(elapsedMs * 10) / 10,
    // Only the address identifies a caller without a valid credential.
    ...(request.caller !== undefined
      ? { project_id: request.caller.project.id }
      : status >= 400
        ? { address: addressOf(request.raw) }
        : {}),
    ...(request.failure === undefined
      ? {}
      : status === 503
        ? { reason: String(request.failure) }
        : { err: request.failure }),
  };
}
