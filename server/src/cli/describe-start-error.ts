import { isDatabaseUnavailable } from '../db/client.ts';
import { StartError } from '../db/embedded/start-error.ts';

/** Turns errors with an outside cause into one line; others are bugs, and keep their stack. */
export function describeStartError(error: unknown): unknown {
  if (!(error instanceof Error) || error instanceof StartError) return error;
  const { code, path, message } = error as NodeJS.ErrnoException;
  if (path !== undefined)
    return new StartError(`${path} cannot be used (${code}): check its permissions and the free disk space`);
  if (isDatabaseUnavailable(error))
    return new StartError(`the database cannot be used (${message || code}): try belfry doctor`);
  return error;
}
