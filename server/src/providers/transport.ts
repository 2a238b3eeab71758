/**
 * HTTP to the vendors. Every address that a customer can name goes through the egress guard, at each new connection; connections are
 * kept alive and shared, every wait has a limit, an answer is read only so far, and no redirect is followed.
 */
import type { Socket } from 'node:net';
import { connect as connectTls } from 'node:tls';
import type { Dispatcher } from 'undici';
import { createEgressGuard, type EgressGuard } from '../lib/egress.ts';

/** How long a sender waits for the vendor, in milliseconds. */
export type Timeouts = {
  /** DNS, TCP and TLS together. */
  connectMs: number;
  /** From the request being written to the answer; for a protocol of many steps, of each step. */
  replyMs: number;
  /** A connection without work is closed after this. */
  idleMs: number;
};

/** The vendors whose origin the operator can move, for a proxy or for tests. */
export type Vendor =
  | 'apns'
  | 'apns_sandbox'
  | 'expo'
  | 'fcm'
  | 'mailgun'
  | 'sendgrid'
  | 'ses'
  | 'slack_api'
  | 'slack_authorize'
  | 'sns'
  | 'twilio';

/** A request below an endpoint's base. */
export type HttpRequest = {
  method: 'GET' | 'POST' | 'PUT' | 'DELETE';
  /** Follows the base: begins with a slash, or is empty. */
  path: string;
  headers?: Readonly<Record<string, string>>;
  body?: string | Buffer;
  /** How much of the answer's body is read; a megabyte if not given. */
  maxAnswerBytes?: number;
};

/** How it ended: the answer, whatever its status; or no answer, and whether the request may have arrived all the same. */
export type HttpAnswer = HttpReply | { error: HttpError; written: boolean };
export type HttpReply = {
  status: number;
  /** By their names in lower case; of those that come more than once, all, with commas between them. */
  headers: Readonly<Record<string, string>>;
  /** Of the body, as far as it is read. */
  text: string;
};
/** `CLOSED`: the transport was closed meanwhile; all other codes are about the other side, or the way there. */
export type HttpError = { code: string; message: string };

/** A place to send requests to. */
export type Endpoint = {
  /** Without a slash at its end: `https://api.example.com`. */
  readonly base: string;
  /** Never rejects, and always ends. */
  request(request: HttpRequest): Promise<HttpAnswer>;
  /** A TCP connection to it, for protocols that are spoken elsewhere. */
  readonly connect: EgressGuard['connect'];
};

export type Transport = {
  readonly timeouts: Timeouts;
  /** Whatever a customer has named: through the guard. */
  at(base: string): Endpoint;
  /** A vendor's own API, which is at `origin` unless the operator says otherwise. What the operator says need not pass the guard. */
  vendor(vendor: Vendor, origin: string): Endpoint;
  /** Breaks off what is under way. */
  close(): Promise<void>;
};

const DEFAULT_TIMEOUTS: Timeouts = { connectMs: 10_000, replyMs: 30_000, idleMs: 30_000 };
const MAX_ANSWER_BYTES = 1024 * 1024;
const CLOSED: HttpError = { code: 'CLOSED', message: 'the server is stopping' };
const MAX_CONNECTIONS = 64; // to one origin

