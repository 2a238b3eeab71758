/**
 * HTTP to vendors. Every address that a customer can choose passes the egress guard at each new connection.
 * Connections are kept alive and shared, every wait and every response size has a limit, and redirects are
 * not followed.
 */

import type { Socket } from 'node:net';
import { connect as connectTls } from 'node:tls';
import type { Dispatcher } from 'undici';
import { afterAwake } from '../../lib/awake.ts';
import { createEgressGuard, type EgressGuard } from '../../lib/egress.ts';
import { loadOnce } from '../../lib/load-once.ts';
import { traceHttp } from '../../lib/tracing.ts';
import { type HttpError, toHttpError } from './http-error.ts';
import { UnreachableHosts } from './unreachable-hosts.ts';

/** How long a sender waits for the vendor, in milliseconds. */
export type Timeouts = {
  /** DNS, TCP and TLS together. */
  connectMs: number;
  /** From the end of the request to the response; in a protocol of several steps, per step. */
  replyMs: number;
  /** An idle connection is closed after this. */
  idleMs: number;
};

/** A setting that replaces a vendor's origin, for a proxy or for tests. */
export type OriginSetting = `PROVIDER_${string}_URL`;

/** A request relative to an endpoint's base. */
export type HttpRequest = {
  method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';
  /** Appended to the base: begins with a slash, or is empty. */
  path: string;
  headers?: Readonly<Record<string, string>>;
  body?: string | Buffer;
  /** How much of the response body is read; 1 MiB by default. */
  maxResponseBytes?: number;
};

/**
 * The result of a request: a response of any status, or an error. `written` is whether the request may have
 * arrived nevertheless.
 */
export type HttpResult = HttpResponse | { error: HttpError; written: boolean };
export type HttpResponse = {
  status: number;
  /** Names are in lower case. The values of a repeated header are joined with commas. */
  headers: Readonly<Record<string, string>>;
  /** The body, up to the limit of the request. */
  text: string;
  /** Whether the body was longer. */
  truncated?: true;
};
/** A server to send requests to. */
export type Endpoint = {
  /** Without a trailing slash: `https://api.example.com`. */
  readonly base: string;
  /** Sends a request. Never rejects, and ends within the timeouts. */
  request(request: HttpRequest): Promise<HttpResult>;
  /** Connects to the origin, for HTTP/2. Rejects at once while the origin counts as unreachable. */
  connect(options: { alpn: 'h2'; timeoutMs: number }): Promise<Socket>;
};

export type Transport = {
  readonly timeouts: Timeouts;
  /** Returns the endpoint for an address that a customer chose: connections pass the egress guard. */
  at(base: string): Endpoint;
  /**
   * Returns the endpoint of a vendor's own API: at `origin`, unless the operator replaced it with this
   * setting. The operator's address does not pass the guard.
   */
  vendor(setting: OriginSetting, origin: string): Endpoint;
  /** Aborts the requests in flight. */
  close(): Promise<void>;
};

const DEFAULT_TIMEOUTS: Timeouts = { connectMs: 10_000, replyMs: 30_000, idleMs: 30_000 };
const MAX_RESPONSE_BYTES = 1024 * 1024;
const CLOSED: HttpError = { code: 'CLOSED', message: 'the server is stopping' };
// Per origin, for all integrations. Each sender has its own concurrency limit, so hanging accounts of one
// project cannot use up the connections of the others at the same vendor.
const MAX_CONNECTIONS = 512;

/** Creates a transport. It connects on the first request. */
export function createTransport({
  egress,
  origins = {},
  timeouts,
}: {
  egress: EgressGuard;
  /** The origins that the operator has replaced. */
  origins?: { readonly [Setting in OriginSetting]?: string | undefined };
  timeouts?: Partial<Timeouts>;
}): Transport {
  const limits = { ...DEFAULT_TIMEOUTS, ...timeouts };
  const guarded = new HttpClient(egress.connect, limits);
  const open = new HttpClient(createEgressGuard({ allow: '0.0.0.0/0,::/0' }).connect, limits);
  return {
    timeouts: limits,
    at: (base) => guarded.to(base),
    vendor(setting, origin) {
      const replaced = origins[setting];
      return replaced === undefined ? guarded.to(origin) : open.to(replaced);
    },
    async close() {
      await Promise.all([guarded.close(), open.close()]);
    },
  };
}

