import type { Socket } from 'node:net';
import { type Config, telemetryOf } from './config.ts';
import { type CredentialsFile, writeCredentials } from './credentials.ts';
import { StartError } from './db/embedded/start-error.ts';
import { purgeExpired } from './domain/after/erasure/retention.ts';
import { Hub } from './domain/after/realtime/hub.ts';
import { pollHandler } from './domain/after/receipts/poll.ts';
import { replayHandler } from './domain/after/replay/replay-failed.ts';
import { HitRecorder } from './domain/after/tracking/record.ts';
import { webhookHandler } from './domain/after/webhooks/deliver.ts';
import { MessageRecorder } from './domain/after/webhooks/record.ts';
import { WebhookRelay } from './domain/after/webhooks/relay.ts';
import type { Context } from './domain/context.ts';
import { ReadyJobs } from './domain/ground/bus/ready-jobs.ts';
import { FeedFollower } from './domain/ground/events/follow.ts';
import { purgeIdempotencyKeys } from './domain/ground/requests/idempotency.ts';
import {
  OwnWindows,
  purgeRateWindows,
  type RateWindows,
  SharedWindows,
} from './domain/ground/requests/rate-windows.ts';
import { Acceptor } from './domain/line/accept/send-broadcast.ts';
import { cancelHandler } from './domain/line/broadcasts/cancel.ts';
import { deliverHandler } from './domain/line/deliver/deliver.ts';
import { createOutcomeRecorder } from './domain/line/deliver/record.ts';
import { wakeHandler } from './domain/line/deliver/wake-waiting.ts';
import { fanOutHandler } from './domain/line/fan-out/fan-out.ts';
import { unsnoozeHandler } from './domain/line/notifications/unsnooze.ts';
import { Dispatcher } from './domain/line/sending/dispatcher.ts';
import { PauseFollower } from './domain/line/sending/pause-follower.ts';
import { purgeRateSchedules, SharedRateLimiter } from './domain/line/sending/shared-rate-limiter.ts';
import { TextMarker } from './domain/line/sending/text-marks.ts';
import { importHandler } from './domain/people/imports/run.ts';
import { TokenDiscarder } from './domain/people/tokens/discard-gone.ts';
import { LastSeen } from './domain/people/users/last-seen.ts';
import type { Cell } from './domain/setup/cells/cells.ts';
import { CellDirectory } from './domain/setup/cells/directory.ts';
import { PauseRecorder } from './domain/setup/integrations/pause-recorder.ts';
import { KeyUses } from './domain/setup/projects/key-uses.ts';
import { callHandler, runHandler } from './domain/workflows/engine/handlers.ts';
import { RunStarter } from './domain/workflows/engine/starter.ts';
import { correctStarts } from './domain/workflows/schedules/correct-starts.ts';
import { scheduleHandler } from './domain/workflows/schedules/start-due.ts';
import { continueHandler } from './domain/workflows/triggers/continue-later.ts';
import { EventReader } from './domain/workflows/triggers/event-reader.ts';
import { CellRouter } from './http/cells.ts';
import type { HttpContext } from './http/context.ts';
import { measureAll, readiness } from './http/operations.ts';
import { createRateLimits } from './http/rate-limit.ts';
import { createSocketAuthenticator } from './http/realtime/authenticate-socket.ts';
import { EventStreams } from './http/realtime/event-streams.ts';
import { serveSockets } from './http/realtime/socket.ts';
import { Streams } from './http/realtime/stream.ts';
import type { PassOn } from './http/roles.ts';
import { createServer, type ServerOptions, serveConnections } from './http/server.ts';
import type { Clock } from './lib/clock.ts';
import type { Logger } from './lib/log.ts';
import { waitAtMost, waitMs } from './lib/wait.ts';
import type { MetricsOfOthers } from './metrics.ts';
import { type Opened, open, openCell, type SupervisedDatabase } from './open.ts';
import { OpenCells } from './open-cells.ts';
import type { Timeouts } from './providers/shared/transport.ts';
import { DueTimes } from './queue/correct-due-times.ts';
import type { JobKind, Work } from './queue/jobs.ts';
import { rescueAll } from './queue/lease.ts';
import { Worker } from './queue/worker.ts';

