import { type Database, type Queryable, sql } from '../../../db/client.ts';
import { ClientError } from '../../../errors.ts';
import { newId } from '../../../lib/ids.ts';
import type { Sealer } from '../../../lib/seal.ts';
import { type IntegrationConfig, type IntegrationName, wireNameOf } from '../../../providers/index.ts';
import type { Bus } from '../../ground/bus/messages.ts';
import { recordEvents } from '../../ground/events/record.ts';
import { lockProject } from '../projects/lock.ts';
import { type FoundIntegration, findIntegrations, hasIntegration } from './find.ts';
import { sealedFor } from './of-project.ts';

// All of them are opened and kept in memory together.
const MAX_INTEGRATIONS = 500;

interface Deps {
  db: Pick<Database, 'transaction'>;
  bus: Bus;
  sealer: Sealer;
  config: { readonly BRAND: string };
}

/**
 * Saves a config, sealed: over the integration with this id, or as a new one under it; without an id over the
 * first that the project has of this provider, or as its first. Answers the id, or undefined when it is one
 * of another provider.
 */
export async function saveIntegration(
  { db, bus, sealer, config: { BRAND } }: Deps,
  { projectId, provider, id, config }: { projectId: string; provider: string; id?: string; config: unknown },
): Promise<string | undefined> {
  const saved = await db.transaction(async (tx) => {
    // One at a time in a project, so that two first saves at once do not make two integrations.
    await lockProject(tx, projectId);
    const wanted =
      id ?? (await tx.query<{ id: string }>(selectFirst, [projectId, provider]))[0]?.id ?? newId();
    const kept = await keep(tx, sealer, { projectId, provider, id: wanted, config });
    if (kept) await recordSaved(tx, { projectId, name: wireNameOf(provider, BRAND), id: wanted });
    return kept ? wanted : undefined;
  });
  if (saved !== undefined) bus.publish({ type: 'project_changed', projectId });
  return saved;
}

/**
 * The project's first integration of a provider, made of `make` when there is none yet; whoever asks at the
 * same time gets the same.
 */
export async function integrationOrNew<Name extends IntegrationName>(
  { db, bus, sealer, config: { BRAND } }: Deps,
  { projectId, provider, make }: { projectId: string; provider: Name; make: () => IntegrationConfig<Name> },
): Promise<FoundIntegration<Name>> {
  const { found, made } = await db.transaction(async (tx) => {
    await lockProject(tx, projectId);
    const [first] = await findIntegrations({ db: tx, sealer }, projectId, provider);
    if (first !== undefined) return { found: first, made: false };
    if (await hasIntegration(tx, projectId, provider))
      throw new ClientError('service_unavailable', [UNREADABLE]);
    const fresh = { id: newId(), projectId, config: make() };
    await keep(tx, sealer, { ...fresh, provider });
    await recordSaved(tx, { projectId, name: wireNameOf(provider, BRAND), id: fresh.id });
    return { found: fresh, made: true };
  });
  if (made) bus.publish({ type: 'project_changed', projectId });
  return found;
}

const UNREADABLE =
  'The integration of this project cannot be opened: this server lacks the SECRET_KEY that it was sealed with';

/**
 * Writes the row; false when the project has one of another provider under this id. Throws for one too many.
 * The project is locked.
 */
async function keep(
  tx: Queryable,
  sealer: Sealer,
  { projectId, provider, id, config }: { projectId: string; provider: string; id: string; config: unknown },
): Promise<boolean> {
  const sealed = sealer.seal(JSON.stringify(config), sealedFor(projectId, id));
  const [written] = await tx.query<{ is_new: boolean }>(upsert, [id, projectId, provider, sealed]);
  if (written?.is_new) {
    const [row] = await tx.query<{ crowded: boolean }>(isCrowded, [projectId, MAX_INTEGRATIONS]);
    if (row?.crowded)
      throw new ClientError('validation_failed', [
        `A project can have at most ${MAX_INTEGRATIONS} integrations`,
      ]);
  }
  return written !== undefined;
}

async function recordSaved(
  tx: Queryable,
  { projectId, name, id }: { projectId: string; name: string; id: string },
): Promise<void> {
  const details = { context: { provider: name }, payload: { id, name } };
  await recordEvents(tx, [{ projectId, type: 'integration.saved', details }]);
}

// Index integrations_of_project.
const selectFirst = sql(
  'select_first_integration',
  `select id
  from integrations
  where project_id = $1 and provider = $2
  order by created_at, id
  limit 1`,
);
// updated_at is what senders tell versions apart by, so it moves on even within a millisecond.
const upsert = sql(
  'save_integration',
  `insert into integrations as i (id, project_id, provider, sealed_config, created_at, updated_at)
  values ($1, $2, $3, $4, now(), now())
  on conflict (id, project_id) do update
  set sealed_config = excluded.sealed_config,
    updated_at = greatest(excluded.updated_at, i.updated_at + interval '1 millisecond')
  where i.provider = excluded.provider
  returning xmax = 0 as is_new`,
);
// Index integrations_of_project.
const isCrowded = sql(
  'too_many_integrations',
  'select count(*) > $2::int as crowded from integrations where project_id = $1',
);
