import { type Database, type Queryable, sql } from '../../../db/client.ts';
import type { Sealer } from '../../../lib/seal.ts';
import type { Bus } from '../../ground/bus/messages.ts';
import { newApiSecret, newSigningKey } from './create.ts';
import { idOfSealed, type KeyKind, sealingPurpose } from './keys.ts';

export interface RolledKey {
  /** Shown once. A signing key is not shown at all. */
  apiSecret: string | undefined;
  /** When the previous key ends. */
  formerValidUntil: Date;
  /** How many valid Project JWTs end with the previous key. */
  tokensEnding: number;
}

/**
 * Replaces a key of a project. All former keys of the kind end within `overlapMs`. Returns undefined for an
 * unknown project.
 */
export async function rollKey(
  { db, sealer, bus }: { db: Pick<Database, 'transaction'>; sealer: Sealer; bus: Bus },
  { projectId, kind, overlapMs }: { projectId: string; kind: KeyKind; overlapMs: number },
): Promise<RolledKey | undefined> {
  const key = kind === 'api_secret' ? newApiSecret() : newSigningKey();
  const rolled = await db.transaction(async (tx) => {
    // Locked, so that concurrent rolls run one after another, and so that no token is issued meanwhile.
    const [row] = await tx.query<{ sealed: Buffer }>(lockKey[kind], [projectId]);
    if (row === undefined) return undefined;
    const id = idOfSealed(sealer, { projectId, kind, sealed: row.sealed });
    const [former] = await tx.query<{ valid_until: Date }>(keepFormer[kind], [projectId, id, overlapMs]);
    if (former === undefined) throw new Error(`project ${projectId} disappeared while it was locked`);
    await tx.query(endEarlier, [projectId, kind, former.valid_until]);
    await tx.query(replaceKey[kind], [projectId, sealer.seal(key, sealingPurpose(projectId, kind))]);
    return {
      formerValidUntil: former.valid_until,
      tokensEnding: kind === 'signing_key' ? await endTokens(tx, projectId, former.valid_until) : 0,
    };
  });
  if (rolled === undefined) return undefined;
  bus.publish({ type: 'project_changed', projectId });
  return { ...rolled, apiSecret: typeof key === 'string' ? key : undefined };
}

async function endTokens(tx: Queryable, projectId: string, endsAt: Date): Promise<number> {
  const rows = await tx.query<{ still_valid: boolean }>(updateTokens, [projectId, endsAt]);
  return rows.filter((row) => row.still_valid).length;
}

// projects_pkey.
const lockKey = {
  api_secret: sql(
    'lock_api_secret',
    'select sealed_api_secret as sealed from projects where id = $1 for no key update',
  ),
  signing_key: sql(
    'lock_signing_key',
    'select sealed_signing_key as sealed from projects where id = $1 for no key update',
  ),
};
const KEEP_FORMER = (kind: KeyKind) =>
  `with current as materialized (
    select id, sealed_${kind} as sealed_key, coalesce(${kind}_created_at, created_at) as created_at
    from projects
    where id = $1
  )
  insert into former_project_keys (project_id, id, kind, sealed_key, created_at, valid_until)
  select id, $2, '${kind}', sealed_key, created_at, now() + $3 * interval '1 millisecond'
  from current
  returning valid_until`;
const keepFormer = {
  api_secret: sql('keep_former_api_secret', KEEP_FORMER('api_secret')),
  signing_key: sql('keep_former_signing_key', KEEP_FORMER('signing_key')),
};
const REPLACE = (kind: KeyKind) =>
  `update projects set sealed_${kind} = $2, ${kind}_created_at = now() where id = $1`;
const replaceKey = {
  api_secret: sql('replace_api_secret', REPLACE('api_secret')),
  signing_key: sql('replace_signing_key', REPLACE('signing_key')),
};
// former_project_keys_pkey.
const endEarlier = sql(
  'end_former_keys',
  `update former_project_keys
  set valid_until = $3
  where project_id = $1 and kind = $2 and valid_until > $3`,
);
// project_tokens_of_project.
const updateTokens = sql(
  'end_tokens_of_former_key',
  `update project_tokens
  set key_ends_at = $2
  where project_id = $1 and (key_ends_at is null or key_ends_at > $2)
  returning revoked_at is null and (expires_at is null or expires_at > $2) as still_valid`,
);