/** A running Belfry. */
export interface Service {
  /** The address at which it listens: `http://127.0.0.1:3000`. */
  readonly address: string;
  readonly credentials: CredentialsFile | undefined;
  readonly context: Opened;
  /** The contexts of all cells that are open, the default one first. */
  contexts(): CellContext[];
  /** Serves a connection that another process has accepted. `head` is what was read from it. */
  takeOver(socket: Socket, head: Buffer): void;
  /** Rejects new requests, drains running work, and stops everything, including the embedded database. */
  stop(): Promise<void>;
}

/** The context of a cell. */
export type CellContext = Context & Pick<HttpContext, 'cell' | 'bus'>;

export interface ServiceOptions {
  log: Logger;
  clock?: Clock;
  /** Timeouts of providers; tests shorten them. */
  timeouts?: Partial<Timeouts>;
  /** How often the worker polls for jobs that it was not notified of; tests shorten it. */
  pollMs?: number;
  /** Validates every response against its schema; for tests. */
  checkReplies?: boolean;
  /** More routes and other timeouts of the HTTP server; for tests. */
  http?: Pick<ServerOptions, 'docsCache' | 'routes' | 'timeouts'>;
  /** In a process of a node with several: what it has from its supervisor. */
  supervised?: Supervised;
  /** Called when the database is lost permanently, so the process has to end. */
  onLost?: (error: StartError) => void;
}

/** The part of a process in a node with several. */
export interface Supervised extends SupervisedDatabase {
  /** Whether it accepts connections. If not, it gets those of clients from processes that do. */
  listens: boolean;
  /** The part of the jobs that it runs, if it is a worker. */
  work: Work;
  passOn: PassOn;
  metricsOfOthers: MetricsOfOthers;
}

type Telemetry = ReturnType<typeof import('./telemetry/start-telemetry.ts').startTelemetry>;
type HttpServer = Awaited<ReturnType<typeof createServer>>;

// Connections that wait for the event loop; the system may allow fewer (net.core.somaxconn, usually 4,096).
// With Node's 511, browsers that connect at the same moment wait for seconds or are reset.
const BACKLOG = 65_535;
// Each fan-out holds a connection for its transaction; outcomes, claims and leases need one sometimes.
const WORKER_POOL_SIZE = 10;
// After the grace period of a stop, messages in flight get another second. Jobs that have not begun wait for
// the next start.
const LAST_SENDS_MS = 1_000;
const BUS_OF_CELL_WITHIN_MS = 10_000;
const MAINTENANCE_EVERY_MS = 10 * 60_000;

/**
 * Starts the parts of the service that the node has a role for. If one fails, stops the others and throws a
 * `StartError`.
 */
export async function startService(config: Config, options: ServiceOptions): Promise<Service> {
  const { supervised } = options;
  if (supervised === undefined) checkRoles(config);
  const context = await open(config, { role: 'server', ...options });
  let telemetry: Telemetry | undefined;
  // The last spans and numbers are sent while the database stops. Neither waits for the other.
  const undo: Undo = [() => Promise.all([context.close(), telemetry?.stop()])];
  let isStopping = false;
  const stop = async () => {
    isStopping = true;
    await waitMs(config.SHUTDOWN_DELAY_SECONDS * 1_000);
    await stopAll(undo);
  };
  try {
    const directory = new CellDirectory(context);
    const stopFollowing = directory.follow(context.bus);
    undo.push(async () => stopFollowing());
    const router = new CellRouter({ directory, brand: config.BRAND });
    const node = { options, isStopping: () => isStopping };
    const others = new OpenCells({
      main: context,
      open: (cell) => startOtherCell(context, cell, { ...node, main, router }),
      onChanged(names) {
        router.setKnown(names);
        if (names.length > 0) router.route(main.server.server);
      },
    });
    undo.push(() => others.close());
    const contexts = () => [context, ...router.contexts];
    const ready = readiness(context);
    const measure = () => measureAll(contexts(), router.missing.length, ready);
    telemetry = await exportTelemetry(context, measure, supervised !== undefined);
    const endStreams = async () => void (await Promise.all(others.all.map((cell) => cell.endStreams())));
    const main: RunningCell = await startCell(context, { ...node, cells: router, endStreams }, undo);
    await others.start();
    // Starts before the requests are drained, so that all drain at the same time.
    undo.push(async () => {
      for (const cell of [main, ...others.all]) cell.stopWork();
    });
    const server = main.server;
    if (supervised?.listens !== false) await listen(server, config);
    await main.startWork();
    const address = server.server.listening ? localAddress(server) : '';
    const credentials =
      config.ROLE.includes('api') && supervised === undefined
        ? await writeCredentials(context, config.PUBLIC_URL ?? address)
        : undefined;
    const takeOver = serveConnections(server.server, config.MAX_CONNECTIONS);
    return { address, credentials, context, contexts, takeOver, stop };
  } catch (error) {
    await stopAll(undo);
    throw error;
  }
}

