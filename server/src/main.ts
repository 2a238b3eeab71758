import { watchOutput } from './cli/output.ts';
import { runCommandLine } from './cli/run.ts';

watchOutput();
await runCommandLine();
