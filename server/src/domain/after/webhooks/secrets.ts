import { randomBytes } from 'node:crypto';
import { type Queryable, sql } from '../../../db/client.ts';
import { ClientError } from '../../../errors.ts';
import type { Clock } from '../../../lib/clock.ts';
import { CannotOpen, ifOpened, type Sealer } from '../../../lib/seal.ts';

// Standard Webhooks requires 24 to 64 bytes.
const SECRET_BYTES = 32;
/** What a secret starts with; base64 follows. */
export const SECRET_PREFIX = 'whsec_';
const MAX_NAMED = 10;

/** Returns a new secret to sign messages with. */
export function newSecret(): string {
  return SECRET_PREFIX + randomBytes(SECRET_BYTES).toString('base64');
}

/** The secrets of a webhook as stored. */
export interface SecretRow {
  sealed_secret: Buffer;
  sealed_former_secret: Buffer | null;
  former_secret_until: Date | null;
}

/**
 * Returns the secrets that sign messages now, newest first. Throws `CannotOpen` if the current one cannot be
 * opened, and leaves out a former one that cannot.
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

/**
 * Returns the webhook's secrets, which only a Project JWT may read, or undefined if the project has no such
 * webhook. Throws if the current secret cannot be opened.
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

export function sealSecret(sealer: Sealer, webhookId: string, secret: string): Buffer {
  return sealer.seal(secret, secretPurpose(webhookId));
}

export function openSecret(sealer: Sealer, webhookId: string, sealed: Buffer): string {
  return sealer.open(sealed, secretPurpose(webhookId)).toString();
}

/** The purpose under which a webhook's secret is sealed. */
export function secretPurpose(webhookId: string): string {
  return `webhook:${webhookId}:secret`;
}

/** A webhook that gets no messages because this server does not have the key of its secret. */
interface UnreadableWebhook {
  id: string;
  /** The name of its project. */
  project: string;
  key_id: string;
}

/** Explains why a secret cannot be opened; without a key id, it was changed. */
export function unreadableSecret(keyId: string | undefined): string {
  return keyId === undefined
    ? 'The secret was changed in the database and cannot be decrypted: rotate it'
    : `The secret was encrypted with the key ${keyId}, which this server does not have: ` +
        'add it to SECRET_KEY, or rotate the secret';
}

/** Describes the webhooks of all projects whose secrets the sealer has no key for: a line per key. */
export async function describeUnreadableWebhooks({
  db,
  sealer,
}: {
  db: Queryable;
  sealer: Pick<Sealer, 'keyIds'>;
}): Promise<string[]> {
  const found = await db.query<UnreadableWebhook>(selectUnreadable, [sealer.keyIds]);
  return [...Map.groupBy(found, ({ key_id }) => key_id)].map(([keyId, those]) => {
    const names = those.slice(0, MAX_NAMED).map(({ project, id }) => `of project ${project} (${id})`);
    const more = those.length > MAX_NAMED ? ` and ${those.length - MAX_NAMED} more` : '';
    const count = `${those.length} webhook${those.length === 1 ? ' has a secret' : 's have secrets'}`;
    const list = `${names.join(', ')}${more}`;
    return `${count} encrypted with the key ${keyId}, which this server does not have: ${list}`;
  });
}

// Index webhooks_of_project (project_id, id).
const selectSecret = sql(
  'get_webhook_secret',
  `select sealed_secret, sealed_former_secret, former_secret_until
  from webhooks
  where project_id = $1 and id = $2 and deleted_at is null`,
);
// Reads the whole table, when a server starts and for doctor. Bytes 2 to 5 of a sealed secret are the key id.
const selectUnreadable = sql(
  'select_unreadable_webhooks',
  `select w.id, p.name as project, encode(substring(w.sealed_secret from 2 for 4), 'hex') as key_id
  from webhooks w
  join projects p on p.id = w.project_id
  where w.deleted_at is null and encode(substring(w.sealed_secret from 2 for 4), 'hex') <> all ($1::text[])
  order by key_id, p.name, w.id`,
);