/** What stops the parts that were started, in their order. */
type Undo = (() => Promise<unknown>)[];

/** Stops all parts, the last one first. */
async function stopAll(undo: Undo): Promise<void> {
  // The failure of one part must not keep the others running, least of all the database.
  const failures: unknown[] = [];
  for (const step of undo.splice(0).reverse()) await step().catch((error: unknown) => failures.push(error));
  if (failures.length > 0) throw new AggregateError(failures, 'some parts failed to stop');
}

/** What the cells of a node have in common. */
interface Node {
  options: ServiceOptions;
  isStopping(): boolean;
}

/** A cell whose parts run on this node. */
interface RunningCell {
  context: HttpContext;
  server: HttpServer;
  /** The limits of addresses, which all cells share. */
  windows: RateWindows;
  startWork(): Promise<void>;
  /** Claims no more jobs, and lets the running ones end. */
  stopWork(): void;
  /** Closes the connections that stay open. */
  endStreams(): Promise<void>;
}

/** Starts what serves a cell, without its worker. The server does not listen yet. */
async function startCell(
  context: Opened,
  { options, ...node }: Node & ServerParts,
  undo: Undo,
): Promise<RunningCell> {
  if (context.alone) await rescueAll(context.db);
  await context.bus.listening();
  const { ROLE } = context.config;
  const discarder = new TokenDiscarder(context);
  undo.push(() => discarder.close());
  const readyJobs = new ReadyJobs(context);
  const {
    start: startWork,
    stop: stopWork,
    ...ofWorker
  } = ROLE.includes('worker')
    ? startWorker({ ...context, discarder, readyJobs }, options, undo)
    : withoutWorker(context, readyJobs);
  const parts = { ...context, ...ofWorker, discarder, isStopping: node.isStopping };
  const served = await startServer(parts, options, node, undo);
  if (ROLE.includes('worker')) startMaintenance(context, undo);
  return { ...served, startWork, stopWork: () => void stopWork() };
}

/** Opens another cell and starts everything that serves it. */
async function startOtherCell(
  context: Opened,
  cell: Cell,
  { main, router, options, isStopping }: Node & { main: RunningCell; router: CellRouter },
): Promise<RunningCell & { close(): Promise<void> }> {
  const opened = await openCell(context, cell, { role: 'server', ...options });
  const undo: Undo = [() => opened.close()];
  const close = async () => {
    router.drop(cell.name);
    await stopAll(undo);
  };
  try {
    await connected(opened);
    const { routes: _, ...http } = options.http ?? {};
    const node = { options: { ...options, http }, isStopping, front: main };
    const running = await startCell(opened, node, undo);
    undo.push(async () => running.stopWork());
    await running.startWork();
    router.serve(cell.name, { fastify: running.server, context: running.context });
    return { ...running, close };
  } catch (error) {
    await stopAll(undo);
    throw error;
  }
}

