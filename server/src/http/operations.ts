import type { FastifyInstance } from 'fastify';
import { type Queryable, sql } from '../db/client.ts';
import { diskProblem } from '../db/embedded/disk.ts';
import { migrations } from '../db/migrate.ts';
import { IS_CURRENT } from '../domain/setup/integrations/pauses.ts';
import { databaseConnections, integrationsPaused, queueAge, queueJobs, registry } from '../metrics.ts';
import type { HttpContext } from './context.ts';

// A later response is of no use to load balancers.
const READY_TIMEOUT_MS = 2_000;

/** Returns a function that resolves to the reason why the server cannot serve; undefined if it can. */
export function readiness(context: HttpContext): () => Promise<string | undefined> {
  const newest = migrations().at(-1)?.version ?? 0;
  return shared(() => whyNotReady(context, newest));
}

/** `/healthz`: the process lives. `/readyz`: it can serve. `/metrics`: what it does, for Prometheus. */
export function operationsRoutes(
  fastify: FastifyInstance,
  context: HttpContext,
  ready: () => Promise<string | undefined>,
): void {
  const hidden = { schema: { hide: true } };
  const measured = shared(async () => {
    await collectQueue(context.db);
    await collectPauses(context.db);
  });

  fastify.get('/healthz', hidden, (_request, reply) => {
    reply.header('cache-control', 'no-store').send({ status: 'ok' });
  });

  fastify.get('/readyz', hidden, async (_request, reply) => {
    const problem = await ready();
    reply.code(problem === undefined ? 200 : 503).header('cache-control', 'no-store');
    return problem === undefined ? { status: 'ok' } : { status: 'unavailable', reason: problem };
  });

  fastify.get('/metrics', hidden, async (_request, reply) => {
    const { total, idle, waiting } = context.db.stats();
    databaseConnections.set({ state: 'active' }, total - idle);
    databaseConnections.set({ state: 'idle' }, idle);
    databaseConnections.set({ state: 'waiting' }, waiting);
    await within(READY_TIMEOUT_MS, measured()).catch((error: unknown) => {
      // The metrics of the process matter most when its database is unavailable.
      context.log.warn({ err: error }, 'the queue could not be measured');
    });
    return reply.header('content-type', registry.contentType).send(await registry.metrics());
  });
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

async function whyNotReady({ db, config }: HttpContext, newest: number): Promise<string | undefined> {
  try {
    const [row] = await within(READY_TIMEOUT_MS, db.query<Readiness>(selectReadiness));
    if (row?.version !== newest)
      return `the database has schema ${row?.version ?? 0}, this release needs ${newest}`;
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

async function collectQueue(db: Queryable): Promise<void> {
  const rows = await db.query<{ kind: string; state: string; jobs: number; age: number }>(measureQueue);
  queueJobs.reset();
  queueAge.reset();
  for (const { kind, state, jobs, age } of rows) {
    queueJobs.set({ kind, state }, jobs);
    if (state === 'ready') queueAge.set({ kind }, age);
  }
}

async function collectPauses(db: Queryable): Promise<void> {
  const rows = await db.query<{ provider: string; paused: number }>(countPauses);
  integrationsPaused.reset();
  for (const { provider, paused } of rows) integrationsPaused.set({ provider }, paused);
}

interface Readiness {
  version: number;
  read_only: boolean;
}

// migrations has few rows. This does not test writes, because it runs every second.
const selectReadiness = sql(
  'select_readiness',
  `select
    coalesce(max(version), 0)::int as version,
    pg_is_in_recovery() or current_setting('transaction_read_only')::boolean as read_only
  from migrations`,
);

// The whole table, which contains only unfinished jobs.
const measureQueue = sql(
  'measure_queue',
  `select
    kind,
    case
      when lease_id is not null then 'leased' when due_at is not null then 'scheduled' else 'ready'
    end as state,
    count(*) as jobs,
    extract(epoch from clock_timestamp() - min(enqueued_at))::float8 as age
  from jobs
  group by 1, 2`,
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