/** Opens nothing before the first request. */
export function createTransport({
  egress,
  origins = {},
  timeouts,
}: {
  egress: EgressGuard;
  /** Where the operator has moved vendors to. */
  origins?: { readonly [Name in Vendor]?: string | undefined };
  timeouts?: Partial<Timeouts>;
}): Transport {
  const limits = { ...DEFAULT_TIMEOUTS, ...timeouts };
  const guarded = new Way(egress.connect, limits);
  const open = new Way(createEgressGuard({ allow: '0.0.0.0/0,::/0' }).connect, limits);
  return {
    timeouts: limits,
    at: (base) => guarded.to(base),
    vendor(vendor, origin) {
      const moved = origins[vendor];
      return moved === undefined ? guarded.to(origin) : open.to(moved);
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
  /** Errors of connections that never came about: nothing was sent over them. */
  readonly #beforeSending = new WeakSet<object>();
  #agent: Promise<Dispatcher> | undefined;
  #closed = false;

  constructor(connect: EgressGuard['connect'], timeouts: Timeouts) {
    this.#connect = connect;
    this.#timeouts = timeouts;
  }

  to(base: string): Endpoint {
    const root = base.replace(/\/+$/, '');
    return {
      base: root,
      connect: this.#connect,
      request: (request) => this.#request(URL.parse(`${root}${request.path}`), request),
    };
  }

  async #request(
    url: URL | null,
    { method, headers, body, maxAnswerBytes = MAX_ANSWER_BYTES }: HttpRequest,
  ): Promise<HttpAnswer> {
    if (url?.protocol !== 'https:' && url?.protocol !== 'http:')
      return { error: { code: 'ERR_INVALID_URL', message: 'this is no web address' }, written: false };
    if (this.#closed) return { error: CLOSED, written: false };
    const { connectMs, replyMs } = this.#timeouts;
    // The waits below end one by one when nothing comes; this one ends an answer that comes byte by byte.
    const deadline = AbortSignal.timeout(connectMs + 2 * replyMs);
    try {
      this.#agent ??= this.#open();
      const answer = await (await this.#agent).request({
        origin: url.origin,
        path: `${url.pathname}${url.search}`,
        method,
        headers: { 'user-agent': 'Belfry', accept: '*/*', ...headers },
        body: body ?? null,
        signal: deadline,
        headersTimeout: replyMs,
        bodyTimeout: replyMs,
      });
      return {
        status: answer.statusCode,
        headers: joined(answer.headers),
        text: await beginning(answer.body, maxAnswerBytes),
      };
    } catch (error) {
      const sent = !(typeof error === 'object' && error !== null && this.#beforeSending.has(error));
      return { error: this.#closed ? CLOSED : described(error), written: sent };
    }
  }

  /** undici is loaded with the first request: most servers of a small project never send one. */
  async #open(): Promise<Dispatcher> {
    const { Agent } = await import('undici');
    return new Agent({
      connections: MAX_CONNECTIONS,
      pipelining: 1,
      keepAliveTimeout: this.#timeouts.idleMs,
      keepAliveMaxTimeout: this.#timeouts.idleMs, // whatever the other side asks for: it may be any stranger's, under any number of names
      connect: ({ hostname, port, protocol }, callback) => {
        openSocket(this.#connect, new URL(`${protocol}//${bracketed(hostname)}:${port || ''}`), {
          timeoutMs: this.#timeouts.connectMs,
          alpn: 'http/1.1',
        }).then(
          (socket) => callback(null, socket),
          (error: Error) => {
            this.#beforeSending.add(error);
            callback(error, null);
          },
        );
      },
    });
  }

  async close(): Promise<void> {
    this.#closed = true;
    await (await this.#agent)?.destroy();
  }
}

/** A connection to the origin of a URL, with TLS where it says https; certificates are always verified. */
export async function openSocket(
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

/** The text of a body as far as it is read; what comes after is not waited for. */
async function beginning(body: Dispatcher.ResponseData['body'], maxBytes: number): Promise<string> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of body as AsyncIterable<Buffer>) {
    chunks.push(chunk);
    bytes += chunk.length;
    if (bytes >= maxBytes) break; // leaving the loop destroys the body, and its connection
  }
  return Buffer.concat(chunks).subarray(0, maxBytes).toString();
}

function joined(headers: Dispatcher.ResponseData['headers']): Record<string, string> {
  return Object.fromEntries(
    Object.entries(headers).flatMap(([name, value]) =>
      value === undefined ? [] : [[name, Array.isArray(value) ? value.join(', ') : value]],
    ),
  );
}

function described(error: unknown): HttpError {
  if (!(error instanceof Error)) return { code: 'UNKNOWN', message: String(error) };
  if (error.name === 'TimeoutError') return { code: 'ETIMEDOUT', message: 'the answer took too long' };
  const { code } = error as NodeJS.ErrnoException;
  return { code: typeof code === 'string' ? code : 'UNKNOWN', message: error.message };
}