/** Throws a `StartError` if the bus of a cell does not connect: it must not keep the node from starting. */
async function connected({ bus }: Opened): Promise<void> {
  await waitAtMost(BUS_OF_CELL_WITHIN_MS, bus.listening(), () => {
    throw new StartError('the connection for messages of other nodes could not be opened');
  });
}

/** Exports traces and metrics if a setting asks for them. Otherwise nothing of it is loaded. */
async function exportTelemetry(
  { config, log, nodeId }: Opened,
  measure: () => Promise<void>,
  isOneOfSeveral: boolean,
): Promise<Telemetry | undefined> {
  const { traces, metrics } = telemetryOf(config);
  if (traces === undefined && metrics === undefined) return undefined;
  const { startTelemetry } = await import('./telemetry/start-telemetry.ts');
  return startTelemetry({ config, log, nodeId, isOneOfSeveral, measure });
}

/** Throws a `StartError` if roles are left to other nodes, although the database has only this one. */
export function checkRoles({ DATABASE_URL, ROLE }: Config): void {
  if (DATABASE_URL === undefined && ROLE.length < 3)
    throw new StartError(
      `ROLE ${ROLE.join(',')} needs DATABASE_URL: the embedded database has one node, with all roles`,
    );
}

/** The worker's start and stop, and the parts that pass jobs on to it. */
interface RunningWorker extends Pick<HttpContext, 'acceptor' | 'runStarter' | 'wake'> {
  start(): Promise<void>;
  stop(): Promise<void>;
}

/** The context with the discarder of tokens, for the worker and for reports of vendors. */
type Discarding = Opened & { discarder: TokenDiscarder };

/** For a node that accepts requests and leaves their jobs to the workers of other nodes. */
function withoutWorker(context: Opened, readyJobs: ReadyJobs): RunningWorker {
  const wake = (kind: JobKind) => readyJobs.announce(kind);
  const fanOut = {
    isIdle: false,
    reserve: () => undefined,
    runs: () => false,
    wake: () => wake('fan_out'),
  };
  const acceptor = new Acceptor(context, fanOut);
  return {
    acceptor,
    runStarter: new RunStarter({ ...context, acceptor }, wake),
    wake,
    start: async () => {},
    stop: async () => {},
  };
}

