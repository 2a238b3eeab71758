import { type Database, isDatabaseUnavailable } from '../../../db/client.ts';
import { arrivesAt, SILENT_BUS } from '../../../db/pooler.ts';
import { afterAwake } from '../../../lib/awake.ts';
import { systemClock } from '../../../lib/clock.ts';
import type { Logger } from '../../../lib/log.ts';
import type { Bus, RealtimeMessage } from './messages.ts';
import { decodeMessages, encodeMessages } from './wire.ts';

const CHANNEL = 'belfry_realtime';
// Messages published within this time share a transaction. Commits with NOTIFY take one lock after another,
// so their number is kept to 200 a second.
const GATHER_MS = 5;
// The link is probed this often, and closed when no response arrives in time. Both together have to stay well
// below the margin of a resume (resume-cursor.ts), which covers messages published before the loss was
// noticed.
const HEARTBEAT_MS = 8_000;
const RESPONSE_TIMEOUT_MS = 5_000;
const FIRST_RETRY_MS = 100;
const LONGEST_RETRY_MS = 5_000;
// Messages kept while the link is down. When there are more, other nodes get one `missed` message instead.
const MAX_WAITING = 10_000;

// Messages that command-line programs send. A server that is the only node of its database listens for them
// too.
const BY_COMMANDS: ReadonlySet<RealtimeMessage['type']> = new Set([
  'project_changed',
  'token_discarded',
  'user_deleted',
  'user_restored',
  'identities_changed',
]);

type Client = Awaited<ReturnType<Database['connect']>>;

export interface BusOptions {
  db: Database;
  log: Logger;
  /** Marks this node's own messages, which it ignores when they come back. */
  nodeId: string;
  /**
   * Whether other nodes serve users of this database. If not, only messages of command-line programs are
   * exchanged.
   */
  shared: boolean;
}

/**
 * Creates the bus of one node. It connects in the background; `listening` resolves when it receives messages.
 */
export function createBus(options: BusOptions): PostgresBus {
  return new PostgresBus(options);
}

/**
 * Passes messages to this node's subscribers at once, and to other nodes by LISTEN/NOTIFY. NOTIFY runs on a
 * connection of its own, never in the transaction that wrote: its lock would make all writers commit one
 * after another.
 */
export class PostgresBus implements Bus {
  readonly #db: Database;
  readonly #log: Logger;
  readonly #nodeId: string;
  readonly #shared: boolean;
  readonly #handlers = new Set<(message: RealtimeMessage) => void>();
  readonly #closing = new AbortController();
  readonly #link: Promise<void>;
  #listening = Promise.withResolvers<void>();
  #client: Client | undefined;
  #waiting: RealtimeMessage[] = [];
  #timer: NodeJS.Timeout | undefined;
  #flushing: Promise<void> | undefined;
  #aliveAtMs: number | undefined;

  constructor({ db, log, nodeId, shared }: BusOptions) {
    this.#db = db;
    this.#log = log;
    this.#nodeId = nodeId;
    this.#shared = shared;
    this.#link = this.#keepLinked();
  }

