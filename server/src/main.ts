import { runCommandLine } from './cli/run.ts';

await runCommandLine();
