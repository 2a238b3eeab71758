import { LRUCache } from 'lru-cache';
import { cacheLimit } from '../../../lib/cache-limit.ts';
import type { Bus } from '../../ground/bus/messages.ts';

// A change on another node is noticed within this time even if its message was lost.
const FRESH_MS = 10_000;
const MAX_PROJECTS = 5_000;

/** Caches what was loaded for the projects in use, until a project changes. */
export class PerProject<Value> {
  readonly #load: (projectId: string) => Promise<Value>;
  readonly #entries = new LRUCache<string, Promise<Value>>({ ...cacheLimit(MAX_PROJECTS), ttl: FRESH_MS });
  readonly #unsubscribe: () => void;

  constructor(bus: Bus, load: (projectId: string) => Promise<Value>) {
    this.#load = load;
    this.#unsubscribe = bus.subscribe((message) => {
      if (message.type === 'project_changed') this.#entries.delete(message.projectId);
      else if (message.type === 'missed') this.#entries.clear(); // any project may have changed
    });
  }

  of(projectId: string): Promise<Value> {
    const cached = this.#entries.get(projectId);
    if (cached) return cached;
    const loading = this.#load(projectId);
    this.#entries.set(projectId, loading);
    // Failures are not cached.
    loading.catch(() => this.#entries.delete(projectId));
    return loading;
  }

  close(): void {
    this.#unsubscribe();
  }
}