  publish(message: RealtimeMessage): void {
    this.#dispatch(message);
    if (this.#shared || BY_COMMANDS.has(message.type)) this.#enqueue(message);
  }

  subscribe(handler: (message: RealtimeMessage) => void): () => void {
    // A function of its own, so that the same handler given twice is called twice and ended once.
    const entry = (message: RealtimeMessage) => handler(message);
    this.#handlers.add(entry);
    return () => this.#handlers.delete(entry);
  }

  /** Whether messages of other nodes arrive, and for how long the database has not responded. */
  state(): { connected: boolean; silentMs: number | undefined } {
    const aliveAtMs = this.#aliveAtMs;
    const silentMs = aliveAtMs === undefined ? undefined : Math.max(0, systemClock.now() - aliveAtMs);
    return { connected: this.#client !== undefined, silentMs };
  }

  /** Resolves when the connection to the other nodes is established. */
  listening(): Promise<void> {
    return this.#listening.promise;
  }

  /** Sends the messages that wait and closes the connection. Drops what cannot be sent within 5 s. */
  async close(): Promise<void> {
    // A command-line program may publish and close before it is connected.
    if (this.#waiting.length > 0) await withTimeout(this.listening()).catch(() => {});
    await this.#flush();
    this.#closing.abort();
    await this.#link;
  }

  #dispatch(message: RealtimeMessage): void {
    for (const handler of this.#handlers) {
      try {
        handler(message);
      } catch (error) {
        // A bug in one subscriber must not stop the others or the publisher.
        this.#log.error({ err: error, type: message.type }, 'a subscriber of the bus failed');
      }
    }
  }

  #enqueue(message: RealtimeMessage): void {
    if (this.#waiting.length >= MAX_WAITING) {
      this.#waiting = [{ type: 'missed', sinceMs: this.#aliveAtMs }];
    }
    this.#waiting.push(message);
    if (this.#client !== undefined) this.#timer ??= setTimeout(() => void this.#flush(), GATHER_MS);
  }

  /**
   * Sends the messages that wait, one transaction at a time, so that they arrive in the order in which they
   * were published.
   */
  #flush(): Promise<void> {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#flushing ??= this.#send().finally(() => {
      this.#flushing = undefined;
    });
    return this.#flushing;
  }

  async #send(): Promise<void> {
    while (this.#waiting.length > 0) {
      const client = this.#client;
      if (client === undefined) return;
      const messages = this.#waiting;
      this.#waiting = [];
      try {
        await withTimeout(client.query(notify, [CHANNEL, encodeMessages(this.#nodeId, messages)]));
      } catch (error) {
        this.#waiting = [...afterFailure(error, messages, this.#aliveAtMs), ...this.#waiting];
        this.#log.warn(
          { err: error },
          'could not send messages to other nodes; retrying on a new connection',
        );
        drop(client);
        return;
      }
    }
  }

  async #keepLinked(): Promise<void> {
    let retryMs = FIRST_RETRY_MS;
    while (!this.#closing.signal.aborted) {
      try {
        await this.#serveConnection();
        retryMs = FIRST_RETRY_MS;
      } catch (error) {
        this.#log.warn({ err: error, retryMs }, 'could not connect to the message bus');
      }
      if (this.#closing.signal.aborted) return;
      await pause(retryMs * (0.5 + Math.random() / 2), this.#closing.signal);
      retryMs = Math.min(retryMs * 2, LONGEST_RETRY_MS);
    }
  }

  /** Opens a connection and serves it. Resolves when the connection has ended. */
  async #serveConnection(): Promise<void> {
    const client = await this.#connect();
    if (client === undefined) return;
    const ended = Promise.withResolvers<void>();
    client.on('error', () => ended.resolve());
    client.on('end', () => ended.resolve());
    client.on('notification', ({ payload }) => this.#receive(payload ?? ''));
    const stop = () => ended.resolve();
    this.#closing.signal.addEventListener('abort', stop, { once: true });
    let heartbeat: NodeJS.Timeout | undefined;
    try {
      await withTimeout(client.query(`listen ${CHANNEL}`));
      const lostAtMs = this.#aliveAtMs;
      this.#aliveAtMs = await databaseTime(client);
      this.#client = client;
      this.#listening.resolve();
      if (lostAtMs !== undefined)
        this.#dispatch({ type: 'missed', sinceMs: this.#shared ? lostAtMs : undefined });
      void this.#flush();
      heartbeat = setInterval(() => void this.#beat(client), HEARTBEAT_MS);
      void this.#prove(client);
      await ended.promise;
    } finally {
      clearInterval(heartbeat);
      this.#closing.signal.removeEventListener('abort', stop);
      const wasConnected = this.#client === client;
      this.#client = undefined;
      drop(client);
      if (wasConnected && !this.#closing.signal.aborted) this.#lost();
    }
  }

  #lost(): void {
    this.#listening = Promise.withResolvers<void>();
    this.#log.warn('lost the connection to the message bus; reconnecting');
    if (this.#shared && this.#aliveAtMs !== undefined)
      this.#dispatch({ type: 'missing', sinceMs: this.#aliveAtMs });
  }

  /**
   * Resolves with a connection, or with undefined if the bus was closed meanwhile. Closes a late connection.
   */
  async #connect(): Promise<Client | undefined> {
    const connecting = this.#db.connect();
    try {
      const client = await withTimeout(connecting);
      client.on('error', () => {}); // before and after #serveConnection handles errors
      if (!this.#closing.signal.aborted) return client;
      await client.end();
      return undefined;
    } catch (error) {
      connecting.then((client) => client.end()).catch(() => {});
      throw error;
    }
  }

  async #beat(client: Client): Promise<void> {
    try {
      this.#aliveAtMs = await databaseTime(client);
    } catch {
      drop(client);
    }
  }

  /** Replaces a connection that receives nothing, such as that to a pooler in transaction mode. */
  async #prove(client: Client): Promise<void> {
    try {
      if (await arrivesAt(client, this.#db)) return;
      this.#log.error(`${SILENT_BUS.message}: ${SILENT_BUS.advice}`);
      drop(client);
    } catch {
      // The pool or the connection is unavailable: the next connection is checked.
    }
  }

  #receive(payload: string): void {
    const received = decodeMessages(payload);
    if (received === undefined || received.nodeId === this.#nodeId) return;
    for (const message of received.messages) this.#dispatch(message);
  }
}

// Notifications of one transaction arrive in the order of the calls; identical ones arrive once. The commit
// need not wait for the disk: the data that a message announces is committed already.
const notify = `
  select pg_notify($1, payload)
  from (select set_config('synchronous_commit', 'off', true)) without_waiting,
    unnest($2::text[]) with ordinality as p (payload, n)
  order by n`;

/** Returns the messages to send after a failure. Receivers ignore messages that they had already. */
function afterFailure(
  error: unknown,
  messages: RealtimeMessage[],
  sinceMs: number | undefined,
): RealtimeMessage[] {
  const timedOut = error instanceof NoResponse;
  if (timedOut || isDatabaseUnavailable(error)) return messages;
  // The database rejected these messages and would do so again, which would block all later ones.
  return [{ type: 'missed', sinceMs }];
}

/**
 * Closes a connection that may be broken, without waiting. The driver destroys it if a query is in flight.
 */
function drop(client: Client): void {
  client.end().catch(() => {}); // already closed
}

class NoResponse extends Error {}

async function databaseTime(client: Client): Promise<number> {
  const { rows } = await withTimeout(client.query<{ now: Date }>('select clock_timestamp() as now'));
  return rows[0]?.now.getTime() ?? 0;
}

async function withTimeout<Value>(promise: Promise<Value>): Promise<Value> {
  const late = Promise.withResolvers<never>();
  const clear = afterAwake(RESPONSE_TIMEOUT_MS, () =>
    late.reject(new NoResponse(`no response within ${RESPONSE_TIMEOUT_MS} ms`)),
  );
  try {
    return await Promise.race([promise, late.promise]);
  } finally {
    clear();
  }
}

function pause(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(done, ms);
    function done() {
      clearTimeout(timer);
      signal.removeEventListener('abort', done);
      resolve();
    }
    signal.addEventListener('abort', done, { once: true });
    if (signal.aborted) done();
  });
}
