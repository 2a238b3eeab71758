import { type Queryable, sql } from '../../../db/client.ts';
import { CannotOpen, type Sealer } from '../../../lib/seal.ts';

/** An integration whose config was sealed with a key that this server lacks. It sends nothing. */
export interface UnreadableIntegration {
  id: string;
  provider: string;
  /** The name of its project. */
  project: string;
  key_id: string;
}

/** Returns the integrations of all projects for which the sealer has no key, ordered by key. */
export function unreadableIntegrations({
  db,
  sealer,
}: {
  db: Queryable;
  sealer: Pick<Sealer, 'keyIds'>;
}): Promise<UnreadableIntegration[]> {
  return db.query<UnreadableIntegration>(selectUnreadable, [sealer.keyIds]);
}

const MAX_LISTED = 10;

/** Explains why a config cannot be opened and what to do. */
export function unreadableConfig(error: unknown): string {
  const keyId = error instanceof CannotOpen ? error.keyId : undefined;
  return keyId === undefined
    ? 'The config of this integration cannot be decrypted: it was changed in the database. ' +
        'Save the integration again'
    : `The config of this integration cannot be decrypted: it was encrypted with the key ${keyId}, ` +
        'which this server does not have. Add that key to SECRET_KEY, or save the integration again';
}

/** Returns a line for each missing key with the integrations that need it. */
export function describeUnreadable(found: readonly UnreadableIntegration[]): string[] {
  return [...Map.groupBy(found, ({ key_id }) => key_id)].map(([keyId, those]) => {
    const names = those
      .slice(0, MAX_LISTED)
      .map(({ provider, project, id }) => `${provider} of project ${project} (${id})`);
    const more = those.length > MAX_LISTED ? ` and ${those.length - MAX_LISTED} more` : '';
    const count = `${those.length} integration${those.length === 1 ? '' : 's'}`;
    const list = names.join(', ') + more;
    return `${count} encrypted with the key ${keyId}, which this server does not have: ${list}`;
  });
}

// Reads the whole table, when a server starts and for doctor. Bytes 2 to 5 of a sealed value are the key's
// id.
const selectUnreadable = sql(
  'select_unreadable_integrations',
  `select i.id, i.provider, p.name as project,
    encode(substring(i.sealed_config from 2 for 4), 'hex') as key_id
  from integrations i
  join projects p on p.id = i.project_id
  where encode(substring(i.sealed_config from 2 for 4), 'hex') <> all ($1::text[])
  order by key_id, p.name, i.provider, i.id`,
);
