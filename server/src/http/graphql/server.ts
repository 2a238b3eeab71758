import type { IncomingMessage } from 'node:http';
import type { FastifyReply, FastifyRequest } from 'fastify';
import {
  type DocumentNode,
  GraphQLError,
  getOperationAST,
  introspectionFromSchema,
  OperationTypeNode,
} from 'graphql';
import { createHandler, type Response } from 'graphql-http';
import { ClientError } from '../../errors.ts';
import { memberOf } from '../../lib/members.ts';
import type { Caller } from '../auth.ts';
import { brandHeader } from '../brand.ts';
import { idempotencyKeyOf, runIdempotently } from '../idempotency.ts';
import type { LiveSocket, SocketClient } from '../realtime/web-sockets.ts';
import type { App } from '../route.ts';
import { GraphqlClients } from './clients.ts';
import { Documents } from './documents.ts';
import { formatError, internalErrors } from './errors.ts';
import { countWrites } from './limits.ts';
import { graphqlSchema } from './schema.ts';
import { createScope, type Scope } from './scope.ts';

const NO_BATCHES = 'Send one operation per request: batches are not supported';

/** What serves `/graphql` behind its routes. */
export interface GraphqlServer {
  /** Responds to an authenticated request. */
  respond(request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply>;
  /** Serves a WebSocket after its handshake. `request` is that of the handshake. */
  open(socket: LiveSocket, request: IncomingMessage): SocketClient;
  /** The result of an introspection, as JSON. */
  introspection(): string;
}

/** Creates the server. Takes some tens of milliseconds for the schema. */
export function createGraphqlServer(app: App): GraphqlServer {
  const documents = new Documents(graphqlSchema());
  const handle = createRequestHandler(app, documents);
  const clients = new GraphqlClients(app, documents);
  return {
    async respond(request, reply) {
      if (Array.isArray(request.body)) throw new ClientError('bad_request', [NO_BATCHES]);
      const writes = writesOf(documents, request);
      if (writes > 0 && request.method !== 'POST')
        throw new ClientError('method_not_allowed', ['A mutation needs POST'], { allow: 'POST' });
      await count(app, writes, request, reply);
      return send(reply, await respond(app, handle, writes > 0, request, reply), writes === 0);
    },
    open: (socket, request) => clients.open(socket, request),
    introspection: () => JSON.stringify({ data: introspectionFromSchema(documents.schema) }),
  };
}

/** The fields of a mutation; 0 for any other request, also one that the handler will reject. */
function writesOf(documents: Documents, { method, query, body }: FastifyRequest): number {
  const params = method === 'POST' ? body : query;
  const [text, name] = [memberOf(params, 'query'), memberOf(params, 'operationName')];
  if (typeof text !== 'string') return 0;
  const document = parsed(documents, text);
  if (document instanceof GraphQLError) return 0;
  const operation = getOperationAST(document, typeof name === 'string' ? givenName(name) : undefined);
  if (operation?.operation !== OperationTypeNode.MUTATION) return 0;
  return Math.max(1, countWrites(document, operation));
}

/** Counts a request for the rate limits: each field of a mutation as a write, anything else as a read. */
async function count(
  { api, limits }: App,
  writes: number,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<void> {
  const caller = callerOf(request);
  const method = writes > 0 ? 'POST' : 'GET';
  for (let counted = 0; counted < Math.max(1, writes); counted += 1)
    await limits.caller(caller, api, { method }, reply);
}

/** Runs the request, once if it is a mutation with an Idempotency-Key. */
async function respond(
  { context }: App,
  handle: (request: FastifyRequest) => Promise<Response>,
  isMutation: boolean,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<Response> {
  const key = isMutation ? idempotencyKeyOf(request, 'graphql') : undefined;
  if (key === undefined) return handle(request);
  let own: Response | undefined;
  const storing = { key, status: 200, mode: 'claimed', secret: true } as const;
  try {
    const stored = await runIdempotently(context, storing, async () => {
      own = await handle(request);
      if (!executed.has(request) || request.failure !== undefined) throw new NotStored();
      return own[0] ?? '';
    });
    if (stored.replayed) reply.header('idempotency-replayed', 'true');
    return (
      own ?? [stored.body, { status: stored.status, statusText: '', headers: { 'content-type': JSON_TYPE } }]
    );
  } catch (error) {
    if (error instanceof NotStored && own !== undefined) return own;
    throw error;
  }
}

/** The requests of which a field did what it was asked, or failed at it. */
const executed = new WeakSet<FastifyRequest>();

/** The response is not the result of the operation, so a request with the same key may run. */
class NotStored extends Error {}

const JSON_TYPE = 'application/json; charset=utf-8';

function send(
  reply: FastifyReply,
  [body, { status, headers = {} }]: Response,
  isRead: boolean,
): FastifyReply {
  if (status === 406) throw new ClientError('not_acceptable');
  if (body && status < 400) reply.server.holdResponse(reply, body, isRead);
  return reply
    .code(status)
    .headers(headers)
    .send(body ?? undefined);
}

/** Makes the function that runs requests as the specification of GraphQL over HTTP says. */
function createRequestHandler(
  app: App,
  documents: Documents,
): (request: FastifyRequest) => Promise<Response> {
  const clientIdOf = brandHeader(app.context.config.BRAND, 'client-id');
  const handle = createHandler<FastifyRequest, undefined, ContextValue>({
    formatError: formatError as (error: Error) => Error, // it is written as JSON
    onSubscribe({ raw }, { query, operationName: name, variables }) {
      const operationName = givenName(name);
      const document = parsed(documents, query);
      if (document instanceof GraphQLError) return [document];
      const operation = getOperationAST(document, operationName) ?? undefined;
      const problems = documents.validate(document, operation, variables ?? {});
      if (problems.length > 0) return problems;
      const contextValue = createScope(app, callerOf(raw), {
        clientId: clientIdOf(raw.headers),
        onRun: () => executed.add(raw),
      }) as ContextValue;
      return { schema: documents.schema, document, operationName, variableValues: variables, contextValue };
    },
    execute: (args) => documents.run(args),
    onOperation({ raw }, _args, { errors }) {
      for (const error of internalErrors(errors)) {
        raw.failure = error;
        app.context.log.error({ err: error, request_id: raw.id }, 'a GraphQL field failed');
      }
    },
  });
  return (request) =>
    handle({
      method: request.method === 'HEAD' ? 'GET' : request.method,
      url: request.url,
      // The body is JSON: others were rejected. The library accepts fewer parameters of the type than REST.
      headers: { ...(request.headers as Record<string, string>), 'content-type': 'application/json' },
      body: request.body as Record<string, unknown> | null,
      raw: request,
      context: undefined,
    });
}

/** The name of an operation. An empty one counts as none, as the specification says. */
function givenName(name: string | null | undefined): string | undefined {
  return name || undefined;
}

function parsed(documents: Documents, query: string): DocumentNode | GraphQLError {
  try {
    return documents.parse(query);
  } catch (error) {
    if (error instanceof GraphQLError) return error;
    throw error;
  }
}

// The library accepts any object.
type ContextValue = Scope & Record<PropertyKey, unknown>;

function callerOf({ caller }: FastifyRequest): Caller {
  if (caller === undefined) throw new Error('a request was handled before its caller was known');
  return caller;
}
