import { execFile } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import {
  closeSync,
  existsSync,
  fchownSync,
  fsyncSync,
  openSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import path from 'node:path';
import { promisify } from 'node:util';
import type { Account } from './account.ts';
import { accessFile, settingsFile } from './settings.ts';
import { makePrivateDir, type Site } from './site.ts';
import { StartError } from './start-error.ts';
import { readTemplate, unpackTemplate } from './template.ts';

export const DATABASE_USER = 'belfry';
export const DATABASE_NAME = 'postgres';

const FRESH = 'new-';
// The error of initdb for a user without a passwd entry, in English because LC_ALL is C.
const NO_USER_NAME = 'could not look up effective user ID';
const PASSWORD_FILE = 'belfry.password';

/**
 * Creates the cluster if there is none. It is renamed into place, so an interruption leaves no partial one.
 */
export async function ensureCluster(site: Site, log: (message: string) => void): Promise<void> {
  if (existsSync(site.cluster)) {
    checkVersion(site);
    return;
  }
  const fresh = path.join(site.home, `${FRESH}${randomBytes(6).toString('hex')}`);
  try {
    makePrivateDir(fresh, site.account);
    log(`Creating the database in ${site.home}`);
    await fill(site, fresh);
    renameSync(fresh, site.cluster);
    syncDir(site.home);
  } catch (error) {
    rmSync(fresh, { recursive: true, force: true });
    rmSync(`${fresh}.password`, { force: true });
    // Another start was faster, and its cluster can be used.
    if (existsSync(path.join(site.cluster, 'PG_VERSION'))) return;
    throw error;
  }
}

/**
 * Removes partial clusters: those of killed starts and of slower ones. Call it while the server runs.
 *
 * An initdb may still create files in one: it ends at its next file. What cannot be removed is left to the
 * next start.
 */
export function removeLeftovers(site: Site, log: (message: string) => void): void {
  for (const name of readdirSync(site.home)) {
    if (!name.startsWith(FRESH)) continue;
    const partial = path.join(site.home, name);
    try {
      rmSync(partial, { recursive: true, force: true, maxRetries: 5, retryDelay: 20 });
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error);
      log(`The partial database ${partial} cannot be removed: ${reason}`);
    }
  }
}

/** Writes the settings of this release into the cluster. */
export function writeSettings(site: Site): void {
  writeOwned(path.join(site.cluster, 'postgresql.conf'), settingsFile(site), site.account);
  writeOwned(path.join(site.cluster, 'pg_hba.conf'), accessFile(), site.account);
}

/** The password for TCP; a cluster with a socket has none. */
export function passwordOf({ cluster }: Pick<Site, 'cluster'>): string {
  return readFileSync(path.join(cluster, PASSWORD_FILE), 'utf8').trim();
}

function checkVersion({ cluster, binaries }: Site): void {
  let version: string;
  try {
    version = readFileSync(path.join(cluster, 'PG_VERSION'), 'utf8').trim();
  } catch (cause) {
    throw new StartError(
      `${cluster} holds no complete database (its PG_VERSION cannot be read): ` +
        'restore your copy of it, or move it away to start with an empty one.',
      { cause },
    );
  }
  if (version === String(binaries.major)) return;
  throw new StartError(
    `The database in ${cluster} was made by PostgreSQL ${version}, this release has ${binaries.major}: ` +
      'run "belfry backup <file>" with the release that made it, ' +
      'then "belfry restore <file>" with this one and an empty DATA_DIR.',
  );
}

async function fill(site: Site, fresh: string): Promise<void> {
  try {
    await runInitdb(site, fresh);
  } catch (cause) {
    const output = cause instanceof Error && 'stderr' in cause ? String(cause.stderr) : '';
    if (output.includes(NO_USER_NAME) && readTemplate().index.version === site.binaries.version) {
      unpackTemplate(fresh, site.account);
      await initdb(site, ['--sync-only', '--pgdata', fresh]); // needs no user name
      return;
    }
    const reason = lastLine(output) ?? (cause instanceof Error ? cause.message : String(cause));
    throw new StartError(`The database could not be created in ${site.home}: ${reason}`, { cause });
  }
}

async function runInitdb(site: Site, fresh: string): Promise<void> {
  const overTcp = site.socketDir === undefined;
  const passwordFile = `${fresh}.password`;
  if (overTcp) writeOwned(passwordFile, `${randomBytes(24).toString('base64url')}\n`, site.account);
  const args = [
    ...['--pgdata', fresh, '--username', DATABASE_USER, '--encoding', 'UTF8', '--no-instructions'],
    ...['--locale-provider', 'builtin', '--builtin-locale', 'C.UTF-8', '--locale', 'C', '--data-checksums'],
    ...(overTcp ? ['--auth', 'scram-sha-256', '--pwfile', passwordFile] : ['--auth', 'trust']),
  ];
  await promisify(execFile)(site.binaries.initdb, args, {
    ...site.account,
    cwd: site.home,
    env: site.binaries.env,
  });
  // Renamed together with the cluster, so the two always match.
  if (overTcp) renameSync(passwordFile, path.join(fresh, PASSWORD_FILE));
}

async function initdb({ binaries, account, home }: Site, args: string[]): Promise<void> {
  await promisify(execFile)(binaries.initdb, args, { ...account, cwd: home, env: binaries.env });
}

/** The line with the reason: the last one that is fatal, or an error, or simply the last. */
export function lastLine(output: string | readonly string[]): string | undefined {
  const lines = (typeof output === 'string' ? output.split('\n') : [...output]).filter(
    (line) => line.trim() !== '',
  );
  return (
    lines.findLast((line) => /\b(FATAL|PANIC):/.test(line)) ??
    lines.findLast((line) => /error:|ERROR:/.test(line)) ??
    lines.at(-1)
  );
}

/** Writes a whole file or nothing, and never through an existing link. */
function writeOwned(file: string, text: string, account: Account | undefined): void {
  const fresh = `${file}.${randomBytes(6).toString('hex')}`;
  const handle = openSync(fresh, 'wx', 0o600);
  try {
    writeFileSync(handle, text);
    if (account !== undefined) fchownSync(handle, account.uid, account.gid);
  } finally {
    closeSync(handle);
  }
  renameSync(fresh, file);
}

function syncDir(dir: string): void {
  if (process.platform === 'win32') return; // folders cannot be opened there
  const handle = openSync(dir, 'r');
  fsyncSync(handle);
  closeSync(handle);
}
