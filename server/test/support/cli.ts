import { type ChildProcess, fork, spawn } from 'node:child_process';
import { once } from 'node:events';
import { text } from 'node:stream/consumers';
import { NODE_COMPILE_CACHE } from './compile-cache.ts';
import { PATIENCE_MS } from './patience.ts';
import { BUNDLE, BUNDLE_CACHE, BUNDLE_OPTIONS } from './program.ts';

export interface Ended {
  code: number | null;
  out: string;
  err: string;
}

const environment = (settings: Record<string, string>, NODE_COMPILE_CACHE: string) => ({
  ...{ PATH: process.env.PATH, HOME: process.env.HOME, TZ: 'UTC', NODE_COMPILE_CACHE },
  ...settings,
});

/** Starts `belfry …` in a process of its own, with only these settings. */
export function belfry(args: readonly string[], settings: Record<string, string> = {}): ChildProcess {
  return spawn(process.execPath, [...BUNDLE_OPTIONS, BUNDLE, ...args], {
    env: environment(settings, BUNDLE_CACHE),
    // The launcher has this IPC channel, too. It must not keep a command from ending.
    stdio: ['pipe', 'pipe', 'pipe', 'ipc'],
  });
}

/** What the host is sent: the arguments and the environment of a command. */
export interface CommandToRun {
  args: readonly string[];
  env: Record<string, string | undefined>;
}

/** What the host sends back. */
export interface CommandEnded {
  code: number;
  out: string;
  err: string;
}

let host: ChildProcess | undefined;
let last: Promise<unknown> = Promise.resolve();

/**
 * Runs `belfry …` with only these settings, in a process that it shares with other commands: only the first
 * one loads the program. Commands run one after the other, and their standard input is empty.
 */
export function runCommand(args: readonly string[], settings: Record<string, string> = {}): Promise<Ended> {
  const running = last.then(() => runInHost({ args, env: environment(settings, NODE_COMPILE_CACHE) }));
  last = running.catch(() => {});
  return running;
}

async function runInHost(command: CommandToRun): Promise<CommandEnded> {
  if (host === undefined) {
    host = fork(new URL('./command-host.ts', import.meta.url), {
      env: environment({}, NODE_COMPILE_CACHE),
      stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
    });
    // It ends with this process.
    host.unref();
    host.channel?.unref();
  }
  const gone = new AbortController();
  const exited = once(host, 'exit', gone).then(() => {
    host = undefined;
    throw new Error(`the process ended that ran belfry ${command.args.join(' ')}`);
  });
  exited.catch(() => {}); // aborted
  const ended = once(host, 'message', gone) as Promise<[CommandEnded]>;
  ended.catch(() => {});
  host.send(command);
  try {
    return await Promise.race([ended.then(([result]) => result), exited]);
  } finally {
    gone.abort();
  }
}

/** Writes the standard input of a child and waits until it ends. */
export async function ended(child: ChildProcess, input = ''): Promise<Ended> {
  const { stdin, stdout, stderr } = child;
  if (stdin === null || stdout === null || stderr === null) throw new Error('the streams are not piped');
  stdin.on('error', () => {}); // the child may end before it has read everything
  stdin.end(input);
  const [[code], out, err] = await Promise.all([once(child, 'close'), text(stdout), text(stderr)]);
  return { code: code as number | null, out, err };
}

/** Collects the output of a running child. */
export class Output {
  text = '';
  readonly #child: ChildProcess;

  constructor(child: ChildProcess, stream: 'stdout' | 'stderr') {
    this.#child = child;
    child[stream]?.setEncoding('utf8').on('data', (chunk: string) => {
      this.text += chunk;
    });
  }

  /** Resolves with the output when it matches. Rejects after `PATIENCE_MS`, or when the child ends before. */
  async until(pattern: RegExp): Promise<string> {
    const deadline = AbortSignal.timeout(PATIENCE_MS);
    while (!pattern.test(this.text)) {
      if (this.#child.exitCode !== null || deadline.aborted)
        throw new Error(`not printed: ${pattern}\n${this.text}`);
      await Promise.race([
        new Promise((resolve) => this.#child.stdout?.once('data', resolve)),
        new Promise((resolve) => this.#child.stderr?.once('data', resolve)),
        once(this.#child, 'close'),
        new Promise((resolve) => deadline.addEventListener('abort', resolve, { once: true })),
      ]);
    }
    return this.text;
  }
}
