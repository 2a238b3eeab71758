import { type Queryable, sql } from '../../../db/client.ts';
import type { Logger } from '../../../lib/log.ts';
import type { Sealer } from '../../../lib/seal.ts';
import { delivering } from '../../../providers/index.ts';
import type { Bus } from '../../ground/bus/messages.ts';
import { unreadableConfig } from '../../ground/secrets/unreadable.ts';
import { PerProject } from '../projects/per-project.ts';

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

/**
 * The delivery integrations of the projects in use, in failover order. Those that cannot be opened come last:
 * a message waits for them only if no other integration accepts it.
 */
export type IntegrationCache = PerProject<OpenedIntegration[]>;

export function createIntegrationCache({ bus, ...deps }: Deps & { bus: Bus }): IntegrationCache {
  return new PerProject(bus, (projectId) => loadIntegrations(deps, projectId));
}

interface Deps {
  db: Queryable;
  sealer: Sealer;
  log: Logger;
}

async function loadIntegrations({ db, sealer, log }: Deps, projectId: string): Promise<OpenedIntegration[]> {
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
      log.error({ err: error, projectId, integrationId: row.id }, 'an integration cannot be decrypted');
      return [{ ...base, config: {}, unreadable: unreadableConfig(error) }];
    }
  });
  return all.toSorted((a, b) => Number(a.unreadable !== undefined) - Number(b.unreadable !== undefined));
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
