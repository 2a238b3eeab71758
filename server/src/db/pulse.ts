import { Socket } from 'node:net';
import { setTimeout as delay, setImmediate as turn } from 'node:timers/promises';
import pg from 'pg';
import { GuardedClient } from './guarded-client.ts';

/** A connection stands, but the database says nothing any more. */
export class DatabaseSilent extends Error {
  readonly code = 'ETIMEDOUT';

  constructor() {
    super('the database does not answer');
  }
}

// A statement that waits this long while nothing else is answered either is worth a question.
const SUSPICIOUS_MS = 3_000;
// A database that lives answers `select 1` on a new connection within this; together they bound how long a
// caller waits in vain.
const PROBE_MS = 2_000;
const LOOK_EVERY_MS = 500;

/**
 * Tells a slow statement from a database that has stopped answering: a machine that is gone or frozen closes
 * no connection, and whoever waits for it would wait for ever. Silence is only believed after a new
 * connection met it too; then everybody who waits is told, and whoever comes is told at once, until it
 * answers again.
 */
export class Pulse {
  readonly #settings: pg.ClientConfig;
  readonly #statementTimeoutMs: number;
  readonly #waiting = new Set<Wait>();
  #timer: NodeJS.Timeout | undefined;
  #heardAt = 0;
  #silent = false;
  #probing = false;

  /**
   * `statementTimeoutMs` is after what time the server itself ends a statement: an answer that is later than
   * that is lost.
   */
  constructor(settings: pg.ClientConfig, statementTimeoutMs: number) {
    this.#settings = settings;
    this.#statementTimeoutMs = statementTimeoutMs;
  }

  /**
   * Somebody waits from now on; `giveUp` is called when there will be no answer. Throws `DatabaseSilent`
   * while that is known.
   */
  begin(giveUp: (error: DatabaseSilent) => void): Wait {
    if (this.#silent) throw new DatabaseSilent();
    const wait = { since: performance.now(), giveUp };
    this.#waiting.add(wait);
    this.#timer ??= setInterval(() => this.#look(), LOOK_EVERY_MS).unref();
    return wait;
  }

  /**
   * The wait is over. `error` is what it ended with; a place in the pool is nothing that the database has
   * said.
   */
  end(wait: Wait, { error, said }: { error?: unknown; said: boolean }): void {
    this.#waiting.delete(wait);
    if (said && (!error || isAnswer(error))) this.#heard();
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
      oldest.giveUp(new DatabaseSilent());
    const quietSince = Math.max(this.#heardAt, oldest?.since ?? 0);
    if (this.#probing || (!this.#silent && now - quietSince < SUSPICIOUS_MS)) return;
    this.#probing = true;
    void this.#probe().finally(() => {
      this.#probing = false;
    });
  }

  async #probe(): Promise<void> {
    const askedAt = performance.now();
    const answered = await this.#ask();
    // What was answered meanwhile counts as much as the probe.
    if (answered || this.#heardAt > askedAt) {
      this.#heard();
      return;
    }
    this.#silent = true;
    for (const wait of [...this.#waiting]) wait.giveUp(new DatabaseSilent());
  }

  async #ask(): Promise<boolean> {
    const socket = new Socket();
    const client = new GuardedClient({ ...this.#settings, stream: () => socket });
    client.on('error', () => {}); // the end of the socket below
    const stop = new AbortController();
    const answered = client
      .connect()
      .then(() => client.query('select 1'))
      .then(() => true, isAnswer);
    const late = delay(PROBE_MS, undefined, { signal: stop.signal })
      // When it was we who stood still, the answer has arrived and is only not read yet.
      .then(() => turn())
      .then(() => false)
      .catch(() => false);
    try {
      return await Promise.race([answered, late]);
    } finally {
      stop.abort();
      socket.destroy();
    }
  }
}

/** Somebody who waits for the database. */
export interface Wait {
  readonly since: number;
  readonly giveUp: (error: DatabaseSilent) => void;
}

/** Whether the server itself has said this: then it lives. */
function isAnswer(error: unknown): boolean {
  return error instanceof pg.DatabaseError;
}
