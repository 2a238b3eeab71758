import { backoffMs, sleep } from './backoff.ts';
import { BelfryError } from './errors.ts';
import type { StreamOptions } from './options.ts';
import { StreamParser } from './sse.ts';
import {
  abortOf,
  isTemporary,
  networkError,
  type PreparedRequest,
  type Transport,
  withTimeout,
} from './transport.ts';

const TIMEOUT_MS = 30_000;
const IDLE_TIMEOUT_MS = 45_000; // three missed heartbeats
// Used until the server sends `retry`.
const RETRY_MS = 2_000;
const LONGEST_RETRY_MS = 30_000;

/**
 * Events as they happen: loop over them with `for await`. A broken connection is restored and continues after
 * the last event of the loop. `break` or the signal ends the stream. An error that a retry does not solve,
 * such as 401, is thrown.
 */
export class EventStream<Event> implements AsyncIterable<Event> {
  /**
   * The position of the last event of the loop. Store it to continue there with another stream, for example
   * after a restart.
   */
  lastEventId: string | undefined;
  readonly #transport: Transport;
  readonly #request: PreparedRequest;
  readonly #options: StreamOptions;

  constructor(transport: Transport, path: string, query?: object, options: StreamOptions = {}) {
    this.lastEventId = options.lastEventId;
    this.#transport = transport;
    this.#request = transport.prepare({ method: 'GET', path, query }, { headers: options.headers });
    this.#request.init.headers.set('accept', 'text/event-stream');
    this.#options = options;
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<Event, void, undefined> {
    const { signal, maxRetries = Number.POSITIVE_INFINITY, onDisconnect } = this.#options;
    const state = { failures: 0, retryMs: RETRY_MS };
    while (!signal?.aborted) {
      let error: unknown;
      try {
        yield* this.#connect(state);
      } catch (caught) {
        error = caught;
      }
      if (signal?.aborted) return;
      state.failures += 1;
      if (error !== undefined && (!isTemporary(error) || state.failures > maxRetries)) throw error;
      const retryAfterMs = error instanceof BelfryError ? error.retryAfterMs : undefined;
      const pace = { firstMs: state.retryMs, longestMs: Math.max(LONGEST_RETRY_MS, state.retryMs) };
      const retryInMs = backoffMs(state.failures, retryAfterMs, pace);
      onDisconnect?.({ error, retryInMs });
      await sleep(retryInMs, signal).catch(() => {}); // aborted: the loop ends
    }
  }

  /** The events of one connection until it ends or breaks. */
  async *#connect(state: { failures: number; retryMs: number }): AsyncGenerator<Event, void, undefined> {
    const { signal, timeoutMs = TIMEOUT_MS, idleTimeoutMs = IDLE_TIMEOUT_MS, onOpen } = this.#options;
    const { what, init } = this.#request;
    if (this.lastEventId !== undefined) init.headers.set('last-event-id', this.lastEventId);
    const timed = withTimeout(what, timeoutMs, signal);
    try {
      const response = await this.#transport.attempt(this.#request, timed.signal);
      clearTimeout(timed.timer);
      const body = bodyOf(what, response);
      state.failures = 0;
      onOpen?.();
      const parser = new StreamParser(this.lastEventId ?? '');
      for await (const text of texts(what, body, idleTimeoutMs, timed.signal)) {
        for (const { data, lastEventId } of parser.push(text)) {
          state.retryMs = parser.retryMs ?? state.retryMs;
          if (lastEventId !== '') this.lastEventId = lastEventId;
          if (data !== undefined) yield parseEvent<Event>(what, data);
        }
      }
    } catch (error) {
      throw timed.reasonOr(error);
    } finally {
      timed.clear();
      timed.controller.abort();
    }
  }
}

function bodyOf(what: string, response: Response): ReadableStream<Uint8Array> {
  const type = response.headers.get('content-type') ?? '';
  if (response.body !== null && type.startsWith('text/event-stream')) return response.body;
  const { status } = response;
  throw new BelfryError(`${what}: ${status}, but the response is not an event stream`, {
    code: 'invalid_response',
    status,
  });
}

function parseEvent<Event>(what: string, data: string): Event {
  try {
    return JSON.parse(data) as Event;
  } catch (cause) {
    throw new BelfryError(`${what}: an event is not JSON`, { code: 'invalid_response', status: 200, cause });
  }
}

/** The text of a body as it arrives. Fails after a time without data: a connection can die silently. */
async function* texts(
  what: string,
  body: ReadableStream<Uint8Array>,
  idleTimeoutMs: number,
  signal: AbortSignal,
): AsyncGenerator<string, void, undefined> {
  const reader = body.getReader();
  const decoder = new TextDecoder();
  try {
    for (;;) {
      // The time runs only while this waits for data, not while the loop handles an event.
      const idle = withTimeout(`${what}: heartbeat`, idleTimeoutMs, signal);
      const { done, value } = await Promise.race([reader.read(), abortOf(idle.signal)])
        .catch((error: unknown) => {
          throw networkError(what, error, signal);
        })
        .finally(idle.clear);
      if (done) return;
      yield decoder.decode(value, { stream: true });
    }
  } finally {
    await reader.cancel().catch(() => {}); // it may be broken
  }
}
