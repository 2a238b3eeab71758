import { type ChildProcess, spawn } from 'node:child_process';
import { createInterface } from 'node:readline';
import { setTimeout as delay } from 'node:timers/promises';
import { freePort } from '../../lib/free-port.ts';
import { lastLine, removeLeftovers, writeSettings } from './cluster.ts';
import { type Address, ownerArgument, type Role, readyAddress } from './postmaster.ts';
import type { Site } from './site.ts';
import { StartError } from './start-error.ts';

/** A PostgreSQL server that is a child of this process. */
export interface Child {
  readonly pid: number;
  readonly address: Address;
  /** Resolves when the process has ended, with its exit code or signal for the log. */
  readonly ended: Promise<string>;
  stop(): Promise<void>;
}

/** The result of an attempt to start. Another process may hold the cluster, which is not an error yet. */
export type Launch = { kind: 'ready'; child: Child } | { kind: 'held'; reason: string };

// The server must not outlive this process, however it ends. A guard reads a pipe whose other end closes with
// this process, and then requests a fast shutdown of the server. A line through the pipe ends the guard after
// the server has ended, so that it never signals a reused process id. `exec` keeps the process id. The guard
// starts in a subshell that ends at once, so that the server does not find an unknown child.
const GUARD = '( (read -r line <&3 || kill -INT $$) >/dev/null 2>&1 & ) ; exec "$@" 3<&-';

const HELD =
  /lock file ".*" (already exists|is empty)|pre-existing shared memory block|could not bind Unix address/;
const POLL_MS = 5;
const LAST_OUTPUT_MS = 1_000;
const FAST_SHUTDOWN_MS = 30_000; // it writes all dirty buffers first: seconds on a slow disk
const IMMEDIATE_SHUTDOWN_MS = 5_000;

/** Starts the server and waits until it accepts connections, however long a recovery takes. */
export async function launch(site: Site, role: Role, log: (message: string) => void): Promise<Launch> {
  writeSettings(site);
  const output: string[] = [];
  const process_ = spawnServer(site, role, site.socketDir === undefined ? await freePort() : 5432);
  const { pid } = process_;
  const ended = endOf(process_);
  let phase: 'starting' | 'running' | 'stopping' = 'starting';
  follow(process_, (line) => {
    output.push(line);
    if (output.length > 50) output.shift();
    // The eight lines of a normal start and stop are left out of the log.
    const important = /not properly shut down|redo|FATAL|PANIC/;
    if (phase === 'running' || (phase === 'starting' && important.test(line))) log(`PostgreSQL: ${line}`);
  });
  for (;;) {
    const address = pid === undefined ? undefined : readyAddress(site.cluster, pid);
    if (pid !== undefined && address !== undefined) {
      phase = 'running';
      removeLeftovers(site, log);
      const stop = (): Promise<void> => {
        phase = 'stopping';
        return stopProcess(process_, ended);
      };
      return { kind: 'ready', child: { pid, address, ended, stop } };
    }
    const end = await Promise.race([ended, delay(POLL_MS)]);
    if (end === undefined) continue;
    const reason = lastLine(output) ?? `it ended with ${end}`;
    if (output.some((line) => HELD.test(line))) return { kind: 'held', reason };
    throw new StartError(`PostgreSQL cannot start on ${site.cluster}: ${reason}`);
  }
}

function spawnServer(site: Site, role: Role, port: number): ChildProcess {
  const { binaries, cluster, socketDir, account, home } = site;
  const settings = [
    `port=${port}`,
    `listen_addresses=${socketDir === undefined ? '127.0.0.1' : ''}`,
    `unix_socket_directories=${socketDir ?? ''}`,
    ownerArgument(role),
  ];
  const command = [binaries.postgres, '-D', cluster, ...settings.flatMap((setting) => ['-c', setting])];
  const [file, ...args] = process.platform === 'win32' ? command : ['/bin/sh', '-c', GUARD, 'sh', ...command];
  return spawn(file ?? '', args, {
    ...account,
    cwd: home,
    env: binaries.env,
    stdio: ['ignore', 'ignore', 'pipe', 'pipe'],
    // Its own session: Ctrl-C in a terminal reaches this process alone, which stops the server after
    // draining.
    detached: true,
    windowsHide: true,
  });
}

function endOf(child: ChildProcess): Promise<string> {
  const { promise, resolve } = Promise.withResolvers<string>();
  child.once('error', (error) => resolve(error.message));
  child.once('close', (code, signal) => resolve(signal ?? `code ${code}`));
  child.once('exit', (code, signal) => {
    // Reads the rest of its output, but not for long: a process that it left behind may keep the pipe open.
    setTimeout(() => {
      resolve(signal ?? `code ${code}`);
      child.stderr?.destroy();
    }, LAST_OUTPUT_MS);
    const guard = child.stdio[3];
    if (guard && 'end' in guard) guard.on('error', () => undefined).end('\n'); // the guard may have ended
  });
  return promise;
}

function follow(child: ChildProcess, onLine: (line: string) => void): void {
  if (child.stderr) createInterface({ input: child.stderr }).on('line', onLine);
}

async function stopProcess(child: ChildProcess, ended: Promise<string>): Promise<void> {
  const steps: [NodeJS.Signals, number][] = [
    ['SIGINT', FAST_SHUTDOWN_MS],
    ['SIGQUIT', IMMEDIATE_SHUTDOWN_MS],
  ];
  for (const [signal, waitMs] of steps) {
    child.kill(signal);
    if (await endsWithin(ended, waitMs)) return;
  }
  child.kill('SIGKILL');
  await ended;
}

async function endsWithin(ended: Promise<string>, waitMs: number): Promise<boolean> {
  const timer = new AbortController();
  const end = await Promise.race([ended, delay(waitMs, undefined, { signal: timer.signal })]);
  timer.abort();
  return end !== undefined;
}
