import { type Database, type Queryable, sql } from '../../../db/client.ts';
import { ClientError } from '../../../errors.ts';
import { newId } from '../../../lib/ids.ts';
import type { Sealer } from '../../../lib/seal.ts';
import {
  delivering,
  type IntegrationConfig,
  type IntegrationName,
  wireNameOf,
} from '../../../providers/index.ts';
import type { Bus } from '../../ground/bus/messages.ts';
import { recordEvents } from '../../ground/events/record.ts';
import { lockProject } from '../projects/lock.ts';
import { sealedFor } from './cache.ts';
import { type FoundIntegration, findIntegrations, hasIntegration } from './find.ts';
import { wakeWaiting } from './waiting-jobs.ts';

// All of a project's integrations are kept in memory.
const MAX_INTEGRATIONS = 500;

interface Deps {
  db: Pick<Database, 'transaction'>;
  bus: Bus;
  sealer: Sealer;
  config: { readonly BRAND: string };
}

/**
 * Creates or replaces the integration with this id; without an id, the project's first one of the provider.
 * Deliveries that wait for an integration of its channel become due.
 * Returns its id, or undefined if the id belongs to an integration of another provider.
 */
export async function saveIntegration(
  { db, bus, sealer, config: { BRAND } }: Deps,
  { projectId, provider, id, config }: { projectId: string; provider: string; id?: string; config: unknown },
): Promise<string | undefined> {
  const saved = await db.transaction(async (tx) => {
    // Locked, so that two concurrent first saves do not create two integrations.
    await lockProject(tx, projectId);
    const savedId =
      id ?? (await tx.query<{ id: string }>(selectFirst, [projectId, provider]))[0]?.id ?? newId();
    if (!(await write(tx, sealer, { projectId, provider, id: savedId, config }))) return undefined;
    await recordSaved(tx, { projectId, name: wireNameOf(provider, BRAND), id: savedId });
    const channel = delivering.get(provider)?.channel;
    if (channel !== undefined) await wakeWaiting(tx, projectId, channel);
    return savedId;
  });
  if (saved !== undefined) publishChanged(bus, projectId, provider);
  return saved;
}

/** Notifies caches of a change of the project's integrations, and open inboxes if it is theirs. */
export function publishChanged(bus: Bus, projectId: string, provider: string): void {
  bus.publish({ type: 'project_changed', projectId });
  if (provider === ('inbox' satisfies IntegrationName))
    bus.publish({ type: 'appearance_changed', projectId });
}

/**
 * Returns the project's first integration of a provider. Creates it with the config of `make` if there is
 * none; concurrent calls return the same one.
 */
export async function getOrCreateIntegration<Name extends IntegrationName>(
  { db, bus, sealer, config: { BRAND } }: Deps,
  { projectId, provider, make }: { projectId: string; provider: Name; make: () => IntegrationConfig<Name> },
): Promise<FoundIntegration<Name>> {
  const { integration, created } = await db.transaction(async (tx) => {
    await lockProject(tx, projectId);
    const [first] = await findIntegrations({ db: tx, sealer }, projectId, provider);
    if (first !== undefined) return { integration: first, created: false };
    if (await hasIntegration(tx, projectId, provider))
      throw new ClientError('service_unavailable', [UNREADABLE]);
    const fresh = { id: newId(), projectId, config: make() };
    await write(tx, sealer, { ...fresh, provider });
    await recordSaved(tx, { projectId, name: wireNameOf(provider, BRAND), id: fresh.id });
    return { integration: fresh, created: true };
  });
  if (created) bus.publish({ type: 'project_changed', projectId });
  return integration;
}

const UNREADABLE =
  'The integration cannot be decrypted: add the SECRET_KEY that it was encrypted with to this server';

/**
 * Writes the row. Returns false if the id belongs to an integration of another provider. Throws if the
 * project has too many integrations. The caller locks the project.
 */
async function write(
  tx: Queryable,
  sealer: Sealer,
  { projectId, provider, id, config }: { projectId: string; provider: string; id: string; config: unknown },
): Promise<boolean> {
  const sealed = sealer.seal(JSON.stringify(config), sealedFor(projectId, id));
  const [written] = await tx.query<{ is_new: boolean }>(upsert, [id, projectId, provider, sealed]);
  if (written?.is_new) {
    const [row] = await tx.query<{ too_many: boolean }>(tooMany, [projectId, MAX_INTEGRATIONS]);
    if (row?.too_many)
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
// updated_at is the version, so two saves within a millisecond differ. Without a time zone, the sum depends
// on no setting: a distributed PostgreSQL demands that of an upsert.
const upsert = sql(
  'save_integration',
  `insert into integrations as i (id, project_id, provider, sealed_config, created_at, updated_at)
  values ($1, $2, $3, $4, now(), now())
  on conflict (id, project_id) do update
  set sealed_config = excluded.sealed_config,
    updated_at = greatest(
      excluded.updated_at,
      (i.updated_at at time zone 'UTC' + interval '1 millisecond') at time zone 'UTC'
    )
  where i.provider = excluded.provider
  returning xmax = 0 as is_new`,
);
// Index integrations_of_project.
const tooMany = sql(
  'too_many_integrations',
  'select count(*) > $2::int as too_many from integrations where project_id = $1',
);
