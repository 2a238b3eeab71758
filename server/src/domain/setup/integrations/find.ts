import { type Queryable, sql } from '../../../db/client.ts';
import { ifOpened, type Sealer } from '../../../lib/seal.ts';
import type { IntegrationConfig, IntegrationName } from '../../../providers/index.ts';
import { sealedFor } from './cache.ts';

export interface FoundIntegration<Name extends IntegrationName> {
  id: string;
  projectId: string;
  config: IntegrationConfig<Name>;
}

/**
 * Returns the project's integrations of a provider in failover order, without those that cannot be opened.
 */
export async function findIntegrations<Name extends IntegrationName>(
  { db, sealer }: { db: Queryable; sealer: Sealer },
  projectId: string,
  provider: Name,
): Promise<FoundIntegration<Name>[]> {
  return openAll<Name>(sealer, await db.query<Row>(selectOfProvider, [projectId, provider]));
}

/** Returns whether the project has an integration of a provider, even if it cannot be opened. */
export async function hasIntegration(
  db: Queryable,
  projectId: string,
  provider: IntegrationName,
): Promise<boolean> {
  return (await db.query<Row>(selectOfProvider, [projectId, provider])).length > 0;
}

/**
 * Returns the integrations of a provider with this id, of any project, for webhooks whose URL has only the
 * id. Projects choose their ids, so there can be several: the signature of the request decides.
 */
export async function findIntegrationsById<Name extends IntegrationName>(
  { db, sealer }: { db: Queryable; sealer: Sealer },
  provider: Name,
  id: string,
): Promise<FoundIntegration<Name>[]> {
  return openAll<Name>(sealer, await db.query<Row>(selectById, [id, provider]));
}

function openAll<Name extends IntegrationName>(sealer: Sealer, rows: Row[]): FoundIntegration<Name>[] {
  // The server's start, the lists and `doctor` report a missing key.
  return rows.flatMap(({ id, project_id: projectId, sealed_config: sealed }) =>
    ifOpened(() => {
      const text = sealer.open(sealed, sealedFor(projectId, id)).toString();
      return { id, projectId, config: JSON.parse(text) as IntegrationConfig<Name> };
    }),
  );
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
// Primary key (id, project_id). The limit is far above the number of projects that share an id.
const selectById = sql(
  'find_integrations_by_id',
  `select id, project_id, sealed_config
  from integrations
  where id = $1 and provider = $2
  order by project_id
  limit 100`,
);
