import { type Database, sql } from '../../../db/client.ts';
import { wireNameOf } from '../../../providers/index.ts';
import type { Bus } from '../../ground/bus/messages.ts';
import { recordEvents } from '../../ground/events/record.ts';
import { publishChanged } from './save.ts';

/** Deletes the project's integration of a provider, or all of them. Returns false if there is none. */
export async function deleteIntegrations(
  {
    db,
    bus,
    config: { BRAND },
  }: { db: Pick<Database, 'transaction'>; bus: Bus; config: { readonly BRAND: string } },
  { projectId, provider, id }: { projectId: string; provider: string; id?: string },
): Promise<boolean> {
  const deleted = await db.transaction(async (tx) => {
    const name = wireNameOf(provider, BRAND);
    const rows = await tx.query<{ id: string }>(deleteRows, [projectId, provider, id ?? null]);
    await recordEvents(
      tx,
      rows.map((row) => ({
        projectId,
        type: 'integration.deleted' as const,
        details: { context: { provider: name }, payload: { id: row.id, name } },
      })),
    );
    return rows.length;
  });
  if (deleted > 0) publishChanged(bus, projectId, provider);
  return deleted > 0;
}

// Index integrations_of_project.
const deleteRows = sql(
  'delete_integrations',
  `delete from integrations
  where project_id = $1 and provider = $2 and ($3::uuid is null or id = $3)
  returning id`,
);
