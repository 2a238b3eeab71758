import type { IntegrationState } from '../../../contract/integration.ts';
import type { Queryable } from '../../../db/client.ts';
import { bothDirections } from '../../../db/list-statements.ts';
import { type Cursor, NEWEST, OLDEST } from '../../../lib/cursor.ts';
import { timeOf } from '../../../lib/ids.ts';
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
 * Returns a project's integrations, or those of one provider, beyond the cursor, in the order of their
 * creation. The configs contain secrets: for requests with a Project JWT only.
 */
export async function listIntegrations(
  { db, sealer }: { db: Queryable; sealer: Sealer },
  { projectId, provider }: { projectId: string; provider?: string },
  { direction, id, limit }: Cursor,
): Promise<SavedIntegration[]> {
  const seconds = hasTime(id) ? timeOf(id) / 1_000 : null;
  const rows = await db.query<Row>(LIST[direction], [projectId, id, limit, provider ?? null, seconds]);
  return rows.map((row) => ({
    id: row.id,
    provider: row.provider,
    ...open(sealer, row.sealed_config, sealedFor(projectId, row.id)),
    ...stateOf(row),
  }));
}

/** Projects can choose UUIDs without a time. */
function hasTime(id: string): boolean {
  return id[14] === '7' || id === NEWEST || id === OLDEST;
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

// Index integrations_listed (project_id, created_at, id), with other providers filtered out: a project has at
// most 500. The list continues at the creation of the cursor. If the cursor was deleted, it continues at the
// time in the id, and begins again if there is none: a client that deletes each page misses nothing. Pauses
// are read for the page alone.
const LIST = bothDirections(
  'integrations',
  (beyond, order) => `select i.id, i.provider, i.sealed_config, p.party, p.since, p.until, p.code, p.reason
  from (
    select project_id, id, provider, sealed_config, created_at, updated_at
    from integrations i
    where i.project_id = $1 and ($4::text is null or i.provider = $4)
      and (i.created_at, i.id) ${beyond} (
        coalesce(
          (select c.created_at from integrations c where c.project_id = $1 and c.id = $2),
          to_timestamp($5::float8),
          '${beyond === '<' ? '' : '-'}infinity'
        ),
        $2
      )
    order by i.project_id ${order}, i.created_at ${order}, i.id ${order}
    limit $3
  ) i
  left join lateral (${PAUSE}) p on true
  order by i.created_at ${order}, i.id ${order}`,
);