function startWorker(
  context: Discarding & { readyJobs: ReadyJobs },
  { timeouts, pollMs, supervised }: ServiceOptions,
  undo: Undo,
): RunningWorker {
  // A separate pool, so that a flood of requests cannot take the connections of the worker.
  const db = context.pool('worker', WORKER_POOL_SIZE);
  const workerContext = { ...context, db };
  const contact = contactOf(context.config);
  const recorder = createOutcomeRecorder({
    db,
    addressKeys: context.addressKeys,
    log: context.log,
    onUnblocked: () => worker.producer('deliver').wake(),
  });
  const pauses = new PauseRecorder(workerContext);
  const dispatcher = new Dispatcher({
    ...context,
    recorder,
    pauses,
    ...(context.alone ? {} : { rateLimiter: new SharedRateLimiter(workerContext) }),
    ...(contact === undefined ? {} : { contact }),
    ...(timeouts ? { timeouts } : {}),
  });
  const messages = new MessageRecorder({
    ...workerContext,
    onRecorded: () => relay.wake(),
    onUnblocked: () => worker.producer('send_webhook').wake(),
  });
  const announce = (kind: JobKind) => {
    if (!context.alone) context.readyJobs.announce(kind);
  };
  const wake = (kind: JobKind) => {
    worker.producer(kind).wake();
    announce(kind);
  };
  const workflowDeps = { ...workerContext, acceptor: () => acceptor };
  const worker: Worker = new Worker({
    db,
    clock: context.clock,
    log: context.log,
    node: context.nodeId,
    keyIds: context.sealer.keyIds,
    work: supervised?.work ?? 'both',
    pollMs,
    announce,
    handlers: {
      fan_out: fanOutHandler(workerContext),
      deliver: deliverHandler(workerContext, {
        dispatcher,
        marker: new TextMarker({ db }),
        discarder: context.discarder,
        recorder,
      }),
      replay: replayHandler(workerContext),
      cancel: cancelHandler(workerContext),
      wake_waiting: wakeHandler(workerContext),
      poll_receipts: pollHandler(workerContext),
      send_webhook: webhookHandler(workerContext, messages),
      import_users: importHandler(workerContext),
      run_workflow: runHandler(workflowDeps),
      call_workflow: callHandler(workflowDeps),
      continue_workflows: continueHandler(workerContext),
      start_workflow: scheduleHandler(workerContext),
      unsnooze: unsnoozeHandler(workerContext),
    },
  });
  const stopFollowing = context.readyJobs.follow((kind) => worker.producer(kind).wake());
  undo.push(async () => stopFollowing());
  const acceptor = new Acceptor(context, {
    get isIdle() {
      return worker.producer('fan_out').active === 0;
    },
    reserve: (jobs) => worker.producer('fan_out').reserve(jobs),
    runs: (job) => worker.producer('fan_out').runs(job),
    wake(jobs) {
      worker.producer('fan_out').wake(jobs);
      announce('fan_out');
    },
  });
  const runStarter = new RunStarter({ ...context, acceptor }, wake);
  const relay: WebhookRelay = new WebhookRelay({
    ...workerContext,
    onQueued: () => wake('send_webhook'),
  });
  relay.start();
  undo.push(() => relay.stop());
  const reader = new EventReader(workerContext, () => {
    wake('run_workflow');
    wake('continue_workflows');
  });
  reader.start();
  undo.push(() => reader.stop());
  const abort = async () => {
    await dispatcher.close({ graceMs: LAST_SENDS_MS });
    await context.transport.close(); // ends the sends of webhooks, which are retried
  };
  const stop = async () => {
    await worker.stop(graceMsOf(context.config), abort);
    recorder.close();
    messages.close();
  };
  const follower = new PauseFollower({ ...workerContext, dispatcher, recorder: pauses });
  undo.push(
    async () => {
      await follower.close();
      await pauses.close();
    },
    () => dispatcher.close({ graceMs: LAST_SENDS_MS }),
    stop,
  );
  const start = async () => {
    await follower.start();
    await worker.start();
  };
  return { acceptor, runStarter, wake, start, stop };
}

/** The contact for vendors: the operator's, else the server's own address. */
function contactOf({ OPERATOR_CONTACT, PUBLIC_URL }: Config): string | undefined {
  return OPERATOR_CONTACT ?? (PUBLIC_URL?.startsWith('https:') ? PUBLIC_URL : undefined);
}

/** For how long requests and jobs may run after a stop was requested. */
function graceMsOf({ SHUTDOWN_GRACE_SECONDS }: Config): number {
  return SHUTDOWN_GRACE_SECONDS * 1_000;
}

/** How the HTTP servers of a node's cells are connected. */
interface ServerParts {
  /** For the default cell: the others. */
  cells?: CellRouter;
  /** For the default cell: closes the connections of the others that stay open. */
  endStreams?: () => Promise<void>;
  /** For another cell: the default one, which accepts its connections. */
  front?: RunningCell;
}

