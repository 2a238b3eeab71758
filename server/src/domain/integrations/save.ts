import { type Database, sql } from '../../db/client.ts';
import { newId } from '../../lib/ids.ts';
import type { Sealer } from '../../lib/seal.ts';
import { recordEvents } from '../events/record.ts';
import type { Bus } from '../realtime/messages.ts';
import { sealedFor } from './of-project.ts';

/**
 * Saves a config, sealed: over the integration with this id, or as a new one under it; without an id over the first that the
 * project has of this provider, or as its first. Answers the id, or undefined when it belongs to something else.
 */
export async function saveIntegration(
  { db, bus, sealer }: { db: Pick<Database, 'transaction'>; bus: Bus; sealer: Sealer },
  { projectId, provider, id, config }: { projectId: string; provider: string; id?: string; config: unknown },
): Promise<string | undefined> {
  const saved = await db.transaction(async (tx) => {
    // One at a time in a project, so that two first saves at once do not make two integrations.
    await tx.query(lockProject, [projectId]);
    const wanted =
      id ?? (await tx.query<{ id: string }>(selectFirst, [projectId, provider]))[0]?.id ?? newId();
    const sealed = sealer.seal(JSON.stringify(config), sealedFor(projectId, wanted));
    const [row] = await tx.query<{ id: string }>(upsert, [wanted, projectId, provider, sealed]);
    if (row === undefined) return undefined;
    await recordEvents(tx, [
      {
        projectId,
        type: 'integration.saved',
        details: { context: { provider }, payload: { id: row.id, name: provider } },
      },
    ]);
    return row.id;
  });
  if (saved !== undefined) bus.publish({ type: 'project_changed', projectId });
  return saved;
}

const lockProject = sql('lock_project', 'select from projects where id = $1 for no key update');
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
  values ($1, $2, $3, $4, clock_timestamp(), clock_timestamp())
  on conflict (id) do update
  set sealed_config = excluded.sealed_config,
    updated_at = greatest(excluded.updated_at, i.updated_at + interval '1 millisecond')
  where i.project_id = excluded.project_id and i.provider = excluded.provider
  returning id`,
);
