import pg from 'pg';
import { GuardedClient } from './guarded-client.ts';
import { DatabaseSilent, Pulse } from './pulse.ts';
import { WriteFailures } from './write-failures.ts';

/** A statement with a name is prepared once on each connection and afterwards only executed. */
export interface Statement {
  readonly name: string;
  readonly text: string;
}

const textOf = new Map<string, string>();

/** The text of every named statement in the modules that are loaded, by name. */
export const namedStatements: ReadonlyMap<string, string> = textOf;

/** A statement. An empty name means that it is not prepared. Throws when another text has the same name. */
export function sql(name: string, text: string): Statement {
  if (name !== '') {
    if ((textOf.get(name) ?? text) !== text) throw new Error(`two statements are named ${name}`);
    textOf.set(name, text);
  }
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
  /**
   * Why the database could not write a moment ago, in words that follow "the database: "; undefined when
   * nothing failed.
   */
  writeFailure(): string | undefined;
  /** Connections now open, idle and awaited. */
  stats(): { total: number; idle: number; waiting: number };
  close(): Promise<void>;
}

export type ConnectionSettings = Pick<
  pg.PoolConfig,
  'connectionString' | 'host' | 'port' | 'user' | 'password' | 'database'
>;

// How long a caller waits for a connection before it is told to come again: long enough to outlast a burst,
// short enough that a client whose own limit is 10 s still gets the answer.
const ACQUIRE_TIMEOUT_MS = 5_000;
// No statement of ours takes seconds. One that does waits for something that is broken, and holds a
// connection.
const STATEMENT_TIMEOUT_MS = 30_000;

// A plan is kept as long as its table is not analyzed anew. One that was made while the table was empty would
// read all of it, for the seconds or minutes in which a million rows come in: every statement of ours has its
// index, so it is told to take it.
const PLANS = '-c enable_seqscan=off';

// A connection that nothing goes over is forgotten by firewalls; so it is used, and one whose other end is
// gone is noticed.
const KEEP_ALIVE = { keepAlive: true, keepAliveInitialDelayMillis: 30_000 };

export interface DatabaseOptions {
  /** How many connections at most. */
  size: number;
  /** Shown by the database for its connections. */
  name: string;
  /**
   * The `synchronous_commit` of every connection, whatever is set for the database; without it, what is set
   * there.
   */
  synchronousCommit?: string;
  /** Shared by the pools of one database, so that each knows what another met. */
  writeFailures?: WriteFailures;
}

/** Opens a pool of connections. Nothing is connected until the first statement. */
export function openDatabase(settings: ConnectionSettings, options: DatabaseOptions): Database {
  // As a part of the connection's start it costs no round trip, and nothing that is set for a role or
  // database overrides it.
  const commit =
    options.synchronousCommit === undefined ? '' : `-c synchronous_commit=${options.synchronousCommit}`;
  const pool = new pg.Pool({
    ...withStartupOptions(settings, `${PLANS} ${commit}`),
    ...KEEP_ALIVE,
    Client: GuardedClient,
    max: options.size,
    application_name: options.name,
    connectionTimeoutMillis: ACQUIRE_TIMEOUT_MS,
    statement_timeout: STATEMENT_TIMEOUT_MS,
    idleTimeoutMillis: 60_000,
    types: { getTypeParser: typeParser },
  });
  // An idle connection that the server closes is replaced at the next use: there is nobody to tell.
  pool.on('error', () => {});
  const pulse = new Pulse({ ...settings, application_name: `${options.name} probe` }, STATEMENT_TIMEOUT_MS);
  const failures = options.writeFailures ?? new WriteFailures();
  const connections = { pool, pulse, failures };
  return {
    query: (statement, values) => withConnection(connections, (run) => run(statement, values)),
    transaction: (work) => transaction(connections, work),
    async connect() {
      const client = new GuardedClient({
        ...withStartupOptions(settings, commit),
        ...KEEP_ALIVE,
        application_name: options.name,
        connectionTimeoutMillis: ACQUIRE_TIMEOUT_MS,
      });
      // Its end is told by `end`, and by the next statement; without this it would be told by ending the
      // process.
      client.on('error', () => {});
      await client.connect();
      return client;
    },
    writeFailure: () => failures.recent(),
    stats: () => ({ total: pool.totalCount, idle: pool.idleCount, waiting: pool.waitingCount }),
    async close() {
      pulse.close();
      await pool.end();
    },
  };
}

/**
 * The settings with these startup options, behind those of the address: the driver would take the address's
 * alone.
 */
function withStartupOptions(settings: ConnectionSettings, ours: string): pg.ClientConfig {
  const url = URL.parse(settings.connectionString ?? '');
  const given = url?.searchParams.get('options');
  if (!url || !given) return { ...settings, options: ours };
  url.searchParams.delete('options');
  return { ...settings, connectionString: url.href, options: `${given} ${ours}` };
}