/** The connections that were opened by one `connect` function, with the guard or without. */
class HttpClient {
  readonly #connect: EgressGuard['connect'];
  readonly #timeouts: Timeouts;
  readonly #unreachable = new UnreachableHosts();
  readonly #load = loadOnce(() => this.#open());
  #agent: Dispatcher | undefined;
  #closed = false;

  constructor(connect: EgressGuard['connect'], timeouts: Timeouts) {
    this.#connect = connect;
    this.#timeouts = timeouts;
  }

  to(base: string): Endpoint {
    const root = base.replace(/\/+$/, '');
    let last: Target | undefined; // cached, because nearly all requests to a base have the same path
    return {
      base: root,
      connect: (options) => this.#openSocket(new URL(root), options),
      request: (request) => {
        if (last?.given !== request.path) last = targetOf(root, request.path);
        return this.#request(last, request);
      },
    };
  }

  #request({ origin, path }: Target, request: HttpRequest): Promise<HttpResult> {
    if (origin === undefined)
      return Promise.resolve({
        error: { code: 'ERR_INVALID_URL', message: 'this is not a web address' },
        written: false,
      });
    if (this.#closed) return Promise.resolve({ error: CLOSED, written: false });
    const sent = (agent: Dispatcher) =>
      traceHttp(
        origin,
        request.method,
        exchange(agent, { origin, path, isClosed: () => this.#closed }, request, this.#timeouts),
      );
    if (this.#agent !== undefined) return sent(this.#agent);
    return this.#load().then(
      (agent) => (this.#closed ? { error: CLOSED, written: false } : sent(agent)),
      (error: unknown) => ({ error: toHttpError(error), written: false }),
    );
  }

  /** Loads undici on the first request: most small servers never send one. */
  async #open(): Promise<Dispatcher> {
    const { Agent } = await import('undici');
    this.#agent = new Agent({
      connections: MAX_CONNECTIONS,
      pipelining: 1,
      // Only HTTP/1.1 is offered (`alpn`). Where HTTP/2 is possible, undici opens one connection at a time
      // until the first one has negotiated, so requests to a dead origin would time out one after another.
      allowH2: false,
      keepAliveTimeout: this.#timeouts.idleMs,
      keepAliveMaxTimeout: this.#timeouts.idleMs, // ignore a longer one from an untrusted server
      connect: ({ hostname, port, protocol }, callback) => {
        const url = new URL(`${protocol}//${bracketed(hostname)}:${port || ''}`);
        this.#openSocket(url, { timeoutMs: this.#timeouts.connectMs, alpn: 'http/1.1' }).then(
          (socket) => callback(null, socket),
          (error: Error) => callback(error, null),
        );
      },
    });
    return this.#agent;
  }

  #openSocket(url: URL, options: { timeoutMs: number; alpn: 'http/1.1' | 'h2' }): Promise<Socket> {
    return this.#unreachable.connect(url.origin, () => openSocket(this.#connect, url, options));
  }

  async close(): Promise<void> {
    this.#closed = true;
    await this.#agent?.destroy();
  }
}

/** A parsed address; without `origin` if it is not a web address. */
type Target = { given: string; origin?: string; path: string };

function targetOf(root: string, given: string): Target {
  const url = URL.parse(root + given);
  if (url?.protocol !== 'https:' && url?.protocol !== 'http:') return { given, path: '' };
  return { given, origin: url.origin, path: url.pathname + url.search };
}

