import type { IncomingHttpHeaders } from 'node:http';
import type { FastifyInstance, FastifyReply, FastifyRequest, HTTPMethods } from 'fastify';
import type { LRUCache } from 'lru-cache';
import { type Static, type TNull, type TObject, type TSchema, Type } from 'typebox';
import type { Page, PageQuery } from '../contract/common.ts';
import type { IdempotencyKey } from '../domain/ground/requests/idempotency.ts';
import type { ImportPage } from '../domain/people/imports/create.ts';
import type { Project } from '../domain/setup/projects/cache.ts';
import { ClientError, type ErrorCode } from '../errors.ts';
import type { Cursor, SearchedRows } from '../lib/cursor.ts';
import type { JsonLimits } from '../lib/json-member.ts';
import type { JsonText } from '../lib/json-text.ts';
import type { ListPage } from '../lib/page.ts';
import type { Api } from './api.ts';
import type { Caller, Credential } from './auth.ts';
import type { BodyReader } from './bodies/read-body.ts';
import { brandHeader, spellings } from './brand.ts';
import type { CallContext, HttpContext } from './context.ts';
import { idempotencyKeyOf, runIdempotently } from './idempotency.ts';
import { OWN_ERRORS } from './openapi/openapi.ts';
import { pageJson, pageLinks, paginate } from './pagination.ts';
import type { RateLimits } from './rate-limit.ts';
import { refuseTogether } from './refuse-together.ts';
import { type RawJson, rawJson, replyChecker, sendJson, toJson } from './reply.ts';

/** Where routes of one version of the API are registered. */
export interface App {
  readonly api: Api;
  readonly fastify: FastifyInstance;
  readonly context: HttpContext;
  /** Counts requests, over all versions of the API. */
  readonly limits: RateLimits;
  readonly readBody: BodyReader;
  /** Validates responses against their schemas; for tests. */
  readonly checkReplies: boolean;
  /** The other cells, for requests that do not name their project. Only in the default cell. */
  readonly cells: OtherCells | undefined;
}

/** The cells of the node besides the default one (cells.ts). */
export interface OtherCells {
  /** Those that are open. */
  readonly contexts: readonly HttpContext[];
  /** The names of those that could not be opened. */
  readonly missing: readonly string[];
  /** The cells in which the integrations of former webhooks were found, by their ids. */
  readonly ofWebhooks: LRUCache<string, HttpContext>;
  /** The GraphQL of the cell of these headers; undefined for the default cell. Throws a `ClientError`. */
  graphqlOf(headers: IncomingHttpHeaders): Promise<App | undefined>;
}

/** A route without its caller. Validation, types and the description of the API come from here. */
export interface Route<
  Params extends TObject,
  Query extends TObject,
  Body extends TSchema,
  Reply extends Replies,
  Who,
