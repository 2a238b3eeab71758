import { spawnSync } from 'node:child_process';
import { lstatSync, statSync } from 'node:fs';

/** The user for PostgreSQL when Belfry runs as root, which PostgreSQL rejects. */
export interface Account {
  readonly uid: number;
  readonly gid: number;
}

// The system user for processes without rights: it exists on every Linux and macOS and in every container,
// and PostgreSQL needs no name for it.
const UNPRIVILEGED: Account = { uid: 65534, gid: 65534 };

/** Chooses the user for PostgreSQL: none unless Belfry runs as root, else the owner of existing files. */
export function chooseAccount(paths: { cluster: string; dataDir: string }): Account | undefined {
  if (process.getuid?.() !== 0) return undefined;
  return ownerOf(paths.cluster) ?? ownerOf(paths.dataDir) ?? UNPRIVILEGED;
}

/** Whether the account passes the shell test (`-x`, `-r`, `-w`) for every path. Considers ACLs, too. */
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

/** The user id that must own the database files. */
export function databaseUid(account: Account | undefined): number | undefined {
  return account?.uid ?? process.getuid?.();
}

function ownerOf(path: string): Account | undefined {
  const stats = lstatSync(path, { throwIfNoEntry: false })?.isSymbolicLink()
    ? statSync(path, { throwIfNoEntry: false })
    : lstatSync(path, { throwIfNoEntry: false });
  return stats === undefined || stats.uid === 0 ? undefined : { uid: stats.uid, gid: stats.gid };
}
