import { type IncomingMessage, type Server, STATUS_CODES } from 'node:http';
import type { Duplex } from 'node:stream';
import { type WebSocket, WebSocketServer } from 'ws';
import { isDatabaseUnavailable } from '../../db/client.ts';
import type { Frame } from '../../domain/after/realtime/frame.ts';
import type { Hub } from '../../domain/after/realtime/hub.ts';
import type { CloseReason, Connection } from '../../domain/after/realtime/subscription.ts';
import { ClientError } from '../../errors.ts';
import type { Logger } from '../../lib/log.ts';
import { hostProblem } from '../host.ts';
import type { SocketAuthenticator, SocketCaller } from './authenticate-socket.ts';
import { type Every, MAX_PENDING_BYTES, Rounds, realEvery, whenDrained } from './pending.ts';

// Common proxies drop connections on which nothing moved for 30 to 60 s.
const PING_EVERY_MS = 25_000;
// Clients send no messages. Enough for what libraries send, and too little to fill memory.
const MAX_INCOMING_BYTES = 4_096;
const CLOSE_TIMEOUT_MS = 5_000;
const SHUTDOWN_TIMEOUT_MS = 800;
const MAX_TOKEN_CHARACTERS = 4_096;

/** The path of the WebSockets for GraphQL subscriptions. */
export const GRAPHQL_PATH = '/graphql';

/** The status codes (RFC 6455; 4000 and up are ours) and reasons of closed sockets. */
export const CLOSINGS: Record<CloseReason, [code: number, reason: string]> = {
  token_discarded: [4001, 'the token was discarded'],
  user_deleted: [4004, 'the user was deleted'],
  replaced: [4002, 'a newer connection has taken over'],
  too_many: [4003, 'too many connections of this user'],
  slow: [1013, 'reads too slowly: connect again and fetch what was missed'],
  behind: [1013, 'some messages may be missing: connect again and fetch the list'],
  shutdown: [1001, 'going away'],
};

export interface SocketOptions {
  server: Server;
  hub: Hub;
  authenticate: SocketAuthenticator;
  log: Logger;
  /** Counts rejected clients by address, and throws above the limit. */
  onRefused?: (request: IncomingMessage) => void | Promise<void>;
  every?: Every;
}

/**
 * Serves WebSockets at `/` of the HTTP server: `?api_key=…&token=…[&connection_id=…]`. Close it before the
 * server.
 */
export function serveSockets(options: SocketOptions): Sockets {
  return new Sockets(options);
}

