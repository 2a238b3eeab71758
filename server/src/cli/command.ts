import { type Config, InvalidSettings, readConfig } from '../config.ts';
import { StartError } from '../db/embedded/start-error.ts';
import { createLogger } from '../lib/log.ts';
import { type Opened, open } from '../open.ts';

/** What a command cannot do, in one line that says what to do instead. It ends the process with exit code 1. */
export class CommandError extends Error {}

/** Runs a command on an open database and closes it, whatever happens. Log lines go nowhere: a command's output is its answer. */
export async function withContext<Result>(work: (context: Opened) => Promise<Result>): Promise<Result> {
  const context = await open(readConfig(), { role: 'client', log: quiet() });
  try {
    return await work(context);
  } finally {
    await context.close();
  }
}

/** Runs a command's action; what the user can put right is told in one line without a stack, exit code 1. */
export async function reportErrors(action: () => Promise<void>): Promise<void> {
  try {
    await action();
  } catch (error) {
    if (error instanceof InvalidSettings)
      for (const problem of error.problems) console.error(`belfry: ${problem}`);
    else if (error instanceof StartError || error instanceof CommandError)
      console.error(`belfry: ${error.message}`);
    else throw error;
    process.exitCode = 1;
  }
}

export function settings(): Config {
  return readConfig();
}

function quiet() {
  return createLogger({ level: 'silent' });
}
