import type { Database } from '../../../db/client.ts';
import { systemClock } from '../../../lib/clock.ts';
import type { Logger } from '../../../lib/log.ts';
import { Link, type LinkState } from './link.ts';
import type { Bus, RealtimeMessage } from './messages.ts';
import { type NatsOptions, natsTransport } from './nats.ts';
import { CHANNEL, postgresTransport } from './postgres.ts';

// Messages that command-line programs send. They know only the database, so a server listens for them there,
// also if it exchanges all others with no node, or over NATS.
const BY_COMMANDS: ReadonlySet<RealtimeMessage['type']> = new Set([
  'project_changed',
  'token_discarded',
  'user_deleted',
  'user_restored',
  'identities_changed',
  'cells_changed',
  'project_moving',
  'project_stays',
  'project_moved',
]);
const REPORT_EVERY_MS = 60_000;

export interface BusOptions {
  db: Database;
  log: Logger;
  nodeId: string;
  /**
   * Whether other nodes serve users of this database. If not, only messages of command-line programs are
   * exchanged.
   */
  shared: boolean;
  /** See `LinkOptions`. */
  isCommand?: boolean;
  /** Exchanges messages with other nodes over NATS instead of the database. */
  nats?: NatsOptions | undefined;
  /** The channel in the database, if it is not that of the default cell. */
  channel?: string | undefined;
}

/** Creates the bus of one node, which connects in the background (see `listening`), or of a command. */
export function createBus(options: BusOptions): NodeBus {
  return new NodeBus(options);
}

/**
 * Passes messages to this node's subscribers at once, and to other nodes over the database or NATS. Messages
 * of the kinds that commands send also pass the database if there is NATS: they discard tokens and delete
 * users, and that must not wait until NATS is back. Subscribers may get those twice.
 */
export class NodeBus implements Bus {
  readonly #log: Logger;
  readonly #sharesDatabase: boolean;
  readonly #subscribers = new Set<{ handler: (message: RealtimeMessage) => void }>();
  readonly #database: Link;
  readonly #nats: Link | undefined;
  #reportedAtMs = Number.NEGATIVE_INFINITY;

  constructor({ db, log, nodeId, shared, isCommand = false, nats, channel = CHANNEL }: BusOptions) {
    this.#log = log;
    const usesNats = shared && nats !== undefined;
    this.#sharesDatabase = shared && !usesNats;
    this.#database = new Link({
      transport: postgresTransport({ db, log, channel }),
      ...{ log, nodeId, isCommand, carriesAll: this.#sharesDatabase },
      onMessage: (message) => {
        if (usesNats && isOfNode(message)) this.#reportNodeWithoutNats();
        this.#dispatch(message);
      },
    });
    if (!usesNats) return;
    this.#nats = new Link({
      transport: natsTransport(nats),
      ...{ log, nodeId, isCommand, carriesAll: true, aliveAtMs: systemClock.now() },
      onMessage: (message) => this.#dispatch(message),
    });
  }

  publish(message: RealtimeMessage): void {
    this.#dispatch(message);
    this.#nats?.send(message);
    if (this.#sharesDatabase || BY_COMMANDS.has(message.type)) this.#database.send(message);
  }

  subscribe(handler: (message: RealtimeMessage) => void): () => void {
    // An object of its own, so that the same handler given twice is called twice and ended once.
    const subscriber = { handler };
    this.#subscribers.add(subscriber);
    for (const link of this.#links()) {
      const sinceMs = link.missingSinceMs();
      if (sinceMs !== undefined) handler({ type: 'missing', sinceMs });
    }
    return () => this.#subscribers.delete(subscriber);
  }

  /** The connections to other nodes. */
  state(): LinkState[] {
    return this.#links().map((link) => link.state());
  }

  /**
   * Resolves when messages of commands arrive and, unless NATS is unavailable, those of other nodes. Without
   * NATS, a node works by polling until it is there.
   */
  async listening(): Promise<void> {
    await Promise.all([this.#database.listening(), this.#nats?.tried()]);
  }

  /** Sends the messages that wait and closes the connections. Drops what cannot be sent within 5 s. */
  async close(): Promise<void> {
    await Promise.all(this.#links().map((link) => link.close()));
  }

  #links(): Link[] {
    return this.#nats === undefined ? [this.#database] : [this.#database, this.#nats];
  }

  #dispatch(message: RealtimeMessage): void {
    for (const { handler } of this.#subscribers) {
      try {
        handler(message);
      } catch (error) {
        // A bug in one subscriber must not stop the others or the publisher.
        this.#log.error({ err: error, type: message.type }, 'a subscriber of the bus failed');
      }
    }
  }

  #reportNodeWithoutNats(): void {
    const nowMs = performance.now();
    if (nowMs - this.#reportedAtMs < REPORT_EVERY_MS) return;
    this.#reportedAtMs = nowMs;
    this.#log.error(
      'another node of this database runs without NATS_URL, so it gets no messages of this one: ' +
        'set the same NATS_URL for all nodes, and restart them',
    );
  }
}

/** Whether only a server that exchanges all messages over the database has sent it there. */
function isOfNode({ type }: RealtimeMessage): boolean {
  return !BY_COMMANDS.has(type) && type !== 'missing' && type !== 'missed';
}
