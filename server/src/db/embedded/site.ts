import { createHash } from 'node:crypto';
import { once } from 'node:events';
import {
  accessSync,
  chmodSync,
  chownSync,
  constants,
  lchownSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  realpathSync,
  statSync,
  symlinkSync,
} from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { type Account, accountCan, chooseAccount, databaseUid } from './account.ts';
import { type Binaries, findPackage, prepareBinaries } from './binaries.ts';
import { StartError } from './start-error.ts';

/** Where one data directory keeps its database, and what runs it. */
export interface Site {
  /** The data directory as its user knows it, for messages. */
  readonly dataDir: string;
  /**
   * Everything of the database: `data/` the cluster, `run/` the socket, `lib/` library links; all links
   * resolved.
   */
  readonly home: string;
  readonly cluster: string;
  /** The folder of the unix socket; none where there are no unix sockets: then TCP on 127.0.0.1. */
  readonly socketDir: string | undefined;
  readonly account: Account | undefined;
  readonly binaries: Binaries;
}

export interface SiteOptions {
  dataDir: string;
  log: (message: string) => void;
  /** Unix sockets, unless the platform has none for PostgreSQL (Windows). */
  transport?: 'socket' | 'tcp';
  /**
   * Where root keeps what other users must reach, when the data directory or node_modules is closed to them.
   */
  systemDir?: string;
  /** The folder of the PostgreSQL package, when it is not the installed one. */
  packageDir?: string;
}

// sockaddr_un holds 108 bytes with the closing zero on Linux, 104 on macOS.
const SOCKET_PATH_BYTES = process.platform === 'linux' ? 107 : 103;
const SOCKET_FILE = '.s.PGSQL.5432';

/** Makes the folders of the database, owned by the user that will run it and reachable for that user. */
export async function prepareSite(options: SiteOptions): Promise<Site> {
  const { log, systemDir = '/var/lib/belfry', packageDir = findPackage() } = options;
  const dataDir = makeDataDir(options.dataDir);
  const link = path.join(dataDir, 'postgres');
  const account = chooseAccount({ cluster: path.join(link, 'data'), dataDir });
  const home = account === undefined ? ownHome(link) : homeFor({ account, dataDir, link, systemDir, log });
  const cluster = path.join(home, 'data');
  refuseForeignCluster(cluster, account);
  const transport = options.transport ?? (process.platform === 'win32' ? 'tcp' : 'socket');
  return {
    dataDir,
    home,
    cluster,
    account,
    socketDir: transport === 'socket' ? await prepareSocketDir(home, account) : undefined,
    binaries: prepareBinaries({ packageDir, account, home, systemDir }),
  };
}

/** A folder of the database: closed to everybody but the user that runs it. */
export function makePrivateDir(dir: string, account: Account | undefined): void {
  try {
    mkdirSync(dir, { mode: 0o700 });
  } catch (error) {
    if (!hasCode(error, 'EEXIST')) throw error;
  }
  if (account !== undefined) lchownSync(dir, account.uid, account.gid);
}

/** Tells whether an error is the system's with this code. */
export function hasCode(error: unknown, ...codes: string[]): boolean {
  return error instanceof Error && 'code' in error && codes.includes(String(error.code));
}

function makeDataDir(dataDir: string): string {
  try {
    // As root the folder may be entered (not listed) by others: PostgreSQL runs as another user inside it.
    mkdirSync(dataDir, { recursive: true, mode: process.getuid?.() === 0 ? 0o711 : 0o700 });
    accessSync(dataDir, constants.R_OK | constants.W_OK | constants.X_OK);
    return realpathSync(dataDir);
  } catch (cause) {
    throw unusable(path.resolve(dataDir), cause);
  }
}

/** What the system said about a directory, in words. */
export function unusable(dir: string, cause: unknown): StartError {
  const reasons: Record<string, string> = {
    EACCES: 'this user may not write to it',
    EPERM: 'this user may not write to it',
    EROFS: 'its file system is read-only',
    ENOTDIR: 'it, or a part of its path, is a file',
    EEXIST: 'it is a file',
    ENOSPC: 'the disk is full',
  };
  const code = cause instanceof Error && 'code' in cause ? String(cause.code) : '';
  const reason = reasons[code] ?? (cause instanceof Error ? cause.message : String(cause));
  return new StartError(
    `The data directory ${dir} cannot be used (${reason}): change that, or set DATA_DIR.`,
    {
      cause,
    },
  );
}

function ownHome(link: string): string {
  try {
    makePrivateDir(link, undefined);
    const home = realpathSync(link);
    accessSync(home, constants.R_OK | constants.W_OK | constants.X_OK);
    return home;
  } catch (cause) {
    throw unusable(link, cause);
  }
}

