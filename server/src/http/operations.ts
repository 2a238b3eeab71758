import type { FastifyInstance } from 'fastify';
import { type Queryable, sql } from '../db/client.ts';
import { diskProblem, diskProblemOfStopped } from '../db/embedded/disk.ts';
import { newestSchema, SCHEMA_COLUMNS, type Schema, schemaObstacle } from '../db/schema.ts';
import { describeRefusal } from '../db/usability.ts';
import type { LinkState } from '../domain/ground/bus/link.ts';
import { IS_CURRENT } from '../domain/setup/integrations/pauses.ts';
import { waitAtMost } from '../lib/wait.ts';
import {
  busConnected,
  busSilence,
  cellsUnavailable,
  databaseConnections,
  integrationsPaused,
  type MetricsOfOthers,
  type MetricsOfProcess,
  metricsOfProcess,
  metricsText,
  nodeReady,
  queueAge,
  queueJobs,
  registry,
  shortestLease,
  workers,
} from '../metrics.ts';
import { JOB_KINDS } from '../queue/jobs.ts';
import { measureLeases, measureQueue, type QueueSize } from '../queue/measure.ts';
import type { HttpContext } from './context.ts';
import type { OtherCells } from './route.ts';

// A later response is of no use to load balancers.
const READY_TIMEOUT_MS = 2_000;
// For how long measurements of the database are repeated to others.
const REMEMBERED_FOR_MS = 1_000;

/** Returns a function that resolves to the reason why the server cannot serve; undefined if it can. */
export function readiness(context: Ready): () => Promise<string | undefined> {
  const newest = newestSchema();
  return shared(() => whyNotReady(context, newest));
}

/** `/healthz`: the process lives. `/readyz`: it can serve. `/metrics`: what it does, for Prometheus. */
export function operationsRoutes(
  fastify: FastifyInstance,
  context: HttpContext,
  ready: () => Promise<string | undefined>,
  { metricsOfOthers, cells }: { metricsOfOthers?: MetricsOfOthers; cells?: Cells },
): void {
  const hidden = { schema: { hide: true }, config: { role: 'any' as const } };
  const all = () => [context, ...(cells?.contexts ?? [])];
  const measured = remembered(() =>
    Promise.all([measureDatabases(all(), cells?.missing.length), measureReadiness(ready)]),
  );
  const details = remembered(() => detailsOf(context, cells));

  fastify.get('/healthz', hidden, (_request, reply) => {
    reply.header('cache-control', 'no-store').send({ status: 'ok' });
  });

  fastify.get<{ Querystring: { verbose?: string } }>('/readyz', hidden, async (request, reply) => {
    const problem = context.isStopping() ? 'the server is stopping' : await ready();
    reply.code(problem === undefined ? 200 : 503).header('cache-control', 'no-store');
    const status = problem === undefined ? { status: 'ok' } : { status: 'unavailable', reason: problem };
    return request.query.verbose === undefined ? status : { ...status, ...(await details()) };
  });

  fastify.get('/metrics', hidden, async (_request, reply) => {
    measureConnections(all());
    // The metrics of the process matter most when its database is unavailable.
    await measured();
    return reply.header('content-type', registry.contentType).send(await metricsText(metricsOfOthers));
  });
}

/** The other cells of the node. */
type Cells = Pick<OtherCells, 'contexts' | 'missing'>;
/** What decides whether a node can work. */
type Ready = Pick<HttpContext, 'db' | 'config'>;
/** What is measured of a cell. */
type Measured = Pick<HttpContext, 'db' | 'bus' | 'log'>;

/**
 * Measures what `/metrics` shows of all cells, besides `missing` ones that are not open. What cannot be
 * measured keeps its value. `ready` is that of the node.
 */
export async function measureAll(
  cells: readonly Measured[],
  missing: number,
  ready: () => Promise<string | undefined>,
): Promise<void> {
  measureConnections(cells);
  await Promise.all([measureDatabases(cells, missing), measureReadiness(ready)]);
}

