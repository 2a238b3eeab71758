import { LRUCache } from 'lru-cache';
import { type Queryable, sql } from '../../../db/client.ts';
import { cacheLimit } from '../../../lib/cache-limit.ts';
import type { Logger } from '../../../lib/log.ts';
import type { Sealer } from '../../../lib/seal.ts';
import { delivering } from '../../../providers/index.ts';
import type { Bus } from '../../ground/bus/messages.ts';
import { unreadableConfig } from '../../ground/secrets/unreadable.ts';

/** An integration of a delivery provider. */
export interface OpenedIntegration {
  projectId: string;
  /** Unique within the project. */
  id: string;
  provider: string;
  channel: string;
  config: Record<string, unknown>;
  /** Why the config could not be opened. It is empty then, and nothing can be sent with the integration. */
  unreadable?: string;
  /** Changes with every save, so that senders with an older config are replaced. */
  version: string;
}

// A change on another node is noticed within this time even if its message was lost.
const FRESH_MS = 10_000;
const MAX_PROJECTS = 5_000;

/**
 * Caches the delivery integrations of the projects in use, in failover order. Those that cannot be opened
 * come last: a message waits for them only if no other integration accepts it.
 */
export class IntegrationCache {
  readonly #deps: { db: Queryable; sealer: Sealer; log: Logger };
  readonly #entries = new LRUCache<string, Promise<OpenedIntegration[]>>({
    ...cacheLimit(MAX_PROJECTS),
    ttl: FRESH_MS,
  });
  readonly #unsubscribe: () => void;

  constructor(deps: { db: Queryable; sealer: Sealer; log: Logger; bus: Bus }) {
    this.#deps = deps;
    this.#unsubscribe = deps.bus.subscribe((message) => {
      if (message.type === 'project_changed') this.#entries.delete(message.projectId);
      else if (message.type === 'missed') this.#entries.clear(); // any project may have changed
    });
  }

  of(projectId: string): Promise<OpenedIntegration[]> {
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

  async #load(projectId: string): Promise<OpenedIntegration[]> {
    const { db, sealer, log } = this.#deps;
    const rows = await db.query<Row>(selectIntegrations, [projectId]);
    const all = rows.flatMap((row): OpenedIntegration[] => {
      const provider = delivering.get(row.provider);
      if (provider === undefined) return [];
      const { channel } = provider;
      const version = row.updated_at.toISOString();
      const base = { projectId, id: row.id, provider: row.provider, channel, version };
      try {
        const text = sealer.open(row.sealed_config, sealedFor(projectId, row.id)).toString();
        return [{ ...base, config: JSON.parse(text) as Record<string, unknown> }];
      } catch (error) {
        // The project's other integrations still work.
        log.error({ err: error, projectId, integrationId: row.id }, 'an integration cannot be opened');
        return [{ ...base, config: {}, unreadable: unreadableConfig(error) }];
      }
    });
    return all.toSorted((a, b) => Number(a.unreadable !== undefined) - Number(b.unreadable !== undefined));
  }
}

/** Returns the sealing purpose of an integration's config. */
export function sealedFor(projectId: string, integrationId: string): string {
  return `project:${projectId}:integration:${integrationId}`;
}

interface Row {
  id: string;
  provider: string;
  sealed_config: Buffer;
  updated_at: Date;
}

// Index integrations_of_project (project_id, id).
const selectIntegrations = sql(
  'select_integrations',
  `select id, provider, sealed_config, updated_at
  from integrations
  where project_id = $1
  order by created_at, id`,
);
