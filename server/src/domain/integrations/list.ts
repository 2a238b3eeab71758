import { type Queryable, sql } from '../../db/client.ts';
import { CannotOpen, type Sealer } from '../../lib/seal.ts';
import { sealedFor } from './of-project.ts';

export interface SavedIntegration {
  id: string;
  /** As it was saved; empty when the key that it was sealed with is gone. */
  config: Record<string, unknown>;
}

/** The project's integrations of a provider with their secrets, newest first: for the Project JWT alone. */
export async function listIntegrations(
  { db, sealer }: { db: Queryable; sealer: Sealer },
  projectId: string,
  provider: string,
): Promise<SavedIntegration[]> {
  const rows = await db.query<{ id: string; sealed_config: Buffer }>(selectIntegrations, [
    projectId,
    provider,
  ]);
  return rows.map(({ id, sealed_config }) => ({
    id,
    config: open(sealer, sealed_config, sealedFor(projectId, id)),
  }));
}

function open(sealer: Sealer, sealed: Buffer, purpose: string): Record<string, unknown> {
  try {
    return JSON.parse(sealer.open(sealed, purpose).toString()) as Record<string, unknown>;
  } catch (error) {
    // The others can still be read, and this one be deleted or saved anew.
    if (error instanceof CannotOpen) return {};
    throw error;
  }
}

// Index integrations_of_project.
const selectIntegrations = sql(
  'list_integrations',
  'select id, sealed_config from integrations where project_id = $1 and provider = $2 order by id desc',
);
