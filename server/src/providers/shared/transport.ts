/**
 * HTTP to the vendors. Every address that a customer can name goes through the egress guard, at each new
 * connection; connections are kept alive and shared, every wait has a limit, a response is read only up to a limit,
 * and no redirect is followed.
 */
import type { Socket } from 'node:net';
import { connect as connectTls } from 'node:tls';
import type { Dispatcher } from 'undici';
import { createEgressGuard, type EgressGuard } from '../../lib/egress.ts';
import { UnreachableHosts } from './unreachable-hosts.ts';

/** How long a sender waits for the vendor, in milliseconds. */
export type Timeouts = {
  /** DNS, TCP and TLS together. */
  connectMs: number;
  /** From the end of the request to the response; in a protocol of many steps, for each step. */
  replyMs: number;
  /** A connection without work is closed after this. */
  idleMs: number;
};

/** A setting by which the operator replaces an origin of a vendor, for a proxy or for tests. */
export type OriginSetting = `PROVIDER_${string}_URL`;

/** A request below an endpoint's base. */
export type HttpRequest = {
  method: 'GET' | 'POST' | 'PUT' | 'DELETE';
  /** Follows the base: begins with a slash, or is empty. */
  path: string;
  headers?: Readonly<Record<string, string>>;
  body?: string | Buffer;
  /** How much of the response's body is read; a megabyte if not given. */
  maxResponseBytes?: number;
};

/**
 * The result of a request: the response, whatever its status; or no response, and whether the request may
 * have arrived all the same.
 */
export type HttpResult = HttpResponse | { error: HttpError; written: boolean };
export type HttpResponse = {
  status: number;
  /** By their names in lower case; of those that come more than once, all, with commas between them. */
  headers: Readonly<Record<string, string>>;
  /** Of the body, as far as it is read. */
  text: string;
};
/**
 * `CLOSED`: the transport was closed meanwhile; all other codes are about the other side, or the way there.
 */
export type HttpError = { code: string; message: string };

/** A place to send requests to. */
export type Endpoint = {
  /** Without a slash at its end: `https://api.example.com`. */
  readonly base: string;
  /** Never rejects, and always ends. */
  request(request: HttpRequest): Promise<HttpResult>;
  /** A connection to its origin, for HTTP/2. Rejects at once while the origin counts as unreachable. */
  connect(options: { alpn: 'h2'; timeoutMs: number }): Promise<Socket>;
};

export type Transport = {
  readonly timeouts: Timeouts;
  /** Whatever a customer has named: through the guard. */
  at(base: string): Endpoint;
  /**
   * A vendor's own API: at `origin`, unless the operator has replaced it with this setting. The operator's
   * address need not pass the guard.
   */
  vendor(setting: OriginSetting, origin: string): Endpoint;
  /** Breaks off what is under way. */
  close(): Promise<void>;
};

const DEFAULT_TIMEOUTS: Timeouts = { connectMs: 10_000, replyMs: 30_000, idleMs: 30_000 };
const MAX_RESPONSE_BYTES = 1024 * 1024;
const CLOSED: HttpError = { code: 'CLOSED', message: 'the server is stopping' };
// To one origin, for all integrations. Each sender has its own concurrency limit: no project must wait for a
// connection because the accounts of others at the same vendor hang.
const MAX_CONNECTIONS = 512;

/** Opens nothing before the first request. */
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
  const guarded = new Way(egress.connect, limits);
  const open = new Way(createEgressGuard({ allow: '0.0.0.0/0,::/0' }).connect, limits);
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

/** One way out, with the connections that were made by it. */
class Way {
  readonly #connect: EgressGuard['connect'];
  readonly #timeouts: Timeouts;
  readonly #unreachable = new UnreachableHosts();
  #opening: Promise<Dispatcher> | undefined;
  #agent: Dispatcher | undefined;
  #closed = false;

  constructor(connect: EgressGuard['connect'], timeouts: Timeouts) {
    this.#connect = connect;
    this.#timeouts = timeouts;
  }