async function startServer(
  context: Discarding & Pick<HttpContext, 'acceptor' | 'runStarter' | 'wake' | 'isStopping'>,
  options: ServiceOptions,
  { cells, front, endStreams: endOthers = async () => {} }: ServerParts,
  undo: Undo,
): Promise<Pick<RunningCell, 'context' | 'server' | 'windows' | 'endStreams'>> {
  const lastSeen = new LastSeen(context);
  const keyUses = new KeyUses(context);
  const hub = new Hub(context);
  const streams = new Streams({ ...context, hub });
  const follower = new FeedFollower(context);
  const eventStreams = new EventStreams({ ...context, follower });
  const hits = new HitRecorder(context);
  const httpContext = { ...context, lastSeen, keyUses, hub, streams, eventStreams, hits };
  const windows = context.alone ? new OwnWindows(context) : new SharedWindows(context);
  undo.push(() => windows.close());
  const limits = createRateLimits({
    config: context.config,
    windows,
    ...(front ? { ofAddresses: front.windows } : {}),
  });
  const { checkReplies = false, http, supervised } = options;
  const server = await createServer(httpContext, {
    ...http,
    ...supervised,
    limits,
    checkReplies,
    ...(cells ? { cells } : {}),
    ...(front ? { front: front.server } : {}),
  });
  const webSockets = context.config.ROLE.includes('realtime')
    ? serveSockets({
        server: server.server,
        hub,
        authenticate: createSocketAuthenticator(httpContext),
        limits,
        log: context.log,
        onRefused: (request) => limits.refusedSocket(request),
      })
    : undefined;
  undo.push(
    () => lastSeen.close(),
    () => keyUses.close(),
    () => hits.close(),
  );
  const endStreams = async () => {
    await Promise.all([webSockets?.close(), streams.close(), eventStreams.close(), endOthers()]);
    // It closes the other WebSockets. It has no connections of its own, and still serves those of the front.
    if (front !== undefined) await server.close();
  };
  undo.push(async () => {
    // Streams first, because the server's close waits for every connection.
    await endStreams();
    // Cuts off clients that are still sending a request or reading a response.
    const cutOff = setTimeout(() => server.server.closeAllConnections(), graceMsOf(context.config));
    await server.close();
    clearTimeout(cutOff);
    hub.close();
    follower.close();
  });
  return { context: httpContext, server, windows, endStreams };
}

async function listen(server: HttpServer, config: Config): Promise<void> {
  try {
    await server.listen({ host: config.HOST, port: config.PORT, backlog: BACKLOG });
  } catch (error) {
    throw new StartError(whyNotListening(config, error), { cause: error });
  }
}

/** Purges expired rows and corrects what was planned by a wrong clock, in the background. */
function startMaintenance(context: Opened, undo: Undo): void {
  let running = Promise.resolve();
  const dueTimes = new DueTimes(context);
  const closing = new AbortController();
  const timer = setInterval(() => {
    running = running.then(() => maintain(context, dueTimes, closing.signal));
  }, MAINTENANCE_EVERY_MS);
  undo.push(async () => {
    clearInterval(timer);
    closing.abort();
    await running;
  });
}

async function maintain(context: Opened, dueTimes: DueTimes, signal: AbortSignal): Promise<void> {
  const batch = 1_000;
  const purges = [
    async () => {
      while (!signal.aborted && (await purgeIdempotencyKeys(context, batch)) === batch);
    },
    () => purgeRateWindows(context),
    () => purgeRateSchedules(context),
    () => purgeExpired(context, signal),
  ];
  for (const one of purges) {
    await one().catch((error: unknown) => {
      context.log.warn({ err: error }, 'expired rows could not be purged; retried later');
    });
  }
  for (const correct of [() => correctStarts(context, signal), () => dueTimes.correct(signal)]) {
    await correct().catch((error: unknown) => {
      context.log.warn({ err: error }, 'times of schedules and jobs could not be checked; retried later');
    });
  }
}

function localAddress(server: HttpServer): string {
  const address = server.server.address();
  if (address === null || typeof address === 'string')
    throw new Error('the server does not listen on a port');
  const host = address.family === 'IPv6' ? `[${address.address}]` : address.address;
  return `http://${host === '0.0.0.0' || host === '[::]' ? '127.0.0.1' : host}:${address.port}`;
}

function whyNotListening({ HOST, PORT }: Config, error: unknown): string {
  const code = error instanceof Error ? (error as NodeJS.ErrnoException).code : undefined;
  if (code === 'EADDRINUSE')
    return `port ${PORT} of ${HOST} is in use: stop what listens there, or choose another with PORT=…`;
  if (code === 'EACCES')
    return `port ${PORT} may not be opened by this user: choose one above 1023 with PORT=…`;
  if (code === 'EADDRNOTAVAIL' || code === 'ENOTFOUND')
    return `HOST ${HOST} is not an address of this machine`;
  return `cannot listen on ${HOST}:${PORT} (${code ?? String(error)})`;
}
