import type { ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import type { FastifyReply } from 'fastify';
import type { Frame } from '../../domain/realtime/frame.ts';
import type { Hub } from '../../domain/realtime/hub.ts';
import type { ResumeCursor } from '../../domain/realtime/resume-cursor.ts';
import type { CloseReason, Connection } from '../../domain/realtime/subscription.ts';
import type { Clock } from '../../lib/clock.ts';
import { type Every, MAX_PENDING_BYTES, Rounds, realEvery, whenDrained } from './pending.ts';

// Below the 20 s after which some mobile networks forget a connection on which nothing moves.
const HEARTBEAT_EVERY_MS = 15_000;
// How long a client waits before it connects again. Browsers have 3 s; ours adds what spreads a crowd after a restart.
const RETRY_MS = 2_000;
const RETRY_SPREAD_MS = 3_000;
const SHUTDOWN_TIMEOUT_MS = 800;

export interface StreamOptions {
  hub: Hub;
  clock: Clock;
  every?: Every;
}

interface StreamCaller {
  projectId: string;
  userId: string;
  expiresAtMs: number;
  /** The header as it came. */
  lastEventId: string | string[] | undefined;
}

/** All event streams of this node. */
export class Streams {
  readonly #hub: Hub;
  readonly #clock: Clock;
  readonly #open = new Set<EventStream>();
  readonly #rounds: Rounds<EventStream>;
  #onEmpty: (() => void) | undefined;
  #closing = false;

  constructor({ hub, clock, every }: StreamOptions) {
    this.#hub = hub;
    this.#clock = clock;
    this.#rounds = new Rounds(HEARTBEAT_EVERY_MS, (stream) => stream.beat(clock.now()), every ?? realEvery);
  }

  /** Takes the request over. Rejects, with nothing answered yet, when the database does not say where to begin. */
  async open(
    reply: FastifyReply,
    { projectId, userId, expiresAtMs, lastEventId }: StreamCaller,
  ): Promise<void> {
    const socket = reply.raw.socket;
    if (socket === null || socket.destroyed) return;
    const stream = new EventStream(projectId, userId, expiresAtMs, socket, () => takeOver(reply));
    // An empty one is what a client sends that has not been told any; several are nobody's.
    const resumeFrom = lastEventId === '' ? undefined : lastEventId?.toString();
    const leaveHub = await this.#hub.addFrom(stream, resumeFrom);
    const leaveRounds = this.#rounds.add(stream);
    this.#open.add(stream);
    const gone = () => {
      leaveHub();
      leaveRounds();
      this.#open.delete(stream);
      if (this.#open.size === 0) this.#onEmpty?.();
    };
    stream.onGone = leaveHub;
    if (socket.destroyed) gone();
    else socket.once('close', gone);
    if (this.#closing) stream.close();
    else stream.beat(this.#clock.now());
  }

  /** Ends all streams, within a second. */
  async close(): Promise<void> {
    this.#closing = true;
    this.#rounds.stop();
    if (this.#open.size === 0) return;
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#onEmpty = resolve;
    const timer = setTimeout(() => {
      for (const stream of this.#open) stream.cut();
    }, SHUTDOWN_TIMEOUT_MS);
    for (const stream of this.#open) stream.close();
    await promise;
    clearTimeout(timer);
  }
}

/** One client's event stream. */
class EventStream implements Connection {
  readonly kind = 'stream';
  readonly projectId: string;
  readonly userId: string;
  onGone: () => void = () => {};
  readonly #expiresAtMs: number;
  readonly #socket: Socket;
  readonly #takeOver: () => ServerResponse;
  #response: ServerResponse | undefined;
  #takenBytes = -1;

  constructor(
    projectId: string,
    userId: string,
    expiresAtMs: number,
    socket: Socket,
    takeOver: () => ServerResponse,
  ) {
    this.projectId = projectId;
    this.userId = userId;
    this.#expiresAtMs = expiresAtMs;
    this.#socket = socket;
    this.#takeOver = takeOver;
  }

  begin(cursor: ResumeCursor): void {
    this.#response ??= this.#takeOver();
    const retryMs = RETRY_MS + Math.floor(Math.random() * RETRY_SPREAD_MS);
    // An id alone is no event, but a client that loses the connection before its first event comes back with it.
    this.#write(`retry: ${retryMs}\nid: ${cursor}\n\n`);
  }

  send(frame: Frame, cursor: ResumeCursor): void {
    if (this.#socket.writableLength > MAX_PENDING_BYTES) this.close();
    else this.#write(`id: ${cursor}\nevent: ${frame.name}\ndata: ${frame.json}\n\n`);
  }

  resync(cursor: ResumeCursor): void {
    this.#write(`id: ${cursor}\nevent: resync\ndata: {"name":"resync"}\n\n`);
  }

  drained(): Promise<void> | undefined {
    return whenDrained(this.#socket);
  }

  /** Ends the stream: the client comes back by itself, with what it knows. There is no place for a reason. */
  close(_reason?: CloseReason): void {
    this.onGone();
    if (this.#response === undefined) this.#socket.destroy();
    else this.#response.end();
  }

  cut(): void {
    this.#socket.destroy();
  }

  /** Shows proxies and the client that the connection lives; ends it with the token, and with a client that takes nothing. */
  beat(nowMs: number): void {
    if (nowMs >= this.#expiresAtMs) {
      this.close();
      return;
    }
    const takenBytes = this.#socket.bytesWritten - this.#socket.writableLength;
    if (this.#socket.writableLength > 0 && takenBytes === this.#takenBytes) this.cut();
    this.#takenBytes = takenBytes;
    this.#write(': \n\n');
  }

  // Past the response's own stream: it adds 3 µs to each event, and its body has no framing (see `takeOver`).
  #write(text: string): void {
    if (this.#socket.writable) this.#socket.write(text);
  }
}

/** Sends the head. Without a length or chunks, the body is whatever follows until the connection is closed. */
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
