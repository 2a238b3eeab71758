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
import { makeFolder } from '../../lib/make-folder.ts';
import { type Account, accountCan, chooseAccount, databaseUid } from './account.ts';
import { type Binaries, findPackage, prepareBinaries } from './binaries.ts';
import { StartError } from './start-error.ts';

/** The place of a data directory's database, and the programs and user that run it. */
export interface Site {
  /** The data directory as it was named, for messages. */
  readonly dataDir: string;
  /**
   * The folder of the database, with links resolved: `data/` cluster, `run/` socket, `lib/` library links.
   */
  readonly home: string;
  readonly cluster: string;
  /** The folder of the unix socket; undefined for TCP on 127.0.0.1. */
  readonly socketDir: string | undefined;
  readonly account: Account | undefined;
  readonly binaries: Binaries;
  readonly maxConnections: number;
}

export interface SiteOptions {
  dataDir: string;
  log: (message: string) => void;
  /** Unix sockets, unless the platform has none for PostgreSQL (Windows). */
  transport?: 'socket' | 'tcp';
  /**
   * As root: the place for files that other users must read if the data directory or node_modules is closed.
   */
  systemDir?: string;
  /** How many connections the server accepts. Default: enough for one process and some commands. */
  maxConnections?: number;
  /** The folder of another PostgreSQL package than the installed one. */
  packageDir?: string;
}

// sockaddr_un holds 108 bytes with the closing zero on Linux, 104 on macOS.
const SOCKET_PATH_BYTES = process.platform === 'linux' ? 107 : 103;
const SOCKET_FILE = '.s.PGSQL.5432';

/** Creates the folders of the database for the user that will run it. */
export async function prepareSite(options: SiteOptions): Promise<Site> {
  const { log, systemDir = '/var/lib/belfry', packageDir = findPackage(), maxConnections = 60 } = options;
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
    maxConnections,
  };
}

/** Creates a folder that only the database's user may open. */
export function makePrivateDir(dir: string, account: Account | undefined): void {
  try {
    mkdirSync(dir, { mode: 0o700 });
  } catch (error) {
    if (!hasCode(error, 'EEXIST')) throw error;
  }
  if (account !== undefined) lchownSync(dir, account.uid, account.gid);
}

/** Whether an error of the operating system has one of these codes. */
export function hasCode(error: unknown, ...codes: string[]): boolean {
  return error instanceof Error && 'code' in error && codes.includes(String(error.code));
}

function makeDataDir(dataDir: string): string {
  try {
    // As root, others may enter the folder but not list it: PostgreSQL runs as another user inside it.
    makeFolder(dataDir, process.getuid?.() === 0 ? 0o711 : 0o700);
    accessSync(dataDir, constants.R_OK | constants.W_OK | constants.X_OK);
    return realpathSync(dataDir);
  } catch (cause) {
    throw unusable(path.resolve(dataDir), cause);
  }
}

/** The error for a directory that cannot be used. */
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
    `The data directory ${dir} cannot be used (${reason}): correct that, or set DATA_DIR.`,
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

/** As root: the folder for the account, opened or moved if the account could not reach it. */
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
    const reachable = accountCan(account, '-x', dataDir) || openDataDir({ account, dataDir, log });
    if (!reachable && !accountCan(account, '-x', '/')) {
      throw new StartError(
        `PostgreSQL does not run as root, and this container has no other user (${account.uid}) for it: ` +
          'start Belfry as an ordinary user, or set DATABASE_URL.',
      );
    }
    if (!exists && !reachable) {
      const home = path.join(systemDir, shortHash(dataDir));
      mkdirSync(systemDir, { recursive: true });
      chmodSync(systemDir, 0o755);
      makePrivateDir(home, account);
      symlinkSync(home, link);
      log(
        `PostgreSQL cannot run as root and other users cannot enter ${dataDir}: ` +
          `the database is in ${home}`,
      );
    }
    if (!exists && reachable) makePrivateDir(link, account);
    const home = realpathSync(link);
    if (statSync(home).uid === 0) chownTree(home, account);
    if (!accountCan(account, '-x', home)) {
      throw new StartError(
        `PostgreSQL runs as user ${account.uid}, who cannot enter ${home}: ` +
          'open its parent directories with chmod o+x, or start Belfry as an ordinary user.',
      );
    }
    return home;
  } catch (cause) {
    if (cause instanceof StartError) throw cause;
    throw unusable(link, cause);
  }
}

/** Lets others enter, but not list, the data directory if that is enough; the files in it stay closed. */
function openDataDir({
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
  if (reachable) log(`Other users may now enter ${dataDir}, because PostgreSQL runs as user ${account.uid}`);
  return reachable;
}

/** Gives files of root, as restored or copied ones are, to the account. Links are not followed. */
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

/** The folder of the socket: in the home, or in the temporary directory if the home cannot hold sockets. */
async function prepareSocketDir(home: string, account: Account | undefined): Promise<string> {
  const inHome = path.join(home, 'run');
  if (fits(inHome)) {
    makePrivateDir(inHome, account);
    if (await supportsSockets(inHome)) return inHome;
  }
  const name = `belfry-${databaseUid(account)}-${shortHash(home)}`;
  const dir =
    [tmpdir(), '/tmp'].map((parent) => path.join(parent, name)).find(fits) ?? path.join('/tmp', name);
  try {
    makePrivateDir(dir, undefined);
    const made = lstatSync(dir);
    const uid = databaseUid(account);
    // Another user could have created a folder of this name: one with another owner is never used.
    if (made.uid === process.getuid?.() && made.isDirectory() && account !== undefined) {
      chownSync(dir, account.uid, account.gid);
    } else if (made.uid !== uid || !made.isDirectory()) {
      throw new StartError(`${dir} is needed for the database's socket but has another owner: remove it.`);
    }
    chmodSync(dir, 0o700);
    return dir;
  } catch (cause) {
    if (cause instanceof StartError) throw cause;
    throw unusable(dir, cause);
  }
}

const fits = (dir: string): boolean => Buffer.byteLength(path.join(dir, SOCKET_FILE)) <= SOCKET_PATH_BYTES;

/** Shared folders of virtual machines and some network file systems have no sockets. */
async function supportsSockets(dir: string): Promise<boolean> {
  const server = createServer();
  try {
    await once(server.listen(path.join(dir, `.p${process.pid}`)), 'listening');
    return true;
  } catch (error) {
    return hasCode(error, 'EADDRINUSE'); // left by a killed start, so there are sockets
  } finally {
    server.close();
  }
}

const shortHash = (text: string): string => createHash('sha256').update(text).digest('hex').slice(0, 16);
