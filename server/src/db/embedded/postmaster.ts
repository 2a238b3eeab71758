import { execFileSync } from 'node:child_process';
import { linkSync, readFileSync, renameSync, rmSync } from 'node:fs';
import { connect } from 'node:net';
import path from 'node:path';
import { hasCode } from './site.ts';

/**
 * Who started a server: the Belfry server itself, or a command such as `belfry token issue` while none was
 * running.
 */
export type Role = 'server' | 'client';

/** What the lock file of a cluster says, held against the processes that really run. */
export type Found =
  | { kind: 'none' }
  /** The lock file is left over: its process is gone, or its number belongs to something else now. */
  | { kind: 'stale'; text: string }
  /**
   * A server that this machine's process table does not show answers on the socket: another container uses
   * the same files.
   */
  | { kind: 'elsewhere' }
  /** Its Belfry is gone; it is about to stop, or its guard was killed too. */
  | { kind: 'orphan'; pid: number }
  | { kind: 'owned'; pid: number; role: Role; owner: number; ready: boolean; address: Address };

export interface Address {
  readonly host: string;
  readonly port: number;
}

// A setting of our own on the command line of the server: who it belongs to can be read by anybody, at any
// moment of its life. (A lock in the database would come too late: while it starts, a server would look like
// one without an owner.)
const OWNER = 'belfry.owner';

/** The argument that marks a server as this process's own. */
export const ownerArgument = (role: Role): string => `${OWNER}=${role}:${process.pid}`;

/** Finds out whether a server runs on the cluster, and whose it is. */
export async function findPostmaster(cluster: string, socketDir: string | undefined): Promise<Found> {
  const text = readLock(path.join(cluster, 'postmaster.pid'));
  const lock = text === undefined ? undefined : parseLock(text);
  const running = lock === undefined ? undefined : processOf(lock.pid);
  if (lock !== undefined && running !== undefined && servesCluster(running.command, cluster)) {
    const mark = running.command.match(/belfry\.owner=(server|client):(\d+)/);
    const owner = Number(mark?.[2]);
    // A process whose parent dies gets another parent: only a living owner is still the parent.
    if (mark === null || running.parent !== owner) return { kind: 'orphan', pid: lock.pid };
    const role = mark[1] === 'server' ? 'server' : 'client';
    return { kind: 'owned', pid: lock.pid, role, owner, ready: lock.ready, address: lock.address };
  }
  if (socketDir !== undefined && (await answers(socketDir))) {
    const again = readLock(path.join(cluster, 'postmaster.pid'));
    if (again === text) return { kind: 'elsewhere' };
    return findPostmaster(cluster, socketDir); // it came up while we looked
  }
  return text === undefined ? { kind: 'none' } : { kind: 'stale', text };
}

/** Whether the server with this process id is ready for connections, and where. */
export function readyAddress(cluster: string, pid: number): Address | undefined {
  const lock = parseLock(readLock(path.join(cluster, 'postmaster.pid')) ?? '');
  return lock?.ready && lock.pid === pid ? lock.address : undefined;
}

/**
 * Removes lock files that hold up a start: PostgreSQL itself goes by the process id alone, and refuses when
 * that number has been given to another process of the same user meanwhile (which containers do at every
 * restart).
 */
export function removeStaleLocks(cluster: string, socketDir: string | undefined): void {
  const files = [path.join(cluster, 'postmaster.pid')];
  if (socketDir !== undefined) files.push(path.join(socketDir, '.s.PGSQL.5432.lock'));
  for (const file of files) {
    const text = readLock(file);
    if (text === undefined || belongsToServer(text, cluster)) continue;
    const aside = `${file}.stale-${process.pid}`;
    try {
      renameSync(file, aside);
      // Between the look and the move another start may have put its own lock there: that one goes back.
      if (readLock(aside) !== text) linkSync(aside, file);
    } catch (error) {
      if (!hasCode(error, 'ENOENT', 'EEXIST')) throw error;
    }
    rmSync(aside, { force: true });
  }
}

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
  // The guard has the same words in its arguments; it is a shell.
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
      // "pid (name) state parent …": the name may hold spaces and brackets, so count from its end.
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
    return undefined; // no such process, or not ours to look at: either way not our server
  }
}

function answers(socketDir: string): Promise<boolean> {
  const { promise, resolve } = Promise.withResolvers<boolean>();
  const socket = connect(path.join(socketDir, '.s.PGSQL.5432'));
  socket.once('connect', () => resolve(true));
  socket.once('error', () => resolve(false));
  return promise.finally(() => socket.destroy());
}
