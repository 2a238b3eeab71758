import type { IncomingHttpHeaders, IncomingMessage } from 'node:http';
import { GraphQLError, getOperationAST, OperationTypeNode, subscribe } from 'graphql';
import { type Context, makeServer, type Server } from 'graphql-ws';
import type { RawData } from 'ws';
import { MAX_CONNECTIONS_PER_USER } from '../../domain/after/realtime/hub.ts';
import { ClientError } from '../../errors.ts';
import type { Caller } from '../auth.ts';
import { toClientError } from '../error-handler.ts';
import { MAX_PENDING_BYTES } from '../realtime/pending.ts';
import { CLOSINGS as INBOX_CLOSINGS } from '../realtime/socket.ts';
import { isValidNow } from '../realtime/validity.ts';
import type { LiveSocket, SocketClient } from '../realtime/web-sockets.ts';
import type { App } from '../route.ts';
import type { Documents } from './documents.ts';
import { formatError } from './errors.ts';
import { InboxEvents } from './inbox-events.ts';
import { createScope } from './scope.ts';

const MAX_SUBSCRIPTIONS = 10;
const MAX_HEADERS = 20;
const MAX_REASON_BYTES = 123; // RFC 6455, 5.5

// The client library connects again after these status codes, except 4400.
const CLOSINGS: typeof INBOX_CLOSINGS = {
  ...INBOX_CLOSINGS,
  user_deleted: [4403, 'the user was deleted'],
  expired: [4403, 'the credential is no longer valid'],
  too_many: [4400, 'too many connections of this user'],
};

type ClientApp = Pick<App, 'api' | 'context' | 'limits'> & Partial<Pick<App, 'cells'>>;

/** The clients of the WebSockets, with the protocol `graphql-transport-ws`. */
export class GraphqlClients {
  readonly #app: ClientApp;
  readonly #documents: Documents;
  readonly #protocol: Server<Client>;
  /** The authenticated clients by user, the oldest first. The hub knows only those that subscribe. */
  readonly #byUser = new Map<string, Set<Client>>();

  constructor(app: ClientApp, documents: Documents) {
    this.#app = app;
    this.#documents = documents;
    this.#protocol = makeServer<Record<string, unknown>, Client>({
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
  }

  /** Serves a WebSocket after its handshake. `request` is that of the handshake. */
  open(socket: LiveSocket, request: IncomingMessage): SocketClient {
    const { webSocket } = socket;
    const client = new Client(socket, this.#app, request);
    const ended = this.#protocol.opened(
      {
        protocol: webSocket.protocol,
        send: (text) => client.send(text),
        close: (code, reason) => webSocket.close(code, closeReason(reason)),
        onMessage: (receive) =>
          webSocket.on('message', (data: RawData) => {
            // Each message may be responded to.
            if (socket.stream.writableLength > MAX_PENDING_BYTES) return socket.cut();
            receive(data.toString()).catch((error: unknown) => this.#fail(client, error));
          }),
      },
      client,
    );
    client.onClosed = (code, reason) => {
      this.#leave(client);
      return ended(code, reason);
    };
    return client;
  }

  /** Disconnects the oldest client of a user with too many. */
  #enter(client: Client, userId: string): void {
    const clients = this.#byUser.get(userId) ?? new Set();
    this.#byUser.set(userId, clients.add(client));
    const [oldest] = clients;
    if (clients.size <= MAX_CONNECTIONS_PER_USER || oldest === undefined) return;
    this.#leave(oldest);
    oldest.close('too_many');
  }

