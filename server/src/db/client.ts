import pg from 'pg';

/** A statement with a name is prepared once on each connection and afterwards only executed. */
export interface Statement {
  readonly name: string;
  readonly text: string;
}

/** A statement of ours. Give each a name of its own: two texts under one name are an error of the driver. */
export function sql(name: string, text: string): Statement {
  return { name, text };
}

/** What runs statements: the database, or a transaction of it. The caller decides which. */
export interface Queryable {
  /** The rows of a statement. `Row` is what the statement selects, in the database's names. */
  query<Row = Record<string, never>>(statement: Statement, values?: readonly unknown[]): Promise<Row[]>;
}

export interface Database extends Queryable {
  /** Runs `work` in a transaction: committed when it resolves, rolled back when it throws. */
  transaction<Result>(work: (tx: Queryable) => Promise<Result>): Promise<Result>;
  /** A connection of its own outside the pool, for LISTEN and locks. The caller ends it. */
  connect(): Promise<pg.Client>;
  /** Connections now open, idle and awaited. */
  stats(): { total: number; idle: number; waiting: number };
  close(): Promise<void>;
}

export type ConnectionSettings = Pick<
  pg.PoolConfig,
  'connectionString' | 'host' | 'port' | 'user' | 'password' | 'database'
>;

// How long a caller waits for a connection before it is told to come again: long enough to outlast a burst, short enough
// that a client whose own limit is 10 s still gets the answer.
const ACQUIRE_TIMEOUT_MS = 5_000;
// No statement of ours takes seconds. One that does waits for something that is broken, and holds a connection.
const STATEMENT_TIMEOUT_MS = 30_000;

/** Opens a pool of at most `size` connections. Nothing is connected until the first statement. */
export function openDatabase(settings: ConnectionSettings, options: { size: number; name: string }): Database {
  const pool = new pg.Pool({
    ...settings,
    max: options.size,
    application_name: options.name,
    connectionTimeoutMillis: ACQUIRE_TIMEOUT_MS,
    statement_timeout: STATEMENT_TIMEOUT_MS,
    idleTimeoutMillis: 60_000,
    types: { getTypeParser: typeParser },
  });
  // An idle connection that the server closes is replaced at the next use: there is nobody to tell.
  pool.on('error', () => {});
  return {
    query: (statement, values) => run(pool, statement, values),
    transaction: (work) => transaction(pool, work),
    async connect() {
      const client = new pg.Client({ ...settings, application_name: options.name, keepAlive: true });
      await client.connect();
      return client;
    },
    stats: () => ({ total: pool.totalCount, idle: pool.idleCount, waiting: pool.waitingCount }),
    close: () => pool.end(),
  };
}

async function run<Row>(on: pg.Pool | pg.PoolClient, statement: Statement, values?: readonly unknown[]): Promise<Row[]> {
  const result = await on.query({ name: statement.name, text: statement.text, values: values as unknown[] });
  return result.rows as Row[];
}

async function transaction<Result>(pool: pg.Pool, work: (tx: Queryable) => Promise<Result>): Promise<Result> {
  const client = await pool.connect();
  let failure: Error | undefined;
  // A connection that breaks while it is checked out also raises an event, which nobody else listens to.
  const onError = (error: Error) => {
    failure = error;
  };
  client.on('error', onError);
  try {
    await client.query('begin');
    const result = await work({ query: (statement, values) => run(client, statement, values) });
    await client.query('commit');
    return result;
  } catch (error) {
    failure ??= await rollback(client);
    throw error;
  } finally {
    client.off('error', onError);
    client.release(failure);
  }
}

/** Rolls back; answers the error if the connection is no longer fit for use. */
async function rollback(client: pg.PoolClient): Promise<Error | undefined> {
  try {
    await client.query('rollback');
    return undefined;
  } catch (error) {
    return error instanceof Error ? error : new Error(String(error));
  }
}

/** Whether an error says that the database is out of reach or overloaded, so that the same request may succeed later. */
export function isDatabaseUnavailable(error: unknown): boolean {
  if (!(error instanceof Error)) return false;
  const code = (error as { code?: unknown }).code;
  if (typeof code === 'string' && UNAVAILABLE.some((start) => code.startsWith(start))) return true;
  return UNAVAILABLE_MESSAGE.test(error.message);
}

// 08 connection, 53 resources (disk full, too many connections), 57P shutdown, 25006 read-only, 40 serialization and deadlock,
// 55P03 lock, 57014 statement timeout; then what the socket itself says.
const UNAVAILABLE = ['08', '53', '57P', '57014', '25006', '40', '55P03', 'ECONN', 'ENOENT', 'EPIPE', 'ETIMEDOUT', 'EAI_', 'ENOTFOUND', 'EHOSTUNREACH'];
const UNAVAILABLE_MESSAGE =
  /^Connection terminated|timeout exceeded when trying to connect|not queryable|connection is closed|Cannot use a pool after calling end/;

// int8 as number: counts and sizes stay far below 2^53. json stays text: it is mostly passed on, not looked into.
function typeParser(oid: number, format?: string): (text: string) => unknown {
  if (oid === pg.types.builtins.INT8) return Number;
  if (oid === pg.types.builtins.JSON || oid === pg.types.builtins.JSONB) return (text) => text;
  return pg.types.getTypeParser(oid, format as 'text') as (text: string) => unknown;
}
