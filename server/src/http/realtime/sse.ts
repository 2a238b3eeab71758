import type { ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import type { FastifyReply } from 'fastify';
import type { Clock } from '../../lib/clock.ts';
import { type Every, MAX_PENDING_BYTES, Rounds, realEvery, whenDrained } from './pending.ts';

// Below the 20 s after which some mobile networks forget a connection on which nothing moves.
const HEARTBEAT_EVERY_MS = 15_000;
// How long a client waits before it connects again. Browsers have 3 s; ours adds what spreads a crowd after a
// restart.
const RETRY_MS = 2_000;
const RETRY_SPREAD_MS = 3_000;
const SHUTDOWN_TIMEOUT_MS = 800;

/** A connection that Server-Sent Events are written to. */
export class SseConnection {
  /** Nothing is to be written any more. */
  onGone: () => void = () => {};
  /** Called with each heartbeat. */
  onBeat: () => void = () => {};
  readonly #expiresAtMs: number;
  readonly #socket: Socket;
  readonly #takeOver: () => ServerResponse;
  #response: ServerResponse | undefined;
  #takenBytes = -1;

  constructor(reply: FastifyReply, socket: Socket, expiresAtMs: number) {
    this.#socket = socket;
    this.#expiresAtMs = expiresAtMs;
    this.#takeOver = () => takeOver(reply);
  }

  /** Answers the request, and tells the client from where on it would resume. */
  begin(id: string): void {
    this.#response ??= this.#takeOver();
    const retryMs = RETRY_MS + Math.floor(Math.random() * RETRY_SPREAD_MS);
    // An id alone is no event, but a client that loses the connection before its first event comes back with
    // it.
    this.#write(`retry: ${retryMs}\nid: ${id}\n\n`);
  }

  /** A reader that is too slow is closed: it comes back and asks for what it missed. `data` is one line. */
  event(id: string, name: string, data: string): void {
    if (this.#socket.writableLength > MAX_PENDING_BYTES) this.close();
    else this.#write(`id: ${id}\nevent: ${name}\ndata: ${data}\n\n`);
  }

  /** Tells the client a place to resume from without telling it anything else. */
  mark(id: string): void {
    this.#write(`id: ${id}\n\n`);
  }

  /** Tells the client that some of what it missed cannot be told. */
  resync(id: string): void {
    this.#write(`id: ${id}\nevent: resync\ndata: {"name":"resync"}\n\n`);
  }

  drained(): Promise<void> | undefined {
    return whenDrained(this.#socket);
  }

  /** Ends the stream: the client comes back by itself, with what it knows. There is no place for a reason. */
  close(): void {
    this.onGone();
    if (this.#response === undefined) this.#socket.destroy();
    else this.#response.end();
  }

  cut(): void {
    this.#socket.destroy();
  }

  /**
   * Shows proxies and the client that the connection lives; ends it with the token, and with a client that
   * takes nothing.
   */
  beat(nowMs: number): void {
    if (nowMs >= this.#expiresAtMs) {
      this.close();
      return;
    }
    const takenBytes = this.#socket.bytesWritten - this.#socket.writableLength;
    if (this.#socket.writableLength > 0 && takenBytes === this.#takenBytes) this.cut();
    this.#takenBytes = takenBytes;
    this.#write(': \n\n');
    this.onBeat();
  }

  // Past the response's own stream: it adds 3 µs to each event, and its body has no framing (see `takeOver`).
  #write(text: string): void {
    if (this.#socket.writable) this.#socket.write(text);
  }
}

/** The connections of one kind of stream: their heartbeats, and their end. */
export class SseConnections {
  readonly #clock: Clock;
  readonly #open = new Set<SseConnection>();
  readonly #rounds: Rounds<SseConnection>;
  #onEmpty: (() => void) | undefined;
  #closing = false;

  constructor({ clock, every }: { clock: Clock; every?: Every | undefined }) {
    this.#clock = clock;
    this.#rounds = new Rounds(HEARTBEAT_EVERY_MS, (one) => one.beat(clock.now()), every ?? realEvery);
  }

  /**
   * Keeps the connection until it is closed, from whichever side; then `leave` is called. It may be called
   * before, too.
   */
  hold(connection: SseConnection, socket: Socket, leave: () => void): void {
    const leaveRounds = this.#rounds.add(connection);
    this.#open.add(connection);
    const gone = () => {
      leave();
      leaveRounds();
      this.#open.delete(connection);
      if (this.#open.size === 0) this.#onEmpty?.();
    };
    connection.onGone = leave;
    if (socket.destroyed) gone();
    else socket.once('close', gone);
    if (this.#closing) connection.close();
    else connection.beat(this.#clock.now());
  }

  /** Ends all streams, within a second. */
  async close(): Promise<void> {
    this.#closing = true;
    this.#rounds.stop();
    if (this.#open.size === 0) return;
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#onEmpty = resolve;
    const timer = setTimeout(() => {
      for (const one of this.#open) one.cut();
    }, SHUTDOWN_TIMEOUT_MS);
    for (const one of this.#open) one.close();
    await promise;
    clearTimeout(timer);
  }
}

/** Answers a HEAD request with the head of a stream, and says whether it was one. */
export function answerHead(reply: FastifyReply): boolean {
  if (reply.request.method !== 'HEAD') return false;
  takeOver(reply).end();
  return true;
}

/**
 * Sends the head. Without a length or chunks, the body is whatever follows until the connection is closed.
 */
function takeOver(reply: FastifyReply): ServerResponse {
  const headers = reply.getHeaders();
  reply.hijack();
  const response = reply.raw;
  for (const [name, value] of Object.entries(headers))
    if (value !== undefined) response.setHeader(name, value);
  response.setHeader('content-type', 'text/event-stream; charset=utf-8');
  response.setHeader('cache-control', 'no-store, no-transform');
  response.setHeader('x-accel-buffering', 'no');
  response.setHeader('connection', 'close');
  response.removeHeader('transfer-encoding');
  response.flushHeaders();
  return response;
}
