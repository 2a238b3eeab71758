import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import pg from 'pg';
import type { EmbeddedConnection, EmbeddedOptions } from '../../src/db/embedded.ts';
import { NODE_COMPILE_CACHE } from './compile-cache.ts';
import { PATIENCE_MS } from './patience.ts';

export const isRoot = process.getuid?.() === 0;
export const UNPRIVILEGED = { uid: 65534, gid: 65534 };
export const NAMELESS = { uid: 12345, gid: 12345 };

const PARENT = fileURLToPath(new URL('./embedded-parent.ts', import.meta.url));
const rootDir = mkdtempSync(path.join(tmpdir(), 'belfry-embedded-'));
chmodSync(rootDir, 0o755);

/** Makes a directory that every user can enter. */
export function makeDir(name: string, owner?: { uid: number; gid: number }): string {
  const dir = mkdtempSync(path.join(rootDir, `${name}-`));
  chmodSync(dir, 0o755);
  if (owner !== undefined) spawnSync('chown', [`${owner.uid}:${owner.gid}`, dir]);
  return dir;
}

/** Removes all directories of `makeDir`. */
export function removeDirs(): void {
  spawnSync('chmod', ['-R', 'u+rwX', rootDir]);
  rmSync(rootDir, { recursive: true, force: true });
}

/** Copies a data directory whose database is stopped, which is faster than initdb. */
export function copyOf(dataDir: string, name: string): string {
  const copy = makeDir(name);
  mkdirSync(path.join(copy, 'postgres'), { mode: 0o700 });
  run('cp', ['-a', path.join(dataDir, 'postgres', 'data'), path.join(copy, 'postgres', 'data')]);
  return copy;
}

/** Runs a program. Throws if it fails. */
export function run(file: string, args: string[]): void {
  const { status, stderr } = spawnSync(file, args, { encoding: 'utf8' });
  if (status !== 0) throw new Error(`${file} ${args.join(' ')}: ${stderr}`);
}

/** Whether this machine permits what a test needs, such as a mount. Containers often do not. */
export function allows(file: string, args: string[]): boolean {
  return isRoot && spawnSync(file, args).status === 0;
}

/** Runs a statement on a connection of its own and returns its rows. */
export async function query(
  connection: EmbeddedConnection,
  text: string,
  values: unknown[] = [],
): Promise<Record<string, unknown>[]> {
  const client = new pg.Client(connection);
  client.on('error', () => undefined);
  await client.connect();
  try {
    return (await client.query(text, values)).rows;
  } finally {
    await client.end();
  }
}

/** Polls until `condition` returns something. Throws after `PATIENCE_MS`. */
export async function until<Value>(
  what: string,
  condition: () => Value | Promise<Value>,
): Promise<NonNullable<Value>> {
  const deadline = Date.now() + PATIENCE_MS;
  for (;;) {
    const value = await condition();
    if (value) return value;
    if (Date.now() > deadline) throw new Error(`not within ${PATIENCE_MS} ms: ${what}`);
    await delay(3);
  }
}

/** Whether a process runs. A zombie does not. */
export function runs(pid: number): boolean {
  const { stdout } = spawnSync('ps', ['-o', 'stat=', '-p', String(pid)], { encoding: 'utf8' });
  return stdout.trim() !== '' && !stdout.startsWith('Z');
}

/** The processes that have this text in their arguments. */
export function processesWith(text: string): { pid: number; command: string }[] {
  if (process.platform === 'linux') {
    return readdirSync('/proc')
      .filter((name) => /^\d+$/.test(name))
      .map((name) => ({ pid: Number(name), command: commandOf(name) }))
      .filter(({ command }) => command.includes(text));
  }
  const { stdout } = spawnSync('ps', ['-axww', '-o', 'pid=,command='], { encoding: 'utf8' });
  const lines = stdout.split('\n').filter((line) => line.includes(text));
  return lines.map((line) => ({ pid: Number.parseInt(line, 10), command: line }));
}

function commandOf(pid: string): string {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'utf8').replaceAll('\0', ' ');
  } catch {
    return ''; // it has ended meanwhile
  }
}

export interface Ready {
  readonly pid: number;
  readonly adopted: boolean;
  readonly connection: EmbeddedConnection;
}

/** A process that has started the database as Belfry does. */
export interface Parent {
  readonly process: ChildProcess;
  readonly log: string[];
  /** Resolves when the database runs, rejects with the message when it cannot. */
  readonly ready: Promise<Ready>;
  kill(signal: NodeJS.Signals): Promise<void>;
}

/** Starts the database in a process of its own, which may run as another user or through another program. */
export function startParent(
  options: Partial<EmbeddedOptions> & { dataDir: string },
  how: { uid?: number; gid?: number; env?: NodeJS.ProcessEnv; through?: readonly string[] } = {},
): Parent {
  const { through = [], ...user } = how;
  const command = [...through, process.execPath, PARENT, JSON.stringify({ role: 'server', ...options })];
  const child = spawn(command[0] ?? '', command.slice(1), {
    ...user,
    env: { NODE_COMPILE_CACHE, ...process.env, ...how.env },
    cwd: '/',
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const { promise: ready, resolve, reject } = Promise.withResolvers<Ready>();
  ready.catch(() => undefined); // a test may kill it before it is ready
  const ended = once(child, 'close');
  const log: string[] = [];
  createInterface({ input: child.stdout }).on('line', (line) => {
    const event = JSON.parse(line) as { log?: string; ready?: Ready; error?: string };
    if (event.log !== undefined) log.push(event.log);
    if (event.ready !== undefined) resolve(event.ready);
    if (event.error !== undefined) reject(new Error(event.error));
  });
  void ended.then(() => reject(new Error('the process ended before the database ran')));
  return {
    process: child,
    log,
    ready,
    async kill(signal) {
      child.kill(signal);
      await ended;
    },
  };
}
