import cluster, { type Worker as Process } from 'node:cluster';
import { getCompileCacheDir } from 'node:module';
import type { Socket } from 'node:net';
import { dirname } from 'node:path';
import { checkRoles } from '../../app.ts';
import type { Config } from '../../config.ts';
import { type CredentialsFile, writeCredentials } from '../../credentials.ts';
import { StartError } from '../../db/embedded/start-error.ts';
import { awakeMs } from '../../lib/awake.ts';
import { freePort } from '../../lib/free-port.ts';
import type { Logger } from '../../lib/log.ts';
import { waitMs } from '../../lib/wait.ts';
import { type MetricsOfProcess, sumOfCounters } from '../../metrics.ts';
import { newNodeId, type Opened, open, openCell } from '../../open.ts';
import { OpenCells } from '../../open-cells.ts';
import { releaseNode, rescueAll } from '../../queue/lease.ts';
import type { FromProcess, ToProcess } from './messages.ts';
import { type ProcessPlan, partOf, planProcesses } from './plan.ts';

// A process that ends sooner is restarted after a pause, which doubles each time.
const STABLE_MS = 10_000;
const PAUSE_MS = { first: 100, most: 5_000 };
// When a process could not start so often, and none of its kind runs, the node ends.
const MOST_FAILURES = 5;
// A process that takes longer than its drain (app.ts) by this is killed.
const KILL_AFTER_MS = 8_000;
const METRICS_WITHIN_MS = 1_000;
// A process that has not reported for this long hangs: it was stopped, or its event loop is blocked. Others
// have its jobs after 8 s (lease.ts), its connections wait. A crowded machine delays a report by a second or
// two.
const HANGS_AFTER_MS = 10_000;
const LOOK_FOR_HANGING_EVERY_MS = 500;

const UNAVAILABLE =
  'HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nConnection: close\r\nContent-Length: 0\r\n\r\n';

/** A node of several processes. */
export interface Supervisor {
  readonly address: string;
  readonly credentials: CredentialsFile | undefined;
  readonly context: Opened;
  stop(): Promise<void>;
}

/**
 * Starts a node of several processes. This one opens the database, starts and replaces the others, and passes
 * realtime connections between them. Throws a `StartError` if one of them cannot start.
 */
export async function supervise(
  config: Config,
  { log, onLost }: { log: Logger; onLost: (error: StartError) => void },
): Promise<Supervisor> {
  checkRoles(config);
  const options = { role: 'server', log, onLost } as const;
  const context = await open(config, options);
  const cells = new OpenCells({ main: context, open: (cell) => openCell(context, cell, options) });
  const processes = new Processes(context, cells, onLost);
  const stop = async () => {
    await processes.stop();
    await cells.close();
    await context.close();
  };
  try {
    await cells.start();
    if (config.DATABASE_URL === undefined) for (const { db } of [context, ...cells.all]) await rescueAll(db);
    await context.bus.listening();
    const listening = await processes.start();
    const address = config.PUBLIC_URL ?? listening;
    const credentials = config.ROLE.includes('api') ? await writeCredentials(context, address) : undefined;
    return { address: listening, credentials, context, stop };
  } catch (error) {
    await stop();
    throw error;
  }
}

/** One of the processes, which may be replaced. */
interface Slot extends ProcessPlan {
  /** Its number in the log, from 1 on. */
  readonly number: number;
  process: Process | undefined;
  /** Resolves when the process has ended, or could not be started. */
  ended: Promise<void>;
  nodeId: string;
  isReady: boolean;
  /** Connections that are being passed to it. They are closed if it ends. */
  readonly passing: Set<Socket>;
  /** When it last reported, in milliseconds that the supervisor was awake. */
  reportedMs: number;
  isDebugged: boolean;
  /** As they were shown last. */
  metrics: MetricsOfProcess | undefined;
  /** Starts in succession that did not last. */
  failures: number;
}

class Processes {
  readonly #context: Opened;
  readonly #cells: OpenCells<Opened>;
  readonly #log: Logger;
  readonly #onLost: (error: StartError) => void;
  readonly #slots: readonly Slot[];
  readonly #stopping = new AbortController();
  readonly #snapshots = new Map<number, (metrics: MetricsOfProcess) => void>();
  /** The counters of all processes that have ended. */
  #ended: Promise<MetricsOfProcess> = Promise.resolve([]);
  // The program is compiled once for all processes.
  readonly #environment = compileCache();
  #port: number;
  #requests = 0;
  #passed = 0;
  #killedMs = Number.NEGATIVE_INFINITY;

