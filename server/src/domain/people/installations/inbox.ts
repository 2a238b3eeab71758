import { type Database, type Queryable, sql } from '../../../db/client.ts';
import type { Sealer } from '../../../lib/seal.ts';
import { type IntegrationConfig, integrations } from '../../../providers/index.ts';
import { recordEvents } from '../../ground/events/record.ts';
import { findIntegrations } from '../../setup/integrations/find.ts';
import { openRecord, sealRecord } from './record.ts';

type InboxConfig = IntegrationConfig<'inbox'>;

/** Saves the theme of a user's inbox, which overrides the project's. Returns it with all its keys. */
export async function saveInboxInstallation(
  { db, sealer }: { db: Pick<Database, 'transaction'>; sealer: Sealer },
  { projectId, userId }: { projectId: string; userId: string },
  config: InboxConfig,
): Promise<InboxConfig> {
  const complete = completed(config);
  const sealed = sealRecord(sealer, keyOf(projectId, userId), complete);
  const details = { context: { provider: 'inbox' }, payload: { name: 'inbox' } };
  await db.transaction(async (tx) => {
    await tx.query(upsertInbox, [projectId, userId, sealed]);
    await recordEvents(tx, [{ projectId, type: 'installation.saved', userIds: [userId], details }]);
  });
  return complete;
}

/** Returns the theme of a user's inbox: the user's, else the project's, else all `null`. */
export async function inboxConfigOf(
  deps: { db: Queryable; sealer: Sealer },
  { projectId, userId }: { projectId: string; userId: string },
): Promise<InboxConfig> {
  const [row] = await deps.db.query<{ sealed_record: Buffer }>(selectInbox, [projectId, userId]);
  const own = row && openRecord<InboxConfig>(deps.sealer, keyOf(projectId, userId), row.sealed_record);
  if (own !== undefined) return own;
  const [first] = await findIntegrations(deps, projectId, 'inbox');
  return completed(first?.config ?? {});
}

function completed(config: InboxConfig): InboxConfig {
  return integrations.inbox.complete?.(config) ?? config;
}

function keyOf(projectId: string, userId: string) {
  return { projectId, provider: 'inbox', id: '', ownerId: userId };
}

// Primary key, both.
const upsertInbox = sql(
  'save_inbox_installation',
  `insert into installations (
    project_id, provider, id, owner_id, installed_by, sealed_record, created_at, updated_at
  )
  values ($1, 'inbox', '', $2, $2, $3, now(), now())
  on conflict (project_id, provider, id, owner_id) do update
  set sealed_record = excluded.sealed_record, updated_at = excluded.updated_at`,
);
const selectInbox = sql(
  'find_inbox_installation',
  `select sealed_record
  from installations
  where project_id = $1 and provider = 'inbox' and id = '' and owner_id = $2`,
);
