import { type Database, type Queryable, sql } from '../../../db/client.ts';
import { ClientError } from '../../../errors.ts';
import type { Clock } from '../../../lib/clock.ts';
import { CannotOpen, type Sealer } from '../../../lib/seal.ts';
import { recordSaved } from './save.ts';
import { newSecret, openSecret, sealSecret } from './sign.ts';
import { unreadableSecret } from './unreadable.ts';

// Long enough for the receiver's side to be changed and deployed.
const OVERLAP_MS = 24 * 3_600_000;

/** The secrets that a webhook's messages are signed with now, as a row holds them. */
export interface SecretRow {
  sealed_secret: Buffer;
  sealed_former_secret: Buffer | null;
  former_secret_until: Date | null;
}

/**
 * The secrets that messages are signed with at this time, the newest first. Throws `CannotOpen` for the
 * current one; a former one that cannot be opened must not take it along.
 */
export function openSecrets(
  { sealer, clock }: { sealer: Sealer; clock: Clock },
  webhookId: string,
  row: SecretRow,
): string[] {
  const { sealed_secret: sealed, sealed_former_secret: former, former_secret_until: until } = row;
  const both = former !== null && until !== null && until.getTime() > clock.now();
  return [
    openSecret(sealer, webhookId, sealed),
    ...(both ? ifOpened(() => openSecret(sealer, webhookId, former)) : []),
  ];
}

function ifOpened(open: () => string): string[] {
  try {
    return [open()];
  } catch (error) {
    if (error instanceof CannotOpen) return [];
    throw error;
  }
}

/**
 * The webhook's secrets, for the Project JWT alone; undefined when the project has no such webhook. Throws
 * where it cannot be opened.
 */
export async function getSecret(
  deps: { db: Queryable; sealer: Sealer; clock: Clock },
  projectId: string,
  id: string,
): Promise<{ secret: string; former_secret?: string; former_secret_until?: string } | undefined> {
  const [row] = await deps.db.query<SecretRow>(selectSecret, [projectId, id]);
  if (row === undefined) return undefined;
  const [secret = '', former] = readable(() => openSecrets(deps, id, row));
  if (former === undefined) return { secret };
  return { secret, former_secret: former, former_secret_until: row.former_secret_until?.toISOString() ?? '' };
}

function readable(open: () => string[]): string[] {
  try {
    return open();
  } catch (error) {
    if (!(error instanceof CannotOpen)) throw error;
    throw new ClientError('service_unavailable', [unreadableSecret(error.keyId)]);
  }
}

/**
 * Gives the webhook a new secret; the one before signs along for a day. Answers until when; undefined when
 * there is no such webhook.
 */
export function rotateSecret(
  { db, sealer, clock }: { db: Pick<Database, 'transaction'>; sealer: Sealer; clock: Clock },
  projectId: string,
  id: string,
): Promise<Date | undefined> {
  return db.transaction(async (tx) => {
    const until = new Date(clock.now() + OVERLAP_MS);
    const sealed = sealSecret(sealer, id, newSecret());
    const changed = await tx.query(replaceSecret, [projectId, id, sealed, until]);
    if (changed.length === 0) return undefined;
    await recordSaved(tx, projectId, id);
    return until;
  });
}

// Index webhooks_of_project, both.
const selectSecret = sql(
  'get_webhook_secret',
  `select sealed_secret, sealed_former_secret, former_secret_until
  from webhooks
  where project_id = $1 and id = $2 and deleted_at is null`,
);
const replaceSecret = sql(
  'rotate_webhook_secret',
  `update webhooks
  set sealed_former_secret = sealed_secret, former_secret_until = $4, sealed_secret = $3, updated_at = now()
  where project_id = $1 and id = $2 and deleted_at is null
  returning id`,
);
