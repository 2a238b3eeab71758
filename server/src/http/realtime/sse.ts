import type { ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import type { FastifyReply } from 'fastify';
import type { Clock } from '../../lib/clock.ts';
import { type Every, MAX_PENDING_BYTES, Rounds, realEvery, whenDrained } from './pending.ts';
import { writeTogether } from './write-together.ts';

// Below the 20 s after which some mobile networks forget a connection on which nothing moves.
const HEARTBEAT_EVERY_MS = 15_000;
// How long a client waits before it reconnects; the default of browsers is 3 s. The spread distributes the
// clients after a restart.
const RETRY_MS = 2_000;
const RETRY_SPREAD_MS = 3_000;
const SHUTDOWN_TIMEOUT_MS = 800;

/** A connection with Server-Sent Events. */
export class SseConnection {
  /** Called when nothing more may be written. */
  onGone: () => void = () => {};
  /** Called with each heartbeat. */
  onBeat: () => void = () => {};
  readonly #expiresAtMs: number;
  readonly #socket: Socket;
  readonly #start: () => ServerResponse;
  #response: ServerResponse | undefined;
  #readBytes = -1;

  constructor(reply: FastifyReply, socket: Socket, expiresAtMs: number) {
    this.#socket = socket;
    this.#expiresAtMs = expiresAtMs;
    this.#start = () => sendHead(reply);
  }

  /**
   * Starts the response, and sends the id from which the client would resume: alone, or with an event `ready`
   * whose `data` is one line.
   */
  begin(id: string, data?: string): void {
    this.#response ??= this.#start();
    const retryMs = RETRY_MS + Math.floor(Math.random() * RETRY_SPREAD_MS);
    // An id alone is not an event, but a client that loses the connection before its first event resumes from
    // it.
    const event = data === undefined ? '' : `event: ready\ndata: ${data}\n`;
    this.#write(`retry: ${retryMs}\nid: ${id}\n${event}\n`);
  }

  /**
   * Sends an event whose `data` is one line. Closes the connection of a slow reader, which reconnects and
   * resumes.
   */
  event(id: string, name: string, data: string): void {
    if (this.#socket.writableLength > MAX_PENDING_BYTES) this.close();
    else this.#write(`id: ${id}\nevent: ${name}\ndata: ${data}\n\n`);
  }

  /** Sends only an id from which the client can resume. */
  mark(id: string): void {
    this.#write(`id: ${id}\n\n`);
  }

  /** Notifies the client that some missed events are no longer available. */
  resync(id: string): void {
    this.#write(`id: ${id}\nevent: resync\ndata: {"name":"resync"}\n\n`);
  }

  drained(): Promise<void> | undefined {
    return whenDrained(this.#socket);
  }

  /** Ends the stream, without a reason. The client reconnects and resumes. */
  close(): void {
    this.onGone();
    if (this.#response === undefined) this.#socket.destroy();
    else this.#response.end();
  }

  cut(): void {
    this.#socket.destroy();
  }

  /** Sends a heartbeat. Ends the connection when its token expires, or if the client reads nothing. */
  beat(nowMs: number): void {
    if (nowMs >= this.#expiresAtMs) {
      this.close();
      return;
    }
    const readBytes = this.#socket.bytesWritten - this.#socket.writableLength;
    if (this.#socket.writableLength > 0 && readBytes === this.#readBytes) this.cut();
    this.#readBytes = readBytes;
    this.#write(': \n\n');
    this.onBeat();
  }

  // Bypasses the stream of the response, which adds 3 µs to each event; the body has no framing (see
  // `sendHead`).
  #write(text: string): void {
    if (this.#socket.writable) writeTogether(this.#socket, text);
  }
}

/** The connections of one kind of stream, with their heartbeats. */
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
   * Keeps the connection until either side closes it, and then calls `leave`, which may also have been called
   * before.
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

/** Responds to a HEAD request with the head of a stream. Returns whether it was one. */
export function respondToHead(reply: FastifyReply): boolean {
  if (reply.request.method !== 'HEAD') return false;
  sendHead(reply).end();
  return true;
}

/**
 * Sends the head. Without a length or chunks, the body is whatever follows until the connection is closed.
 */
function sendHead(reply: FastifyReply): ServerResponse {
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
