import pg from 'pg';
import { FirstOfTransaction } from './first-of-transaction.ts';
import { GuardedClient, isConnectionError } from './guarded-client.ts';
import { DatabaseSilent, Pulse, type Wait } from './pulse.ts';
import { parseTimestamp } from './timestamp.ts';
import { WriteFailures } from './write-failures.ts';

/** A named statement is prepared once on each connection, and only executed after that. */
export interface Statement {
  readonly name: string;
  readonly text: string;
}

const textOf = new Map<string, string>();

/** The texts of all named statements in the loaded modules, by name. */
export const namedStatements: ReadonlyMap<string, string> = textOf;

/** Defines a statement; one without a name is not prepared. Throws if another text has the same name. */
export function sql(name: string, text: string): Statement {
  if (name !== '') {
    if ((textOf.get(name) ?? text) !== text) throw new Error(`two statements are named ${name}`);
    textOf.set(name, text);
  }
  return { name, text };
}

/** Runs statements: the database, or one of its transactions. The caller chooses. */
export interface Queryable {
  /** Runs a statement and resolves to its rows. `Row` has the names of the selected columns. */
  query<Row = Record<string, never>>(statement: Statement, values?: readonly unknown[]): Promise<Row[]>;
}

export interface Database extends Queryable {
  /** Whether its tables are on a worker of Citus. */
  readonly isDistributed: boolean;
  /** Runs `work` in a transaction, which is committed when it resolves and rolled back when it rejects. */
  transaction<Result>(work: (tx: Queryable) => Promise<Result>): Promise<Result>;
  /** Opens a direct connection outside of the pool, for LISTEN and locks. The caller ends it. */
  connect(): Promise<pg.Client>;
  /** Why the database could not write a moment ago, to follow "the database: "; undefined if it could. */
  writeFailure(): string | undefined;
  /** Connections that are open, idle and waited for. */
  stats(): { total: number; idle: number; waiting: number };
  close(): Promise<void>;
}

export type ConnectionSettings = Pick<
  pg.PoolConfig,
  'connectionString' | 'host' | 'port' | 'user' | 'password' | 'database' | 'options'
>;

/** The same database, with another schema in which unqualified names are looked up. */
export function inSchema(settings: ConnectionSettings, schema: string): ConnectionSettings {
  return withStartupOptions(settings, `-c search_path=${schema}`);
}

// How long a caller waits for a connection: long enough to outlast a burst, short enough that a client with a
// timeout of 10 s still gets the 503.
const ACQUIRE_TIMEOUT_MS = 5_000;
// No statement takes seconds, unless it waits for something broken while it occupies a connection.
const STATEMENT_TIMEOUT_MS = 30_000;
// A node that is stopped in the middle of a transaction keeps its rows locked until it ends. Half the time of
// a statement, so that statements of other nodes that wait for these rows succeed.
const IDLE_IN_TRANSACTION_MS = 15_000;

// Every statement has an index. But a prepared statement keeps the plan that it got while its table was
// nearly empty until PostgreSQL analyzes the table, up to a minute later. Without this setting a look-up of
// 50 users took 50 ms instead of 0.9 ms after 200,000 users had arrived meanwhile.
//
// A plan for all values counts the cost of every partition, though it reads only one. Without the second
// setting PostgreSQL compiles such plans for a tenth of a second before it executes them.
const PLANS = '-c enable_seqscan=off -c jit=off';
// By default, PostgreSQL prefers a plan for the values of each execution wherever that may cost less. Making
// it takes longer than executing it: 1 ms for a search for users. Citus needs the default.
const planCacheMode = (once: boolean) => `-c plan_cache_mode=${once ? 'force_generic_plan' : 'auto'}`;

// Statements rely on these, whatever the user or the database sets. The first two are the texts of times and
// numbers that are parsed here. Statements expect to see what others have committed meanwhile. A connection
// that listens or holds a lock may be idle for long.
const SESSION = [
  '-c datestyle=ISO',
  '-c extra_float_digits=1',
  '-c default_transaction_isolation=read\\ committed',
  '-c idle_session_timeout=0',
].join(' ');

/**
 * Options of a connection. Firewalls forget idle connections; and without traffic a lost peer is never
 * noticed, for example by a client that only receives.
 */
export const KEEP_ALIVE = { keepAlive: true, keepAliveInitialDelayMillis: 30_000 };