  #leave(client: Client): void {
    const { userId = '' } = client.caller ?? {};
    const clients = this.#byUser.get(userId);
    if (clients?.delete(client) === true && clients.size === 0) this.#byUser.delete(userId);
  }

  /** Authenticates a connection by the headers in the payload of its first message, in its cell. */
  async #connect({ extra: client, connectionParams = {} }: Context<Record<string, unknown>, Client>) {
    const { cells, limits } = this.#app;
    try {
      const headers = headersOf(connectionParams);
      client.app = (await cells?.graphqlOf(headers)) ?? this.#app;
      const caller = await client.app.api.authenticate(headers);
      if (caller.kind !== 'user') throw new ClientError('forbidden');
      await limits.socket(caller.userId);
      client.caller = caller;
      client.request = undefined;
      if (client.socket.isOpen) this.#enter(client, caller.userId);
      client.closeAfter(caller.credential.expiresAtMs - this.#app.context.clock.now());
      return true;
    } catch (error) {
      const known = toClientError(error);
      if (known.status >= 500) throw error;
      const { request } = client;
      if (known.code !== 'rate_limit_exceeded' && request !== undefined)
        await (async () => limits.refusedSocket(request))().catch(() => {});
      client.socket.webSocket.close(4403, known.code);
      return false;
    }
  }

  async #prepare(
    client: Client,
    { query, operationName, variables }: { query: string; operationName?: unknown; variables?: unknown },
  ) {
    const { caller, app } = client;
    if (caller === undefined) throw new Error('a socket subscribed before it was authenticated');
    const values = (variables ?? {}) as Record<string, unknown>;
    const name = typeof operationName === 'string' ? operationName : undefined;
    try {
      await app.limits.caller(caller, app.api, { method: 'GET' });
      const document = this.#documents.parse(query);
      const operation = getOperationAST(document, name) ?? undefined;
      if (operation !== undefined && operation.operation !== OperationTypeNode.SUBSCRIPTION)
        return [failed('bad_request', 'Send queries and mutations with POST')];
      const problems = this.#documents.validate(document, operation, values);
      if (problems.length > 0) return problems;
      const contextValue = createScope(app, caller, { listen: () => this.#listen(client, caller) });
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

  #listen(client: Client, caller: Caller & { kind: 'user' }) {
    const user = { projectId: caller.project.id, userId: caller.userId };
    const events = new InboxEvents(user, (reason) => client.close(reason));
    events.onEnd = client.app.context.hub.add(events);
    return events;
  }

  #fail({ socket }: Client, error: unknown): void {
    const { status } = toClientError(error);
    if (status >= 500) this.#app.context.log.error({ err: error }, 'a GraphQL subscription failed');
    socket.webSocket.close(status === 503 ? 1013 : 4500, 'internal error');
  }
}

/** The reason as a close frame can hold it: some of the library contain an id that the client has chosen. */
function closeReason(reason = ''): string {
  let [bytes, fitting] = [0, ''];
  for (const character of reason) {
    bytes += Buffer.byteLength(character);
    if (bytes > MAX_REASON_BYTES) break;
    fitting += character;
  }
  return fitting;
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

/** One client, with its credential. */
class Client implements SocketClient {
  readonly socket: LiveSocket;
  /** Undefined until the client has sent its credential. */
  caller: (Caller & { kind: 'user' }) | undefined;
  /** Ends the subscriptions. */
  onClosed: (code: number, reason: string) => Promise<void> = async () => {};
  /** That of the user's cell, once the client has sent its credential. */
  app: ClientApp;
  /** That of the handshake, until the client has sent its credential. */
  request: IncomingMessage | undefined;
  #expiry: NodeJS.Timeout | undefined;

  constructor(socket: LiveSocket, app: ClientApp, request: IncomingMessage) {
    this.socket = socket;
    this.app = app;
    this.request = request;
  }

  /** Resolves when the connection has taken the text, so that a slow client slows its events down. */
  send(text: string): Promise<void> {
    return new Promise((resolve) => {
      if (this.socket.isOpen) this.socket.webSocket.send(text, () => resolve());
      else resolve();
    });
  }

  /** Closes the socket when its credential expires. */
  closeAfter(ms: number): void {
    if (!this.socket.isOpen || ms >= MAX_TIMEOUT_MS) return;
    this.#expiry = setTimeout(() => this.close('expired'), ms).unref();
  }

  async visit(): Promise<void> {
    const { app, caller } = this;
    if (caller !== undefined && !(await isValidNow(app.context, caller))) this.close('expired');
    else this.socket.ping();
  }

  close(reason: keyof typeof CLOSINGS): void {
    this.socket.webSocket.close(...CLOSINGS[reason]);
  }

  closed(code: number, reason: string): void {
    clearTimeout(this.#expiry);
    void this.onClosed(code, reason);
  }
}
