import { validateHeaderValue } from 'node:http';
import {
  type ClientHttp2Session,
  type ClientHttp2Stream,
  constants,
  type IncomingHttpHeaders,
} from 'node:http2';
import type { Socket } from 'node:net';
import { afterAwake } from '../../lib/awake.ts';
import { type HttpError, toHttpError } from './http-error.ts';
import type { HttpRequest, HttpResult, Timeouts } from './transport.ts';

/**
 * The most streams per session, if the server does not allow fewer: more than some hundreds bring no gain.
 */
const MAX_STREAMS = 500;
const MAX_RESPONSE_BYTES = 64 * 1024;

/** A request and the callback for its response. */
export type Exchange = {
  request: HttpRequest;
  path: string;
  retries: number;
  timer?: NodeJS.Timeout;
  resolve: (response: HttpResult) => void;
};

/** Callbacks of the pool, called on events of a session. */
export type SessionListener = {
  /** The session may have room now. */
  changed(): void;
  /** The session accepts no more requests. */
  draining(session: Http2Session): void;
  ended(session: Http2Session): void;
  /** The server has not processed the request. */
  unprocessed(exchange: Exchange, error: HttpError): void;
};

/** One HTTP/2 connection, from opening to end. */
export class Http2Session {
  readonly #http2: ClientHttp2Session;
  readonly #socket: Socket;
  /** The `:scheme` and `:authority` headers of every request. */
  readonly #origin: readonly string[];
  readonly #limits: Timeouts;
  readonly #listener: SessionListener;
  readonly #idle: NodeJS.Timeout;
  readonly #ended: Promise<void>;
  #pinging = false;
  #ending = false;
  #lastProcessed = Number.POSITIVE_INFINITY; // of GOAWAY: the last stream that the other side will process
  #failure: Error | undefined;
  streams = 0;
  /** Whether the server has ever responded on it. */
  hasResponded = false;

