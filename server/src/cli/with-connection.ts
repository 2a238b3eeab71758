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
  if (isOfFile(error))
    return new CommandError(
      `${file} cannot be used (${error.code}): check the path, its permissions and the free disk space`,
    );
  if (isOfDatabase(error)) return unavailable(error);
  return error;
}

/** Whether the database could not be reached or used, so that another one may still work. */
export function isOfDatabase(error: unknown): boolean {
  return !isOfFile(error) && isDatabaseUnavailable(error);
}

// The same codes come from files and from sockets: ENOENT is a missing file, or a missing unix socket.
function isOfFile(error: unknown): error is NodeJS.ErrnoException {
  const { code = '', syscall = '' } = error instanceof Error ? (error as NodeJS.ErrnoException) : {};
  return FILE_CALLS.has(syscall) && !SOCKET.test(code);
}

const FILE_CALLS = new Set(['open', 'read', 'write', 'fsync', 'rename', 'close']);
// Connections are read and written, too.
const SOCKET = /^(ECONN|EPIPE|ETIMEDOUT|EHOST|ENET)/;
