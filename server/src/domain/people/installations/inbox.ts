import { uuidArray } from '../../../db/arrays.ts';
import { type Database, type Queryable, sql } from '../../../db/client.ts';
import type { Sealer } from '../../../lib/seal.ts';
import { type IntegrationConfig, integrations } from '../../../providers/index.ts';
import type { Bus } from '../../ground/bus/messages.ts';
import { recordEvents } from '../../ground/events/record.ts';
import { findIntegrations } from '../../setup/integrations/find.ts';
import { openRecord, sealRecord } from './record.ts';

type InboxConfig = IntegrationConfig<'inbox'>;

/**
 * Saves the config of a user's inbox, which overrides the project's, and notifies the user's open inboxes.
 * Returns it with all its keys.
 */
export async function saveInboxInstallation(
  { db, bus, sealer }: { db: Pick<Database, 'transaction'>; bus: Bus; sealer: Sealer },
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
  bus.publish({ type: 'appearance_changed', projectId, userId });
  return complete;
}

/** Returns the configs of users' inboxes: of each its own, else the project's, else all `null`. */
export async function inboxConfigsOf(
  deps: { db: Queryable; sealer: Sealer },
  { projectId, userIds }: { projectId: string; userIds: readonly string[] },
): Promise<(userId: string) => InboxConfig> {
  const rows = await deps.db.query<Row>(selectInboxes, [projectId, uuidArray(userIds)]);
  const own = new Map(
    rows.map(({ owner_id: userId, sealed_record: sealed }) => [
      userId,
      openRecord<InboxConfig>(deps.sealer, keyOf(projectId, userId), sealed),
    ]),
  );
  const [first] = await findIntegrations(deps, projectId, 'inbox');
  const shared = completed(first?.config ?? {});
  return (userId) => own.get(userId) ?? shared;
}

interface Row {
  owner_id: string;
  sealed_record: Buffer;
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
const selectInboxes = sql(
  'find_inbox_installations',
  `select owner_id, sealed_record
  from installations
  where project_id = $1 and provider = 'inbox' and id = '' and owner_id = any ($2::uuid[])`,
);