  constructor(
    { http2, socket, url }: { http2: ClientHttp2Session; socket: Socket; url: URL },
    limits: Timeouts,
    pingAfterMs: number,
    listener: SessionListener,
  ) {
    this.#http2 = http2;
    this.#socket = socket;
    const port = url.port || (url.protocol === 'https:' ? '443' : '80');
    this.#origin = [':scheme', url.protocol.slice(0, -1), ':authority', `${url.hostname}:${port}`];
    this.#limits = limits;
    this.#listener = listener;
    this.#idle = setTimeout(() => this.#ping(), pingAfterMs).unref();
    http2.on('error', (error) => (this.#failure ??= error));
    http2.on('remoteSettings', () => listener.changed());
    http2.on('goaway', (code, lastStream) => {
      // The first of two GOAWAY frames may carry the highest stream id instead of the last one (RFC 9113,
      // 6.8).
      this.#lastProcessed = Math.min(this.#lastProcessed, lastStream);
      this.#failure ??= Object.assign(new Error(`the server ended the connection (GOAWAY, ${code})`), {
        code: 'ECONNRESET',
      });
      void this.end();
    });
    this.#ended = new Promise((resolve) => {
      http2.once('close', () => {
        clearTimeout(this.#idle);
        listener.ended(this);
        resolve();
      });
    });
  }

  /** How many more requests the session accepts. */
  get room(): number {
    const { closed, destroyed, remoteSettings } = this.#http2;
    if (this.#ending || closed || destroyed) return 0;
    return Math.min(remoteSettings.maxConcurrentStreams ?? MAX_STREAMS, MAX_STREAMS) - this.streams;
  }

  /**
   * Resolves when the server has sent its settings, which proves that it speaks HTTP/2. Otherwise rejects and
   * destroys the session.
   */
  async settingsReceived(timeoutMs: number): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    const clear = afterAwake(timeoutMs, () => {
      this.#failure ??= Object.assign(new Error('the server did not begin to speak HTTP/2 in time'), {
        code: 'ETIMEDOUT',
      });
      this.destroy();
    });
    this.#http2.once('remoteSettings', resolve);
    await Promise.race([promise, this.#ended]);
    clear();
    if (this.#ending || this.#http2.closed || this.#http2.destroyed) {
      this.destroy();
      throw this.#failure ?? connectionClosed();
    }
  }

  /** Writes the request and resolves it with the response. */
  send(exchange: Exchange): void {
    const { method, headers, body } = exchange.request;
    let stream: ClientHttp2Stream;
    try {
      // A complete list of headers, because node copies an object or an incomplete list first.
      const list = [':method', method, ':path', exchange.path, ...this.#origin, 'user-agent', 'Belfry'];
      for (const [name, value] of Object.entries(headers ?? {})) {
        validateHeaderValue(name, value); // node's http2 accepts invalid values
        list.push(name, value);
      }
      stream = this.#http2.request(list);
    } catch (error) {
      // The session has ended (or used up its stream ids), or the request is invalid.
      if (/^ERR_HTTP2_(GOAWAY_SESSION|INVALID_SESSION|OUT_OF_STREAMS)$/.test(toHttpError(error).code)) {
        void this.end();
        this.#listener.unprocessed(exchange, toHttpError(error));
      } else exchange.resolve({ error: toHttpError(error), written: false });
      return;
    }
    this.#listen(stream, exchange);
    stream.end(body);
  }

  #listen(stream: ClientHttp2Stream, exchange: Exchange): void {
    this.streams += 1;
    this.#idle.refresh();
    let status = 0;
    let headers: Record<string, string> = {};
    const chunks: Buffer[] = [];
    let bytes = 0;
    let whole = false;
    let failure: Error | undefined;
    let late = false;
    const clearDeadline = afterAwake(this.#limits.replyMs, () => {
      late = true;
      stream.close(constants.NGHTTP2_CANCEL);
      this.#ping(); // if the connection is dead, the other requests need not wait for their own deadlines
    });
    // Not once(): its removal of listeners takes longer than the listeners themselves.
    stream.on('response', (given) => {
      this.hasResponded = true;
      status = Number(given[constants.HTTP2_HEADER_STATUS]);
      headers = joinHeaders(given);
    });
    stream.on('data', (chunk: Buffer) => {
      if (bytes < MAX_RESPONSE_BYTES) chunks.push(chunk);
      bytes += chunk.length;
    });
    stream.on('end', () => (whole = status !== 0));
    stream.on('error', (error) => (failure = error));
    // Emitted last in every case, also when the connection is lost.
    stream.on('close', () => {
      clearDeadline();
      this.streams -= 1;
      const { id = Number.POSITIVE_INFINITY, rstCode } = stream;
      // A lost connection also ends its streams, but with an error code.
      if (whole && !late && rstCode === constants.NGHTTP2_NO_ERROR)
        exchange.resolve({ status, headers, text: textOf(chunks) });
      else if (rstCode === constants.NGHTTP2_REFUSED_STREAM || id > this.#lastProcessed)
        this.#listener.unprocessed(exchange, {
          code: 'REFUSED_STREAM',
          message: 'the server did not process the request',
        });
      else
        exchange.resolve({
          error: late ? timedOut() : toHttpError(this.#failure ?? failure ?? connectionClosed()),
          written: true,
        });
      if (this.#ending && this.streams === 0) this.destroy();
      this.#listener.changed();
    });
  }

  /** Pings the server. Destroys the session if there is no reply within `connectMs`. */
  #ping(): void {
    if (this.#pinging || this.#http2.destroyed) return;
    this.#pinging = true;
    const clear = afterAwake(this.#limits.connectMs, () => {
      this.#failure ??= Object.assign(new Error('the connection has died'), { code: 'ETIMEDOUT' });
      this.destroy();
    });
    const sent = this.#http2.ping(() => {
      clear();
      this.#pinging = false;
      if (!this.#http2.destroyed) this.#idle.refresh();
    });
    if (sent) return;
    clear();
    this.#pinging = false;
  }

  /** Accepts no more requests, and ends when those in flight have finished. */
  end(): Promise<void> {
    this.#ending = true;
    this.#listener.draining(this);
    if (this.streams === 0) this.destroy();
    return this.#ended;
  }

  /** Destroys the socket too: node would wait for the server to close it. */
  destroy(): void {
    this.#http2.destroy(undefined, constants.NGHTTP2_CANCEL);
    setImmediate(() => this.#socket.destroy());
  }
}

function textOf(chunks: readonly Buffer[]): string {
  const [only] = chunks;
  if (only === undefined) return '';
  const all = chunks.length === 1 ? only : Buffer.concat(chunks);
  return all.toString('utf8', 0, MAX_RESPONSE_BYTES);
}

function joinHeaders(given: IncomingHttpHeaders): Record<string, string> {
  const headers: Record<string, string> = {};
  for (const name of Object.keys(given)) {
    const value = given[name];
    if (value !== undefined && !name.startsWith(':'))
      headers[name] = Array.isArray(value) ? value.join(', ') : value;
  }
  return headers;
}

function timedOut(): HttpError {
  return { code: 'ETIMEDOUT', message: 'the response took too long' };
}

function connectionClosed(): Error {
  return Object.assign(new Error('the connection was closed'), { code: 'ECONNRESET' });
}
