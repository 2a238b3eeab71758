import { LRUCache } from 'lru-cache';
import { type Queryable, sql } from '../../db/client.ts';
import { cacheLimit } from '../../lib/cache-limit.ts';
import type { Logger } from '../../lib/log.ts';
import type { Sealer } from '../../lib/seal.ts';
import { delivering } from '../../providers/index.ts';
import type { Bus } from '../realtime/messages.ts';

/** An integration that delivers, with its configuration opened. */
export interface OpenedIntegration {
  projectId: string;
  /** The project's own: others may have the same. */
  id: string;
  provider: string;
  channel: string;
  config: Record<string, unknown>;
  /** Changes with every save: what was made of an older config is to be renewed. */
  version: string;
}

// A change on another node is known at the latest after this, even if its message was lost.
const FRESH_MS = 10_000;
const MAX_PROJECTS = 5_000;

/** The delivering integrations of the projects in use, in the order of failover, in memory. */
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
      else if (message.type === 'missed') this.#entries.clear(); // any of them may have changed
    });
  }

  of(projectId: string): Promise<OpenedIntegration[]> {
    const held = this.#entries.get(projectId);
    if (held) return held;
    const loading = this.#load(projectId);
    this.#entries.set(projectId, loading);
    // A failure is for whoever asked; the next one asks again.
    loading.catch(() => this.#entries.delete(projectId));
    return loading;
  }

  close(): void {
    this.#unsubscribe();
  }

  async #load(projectId: string): Promise<OpenedIntegration[]> {
    const { db, sealer, log } = this.#deps;
    const rows = await db.query<Row>(selectIntegrations, [projectId]);
    return rows.flatMap((row) => {
      const provider = delivering.get(row.provider);
      if (provider === undefined) return [];
      try {
        const config = JSON.parse(
          sealer.open(row.sealed_config, sealedFor(projectId, row.id)).toString(),
        ) as Record<string, unknown>;
        return [
          {
            projectId,
            id: row.id,
            provider: row.provider,
            channel: provider.channel,
            config,
            version: row.updated_at.toISOString(),
          },
        ];
      } catch (error) {
        // Sealed with a key that is gone. The project's other integrations must not suffer.
        log.error(
          { err: error, projectId, integrationId: row.id },
          'an integration cannot be opened; save it anew',
        );
        return [];
      }
    });
  }
}

/** What an integration's config is sealed for. */
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
  'select_integrations_of_project',
  'select id, provider, sealed_config, updated_at from integrations where project_id = $1 order by created_at, id',
);
