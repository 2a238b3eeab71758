import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { sql } from '../../server/src/db/client.ts';
import { describedBy } from '../../server/test/support/operations.ts';
import { type Belfry, startBelfry, until } from '../support/belfry.ts';
import { Connection, requestBytes } from '../support/connection.ts';
import { type FullTables, fillTables } from '../support/full-tables.ts';
import {
  EXPLAIN_SETTINGS,
  type LoggedPlan,
  loggedPlans,
  planText,
  rowsRead,
  tablesScanned,
} from '../support/logged-plans.ts';
import { cpuOf, used } from '../support/processes.ts';
import { type Known, type ReadRequest, readRequests } from '../support/read-requests.ts';
import type { Bench, Scenario } from '../support/scenario.ts';
import { percentile } from '../support/statistics.ts';
import { writeRequests } from '../support/write-requests.ts';

const AIM_MS = 2;
// The most that a statement reads by design: an inbox of ten thousand, searched for rare notifications.
const MOST_ROWS = 10_000;

const STATEMENT_SETTINGS = {
  shared_preload_libraries: 'pg_stat_statements',
  'pg_stat_statements.track_planning': 'on',
};

/**
 * (reads) The time of every operation that reads, in the server by its log and in the database, with a
 * million rows in every table that can have as many; then the plans of its statements.
 */
export const measureReads: Scenario = async (bench) => {
  const dataDir = join(bench.dataDir, 'reads');
  await setUp(dataDir, STATEMENT_SETTINGS);
  await withTables(bench, dataDir, measure);
  await setUp(dataDir, EXPLAIN_SETTINGS);
  try {
    await withTables(bench, dataDir, explain);
  } finally {
    await setUp(dataDir, {}, Object.keys({ ...EXPLAIN_SETTINGS, ...STATEMENT_SETTINGS }));
  }
};

/** A server whose tables are full, the requests, and its log. */
interface Full {
  belfry: Belfry;
  requests: ReadRequest[];
  /** Sends the next lines of its log to this function. */
  listen(onLine: (line: LogLine) => void): void;
}

interface LogLine {
  msg?: string;
  ms?: number;
  status?: number;
}

async function withTables(
  bench: Bench,
  dataDir: string,
  work: (bench: Bench, full: Full) => Promise<void>,
): Promise<void> {
  let listener: (line: LogLine) => void = () => {};
  const belfry = await startBelfry({
    dataDir,
    nodeArguments: bench.nodeArguments,
    settings: { LOG_LEVEL: 'debug' },
    onLine: (line) => {
      if (line.startsWith('{')) listener(JSON.parse(line) as LogLine);
    },
  });
  try {
    await belfry.db.query(sql('bench_statements', 'create extension if not exists pg_stat_statements'));
    const tables = await fillTables(belfry);
    const { body } = await belfry.call('GET', '/openapi.json');
    const { operations } = describedBy(body as Record<string, unknown>);
    const requests = await readRequests(operations, await knownOf(belfry, tables), (path, jwt) =>
      belfry.call('GET', path, undefined, jwt),
    );
    await work(bench, {
      belfry,
      requests,
      listen: (onLine) => {
        listener = onLine;
      },
    });
  } finally {
    await belfry.stop();
  }
}

/** Changes the settings of PostgreSQL for its next start. */
async function setUp(
  dataDir: string,
  settings: Readonly<Record<string, string>>,
  reset: readonly string[] = [],
): Promise<void> {
  const belfry = await startBelfry({ dataDir });
  const client = await belfry.db.connect();
  await client.query("load 'auto_explain'"); // makes its settings known
  for (const [name, value] of Object.entries(settings))
    await client.query(`alter system set ${name} = '${value}'`);
  for (const name of reset) await client.query(`alter system reset ${name}`);
  await client.end();
  await belfry.stop();
}

