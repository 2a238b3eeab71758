import { spawnSync } from 'node:child_process';
import { lstatSync, statSync } from 'node:fs';

/** The user that PostgreSQL runs as when Belfry itself runs as root: PostgreSQL refuses root. */
export interface Account {
  readonly uid: number;
  readonly gid: number;
}

// "nobody": present on every Linux and macOS, mapped in every container runtime, and PostgreSQL needs no name
// for it.
const NOBODY: Account = { uid: 65534, gid: 65534 };

/**
 * Chooses the user for PostgreSQL: none when we are not root, else the owner of the files that are there,
 * else nobody.
 */
export function chooseAccount(paths: { cluster: string; dataDir: string }): Account | undefined {
  if (process.getuid?.() !== 0) return undefined;
  return ownerOf(paths.cluster) ?? ownerOf(paths.dataDir) ?? NOBODY;
}

/**
 * Tells whether the account can do what the shell test says (`-x`, `-r`, `-w`) to every path: asked of the
 * system itself, so that ACLs count too.
 */
export function accountCan(account: Account, test: '-x' | '-r' | '-w', ...paths: string[]): boolean {
  const script = `for path in "$@"; do test ${test} "$path" || exit 1; done`;
  const { status } = spawnSync('/bin/sh', ['-c', script, 'sh', ...paths], {
    ...account,
    cwd: '/',
    env: {},
    stdio: 'ignore',
  });
  return status === 0;
}

/** The user id that the database files must belong to. */
export function databaseUid(account: Account | undefined): number | undefined {
  return account?.uid ?? process.getuid?.();
}

function ownerOf(path: string): Account | undefined {
  const stats = lstatSync(path, { throwIfNoEntry: false })?.isSymbolicLink()
    ? statSync(path, { throwIfNoEntry: false })
    : lstatSync(path, { throwIfNoEntry: false });
  return stats === undefined || stats.uid === 0 ? undefined : { uid: stats.uid, gid: stats.gid };
}
