import { textArray } from '../../../db/arrays.ts';
import { type Queryable, sql } from '../../../db/client.ts';
import { CannotOpen, type Sealer } from '../../../lib/seal.ts';
import { sealingPurpose } from './keys.ts';

/** Whether the keys of a sealer open the secrets of the database. */
export type KeyFit =
  /** Nothing is sealed yet, and no server has started on the database. */
  | { kind: 'unclaimed' }
  /** `problems`: why some projects cannot be opened, if they were sealed with keys that are missing. */
  | { kind: 'fits'; problems: readonly string[] }
  /** The secrets of all projects were sealed with other keys. */
  | { kind: 'other_keys'; problem: string }
  /** There is no project, but a server with another key has started on the database. */
  | { kind: 'claimed'; keyId: string };

/** Compares the sealer's keys with those of the database. */
export async function keyFit({ db, sealer }: { db: Queryable; sealer: Sealer }): Promise<KeyFit> {
  const { keys, problems } = await checkKeys({ db, sealer });
  const [problem] = problems;
  if (keys > 0)
    return problem !== undefined && problems.length === keys
      ? { kind: 'other_keys', problem }
      : { kind: 'fits', problems };
  const [claim] = await db.query<{ key_id: string }>(selectClaim);
  if (claim === undefined) return { kind: 'unclaimed' };
  return sealer.keyIds.includes(claim.key_id)
    ? { kind: 'fits', problems }
    : { kind: 'claimed', keyId: claim.key_id };
}

/**
 * Opens one project secret for each key that seals projects. Returns the number of keys and, for those that
 * are missing, the error messages.
 */
async function checkKeys({
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

/**
 * Records the sealer's first key as the key of the database, unless another server was first. Otherwise two
 * servers with different keys could seal secrets that the other cannot open.
 */
export async function claimSealingKey(deps: { db: Queryable; sealer: Sealer }): Promise<KeyFit> {
  const fit = await keyFit(deps);
  if (fit.kind !== 'unclaimed') return fit;
  await deps.db.query(insertClaim, [deps.sealer.keyIds[0]]);
  return keyFit(deps);
}

/**
 * Records the first key as the key of the database, after all secrets were sealed with it. A recorded
 * key that the sealer lacks is replaced only if `isProven`: secrets of the database open with the sealer's.
 */
export async function replaceSealingKey(
  { db, sealer }: { db: Queryable; sealer: Sealer },
  { isProven }: { isProven: boolean },
): Promise<void> {
  await db.query(updateClaim, [sealer.keyIds[0], textArray(sealer.keyIds), isProven]);
}

/**
 * Returns the ids of the keys that the projects are sealed with or, without projects, of the recorded key.
 * Returns none before the first start.
 */
export async function keysInUse(db: Queryable): Promise<string[]> {
  return (await db.query<{ key_id: string }>(selectKeys)).map(({ key_id }) => key_id);
}

// Reads the whole table, once at the start. Bytes 2 to 5 of a sealed secret are the id of the key.
const selectOneOfEachKey = sql(
  'select_project_of_each_key',
  `select distinct on (substring(sealed_api_secret from 2 for 4)) id, sealed_api_secret
  from projects
  order by substring(sealed_api_secret from 2 for 4), id`,
);

const selectClaim = sql('select_sealing_key', 'select key_id from sealing_key');

// Waits for a server that is recording its key at the same time.
const insertClaim = sql(
  'claim_sealing_key',
  'insert into sealing_key (key_id) values ($1) on conflict (only_row) do nothing',
);

const updateClaim = sql(
  'replace_sealing_key',
  'update sealing_key set key_id = $1 where key_id <> $1 and (key_id = any ($2::text[]) or $3)',
);

// Reads the whole table, once, when a server has no key. Bytes 2 to 5 of a sealed secret are the id of the
// key.
const selectKeys = sql(
  'select_keys_in_use',
  `select distinct encode(substring(sealed_api_secret from 2 for 4), 'hex') as key_id from projects
  union
  select key_id from sealing_key where not exists (select from projects)`,
);