async function knownOf(belfry: Belfry, { heavyUser, webhook, deliveries }: FullTables): Promise<Known> {
  const events = await belfry.call('GET', '/events?limit=1');
  const users = [{ external_id: 'imported' }];
  const { body: imported } = await belfry.call('POST', '/users/import', { users });
  const [workflow, template] = ['reads', 'reads'];
  await belfry.call('PUT', '/workflows', { key: workflow, steps: [{ command: 'set', input: { a: 1 } }] });
  const { body: run } = await belfry.call('POST', '/workflows/runs', { key: workflow });
  await belfry.call('PUT', `/templates/${template}`, {
    default_locale: 'en',
    locales: { en: { title: 'Hello' } },
  });
  const [{ timestamp } = { timestamp: '' }] = (events.body as { data: { timestamp: string }[] }).data;
  const daysBefore = (days: number) => new Date(Date.parse(timestamp) - days * 86_400_000).toISOString();
  const values = (name: string, ...of: string[]) =>
    of.map((value) => ({ name: `${name}=${value}`, query: `${name}=${value}` }));
  const range = `since=${daysBefore(8)}&until=${daysBefore(4)}`;
  return {
    ids: {
      ...{ user_id: heavyUser, webhook_id: webhook, workflow_key: workflow, template_key: template },
      import_id: (imported as { id: string }).id,
      run_id: (run as { id: string }).id,
    },
    own: {
      listBroadcastDeliveries: [{ name: '', ids: { broadcast_id: deliveries.broadcast } }],
      listNotificationDeliveries: [
        { name: 'of a few', ids: { notification_id: deliveries.smallNotification } },
        { name: OF_A_MILLION, ids: { notification_id: deliveries.notification } },
      ],
    },
    middles: { listBroadcastDeliveries: deliveries.middle },
    filters: {
      'listEvents type': [
        ...values(
          'type',
          'notification.created',
          'delivery.*',
          'delivery.failed',
          'integration.deleted',
          'broadcast.created',
        ),
        { name: 'type=delivery.* since until', query: `type=delivery.*&${range}` },
      ],
      since: [{ name: 'since', query: `since=${daysBefore(8)}` }],
      until: [
        { name: 'until', query: `until=${daysBefore(8)}` },
        { name: 'since and until', query: range },
      ],
      'listWorkflowRuns state': values('state', '3', '5'),
      category: values('category', 'orders', 'uncategorized', 'unknown', 'news', 'chat'),
      topic: values('topic', 'unknown'),
      'listSuppressions query': values('query', 'person7@example.com', 'missing@example.com'),
      query: values(
        'query',
        'missing',
        'user-123456',
        'user-1234',
        'user-12',
        'user-',
        'person1',
        'imported-',
      ),
    },
    projectJwt: belfry.projectJwt,
    userJwts: { 'user with 100,000': belfry.userJwt('heavy'), 'user with 100': belfry.userJwt('light') },
    inboxJwts: { 'user with 10,000': belfry.userJwt('busy') },
  };
}

async function measure(bench: Bench, full: Full): Promise<void> {
  const { belfry, requests } = full;
  const times = bench.quick ? 20 : 200;
  const ofAll: number[] = [];
  for (const request of requests) {
    const bytes = bytesOf(request);
    const { p50, note } = await timed(full, { times, bytes: () => bytes });
    ofAll.push(p50);
    const aim = isBeyond(request) ? {} : { aim: { value: AIM_MS, better: 'less' as const } };
    bench.figure({ name: nameOf(request), value: p50, unit: 'ms in server, p50', note, ...aim });
  }
  bench.figure({ name: `p50 of all ${requests.length}`, value: percentile(ofAll, 50), unit: 'ms in server' });
  const { projectJwt } = belfry;
  const writes = writeRequests({ projectJwt, userJwt: belfry.userJwt('heavy'), unique: `w${Date.now()}-` });
  for (const request of writes) {
    const { p50, note } = await timed(full, { times, bytes: request.bytes });
    bench.figure({ name: nameOf(request), value: p50, unit: 'ms in server, p50', note });
  }
}

/**
 * Whether it reads a hundred thousand notifications or a million users. The aim is for a busy inbox with ten
 * thousand.
 */
function isBeyond({ variant }: ReadRequest): boolean {
  if (variant === OF_A_MILLION) return true;
  return variant.startsWith('user with 100,000') && variant.includes('category=chat');
}

const OF_A_MILLION = 'of a million';

/** The time of requests in the server and in the database (planning and execution), and their CPU time. */
async function timed(
  { belfry, listen }: Full,
  { times, bytes }: { times: number; bytes: (number: number) => Buffer },
): Promise<{ p50: number; note: string }> {
  const connection = new Connection(belfry.address);
  await send(connection, Math.ceil(times / 10), bytes);
  await belfry.db.query(resetStatements);
  const before = cpuOf(belfry.pid);
  const served: number[] = [];
  listen(({ msg, ms }) => {
    if (msg === 'request' && ms !== undefined) served.push(ms);
  });
  await send(connection, times, bytes);
  await until('every request is in the log', async () => served.length >= times, { everyMs: 1 });
  listen(() => {});
  connection.close();
  const cpu = used(before, cpuOf(belfry.pid));
  const [database] = await belfry.db.query<{ ms: number; statements: number }>(sumStatements, [times]);
  const each = (value = 0, digits = 2) => (value / times).toFixed(digits);
  const p99 = percentile(served, 99).toFixed(1);
  const inDatabase = `${each(database?.ms, 3)} in ${each(database?.statements, 1)} statements`;
  return {
    p50: percentile(served, 50),
    note:
      `p99 ${p99}; database ${inDatabase}; ` +
      `CPU of Node ${each(cpu.nodeCpuMs)}, of PostgreSQL ${each(cpu.postgresCpuMs)}`,
  };
}

