import { type Queryable, sql } from '../../../db/client.ts';
import { CannotOpen, type Sealer } from '../../../lib/seal.ts';
import { sealingPurpose } from './keys.ts';

/**
 * Opens one project secret for each key that seals projects. Returns the number of keys and, for those that
 * are missing, the error messages.
 */
export async function checkKeys({
  db,
  sealer,
}: {
  db: Queryable;
  sealer: Sealer;
}): Promise<{ keys: number; problems: string[] }> {
  const rows = await db.query<{ id: string; sealed_api_secret: Buffer }>(selectOneOfEachKey);
  const problems: string[] = [];
  for (const { id, sealed_api_secret } of rows) {
    try {
      sealer.open(sealed_api_secret, sealingPurpose(id, 'api_secret'));
    } catch (error) {
      if (!(error instanceof CannotOpen)) throw error;
      problems.push(error.message);
    }
  }
  return { keys: rows.length, problems };
}

// Reads the whole table, once at the start. Bytes 2 to 5 of a sealed secret are the id of the key.
const selectOneOfEachKey = sql(
  'select_project_of_each_key',
  `select distinct on (substring(sealed_api_secret from 2 for 4)) id, sealed_api_secret
  from projects
  order by substring(sealed_api_secret from 2 for 4), id`,
);
