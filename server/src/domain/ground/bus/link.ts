import { systemClock } from '../../../lib/clock.ts';
import type { Logger } from '../../../lib/log.ts';
import { oneAtATime } from '../../../lib/one-at-a-time.ts';
import { waitMs } from '../../../lib/wait.ts';
import type { BusTransport, Channel } from './channel.ts';
import type { RealtimeMessage } from './messages.ts';
import { decodeMessages, encodeMessages, encodePresence, withoutContent } from './wire.ts';
import { NoResponse, withTimeout } from './with-timeout.ts';

// The channel is probed this often, and closed when no response arrives in time. Both together have to stay
// well below the margin of a resume (resume-cursor.ts), which covers messages published before the loss was
// noticed.
const HEARTBEAT_MS = 4_000;
// A node from which nothing has come for two heartbeats and a bit was killed, or has lost its connection.
const SILENT_MS = 9_000;
const FIRST_RETRY_MS = 100;
const LONGEST_RETRY_MS = 5_000;
// Messages kept while the link is down. When there are more, other nodes get one `missed` message instead.
const MAX_WAITING = 10_000;

export interface LinkOptions {
  transport: BusTransport;
  log: Logger;
  /** Marks this node's own messages, which it ignores when they come back. */
  nodeId: string;
  /** Whether it carries notifications: if not, a loss concerns settings only. */
  carriesAll: boolean;
  /**
   * A command may end at any time, so other nodes do not notice when it is killed. It connects when it sends
   * or listens for the first time: most commands do neither.
   */
  isCommand: boolean;
  /** Until when other nodes' messages are known, before the first connection. */
  aliveAtMs?: number;
  /** Called with each message of other nodes, and with `missing` and `missed` of this link. */
  onMessage: (message: RealtimeMessage) => void;
}

export interface LinkState {
  readonly name: BusTransport['name'];
  /** Whether messages of other nodes arrive. */
  readonly connected: boolean;
  /** For how long the server has not responded. */
  readonly silentMs: number | undefined;
}

/**
 * Keeps a channel to other nodes open. Messages that wait are sent when it is back, and `missed` makes
 * subscribers read the database. So does a node that falls silent: if it was killed, it may have committed
 * what it did not publish. Messages arrive in the order in which they were published.
 */
export class Link {
  readonly #transport: BusTransport;
  readonly #log: Logger;
  readonly #nodeId: string;
  readonly #carriesAll: boolean;
  readonly #announces: boolean;
  readonly #onMessage: (message: RealtimeMessage) => void;
  readonly #closing = new AbortController();
  readonly #tried = Promise.withResolvers<void>();
  #kept: Promise<void> | undefined;
  /** When other nodes were last heard, as `performance.now()`. */
  readonly #peers = new Map<string, number>();
  #listening = Promise.withResolvers<void>();
  #channel: Channel | undefined;
  #waiting: RealtimeMessage[] = [];
  // Messages that waited for a connection are sent without users and contents, which could be 800 MB.
  #hasBacklog = false;
  #timer: NodeJS.Timeout | undefined;
  /** Sends the messages that wait, one batch at a time, so that they arrive in order. */
  readonly #flush = oneAtATime(() => this.#sendWaiting());
  #aliveAtMs: number | undefined;
  #lostAtMs: number | undefined;

  constructor({ transport, log, nodeId, carriesAll, isCommand, aliveAtMs, onMessage }: LinkOptions) {
    this.#transport = transport;
    this.#log = log.child({ bus: transport.name });
    this.#nodeId = nodeId;
    this.#carriesAll = carriesAll;
    this.#announces = carriesAll && !isCommand;
    this.#aliveAtMs = aliveAtMs;
    this.#onMessage = onMessage;
    if (!isCommand) this.#connect();
  }

