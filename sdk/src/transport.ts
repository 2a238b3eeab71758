import { backoffMs, sleep } from './backoff.ts';
import { BelfryError, errorOfResponse } from './errors.ts';
import type { ClientOptions, RequestOptions } from './options.ts';

/** A request to the API. The path is below `baseUrl`. */
export interface ApiRequest {
  method: 'GET' | 'HEAD' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';
  path: string;
  query?: object | undefined;
  /** Sent as JSON. */
  body?: unknown;
}

/** Sends requests to the server, with retries. */
export interface Transport {
  /**
   * Resolves with the body of a success, or `undefined` if it has none. Rejects with a `BelfryError`, or with
   * the reason of the signal.
   */
  send(request: ApiRequest, options?: RequestOptions): Promise<unknown>;
  /**
   * Makes one attempt and resolves with the response before its body. Calls `onToken` when it has the token.
   */
  attempt(
    prepared: PreparedRequest,
    signal: AbortSignal | undefined,
    onToken?: () => void,
  ): Promise<Response>;
  prepare(request: ApiRequest, options?: RequestOptions): PreparedRequest;
}

export interface PreparedRequest {
  /** The name of the request in errors: `GET /users`. */
  what: string;
  url: string;
  init: RequestInit & { headers: Headers };
}

const MAX_RETRIES = 3;
const TIMEOUT_MS = 30_000;
const TOTAL_TIMEOUT_MS = 60_000;

// Not 409: the server uses it if the key belongs to another request.
const TEMPORARY = new Set([408, 425, 429, 500, 502, 503, 504]);

/** Creates the transport of a client. Throws if its address cannot be used. */
export function createTransport(options: ClientOptions): Transport {
  const base = options.baseUrl.replace(/\/+$/, '');
  new URL(base); // throws now and not at the first call
  const callFetch = options.fetch ?? ((...parameters: Parameters<typeof fetch>) => fetch(...parameters));

  function prepare(request: ApiRequest, { headers, idempotencyKey }: RequestOptions = {}): PreparedRequest {
    const all = new Headers({ accept: 'application/json', ...options.headers });
    if (options.clientId !== undefined) all.set('x-service-client-id', options.clientId);
    if (request.body !== undefined) all.set('content-type', 'application/json');
    if (request.method === 'POST') all.set('idempotency-key', idempotencyKey ?? newKey());
    for (const [name, value] of Object.entries(headers ?? {})) all.set(name, value);
    return {
      what: `${request.method} ${request.path}`,
      url: `${base}${request.path}${queryText(request.query)}`,
      init: {
        method: request.method,
        headers: all,
        body: JSON.stringify(request.body),
        cache: 'no-store',
        credentials: 'omit', // the token is enough, and the server rejects cookies
        redirect: 'manual', // a redirected POST would arrive as a GET
      },
    };
  }

  async function attempt(
    prepared: PreparedRequest,
    signal: AbortSignal | undefined,
    onToken?: () => void,
  ): Promise<Response> {
    const given = typeof options.token === 'string' ? options.token : options.token();
    const token = await Promise.race([given, abortOf(signal)]);
    onToken?.();
    const headers = new Headers(prepared.init.headers);
    headers.set('authorization', `Bearer ${token}`);
    const init = { ...prepared.init, headers, signal: signal ?? null };
    const response = await callFetch(prepared.url, init).catch((error: unknown) => {
      throw networkError(prepared.what, error, signal);
    });
    if (response.ok) return response;
    throw await errorOfResponse(prepared.what, response);
  }

  /** One attempt with its body, within the timeout. */
  async function attemptWhole(
    prepared: PreparedRequest,
    signal: AbortSignal | undefined,
    timeoutMs: number,
  ): Promise<unknown> {
    const timed = withTimeout(prepared.what, timeoutMs, signal);
    try {
      const response = await attempt(prepared, timed.signal);
      return await readJson(prepared.what, response, timed.signal);
    } catch (error) {
      throw timed.reasonOr(error);
    } finally {
      timed.clear();
    }
  }

  async function send(request: ApiRequest, own: RequestOptions = {}): Promise<unknown> {
    const { signal, maxRetryAfterMs = Number.POSITIVE_INFINITY } = own;
    const maxRetries = own.maxRetries ?? options.maxRetries ?? MAX_RETRIES;
    const timeoutMs = own.timeoutMs ?? options.timeoutMs ?? TIMEOUT_MS;
    const deadline = performance.now() + (own.totalTimeoutMs ?? options.totalTimeoutMs ?? TOTAL_TIMEOUT_MS);
    const prepared = prepare(request, own);
    for (let number = 1; ; number += 1) {
      signal?.throwIfAborted();
      try {
        return await attemptWhole(prepared, signal, Math.min(timeoutMs, deadline - performance.now()));
      } catch (error) {
        if (number > maxRetries || !isTemporary(error) || request.method === 'PATCH') throw error;
        const { retryAfterMs = 0 } = error;
        const waitMs = backoffMs(number, error.retryAfterMs);
        if (retryAfterMs > maxRetryAfterMs || performance.now() + waitMs >= deadline) throw error;
        await sleep(waitMs, signal);
      }
    }
  }

  return { send, attempt, prepare };
}

