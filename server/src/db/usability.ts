import { type Queryable, sql } from './client.ts';
import { OLDEST_SERVER } from './migrate.ts';
import { NO_SCHEMA, type Schema, selectSchema } from './schema.ts';

/** Why a database cannot be used, and what to do about it. */
export interface Obstacle {
  message: string;
  advice: string;
}

/** Facts about a database and the rights of the user of the connection. */
export interface DatabaseFacts {
  version_number: number;
  version: string;
  login: string;
  encoding: string;
  /** Whether Belfry's tables exist. */
  migrated: boolean;
  may_create: boolean | null;
  /** Whether the user may create and drop the partitions of tables. */
  owns_tables: boolean;
  may_read: boolean;
  may_change: boolean;
  read_only: boolean;
  now_ms: number;
}

/** Reads the facts, and changes nothing. */
export async function readFacts(db: Queryable): Promise<DatabaseFacts> {
  const [facts] = await db.query<DatabaseFacts>(selectFacts);
  if (facts === undefined) throw new Error('the database returned nothing');
  return facts;
}

/** The schema of the database. Needs the right to read it. */
export async function readSchema(db: Queryable, { migrated }: DatabaseFacts): Promise<Schema> {
  if (!migrated) return NO_SCHEMA;
  const [schema] = await db.query<Schema>(selectSchema);
  return schema ?? NO_SCHEMA;
}

/** Why this user cannot use the database; undefined if the user can read and change it. */
export function obstacleTo(facts: DatabaseFacts): Obstacle | undefined {
  const { login } = facts;
  const grant =
    'use the user that created the tables in DATABASE_URL, ' +
    `or grant "${login}" all on all tables in the schema`;
  if (facts.version_number < OLDEST_SERVER)
    return {
      message: `it is PostgreSQL ${facts.version}; Belfry needs 15 or newer`,
      advice: 'upgrade it, or set DATABASE_URL to another one',
    };
  if (facts.read_only)
    return {
      message: 'it is read-only (a replica, or configured so)',
      advice: 'set DATABASE_URL to the primary server',
    };
  const { encoding, migrated } = facts;
  // Earlier releases could start with SQL_ASCII, which checks no text.
  if (encoding !== 'UTF8' && !(encoding === 'SQL_ASCII' && migrated))
    return {
      message: `its encoding is ${encoding}, which cannot store all texts; Belfry needs UTF8`,
      advice: "create the database with encoding 'UTF8' template template0",
    };
  if (!facts.may_read) return { message: `user ${login} may not read Belfry's tables`, advice: grant };
  if (!facts.may_change) return { message: `user ${login} may not change Belfry's tables`, advice: grant };
  return undefined;
}

/** Why the user cannot migrate the schema; undefined if the user can. */
export function obstacleToMigration({ may_create, login }: DatabaseFacts): Obstacle | undefined {
  if (may_create) return undefined;
  return {
    message: `user ${login} may not create tables`,
    advice: `run, as the owner of the database: grant create on schema public to "${login}"`,
  };
}

const CONNECT_ADVICE: Readonly<Record<string, string>> = {
  ECONNREFUSED: 'nothing listens there: check that PostgreSQL runs, and the host and port',
  ENOTFOUND: 'the host does not exist: correct it',
  EAI_AGAIN: 'the name server does not respond: check DNS on this machine (/etc/resolv.conf)',
  ETIMEDOUT: 'there is no response: check the host, the port and the firewall',
  EHOSTUNREACH: 'the host cannot be reached: check its address and the network',
  ENETUNREACH: 'the host cannot be reached: check its address and the network',
  ENOENT: 'there is no such unix socket: check that PostgreSQL runs, and the directory',
  '28P01': 'correct the password',
  '28000': 'check that the user exists, and who may connect (pg_hba.conf)',
  '3D000': 'create the database, or correct its name',
  '42501': 'grant the user the right to connect to the database',
  '53300': 'close other connections, or raise the limit: max_connections, or that of the user or database',
  '57P03': 'try again in a moment',
  '42P05': 'the connection pooler must keep prepared statements: set max_prepared_statements of pgbouncer',
  '26000': 'the connection pooler must keep prepared statements: set max_prepared_statements of pgbouncer',
};
const UNKNOWN_AUTHORITY =
  'the certificate is of an authority that this machine does not know: ' +
  'add sslmode=verify-full&sslrootcert=/path/of/its/ca.pem to the address';
