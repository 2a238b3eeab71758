import { setTimeout as delay } from 'node:timers/promises';
import { type Child, launch } from './embedded/child.ts';
import { DATABASE_NAME, DATABASE_USER, ensureCluster, passwordOf } from './embedded/cluster.ts';
import { endLeftBehind } from './embedded/left-behind.ts';
import { type Address, findPostmaster, type Role, removeStaleLocks } from './embedded/postmaster.ts';
import { enter, type Presence, whenAlone } from './embedded/presence.ts';
import { prepareSite, type Site, type SiteOptions, unusable } from './embedded/site.ts';
import { InUseError, StartError } from './embedded/start-error.ts';

/** The settings for a `pg` pool or client; `host` is the folder of the unix socket, or 127.0.0.1. */
export interface EmbeddedConnection {
  readonly host: string;
  readonly port: number;
  readonly user: string;
  readonly password?: string;
  readonly database: string;
}

export interface EmbeddedPostgres {
  readonly connection: EmbeddedConnection;
  /** Whether the server belongs to another Belfry process, so that stop() leaves it running. */
  readonly adopted: boolean;
  /** The process id of the server. */
  readonly pid: number;
  stop(): Promise<void>;
}

export interface EmbeddedOptions extends SiteOptions {
  /** `server`: the only Belfry of this data directory. `client`: a command, which may share its server. */
  role: Role;
  /** Called when the database has ended and another Belfry has taken the directory. */
  onLost?: (error: StartError) => void;
}

const CONFLICT_MS = 10_000; // how long a start waits for another process to release the database
const POLL_MS = 10;
const RESTART_MS = { first: 100, most: 5_000 };

/**
 * Starts the server of `<dataDir>/postgres`, or shares it if a command finds it running. Throws StartError.
 */
export async function startEmbedded(options: EmbeddedOptions): Promise<EmbeddedPostgres> {
  try {
    const site = await prepareSite(options);
    const held = await acquire(site, options);
    if (held.kind === 'shared') return shared(site, held);
    return options.role === 'server'
      ? supervise(site, options, held.child)
      : forCommand(site, options, held.child);
  } catch (cause) {
    // Other errors come from the file system: a full disk, a file of another user.
    throw cause instanceof StartError ? cause : unusable(options.dataDir, cause);
  }
}

type Held =
  | { kind: 'own'; child: Child }
  | { kind: 'shared'; pid: number; address: Address; presence: Presence };

/** Tries until this process has started or shares the server, or another process keeps it. */
async function acquire(site: Site, { role, log }: EmbeddedOptions): Promise<Held> {
  await ensureCluster(site, log);
  let deadline = Date.now() + CONFLICT_MS;
  let obstacle = '';
  do {
    const found = await findPostmaster(site.cluster, site.socketDir);
    if (found.kind === 'elsewhere') {
      throw new InUseError(
        `The database in ${site.dataDir} is used by another container or machine: stop that first.`,
      );
    }
    if (found.kind === 'owned') {
      obstacle = `another Belfry (pid ${found.owner}) is running on ${site.dataDir}`;
      if (role === 'server' && found.role === 'server') throw new InUseError(stopFirst(obstacle));
      if (role === 'client' && found.ready) {
        const presence = await enter(connectionTo(site, found.address));
        if (presence !== undefined)
          return { kind: 'shared', pid: found.pid, address: found.address, presence };
      }
    }
    if (found.kind === 'orphan') {
      await endOrphan(site, found.pid);
      deadline = Date.now() + CONFLICT_MS;
    }
    if (found.kind === 'stale' || found.kind === 'none') {
      removeStaleLocks(site.cluster, site.socketDir);
      const launched = await launch(site, role, log);
      if (launched.kind === 'ready') return { kind: 'own', child: launched.child };
      obstacle = launched.reason;
      if (obstacle.includes('pre-existing shared memory block')) {
        const ended = endLeftBehind(site.cluster);
        if (ended > 0) log(`Ended ${ended} processes left behind by a killed database server`);
      }
    }
    await delay(POLL_MS);
  } while (Date.now() < deadline);
  throw new StartError(stopFirst(obstacle));
}

