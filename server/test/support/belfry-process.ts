import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readdirSync, readFileSync } from 'node:fs';
import { createInterface } from 'node:readline';
import { readConfig } from '../../src/config.ts';
import type { CredentialsFile } from '../../src/credentials.ts';
import { createLogger } from '../../src/lib/log.ts';
import { type Opened, open } from '../../src/open.ts';
import { PATIENCE_MS } from './patience.ts';
import { BUNDLE, BUNDLE_CACHE, BUNDLE_OPTIONS } from './program.ts';
import { type Caller, caller, until } from './service.ts';

// The last lines of its output, shown when a test fails.
const LINES_KEPT = 60;

/** The program as users start it: a tree of processes with launcher, server and embedded PostgreSQL. */
export interface BelfryProcess {
  readonly address: string;
  readonly credentials: CredentialsFile;
  /** Calls the API with the Project JWT of the credentials. */
  readonly call: Caller;
  /** From the start of the process until it reported that it is ready. */
  readonly readyAfterMs: number;
  readonly output: readonly string[];
  /** Resolves with the exit code, or the signal that ended it. */
  readonly ended: Promise<number | string>;
  /** The ids of all its processes, with those of the database. */
  tree(): number[];
  /** Kills all of them at once. */
  killTree(): Promise<void>;
  signal(signal: NodeJS.Signals): void;
}

/** Opens the database in a data directory, as a command does, whether its server runs or not. */
export async function withDatabaseOf<Result>(
  dataDir: string,
  work: (opened: Opened) => Promise<Result>,
): Promise<Result> {
  const opened = await open(readConfig({ DATA_DIR: dataDir }), {
    role: 'client',
    log: createLogger({ level: 'silent' }),
  });
  try {
    return await work(opened);
  } finally {
    await opened.close();
  }
}

/** Starts `belfry start` on a data directory, and waits until it is ready. */
export async function startBelfry(
  dataDir: string,
  settings: Record<string, string> = {},
  main: string = BUNDLE,
): Promise<BelfryProcess> {
  const startedAt = performance.now();
  const options = ['--disable-warning=ExperimentalWarning', ...(main === BUNDLE ? BUNDLE_OPTIONS : [])];
  const child = spawn(process.execPath, [...options, main, 'start'], {
    env: {
      PATH: process.env.PATH,
      HOME: process.env.HOME,
      DATA_DIR: dataDir,
      PORT: '0',
      EGRESS_ALLOW: '127.0.0.0/8',
      RATE_LIMIT_READS: '0',
      RATE_LIMIT_WRITES: '0',
      RATE_LIMIT_V1_READS: '0',
      RATE_LIMIT_V1_WRITES: '0',
      RATE_LIMIT_IP: '0',
      LOG_LEVEL: 'warn',
      ...(main === BUNDLE && { NODE_COMPILE_CACHE: BUNDLE_CACHE }),
      ...settings,
    },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const output: string[] = [];
  const ready = Promise.withResolvers<void>();
  for (const stream of [child.stdout, child.stderr]) {
    createInterface({ input: stream }).on('line', (line) => {
      output.push(line);
      if (output.length > LINES_KEPT) output.shift();
      if (line.includes('Belfry is ready at')) ready.resolve();
    });
  }
  const ended = endOf(child);
  const tooLate = setTimeout(() => ready.reject(new Error('timeout')), PATIENCE_MS);
  void ended.then((code) => ready.reject(new Error(`it ended with ${code}`)));
  try {
    await ready.promise;
  } catch (error) {
    child.kill('SIGKILL');
    throw new Error(`belfry did not start on ${dataDir}:\n${output.join('\n')}`, { cause: error });
  } finally {
    clearTimeout(tooLate);
  }
  const credentials = JSON.parse(readFileSync(`${dataDir}/credentials.json`, 'utf8')) as CredentialsFile;
  const tree = () => processTree(dataDir);
  const address = credentials.legacy_base_url;
  return {
    address,
    credentials,
    call: caller(() => address, credentials.project_jwt),
    readyAfterMs: performance.now() - startedAt,
    output,
    ended,
    tree,
    async killTree() {
      const killAll = () => {
        const running = tree();
        for (const pid of running) kill(pid, 'SIGKILL');
        return running;
      };
      killAll();
      await ended;
      // A guard of the database that was started meanwhile has lost its parent, and ends a moment later.
      await until(killAll, (running) => running.length === 0);
    },
    signal: (signal) => void child.kill(signal),
  };
}

/** The postmaster below a data directory, as its lock file has it. */
export function postmasterOf(dataDir: string): number {
  return Number.parseInt(readFileSync(`${dataDir}/postgres/data/postmaster.pid`, 'utf8'), 10);
}

/** A process with all its descendants. */
export function descendants(root: number, all: readonly Process[] = processes()): number[] {
  const children = Map.groupBy(all, ({ parent }) => parent);
  const found = [root];
  for (const pid of found) found.push(...(children.get(pid) ?? []).map((child) => child.pid));
  return found;
}

/** Sends a signal to a process that may have ended. */
export function kill(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error;
  }
}

async function endOf(child: ChildProcess): Promise<number | string> {
  const [code, signal] = (await once(child, 'close')) as [number | null, string | null];
  return code ?? signal ?? 'nothing';
}

/**
 * The processes that use a data directory, with their descendants. Found by the directory, because a process
 * whose parent was killed descends from none of them, and the id of one that has ended may be reused.
 */
function processTree(dataDir: string): number[] {
  const all = processes();
  const using = all.filter(
    ({ command, environment }) =>
      command.includes(`${dataDir}/postgres`) || environment.includes(`DATA_DIR=${dataDir}`),
  );
  return [...new Set(using.flatMap(({ pid }) => descendants(pid, all)))];
}

interface Process {
  pid: number;
  parent: number;
  command: string;
  environment: readonly string[];
}

function processes(): Process[] {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .flatMap((name) => {
      try {
        const stat = readFileSync(`/proc/${name}/stat`, 'utf8');
        // "pid (name) state parent …": the name may hold spaces and brackets, so count from its end.
        const [state, parent] = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
        if (state === 'Z') return [];
        const [command = '', environment = ''] = ['cmdline', 'environ'].map((file) =>
          readFileSync(`/proc/${name}/${file}`, 'utf8'),
        );
        return [
          {
            ...{ pid: Number(name), parent: Number(parent) },
            ...{ command: command.replaceAll('\0', ' '), environment: environment.split('\0') },
          },
        ];
      } catch {
        return []; // ended while we looked
      }
    });
}

/** Sends a signal to all processes of a server. */
export function signalTree(node: BelfryProcess, signal: 'SIGSTOP' | 'SIGCONT'): void {
  for (const pid of node.tree().flatMap((pid) => descendants(pid))) kill(pid, signal);
}
