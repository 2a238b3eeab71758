import type { Server as HttpServer, IncomingHttpHeaders, IncomingMessage } from 'node:http';
import type { Duplex } from 'node:stream';
import { GraphQLError, getOperationAST, OperationTypeNode, subscribe } from 'graphql';
import { type Context, handleProtocols, makeServer, type Server } from 'graphql-ws';
import { type RawData, type WebSocket, WebSocketServer } from 'ws';
import type { CloseReason } from '../../domain/after/realtime/subscription.ts';
import { isValidKey } from '../../domain/setup/projects/keys.ts';
import { ClientError } from '../../errors.ts';
import type { Caller } from '../auth.ts';
import { toClientError } from '../error-handler.ts';
import { hostProblem } from '../host.ts';
import { type Every, Rounds, realEvery } from '../realtime/pending.ts';
import { GRAPHQL_PATH, pathOf, refuse } from '../realtime/socket.ts';
import type { App } from '../route.ts';
import type { Documents } from './documents.ts';
import { formatError } from './errors.ts';
import { InboxEvents } from './inbox-events.ts';
import { createScope } from './scope.ts';

// As for the other WebSockets (realtime/socket.ts).
const PING_EVERY_MS = 25_000;
const CLOSE_TIMEOUT_MS = 5_000;
const SHUTDOWN_TIMEOUT_MS = 800;
// A query with its variables.
const MAX_INCOMING_BYTES = 64 * 1024;
const MAX_SUBSCRIPTIONS = 10;
const MAX_HEADERS = 20;

// The client library connects again after these status codes, except 4400.
const CLOSINGS: Record<CloseReason | 'expired', [code: number, reason: string]> = {
  token_discarded: [4403, 'the token was discarded'],
  user_deleted: [4403, 'the user was deleted'],
  expired: [4403, 'the credential is no longer valid'],
  replaced: [4400, 'a newer connection has taken over'],
  too_many: [4400, 'too many connections of this user'],
  slow: [1013, 'reads too slowly: connect again and fetch what was missed'],
  behind: [1013, 'some events may be missing: connect again and fetch the list'],
  shutdown: [1001, 'going away'],
};

type SocketApp = Pick<App, 'api' | 'context' | 'limits'> & { fastify: { server: HttpServer } };

