import { randomBytes } from 'node:crypto';
import { type Queryable, sql } from '../../../db/client.ts';
import { newId } from '../../../lib/ids.ts';
import type { Sealer } from '../../../lib/seal.ts';
import { sealingPurpose } from './keys.ts';

/** The name of the project that the first start creates. */
export const DEFAULT_PROJECT = 'default';
/** The project of the page /demo. */
export const DEMO_PROJECT = 'demo';

export interface NewProject {
  id: string;
  name: string;
  apiKey: string;
  /** Shown once; the database stores it sealed. */
  apiSecret: string;
}

/** Creates a project with new keys. Returns undefined if the name is taken. */
export async function createProject(
  { db, sealer }: { db: Queryable; sealer: Sealer },
  name: string,
): Promise<NewProject | undefined> {
  const id = newId();
  const apiKey = `pk_${randomBytes(18).toString('base64url')}`;
  const apiSecret = newApiSecret();
  const rows = await db.query(insertProject, [
    id,
    name,
    apiKey,
    sealer.seal(apiSecret, sealingPurpose(id, 'api_secret')),
    sealer.seal(newSigningKey(), sealingPurpose(id, 'signing_key')),
  ]);
  return rows.length === 0 ? undefined : { id, name, apiKey, apiSecret };
}

export function newApiSecret(): string {
  return `sk_${randomBytes(32).toString('base64url')}`;
}

export function newSigningKey(): Buffer {
  return randomBytes(32);
}

/** Returns whether a text has the form of an API key. */
export function isApiKey(text: string): boolean {
  return /^pk_[A-Za-z0-9_-]{8,64}$/.test(text);
}

const insertProject = sql(
  'insert_project',
  `insert into projects (id, name, api_key, sealed_api_secret, sealed_signing_key)
  values ($1, $2, $3, $4, $5)
  on conflict (name) do nothing
  returning id`,
);
