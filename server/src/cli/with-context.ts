import { readConfig } from '../config.ts';
import { isDatabaseUnavailable } from '../db/client.ts';
import { createLogger } from '../lib/log.ts';
import { CannotOpen } from '../lib/seal.ts';
import { type Opened, open } from '../open.ts';
import { CommandError } from './command.ts';

/**
 * Runs a command on an open database and closes it, whatever happens. Log lines go nowhere: a command's
 * output is its answer.
 */
export async function withContext<Result>(work: (context: Opened) => Promise<Result>): Promise<Result> {
  const context = await open(readConfig(), { role: 'client', log: createLogger({ level: 'silent' }) });
  try {
    return await work(context);
  } catch (error) {
    throw inWords(error);
  } finally {
    await context.close();
  }
}

function inWords(error: unknown): unknown {
  if (error instanceof CannotOpen)
    return new CommandError(`${error.message}: run the command with the settings of the server`);
  if (isDatabaseUnavailable(error))
    return new CommandError(`the database is not to be had (${(error as Error).message}): try belfry doctor`);
  return error;
}
