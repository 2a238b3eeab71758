import { LRUCache } from 'lru-cache';
import { type Queryable, sql } from '../../../db/client.ts';
import { cacheLimit } from '../../../lib/cache-limit.ts';
import type { Logger } from '../../../lib/log.ts';
import type { Bus } from '../../ground/bus/messages.ts';

// Their messages in flight end within minutes.
const MAX_KEPT = 10_000;

/**
 * The broadcasts that were cancelled lately. Fan-outs and deliveries read from the database whether their
 * broadcast is cancelled. This is for messages that were loaded before, and wait for a permit.
 */
export class CancelledBroadcasts {
  readonly #db: Queryable;
  readonly #log: Logger;
  readonly #ids = new LRUCache<string, true>(cacheLimit(MAX_KEPT));
  readonly #unsubscribe: () => void;

  constructor({ db, bus, log }: { db: Queryable; bus: Bus; log: Logger }) {
    this.#db = db;
    this.#log = log;
    this.#unsubscribe = bus.subscribe((message) => {
      if (message.type === 'broadcast_cancelled') this.#ids.set(message.broadcastId, true);
      if (message.type === 'missed' && message.sinceMs !== undefined) void this.#read(message.sinceMs);
    });
  }

  has(broadcastId: string): boolean {
    return this.#ids.size > 0 && this.#ids.has(broadcastId);
  }

  close(): void {
    this.#unsubscribe();
  }

  async #read(sinceMs: number): Promise<void> {
    try {
      const rows = await this.#db.query<{ id: string }>(selectSince, [new Date(sinceMs), MAX_KEPT]);
      for (const { id } of rows) this.#ids.set(id, true);
    } catch (error) {
      this.#log.warn(
        { err: error },
        'cancelled broadcasts could not be read; the next loss of messages retries',
      );
    }
  }
}

// Index broadcasts_cancelled (cancelled_at).
const selectSince = sql(
  'broadcasts_cancelled_since',
  'select id from broadcasts where cancelled_at >= $1 order by cancelled_at desc limit $2',
);
