import { createSecretKey, randomUUID } from 'node:crypto';
import { type Database, type Queryable, sql } from '../../../db/client.ts';
import type { Clock } from '../../../lib/clock.ts';
import { isId } from '../../../lib/ids.ts';
import { signJwt } from '../../../lib/jwt.ts';
import type { Sealer } from '../../../lib/seal.ts';
import type { Bus } from '../../ground/bus/messages.ts';
import { sealingPurpose } from './keys.ts';

/** A Project JWT that was issued. The token itself is shown once and not stored. */
export interface IssuedToken {
  jti: string;
  projectId: string;
  name: string;
  issuedAt: Date;
  expiresAt: Date | null;
  revokedAt: Date | null;
  /** When the key that signed it ends; null while that is the project's current key. */
  keyEndsAt: Date | null;
}

/** Issues a Project JWT without expiry, and revokes the previous ones with the same `issuedFor`. */
export async function replaceToken(
  { db, bus, ...deps }: { db: Database; sealer: Sealer; clock: Clock; bus: Bus },
  { projectId, name, issuedFor }: { projectId: string; name: string; issuedFor: string },
): Promise<string | undefined> {
  const issued = await db.transaction(async (tx) => {
    await tx.query(revokeIssuedFor, [projectId, issuedFor, new Date(deps.clock.now())]);
    return issueToken({ db: tx, ...deps }, { projectId, name, issuedFor });
  });
  if (issued !== undefined) bus.publish({ type: 'project_changed', projectId });
  return issued?.token;
}

/** Issues a Project JWT. Returns undefined for an unknown project. */
export async function issueToken(
  { db, sealer, clock }: { db: Queryable; sealer: Sealer; clock: Clock },
  {
    projectId,
    name,
    expiresAt,
    issuedFor,
  }: { projectId: string; name: string; expiresAt?: Date | undefined; issuedFor?: string },
): Promise<{ token: string; issued: IssuedToken } | undefined> {
  const jti = randomUUID();
  const seconds = Math.floor(clock.now() / 1000);
  const end = expiresAt === undefined ? undefined : Math.floor(expiresAt.getTime() / 1000);
  const [row] = await db.query<TokenRow & { sealed_signing_key: Buffer }>(insertToken, [
    jti,
    projectId,
    name,
    new Date(seconds * 1000),
    end === undefined ? null : new Date(end * 1000),
    issuedFor ?? null,
  ]);
  if (row === undefined) return undefined;
  const key = createSecretKey(sealer.open(row.sealed_signing_key, sealingPurpose(projectId, 'signing_key')));
  const claims = {
    iss: 'belfry',
    sub: projectId,
    jti,
    role: 'project',
    iat: seconds,
    ...(end === undefined ? {} : { exp: end }),
  };
  return { token: await signJwt(claims, key), issued: toToken(row) };
}

/** Returns the tokens of a project, oldest first. */
export async function listTokens({ db }: { db: Queryable }, projectId: string): Promise<IssuedToken[]> {
  return (await db.query<TokenRow>(selectTokens, [projectId])).map(toToken);
}

/**
 * Revokes a token, at once on this node and within seconds on the others. Returns undefined if there is none.
 */
export async function revokeToken(
  { db, clock, bus }: { db: Queryable; clock: Clock; bus: Bus },
  jti: string,
): Promise<IssuedToken | undefined> {
  if (!isId(jti)) return undefined;
  const [row] = await db.query<TokenRow>(updateRevoked, [jti, new Date(clock.now())]);
  if (row === undefined) return undefined;
  bus.publish({ type: 'project_changed', projectId: row.project_id });
  return toToken(row);
}

interface TokenRow {
  jti: string;
  project_id: string;
  name: string;
  issued_at: Date;
  expires_at: Date | null;
  revoked_at: Date | null;
  key_ends_at: Date | null;
}

function toToken(row: TokenRow): IssuedToken {
  return {
    jti: row.jti,
    projectId: row.project_id,
    name: row.name,
    issuedAt: row.issued_at,
    expiresAt: row.expires_at,
    revokedAt: row.revoked_at,
    keyEndsAt: row.key_ends_at,
  };
}

// projects_pkey. Locked, so that no token is signed with a key after a roll has written the end of its
// tokens.
const insertToken = sql(
  'insert_project_token',
  `with project as (
    select id, sealed_signing_key from projects where id = $2 for share
  ), token as (
    insert into project_tokens (jti, project_id, name, issued_at, expires_at, issued_for)
    select $1, id, $3, $4, $5, $6 from project
    returning *
  )
  select token.*, project.sealed_signing_key
  from token, project`,
);

// project_tokens_of_project.
const selectTokens = sql(
  'select_project_tokens',
  `select jti, project_id, name, issued_at, expires_at, revoked_at, key_ends_at
  from project_tokens
  where project_id = $1
  order by issued_at, jti`,
);

// project_tokens_pkey.
const updateRevoked = sql(
  'revoke_project_token',
  `update project_tokens
  set revoked_at = coalesce(revoked_at, $2)
  where jti = $1
  returning jti, project_id, name, issued_at, expires_at, revoked_at, key_ends_at`,
);

// project_tokens_of_project.
const revokeIssuedFor = sql(
  'revoke_tokens_issued_for',
  `update project_tokens
  set revoked_at = $3
  where project_id = $1 and issued_for = $2 and revoked_at is null`,
);
