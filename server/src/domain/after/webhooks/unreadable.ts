import { type Queryable, sql } from '../../../db/client.ts';
import type { Sealer } from '../../../lib/seal.ts';

/** A webhook whose secret was sealed with a key that is not at hand: nothing is sent to it. */
interface UnreadableWebhook {
  id: string;
  /** The name of its project. */
  project: string;
  key_id: string;
}

const MOST_NAMED = 10;

/** What to tell of a secret that cannot be opened; without a key, one that was changed. */
export function unreadableSecret(keyId: string | undefined): string {
  return keyId === undefined
    ? 'The secret was changed in the database and cannot be opened: rotate it'
    : `The secret was sealed with the key ${keyId}, which this server does not have: add it to SECRET_KEY, or rotate the secret`;
}

/**
 * The webhooks of all projects that nothing is sent to, because the sealer has no key for their secrets: a
 * line for each key.
 */
export async function describeUnreadableWebhooks({
  db,
  sealer,
}: {
  db: Queryable;
  sealer: Pick<Sealer, 'keyIds'>;
}): Promise<string[]> {
  const found = await db.query<UnreadableWebhook>(selectUnreadable, [sealer.keyIds]);
  return [...Map.groupBy(found, ({ key_id }) => key_id)].map(([keyId, those]) => {
    const names = those.slice(0, MOST_NAMED).map(({ project, id }) => `of project ${project} (${id})`);
    const more = those.length > MOST_NAMED ? ` and ${those.length - MOST_NAMED} more` : '';
    const count = `${those.length} webhook${those.length === 1 ? ' has a secret' : 's have secrets'}`;
    return `${count} sealed with the key ${keyId}, which this server does not have: ${names.join(', ')}${more}`;
  });
}

// The whole table, when a server starts and for doctor. Bytes 2 to 5 of what is sealed name the key.
const selectUnreadable = sql(
  'select_unreadable_webhooks',
  `select w.id, p.name as project, encode(substring(w.sealed_secret from 2 for 4), 'hex') as key_id
  from webhooks w
  join projects p on p.id = w.project_id
  where w.deleted_at is null and encode(substring(w.sealed_secret from 2 for 4), 'hex') <> all ($1::text[])
  order by key_id, p.name, w.id`,
);
