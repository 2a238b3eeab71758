import { Socket } from 'node:net';
import { setTimeout as delay, setImmediate as turn } from 'node:timers/promises';
import pg from 'pg';
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
  readonly #statementTimeoutMs: number;
  readonly #waiting = new Set<Wait>();
  #timer: NodeJS.Timeout | undefined;
  #heardAt = 0;
  #silent = false;
  #probing = false;

  /** The server itself ends a statement after `statementTimeoutMs`, so a later response is lost. */
  constructor(settings: pg.ClientConfig, statementTimeoutMs: number) {
    this.#settings = settings;
    this.#statementTimeoutMs = statementTimeoutMs;
  }

  /**
   * Begins a wait; `abort` is called if there will be no response. Throws `DatabaseSilent` while the database
   * is known to be silent.
   */
  begin(abort: (error: DatabaseSilent) => void): Wait {
    if (this.#silent) throw new DatabaseSilent();
    const wait = { since: performance.now(), abort };
    this.#waiting.add(wait);
    this.#timer ??= setInterval(() => this.#look(), LOOK_EVERY_MS).unref();
    return wait;
  }

  /** Ends a wait, with its error if it failed. Only a statement is a `response`, not a place in the pool. */
  end(wait: Wait, { error, response }: { error?: unknown; response: boolean }): void {
    this.#waiting.delete(wait);
    if (response && (!error || isFromServer(error))) this.#heard();
  }

  close(): void {
    clearInterval(this.#timer);
    this.#timer = undefined;
  }

  #heard(): void {
    this.#heardAt = performance.now();
    this.#silent = false;
  }

  #look(): void {
    if (this.#waiting.size === 0 && !this.#silent) {
      this.close();
      return;
    }
    const now = performance.now();
    const [oldest] = this.#waiting;
    if (oldest !== undefined && now - oldest.since > this.#statementTimeoutMs + SUSPICIOUS_MS)
      oldest.abort(new DatabaseSilent());
    const quietSince = Math.max(this.#heardAt, oldest?.since ?? 0);
    if (this.#probing || (!this.#silent && now - quietSince < SUSPICIOUS_MS)) return;
    this.#probing = true;
    void this.#probe().finally(() => {
      this.#probing = false;
    });
  }

  async #probe(): Promise<void> {
    const askedAt = performance.now();
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
    const socket = new Socket();
    const client = new GuardedClient({ ...this.#settings, stream: () => socket });
    client.on('error', () => {}); // from destroying the socket below
    const stop = new AbortController();
    const response = client
      .connect()
      .then(() => client.query('select 1'))
      .then(() => true, isFromServer);
    const late = delay(PROBE_MS, undefined, { signal: stop.signal })
      // If this process was blocked, the response has arrived and is read now.
      .then(() => turn())
      .then(() => false)
      .catch(() => false);
    try {
      return await Promise.race([response, late]);
    } finally {
      stop.abort();
      socket.destroy();
    }
  }
}

/** A caller that waits for the database. */
export interface Wait {
  readonly since: number;
  readonly abort: (error: DatabaseSilent) => void;
}

/** Whether the error came from the server, which therefore responds. */
function isFromServer(error: unknown): boolean {
  return error instanceof pg.DatabaseError;
}