export interface DatabaseOptions {
  /** The most connections. */
  size: number;
  /** The name of the connections in PostgreSQL's views. */
  name: string;
  /** After this time the server ends a statement. Default: 30 s. */
  statementTimeoutMs?: number;
  /** The `synchronous_commit` of every direct connection; by default that of the database. */
  synchronousCommit?: string;
  /**
   * The database itself, if the pool is connected to it by a connection pooler. Then the pool's connections
   * have no settings of their own: other clients would get them as well.
   */
  direct?: ConnectionSettings | undefined;
  /** Whether its tables are on a worker of Citus. Statements are planned once only where this is `false`. */
  isDistributed?: boolean;
  /** Shared by the pools of one database, so that each knows the failures of the others. */
  writeFailures?: WriteFailures;
}

/** Opens a pool of connections. Nothing is connected until the first statement. */
export function openDatabase(settings: ConnectionSettings, options: DatabaseOptions): Database {
  // As a startup option it costs no round trip, and overrides the settings of roles and databases.
  const commit =
    options.synchronousCommit === undefined ? '' : `-c synchronous_commit=${options.synchronousCommit}`;
  const { direct = settings, statementTimeoutMs = STATEMENT_TIMEOUT_MS, isDistributed } = options;
  const plans = `${PLANS} ${planCacheMode(isDistributed === false)}`;
  const own =
    direct === settings
      ? {
          ...withStartupOptions(settings, `${SESSION} ${plans} ${commit}`.trim()),
          statement_timeout: statementTimeoutMs,
          idle_in_transaction_session_timeout: IDLE_IN_TRANSACTION_MS,
        }
      : settings;
  const pool = new pg.Pool({
    ...own,
    ...KEEP_ALIVE,
    Client: GuardedClient,
    pipeline: true,
    max: options.size,
    application_name: options.name,
    connectionTimeoutMillis: ACQUIRE_TIMEOUT_MS,
    idleTimeoutMillis: 60_000,
    types: { getTypeParser: typeParser },
  });
  // An idle connection that the server closes is replaced at the next use, so its error can be ignored.
  pool.on('error', () => {});
  const name = { application_name: `${options.name} probe` };
  const pooler = direct === settings ? undefined : { ...settings, ...name };
  const pulse = new Pulse({ ...direct, ...name }, statementTimeoutMs, pooler);
  const failures = options.writeFailures ?? new WriteFailures();
  const connections = { pool, pulse, failures, isPooled: direct !== settings };
  return {
    isDistributed: isDistributed ?? false,
    query: (statement, values) =>
      afterDeadlocks(() => withConnection(connections, (run) => run(statement, values))),
    transaction: (work) => transaction(connections, work),
    async connect() {
      const client = new GuardedClient({
        ...withStartupOptions(direct, `${SESSION} ${commit}`.trim()),
        ...KEEP_ALIVE,
        application_name: options.name,
        connectionTimeoutMillis: ACQUIRE_TIMEOUT_MS,
      });
      // The next statement fails as well. Without a listener the error would end the process.
      client.on('error', () => {});
      await client.connect();
      return client;
    },
    writeFailure: () => failures.recent(),
    stats: () => ({ total: pool.totalCount, idle: pool.idleCount, waiting: pool.waitingCount }),
    async close() {
      await pool.end(); // waits for connections in use
      pulse.close();
    },
  };
}

const DEADLOCK = '40P01';
const MAX_DEADLOCKS = 3;

/**
 * Runs a statement that is its own transaction, and repeats it after a deadlock: it was rolled back, and the
 * other transaction continues.
 */
async function afterDeadlocks<Result>(work: () => Promise<Result>): Promise<Result> {
  for (let deadlocks = 1; ; deadlocks += 1)
    try {
      return await work();
    } catch (error) {
      if ((error as { code?: unknown }).code !== DEADLOCK || deadlocks === MAX_DEADLOCKS) throw error;
    }
}

/** Adds startup options to those of the settings and of the URL; the driver alone would ignore some. */
function withStartupOptions(settings: ConnectionSettings, ours: string): ConnectionSettings {
  const url = URL.parse(settings.connectionString ?? '');
  const options = [url?.searchParams.get('options'), settings.options, ours].filter(Boolean).join(' ');
  if (!url?.searchParams.has('options')) return { ...settings, options };
  url.searchParams.delete('options');
  return { ...settings, connectionString: url.href, options };
}

type Connections = {
  pool: pg.Pool;
  pulse: Pulse;
  failures: WriteFailures;
  /** The pool is connected to a connection pooler. */
  isPooled: boolean;
};
/** The use of a connection by one caller. */
interface Use {
  /** Statements that were sent and have no result yet, in their order. */
  readonly waits: Set<Wait>;
  /** Why the connection must not be used again. */
  broken?: Error;
}
type Run = <Row>(
  statement: Statement,
  values?: readonly unknown[],
  options?: { begins: boolean },
) => Promise<Row[]>;