  to(base: string): Endpoint {
    const root = base.replace(/\/+$/, '');
    let last: Target | undefined; // nearly all that is sent to a place goes to one path
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
        error: { code: 'ERR_INVALID_URL', message: 'this is no web address' },
        written: false,
      });
    if (this.#closed) return Promise.resolve({ error: CLOSED, written: false });
    const sent = (agent: Dispatcher) =>
      exchange(agent, { origin, path, isClosed: () => this.#closed }, request, this.#timeouts);
    if (this.#agent !== undefined) return sent(this.#agent);
    this.#opening ??= this.#open();
    return this.#opening.then(sent);
  }

  /** undici is loaded with the first request: most servers of a small project never send one. */
  async #open(): Promise<Dispatcher> {
    const { Agent } = await import('undici');
    this.#agent = new Agent({
      connections: MAX_CONNECTIONS,
      pipelining: 1,
      // Only HTTP/1.1 is offered (`alpn`). Where HTTP/2 is possible, undici opens one connection at a time
      // until the first one has negotiated, so requests to a dead origin would time out one after another.
      allowH2: false,
      keepAliveTimeout: this.#timeouts.idleMs,
      keepAliveMaxTimeout: this.#timeouts.idleMs, // the other side may be a stranger and ask for more
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
    await (await this.#opening)?.destroy();
  }
}

/** Where a request goes; no origin where that is no web address. */
type Target = { given: string; origin?: string; path: string };

function targetOf(root: string, given: string): Target {
  const url = URL.parse(root + given);
  if (url?.protocol !== 'https:' && url?.protocol !== 'http:') return { given, path: '' };
  return { given, origin: url.origin, path: url.pathname + url.search };
}

/** A connection to the origin of a URL, with TLS where it says https; certificates are always verified. */
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
      ...(/^[\d.]+$|:/.test(host) ? {} : { servername: host }), // an address is not a server name (RFC 6066, 3)
      host,
      ALPNProtocols: [alpn],
      rejectUnauthorized: true, // said aloud, so that no environment variable switches it off
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
 * One request and its result. It uses undici's handlers: a stream for the body of every response,
 * and a signal for the time it may take, cost as much as all the rest. They say, too, when the request begins
 * to be written.
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
      clearTimeout(deadline);
      resolve(response);
    };
    const whole = () => {
      const [only] = chunks;
      const read = chunks.length === 1 && only !== undefined ? only : Buffer.concat(chunks);
      settle({ status, headers: received, text: read.toString('utf8', 0, maxResponseBytes) });
    };
    // undici's waits end one by one when nothing comes; this one ends a response that comes byte by byte.
    const deadline = setTimeout(
      () => {
        late = true;
        sending?.abort(TOO_LATE);
        settle({ error: isClosed() ? CLOSED : described(TOO_LATE), written: sending !== undefined });
      },
      connectMs + 2 * replyMs,
    );
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
          if (late) controller.abort(TOO_LATE); // it has waited for a connection until now
        },
        onResponseStart(_controller, code, given) {
          status = code; // those below 200 only come before the response
          received = joined(given);
        },
        onResponseData(controller, chunk) {
          chunks.push(chunk);
          bytes += chunk.length;
          if (bytes < maxResponseBytes) return;
          whole();
          controller.abort(ENOUGH); // what comes after is not waited for
        },
        onResponseEnd: whole,
        // Before the request began to be written, nothing of it was sent.
        onResponseError: (_controller, error) =>
          settle({ error: isClosed() ? CLOSED : described(error), written: sending !== undefined }),
      },
    );
  });
}

const TOO_LATE = Object.assign(new Error('the response took too long'), { code: 'ETIMEDOUT' });
const ENOUGH = new Error('enough of the response was read');

/** Copied only where one of them came more than once. */
function joined(headers: Readonly<Record<string, string | string[] | undefined>>): Record<string, string> {
  const all = Object.values(headers);
  if (all.every((value) => typeof value === 'string')) return headers as Record<string, string>;
  return Object.fromEntries(
    Object.entries(headers).flatMap(([name, value]) =>
      value === undefined ? [] : [[name, Array.isArray(value) ? value.join(', ') : value]],
    ),
  );
}

function described(error: unknown): HttpError {
  if (!(error instanceof Error)) return { code: 'UNKNOWN', message: String(error) };
  const { code } = error as NodeJS.ErrnoException;
  return { code: typeof code === 'string' ? code : 'UNKNOWN', message: error.message };
}
