import type { FastifyInstance } from 'fastify';
import { type Queryable, sql } from '../db/client.ts';
import { diskProblem } from '../db/embedded/disk.ts';
import { newestSchema, SCHEMA_COLUMNS, type Schema, schemaObstacle } from '../db/schema.ts';
import type { LinkState } from '../domain/ground/bus/link.ts';
import { IS_CURRENT } from '../domain/setup/integrations/pauses.ts';
import {
  busConnected,
  busSilence,
  databaseConnections,
  integrationsPaused,
  type MetricsOfOthers,
  type MetricsOfProcess,
  metricsOfProcess,
  metricsText,
  queueAge,
  queueJobs,
  registry,
  shortestLease,
  workers,
} from '../metrics.ts';
import { measureLeases, measureQueue } from '../queue/measure.ts';
import type { HttpContext } from './context.ts';

// A later response is of no use to load balancers.
const READY_TIMEOUT_MS = 2_000;
// For how long measurements of the database are repeated to others.
const REMEMBERED_FOR_MS = 1_000;

/** Returns a function that resolves to the reason why the server cannot serve; undefined if it can. */
export function readiness(context: HttpContext): () => Promise<string | undefined> {
  const newest = newestSchema();
  return shared(() => whyNotReady(context, newest));
}

/** `/healthz`: the process lives. `/readyz`: it can serve. `/metrics`: what it does, for Prometheus. */
export function operationsRoutes(
  fastify: FastifyInstance,
  context: HttpContext,
  ready: () => Promise<string | undefined>,
  metricsOfOthers?: MetricsOfOthers,
): void {
  const hidden = { schema: { hide: true }, config: { role: 'any' as const } };
  const measured = remembered(() => measureDatabase(context.db));
  const details = remembered(() => detailsOf(context));

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
    measureConnections(context);
    await within(READY_TIMEOUT_MS, measured()).catch((error: unknown) => {
      // The metrics of the process matter most when its database is unavailable.
      context.log.warn({ err: error }, 'the queue could not be measured');
    });
    return reply.header('content-type', registry.contentType).send(await metricsText(metricsOfOthers));
  });
}

/** Measures what `/metrics` shows of the database. What cannot be measured keeps its value. */
export async function measureAll({ db, bus, log }: Pick<HttpContext, 'db' | 'bus' | 'log'>): Promise<void> {
  measureConnections({ db, bus });
  await within(READY_TIMEOUT_MS, measureDatabase(db)).catch((error: unknown) => {
    log.warn({ err: error }, 'the queue could not be measured');
  });
}

/** Returns the metrics of this process, for another one of the same node. */
export async function measureProcess(context: Pick<HttpContext, 'db' | 'bus'>): Promise<MetricsOfProcess> {
  measureConnections(context);
  return metricsOfProcess();
}

function measureConnections({ db, bus }: Pick<HttpContext, 'db' | 'bus'>): void {
  const { total, idle, waiting } = db.stats();
  databaseConnections.set({ state: 'active' }, total - idle);
  databaseConnections.set({ state: 'idle' }, idle);
  databaseConnections.set({ state: 'waiting' }, waiting);
  for (const { name, connected, silentMs = 0 } of bus.state()) {
    busConnected.set({ bus: name }, connected ? 1 : 0);
    busSilence.set({ bus: name }, silentMs / 1_000);
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

async function whyNotReady({ db, config }: HttpContext, newest: number): Promise<string | undefined> {
  try {
    const [row] = await within(READY_TIMEOUT_MS, db.query<Readiness>(selectReadiness));
    if (row === undefined || row.version < newest)
      return `the database has schema ${row?.version ?? 0}, this release needs ${newest}`;
    const obstacle = schemaObstacle(row, newest);
    if (obstacle !== undefined) return obstacle;
    if (row.read_only) return 'the database is read-only (a replica, or configured so)';
  } catch {
    return 'the database cannot be reached'; // the reason is in the log of other requests
  }
  const failure = db.writeFailure();
  if (failure !== undefined) return `the database cannot write: ${failure}`;
  return config.DATABASE_URL === undefined ? diskProblem(config.DATA_DIR) : undefined;
}

async function within<Result>(timeoutMs: number, work: Promise<Result>): Promise<Result> {
  const { promise, reject } = Promise.withResolvers<never>();
  const timer = setTimeout(() => reject(new Error(`no response within ${timeoutMs} ms`)), timeoutMs);
  try {
    return await Promise.race([work, promise]);
  } finally {
    clearTimeout(timer);
  }
}

/** What does not make the server unavailable: its bus, and the workers and the queue of all nodes. */
async function detailsOf({ db, bus }: HttpContext): Promise<object> {
  const shown = { bus: Object.fromEntries(bus.state().map(({ name, ...link }) => [name, linkJson(link)])) };
  try {
    const [leases, queue] = await within(
      READY_TIMEOUT_MS,
      Promise.all([measureLeases(db), measureQueue(db)]),
    );
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

async function measureDatabase(db: Queryable): Promise<void> {
  await collectQueue(db);
  await collectPauses(db);
}

async function collectQueue(db: Queryable): Promise<void> {
  for (const { kind, oldestSeconds, ...jobs } of await measureQueue(db)) {
    for (const state of ['ready', 'scheduled', 'leased'] as const)
      queueJobs.set({ kind, state }, jobs[state]);
    queueAge.set({ kind }, oldestSeconds);
  }
  const leases = await measureLeases(db);
  workers.set(leases.live);
  shortestLease.set(leases.shortestSeconds);
}

async function collectPauses(db: Queryable): Promise<void> {
  const rows = await db.query<{ provider: string; paused: number }>(countPauses);
  integrationsPaused.reset();
  for (const { provider, paused } of rows) integrationsPaused.set({ provider }, paused);
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