  state(): LinkState {
    const aliveAtMs = this.#aliveAtMs;
    const silentMs = aliveAtMs === undefined ? undefined : Math.max(0, systemClock.now() - aliveAtMs);
    return { name: this.#transport.name, connected: this.#channel !== undefined, silentMs };
  }

  /** Since when messages of other nodes are missing. Undefined as well if it carries only settings. */
  missingSinceMs(): number | undefined {
    return this.#carriesAll ? this.#lostAtMs : undefined;
  }

  /** Resolves when the connection to the other nodes is established. */
  listening(): Promise<void> {
    this.#connect();
    return this.#listening.promise;
  }

  /** Resolves when the first attempt to connect has ended, with or without success. */
  tried(): Promise<void> {
    return this.#tried.promise;
  }

  send(message: RealtimeMessage): void {
    if (this.#waiting.length >= MAX_WAITING) {
      this.#waiting = [{ type: 'missed', sinceMs: this.#aliveAtMs }];
    }
    this.#waiting.push(message);
    this.#connect();
    if (this.#channel === undefined) this.#hasBacklog = true;
    else this.#timer ??= setTimeout(() => void this.#flush(), this.#transport.gatherMs);
  }

  /** Sends the messages that wait and closes the connection. Drops what cannot be sent within 5 s. */
  async close(): Promise<void> {
    // A command-line program may publish and close before it is connected.
    if (this.#waiting.length > 0) await withTimeout(this.listening()).catch(() => {});
    await this.#flush();
    this.#closing.abort();
    await this.#kept;
  }

  #connect(): void {
    this.#kept ??= this.#keepOpen();
  }

  async #sendWaiting(): Promise<void> {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    while (this.#waiting.length > 0) {
      const channel = this.#channel;
      if (channel === undefined) return;
      const messages = this.#waiting;
      this.#waiting = [];
      try {
        const format = this.#hasBacklog ? withoutContent(channel.format) : channel.format;
        await withTimeout(channel.send(encodeMessages(this.#nodeId, messages, format)));
        this.#hasBacklog = false;
      } catch (error) {
        this.#waiting = [...this.#afterFailure(error, messages), ...this.#waiting];
        this.#hasBacklog = true;
        this.#log.warn(
          { err: error },
          'could not send messages to other nodes; retrying on a new connection',
        );
        channel.drop();
        return;
      }
    }
  }

  /** Returns the messages to send after a failure. Receivers ignore messages that they had already. */
  #afterFailure(error: unknown, messages: RealtimeMessage[]): RealtimeMessage[] {
    if (error instanceof NoResponse || !this.#transport.isRejection(error)) return messages;
    // The server rejected these messages and would do so again, which would block all later ones.
    return [{ type: 'missed', sinceMs: this.#aliveAtMs }];
  }

  async #keepOpen(): Promise<void> {
    let retryMs = FIRST_RETRY_MS;
    while (!this.#closing.signal.aborted) {
      try {
        await this.#serveChannel();
        retryMs = FIRST_RETRY_MS;
      } catch (error) {
        this.#log.warn({ err: error, retryMs }, 'could not connect to the message bus');
        if (this.#lostAtMs === undefined) this.#lost();
      }
      this.#tried.resolve();
      if (this.#closing.signal.aborted) return;
      await waitMs(retryMs * (0.5 + Math.random() / 2), this.#closing.signal).catch(() => {});
      retryMs = Math.min(retryMs * 2, LONGEST_RETRY_MS);
    }
  }

  /** Opens a channel and serves it. Resolves when it has ended. */
  async #serveChannel(): Promise<void> {
    const channel = await this.#transport.open((payload) => this.#receive(payload));
    const closing = Promise.withResolvers<void>();
    const stop = () => closing.resolve();
    this.#closing.signal.addEventListener('abort', stop, { once: true });
    if (this.#closing.signal.aborted) stop();
    let heartbeat: NodeJS.Timeout | undefined;
    try {
      await this.#announce(channel, { leaves: false });
      this.#aliveAtMs = await withTimeout(channel.probe());
      this.#opened(channel);
      heartbeat = setInterval(() => void this.#beat(channel), HEARTBEAT_MS);
      await Promise.race([channel.ended, closing.promise]);
      clearInterval(heartbeat);
      if (this.#closing.signal.aborted) await this.#announce(channel, { leaves: true }).catch(() => {});
    } finally {
      clearInterval(heartbeat);
      this.#closing.signal.removeEventListener('abort', stop);
      const wasOpen = this.#channel === channel;
      this.#channel = undefined;
      channel.drop();
      if (wasOpen && !this.#closing.signal.aborted) {
        this.#log.warn('lost the connection to the message bus; reconnecting');
        this.#listening = Promise.withResolvers<void>();
        this.#lost();
      }
    }
  }

  #opened(channel: Channel): void {
    this.#channel = channel;
    const lostAtMs = this.#lostAtMs;
    this.#lostAtMs = undefined;
    this.#listening.resolve();
    this.#tried.resolve();
    for (const nodeId of this.#peers.keys()) this.#peers.set(nodeId, performance.now());
    if (lostAtMs !== undefined) {
      this.#log.info('connected to the message bus again');
      this.#miss(lostAtMs);
    }
    void this.#flush();
  }

  #lost(): void {
    this.#lostAtMs = this.#aliveAtMs;
    if (this.#carriesAll && this.#lostAtMs !== undefined)
      this.#onMessage({ type: 'missing', sinceMs: this.#lostAtMs });
  }

  async #beat(channel: Channel): Promise<void> {
    try {
      await this.#announce(channel, { leaves: false });
      const aliveAtMs = await withTimeout(channel.probe());
      if (this.#channel !== channel) return;
      this.#aliveAtMs = aliveAtMs;
      this.#missSilent(aliveAtMs);
    } catch {
      channel.drop();
    }
  }

  /** Announces to other nodes that this one is connected, or that it `leaves`. */
  async #announce(channel: Channel, presence: { leaves: boolean }): Promise<void> {
    if (this.#announces) await withTimeout(channel.send([encodePresence(this.#nodeId, presence)]));
  }

  /** Publishes that the last messages of nodes are missing that have fallen silent. */
  #missSilent(aliveAtMs: number): void {
    const silent: string[] = [];
    let sinceMs = aliveAtMs;
    for (const [nodeId, heardMs] of this.#peers) {
      const silentMs = performance.now() - heardMs;
      if (silentMs < SILENT_MS) continue;
      this.#peers.delete(nodeId);
      sinceMs = Math.min(sinceMs, aliveAtMs - silentMs);
      silent.push(nodeId);
    }
    if (silent.length === 0) return;
    this.#log.warn(
      { silent },
      'a node fell silent: its last changes are read from the database, in case it was killed',
    );
    this.#miss(sinceMs);
  }

  #miss(sinceMs: number): void {
    this.#onMessage({ type: 'missed', sinceMs: this.#carriesAll ? sinceMs : undefined });
  }

  #receive(payload: string): void {
    const received = decodeMessages(payload);
    if (received === undefined || received.nodeId === this.#nodeId) return;
    const { nodeId, messages, presence } = received;
    if (presence === 'leaves') this.#peers.delete(nodeId);
    else this.#heard(nodeId, presence);
    for (const message of messages) this.#onMessage(message);
  }

  #heard(nodeId: string, presence: 'connected' | undefined): void {
    const isKnown = this.#peers.has(nodeId);
    // Nodes of releases that do not announce themselves are never missed.
    if (isKnown || presence !== undefined) this.#peers.set(nodeId, performance.now());
    if (isKnown || presence === undefined || this.#channel === undefined || this.#closing.signal.aborted)
      return;
    // The new node must not miss this one either. If it fails, so does the next heartbeat.
    this.#announce(this.#channel, { leaves: false }).catch(() => {});
  }
}