> {
  method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';
  /**
   * The path below the prefix. `:id` is a parameter, `<brand>` the brand word:
   * `/channels/slack/<brand>_slackbot/tokens`.
   */
  url: string;
  operationId: string;
  summary: string;
  /** In full sentences: the effect, also on related things, and the limits. The caller is added. */
  description: string;
  tags: [string, ...string[]];
  params?: Params;
  /** Without one, the query is ignored. */
  query?: Query;
  body?: Body;
  /** The body may also come as the only member of an object, under this key: `{"broadcast": {…}}`. */
  unwrap?: string;
  /**
   * The body is the only member of an object, under this key: `{"notification": {…}}`. `request.bodyJson` and
   * the other texts are those of this member.
   */
  wrapper?: string;
  /** The status of success and its body: `{ 200: User }`, `{ 204: NoContent }`. */
  reply: Reply;
  /** The media types of the response, if it is not JSON. */
  produces?: string | readonly string[];
  /** Bytes of the body. If omitted, 1 MiB for projects, and 64 KiB for users and strangers. */
  bodyLimit?: number;
  /**
   * Keys and values of the body, each counted. If omitted, 10,000 for projects, and 500 for users and
   * strangers.
   */
  keysAndValues?: number;
  /** The array in the body that can be long: it has its own limit of 50,000 keys and values. */
  longArray?: string;
  /**
   * Problems that the schemas cannot express and that the handler rejects. Called if the schemas reject a
   * request, so that all problems are reported at once, and before an Idempotency-Key is used, so that a
   * corrected request may have the same key. The argument is not validated.
   */
  alsoWrong?: (given: { query: unknown; body: unknown }) => readonly string[] | Promise<readonly string[]>;
  /**
   * The body is a list of users, as the member `users` of an object, as NDJSON or as CSV. They are validated
   * one by one. The handler gets them as `request.pages`, and its `body` has none.
   */
  users?: boolean;
  /** Rejects unknown query parameters, all cookies and unknown `x-<brand>-*` headers, and names each. */
  refuseUnknown?: boolean;
  /**
   * `automatic` (POST's default): the route's writes and its response are stored together, in one
   * transaction. `claimed`: the key is claimed, the handler runs, its response is stored; for handlers that
   * make network calls. `own`: the handler does it.
   */
  idempotency?: 'automatic' | 'claimed' | 'own' | 'none';
  /**
   * Who gets the stored response of a key: the `caller` (if omitted), or only requests with the same `token`,
   * for responses that grant the same rights as the token.
   */
  replayedTo?: 'caller' | 'token';
  /** The response has a secret, so it is sealed while it is stored under an Idempotency-Key. */
  secretReply?: boolean;
  /** Further errors for the description, which do not follow from parameters and body. */
  errors?: readonly ErrorCode[];
  /** A record may have this path too: methods without a route of this path find the record. */
  besideRecords?: boolean;
  /** Not part of the published description. */
  hidden?: boolean;
  /** Matches only requests with the header `X-<BRAND>-API-KEY`; others find another route at this path. */
  withApiKey?: boolean;
  handler: (call: Call<Static<Params>, Static<Query>, Static<Body>> & Who) => HandlerResult<Reply>;
}

export type Replies = { 200: TSchema } | { 201: TSchema } | { 202: TSchema } | { 204: TNull };
export type HandlerResult<Reply extends Replies> = Reply extends { 204: TNull }
  ? Promise<void>
  : Promise<
      | (Reply extends
          | { 200: infer Body extends TSchema }
          | { 201: infer Body extends TSchema }
          | { 202: infer Body extends TSchema }
          ? Static<Body>
          : never)
      | RawJson
    >;

/** The argument of a handler. */
export interface Call<Params, Query, Body> {
  params: Params;
  query: Query;
  body: Body;
  /**
   * For the domain: `readUser(context, …)`. Under an Idempotency-Key its `db` is the transaction that also
   * stores the response (`db.transaction` joins it), and its `bus` defers messages until the commit. So write
   * and publish only through this one.
   */
  context: CallContext;
  /** Runs after the commit of this call, or at once if it has no transaction. */
  afterCommit(effect: () => void): void;
  /** With `idempotency: 'own'`, the key of the request, if any. */
  idempotencyKey: IdempotencyKey | undefined;
  /** The `x-<brand>-client-id` header, by which a client recognises its own changes in streams. */
  clientId: string | undefined;
  /** One page of a list, see pagination.ts. */
  paginate<Row extends { id: string }, Item>(
    query: PageQuery,
    list: (cursor: Cursor) => Promise<Row[] | SearchedRows<Row>>,
    item: (row: Row) => Item,
  ): Promise<Page<Item>>;
  /** The response with a page of records that are JSON texts. */
  textPage(page: ListPage<JsonText>): RawJson;
  request: FastifyRequest;
  reply: FastifyReply;
}

type ProjectCall = { project: Project; tokenId: string; credential: Credential };
export type UserCall = {
  project: Project;
  user: { id: string };
  /** The same user, as most functions take it. */
  owner: { projectId: string; userId: string };
  credential: Credential;
};

/** Registers a route for a Project JWT. Its handler gets the `project`. */
export function projectRoute<
  Params extends TObject,
  Query extends TObject,
  Body extends TSchema,
  const Reply extends Replies,
