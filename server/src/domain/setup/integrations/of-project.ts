import { LRUCache } from 'lru-cache';
import { type Queryable, sql } from '../../../db/client.ts';
import { cacheLimit } from '../../../lib/cache-limit.ts';
import type { Logger } from '../../../lib/log.ts';
import type { Sealer } from '../../../lib/seal.ts';
import { delivering } from '../../../providers/index.ts';
import type { Bus } from '../../ground/bus/messages.ts';
import { unreadableConfig } from '../../ground/secrets/unreadable.ts';

/** An integration that delivers, with its configuration opened. */
export interface OpenedIntegration {
  projectId: string;
  /** The project's own: others may have the same. */
  id: string;
  provider: string;
  channel: string;
  config: Record<string, unknown>;
  /** Why its config could not be opened: it is empty then, and nothing can be sent with it until it can. */
  unreadable?: string;
  /** Changes with every save: what was made of an older config is to be renewed. */
  version: string;
}

// A change on another node is known at the latest after this, even if its message was lost.
const FRESH_MS = 10_000;
const MAX_PROJECTS = 5_000;

/**
 * The delivering integrations of the projects in use, in the order of failover, in memory. Those that cannot
 * be opened come last: a message waits for one of them only if no other takes it.
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
    const all = rows.flatMap((row): OpenedIntegration[] => {
      const provider = delivering.get(row.provider);
      if (provider === undefined) return [];
      const { channel } = provider;
      const of = { projectId, id: row.id, provider: row.provider, channel };
      const version = row.updated_at.toISOString();
      try {
        const text = sealer.open(row.sealed_config, sealedFor(projectId, row.id)).toString();
        return [{ ...of, version, config: JSON.parse(text) as Record<string, unknown> }];
      } catch (error) {
        // The project's other integrations must not suffer.
        log.error({ err: error, projectId, integrationId: row.id }, 'an integration cannot be opened');
        return [{ ...of, version, config: {}, unreadable: unreadableConfig(error) }];
      }
    });
    return all.toSorted((a, b) => Number(a.unreadable !== undefined) - Number(b.unreadable !== undefined));
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
