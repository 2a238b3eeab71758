import { connect } from 'node:http2';
import { traceHttp } from '../../lib/tracing.ts';
import { type HttpError, toHttpError } from './http-error.ts';
import { type Exchange, Http2Session } from './http2-session.ts';
import type { Endpoint, HttpRequest, HttpResult, Timeouts } from './transport.ts';

const MAX_SESSIONS = 4;
/** A request that the server did not process moves to another session at most this often. */
const MAX_RETRIES = 2;
const PING_AFTER_MS = 60_000; // firewalls and load balancers drop connections after some idle minutes
const REOPEN_AFTER_MS = 1_000; // delay after a failed connect while other sessions work

/**
 * Long-lived HTTP/2 sessions to one origin: one at first, more when all are full. An `http:` origin is spoken
 * to without TLS, with prior knowledge (RFC 9113, 3.3). A request is written again only if the server has not
 * processed it: its stream is above the last one of a GOAWAY, or was refused (RFC 9113, 6.8 and 8.7).
 */
export class Http2Pool implements Pick<Endpoint, 'request'> {
  readonly #endpoint: Endpoint;
  /** The path of the base, a prefix of every request; undefined if the base is not a web address. */
  readonly #path: string | undefined;
  readonly #limits: Timeouts;
  readonly #pingAfterMs: number;
  /** Sessions that accept requests. */
  readonly #sessions = new Set<Http2Session>();
  /** Sessions that only finish the requests they have. */
  readonly #draining = new Set<Http2Session>();
  readonly #waiting = new Set<Exchange>();
  #opening = false;
  #reopenAt = 0;
  #closed = false;

  /** Connects on the first request. */
  constructor(endpoint: Endpoint, timeouts: Timeouts, { pingAfterMs = PING_AFTER_MS } = {}) {
    this.#endpoint = endpoint;
    const base = URL.parse(endpoint.base);
    if (base?.protocol === 'https:' || base?.protocol === 'http:')
      this.#path = base.pathname.replace(/\/+$/, '');
    this.#limits = timeouts;
    this.#pingAfterMs = pingAfterMs;
  }

  /** Sends a request. Never rejects, and ends within the timeouts. */
  request(request: HttpRequest): Promise<HttpResult> {
    if (this.#path === undefined)
      return Promise.resolve(unsent('ERR_INVALID_URL', 'this is not a web address'));
    if (this.#closed) return Promise.resolve(unsent('CLOSED', 'the connection is being closed'));
    const response = new Promise<HttpResult>((resolve) => {
      const exchange: Exchange = { request, path: `${this.#path}${request.path}`, retries: 0, resolve };
      const session = this.#waiting.size === 0 ? this.#leastBusy() : undefined;
      if (session === undefined) {
        this.#wait(exchange);
        this.#next();
      } else session.send(exchange); // needs no queue timer
    });
    return traceHttp(this.#endpoint.base, request.method, response);
  }

  /**
   * Closes the sessions. Requests in flight have `graceMs` to finish; requests not yet written fail at once.
   */
  async close({ graceMs = 10_000 }: { graceMs?: number } = {}): Promise<void> {
    this.#closed = true;
    for (const exchange of this.#waiting)
      this.#leave(exchange, unsent('CLOSED', 'the connection is being closed'));
    const sessions = [...this.#sessions, ...this.#draining];
    const timer = setTimeout(() => {
      for (const session of sessions) session.destroy();
    }, graceMs);
    await Promise.all(sessions.map((session) => session.end()));
    clearTimeout(timer);
  }

  /** Queues the request for as long as opening a session and one response may take. */
  #wait(exchange: Exchange): void {
    const { connectMs, replyMs } = this.#limits;
    this.#waiting.add(exchange);
    exchange.timer = setTimeout(
      () => this.#leave(exchange, unsent('ETIMEDOUT', 'no connection became free in time')),
      connectMs + replyMs,
    );
  }

  #leave(exchange: Exchange, response?: HttpResult): void {
    clearTimeout(exchange.timer);
    this.#waiting.delete(exchange);
    if (response !== undefined) exchange.resolve(response);
  }

  /** Assigns queued requests to the least busy session with room; opens another session if none has. */
  #next(): void {
    for (const exchange of this.#waiting) {
      const session = this.#leastBusy();
      if (session === undefined) break;
      this.#leave(exchange);
      session.send(exchange);
    }
    if (this.#waiting.size === 0 || this.#opening || this.#closed) return;
    // A session allows few streams, or one, until it knows the client. Judge its room only after its first
    // response.
    const [...sessions] = this.#sessions;
    if (sessions.length >= MAX_SESSIONS || sessions.some(({ hasResponded }) => !hasResponded)) return;
    if (sessions.length > 0 && performance.now() < this.#reopenAt) return;
    this.#opening = true;
    void this.#open();
  }

  #leastBusy(): Http2Session | undefined {
    let best: Http2Session | undefined;
    for (const session of this.#sessions)
      if (session.room > 0 && (best === undefined || session.streams < best.streams)) best = session;
    return best;
  }

  async #open(): Promise<void> {
    const { connectMs } = this.#limits;
    const url = new URL(this.#endpoint.base);
    let failure: unknown;
    try {
      const startedAt = performance.now();
      const socket = await this.#endpoint.connect({ alpn: 'h2', timeoutMs: connectMs });
      // Nothing would listen to the errors of a pushed stream, and Node ends the process at the first one.
      const settings = { enablePush: false };
      const http2 = connect(url.origin, { createConnection: () => socket, settings });
      const session = new Http2Session({ http2, socket, url }, this.#limits, this.#pingAfterMs, {
        changed: () => this.#next(),
        draining: (it) => {
          if (this.#sessions.delete(it)) this.#draining.add(it);
          this.#next();
        },
        ended: (it) => {
          this.#sessions.delete(it);
          this.#draining.delete(it);
          this.#next();
        },
        unprocessed: (exchange, error) => this.#retry(exchange, error),
      });
      await session.settingsReceived(Math.max(0, connectMs - (performance.now() - startedAt)));
      if (this.#closed) session.destroy();
      else this.#sessions.add(session);
    } catch (error) {
      failure = error;
    }
    this.#opening = false;
    if (failure !== undefined) {
      this.#reopenAt = performance.now() + REOPEN_AFTER_MS;
      // Queued requests wait for the other sessions; they fail only if there are none.
      const response = { error: toHttpError(failure), written: false };
      if (this.#sessions.size === 0) for (const exchange of this.#waiting) this.#leave(exchange, response);
    }
    this.#next();
  }

  #retry(exchange: Exchange, error: HttpError): void {
    exchange.retries += 1;
    if (this.#closed || exchange.retries > MAX_RETRIES) {
      exchange.resolve({ error, written: false });
      return;
    }
    this.#wait(exchange);
    this.#next();
  }
}

function unsent(code: string, message: string): HttpResult {
  return { error: { code, message }, written: false };
}
