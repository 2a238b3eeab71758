import { LRUCache } from 'lru-cache';
import { cacheLimit } from '../../lib/cache-limit.ts';

// Long enough to spare a dead host's name server and the network stack; short enough that recovery is not
// delayed noticeably.
const REMEMBERED_MS = 1_000;
const MAX_HOSTS = 10_000;

interface LastResult {
  /** Undefined after a success. */
  error?: unknown;
  atMs: number;
}

/**
 * Remembers for a second which hosts could not be connected to, so that a burst of messages to a dead host
 * does not repeat the lookup and the connection for each. The first attempt after that second decides again.
 * A success counts at once.
 */
export class UnreachableHosts {
  /** Only hosts that have failed, so others take no memory. */
  readonly #results = new LRUCache<string, LastResult>(cacheLimit(MAX_HOSTS));

  /** Connects to the host, or rejects with the error of an attempt that failed less than a second ago. */
  async connect<Connection>(host: string, open: () => Promise<Connection>): Promise<Connection> {
    const startedAtMs = performance.now();
    const last = this.#results.get(host);
    if (last?.error !== undefined && startedAtMs - last.atMs < REMEMBERED_MS) throw last.error;
    try {
      const connection = await open();
      if (this.#results.has(host)) this.#results.set(host, { atMs: performance.now() });
      return connection;
    } catch (error) {
      // Ignore a failure of an attempt that began before the last result. Otherwise many slow failures of one
      // outage would keep a host blocked after it has recovered.
      const known = this.#results.get(host);
      if (known === undefined || startedAtMs >= known.atMs)
        this.#results.set(host, { error, atMs: performance.now() });
      throw error;
    }
  }
}
