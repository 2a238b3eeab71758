import { CommanderError } from 'commander';
import { createProgram } from './cli/program.ts';

try {
  await createProgram().parseAsync();
} catch (error) {
  if (!(error instanceof CommanderError)) throw error;
  process.exitCode = error.exitCode === 0 ? 0 : 2; // help or a usage error, which commander has printed
}
