import { readConfig } from '../config.ts';
import { isDatabaseUnavailable } from '../db/client.ts';
import { UnusableDatabase } from '../db/migrate.ts';
import { UnusableBackup } from '../db/restore.ts';
import { withPlaces } from '../open.ts';
import { CommandError } from './command.ts';
import { unavailable } from './with-database.ts';

/** Runs a command that moves cells of any schema from or to `file`, and describes its failure. */
export async function withConnection<Result>(
  file: string,
  work: Parameters<typeof withPlaces<Result>>[1],
): Promise<Result> {
  return withPlaces(readConfig(), (...places) =>
    work(...places).catch((error: unknown) => {
      throw describeFileError(error, file);
    }),
  );
}

/** Describes a failure of a command that moves a cell from or to `file`. */
export function describeFileError(error: unknown, file: string): unknown {
  if (error instanceof UnusableDatabase || error instanceof UnusableBackup)
    return new CommandError(error.message);
  if (!(error instanceof Error)) return error;
  const { code, syscall } = error as NodeJS.ErrnoException;
  // The same codes come from files and from sockets: ENOENT is a missing file, or a missing unix socket.
  if (syscall !== undefined && FILE_CALLS.has(syscall))
    return new CommandError(
      `${file} cannot be used (${code}): check the path, its permissions and the free disk space`,
    );
  if (isDatabaseUnavailable(error)) return unavailable(error);
  return error;
}

const FILE_CALLS = new Set(['open', 'read', 'write', 'fsync', 'rename', 'close']);