/** The WebSockets at `/graphql`, with the protocol `graphql-transport-ws`: subscriptions alone. */
export class GraphqlSockets {
  readonly #app: SocketApp;
  readonly #documents: Documents;
  readonly #protocol: Server<Socket>;
  readonly #open = new Set<Socket>();
  readonly #rounds: Rounds<Socket>;
  readonly #webSockets = new WebSocketServer({
    noServer: true,
    clientTracking: false,
    perMessageDeflate: false,
    maxPayload: MAX_INCOMING_BYTES,
    handleProtocols,
    ...{ closeTimeout: CLOSE_TIMEOUT_MS },
  });
  #closing = false;
  #onEmpty: (() => void) | undefined;

  constructor(app: SocketApp, documents: Documents, every: Every = realEvery) {
    this.#app = app;
    this.#rounds = new Rounds(PING_EVERY_MS, (socket) => void this.#visit(socket), every);
    this.#documents = documents;
    this.#protocol = makeServer<Record<string, unknown>, Socket>({
      onConnect: (connection) => this.#connect(connection),
      onSubscribe: ({ extra, subscriptions }, _id, payload) => {
        if (Object.keys(subscriptions).length > MAX_SUBSCRIPTIONS)
          return [failed('validation_failed', `A connection can have ${MAX_SUBSCRIPTIONS} subscriptions`)];
        return this.#prepare(extra, payload);
      },
      subscribe: (args) => subscribe(args),
      onNext: (_connection, _id, _payload, _args, { data = null, errors }) =>
        errors === undefined ? undefined : { data, errors: errors.map(formatError) },
      onError: (_connection, _id, _payload, errors) => errors.map(formatError),
    });
    app.fastify.server.on('upgrade', (request, stream, head) => {
      if (pathOf(request) === GRAPHQL_PATH) this.#upgrade(request, stream, head);
    });
  }

  /** Closes all sockets, and waits less than a second for the clients. */
  async close(): Promise<void> {
    this.#closing = true;
    this.#rounds.stop();
    if (this.#open.size === 0) return;
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#onEmpty = resolve;
    const timer = setTimeout(() => {
      for (const socket of this.#open) socket.webSocket.terminate();
    }, SHUTDOWN_TIMEOUT_MS);
    for (const socket of this.#open) socket.close('shutdown');
    await promise;
    clearTimeout(timer);
  }

  #upgrade(request: IncomingMessage, stream: Duplex, head: Buffer): void {
    const badHost = hostProblem(request);
    if (this.#closing) refuse(stream, new ClientError('service_unavailable', [], { 'retry-after': '1' }));
    else if (badHost !== undefined) refuse(stream, new ClientError('bad_request', [badHost]));
    else {
      this.#webSockets.handleUpgrade(request, stream, head, (webSocket) =>
        this.#accept(new Socket(webSocket, request)),
      );
    }
  }

  #accept(socket: Socket): void {
    const { webSocket } = socket;
    this.#open.add(socket);
    const leaveRounds = this.#rounds.add(socket);
    const closed = this.#protocol.opened(
      {
        protocol: webSocket.protocol,
        send: (text) => socket.send(text),
        close: (code, reason) => webSocket.close(code, reason),
        onMessage: (receive) =>
          webSocket.on('message', (data: RawData) => {
            receive(data.toString()).catch((error: unknown) => this.#fail(socket, error));
          }),
      },
      socket,
    );
    webSocket.on('close', (code, reason) => {
      leaveRounds();
      socket.clear();
      this.#open.delete(socket);
      void closed(code, reason.toString());
      if (this.#open.size === 0) this.#onEmpty?.();
    });
  }

  /** Authenticates a connection by the headers in the payload of its first message. */
  async #connect({ extra: socket, connectionParams = {} }: Context<Record<string, unknown>, Socket>) {
    const { api, limits } = this.#app;
    try {
      const caller = await api.authenticate(headersOf(connectionParams));
      if (caller.kind !== 'user') throw new ClientError('forbidden');
      socket.caller = caller;
      socket.closeAt(caller.credential.expiresAtMs - this.#app.context.clock.now());
      return true;
    } catch (error) {
      const known = toClientError(error);
      if (known.status >= 500) throw error;
      await Promise.resolve(limits.refusedSocket(socket.request)).catch(() => {});
      socket.webSocket.close(4403, known.code);
      return false;
    }
  }

  async #prepare(
    socket: Socket,
    { query, operationName, variables }: { query: string; operationName?: unknown; variables?: unknown },
  ) {
    const { caller } = socket;
    if (caller === undefined) throw new Error('a socket subscribed before it was authenticated');
    const values = (variables ?? {}) as Record<string, unknown>;
    const name = typeof operationName === 'string' ? operationName : undefined;
    try {
      await this.#app.limits.caller(caller, this.#app.api, { method: 'GET' });
      const document = this.#documents.parse(query);
      const operation = getOperationAST(document, name) ?? undefined;
      if (operation !== undefined && operation.operation !== OperationTypeNode.SUBSCRIPTION)
        return [failed('bad_request', 'Send queries and mutations with POST')];
      const problems = this.#documents.validate(document, operation, values);
      if (problems.length > 0) return problems;
      const contextValue = createScope(this.#app, caller, { listen: () => this.#listen(socket, caller) });
      return {
        schema: this.#documents.schema,
        document,
        operationName: name ?? null,
        variableValues: values,
        contextValue,
      };
    } catch (error) {
      if (error instanceof GraphQLError) return [error];
      if (toClientError(error).status >= 500) throw error;
      return [new GraphQLError(String(error), { originalError: error as Error })];
    }
  }

  #listen(socket: Socket, caller: Caller & { kind: 'user' }) {
    const user = { projectId: caller.project.id, userId: caller.userId };
    const events = new InboxEvents(user, (reason) => socket.close(reason));
    events.onEnd = this.#app.context.hub.add(events);
    return events;
  }

  /** Pings a client, and closes the socket of one that does not respond or has no valid credential. */
  async #visit(socket: Socket): Promise<void> {
    const { caller } = socket;
    if (caller !== undefined && !(await this.#isValid(caller))) socket.close('expired');
    else socket.ping();
  }

  async #isValid({ credential, project }: Caller): Promise<boolean> {
    const { projects, clock } = this.#app.context;
    if (credential.expiresAtMs <= clock.now()) return false;
    try {
      const now = await projects.byId(project.id);
      return now !== undefined && isValidKey(now.apiSecrets, credential.key.id, clock.now());
    } catch {
      return true; // the database is unavailable; the next ping checks again
    }
  }

  #fail(socket: Socket, error: unknown): void {
    const { status } = toClientError(error);
    if (status >= 500) this.#app.context.log.error({ err: error }, 'a GraphQL subscription failed');
    socket.webSocket.close(status === 503 ? 1013 : 4500, 'internal error');
  }
}

function failed(code: 'bad_request' | 'validation_failed', message: string): GraphQLError {
  return new GraphQLError(message, { originalError: new ClientError(code, [message]) });
}

/** The headers that a browser cannot send with a WebSocket. */
function headersOf(params: Readonly<Record<string, unknown>>): IncomingHttpHeaders {
  return Object.fromEntries(
    Object.entries(params)
      .slice(0, MAX_HEADERS)
      .filter(([, value]) => typeof value === 'string')
      .map(([name, value]) => [name.toLowerCase(), value as string]),
  );
}

// Node's timers are no longer. The pings check credentials that expire later.
const MAX_TIMEOUT_MS = 2 ** 31 - 1;

/** One client's WebSocket. */
class Socket {
  readonly webSocket: WebSocket;
  readonly request: IncomingMessage;
  /** Undefined until the client has sent its credential. */
  caller: (Caller & { kind: 'user' }) | undefined;
  #hasPonged = true;
  #expiry: NodeJS.Timeout | undefined;

  constructor(webSocket: WebSocket, request: IncomingMessage) {
    this.webSocket = webSocket;
    this.request = request;
    webSocket.on('pong', () => {
      this.#hasPonged = true;
    });
    webSocket.on('error', () => {}); // `close` follows
  }

  /** Resolves when the connection has taken the text, so that a slow client slows its events down. */
  send(text: string): Promise<void> {
    return new Promise((resolve) => {
      if (this.webSocket.readyState === this.webSocket.OPEN) this.webSocket.send(text, () => resolve());
      else resolve();
    });
  }

  /** Closes the socket when its credential expires. */
  closeAt(ms: number): void {
    if (ms < MAX_TIMEOUT_MS) this.#expiry = setTimeout(() => this.close('expired'), ms).unref();
  }

  clear(): void {
    clearTimeout(this.#expiry);
  }

  close(reason: keyof typeof CLOSINGS): void {
    this.webSocket.close(...CLOSINGS[reason]);
  }

  ping(): void {
    if (!this.#hasPonged) {
      this.webSocket.terminate();
      return;
    }
    this.#hasPonged = false;
    if (this.webSocket.readyState === this.webSocket.OPEN) this.webSocket.ping();
  }
}
