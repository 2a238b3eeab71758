import { createHash } from 'node:crypto';
import type { SlackInstallation } from '../../../contract/installation.ts';
import { CannotOpen, type Sealer } from '../../../lib/seal.ts';
import type { SlackGrant } from '../../../providers/slack/oauth.ts';
import type { SlackProvider } from './app.ts';

/** Whose an installation is that serves all users of the project: Slack itself has vouched for it. */
export const ALL_USERS = '00000000-0000-0000-0000-000000000000';

/** What an installation is found by. */
export interface InstallationKey {
  projectId: string;
  provider: string;
  /** `<app_id>-<team_id>`; the empty text for what a user has one of. */
  id: string;
  ownerId: string;
}

/** Of a Slack installation: the record that clients know, with its id. */
export type StoredInstallation = SlackInstallation & { id: string };

/** An installation as it was read. */
export interface HeldInstallation {
  key: InstallationKey & { provider: SlackProvider };
  record: StoredInstallation | undefined;
  expiresAt: Date | null;
  retryAt: Date | null;
  brokenCode: string | null;
}

/** The record with its id, which is made of the app and the workspace, or the organisation that it is for. */
export function withId(record: SlackGrant & { id?: string }): StoredInstallation {
  const { is_enterprise_install: whole, enterprise, team } = record;
  const place = whole && enterprise !== undefined ? enterprise.id : team.id;
  return { ...record, id: record.id ?? `${record.app_id}-${place}` };
}

/** When the bot's token runs out; null for one that does not. */
export function expiryOf({ expires_in: seconds }: { expires_in?: number }, nowMs: number): Date | null {
  return seconds === undefined ? null : new Date(nowMs + seconds * 1000);
}

/** Of the tokens that a record comes with. */
export function grantHash({ access_token, refresh_token }: SlackGrant): Buffer {
  return createHash('sha256')
    .update(refresh_token ?? access_token)
    .digest();
}

/** A record, sealed for its place alone. */
export function sealRecord(sealer: Sealer, key: InstallationKey, record: object): Buffer {
  return sealer.seal(JSON.stringify(record), installationPurpose(key));
}

/** A record as it was sealed; undefined when the key that sealed it is gone: it has to be saved again then. */
export function openRecord<Kind extends object>(
  sealer: Sealer,
  key: InstallationKey,
  sealed: Buffer,
): Kind | undefined {
  try {
    return JSON.parse(sealer.open(sealed, installationPurpose(key)).toString()) as Kind;
  } catch (error) {
    if (error instanceof CannotOpen) return undefined;
    throw error;
  }
}

/** What a record is sealed for. */
export function installationPurpose({ projectId, provider, id, ownerId }: InstallationKey): string {
  return `project:${projectId}:installation:${provider}:${ownerId}:${id}`;
}
