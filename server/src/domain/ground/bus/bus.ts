import { type Database, isDatabaseUnavailable } from '../../../db/client.ts';
import type { Logger } from '../../../lib/log.ts';
import type { Bus, RealtimeMessage } from './messages.ts';
import { decodeMessages, encodeMessages } from './wire.ts';

const CHANNEL = 'belfry_realtime';
// What is published within it shares a transaction. A commit with NOTIFY takes a lock that all such commits
// share, so 200 of them a second are cheap, and 5 ms are nobody's delay.
const GATHER_MS = 5;
// The link says that it lives this often; without an answer in time it is taken for dead. Both together have
// to stay well below the margin of a resume (resume-cursor.ts), which covers what was published before the
// loss was noticed.
const HEARTBEAT_MS = 8_000;
const ANSWER_TIMEOUT_MS = 5_000;
const FIRST_RETRY_MS = 100;
const LONGEST_RETRY_MS = 5_000;
// What waits while the link is down. Beyond it the other nodes are told to look for themselves.
const MAX_WAITING = 10_000;

// What a command line may cause a server to hear of that is alone on its database.
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
  /** Tells this node's own messages from those of the others. */
  nodeId: string;
  /**
   * Whether other nodes serve users of this database. When not, only what a command line may cause is
   * exchanged.
   */
  shared: boolean;
}

/** The bus of one node. It starts to listen at once; `listening` resolves when it does. */
export function createBus(options: BusOptions): PostgresBus {
  return new PostgresBus(options);
}

/**
 * Messages go to this node's subscribers at once and to other nodes by LISTEN/NOTIFY, on a connection of its
 * own and never in the writing transaction: there, the lock of NOTIFY would make all writers commit one after
 * another.
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

  /** Resolves when the link to the other nodes stands. */
  listening(): Promise<void> {
    return this.#listening.promise;
  }

  /** Sends what is gathered and ends the link. What cannot be sent within 5 s is left. */
  async close(): Promise<void> {
    // A command that publishes and ends is done before its link stands.
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
        // One subscriber's defect must not keep the others, or the publisher, from going on.
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
   * Sends all that waits, one transaction after another, so that messages arrive in the order in which they
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
          'messages did not reach the other nodes; sending again on a new connection',
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
        await this.#live();
        retryMs = FIRST_RETRY_MS;
      } catch (error) {
        this.#log.warn({ err: error, retryMs }, 'no link to other nodes');
      }
      if (this.#closing.signal.aborted) return;
      await pause(retryMs * (0.5 + Math.random() / 2), this.#closing.signal);
      retryMs = Math.min(retryMs * 2, LONGEST_RETRY_MS);
    }
  }

  /** One connection's life: resolves when it has ended. */
  async #live(): Promise<void> {
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
      // A NOTIFY writes a commit record; nothing is lost that the database does not hold, so it need not
      // reach the disk.
      await withTimeout(client.query(`set synchronous_commit = off; listen ${CHANNEL}`));
      const lostAtMs = this.#aliveAtMs;
      this.#aliveAtMs = await databaseTime(client);
      this.#client = client;
      this.#listening.resolve();
      if (lostAtMs !== undefined)
        this.#dispatch({ type: 'missed', sinceMs: this.#shared ? lostAtMs : undefined });
      void this.#flush();
      heartbeat = setInterval(() => void this.#beat(client), HEARTBEAT_MS);
      await ended.promise;
    } finally {
      clearInterval(heartbeat);
      this.#closing.signal.removeEventListener('abort', stop);
      const stood = this.#client === client;
      this.#client = undefined;
      drop(client);
      if (stood && !this.#closing.signal.aborted) this.#lost();
    }
  }

  #lost(): void {
    this.#listening = Promise.withResolvers<void>();
    this.#log.warn('the link to other nodes is lost; connecting again');
    if (this.#shared && this.#aliveAtMs !== undefined)
      this.#dispatch({ type: 'missing', sinceMs: this.#aliveAtMs });
  }

  /** A connection; `undefined` when the bus was closed meanwhile. One that comes too late is ended. */
  async #connect(): Promise<Client | undefined> {
    const connecting = this.#db.connect();
    try {
      const client = await withTimeout(connecting);
      client.on('error', () => {}); // until #live listens, and after it has stopped to
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

  #receive(payload: string): void {
    const received = decodeMessages(payload);
    if (received === undefined || received.nodeId === this.#nodeId) return;
    for (const message of received.messages) this.#dispatch(message);
  }
}

// Several notifications in one transaction arrive in the order of their calls; identical ones of a
// transaction arrive once.
const notify =
  'select pg_notify($1, payload) from unnest($2::text[]) with ordinality as p (payload, n) order by n';

/**
 * What to send in place of messages that may or may not have gone out; receivers know what they had already.
 */
function afterFailure(
  error: unknown,
  messages: RealtimeMessage[],
  sinceMs: number | undefined,
): RealtimeMessage[] {
  const timedOut = error instanceof NoAnswer;
  if (timedOut || isDatabaseUnavailable(error)) return messages;
  // The database refused them: it would again, and hold up all that come after.
  return [{ type: 'missed', sinceMs }];
}

/**
 * Ends a connection that may be half dead, without waiting for it. With a query under way the driver cuts it
 * off.
 */
function drop(client: Client): void {
  client.end().catch(() => {}); // it is gone either way
}

class NoAnswer extends Error {}

async function databaseTime(client: Client): Promise<number> {
  const { rows } = await withTimeout(client.query<{ now: Date }>('select clock_timestamp() as now'));
  return rows[0]?.now.getTime() ?? 0;
}

async function withTimeout<Value>(promise: Promise<Value>): Promise<Value> {
  const late = Promise.withResolvers<never>();
  const timer = setTimeout(
    () => late.reject(new NoAnswer(`no answer within ${ANSWER_TIMEOUT_MS} ms`)),
    ANSWER_TIMEOUT_MS,
  );
  try {
    return await Promise.race([promise, late.promise]);
  } finally {
    clearTimeout(timer);
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
