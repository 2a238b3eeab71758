import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { BUNDLE, BUNDLE_CACHE } from './program.ts';

/** Whether this machine has the program that makes pseudo-terminals. */
export const hasTerminals = (() => {
  try {
    return execFileSync('script', ['--version'], { encoding: 'utf8' }).includes('util-linux');
  } catch {
    return false;
  }
})();

/** Starts `belfry …` on a pseudo-terminal. Its standard output is what it shows, with standard error. */
export function belfryOnTerminal(args: string[], settings: Record<string, string> = {}): ChildProcess {
  const command = [process.execPath, BUNDLE, ...args].map((part) => `'${part}'`).join(' ');
  const env = {
    PATH: process.env.PATH,
    HOME: process.env.HOME,
    NODE_COMPILE_CACHE: BUNDLE_CACHE,
    TERM: 'xterm-256color',
    ...settings,
  };
  return spawn('script', ['-qec', command, '/dev/null'], { env, stdio: ['pipe', 'pipe', 'ignore'] });
}