/** Opens a connection to the origin of a URL, with TLS for https. Certificates are always verified. */
async function openSocket(
  connect: EgressGuard['connect'],
  { protocol, hostname, port }: URL,
  { timeoutMs, alpn }: { timeoutMs: number; alpn: 'http/1.1' | 'h2' },
): Promise<Socket> {
  const host = hostname.replace(/^\[|\]$/g, '');
  const secure = protocol === 'https:';
  const startedAt = performance.now();
  const socket = await connect({ host, port: Number(port) || (secure ? 443 : 80), timeoutMs });
  if (!secure) return socket;
  return new Promise((resolve, reject) => {
    const tls = connectTls({
      socket,
      ...(/^[\d.]+$|:/.test(host) ? {} : { servername: host }), // not for IP addresses (RFC 6066, 3)
      host,
      ALPNProtocols: [alpn],
      rejectUnauthorized: true, // explicit, so that no environment variable disables it
      minVersion: 'TLSv1.2',
    });
    const timer = setTimeout(
      () =>
        tls.destroy(
          Object.assign(new Error(`TLS with ${host} took longer than ${timeoutMs} ms`), {
            code: 'ETIMEDOUT',
          }),
        ),
      Math.max(0, timeoutMs - (performance.now() - startedAt)),
    );
    tls.once('error', (error) => {
      clearTimeout(timer);
      reject(error);
    });
    tls.once('secureConnect', () => {
      clearTimeout(timer);
      tls.removeAllListeners('error');
      resolve(tls);
    });
  });
}

function bracketed(hostname: string): string {
  return hostname.includes(':') ? `[${hostname}]` : hostname;
}

/**
 * Sends one request. Uses undici's dispatch handlers, because a body stream and an abort signal per request
 * cost as much as all the rest. The handlers also report when the request begins to be written.
 */
function exchange(
  dispatcher: Dispatcher,
  { origin, path, isClosed }: { origin: string; path: string; isClosed: () => boolean },
  { method, headers, body, maxResponseBytes = MAX_RESPONSE_BYTES }: HttpRequest,
  { connectMs, replyMs }: Timeouts,
): Promise<HttpResult> {
  return new Promise((resolve) => {
    let sending: Dispatcher.DispatchController | undefined;
    let late = false;
    let status = 0;
    let received: Record<string, string> = {};
    let bytes = 0;
    const chunks: Buffer[] = [];
    const settle = (response: HttpResult) => {
      clearDeadline();
      resolve(response);
    };
    const finish = () => {
      const [only] = chunks;
      const read = chunks.length === 1 && only !== undefined ? only : Buffer.concat(chunks);
      const text = read.toString('utf8', 0, maxResponseBytes);
      const isCut = bytes > maxResponseBytes;
      settle({ status, headers: received, text, ...(isCut && { truncated: true }) });
    };
    // undici's timeouts end a silent response; this one also ends a response that trickles in byte by byte.
    const clearDeadline = afterAwake(connectMs + 2 * replyMs, () => {
      late = true;
      sending?.abort(TIMED_OUT);
      settle({ error: isClosed() ? CLOSED : toHttpError(TIMED_OUT), written: sending !== undefined });
    });
    dispatcher.dispatch(
      {
        origin,
        path,
        method,
        headers: { 'user-agent': 'Belfry', accept: '*/*', ...headers },
        body: body ?? null,
        headersTimeout: replyMs,
        bodyTimeout: replyMs,
      },
      {
        onRequestStart(controller) {
          sending = controller;
          if (late) controller.abort(TIMED_OUT); // it waited for a connection too long
        },
        onResponseStart(_controller, code, given) {
          status = code; // informational responses (1xx) are overwritten
          received = joinHeaders(given);
        },
        onResponseData(controller, chunk) {
          chunks.push(chunk);
          bytes += chunk.length;
          if (bytes <= maxResponseBytes) return;
          finish();
          controller.abort(TRUNCATED); // do not wait for the rest
        },
        onResponseEnd: finish,
        // Nothing was sent before onRequestStart.
        onResponseError: (_controller, error) =>
          settle({ error: isClosed() ? CLOSED : toHttpError(error), written: sending !== undefined }),
      },
    );
  });
}

const TIMED_OUT = Object.assign(new Error('the response took too long'), { code: 'ETIMEDOUT' });
const TRUNCATED = new Error('enough of the response was read');

/** Joins repeated headers; copies the headers only if there are any. */
function joinHeaders(
  headers: Readonly<Record<string, string | string[] | undefined>>,
): Record<string, string> {
  const all = Object.values(headers);
  if (all.every((value) => typeof value === 'string')) return headers as Record<string, string>;
  return Object.fromEntries(
    Object.entries(headers).flatMap(([name, value]) =>
      value === undefined ? [] : [[name, Array.isArray(value) ? value.join(', ') : value]],
    ),
  );
}
