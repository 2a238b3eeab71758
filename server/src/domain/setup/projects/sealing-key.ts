import { type Queryable, sql } from '../../../db/client.ts';
import type { Sealer } from '../../../lib/seal.ts';
import { checkKeys } from './check-keys.ts';

/** How the keys of a sealer fit the database. */
export type KeyFit =
  /** Nothing was sealed yet, and no server has started on it. */
  | { kind: 'unclaimed' }
  /**
   * `problems`: why some projects cannot be opened, where several keys are in use and not all are at hand.
   */
  | { kind: 'fits'; problems: readonly string[] }
  /** The secrets of all projects were sealed with other keys. */
  | { kind: 'closed'; problem: string }
  /** There is no project, but a server with this key has started on the database. */
  | { kind: 'claimed'; keyId: string };

/** Compares the sealer's keys with those of the database. Changes nothing. */
export async function keyFit({ db, sealer }: { db: Queryable; sealer: Sealer }): Promise<KeyFit> {
  const { keys, problems } = await checkKeys({ db, sealer });
  const [problem] = problems;
  if (keys > 0)
    return problem !== undefined && problems.length === keys
      ? { kind: 'closed', problem }
      : { kind: 'fits', problems };
  const [claim] = await db.query<{ key_id: string }>(selectClaim);
  if (claim === undefined) return { kind: 'unclaimed' };
  return sealer.keyIds.includes(claim.key_id)
    ? { kind: 'fits', problems }
    : { kind: 'claimed', keyId: claim.key_id };
}

/**
 * Notes the sealer's first key as the database's, unless another server has noted one meanwhile. Two servers
 * with keys of their own would otherwise seal what the other cannot open. Returns how the keys fit
 * afterwards.
 */
export async function claimSealingKey(deps: { db: Queryable; sealer: Sealer }): Promise<KeyFit> {
  const fit = await keyFit(deps);
  if (fit.kind !== 'unclaimed') return fit;
  await deps.db.query(insertClaim, [deps.sealer.keyIds[0]]);
  return keyFit(deps);
}

/**
 * The ids of the keys that the database needs: those of projects, and that of the first start. Empty before
 * it.
 */
export async function keysInUse(db: Queryable): Promise<string[]> {
  return (await db.query<{ key_id: string }>(selectKeys)).map(({ key_id }) => key_id);
}

const selectClaim = sql('select_sealing_key', 'select key_id from sealing_key');

// Waits for another server that is noting its key at the same time.
const insertClaim = sql(
  'claim_sealing_key',
  'insert into sealing_key (key_id) values ($1) on conflict (only_row) do nothing',
);

// The whole table, once, when a server has no key. Bytes 2 to 5 of what is sealed name the key.
const selectKeys = sql(
  'select_keys_in_use',
  `select distinct encode(substring(sealed_api_secret from 2 for 4), 'hex') as key_id from projects
  union
  select key_id from sealing_key where not exists (select from projects)`,
);
