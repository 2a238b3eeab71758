import { readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { hostname } from 'node:os';
import { join } from 'node:path';
import { type Credentials, defaultCredentials } from './domain/setup/projects/default-project.ts';
import { findProject } from './domain/setup/projects/find.ts';
import { issueToken } from './domain/setup/projects/tokens.ts';
import { verifyJwt } from './lib/jwt.ts';
import type { Opened } from './open.ts';

/** `<DATA_DIR>/credentials.json`: the credentials for first steps and for the command line. */
export interface CredentialsFile extends Credentials {
  base_url: string;
  legacy_base_url: string;
}

/** The file in a data directory; undefined if it cannot be read. */
export function readCredentials(dataDir: string): CredentialsFile | undefined {
  const found = findCredentials(dataDir);
  return found.kind === 'found' ? found.file : undefined;
}

/** The file in a data directory, or why there is none. The next start of the server writes a damaged one. */
export type FoundCredentials =
  | { kind: 'found'; file: CredentialsFile }
  | { kind: 'missing' }
  | { kind: 'damaged' }
  | { kind: 'unreadable'; code: string };

/** Looks for the file in a data directory. */
export function findCredentials(dataDir: string): FoundCredentials {
  let text: string;
  try {
    text = readFileSync(pathIn(dataDir), 'utf8');
  } catch (error) {
    const { code = '' } = error as NodeJS.ErrnoException;
    return code === 'ENOENT' ? { kind: 'missing' } : { kind: 'unreadable', code };
  }
  try {
    const file = JSON.parse(text) as Partial<CredentialsFile> | null;
    const needed = [file?.base_url, file?.legacy_base_url, file?.project_jwt];
    const isComplete = needed.every((member) => typeof member === 'string');
    return isComplete ? { kind: 'found', file: file as CredentialsFile } : { kind: 'damaged' };
  } catch {
    return { kind: 'damaged' };
  }
}

/**
 * Writes the file with the server's current address; the first time it creates the project `default`. Returns
 * `undefined` if the operator has other projects and has removed the file.
 */
export async function writeCredentials(
  context: Opened,
  address: string,
): Promise<CredentialsFile | undefined> {
  const { DATA_DIR } = context.config;
  const before = readCredentials(DATA_DIR);
  const credentials =
    before !== undefined && (await isOfThisDatabase(context, before))
      ? await withCurrentKeys(context, before)
      : await defaultCredentials(context, { issuedFor: placeOf(context) });
  if (credentials === undefined) return undefined;
  const file: CredentialsFile = { ...credentials, base_url: `${address}/v2`, legacy_base_url: address };
  if (JSON.stringify(file) !== JSON.stringify(before))
    replace(pathIn(DATA_DIR), `${JSON.stringify(file, null, 2)}\n`);
  return file;
}

/**
 * The place for which the file's token is issued. Servers that share a database have separate files, and a
 * server that has lost its file must not revoke the token of another. An embedded database has one server,
 * wherever its directory is moved.
 */
function placeOf({ config: { DATA_DIR, DATABASE_URL } }: Opened): string {
  return DATABASE_URL === undefined ? 'credentials.json' : `${hostname()}:${pathIn(DATA_DIR)}`;
}

/** Whether the credentials are of this database: DATABASE_URL may have changed since they were written. */
async function isOfThisDatabase(context: Opened, credentials: CredentialsFile): Promise<boolean> {
  const project = await findProject(context, String(credentials.project_id));
  return project !== undefined && project.apiKey === credentials.api_key;
}

/** Replaces what is not valid any more in the file, if it is that project's. Returns whether it did. */
export async function renewCredentials(context: Opened, projectId: string): Promise<boolean> {
  const { DATA_DIR } = context.config;
  const before = readCredentials(DATA_DIR);
  if (before?.project_id !== projectId || !(await isOfThisDatabase(context, before))) return false;
  const file = await withCurrentKeys(context, before);
  if (file === before) return false;
  replace(pathIn(DATA_DIR), `${JSON.stringify(file, null, 2)}\n`);
  return true;
}

/** The same credentials if they are valid; else with the current secret and a new token. */
async function withCurrentKeys(context: Opened, credentials: CredentialsFile): Promise<CredentialsFile> {
  const { project_id: projectId, api_secret: knownSecret, project_jwt: knownToken } = credentials;
  const project = await context.projects.byId(projectId);
  if (project === undefined) return credentials;
  const api_secret = project.apiSecrets[0].key.export().toString();
  const verdict = await verifyJwt(knownToken, project.signingKey, context.clock.now());
  const isRolled = !verdict.ok && verdict.reason === 'signature';
  const isRevoked = verdict.ok && project.revokedTokens.has(String(verdict.claims.jti));
  // After a roll, the former token stays valid as long as the former key, as chosen then.
  const issued =
    isRolled || isRevoked
      ? await issueToken(context, { projectId, name: 'credentials.json', issuedFor: placeOf(context) })
      : undefined;
  if (api_secret === knownSecret && issued === undefined) return credentials;
  return { ...credentials, api_secret, project_jwt: issued?.token ?? knownToken };
}

/** Replaces the file atomically. Other users can never read it, not even while it is written. */
function replace(path: string, text: string): void {
  const draft = `${path}.${process.pid}`;
  rmSync(draft, { force: true });
  writeFileSync(draft, text, { mode: 0o600, flag: 'wx' });
  renameSync(draft, path);
}

function pathIn(dataDir: string): string {
  return join(dataDir, 'credentials.json');
}
