import { CommanderError } from 'commander';
import { createProgram } from './program.ts';

/** Runs the command line of this process, and sets its exit code. */
export async function runCommandLine(): Promise<void> {
  try {
    await createProgram().parseAsync();
  } catch (error) {
    if (!(error instanceof CommanderError)) throw error;
    process.exitCode = error.exitCode === 0 ? 0 : 2; // help or a usage error, which commander has printed
  }
}
