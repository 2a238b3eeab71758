import { type IncomingMessage, type Server, STATUS_CODES } from 'node:http';
import type { Duplex } from 'node:stream';
import { type ServerOptions, type WebSocket, WebSocketServer } from 'ws';
import { ClientError } from '../../errors.ts';
import type { Logger } from '../../lib/log.ts';
import { toClientError } from '../error-handler.ts';
import { hostProblem } from '../host.ts';
import { type Every, Rounds, realEvery } from './pending.ts';

// Common proxies drop connections on which nothing moved for 30 to 60 s.
const PING_EVERY_MS = 25_000;
const CLOSE_TIMEOUT_MS = 5_000;
const SHUTDOWN_TIMEOUT_MS = 800;

export interface WebSocketsOptions {
  server: Server;
  log: Logger;
  /** Counts rejected clients by address, and throws above the limit. */
  onRefused?: (request: IncomingMessage) => void | Promise<void>;
  every?: Every | undefined;
}

/** How some WebSockets of the HTTP server are served. */
export interface SocketProtocol<Admitted> {
  serves(path: string): boolean;
  /** The longest message of a client. */
  maxIncomingBytes: number;
  /** How often its clients are visited. Default: every 25 s. */
  visitEveryMs?: number;
  handleProtocols?: NonNullable<ServerOptions['handleProtocols']>;
  /** Called before the handshake. Throws a `ClientError` for a client that is rejected. */
  admit(request: IncomingMessage): Admitted | Promise<Admitted>;
  /** Called after the handshake. */
  open(socket: LiveSocket, admitted: Admitted): SocketClient;
}

/** What a protocol keeps of one client. */
export interface SocketClient {
  readonly socket: LiveSocket;
  /** Called regularly. Pings the client, unless it closes the socket. */
  visit(): void;
  close(reason: 'shutdown'): void;
  closed(code: number, reason: string): void;
}

/** The WebSockets of one protocol on this node: their handshakes, pings and end. */
export class WebSockets<Admitted> {
  readonly #options: WebSocketsOptions;
  readonly #protocol: SocketProtocol<Admitted>;
  readonly #open = new Set<SocketClient>();
  readonly #rounds: Rounds<SocketClient>;
  readonly #server: WebSocketServer;
  #closing = false;
  #onEmpty: (() => void) | undefined;

  constructor(options: WebSocketsOptions, protocol: SocketProtocol<Admitted>) {
    this.#options = options;
    this.#protocol = protocol;
    const { maxIncomingBytes: maxPayload, visitEveryMs = PING_EVERY_MS, handleProtocols } = protocol;
    this.#rounds = new Rounds(visitEveryMs, (client) => client.visit(), options.every ?? realEvery);
    this.#server = new WebSocketServer({
      noServer: true,
      clientTracking: false,
      perMessageDeflate: false, // costs 300 kB a connection
      maxPayload,
      ...(handleProtocols === undefined ? {} : { handleProtocols }),
      // Disconnects a client that does not respond to the closing. The types lack this option.
      ...{ closeTimeout: CLOSE_TIMEOUT_MS },
    });
    options.server.on('upgrade', (request, stream, head) => {
      if (protocol.serves(pathOf(request))) void this.#upgrade(request, stream, head);
    });
  }

  /** Closes all sockets, and waits less than a second for the clients. Call it before the server's. */
  async close(): Promise<void> {
    this.#closing = true;
    this.#rounds.stop();
    if (this.#open.size === 0) return;
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#onEmpty = resolve;
    const timer = setTimeout(() => {
      for (const { socket } of this.#open) socket.cut();
    }, SHUTDOWN_TIMEOUT_MS);
    for (const client of this.#open) client.close('shutdown');
    await promise;
    clearTimeout(timer);
  }

  async #upgrade(request: IncomingMessage, stream: Duplex, head: Buffer): Promise<void> {
    // The connection has no other listener until the handshake is done; `destroyed` below detects a break.
    stream.on('error', ignore);
    try {
      const admitted = await this.#admit(request);
      if (stream.destroyed) return;
      stream.off('error', ignore);
      this.#server.handleUpgrade(request, stream, head, (webSocket) =>
        this.#accept(new LiveSocket(webSocket, stream), admitted),
      );
    } catch (error) {
      refuse(stream, this.#logged(await this.#counted(error, request)));
    }
  }

  #admit(request: IncomingMessage): Admitted | Promise<Admitted> {
    if (this.#closing)
      throw new ClientError('service_unavailable', ['The server is shutting down'], { 'retry-after': '1' });
    const badHost = hostProblem(request);
    if (badHost !== undefined) throw new ClientError('bad_request', [badHost]);
    return this.#protocol.admit(request);
  }

  /** Returns the error, or that of the rate limit, so that tokens cannot be guessed here. */
  async #counted(error: unknown, request: IncomingMessage): Promise<unknown> {
    if (!(error instanceof ClientError) || error.status >= 500) return error;
    if (error.code === 'rate_limit_exceeded') return error; // of a valid token
    try {
      await this.#options.onRefused?.(request);
      return error;
    } catch (tooMany) {
      return tooMany;
    }
  }

  #logged(error: unknown): ClientError {
    const known = toClientError(error);
    if (known.code === 'internal_error')
      this.#options.log.error({ err: error }, 'a WebSocket could not be opened');
    return known;
  }

  #accept(socket: LiveSocket, admitted: Admitted): void {
    const client = this.#protocol.open(socket, admitted);
    this.#open.add(client);
    const leaveRounds = this.#rounds.add(client);
    socket.webSocket.on('close', (code, reason) => {
      client.closed(code, reason.toString());
      leaveRounds();
      this.#open.delete(client);
      if (this.#open.size === 0) this.#onEmpty?.();
    });
    if (this.#closing) client.close('shutdown');
  }
}

const ignore = () => {};

/** One client's WebSocket. Without its request, whose headers and query take a kilobyte of memory. */
export class LiveSocket {
  readonly webSocket: WebSocket;
  readonly stream: Duplex;
  #hasPonged = true;

  constructor(webSocket: WebSocket, stream: Duplex) {
    this.webSocket = webSocket;
    this.stream = stream;
    webSocket.on('pong', () => {
      this.#hasPonged = true;
    });
    // A protocol error or a broken connection; `close` follows.
    webSocket.on('error', ignore);
  }

  get isOpen(): boolean {
    return this.webSocket.readyState === this.webSocket.OPEN;
  }

  /** Pings the client, or disconnects it if it did not respond to the last ping. */
  ping(): void {
    if (!this.#hasPonged) {
      this.cut();
      return;
    }
    this.#hasPonged = false;
    if (this.isOpen) this.webSocket.ping();
  }

  cut(): void {
    this.webSocket.terminate();
  }
}

/** The path of a request without its query. */
export function pathOf({ url = '' }: IncomingMessage): string {
  return url.split('?', 1)[0] ?? '';
}

/** The query of a request. */
export function queryOf({ url = '' }: IncomingMessage): URLSearchParams {
  const [, query = ''] = url.split('?', 2);
  return new URLSearchParams(query);
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
