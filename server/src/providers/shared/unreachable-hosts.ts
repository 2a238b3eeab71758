import { LRUCache } from 'lru-cache';
import { cacheLimit } from '../../lib/cache-limit.ts';

// Long enough to spare a dead host's name server and the network stack; short enough that recovery is not
// delayed noticeably.
const REMEMBERED_MS = 1_000;
// An error holds up to 24 kB until its stack is read, so only the errors of that second are stored.
const MAX_ERRORS = 1_000;
const MAX_HOSTS = 10_000;

/**
 * Remembers for a second which hosts could not be connected to, so that a burst of messages to a dead host
 * does not repeat the lookup and the connection for each. The first attempt after that second decides again.
 * A success counts at once.
 */
export class UnreachableHosts {
  readonly #errors = new LRUCache<string, { error: unknown }>({
    ...cacheLimit(MAX_ERRORS),
    ttl: REMEMBERED_MS,
    ttlAutopurge: true,
  });
  /** When the last result of a host arrived. Only hosts that have failed, so others take no memory. */
  readonly #resultsMs = new LRUCache<string, number>(cacheLimit(MAX_HOSTS));

  /** Connects to the host, or rejects with the error of an attempt that failed less than a second ago. */
  async connect<Connection>(host: string, open: () => Promise<Connection>): Promise<Connection> {
    const startedAtMs = performance.now();
    const last = this.#errors.get(host);
    if (last !== undefined) throw last.error;
    try {
      const connection = await open();
      if (this.#resultsMs.has(host)) this.#resultsMs.set(host, performance.now());
      this.#errors.delete(host);
      return connection;
    } catch (error) {
      // Ignore a failure of an attempt that began before the last result. Otherwise many slow failures of one
      // outage would keep a host blocked after it has recovered.
      const resultMs = this.#resultsMs.get(host);
      if (resultMs === undefined || startedAtMs >= resultMs) {
        this.#resultsMs.set(host, performance.now());
        this.#errors.set(host, { error });
      }
      throw error;
    }
  }
}