/** As root: the folder for the account, opened or moved where the account could not reach it. */
function homeFor(options: {
  account: Account;
  dataDir: string;
  link: string;
  systemDir: string;
  log: (message: string) => void;
}): string {
  const { account, dataDir, link, systemDir, log } = options;
  try {
    const exists = lstatSync(link, { throwIfNoEntry: false }) !== undefined;
    const reachable = accountCan(account, '-x', dataDir) || letPass({ account, dataDir, log });
    if (!reachable && !accountCan(account, '-x', '/')) {
      throw new StartError(
        `PostgreSQL refuses to run as root, and this container has no other user (${account.uid}) to run it: start Belfry as an ordinary user, or set DATABASE_URL.`,
      );
    }
    if (!exists && !reachable) {
      const home = path.join(systemDir, shortHash(dataDir));
      mkdirSync(systemDir, { recursive: true });
      chmodSync(systemDir, 0o755);
      makePrivateDir(home, account);
      symlinkSync(home, link);
      log(
        `PostgreSQL cannot run as root and other users cannot enter ${dataDir}: the database is kept in ${home}`,
      );
    }
    if (!exists && reachable) makePrivateDir(link, account);
    const home = realpathSync(link);
    if (statSync(home).uid === 0) chownTree(home, account);
    if (!accountCan(account, '-x', home)) {
      throw new StartError(
        `PostgreSQL runs as user ${account.uid}, who cannot enter ${home}: open its parent directories with chmod o+x, or start Belfry as an ordinary user.`,
      );
    }
    return home;
  } catch (cause) {
    if (cause instanceof StartError) throw cause;
    throw unusable(link, cause);
  }
}

/**
 * Lets others pass through (not list) the data directory when that is all that is in the way; the files in it
 * stay closed.
 */
function letPass({
  account,
  dataDir,
  log,
}: {
  account: Account;
  dataDir: string;
  log: (message: string) => void;
}): boolean {
  if (!accountCan(account, '-x', path.dirname(dataDir))) return false;
  chmodSync(dataDir, (statSync(dataDir).mode & 0o7777) | 0o011);
  const reachable = accountCan(account, '-x', dataDir);
  if (reachable)
    log(`${dataDir} may now be passed through by other users: PostgreSQL runs as user ${account.uid}`);
  return reachable;
}

/** Gives files that root owns (restored or copied by root) to the account; links are not followed. */
function chownTree(dir: string, account: Account): void {
  chownSync(dir, account.uid, account.gid);
  for (const entry of readdirSync(dir, { withFileTypes: true })) {
    const child = path.join(dir, entry.name);
    if (entry.isDirectory()) chownTree(child, account);
    else lchownSync(child, account.uid, account.gid);
  }
}

function refuseForeignCluster(cluster: string, account: Account | undefined): void {
  const owner = statSync(cluster, { throwIfNoEntry: false })?.uid;
  const uid = databaseUid(account);
  if (owner === undefined || uid === undefined || owner === uid) return;
  const who =
    account === undefined ? `start Belfry as that user or as root, or run: chown -R ${uid}` : 'run: chown -R';
  throw new StartError(
    `The database in ${cluster} belongs to user ${owner}, not to user ${uid}: ${who} ${cluster}`,
  );
}

/**
 * The folder of the socket: in the home, or under the temporary directory when that path is too long or takes
 * no sockets.
 */
async function prepareSocketDir(home: string, account: Account | undefined): Promise<string> {
  const inHome = path.join(home, 'run');
  if (fits(inHome)) {
    makePrivateDir(inHome, account);
    if (await takesSockets(inHome)) return inHome;
  }
  const name = `belfry-${databaseUid(account)}-${shortHash(home)}`;
  const dir =
    [tmpdir(), '/tmp'].map((parent) => path.join(parent, name)).find(fits) ?? path.join('/tmp', name);
  try {
    makePrivateDir(dir, undefined);
    const made = lstatSync(dir);
    const uid = databaseUid(account);
    // Anybody can make a folder of this name before us: one that is not ours, or that others can open, is
    // never used.
    if (made.uid === process.getuid?.() && made.isDirectory() && account !== undefined) {
      chownSync(dir, account.uid, account.gid);
    } else if (made.uid !== uid || !made.isDirectory()) {
      throw new StartError(`${dir} is needed for the database's socket but is somebody else's: remove it.`);
    }
    chmodSync(dir, 0o700);
    return dir;
  } catch (cause) {
    if (cause instanceof StartError) throw cause;
    throw unusable(dir, cause);
  }
}

const fits = (dir: string): boolean => Buffer.byteLength(path.join(dir, SOCKET_FILE)) <= SOCKET_PATH_BYTES;

/** Shared folders of virtual machines and some network file systems have files, but no sockets. */
async function takesSockets(dir: string): Promise<boolean> {
  const server = createServer();
  try {
    await once(server.listen(path.join(dir, `.p${process.pid}`)), 'listening');
    return true;
  } catch (error) {
    return hasCode(error, 'EADDRINUSE'); // left by a killed start: sockets are to be had
  } finally {
    server.close();
  }
}

const shortHash = (text: string): string => createHash('sha256').update(text).digest('hex').slice(0, 16);
