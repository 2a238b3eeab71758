import { type Queryable, sql } from '../../../db/client.ts';
import type { Sealer } from '../../../lib/seal.ts';
import { type KeyKind, openKey } from './keys.ts';

/** A key without its secret. */
export interface ProjectKeyInfo {
  id: string;
  kind: KeyKind;
  /** `ended` keys do not verify tokens. Ended signing keys still verify links in messages. */
  state: 'current' | 'valid' | 'ended';
  createdAt: Date;
  /** `null` for the current key. */
  validUntil: Date | null;
  /** When it last verified a token, to the minute. */
  lastUsedAt: Date | null;
}

/**
 * Returns the keys of a project, the current ones first. Does not open former keys, so that a key whose
 * SECRET_KEY is lost can be listed and removed. Throws `CannotOpen` if a current key cannot be opened.
 */
export async function listKeys(
  { db, sealer }: { db: Queryable; sealer: Sealer },
  projectId: string,
): Promise<ProjectKeyInfo[]> {
  const [keys, uses] = await Promise.all([
    db.query<KeyRow>(selectKeys, [projectId]),
    db.query<{ key_id: string; used_at: Date }>(selectUses, [projectId]),
  ]);
  const lastUse = new Map(uses.map(({ key_id, used_at }) => [key_id, used_at]));
  return keys.map(({ former_id, kind, sealed_key: sealed, created_at, valid_until, ended }) => {
    const id = former_id ?? openKey(sealer, { projectId, kind, sealed, validUntilMs: 0 }).id;
    return {
      id,
      kind,
      state: valid_until === null ? 'current' : ended ? 'ended' : 'valid',
      createdAt: created_at,
      validUntil: valid_until,
      lastUsedAt: lastUse.get(id) ?? null,
    };
  });
}

interface KeyRow {
  /** Null for a current key. */
  former_id: string | null;
  kind: KeyKind;
  sealed_key: Buffer;
  created_at: Date;
  valid_until: Date | null;
  ended: boolean | null;
}

// projects_pkey, former_project_keys_pkey.
const selectKeys = sql(
  'select_project_keys',
  `with keys as (
    select null as former_id, 'api_secret' as kind, sealed_api_secret as sealed_key,
      coalesce(api_secret_created_at, created_at) as created_at, null::timestamptz as valid_until
    from projects
    where id = $1
    union all
    select null, 'signing_key', sealed_signing_key, coalesce(signing_key_created_at, created_at), null
    from projects
    where id = $1
    union all
    select id, kind, sealed_key, created_at, valid_until
    from former_project_keys
    where project_id = $1
  )
  select former_id, kind, sealed_key, created_at, valid_until, valid_until <= now() as ended
  from keys
  order by kind, valid_until desc nulls first, created_at desc`,
);

// project_key_uses_pkey.
const selectUses = sql(
  'select_project_key_uses',
  'select key_id, used_at from project_key_uses where project_id = $1',
);