>(app: App, route: Route<Params, Query, Body, Reply, ProjectCall>): void {
  register(app, route, {
    caller: 'project',
    admit: (request, reply) => admit(app, request, reply, 'project'),
    withCaller(call) {
      const caller = known(call.request.caller);
      if (caller.kind !== 'project') throw new ClientError('forbidden');
      const { project, tokenId, credential } = caller;
      return { ...call, project, tokenId, credential };
    },
  });
}

/** Registers a route for a User JWT. Its handler gets the `user`, the `project`, and both as the `owner`. */
export function userRoute<
  Params extends TObject,
  Query extends TObject,
  Body extends TSchema,
  const Reply extends Replies,
>(app: App, route: Route<Params, Query, Body, Reply, UserCall>): void {
  register(app, route, {
    caller: 'user',
    admit: (request, reply) => admit(app, request, reply, 'user'),
    withCaller(call) {
      const caller = known(call.request.caller);
      if (caller.kind !== 'user') throw new ClientError('forbidden');
      const { project, userId, credential } = caller;
      const owner = { projectId: project.id, userId };
      return { ...call, project, user: { id: userId }, owner, credential };
    },
  });
}

/** Registers a route without a credential, which is limited by address. */
export function publicRoute<
  Params extends TObject,
  Query extends TObject,
  Body extends TSchema,
  const Reply extends Replies,
>(app: App, route: Route<Params, Query, Body, Reply, unknown>): void {
  const access: Access<unknown> = {
    caller: 'anyone',
    admit: async (request, reply) => {
      reply.headers(app.api.headers);
      await app.limits.stranger(request, reply);
    },
    withCaller: (call) => call,
  };
  register(app, { idempotency: 'none', ...route }, access);
}

declare module 'fastify' {
  interface FastifyRequest {
    /** The caller, set by the `onRequest` hook of the route. */
    caller: Caller | undefined;
    /** SHA-256 of the body, if the request has an Idempotency-Key. */
    bodyHash: Buffer | undefined;
    /** The text that `body` was parsed from, unless it is very long. */
    bodyJson: Buffer | undefined;
    /** The texts of its members, under the same condition. */
    bodyTexts: ReadonlyMap<string, Buffer> | undefined;
    /** The text of the body's member `longArray`, if the body is long. */
    longArray: Buffer | undefined;
    /** The problems of its texts, if another thread parsed it. */
    textProblems: readonly string[] | undefined;
    /** The users of a route with `users`. */
    pages: readonly ImportPage[] | undefined;
  }
  interface FastifyContextConfig {
    /** The operation's name in metrics and logs. */
    operationId?: string;
    /** The version of the API that the route belongs to. */
    api?: Api;
    /** See `Route`. */
    besideRecords?: boolean;
    /** The path is a credential, so it is not logged. */
    secretPath?: boolean;
    /** The limits of the body, and how it is parsed. */
    limits?: JsonLimits;
    /** The limit of bodies of users, where projects may send longer ones to the same path. */
    userBodyBytes?: number;
    longArray?: string;
    unwrap?: string;
    wrapper?: string;
    users?: boolean;
  }
}

interface Access<Who> {
  caller: Caller['kind'] | 'anyone';
  /** Runs before the body is read. Throws for a caller that must not use the route. */
  admit: (request: FastifyRequest, reply: FastifyReply) => Promise<void>;
  /** Adds the caller to the argument of a handler. */
  withCaller: <Given extends { request: FastifyRequest }>(call: Given) => Given & Who;
}

// A thousand recipients with all their members and 15 attributes each: 25 ms of the event loop.
const IN_LONG_ARRAY = 50_000;
// Ten thousand users with 50 attributes each. Another thread parses them.
const IN_USERS = 1_000_000;
const LEVELS = 100;

function register<
  Params extends TObject,
  Query extends TObject,
  Body extends TSchema,
  Reply extends Replies,
  Who,