/** Returns the metrics of this process, for another one of the same node. */
export async function measureProcess(
  cells: readonly Pick<Measured, 'db' | 'bus'>[],
): Promise<MetricsOfProcess> {
  measureConnections(cells);
  return metricsOfProcess();
}

function measureConnections(cells: readonly Pick<Measured, 'db' | 'bus'>[]): void {
  const pools = cells.map(({ db }) => db.stats());
  const sum = (count: (pool: (typeof pools)[number]) => number) =>
    pools.reduce((total, pool) => total + count(pool), 0);
  databaseConnections.set(
    { state: 'active' },
    sum(({ total, idle }) => total - idle),
  );
  databaseConnections.set(
    { state: 'idle' },
    sum(({ idle }) => idle),
  );
  databaseConnections.set(
    { state: 'waiting' },
    sum(({ waiting }) => waiting),
  );
  const links = Object.entries(
    Object.groupBy(
      cells.flatMap(({ bus }) => bus.state()),
      ({ name }) => name,
    ),
  );
  for (const [bus, ofCells = []] of links) {
    busConnected.set({ bus }, ofCells.every(({ connected }) => connected) ? 1 : 0);
    busSilence.set({ bus }, Math.max(...ofCells.map(({ silentMs = 0 }) => silentMs)) / 1_000);
  }
}

/**
 * The work, done once for all who ask for it meanwhile: anyone may ask, as often as they like, and
 * connections are few.
 */
function shared<Result>(work: () => Promise<Result>): () => Promise<Result> {
  let running: Promise<Result> | undefined;
  return () => {
    running ??= work().finally(() => {
      running = undefined;
    });
    return running;
  };
}

/** The same, whose result is also for those that ask a moment later. */
function remembered<Result>(work: () => Promise<Result>): () => Promise<Result> {
  let known: { result: Result; untilMs: number } | undefined;
  const once = shared(async () => {
    const result = await work();
    known = { result, untilMs: performance.now() + REMEMBERED_FOR_MS };
    return result;
  });
  return () =>
    known !== undefined && performance.now() < known.untilMs ? Promise.resolve(known.result) : once();
}

async function whyNotReady({ db, config }: Ready, newest: number): Promise<string | undefined> {
  const embedded = config.DATABASE_URL === undefined;
  try {
    const [row] = await inTime(db.query<Readiness>(selectReadiness));
    if (row === undefined || row.version < newest)
      return `the database has schema ${row?.version ?? 0}, this release needs ${newest}`;
    const obstacle = schemaObstacle(row, newest);
    if (obstacle !== undefined) return obstacle;
    if (row.read_only) return 'the database is read-only (a replica, or configured so)';
  } catch (error) {
    // The log of other requests has the words of PostgreSQL.
    const disk = embedded ? await diskProblemOfStopped(config.DATA_DIR) : undefined;
    return writeProblem(db) ?? disk ?? `the database ${describeRefusal(error)}`;
  }
  return writeProblem(db) ?? (embedded ? diskProblem(config.DATA_DIR) : undefined);
}

function writeProblem(db: Ready['db']): string | undefined {
  const failure = db.writeFailure();
  return failure === undefined ? undefined : `the database cannot write: ${failure}`;
}

function inTime<Result>(work: Promise<Result>): Promise<Result> {
  return waitAtMost(READY_TIMEOUT_MS, work, () => {
    throw new Error(`no response within ${READY_TIMEOUT_MS} ms`);
  });
}

/** What does not make the server unavailable: its bus, the workers and the queue of all nodes, and cells. */
async function detailsOf(context: HttpContext, cells?: Cells): Promise<object> {
  const own = await detailsOfCell(context);
  if (cells === undefined || cells.contexts.length + cells.missing.length === 0) return own;
  const newest = newestSchema();
  const open = await Promise.all(
    cells.contexts.map(async (cell) => {
      const reason = await whyNotReady(cell, newest);
      const status = reason === undefined ? { status: 'ok' } : { status: 'unavailable', reason };
      return [cell.cell, { ...status, ...(await detailsOfCell(cell)) }];
    }),
  );
  const missing = cells.missing.map((name) => [name, { status: 'unavailable', reason: NOT_OPEN }]);
  return { ...own, cells: Object.fromEntries([...open, ...missing]) };
}

