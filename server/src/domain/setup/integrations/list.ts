import type { IntegrationState } from '../../../contract/integration.ts';
import type { Queryable } from '../../../db/client.ts';
import { listStatements } from '../../../db/list-statements.ts';
import type { Cursor } from '../../../lib/cursor.ts';
import { CannotOpen, type Sealer } from '../../../lib/seal.ts';
import { unreadableConfig } from '../../ground/secrets/unreadable.ts';
import { sealedFor } from './of-project.ts';
import { IS_CURRENT } from './pauses.ts';

export interface SavedIntegration {
  id: string;
  provider: string;
  /** As it was saved; null when it cannot be opened. */
  config: Record<string, unknown> | null;
  /** Why not. */
  error?: { code: 'config_unreadable'; message: string };
  /** Only while it is paused. */
  state?: IntegrationState;
}

/**
 * The integrations of a project, or those of one provider, beyond the cursor with their secrets, by their
 * ids: for the Project JWT alone.
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
    // The others can still be read, and this one be deleted or saved again.
    if (!(error instanceof CannotOpen)) throw error;
    return { config: null, error: { code: 'config_unreadable', message: unreadableConfig(error) } };
  }
}

// Primary key (project_id, integration_id, party): the pause of all of it, else of one of its hosts.
const PAUSE = `
  select *
  from integration_pauses p
  where p.project_id = i.project_id and p.integration_id = i.id and ${IS_CURRENT}
  order by p.party
  limit 1`;

// Index integrations_of_project (project_id, id). A project has few: the filter may skip some.
const LIST = listStatements('integrations', {
  select: 'i.id, i.provider, i.sealed_config, p.party, p.since, p.until, p.code, p.reason',
  from: `integrations i
  left join lateral (${PAUSE}) p on true`,
  owner: 'i.project_id',
  id: 'i.id',
  where: '($4::text is null or i.provider = $4)',
});