>(app: App, route: Route<Params, Query, Body, Reply, Who>, access: Access<Who>): void {
  const [status, replySchema] = statusAndBody(route.reply);
  const checkReply =
    app.checkReplies && status !== 204 ? replyChecker(route.operationId, replySchema) : undefined;
  const brand = app.context.config.BRAND;
  const { withCaller } = access;
  const how = { status, checkReply, clientIdOf: brandHeader(brand, 'client-id'), withCaller };
  const { credentials, limits } = app.api;
  const bodies = limits.bodies[access.caller];
  const security = access.caller === 'anyone' ? [] : credentials[access.caller].security;
  for (const { url, published: shown } of spellings(route.url, brand)) {
    app.fastify.route({
      method: route.method satisfies HTTPMethods,
      url: `${app.api.prefix}${url}`,
      bodyLimit: route.bodyLimit ?? bodies.bytes,
      ...(route.withApiKey ? { constraints: { apiKey: 'given' } } : {}),
      config: {
        api: app.api,
        operationId: route.operationId,
        ...(route.besideRecords ? { besideRecords: true } : {}),
        ...(route.produces === 'text/event-stream' ? { role: 'realtime' as const } : {}),
        limits: {
          keysAndValues: route.keysAndValues ?? bodies.keysAndValues,
          inMember: route.users ? IN_USERS : IN_LONG_ARRAY,
          levels: LEVELS,
        },
        ...(route.longArray === undefined ? {} : { longArray: route.longArray }),
        ...(route.unwrap === undefined ? {} : { unwrap: route.unwrap }),
        ...(route.wrapper === undefined ? {} : { wrapper: route.wrapper }),
        ...(route.users ? { users: true, longArray: 'users' } : {}),
      },
      schema: {
        operationId: route.operationId,
        summary: route.summary,
        description: route.description,
        tags: route.tags,
        security,
        ...(route.errors === undefined ? {} : { [OWN_ERRORS]: route.errors }),
        hide: route.hidden === true || !shown,
        ...(route.params === undefined ? {} : { params: route.params }),
        ...(route.query === undefined ? {} : { querystring: route.query }),
        ...(route.body === undefined ? {} : { body: route.users ? withRows(route.body) : route.body }),
        response: { [status]: published(status, replySchema, route.produces) },
      },
      onRequest: access.admit,
      ...(route.body || route.query || route.refuseUnknown
        ? {
            attachValidation: true,
            preHandler: refuseTogether({
              strict: route.refuseUnknown
                ? { brand, known: Object.keys(route.query?.properties ?? {}) }
                : undefined,
              alsoWrong: route.alsoWrong,
              keyed: route.method === 'POST' && route.idempotency !== 'none',
            }),
          }
        : {}),
      async handler(request, reply) {
        // The handler holds the memory of the body, even if the client disconnects before it ends.
        request.heldBody?.hold();
        try {
          return await respond(app, route, how, request, reply);
        } finally {
          request.heldBody?.release();
        }
      },
    });
  }
}

/** The body of a route with `users`, in all its formats. */
function withRows(body: TSchema): object {
  return {
    content: {
      'application/json': { schema: body },
      'application/x-ndjson': { schema: Type.String({ description: 'A user as JSON on each line.' }) },
      'text/csv': { schema: Type.String({ description: 'A line for each user, below a header.' }) },
    },
  };
}

interface Responding<Who> {
  /** The status of success. */
  status: number;
  checkReply: ((reply: unknown) => void) | undefined;
  /** Reads the `x-<brand>-client-id` header. */
  clientIdOf: ReturnType<typeof brandHeader>;
  withCaller: Access<Who>['withCaller'];
}

/** Runs the handler, under the request's Idempotency-Key if there is one, and sends its result. */
async function respond<
  Params extends TObject,
  Query extends TObject,
  Body extends TSchema,
  Reply extends Replies,
  Who,