/** Runs `work` with a connection of the pool. A broken or silent connection is not returned to the pool. */
async function withConnection<Result>(
  connections: Connections,
  work: (run: Run) => Promise<Result>,
): Promise<Result> {
  const use: Use = { waits: new Set() };
  // A connection that breaks while it is checked out also emits an event, and the pool does not listen then.
  const onError = (error: Error) => {
    use.broken = error;
  };
  const client = await acquire(connections, onError).catch((error: Error) => {
    unsent.add(error);
    connections.failures.noteLost(error);
    throw error;
  });
  try {
    return await work((statement, values, options) =>
      run(client, connections, use, { ...statement, values, begins: options?.begins ?? false }),
    );
  } catch (error) {
    if (error instanceof DatabaseSilent || error instanceof RollbackFailed) {
      use.broken ??= error;
      cutOff(client);
    }
    throw error instanceof RollbackFailed ? error.cause : error;
  } finally {
    client.off('error', onError);
    client.release(use.broken);
  }
}

/** Errors before the first statement was sent. */
const unsent = new WeakSet<Error>();

// Callbacks, because another promise adds a tenth to the cost of a short statement, and because the listener
// must be there at once: one packet may hold the last result of a connection and its end.
function acquire(
  { pool, pulse }: Pick<Connections, 'pool' | 'pulse'>,
  onError: (error: Error) => void,
): Promise<pg.PoolClient> {
  return new Promise((resolve, reject) => {
    let silent = false;
    const wait = pulse.begin((error) => {
      silent = true;
      reject(error);
    });
    pool.connect((error, client) => {
      pulse.end(wait, { response: false });
      if (client === undefined) reject(error);
      else if (silent) client.release();
      else resolve(client.on('error', onError));
    });
  });
}

function run<Row>(
  client: pg.PoolClient,
  { pulse, failures, isPooled }: Connections,
  use: Use,
  { name, text, values, begins }: Statement & { values: readonly unknown[] | undefined; begins: boolean },
): Promise<Row[]> {
  return new Promise((resolve, reject) => {
    const wait = pulse.begin(reject);
    use.waits.add(wait);
    const query = { name, text, values: values as unknown[] };
    void client.query(begins ? new FirstOfTransaction(query) : query, (error: Error | null, result) => {
      use.waits.delete(wait);
      pulse.end(wait, { error, response: true });
      for (const next of use.waits) pulse.restart(next);
      if (error) {
        restoreCode(error);
        if (isUnfit(error, isPooled)) use.broken = error;
        failures.note(error);
        reject(error);
      } else if (text === commit.text && result.command !== 'COMMIT')
        reject(new Error('the transaction was rolled back, because one of its statements had failed'));
      else resolve(result.rows as Row[]);
    });
  });
}

/** Whether the connection on which this error came must not be used again. */
function isUnfit({ code }: Error & { code?: unknown }, isPooled: boolean): boolean {
  // After a failover it may lead to the old server, and is used all the time, so that it would never be idle
  // for long enough to be closed.
  if (code === READ_ONLY) return true;
  // A statement behind a failed one was not prepared. The pooler believes that it was.
  return isPooled && code === ABORTED;
}

const READ_ONLY = '25006';
const ABORTED = '25P02';

// Citus reports an error of a worker to which it copies rows, and the loss of the connection, with the text
// of that error, but as XX000. The text of a lost connection depends on TLS between the servers.
const CODES_OF_WORKERS: readonly [text: string, code: string][] = [
  ['duplicate key value', '23505'],
  ['deadlock detected', '40P01'],
  ['canceling statement due to lock timeout', '55P03'],
  ['server closed the connection', '08006'],
  ['SSL SYSCALL error', '08006'],
  ['could not commit transaction for shard', '08006'],
  ['failure on connection marked as essential', '08006'],
];

function restoreCode(error: Error & { code?: unknown }): void {
  if (error.code !== 'XX000') return;
  const code = CODES_OF_WORKERS.find(([text]) => error.message.startsWith(text))?.[1];
  if (code !== undefined) error.code = code;
}

/** Destroys the connection: the driver's own `end` may wait for the silent server. */
function cutOff(client: pg.PoolClient): void {
  (client as unknown as { connection: { stream: { destroy(): void } } }).connection.stream.destroy();
}