type Connections = { pool: pg.Pool; pulse: Pulse; failures: WriteFailures };
type Run = <Row>(statement: Statement, values?: readonly unknown[]) => Promise<Row[]>;

/**
 * Lends a connection of the pool. One that broke, or on which the database fell silent, does not go back into
 * it.
 */
async function withConnection<Result>(
  { pool, pulse, failures }: Connections,
  work: (run: Run) => Promise<Result>,
): Promise<Result> {
  let failure: Error | undefined;
  // A connection that breaks while it is checked out also raises an event, which nobody else listens to.
  const onError = (error: Error) => {
    failure = error;
  };
  const client = await acquire(pool, pulse, onError);
  try {
    return await work((statement, values) => run(client, { pulse, failures }, statement, values));
  } catch (error) {
    if (error instanceof DatabaseSilent || error instanceof RollbackFailed) failure ??= error;
    if (error instanceof DatabaseSilent) cutOff(client);
    throw error instanceof RollbackFailed ? error.cause : error;
  } finally {
    client.off('error', onError);
    client.release(failure);
  }
}

// Both by callbacks: a promise more for each statement is a tenth of what a short one costs. And a connection
// is listened to at once: the end of one that was just given back, and taken again, may stand in the same
// packet as its last answer.
function acquire(pool: pg.Pool, pulse: Pulse, onError: (error: Error) => void): Promise<pg.PoolClient> {
  return new Promise((resolve, reject) => {
    let givenUp = false;
    const wait = pulse.begin((error) => {
      givenUp = true;
      reject(error);
    });
    pool.connect((error, client) => {
      pulse.end(wait, { said: false });
      if (client === undefined) reject(error);
      else if (givenUp) client.release();
      else resolve(client.on('error', onError));
    });
  });
}

function run<Row>(
  client: pg.PoolClient,
  { pulse, failures }: Pick<Connections, 'pulse' | 'failures'>,
  { name, text }: Statement,
  values?: readonly unknown[],
): Promise<Row[]> {
  return new Promise((resolve, reject) => {
    const wait = pulse.begin(reject);
    void client.query({ name, text, values: values as unknown[] }, (error: Error | null, result) => {
      pulse.end(wait, { error, said: true });
      if (error) {
        failures.note(error);
        reject(error);
      } else resolve(result.rows as Row[]);
    });
  });
}

/** Breaks the connection: the driver's own end may wait for answers that do not come. */
function cutOff(client: pg.PoolClient): void {
  (client as unknown as { connection: { stream: { destroy(): void } } }).connection.stream.destroy();
}

function transaction<Result>(
  connections: Connections,
  work: (tx: Queryable) => Promise<Result>,
): Promise<Result> {
  return withConnection(connections, async (run) => {
    try {
      await run(begin);
      const result = await work({ query: run });
      await run(commit);
      return result;
    } catch (error) {
      // A connection that cannot even roll back is no longer fit for use.
      await run(rollback).catch(() => {
        throw new RollbackFailed('', { cause: error });
      });
      throw error;
    }
  });
}

class RollbackFailed extends Error {}

// Without a name each: they are sent as they are, and nothing has to be prepared for them.
const begin = sql('', 'begin');
const commit = sql('', 'commit');
const rollback = sql('', 'rollback');

/**
 * Whether an error says that the database is out of reach or overloaded, so that the same request may succeed
 * later.
 */
export function isDatabaseUnavailable(error: unknown): boolean {
  if (!(error instanceof Error)) return false;
  const code = (error as { code?: unknown }).code;
  if (typeof code === 'string' && UNAVAILABLE.some((start) => code.startsWith(start))) return true;
  return UNAVAILABLE_MESSAGE.test(error.message);
}

// 08 connection, 28 login refused, 3D database gone, 53 resources (disk full, too many connections), 57P
// shutdown, 58 the server's own files, 25006 read-only, 40 serialization and deadlock, 55P03 lock, 57014
// statement timeout; then what the socket itself says. EAGAIN: a unix socket whose server is not there to
// take connections. EMFILE, ENFILE: no file handle left for one.
const UNAVAILABLE = [
  '08',
  '28',
  '3D',
  '53',
  '57P',
  '58',
  '57014',
  '25006',
  '40',
  '55P03',
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
const UNAVAILABLE_MESSAGE =
  /^Connection terminated|^timeout expired|timeout exceeded when trying to connect|not queryable|connection is closed|^Received unexpected \w+ message|Cannot use a pool after calling end/;

// int8 as number: counts and sizes stay far below 2^53. json stays text: it is mostly passed on, not looked
// into.
function typeParser(oid: number, format?: string): (text: string) => unknown {
  if (oid === pg.types.builtins.INT8) return Number;
  if (oid === pg.types.builtins.JSON || oid === pg.types.builtins.JSONB) return (text) => text;
  return pg.types.getTypeParser(oid, format as 'text') as (text: string) => unknown;
}