const NOT_OPEN = 'the cell could not be opened: the log of the server says why';

async function detailsOfCell({ db, bus }: HttpContext): Promise<object> {
  const shown = { bus: Object.fromEntries(bus.state().map(({ name, ...link }) => [name, linkJson(link)])) };
  try {
    const [leases, queue] = await inTime(Promise.all([measureLeases(db), measureQueue(db)]));
    return {
      ...shown,
      workers: { live: leases.live, shortest_lease_seconds: leases.shortestSeconds },
      queue: { oldest_ready_seconds: Math.max(...queue.map(({ oldestSeconds }) => oldestSeconds)) },
    };
  } catch {
    return shown; // without the database
  }
}

function linkJson({ connected, silentMs }: Omit<LinkState, 'name'>): object {
  return { connected, silent_seconds: silentMs === undefined ? null : silentMs / 1_000 };
}

interface MeasuredDatabase {
  queue: QueueSize[];
  leases: Awaited<ReturnType<typeof measureLeases>>;
  pauses: { provider: string; paused: number }[];
}

/** Shows the sums of all cells that can be measured; if there is none, the last ones. */
async function measureDatabases(cells: readonly Measured[], missing = 0): Promise<void> {
  const measured = await Promise.all(
    cells.map(({ db, log }) =>
      inTime(measureDatabase(db)).catch((error: unknown) => {
        log.warn({ err: error }, 'the queue could not be measured');
        return [];
      }),
    ),
  );
  const known = measured.flat();
  cellsUnavailable.set(missing + cells.length - known.length);
  if (known.length > 0) show(known);
}

async function measureReadiness(ready: () => Promise<string | undefined>): Promise<void> {
  nodeReady.set((await ready()) === undefined ? 1 : 0);
}

async function measureDatabase(db: Queryable): Promise<MeasuredDatabase> {
  const queue = await measureQueue(db);
  const leases = await measureLeases(db);
  return { queue, leases, pauses: await db.query<MeasuredDatabase['pauses'][number]>(countPauses) };
}

function show(cells: readonly MeasuredDatabase[]): void {
  const sizes = cells.flatMap(({ queue }) => queue);
  queueJobs.reset();
  for (const { kind, ...jobs } of sizes)
    for (const state of ['ready', 'scheduled', 'leased'] as const)
      queueJobs.inc({ kind, state }, jobs[state]);
  for (const kind of JOB_KINDS) {
    const ages = sizes.filter((size) => size.kind === kind).map(({ oldestSeconds }) => oldestSeconds);
    queueAge.set({ kind }, Math.max(0, ...ages));
  }
  // A worker holds a lease in each cell.
  const live = cells.map(({ leases }) => leases).filter((leases) => leases.live > 0);
  workers.set(Math.max(0, ...live.map((leases) => leases.live)));
  shortestLease.set(live.length === 0 ? 0 : Math.min(...live.map(({ shortestSeconds }) => shortestSeconds)));
  integrationsPaused.reset();
  for (const { provider, paused } of cells.flatMap(({ pauses }) => pauses))
    integrationsPaused.inc({ provider }, paused);
}

interface Readiness extends Schema {
  read_only: boolean;
}

// migrations has few rows. This does not test writes, because it runs every second.
const selectReadiness = sql(
  'select_readiness',
  `select ${SCHEMA_COLUMNS},
    pg_is_in_recovery() or current_setting('transaction_read_only')::boolean as read_only
  from migrations m`,
);

// A row for each paused integration.
const countPauses = sql(
  'count_integration_pauses',
  `select i.provider, count(distinct (i.project_id, i.id))::int as paused
  from integration_pauses p
  join integrations i on i.id = p.integration_id and i.project_id = p.project_id
  where ${IS_CURRENT}
  group by 1`,
);