/** Returns whether a retry can help. Every request may be repeated, because POSTs have a key. */
export function isTemporary(error: unknown): error is BelfryError {
  if (!(error instanceof BelfryError)) return false;
  if (error.status === undefined) return true;
  return TEMPORARY.has(error.status) && error.code !== 'invalid_response';
}

/** A signal that aborts with the signal of the caller, or after a time. */
export function withTimeout(what: string, timeoutMs: number, outer: AbortSignal | undefined) {
  const controller = new AbortController();
  const aborted = () => controller.abort(outer?.reason);
  if (outer?.aborted) aborted();
  outer?.addEventListener('abort', aborted, { once: true });
  const expire = () =>
    controller.abort(new BelfryError(`${what}: no response within ${timeoutMs} ms`, { code: 'timeout' }));
  const timer = setTimeout(expire, Math.max(0, timeoutMs));
  const { signal } = controller;
  return {
    signal,
    /** Its abort also closes the connection. */
    controller,
    /** When it is cleared, only the signal of the caller still counts. */
    timer,
    clear() {
      clearTimeout(timer);
      outer?.removeEventListener('abort', aborted);
    },
    /** The reason of the abort, or else this error. */
    reasonOr: (error: unknown): unknown => (signal.aborted ? signal.reason : error),
  };
}

/** Rejects with the reason of the signal when it aborts. */
export function abortOf(signal: AbortSignal | undefined): Promise<never> {
  return new Promise((_resolve, reject) => {
    if (signal?.aborted) reject(signal.reason);
    signal?.addEventListener('abort', () => reject(signal.reason), { once: true });
  });
}

async function readJson(what: string, response: Response, signal: AbortSignal): Promise<unknown> {
  const text = await response.text().catch((error: unknown) => {
    throw networkError(what, error, signal);
  });
  if (text === '') return undefined;
  try {
    return JSON.parse(text);
  } catch (cause) {
    const { status } = response;
    throw new BelfryError(`${what}: ${status}, but not JSON: is baseUrl right?`, {
      code: 'invalid_response',
      status,
      cause,
    });
  }
}

/**
 * An error of `fetch`. Its message says little ("fetch failed"), but its cause has the reason. Returns a
 * `BelfryError` as it is.
 */
export function networkError(what: string, error: unknown, signal: AbortSignal | undefined): unknown {
  if (signal?.aborted) return signal.reason;
  if (error instanceof BelfryError) return error;
  const { message, cause } = error as { message?: unknown; cause?: { code?: unknown; message?: unknown } };
  const why = cause?.code ?? cause?.message ?? message ?? error;
  return new BelfryError(`${what}: no response (${String(why)})`, { code: 'network_error', cause: error });
}

/** Omits members that are `undefined` or `null`, and repeats a member for each value of an array. */
function queryText(query: object = {}): string {
  const parameters = new URLSearchParams();
  for (const [name, value] of Object.entries(query))
    for (const one of [value].flat())
      if (one !== undefined && one !== null) parameters.append(name, String(one));
  return parameters.size === 0 ? '' : `?${parameters}`;
}

/** Not `crypto.randomUUID`, which browsers only have on https pages. */
function newKey(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join('');
}
