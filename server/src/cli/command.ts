import { InvalidSettings } from '../config.ts';
import { StartError } from '../db/embedded/start-error.ts';

/**
 * What a command cannot do, in one line (or one for each problem) that says what to do instead. It ends the
 * process with exit code 1.
 */
export class CommandError extends Error {
  readonly problems: readonly string[];

  constructor(...problems: [string, ...string[]]) {
    super(problems.join('; '));
    this.problems = problems;
  }
}

/** The same where the command was given wrongly: exit code 2, as for what commander finds wrong. */
export class UsageError extends CommandError {}

/**
 * Runs a command's action; what the user can put right is told in one line without a stack, exit code 1 or 2.
 */
export async function reportErrors(action: () => Promise<void>): Promise<void> {
  try {
    await action();
  } catch (error) {
    const problems = problemsOf(error);
    if (problems === undefined) throw error;
    for (const problem of problems) console.error(`belfry: ${problem}`);
    process.exitCode = error instanceof UsageError ? 2 : 1;
  }
}

function problemsOf(error: unknown): readonly string[] | undefined {
  if (error instanceof InvalidSettings || error instanceof CommandError) return error.problems;
  return error instanceof StartError ? [error.message] : undefined;
}
