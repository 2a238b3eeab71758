import type { SlackInstallation } from '../../../contract/installation.ts';
import { type Database, type Queryable, sql } from '../../../db/client.ts';
import { ClientError } from '../../../errors.ts';
import type { Clock } from '../../../lib/clock.ts';
import type { Sealer } from '../../../lib/seal.ts';
import { wireNameOf } from '../../../providers/index.ts';
import type { SlackGrant } from '../../../providers/slack/oauth.ts';
import { recordEvents } from '../../ground/events/record.ts';
import type { SlackProvider } from './app.ts';
import {
  ALL_USERS,
  expiryOf,
  grantHash,
  type InstallationKey,
  keyColumns,
  openRecord,
  type StoredInstallation,
  sealRecord,
  withId,
} from './record.ts';

// Nothing verifies what a user states, so this bounds what one can store.
const MAX_STATED = 100;

interface Deps {
  db: Pick<Database, 'transaction'>;
  sealer: Sealer;
  clock: Clock;
  config: { readonly BRAND: string };
}

interface Installer {
  projectId: string;
  userId: string;
  provider: SlackProvider;
}

/**
 * Saves an installation that Slack has granted to us. Slack has verified the user, so the installation
 * replaces the project's former one and serves all users of the project.
 */
export async function saveGranted(
  deps: Deps,
  installer: Installer,
  grant: SlackGrant,
): Promise<StoredInstallation> {
  const record = withId(grant);
  await deps.db.transaction(async (tx) => {
    const key = { ...placeOf(installer, record.id), ownerId: ALL_USERS };
    await write(tx, deps, installer, key, record);
    await tx.query(deleteInstallation, keyColumns({ ...key, ownerId: installer.userId })); // the user's own
  });
  return record;
}

/**
 * Saves an installation that a user's app sent. Nothing verifies it, so it serves this user alone. Tokens
 * that were saved before stay as they were renewed since. Tokens that Slack granted to us keep serving all
 * users.
 */
export async function saveStated(
  deps: Deps,
  installer: Installer,
  stated: SlackInstallation,
): Promise<StoredInstallation> {
  const record = withId(withoutNulls(stated));
  const place = placeOf(installer, record.id);
  const own = { ...place, ownerId: installer.userId };
  const hash = grantHash(record);
  await deps.db.transaction(async (tx) => {
    const [granted] = await tx.query<Row>(lockInstallation, keyColumns({ ...place, ownerId: ALL_USERS }));
    if (granted?.grant_hash?.equals(hash)) {
      await tx.query(deleteInstallation, keyColumns(own));
      return;
    }
    const [former] = await tx.query<Row>(lockInstallation, keyColumns(own));
    if (former === undefined) await rejectOneTooMany(tx, installer.userId);
    if (!former?.grant_hash?.equals(hash)) {
      await write(tx, deps, installer, own, record);
      return;
    }
    const held = openRecord<StoredInstallation>(deps.sealer, own, former.sealed_record);
    const sealed = sealRecord(
      deps.sealer,
      own,
      held === undefined ? record : { ...record, ...tokensOf(held) },
    );
    await tx.query(updateRecord, [...keyColumns(own), sealed]);
  });
  return record;
}

async function rejectOneTooMany(tx: Queryable, userId: string): Promise<void> {
  const [stated] = await tx.query<{ count: number }>(countStated, [userId, MAX_STATED]);
  if (stated?.count === MAX_STATED)
    throw new ClientError('validation_failed', [`A user can save at most ${MAX_STATED} installations`]);
}

/** Writes an installation over the one that is there, with the event of it. */
async function write(
  tx: Queryable,
  { sealer, clock, config: { BRAND } }: Omit<Deps, 'db'>,
  { userId }: Installer,
  key: InstallationKey,
  record: StoredInstallation,
): Promise<void> {
  const expiresAt = expiryOf(record, clock.now());
  const sealed = sealRecord(sealer, key, record);
  await tx.query(upsertInstallation, [...keyColumns(key), userId, sealed, grantHash(record), expiresAt]);
  const name = wireNameOf(key.provider, BRAND);
  const details = { context: { provider: name }, payload: { id: key.id, name } };
  await recordEvents(tx, [
    { projectId: key.projectId, type: 'installation.saved', userIds: [userId], details },
  ]);
}

function placeOf({ projectId, provider }: Installer, id: string): Omit<InstallationKey, 'ownerId'> {
  return { projectId, provider, id };
}

/** The bot's tokens, which are renewed. */
function tokensOf({
  access_token,
  refresh_token,
  expires_in,
}: StoredInstallation): Partial<SlackInstallation> {
  return {
    access_token,
    ...(refresh_token === undefined ? {} : { refresh_token }),
    ...(expires_in === undefined ? {} : { expires_in }),
  };
}

/** Optional is not nullable: members that are null are left out. */
function withoutNulls(record: SlackInstallation): SlackInstallation {
  return Object.fromEntries(
    Object.entries(record).filter(([, value]) => value !== null),
  ) as unknown as SlackInstallation;
}

interface Row {
  grant_hash: Buffer | null;
  sealed_record: Buffer;
}

// Primary key, all of them.
const lockInstallation = sql(
  'lock_installation',
  `select grant_hash, sealed_record
  from installations
  where project_id = $1 and provider = $2 and id = $3 and owner_id = $4
  for update`,
);
const deleteInstallation = sql(
  'delete_installation',
  'delete from installations where project_id = $1 and provider = $2 and id = $3 and owner_id = $4',
);
const upsertInstallation = sql(
  'save_installation',
  `insert into installations (
    project_id, provider, id, owner_id, installed_by, sealed_record, grant_hash, expires_at, created_at,
    updated_at
  )
  values ($1, $2, $3, $4, $5, $6, $7, $8, now(), now())
  on conflict (project_id, provider, id, owner_id) do update
  set installed_by = excluded.installed_by, sealed_record = excluded.sealed_record,
    grant_hash = excluded.grant_hash, expires_at = excluded.expires_at, updated_at = excluded.updated_at,
    renewing_until = null, retry_at = null, broken_code = null`,
);
const updateRecord = sql(
  'update_installation',
  `update installations
  set sealed_record = $5, updated_at = now()
  where project_id = $1 and provider = $2 and id = $3 and owner_id = $4`,
);
// Index installations_by_installer.
const countStated = sql(
  'count_stated_installations',
  `select count(*)::int
  from (select from installations where installed_by = $1 and owner_id = $1 limit $2) s`,
);