// Often enough that PostgreSQL has settled on a plan.
const TIMES_EXPLAINED = 7;

async function explain(bench: Bench, { belfry, requests }: Full): Promise<void> {
  const connection = new Connection(belfry.address);
  const endOf = (number: number) => `select ${number} as bench_end`;
  await belfry.db.query(sql('', endOf(-1)));
  for (const [number, request] of requests.entries()) {
    const bytes = bytesOf(request);
    await send(connection, TIMES_EXPLAINED, () => bytes);
    await belfry.db.query(sql('', endOf(number)));
  }
  connection.close();
  const file = await logFile(belfry);
  let log = '';
  await until('all plans are in the log', async () => {
    log = readFileSync(file, 'utf8');
    return log.includes(endOf(requests.length - 1));
  });
  const plans = loggedPlans(log);
  const worst = new Map<string, Explained>();
  for (const [number, request] of requests.entries()) {
    const [from, to] = [number - 1, number].map((at) => plans.findIndex((plan) => plan.text === endOf(at)));
    // Requests over a hundred thousand rows are only timed.
    for (const plan of isBeyond(request) ? [] : plans.slice(from, to).filter(isRead)) {
      const rows = rowsRead(plan.plan);
      const before = worst.get(plan.text);
      // The last run of a request has the plan that PostgreSQL settles on.
      if (before === undefined || before.rows <= rows)
        worst.set(plan.text, { plan, rows, request: nameOf(request) });
    }
  }
  report(bench, [...worst.values()]);
}

/** The run of a statement that read most. */
interface Explained {
  plan: LoggedPlan;
  rows: number;
  request: string;
}

function report(bench: Bench, statements: readonly Explained[]): void {
  for (const { plan, rows, request } of statements) {
    const scanned = tablesScanned(plan.plan);
    if (scanned.length === 0 && rows <= MOST_ROWS) continue;
    bench.figure({
      name: `rows read by a statement of ${request}`,
      value: rows,
      unit: 'rows',
      aim: { value: MOST_ROWS, better: 'less' },
      note: scanned.map((table) => `all of ${table}`).join(', '),
    });
  }
  bench.figure({ name: 'statements explained', value: statements.length, unit: 'statements' });
  bench.figure({
    name: 'rows that a statement read at most',
    value: Math.max(...statements.map((one) => one.rows)),
    unit: 'rows',
    aim: { value: MOST_ROWS, better: 'less' },
  });
  const folder = join(import.meta.dirname, '..', 'results');
  mkdirSync(folder, { recursive: true });
  const file = join(folder, 'reads-plans.txt');
  const texts = statements.map(
    ({ plan, rows, request }) => `${request}: ${rows} rows read\n${plan.text}\n${planText(plan)}\n`,
  );
  writeFileSync(file, texts.join('\n'));
  console.log(file);
}

async function logFile({ db }: Belfry): Promise<string> {
  const [row] = await db.query<{ folder: string; file: string }>(
    sql(
      'bench_log_file',
      "select current_setting('data_directory') as folder, pg_current_logfile('jsonlog') as file",
    ),
  );
  return join(row?.folder ?? '', row?.file ?? '');
}

function isRead({ application, text }: LoggedPlan): boolean {
  return (
    application.startsWith('belfry api (') &&
    !/\b(insert into|update \w+|delete from|for update)\b/.test(text)
  );
}

function nameOf({ operation, variant }: { operation: string; variant: string }): string {
  return `${operation}${variant === '' ? '' : ` (${variant})`}`;
}

function bytesOf({ path, jwt }: ReadRequest): Buffer {
  return requestBytes({ method: 'GET', path: `/v2${path}`, jwt });
}

async function send(connection: Connection, times: number, bytes: (number: number) => Buffer): Promise<void> {
  for (let number = 0; number < times; number += 1) {
    const request = bytes(number);
    const status = await connection.send(request);
    if (status >= 300) throw new Error(`${request.toString().split('\r', 1)[0]} returned ${status}`);
  }
}

const resetStatements = sql('bench_reset_statements', 'select pg_stat_statements_reset() as bench');
const sumStatements = sql(
  'bench_sum_statements',
  `select sum(total_exec_time + total_plan_time) as ms, sum(calls)::int as statements
  from pg_stat_statements
  where calls >= $1 and query not like '%bench%'`,
);