>(
  app: App,
  route: Route<Params, Query, Body, Reply, Who>,
  { status, checkReply, clientIdOf, withCaller }: Responding<Who>,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<FastifyReply> {
  const mode = route.method === 'POST' ? (route.idempotency ?? 'automatic') : 'none';
  const key = mode === 'none' ? undefined : idempotencyKeyOf(request, route.operationId, route.replayedTo);
  const run = async (context: CallContext, afterCommit: (effect: () => void) => void) => {
    const call: Call<Static<Params>, Static<Query>, Static<Body>> = {
      params: request.params as Static<Params>,
      query: request.query as Static<Query>,
      body: request.body as Static<Body>,
      context,
      afterCommit,
      idempotencyKey: mode === 'own' ? key : undefined,
      clientId: clientIdOf(request.headers),
      paginate: (query, list, item) => paginate({ base: baseUrl(app, request), request, query, list, item }),
      textPage: (page) => rawJson(pageJson(page, pageLinks(baseUrl(app, request), request, page))),
      request,
      reply,
    };
    const result = await route.handler(withCaller(call));
    if (!reply.raw.headersSent) checkReply?.(result);
    return toJson(result);
  };
  if (key !== undefined && (mode === 'automatic' || mode === 'claimed')) {
    const problems = (await route.alsoWrong?.({ query: request.query, body: request.body })) ?? [];
    if (problems.length > 0) throw new ClientError('validation_failed', problems);
    const secret = route.secretReply === true;
    const stored = await runIdempotently(app.context, { key, status, mode, secret }, run);
    if (stored.replayed) reply.header('idempotency-replayed', 'true');
    return sendJson(reply, stored.status, stored.body);
  }
  const body = await run(app.context, (effect) => effect());
  // A stream has sent the response.
  return reply.sent || reply.raw.headersSent ? reply : sendJson(reply, status, body);
}

/** The response in the description of the API. */
function published(
  status: number,
  schema: TSchema,
  mediaTypes: string | readonly string[] = 'application/json',
): object {
  if (status === 204) return schema;
  const description =
    status === 201 ? 'Created.' : status === 202 ? 'Accepted; it is done in the background.' : 'Done.';
  return { description, content: Object.fromEntries([mediaTypes].flat().map((type) => [type, { schema }])) };
}

/** Counts a request by its caller if it has a valid credential, else by its address. */
export async function countCaller(
  { limits, api }: Pick<App, 'limits' | 'api'>,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<void> {
  try {
    request.caller = await api.authenticate(request.headers);
  } catch (error) {
    if (!(error instanceof ClientError)) throw error;
    await limits.stranger(request, reply);
    return;
  }
  await limits.caller(request.caller, api, request, reply);
}

async function admit(
  app: App,
  request: FastifyRequest,
  reply: FastifyReply,
  kind: Caller['kind'],
): Promise<void> {
  const { api } = app;
  reply.headers(api.headers);
  try {
    request.caller = await api.authenticate(request.headers, kind);
  } catch (error) {
    if (error instanceof ClientError) await app.limits.stranger(request, reply);
    throw error;
  }
  const counting = app.limits.caller(request.caller, api, request, reply);
  if (counting !== undefined) await counting;
  const given = request.caller.kind;
  if (given !== kind) {
    const { credentials } = api;
    throw new ClientError('forbidden', [
      `This operation needs ${credentials[kind].name}; the request has ${credentials[given].name}`,
    ]);
  }
}

function known(caller: Caller | undefined): Caller {
  if (caller === undefined) throw new Error('a handler ran before its caller was admitted');
  return caller;
}

/** The start of links in responses. Ignores `X-Forwarded-*`: behind a proxy, set PUBLIC_URL. */
export function baseUrl(app: Pick<App, 'context'>, request: FastifyRequest): string {
  const { PUBLIC_URL, HOST, PORT } = app.context.config;
  return PUBLIC_URL ?? `http://${request.headers.host || `${HOST}:${PORT}`}`;
}

function statusAndBody(reply: Replies): [number, TSchema] {
  const [status, schema] = Object.entries(reply)[0] as [string, TSchema];
  return [Number(status), schema];
}
