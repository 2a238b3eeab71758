import { Socket } from 'node:net';
import pg from 'pg';
import { afterAwake, awakeMs } from '../lib/awake.ts';
import { GuardedClient } from './guarded-client.ts';

/** The database does not respond, although its connections are open. */
export class DatabaseSilent extends Error {
  readonly code = 'ETIMEDOUT';

  constructor() {
    super('the database does not respond');
  }
}

// A probe is sent if a statement has waited this long and no other statement got a response.
const SUSPICIOUS_MS = 3_000;
// The time for `select 1` on a new connection. Both together limit the time that a caller waits for an error.
const PROBE_MS = 2_000;
const LOOK_EVERY_MS = 500;

/**
 * Distinguishes a slow statement from a database that has stopped responding: a lost or frozen machine closes
 * no connection, so its callers would wait forever. If a new connection gets no response either, all waiting
 * callers get an error, and so do new ones until the database responds again.
 */
export class Pulse {
  readonly #settings: pg.ClientConfig;
  readonly #pooler: pg.ClientConfig | undefined;
  readonly #statementTimeoutMs: number;
  readonly #waiting = new Set<Wait>();
  #timer: NodeJS.Timeout | undefined;
  #heardAt = 0;
  #silent = false;
  #probing = false;

  /**
   * The server itself ends a statement after `statementTimeoutMs`, so a later response is lost. If the
   * statements pass a connection pooler, that must respond as well.
   */
  constructor(settings: pg.ClientConfig, statementTimeoutMs: number, pooler?: pg.ClientConfig) {
    this.#settings = settings;
    this.#pooler = pooler;
    this.#statementTimeoutMs = statementTimeoutMs;
  }

  /**
   * Begins a wait; `abort` is called if there will be no response. Throws `DatabaseSilent` while the database
   * is known to be silent.
   */
  begin(abort: (error: DatabaseSilent) => void): Wait {
    if (this.#silent) throw new DatabaseSilent();
    const wait = { since: awakeMs(), abort };
    this.#waiting.add(wait);
    this.#timer ??= setInterval(() => this.#look(), LOOK_EVERY_MS).unref();
    return wait;
  }

  /** Ends a wait, with its error if it failed. Only a statement is a `response`, not a place in the pool. */
  end(wait: Wait, { error, response }: { error?: unknown; response: boolean }): void {
    this.#waiting.delete(wait);
    if (response && (!error || isFromServer(error))) this.#heard();
  }

  /** The wait begins now: the connection was busy with another statement until then. */
  restart(wait: Wait): void {
    if (!this.#waiting.delete(wait)) return;
    wait.since = awakeMs();
    this.#waiting.add(wait); // in the order of their beginnings
  }

  close(): void {
    clearInterval(this.#timer);
    this.#timer = undefined;
  }

  #heard(): void {
    this.#heardAt = awakeMs();
    this.#silent = false;
  }

  #look(): void {
    if (this.#waiting.size === 0 && !this.#silent) {
      this.close();
      return;
    }
    const now = awakeMs();
    const [oldest] = this.#waiting;
    for (const wait of this.#waiting) {
      if (now - wait.since <= this.#statementTimeoutMs + SUSPICIOUS_MS) break; // later ones began later
      wait.abort(new DatabaseSilent());
    }
    const quietSince = Math.max(this.#heardAt, oldest?.since ?? 0);
    if (this.#probing || (!this.#silent && now - quietSince < SUSPICIOUS_MS)) return;
    this.#probing = true;
    void this.#probe().finally(() => {
      this.#probing = false;
    });
  }

  async #probe(): Promise<void> {
    const askedAt = awakeMs();
    const responded = await this.#ask();
    // Any other response counts as much as that of the probe.
    if (responded || this.#heardAt > askedAt) {
      this.#heard();
      return;
    }
    this.#silent = true;
    for (const wait of [...this.#waiting]) wait.abort(new DatabaseSilent());
  }

  async #ask(): Promise<boolean> {
    const database = responds(this.#settings, (client) => client.query('select 1'));
    // Only the login, because a statement may wait in the pooler's queue.
    const pooler = this.#pooler === undefined || responds(this.#pooler);
    return (await database) && pooler;
  }
}

/** Whether a new connection, and `work` on it, gets a response in time. */
async function responds(
  settings: pg.ClientConfig,
  work: (client: pg.Client) => Promise<unknown> = async () => {},
): Promise<boolean> {
  const socket = new Socket();
  const client = new GuardedClient({ ...settings, stream: () => socket });
  client.on('error', () => {}); // from destroying the socket below
  const { promise: late, resolve } = Promise.withResolvers<boolean>();
  const clear = afterAwake(PROBE_MS, () => resolve(false));
  const response = client
    .connect()
    .then(() => work(client))
    .then(() => true, isFromServer);
  try {
    return await Promise.race([response, late]);
  } finally {
    clear();
    socket.destroy();
  }
}

/** A caller that waits for the database. */
export interface Wait {
  since: number;
  readonly abort: (error: DatabaseSilent) => void;
}

/** Whether the error came from the server, which therefore responds. */
function isFromServer(error: unknown): boolean {
  return error instanceof pg.DatabaseError;
}
