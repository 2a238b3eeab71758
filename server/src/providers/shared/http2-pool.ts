import { connect } from 'node:http2';
import { described, type Exchange, Http2Session } from './http2-session.ts';
import type { Endpoint, HttpError, HttpRequest, HttpResult, Timeouts } from './transport.ts';

const MAX_SESSIONS = 4;
/** A request that the other side has not processed is given to another session so often. */
const MAX_REPEATS = 2;
const PING_AFTER_MS = 60_000; // firewalls and balancers forget connections that are silent for some minutes
const REOPEN_AFTER_MS = 1_000; // while other sessions work, an unresponsive address is not called all the time

/**
 * Long-lived HTTP/2 sessions to one origin, one to begin with and more while all are full. With `http:` it is
 * spoken without TLS, from the first byte on (RFC 9113, 3.3). A request is written once, or again where the
 * other side has said that it did not look at it: a stream above the last one of a GOAWAY, or a refused one
 * (RFC 9113, 6.8 and 8.7).
 */
export class Http2Pool implements Pick<Endpoint, 'request'> {
  readonly #endpoint: Endpoint;
  /** What comes before the path of every request; undefined where the base is no web address. */
  readonly #path: string | undefined;
  readonly #limits: Timeouts;
  readonly #pingAfterMs: number;
  /** Those that take requests, and those that only end what they have begun. */
  readonly #sessions = new Set<Http2Session>();
  readonly #draining = new Set<Http2Session>();
  readonly #waiting = new Set<Exchange>();
  #opening = false;
  #reopenAt = 0;
  #closed = false;

  /** Opens nothing before the first request. */
  constructor(endpoint: Endpoint, timeouts: Timeouts, { pingAfterMs = PING_AFTER_MS } = {}) {
    this.#endpoint = endpoint;
    const base = URL.parse(endpoint.base);
    if (base?.protocol === 'https:' || base?.protocol === 'http:')
      this.#path = base.pathname.replace(/\/+$/, '');
    this.#limits = timeouts;
    this.#pingAfterMs = pingAfterMs;
  }

  /** Never rejects, and always ends. */
  request(request: HttpRequest): Promise<HttpResult> {
    if (this.#path === undefined) return Promise.resolve(unsent('ERR_INVALID_URL', 'this is no web address'));
    if (this.#closed) return Promise.resolve(unsent('CLOSED', 'the connection is being closed'));
    return new Promise((resolve) => {
      const exchange: Exchange = { request, path: `${this.#path}${request.path}`, repeats: 0, resolve };
      const session = this.#waiting.size === 0 ? this.#freest() : undefined;
      if (session === undefined) {
        this.#wait(exchange);
        this.#next();
      } else session.carry(exchange); // without the timer that a place in the queue needs
    });
  }

  /** Ends the sessions. What is under way has `graceMs` to finish; what has not been written is not. */
  async close({ graceMs = 10_000 }: { graceMs?: number } = {}): Promise<void> {
    this.#closed = true;
    for (const exchange of this.#waiting)
      this.#leave(exchange, unsent('CLOSED', 'the connection is being closed'));
    const sessions = [...this.#sessions, ...this.#draining];
    const impatience = setTimeout(() => {
      for (const session of sessions) session.destroy();
    }, graceMs);
    await Promise.all(sessions.map((session) => session.end()));
    clearTimeout(impatience);
  }

  /**
   * Takes the exchange into the queue, for as long as opening a session and waiting for a response on it may
   * take.
   */
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

  /**
   * Gives what waits to sessions that have room, the least busy first; opens another session when none has.
   */
  #next(): void {
    for (const exchange of this.#waiting) {
      const session = this.#freest();
      if (session === undefined) break;
      this.#leave(exchange);
      session.carry(exchange);
    }
    if (this.#waiting.size === 0 || this.#opening || this.#closed) return;
    // A session lets few streams be open, or one alone, until it knows the client: let it respond once
    // before its room is judged.
    const [...sessions] = this.#sessions;
    if (sessions.length >= MAX_SESSIONS || sessions.some(({ proven }) => !proven)) return;
    if (sessions.length > 0 && performance.now() < this.#reopenAt) return;
    this.#opening = true;
    void this.#open();
  }

  #freest(): Http2Session | undefined {
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
      const http2 = connect(url.origin, { createConnection: () => socket });
      const session = new Http2Session({ http2, socket, url }, this.#limits, this.#pingAfterMs, {
        changed: () => this.#next(),
        draining: (it) => {
          if (this.#sessions.delete(it)) this.#draining.add(it);
        },
        ended: (it) => {
          this.#sessions.delete(it);
          this.#draining.delete(it);
          this.#next();
        },
        unprocessed: (exchange, error) => this.#again(exchange, error),
      });
      await session.greeted(Math.max(0, connectMs - (performance.now() - startedAt)));
      if (this.#closed) session.destroy();
      else this.#sessions.add(session);
    } catch (error) {
      failure = error;
    }
    this.#opening = false;
    if (failure !== undefined) {
      this.#reopenAt = performance.now() + REOPEN_AFTER_MS;
      // Other sessions will come to what waits; if there are none, nothing will.
      const response = { error: described(failure), written: false };
      if (this.#sessions.size === 0) for (const exchange of this.#waiting) this.#leave(exchange, response);
    }
    this.#next();
  }

  #again(exchange: Exchange, error: HttpError): void {
    exchange.repeats += 1;
    if (this.#closed || exchange.repeats > MAX_REPEATS) {
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
