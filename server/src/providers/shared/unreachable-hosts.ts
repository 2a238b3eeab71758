import { LRUCache } from 'lru-cache';
import { cacheLimit } from '../../lib/cache-limit.ts';

// Long enough to spare a dead host's name server and network stack, short enough that the wait goes unnoticed
// after it is back.
const REMEMBERED_MS = 1_000;
const MAX_HOSTS = 10_000;

interface LastResult {
  /** Missing after a success. */
  error?: unknown;
  atMs: number;
}

/**
 * Remembers for a second which hosts could not be connected to, so that a burst of messages to a dead one
 * does not repeat the same lookup and the same connection for each. The first attempt after that second
 * decides again, and a success counts at once.
 */
export class UnreachableHosts {
  /** Of hosts that have failed; what never failed takes no memory. */
  readonly #results = new LRUCache<string, LastResult>(cacheLimit(MAX_HOSTS));

  /** Connects to the host, or rejects with the error of the attempt that failed less than a second ago. */
  async connect<Connection>(host: string, open: () => Promise<Connection>): Promise<Connection> {
    const startedAtMs = performance.now();
    const last = this.#results.get(host);
    if (last?.error !== undefined && startedAtMs - last.atMs < REMEMBERED_MS) throw last.error;
    try {
      const connection = await open();
      if (this.#results.has(host)) this.#results.set(host, { atMs: performance.now() });
      return connection;
    } catch (error) {
      // An attempt that began before the last result says nothing new: without this, many slow failures of
      // one outage would keep a host blocked after it is back.
      const known = this.#results.get(host);
      if (known === undefined || startedAtMs >= known.atMs)
        this.#results.set(host, { error, atMs: performance.now() });
      throw error;
    }
  }
}
