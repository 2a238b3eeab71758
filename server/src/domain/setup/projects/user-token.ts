import { createSecretKey } from 'node:crypto';
import { type Queryable, sql } from '../../../db/client.ts';
import type { Clock } from '../../../lib/clock.ts';
import { signJwt } from '../../../lib/jwt.ts';
import type { Sealer } from '../../../lib/seal.ts';
import { sealingPurpose } from './keys.ts';

/** Returns a User JWT as a customer's server signs it: HS256 with the project's API secret. */
export function signUserToken(
  { clock }: { clock: Clock },
  user: {
    apiKey: string;
    apiSecret: string;
    externalId?: string | undefined;
    email?: string | undefined;
    expiresAt?: Date | undefined;
  },
): Promise<string> {
  const { apiKey, apiSecret, externalId, email, expiresAt } = user;
  const claims = {
    api_key: apiKey,
    ...(externalId === undefined ? {} : { user_external_id: externalId }),
    ...(email === undefined ? {} : { user_email: email }),
    iat: Math.floor(clock.now() / 1000),
    ...(expiresAt === undefined ? {} : { exp: Math.floor(expiresAt.getTime() / 1000) }),
  };
  return signJwt(claims, createSecretKey(Buffer.from(apiSecret)));
}

/** Returns the API secret of a project. Throws if the project does not exist. */
export async function apiSecretOf(
  { db, sealer }: { db: Queryable; sealer: Sealer },
  projectId: string,
): Promise<string> {
  const [row] = await db.query<{ sealed_api_secret: Buffer }>(selectSecret, [projectId]);
  if (row === undefined) throw new Error(`project ${projectId} does not exist`);
  return sealer.open(row.sealed_api_secret, sealingPurpose(projectId, 'api_secret')).toString();
}

// projects_pkey.
const selectSecret = sql('select_api_secret', 'select sealed_api_secret from projects where id = $1');
