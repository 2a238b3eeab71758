import type { IntegrationState } from '../../../contract/integration.ts';
import type { Queryable } from '../../../db/client.ts';
import { listStatements } from '../../../db/list-statements.ts';
import type { Cursor } from '../../../lib/cursor.ts';
import { CannotOpen, type Sealer } from '../../../lib/seal.ts';
import { unreadableConfig } from '../../ground/secrets/unreadable.ts';
import { sealedFor } from './cache.ts';
import { IS_CURRENT } from './pauses.ts';

export interface SavedIntegration {
  id: string;
  provider: string;
  /** As it was saved; null if it cannot be opened. */
  config: Record<string, unknown> | null;
  /** Why it cannot be opened. */
  error?: { code: 'config_unreadable'; message: string };
  /** Only while it is paused. */
  state?: IntegrationState;
}

/**
 * Returns a project's integrations, or those of one provider, beyond the cursor. The configs contain secrets:
 * for requests with a Project JWT only.
 */
export async function listIntegrations(
  { db, sealer }: { db: Queryable; sealer: Sealer },
  { projectId, provider }: { projectId: string; provider?: string },
  { direction, id, limit }: Cursor,
): Promise<SavedIntegration[]> {
  const rows = await db.query<Row>(LIST[direction], [projectId, id, limit, provider ?? null]);
  return rows.map((row) => ({
    id: row.id,
    provider: row.provider,
    ...open(sealer, row.sealed_config, sealedFor(projectId, row.id)),
    ...stateOf(row),
  }));
}

function stateOf({ since, until, code, reason, party }: Row): { state?: IntegrationState } {
  if (since === null || until === null || reason === null) return {};
  return {
    state: {
      status: 'paused',
      since: since.toISOString(),
      until: until.toISOString(),
      ...(code === null ? {} : { code }),
      reason,
      ...(party === null || party === '' ? {} : { party }),
    },
  };
}

interface Row {
  id: string;
  provider: string;
  sealed_config: Buffer;
  party: string | null;
  since: Date | null;
  until: Date | null;
  code: string | null;
  reason: string | null;
}

function open(sealer: Sealer, sealed: Buffer, purpose: string): Pick<SavedIntegration, 'config' | 'error'> {
  try {
    return { config: JSON.parse(sealer.open(sealed, purpose).toString()) as Record<string, unknown> };
  } catch (error) {
    // The list stays usable; this integration can be deleted or replaced.
    if (!(error instanceof CannotOpen)) throw error;
    return { config: null, error: { code: 'config_unreadable', message: unreadableConfig(error) } };
  }
}

// Primary key (project_id, integration_id, party). The pause of the whole integration sorts first.
const PAUSE = `
  select *
  from integration_pauses p
  where p.project_id = i.project_id and p.integration_id = i.id and ${IS_CURRENT}
  order by p.party
  limit 1`;

// Index integrations_of_project (project_id, id). A project has few, so other providers are filtered.
const LIST = listStatements('integrations', {
  select: 'i.id, i.provider, i.sealed_config, p.party, p.since, p.until, p.code, p.reason',
  from: `integrations i
  left join lateral (${PAUSE}) p on true`,
  owner: 'i.project_id',
  id: 'i.id',
  where: '($4::text is null or i.provider = $4)',
});
