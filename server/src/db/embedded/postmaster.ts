import { execFileSync } from 'node:child_process';
import { linkSync, readFileSync, renameSync, rmSync, statSync } from 'node:fs';
import { connect } from 'node:net';
import path from 'node:path';
import { hasCode } from './site.ts';

/** The starter of a server: the Belfry server, or a command such as `belfry token issue` while none runs. */
export type Role = 'server' | 'client';

/** The lock file of a cluster, compared with the running processes. */
export type Found =
  | { kind: 'none' }
  /** The lock file is left over: its process is gone, or another process has its id. */
  | { kind: 'stale'; text: string }
  /** A server outside of this machine's process table responds on the socket: one in another container. */
  | { kind: 'elsewhere' }
  /** Its Belfry is gone, and it will stop unless its guard was killed, too. */
  | { kind: 'orphan'; pid: number }
  | { kind: 'owned'; pid: number; role: Role; owner: number; ready: boolean; address: Address };

export interface Address {
  readonly host: string;
  readonly port: number;
}

// A setting of ours on the server's command line, so that its owner can be read at any time. A lock in the
// database would come too late: a starting server would have no owner.
const OWNER = 'belfry.owner';

/** The argument that names this process as the owner of a server. */
export const ownerArgument = (role: Role): string => `${OWNER}=${role}:${process.pid}`;

/** Finds the server that runs on a cluster, and its owner. */
export async function findPostmaster(cluster: string, socketDir: string | undefined): Promise<Found> {
  const text = readLock(path.join(cluster, 'postmaster.pid'));
  const lock = text === undefined ? undefined : parseLock(text);
  const running = lock === undefined ? undefined : processOf(lock.pid);
  if (lock !== undefined && running !== undefined && servesCluster(running.command, cluster)) {
    const mark = running.command.match(/belfry\.owner=(server|client):(\d+)/);
    const owner = Number(mark?.[2]);
    // The child of a dead process gets another parent, so only a living owner is the parent.
    if (mark === null || running.parent !== owner) return { kind: 'orphan', pid: lock.pid };
    const role = mark[1] === 'server' ? 'server' : 'client';
    return { kind: 'owned', pid: lock.pid, role, owner, ready: lock.ready, address: lock.address };
  }
  if (socketDir !== undefined && (await accepts(socketDir))) {
    const again = readLock(path.join(cluster, 'postmaster.pid'));
    if (again === text) return { kind: 'elsewhere' };
    return findPostmaster(cluster, socketDir); // it started meanwhile
  }
  return text === undefined ? { kind: 'none' } : { kind: 'stale', text };
}

/** The address of the server with this process id; undefined until it is ready. */
export function readyAddress(cluster: string, pid: number): Address | undefined {
  const lock = parseLock(readLock(path.join(cluster, 'postmaster.pid')) ?? '');
  return lock?.ready && lock.pid === pid ? lock.address : undefined;
}

/**
 * Removes stale lock files. PostgreSQL checks only the process id, and does not start if another process of
 * the same user has got that id, as happens in containers at every restart.
 */
export function removeStaleLocks(cluster: string, socketDir: string | undefined): void {
  const files = [path.join(cluster, 'postmaster.pid')];
  if (socketDir !== undefined) files.push(path.join(socketDir, '.s.PGSQL.5432.lock'));
  for (const file of files) {
    const text = readLock(file);
    if (text === undefined || belongsToServer(text, cluster) || isBeingWritten(file, text)) continue;
    const aside = `${file}.stale-${process.pid}`;
    try {
      renameSync(file, aside);
      // Another start may have created its lock just before the rename: that one is put back.
      if (readLock(aside) !== text) linkSync(aside, file);
    } catch (error) {
      if (!hasCode(error, 'ENOENT', 'EEXIST')) throw error;
    }
    rmSync(aside, { force: true });
  }
}

/** Whether a server may just have created the file: it is empty until the process id is written. */
function isBeingWritten(file: string, text: string): boolean {
  if (text !== '') return false;
  const { mtimeMs } = statSync(file, { throwIfNoEntry: false }) ?? { mtimeMs: Date.now() };
  return Math.abs(Date.now() - mtimeMs) < WRITTEN_AFTER_MS;
}

// Less than a start waits for another process to release the database.
const WRITTEN_AFTER_MS = 5_000;

function belongsToServer(text: string, cluster: string): boolean {
  const running = processOf(Number.parseInt(text, 10));
  return running !== undefined && servesCluster(running.command, cluster);
}

function readLock(file: string): string | undefined {
  try {
    return readFileSync(file, 'utf8');
  } catch (error) {
    if (hasCode(error, 'ENOENT')) return undefined;
    throw error;
  }
}

/**
 * The lines of postmaster.pid: process id, cluster, start time, port, socket folder, address, shared memory,
 * state.
 */
function parseLock(text: string): { pid: number; ready: boolean; address: Address } | undefined {
  const [pid = '', , , port = '', socketDir = '', , , state = ''] = text.split('\n');
  const id = Number.parseInt(pid, 10);
  if (!Number.isSafeInteger(id) || id <= 0) return undefined;
  const address = { host: socketDir.trim() || '127.0.0.1', port: Number.parseInt(port, 10) };
  return { pid: id, ready: state.trim() === 'ready', address };
}

function servesCluster(command: string, cluster: string): boolean {
  // The guard, which is a shell, has the same arguments.
  return (
    !command.startsWith('/bin/sh') &&
    command.includes(`postgres${SEPARATOR}-D${SEPARATOR}${cluster}${SEPARATOR}`)
  );
}

// Arguments are separated by a zero byte in /proc; `ps` prints a space.
const SEPARATOR = process.platform === 'linux' ? '\0' : ' ';

function processOf(pid: number): { parent: number; command: string } | undefined {
  if (!Number.isSafeInteger(pid) || pid <= 0) return undefined;
  try {
    if (process.platform === 'linux') {
      const command = readFileSync(`/proc/${pid}/cmdline`, 'utf8');
      // "pid (name) state parent …": the name may contain spaces and brackets, so count from its end.
      const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
      const parent = Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[1]);
      return { parent, command };
    }
    const [parent = '', ...command] = execFileSync('ps', ['-ww', '-o', 'ppid=,command=', '-p', String(pid)], {
      encoding: 'utf8',
    })
      .trim()
      .split(/\s+/);
    return { parent: Number(parent), command: command.join(' ') };
  } catch {
    return undefined; // no such process, or one of another user: not our server
  }
}

/** Whether a server accepts connections on the socket. */
function accepts(socketDir: string): Promise<boolean> {
  const { promise, resolve } = Promise.withResolvers<boolean>();
  const socket = connect(path.join(socketDir, '.s.PGSQL.5432'));
  socket.once('connect', () => resolve(true));
  socket.once('error', () => resolve(false));
  return promise.finally(() => socket.destroy());
}