  constructor(context: Opened, cells: OpenCells<Opened>, onLost: (error: StartError) => void) {
    const { config, log } = context;
    this.#context = context;
    this.#cells = cells;
    this.#log = log;
    this.#onLost = onLost;
    this.#port = config.PORT;
    this.#slots = planProcesses(config.ROLE, config.PROCESSES).map((plan, index) => {
      const none = { process: undefined, ended: Promise.resolve(), nodeId: '', isReady: false };
      const passing = new Set<Socket>();
      const unknown = { reportedMs: 0, isDebugged: false, metrics: undefined };
      return { ...plan, ...none, ...unknown, passing, number: index + 1, failures: 0 };
    });
    cluster.setupPrimary({ args: ['start'], serialization: 'advanced' });
  }

  /** Starts all processes. Resolves with the address at which they listen. */
  async start(): Promise<string> {
    // Processes share a listener only if they ask for the same port, and replaced ones have to get the same.
    if (this.#port === 0) this.#port = await freePort(this.#context.config.HOST);
    const [address = ''] = await Promise.all(this.#slots.map((slot) => this.#started(slot)));
    for (const slot of this.#slots) void this.#keep(slot);
    const timer = setInterval(() => this.#killHanging(), LOOK_FOR_HANGING_EVERY_MS);
    this.#stopping.signal.addEventListener('abort', () => clearInterval(timer));
    return address;
  }

  async stop(): Promise<void> {
    this.#stopping.abort();
    const { SHUTDOWN_DELAY_SECONDS, SHUTDOWN_GRACE_SECONDS } = this.#context.config;
    const withinMs = (SHUTDOWN_DELAY_SECONDS + SHUTDOWN_GRACE_SECONDS) * 1_000 + KILL_AFTER_MS;
    await Promise.all(
      this.#slots.map(async ({ process, ended }) => {
        if (process === undefined) return;
        const timer = setTimeout(() => process.process.kill('SIGKILL'), withinMs);
        send(process, { type: 'stop' });
        await ended;
        clearTimeout(timer);
      }),
    );
  }

  /** Starts the process of a slot. Resolves with its address when it is ready. */
  async #started(slot: Slot): Promise<string> {
    const process = cluster.fork(this.#environment);
    slot.process = process;
    slot.nodeId = newNodeId();
    const { promise, resolve, reject } = Promise.withResolvers<string>();
    const { promise: ended, resolve: onEnd } = Promise.withResolvers<void>();
    slot.ended = ended;
    process.on('error', ({ message }) => {
      if (process.process.pid !== undefined) return; // a message could not be sent: it is ending
      onEnd();
      reject(new StartError(`process ${slot.number} could not be started (${message})`));
    });
    process.on('exit', () => {
      slot.isReady = false;
      for (const socket of slot.passing) socket.destroy();
      this.#keepCounters(slot);
      onEnd();
      reject(new StartError(`process ${slot.number} ended while it started`));
    });
    process.on('message', (message: FromProcess, socket: Socket | undefined) => {
      if (message.type === 'failed') reject(new StartError(message.reason));
      else if (message.type === 'ready') {
        slot.isReady = true;
        this.#reported(slot);
        const { pid } = process.process;
        this.#log.info({ process: slot.number, pid, part: partOf(slot) }, 'process started');
        resolve(message.address);
      } else if (message.type === 'alive') this.#reported(slot, message);
      else this.#receive(slot, message, socket);
    });
    const { number, roles, work, listens, nodeId } = slot;
    const { connection } = this.#context.place;
    const part = { process: number, roles, work, listens, port: this.#port, connection, nodeId };
    send(process, { type: 'start', ...part });
    return promise;
  }

  /** Replaces the process of a slot whenever it ends. */
  async #keep(slot: Slot): Promise<void> {
    const { signal } = this.#stopping;
    for (let startedMs = performance.now(); ; startedMs = performance.now()) {
      await slot.ended;
      if (signal.aborted) return;
      const { exitCode, signalCode } = slot.process?.process ?? {};
      const end = signalCode ?? `code ${exitCode}`;
      this.#log.error({ process: slot.number, end }, 'a process ended unexpectedly: replacing it');
      await this.#release(slot);
      slot.failures = performance.now() - startedMs > STABLE_MS ? 0 : slot.failures + 1;
      if (slot.failures > 1) await waitMs(pauseAfter(slot.failures), signal).catch(() => {});
      if (signal.aborted) return;
      await this.#started(slot).catch((error: Error) => this.#failed(slot, error));
    }
  }

  #reported(slot: Slot, { isDebugged } = { isDebugged: false }): void {
    slot.reportedMs = awakeMs();
    slot.isDebugged = isDebugged;
  }

  /**
   * Kills a process that hangs, so that it is replaced. One at a time: if several are silent, the machine may
   * be the cause, and starting them all would make that worse. Only time for which this process runs counts,
   * because reports cannot be read in the rest of it.
   */
  #killHanging(): void {
    const latestMs = awakeMs() - HANGS_AFTER_MS;
    if (this.#killedMs > latestMs) return;
    const hanging = this.#slots.find(
      ({ isReady, isDebugged, reportedMs }) => isReady && !isDebugged && reportedMs < latestMs,
    );
    if (hanging === undefined) return;
    this.#killedMs = awakeMs();
    const silentMs = Math.round(awakeMs() - hanging.reportedMs);
    this.#log.error({ process: hanging.number, silentMs }, 'a process hangs: killing it');
    hanging.process?.process.kill('SIGKILL');
  }

  #failed(slot: Slot, { message }: Error): void {
    if (this.#stopping.signal.aborted) return;
    this.#log.error({ process: slot.number, reason: message }, 'a process could not be replaced');
    const part = partOf(slot);
    const others = this.#slots.filter((other) => other.isReady && partOf(other) === part);
    if (slot.failures >= MOST_FAILURES && others.length === 0)
      this.#onLost(new StartError(`no process for ${part} can be started: ${message}`));
  }

  /** Releases the jobs of a process that has ended, in all cells, and notifies the workers. */
  async #release({ nodeId }: Slot): Promise<void> {
    await Promise.all(
      [this.#context, ...this.#cells.all].map(async ({ db, bus, log }) => {
        try {
          for (const kind of await releaseNode(db, nodeId)) bus.publish({ type: 'jobs', kind, nodeId });
        } catch (error) {
          log.warn(
            { err: error },
            'jobs of the process could not be released: they are when its lease expires',
          );
        }
      }),
    );
  }

  #receive(from: Slot, message: FromProcess, socket: Socket | undefined): void {
    switch (message.type) {
      case 'connection':
        if (socket !== undefined) this.#pass(message, socket);
        return;
      case 'metrics':
        void this.#respond(from, message);
        return;
      case 'measured':
        if (from.process?.isDead()) return; // its counters are among those of ended processes
        from.metrics = message.metrics;
        this.#snapshots.get(message.id)?.(message.metrics);
        return;
      default:
    }
  }

  /** Passes a connection to the realtime processes in turn. */
  #pass(message: Extract<FromProcess, { type: 'connection' }>, socket: Socket): void {
    socket.on('error', () => {});
    const ready = this.#slots.filter(
      ({ isReady, roles, listens }) => isReady && !listens && roles.includes('realtime'),
    );
    const slot = ready[this.#passed++ % Math.max(ready.length, 1)];
    if (slot?.process === undefined) {
      socket.end(UNAVAILABLE, () => socket.destroy());
      return;
    }
    const { process, passing } = slot;
    passing.add(socket);
    socket.once('close', () => passing.delete(socket));
    // Left to Node, it would be closed here when the process has it, and never if the process ended before.
    process.send(message, socket, { keepOpen: true }, () => socket.destroy());
  }

  /**
   * Sends a process the metrics of the others. What is shown of a process is kept: its counters are shown
   * further when it has ended or is too busy, because the sums must not fall.
   */
  async #respond(to: Slot, { id, own }: Extract<FromProcess, { type: 'metrics' }>): Promise<void> {
    const { process } = to;
    if (process === undefined || process.isDead()) return;
    to.metrics = own;
    const ended = this.#ended;
    const others = await Promise.all(
      this.#slots.map(async (slot) => {
        if (slot === to) return [];
        const known = sumOfCounters(slot.metrics === undefined ? [] : [slot.metrics]);
        return (slot.isReady && slot.process && (await this.#measure(slot.process))) || known;
      }),
    );
    send(process, { type: 'metrics', id, metrics: [...others, await ended] });
  }

  #keepCounters(slot: Slot): void {
    const { metrics } = slot;
    slot.metrics = undefined;
    if (metrics !== undefined) this.#ended = this.#ended.then((ended) => sumOfCounters([ended, metrics]));
  }

  /** The metrics of a process; undefined if it is too busy. */
  async #measure(process: Process): Promise<MetricsOfProcess | undefined> {
    this.#requests += 1;
    const id = this.#requests;
    const { promise, resolve } = Promise.withResolvers<MetricsOfProcess | undefined>();
    this.#snapshots.set(id, resolve);
    const timer = setTimeout(() => resolve(undefined), METRICS_WITHIN_MS);
    send(process, { type: 'measure', id });
    try {
      return await promise;
    } finally {
      clearTimeout(timer);
      this.#snapshots.delete(id);
    }
  }
}

function compileCache(): Record<string, string> {
  const folder = getCompileCacheDir(); // that of this version of Node, below the one that is set
  return folder === undefined ? {} : { NODE_COMPILE_CACHE: dirname(folder) };
}

function pauseAfter(failures: number): number {
  return Math.min(PAUSE_MS.first * 2 ** (failures - 2), PAUSE_MS.most);
}

function send(process: Process, message: ToProcess): void {
  if (process.isConnected()) process.send(message);
}