const stopFirst = (obstacle: string): string =>
  `${obstacle.charAt(0).toUpperCase()}${obstacle.slice(1)}: stop it first, then start again.`;

/**
 * Stops a server whose Belfry was killed: by a fast, then by an immediate shutdown, after which it recovers.
 */
async function endOrphan(site: Site, pid: number): Promise<void> {
  for (const signal of ['SIGINT', 'SIGQUIT'] as const) {
    try {
      process.kill(pid, signal);
    } catch {
      return; // it has ended; the caller looks again
    }
    const deadline = Date.now() + CONFLICT_MS;
    while (Date.now() < deadline) {
      const found = await findPostmaster(site.cluster, site.socketDir);
      if (found.kind !== 'orphan' || found.pid !== pid) return;
      await delay(POLL_MS);
    }
  }
  throw new StartError(stopFirst(`a database server without its Belfry (pid ${pid}) does not stop`));
}

function shared(site: Site, { pid, address, presence }: Extract<Held, { kind: 'shared' }>): EmbeddedPostgres {
  return { connection: connectionTo(site, address), adopted: true, pid, stop: () => presence.leave() };
}

/** A command's own server ends with the command, after all other commands that share it. */
function forCommand(site: Site, { log }: EmbeddedOptions, child: Child): EmbeddedPostgres {
  const connection = connectionTo(site, child.address);
  const onWait = (): void => log('Another belfry command is still using the database: waiting for it to end');
  const stop = (): Promise<void> => whenAlone(connection, { onWait, stop: () => child.stop() });
  return { connection, adopted: false, pid: child.pid, stop };
}

/** Restarts the server, which then recovers, whenever it dies (killed, out of memory). */
function supervise(site: Site, options: EmbeddedOptions, first: Child): EmbeddedPostgres {
  const { log, onLost } = options;
  const stopping = new AbortController();
  let child = first;
  const watch = async (): Promise<void> => {
    for (let end = await child.ended; !stopping.signal.aborted; end = await child.ended) {
      log(`PostgreSQL ended unexpectedly (${end}): restarting it`);
      const next = await restart(site, options, stopping.signal);
      if (next === undefined) return;
      child = next;
      if (stopping.signal.aborted) await child.stop();
      else log('PostgreSQL was restarted');
    }
  };
  const watching = watch().catch((error: unknown) => {
    if (!(error instanceof InUseError)) throw error;
    log(error.message);
    onLost?.(error);
  });
  return {
    connection: connectionTo(site, first.address),
    adopted: false,
    get pid() {
      return child.pid;
    },
    async stop() {
      stopping.abort();
      await child.stop();
      await watching;
    },
  };
}

/** Tries until it runs: the cause, as a full disk, may pass. Meanwhile the service responds with 503. */
async function restart(
  site: Site,
  options: EmbeddedOptions,
  stopping: AbortSignal,
): Promise<Child | undefined> {
  for (let waitMs = RESTART_MS.first; !stopping.aborted; waitMs = Math.min(waitMs * 2, RESTART_MS.most)) {
    try {
      const held = await acquire(site, options);
      if (held.kind === 'own') return held.child;
    } catch (error) {
      if (error instanceof InUseError) throw error;
      options.log(error instanceof Error ? error.message : String(error));
    }
    await delay(waitMs, undefined, { signal: stopping }).catch(() => undefined);
  }
  return undefined;
}

function connectionTo(site: Site, { host, port }: Address): EmbeddedConnection {
  const password = site.socketDir === undefined ? { password: passwordOf(site) } : {};
  return { host, port, user: DATABASE_USER, ...password, database: DATABASE_NAME };
}