const CERTIFICATE_ADVICE: Readonly<Record<string, string>> = {
  DEPTH_ZERO_SELF_SIGNED_CERT: UNKNOWN_AUTHORITY,
  SELF_SIGNED_CERT_IN_CHAIN: UNKNOWN_AUTHORITY,
  UNABLE_TO_GET_ISSUER_CERT_LOCALLY: UNKNOWN_AUTHORITY,
  UNABLE_TO_VERIFY_LEAF_SIGNATURE: UNKNOWN_AUTHORITY,
  CERT_HAS_EXPIRED: 'renew the certificate of the database server',
  ERR_TLS_CERT_ALTNAME_INVALID: 'use a host name of its certificate in the address',
};
// The driver's own errors have no code.
const DRIVER_ADVICE: readonly [message: RegExp, advice: string][] = [
  [
    /client password must be a/,
    'add the password to the address: postgres://user:password@host:5432/database',
  ],
  [/^The server does not support SSL/, 'remove sslmode from the address, or switch TLS on in PostgreSQL'],
];
// Of a connection, and of a connection of a pool.
const TIMEOUT_MESSAGE = /^timeout expired$|^Connection terminated due to connection timeout$/;
const IS_POOLER =
  'this is a connection pooler: set DATABASE_DIRECT_URL to the address of the same database without it';

// What follows "the database" for these errors. PostgreSQL responds, so "cannot be reached" would mislead.
const REFUSALS: Readonly<Record<string, string>> = {
  '53300': 'accepts no more connections',
  '57P03': 'is starting or stopping',
};

/** What a database does instead of accepting connections, to follow "the database". Names no user or host. */
export function describeRefusal(error: unknown): string {
  return REFUSALS[detailsOf(error).code ?? ''] ?? 'cannot be reached';
}

/** Whether no server responded, or one that has no such database. */
export function isUnreachable(error: unknown): boolean {
  const { code = '', message = '' } = detailsOf(error);
  return UNREACHABLE.test(code) || /^(?:timeout e|Connection terminated)/.test(message);
}

// 08: a worker of Citus, or a pooler, cannot reach it. 3D000: there is no such database.
const UNREACHABLE = /^(?:08|3D000$|ECONN|EPIPE|ENOENT|ENOTFOUND|EAI_|EHOST|ENET|ETIMEDOUT)/;

/** Why the connection failed, in the words of PostgreSQL or the operating system. */
export function connectionObstacle(error: unknown): Obstacle {
  return {
    message: `${describeRefusal(error)} (${messageOf(error)})`,
    advice:
      connectAdvice(error) ?? 'check that it runs, its address, user and password, and who may connect to it',
  };
}

/** Why a statement failed for no fault of its own: there is no connection, or a full disk, for example. */
export function obstacleOf(error: unknown): Obstacle {
  const isForbidden = detailsOf(error).code === '42501'; // a rejected connection has this code, too
  if (connectAdvice(error) !== undefined && !isForbidden) return connectionObstacle(error);
  return {
    message: `cannot be used (${messageOf(error)})`,
    advice: isForbidden
      ? 'grant its user this right; if the user has it, check whether the disk is read-only'
      : 'try belfry doctor',
  };
}

function connectAdvice(error: unknown): string | undefined {
  const { code, message } = detailsOf(error);
  if (/^unsupported (options )?startup parameter/.test(message ?? '')) return IS_POOLER;
  const ofDriver = DRIVER_ADVICE.find(([text]) => text.test(message ?? ''))?.[1];
  if (ofDriver !== undefined) return ofDriver;
  const key = code ?? (TIMEOUT_MESSAGE.test(message ?? '') ? 'ETIMEDOUT' : '');
  return CONNECT_ADVICE[key] ?? CERTIFICATE_ADVICE[key];
}

function messageOf(error: unknown): string {
  const { code, message } = detailsOf(error);
  return [message, code].find((text) => text !== undefined && text !== '') ?? String(error);
}

function detailsOf(error: unknown): { code?: string | undefined; message?: string } {
  return error instanceof Error ? (error as NodeJS.ErrnoException) : {};
}

// Catalogs only. has_table_privilege with a list checks for any of the rights, so each is checked alone.
const selectFacts = sql(
  'database_facts',
  `select
    current_setting('server_version_num')::int as version_number,
    current_setting('server_version') as version,
    current_user as login,
    current_setting('server_encoding') as encoding,
    to_regclass('migrations') is not null as migrated,
    has_schema_privilege(current_schema(), 'create') as may_create,
    coalesce(
      (select pg_has_role(relowner, 'usage') from pg_class where oid = to_regclass('events')), true
    ) as owns_tables,
    coalesce(has_table_privilege(to_regclass('migrations'), 'select'), true) as may_read,
    (
      select coalesce(bool_and(has_table_privilege(to_regclass(name), privilege)), true)
      from unnest(array['projects', 'broadcasts', 'notifications', 'jobs', 'leases']) as name,
        unnest(array['select', 'insert', 'update', 'delete']) as privilege
    ) as may_change,
    pg_is_in_recovery() or pg_catalog.current_setting('transaction_read_only')::boolean as read_only,
    (extract(epoch from clock_timestamp()) * 1000)::float8 as now_ms`,
);