/** All WebSockets of this node. */
export class Sockets {
  readonly #options: SocketOptions;
  readonly #open = new Set<Socket>();
  readonly #rounds: Rounds<Socket>;
  readonly #webSockets = new WebSocketServer({
    noServer: true,
    clientTracking: false,
    perMessageDeflate: false, // costs 300 kB a connection
    maxPayload: MAX_INCOMING_BYTES,
    // Disconnects a client that does not respond to the closing. The types lack this option.
    ...{ closeTimeout: CLOSE_TIMEOUT_MS },
  });
  readonly #onUpgrade = (request: IncomingMessage, socket: Duplex, head: Buffer) =>
    void this.#upgrade(request, socket, head);
  #closing = false;
  #onEmpty: (() => void) | undefined;

  constructor(options: SocketOptions) {
    this.#options = options;
    this.#rounds = new Rounds(PING_EVERY_MS, (socket) => socket.ping(), options.every ?? realEvery);
    options.server.on('upgrade', this.#onUpgrade);
  }

  /** Closes all sockets, and waits less than a second for the clients. */
  async close(): Promise<void> {
    this.#closing = true;
    this.#rounds.stop();
    if (this.#open.size === 0) return;
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#onEmpty = resolve;
    const timer = setTimeout(() => {
      for (const socket of this.#open) socket.cut();
    }, SHUTDOWN_TIMEOUT_MS);
    for (const socket of this.#open) socket.close('shutdown');
    await promise;
    clearTimeout(timer);
  }

  async #upgrade(request: IncomingMessage, stream: Duplex, head: Buffer): Promise<void> {
    if (pathOf(request) === GRAPHQL_PATH) return; // graphql/sockets.ts
    // The connection has no other listener until the handshake is done; `destroyed` below detects a break.
    stream.on('error', ignore);
    try {
      const caller = await this.#admit(request);
      if (stream.destroyed) return;
      stream.off('error', ignore);
      this.#webSockets.handleUpgrade(request, stream, head, (webSocket) =>
        this.#accept(webSocket, stream, caller),
      );
    } catch (error) {
      refuse(stream, this.#toClientError(await this.#counted(error, request)));
    }
  }

  async #admit(request: IncomingMessage): Promise<SocketCaller> {
    if (this.#closing)
      throw new ClientError('service_unavailable', ['The server is shutting down'], { 'retry-after': '1' });
    const badHost = hostProblem(request);
    if (badHost !== undefined) throw new ClientError('bad_request', [badHost]);
    if (pathOf(request) !== '/')
      throw new ClientError('not_found', ['There is no WebSocket at this path; it is at /']);
    const [, query = ''] = (request.url ?? '').split('?', 2);
    const parameters = new URLSearchParams(query);
    const apiKey = parameters.get('api_key') ?? '';
    const token = parameters.get('token') ?? '';
    const missing = ['api_key', 'token'].filter((name) => (parameters.get(name) ?? '') === '');
    if (missing.length > 0) {
      throw new ClientError(
        'jwt_auth_failed',
        missing.map((name) => `The query parameter '${name}' is missing`),
      );
    }
    const fits = token.length <= MAX_TOKEN_CHARACTERS;
    const caller = fits ? await this.#options.authenticate({ apiKey, token }) : undefined;
    if (caller === undefined) {
      throw new ClientError('jwt_auth_failed', [
        'The API key or the token is unknown, or the token was discarded',
      ]);
    }
    if (caller.connectionId !== null && caller.connectionId !== parameters.get('connection_id')) {
      throw new ClientError('forbidden', [
        'The token is meant for another connection: connection_id differs',
      ]);
    }
    return caller;
  }

  /** Returns the error, or that of the rate limit, so that tokens cannot be guessed here. */
  async #counted(error: unknown, request: IncomingMessage): Promise<unknown> {
    if (!(error instanceof ClientError) || error.status >= 500) return error;
    try {
      await this.#options.onRefused?.(request);
      return error;
    } catch (tooMany) {
      return tooMany;
    }
  }

  #toClientError(error: unknown): ClientError {
    if (error instanceof ClientError) return error;
    if (isDatabaseUnavailable(error))
      return new ClientError('service_unavailable', [], { 'retry-after': '1' });
    this.#options.log.error({ err: error }, 'a WebSocket could not be opened');
    return new ClientError('internal_error');
  }

  #accept(webSocket: WebSocket, stream: Duplex, caller: SocketCaller): void {
    const socket = new Socket(webSocket, stream, caller);
    this.#open.add(socket);
    const leaveRounds = this.#rounds.add(socket);
    const leaveHub = this.#options.hub.add(socket);
    socket.onGone = leaveHub;
    webSocket.on('close', () => {
      leaveHub();
      leaveRounds();
      this.#open.delete(socket);
      if (this.#open.size === 0) this.#onEmpty?.();
    });
    if (this.#closing) socket.close('shutdown');
  }
}

const ignore = () => {};

/** The path of a request without its query. */
export function pathOf({ url = '' }: IncomingMessage): string {
  return url.split('?', 1)[0] ?? '';
}

/** One client's WebSocket. */
class Socket implements Connection {
  readonly kind = 'socket';
  readonly projectId: string;
  readonly userId: string;
  readonly tokenId: string;
  readonly exclusive: boolean;
  /** Removes it from the hub, so that nothing more is written. */
  onGone: () => void = () => {};
  readonly #webSocket: WebSocket;
  readonly #stream: Duplex;
  #hasPonged = true;

  constructor(webSocket: WebSocket, stream: Duplex, caller: SocketCaller) {
    this.projectId = caller.projectId;
    this.userId = caller.userId;
    this.tokenId = caller.tokenId;
    this.exclusive = caller.connectionId !== null;
    this.#webSocket = webSocket;
    this.#stream = stream;
    webSocket.on('pong', () => {
      this.#hasPonged = true;
    });
    // A protocol error or a broken connection; `close` follows.
    webSocket.on('error', ignore);
  }

  /**
   * Writes the frame to the TCP connection itself: one buffer for all of a user's sockets, one system call.
   * Without compression the library keeps no state between frames that this could disturb.
   */
  send(frame: Frame): void {
    if (this.#webSocket.readyState !== this.#webSocket.OPEN) return;
    if (this.#stream.writableLength > MAX_PENDING_BYTES) this.close('slow');
    else this.#stream.write(encoded(frame));
  }

  begin(): void {} // the protocol has no cursor

  resync(): void {
    this.close('behind');
  }

  drained(): Promise<void> | undefined {
    return whenDrained(this.#stream);
  }

  close(reason: CloseReason): void {
    this.onGone();
    this.#webSocket.close(...CLOSINGS[reason]);
  }

  cut(): void {
    this.#webSocket.terminate();
  }

  /** Pings the client, or disconnects it if it did not respond to the last ping. */
  ping(): void {
    if (!this.#hasPonged) {
      this.cut();
      return;
    }
    this.#hasPonged = false;
    if (this.#webSocket.readyState === this.#webSocket.OPEN) this.#webSocket.ping();
  }
}

// The sockets of one user are written to one after another, all with the same frame.
let lastFrame: Frame | undefined;
let lastBytes: Buffer = Buffer.alloc(0);

function encoded(frame: Frame): Buffer {
  if (frame === lastFrame) return lastBytes;
  lastFrame = frame;
  lastBytes = encodeTextFrame(frame.json);
  return lastBytes;
}

/** A whole, unmasked text message as RFC 6455 (5.2) frames it. */
function encodeTextFrame(text: string): Buffer {
  const length = Buffer.byteLength(text);
  const head = length < 126 ? 2 : length < 65_536 ? 4 : 10;
  const bytes = Buffer.allocUnsafe(head + length);
  bytes[0] = 0x81; // final fragment, text
  if (head === 2) bytes[1] = length;
  else if (head === 4) {
    bytes[1] = 126;
    bytes.writeUInt16BE(length, 2);
  } else {
    bytes[1] = 127;
    bytes.writeBigUInt64BE(BigInt(length), 2);
  }
  bytes.write(text, head);
  return bytes;
}

/** Responds to a rejected WebSocket like to any other request. */
export function refuse(stream: Duplex, error: ClientError): void {
  if (stream.destroyed) return;
  const body = JSON.stringify({ errors: error.problems });
  const headers = {
    connection: 'close',
    'content-type': 'application/json; charset=utf-8',
    'content-length': String(Buffer.byteLength(body)),
    'cache-control': 'no-store',
    'x-content-type-options': 'nosniff',
    ...error.headers,
  };
  const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`);
  stream.once('finish', () => stream.destroy());
  stream.end(`HTTP/1.1 ${error.status} ${STATUS_CODES[error.status]}\r\n${lines.join('')}\r\n${body}`);
}