function transaction<Result>(
  connections: Connections,
  work: (tx: Queryable) => Promise<Result>,
): Promise<Result> {
  return withConnection(connections, async (run) => {
    let first: Promise<unknown> | undefined;
    let [isOpen, hasEnded] = [false, false];
    const query = <Row>(statement: Statement, values?: readonly unknown[]): Promise<Row[]> => {
      if (hasEnded) return Promise.reject(new TransactionEnded());
      if (isOpen) return run<Row>(statement, values);
      // Nothing else is sent before `begin` has succeeded: it would be committed by itself.
      if (first !== undefined)
        return first.then(() => {
          if (hasEnded) throw new TransactionEnded();
          return run<Row>(statement, values);
        });
      const rows = run<Row>(statement, values, { begins: true });
      first = rows.then(() => {
        isOpen = true;
      });
      first.catch(() => {}); // the caller has it
      return rows;
    };
    try {
      const result = await work({ query });
      hasEnded = true;
      if (first !== undefined) await run(commit);
      return result;
    } catch (error) {
      hasEnded = true;
      if (first === undefined) throw error;
      // The connection will be destroyed. A rollback would wait behind the statement without a response.
      if (error instanceof DatabaseSilent) throw error;
      // A connection that cannot even roll back is unusable.
      await run(rollback).catch(() => {
        throw new RollbackFailed('', { cause: error });
      });
      throw error;
    }
  });
}

class RollbackFailed extends Error {}

class TransactionEnded extends Error {
  constructor() {
    super('a statement of a transaction that has ended');
  }
}

// Unnamed, because they need no preparation.
const commit = sql('', 'commit');
const rollback = sql('', 'rollback');

/** Whether a row was rejected because another one has the same key. */
export function isUniqueViolation(error: unknown): boolean {
  return (error as { code?: unknown } | undefined)?.code === '23505';
}

/** Whether a statement for many items may succeed for the others if it is executed for each of them alone. */
export function isOfOneItem(error: unknown): boolean {
  return !isDatabaseUnavailable(error) || hasProjectLeft(error);
}

/** What the error of a write names as its constraint if the project has moved to another cell. */
export const PROJECT_HAS_LEFT = 'project_has_left';

function hasProjectLeft(error: unknown): boolean {
  return (error as { constraint?: unknown } | undefined)?.constraint === PROJECT_HAS_LEFT;
}

/**
 * Whether the database was unreachable or overloaded, or the project has moved to another cell, so that the
 * same request may succeed later.
 */
export function isDatabaseUnavailable(error: unknown): boolean {
  if (!(error instanceof Error)) return false;
  const code = (error as { code?: unknown }).code;
  if (typeof code === 'string' && UNAVAILABLE.some((start) => code.startsWith(start))) return true;
  return isConnectionError(error) || UNAVAILABLE_MESSAGE.test(error.message);
}

/**
 * Whether the database may have done what failed with this error: the connection broke before the response.
 * Other errors are its response.
 */
export function isResponseLost(error: unknown): boolean {
  if (!isDatabaseUnavailable(error) || unsent.has(error as Error)) return false;
  return !(error instanceof pg.DatabaseError) || /^(08|57P)/.test(error.code ?? '');
}

/** Whether `close` was called before the statement, so that none will ever succeed. */
export function isClosed(error: unknown): boolean {
  return error instanceof Error && error.message.startsWith(CLOSED_MESSAGE);
}

// 08 connection, 28 login rejected, 3D database missing, 53 resources (disk full, too many connections), 57P
// shutdown, 58 the server's own files, 25006 read-only, 42501 a read-only disk or a missing right, 25P03 idle
// in a transaction, 40 serialization and deadlock, 55P03 lock, 55000 a database that accepts no connections
// or a project that has left, 57014 statement timeout; then errors of the socket. EAGAIN: the server of a
// unix socket does not accept. EMFILE, ENFILE: out of file handles.
const UNAVAILABLE = [
  '08',
  '28',
  '3D',
  '53',
  '57P',
  '58',
  '57014',
  '25006',
  '42501',
  '25P03',
  '40',
  '55P03',
  '55000',
  'ECONN',
  'ENOENT',
  'EPIPE',
  'ETIMEDOUT',
  'EAI_',
  'ENOTFOUND',
  'EHOSTUNREACH',
  'ENETUNREACH',
  'EAGAIN',
  'EMFILE',
  'ENFILE',
];
const CLOSED_MESSAGE = 'Cannot use a pool after calling end';
const UNAVAILABLE_MESSAGE = new RegExp(
  [
    '^Connection terminated',
    '^timeout expired',
    'timeout exceeded when trying to connect',
    'not queryable',
    'connection is closed',
    '^Received unexpected \\w+ message',
    CLOSED_MESSAGE,
  ].join('|'),
);

// int8 as number: counts and sizes stay far below 2^53. json stays text, because it is mostly passed on.
function typeParser(oid: number, format?: string): (text: string) => unknown {
  if (oid === pg.types.builtins.INT8) return Number;
  if (oid === pg.types.builtins.TIMESTAMPTZ) return parseTimestamp;
  if (oid === pg.types.builtins.JSON || oid === pg.types.builtins.JSONB) return (text) => text;
  return pg.types.getTypeParser(oid, format as 'text') as (text: string) => unknown;
}
