import { type Queryable, sql } from '../../../db/client.ts';
import { CannotOpen, type Sealer } from '../../../lib/seal.ts';
import type { IntegrationConfig, IntegrationName } from '../../../providers/index.ts';
import { sealedFor } from './of-project.ts';

/** An integration with its config opened. */
export interface FoundIntegration<Name extends IntegrationName> {
  id: string;
  projectId: string;
  config: IntegrationConfig<Name>;
}

/** The project's integrations of a provider in the order of failover, without those that cannot be opened. */
export async function findIntegrations<Name extends IntegrationName>(
  { db, sealer }: { db: Queryable; sealer: Sealer },
  projectId: string,
  provider: Name,
): Promise<FoundIntegration<Name>[]> {
  return opened<Name>(sealer, await db.query<Row>(selectOfProvider, [projectId, provider]));
}

/** Whether the project has an integration of a provider, also if it cannot be opened. */
export async function hasIntegration(
  db: Queryable,
  projectId: string,
  provider: IntegrationName,
): Promise<boolean> {
  return (await db.query<Row>(selectOfProvider, [projectId, provider])).length > 0;
}

/**
 * The integrations of a provider with this id, of whatever project: for requests that name nothing else.
 * Projects choose ids of their own, so there can be several; the right one is whose secret the request was
 * signed with.
 */
export async function findIntegrationsById<Name extends IntegrationName>(
  { db, sealer }: { db: Queryable; sealer: Sealer },
  provider: Name,
  id: string,
): Promise<FoundIntegration<Name>[]> {
  return opened<Name>(sealer, await db.query<Row>(selectById, [id, provider]));
}

function opened<Name extends IntegrationName>(sealer: Sealer, rows: Row[]): FoundIntegration<Name>[] {
  return rows.flatMap(({ id, project_id: projectId, sealed_config: sealed }) => {
    try {
      const text = sealer.open(sealed, sealedFor(projectId, id)).toString();
      return [{ id, projectId, config: JSON.parse(text) as IntegrationConfig<Name> }];
    } catch (error) {
      // Sealed with a key that is gone: the start, the lists and doctor report it.
      if (error instanceof CannotOpen) return [];
      throw error;
    }
  });
}

interface Row {
  id: string;
  project_id: string;
  sealed_config: Buffer;
}

// Index integrations_of_project.
const selectOfProvider = sql(
  'find_integrations',
  `select id, project_id, sealed_config
  from integrations
  where project_id = $1 and provider = $2
  order by created_at, id`,
);
// Primary key (id, project_id). Nobody has this many projects with the same id; a limit keeps it so.
const selectById = sql(
  'find_integrations_by_id',
  `select id, project_id, sealed_config
  from integrations
  where id = $1 and provider = $2
  order by project_id
  limit 100`,
);
