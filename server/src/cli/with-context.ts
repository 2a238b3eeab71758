import { readConfig } from '../config.ts';
import { isDatabaseUnavailable } from '../db/client.ts';
import { createLogger } from '../lib/log.ts';
import { CannotOpen } from '../lib/seal.ts';
import { waitAtMost } from '../lib/wait.ts';
import { type Opened, open } from '../open.ts';
import { CommandError } from './command.ts';
import { unavailable } from './with-database.ts';

/** Runs a command with an open database, and closes it. Nothing is logged. */
export async function withContext<Result>(work: (context: Opened) => Promise<Result>): Promise<Result> {
  const context = await open(readConfig(), { role: 'client', log: createLogger({ level: 'silent' }) });
  try {
    return await work(context);
  } catch (error) {
    throw describeError(error);
  } finally {
    await context.close();
  }
}

function describeError(error: unknown): unknown {
  if (error instanceof CannotOpen)
    return new CommandError(`${error.message}: run the command with the settings of the server`);
  if (isDatabaseUnavailable(error)) return unavailable(error);
  return error;
}

const TIMEOUT_MS = 5_000;

/**
 * Waits for the connection to the running servers, and returns whether there is one. Without it, changes that
 * this process publishes reach them only within seconds.
 */
export function linked({ bus }: Opened): Promise<boolean> {
  return waitAtMost(
    TIMEOUT_MS,
    bus.listening().then(() => true),
    () => false,
  );
}
