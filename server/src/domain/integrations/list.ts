import { type Queryable, sql } from '../../db/client.ts';
import type { Cursor } from '../../lib/cursor.ts';
import { CannotOpen, type Sealer } from '../../lib/seal.ts';
import { sealedFor } from './of-project.ts';

export interface SavedIntegration {
  id: string;
  provider: string;
  /** As it was saved; null when it cannot be opened. */
  config: Record<string, unknown> | null;
  /** Why not. */
  error?: { code: 'config_unreadable'; message: string };
}

/**
 * The integrations of a project, or those of one provider, beyond the cursor with their secrets, by their ids: for the Project JWT
 * alone.
 */
export async function listIntegrations(
  { db, sealer }: { db: Queryable; sealer: Sealer },
  { projectId, provider }: { projectId: string; provider?: string },
  { direction, id, limit }: Cursor,
): Promise<SavedIntegration[]> {
  const statement = direction === 'older' ? selectOlder : selectNewer;
  const rows = await db.query<{ id: string; provider: string; sealed_config: Buffer }>(statement, [
    projectId,
    provider ?? null,
    id,
    limit,
  ]);
  return rows.map((row) => ({
    id: row.id,
    provider: row.provider,
    ...open(sealer, row.sealed_config, sealedFor(projectId, row.id)),
  }));
}

function open(sealer: Sealer, sealed: Buffer, purpose: string): Pick<SavedIntegration, 'config' | 'error'> {
  try {
    return { config: JSON.parse(sealer.open(sealed, purpose).toString()) as Record<string, unknown> };
  } catch (error) {
    // The others can still be read, and this one be deleted or saved again.
    if (!(error instanceof CannotOpen)) throw error;
    const message =
      error.keyId === undefined
        ? 'The config was changed in the database and cannot be opened: save the integration again'
        : `The config was sealed with the key ${error.keyId}, which this server does not have: add it to SECRET_KEY, or save the integration again`;
    return { config: null, error: { code: 'config_unreadable', message } };
  }
}

// Index integrations_of_project (project_id, id); a project has few, so those of other providers are passed over.
const selectOlder = sql(
  'list_integrations_older',
  `select id, provider, sealed_config
  from integrations
  where project_id = $1 and ($2::text is null or provider = $2) and id < $3
  order by id desc
  limit $4`,
);
const selectNewer = sql(
  'list_integrations_newer',
  `select id, provider, sealed_config
  from integrations
  where project_id = $1 and ($2::text is null or provider = $2) and id > $3
  order by id
  limit $4`,
);
