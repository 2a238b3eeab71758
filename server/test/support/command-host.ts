import { runCommandLine } from '../../src/cli/run.ts';
import type { CommandEnded, CommandToRun } from './cli.ts';

// The process that cli.ts starts for commands that need none of their own. It runs one after the other.

const SIGNALS = ['SIGINT', 'SIGTERM', 'SIGHUP', 'disconnect'];

process.on('message', async ({ args, env }: CommandToRun) => {
  const ended: CommandEnded = { code: 0, out: '', err: '' };
  process.stdout.write = (text: string | Uint8Array) => {
    ended.out += text;
    return true;
  };
  process.stderr.write = (text: string | Uint8Array) => {
    ended.err += text;
    return true;
  };
  process.argv.splice(2, process.argv.length, ...args);
  process.env = env;
  process.exitCode = 0;
  try {
    await runCommandLine();
    ended.code = Number(process.exitCode);
  } catch (error) {
    // As Node does.
    ended.code = 1;
    ended.err += error instanceof Error ? error.stack : String(error);
  }
  // A command leaves these to the end of its process.
  for (const name of SIGNALS) process.removeAllListeners(name);
  process.channel?.ref();
  process.send?.(ended);
});
