import { StartError } from '../db/embedded/start-error.ts';

/** A command failed. Each problem is a line that says what to do. The exit code is 1. */
export class CommandError extends Error {
  readonly problems: readonly string[];

  constructor(...problems: [string, ...string[]]) {
    super(problems.join('; '));
    this.problems = problems;
  }
}

/** A command was used wrongly. The exit code is 2, as for errors that commander finds. */
export class UsageError extends CommandError {}

/** Returns a handler of the error of reading a path that the user has given. */
export function unreadable(path: string) {
  return (error: NodeJS.ErrnoException): never => {
    throw new CommandError(`${path} cannot be read (${error.code}): check the path`);
  };
}

/** Runs an action. Errors that the user can correct are printed without a stack; the exit code is 1 or 2. */
export async function reportErrors(action: () => Promise<void>): Promise<void> {
  try {
    await action();
  } catch (error) {
    const problems = await problemsOf(error);
    if (problems === undefined) throw error;
    for (const problem of problems) console.error(`belfry: ${problem}`);
    process.exitCode = error instanceof UsageError ? 2 : 1;
  }
}

async function problemsOf(error: unknown): Promise<readonly string[] | undefined> {
  if (error instanceof CommandError) return error.problems;
  if (error instanceof StartError) return [error.message];
  // Imported here, because the settings load all providers, which a help text does not need.
  const { InvalidSettings } = await import('../config.ts');
  return error instanceof InvalidSettings ? error.problems : undefined;
}
