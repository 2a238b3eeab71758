import { createHash } from 'node:crypto';
import type { SlackInstallation } from '../../../contract/installation.ts';
import { ifOpened, type Sealer } from '../../../lib/seal.ts';
import type { SlackGrant } from '../../../providers/slack/oauth.ts';
import type { SlackProvider } from './app.ts';

/** The owner of an installation that serves all users of the project, because Slack granted it to us. */
export const ALL_USERS = '00000000-0000-0000-0000-000000000000';

/** The primary key of an installation. */
export interface InstallationKey {
  projectId: string;
  provider: string;
  /** `<app_id>-<team_id>`; empty where a user has only one. */
  id: string;
  ownerId: string;
}

/** The values of its primary key, in the order of the columns. */
export function keyColumns({ projectId, provider, id, ownerId }: InstallationKey): string[] {
  return [projectId, provider, id, ownerId];
}

/** The record of a Slack installation as clients see it, with its id. */
export type StoredInstallation = SlackInstallation & { id: string };

/** An installation as the database holds it. */
export interface HeldInstallation {
  key: InstallationKey & { provider: SlackProvider };
  record: StoredInstallation | undefined;
  expiresAt: Date | null;
  retryAt: Date | null;
  brokenCode: string | null;
}

/** Adds the id, which consists of the app and its workspace or organization. */
export function withId(record: SlackGrant & { id?: string }): StoredInstallation {
  const { is_enterprise_install: whole, enterprise, team } = record;
  const place = whole && enterprise !== undefined ? enterprise.id : team.id;
  return { ...record, id: record.id ?? `${record.app_id}-${place}` };
}

/** When the bot's token expires; null if it never does. */
export function expiryOf({ expires_in: seconds }: { expires_in?: number }, nowMs: number): Date | null {
  return seconds === undefined ? null : new Date(nowMs + seconds * 1000);
}

/** Hashes the tokens of a record. */
export function grantHash({ access_token, refresh_token }: SlackGrant): Buffer {
  return createHash('sha256')
    .update(refresh_token ?? access_token)
    .digest();
}

/** Encrypts a record for its row: it cannot be opened in another one. */
export function sealRecord(sealer: Sealer, key: InstallationKey, record: object): Buffer {
  return sealer.seal(JSON.stringify(record), installationPurpose(key));
}

/** Decrypts a record. Returns undefined if its key is lost; the record has to be saved again then. */
export function openRecord<Kind extends object>(
  sealer: Sealer,
  key: InstallationKey,
  sealed: Buffer,
): Kind | undefined {
  const [json] = ifOpened(() => sealer.open(sealed, installationPurpose(key)).toString());
  return json === undefined ? undefined : (JSON.parse(json) as Kind);
}

/** The purpose that a record is encrypted for. */
export function installationPurpose({ projectId, provider, id, ownerId }: InstallationKey): string {
  return `project:${projectId}:installation:${provider}:${ownerId}:${id}`;
}
