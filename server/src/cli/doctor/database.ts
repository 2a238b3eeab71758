import { existsSync, readFileSync, realpathSync } from 'node:fs';
import { join } from 'node:path';
import type { Config } from '../../config.ts';
import { type ConnectionSettings, type Database, openDatabase, sql } from '../../db/client.ts';
import { findPackage, packageVersion } from '../../db/embedded/binaries.ts';
import { DATABASE_NAME, DATABASE_USER, passwordOf } from '../../db/embedded/cluster.ts';
import { type Found, findPostmaster } from '../../db/embedded/postmaster.ts';
import { migrations } from '../../db/migrate.ts';
import { type Finding, ok, problem, reasonOf, warning } from './finding.ts';

const CHECK = 'database';
const OLDEST = 150_000;
// Tokens name times: a difference larger than this makes them expire, or begin, at the wrong moment.
const MAX_CLOCK_MS = 2_000;

/** What was found out about the database, and the database itself where it can be asked more. The caller closes it. */
export interface DatabaseState {
  findings: Finding[];
  db?: Database;
  /** Whether it has this release's schema. */
  current: boolean;
  /** The Belfry server to which the embedded database belongs. */
  serverPid?: number;
}

/** The database of DATABASE_URL, or the embedded one as it stands: none is started only to look at it. */
export async function checkDatabase(config: Config): Promise<DatabaseState> {
  if (config.DATABASE_URL !== undefined)
    return ask({ connectionString: config.DATABASE_URL }, 'that of DATABASE_URL');
  try {
    return await checkEmbedded(config.DATA_DIR);
  } catch (error) {
    const advice = 'look at the message; another user may own the files';
    return {
      findings: [problem(CHECK, error instanceof Error ? error.message : String(error), advice)],
      current: false,
    };
  }
}

async function checkEmbedded(dataDir: string): Promise<DatabaseState> {
  const major = Number.parseInt(packageVersion(findPackage()), 10);
  const link = join(dataDir, 'postgres');
  if (!existsSync(link)) return state(ok(CHECK, `embedded (PostgreSQL ${major}): the first start makes it`));
  const cluster = join(realpathSync(link), 'data');
  const run = join(realpathSync(link), 'run');
  if (!existsSync(cluster))
    return state(ok(CHECK, `embedded (PostgreSQL ${major}): the first start makes it`));
  const made = readFileSync(join(cluster, 'PG_VERSION'), 'utf8').trim();
  if (made !== String(major)) {
    const advice =
      'make a backup with the release that made it, and restore it with this one into an empty DATA_DIR';
    return state(
      problem(
        CHECK,
        `embedded: ${cluster} was made by PostgreSQL ${made}, this release brings ${major}`,
        advice,
      ),
    );
  }
  const found = await findPostmaster(cluster, existsSync(run) ? run : undefined);
  if (found.kind !== 'owned' || !found.ready) return state(notAsked(found, cluster));
  const connection = {
    ...found.address,
    user: DATABASE_USER,
    database: DATABASE_NAME,
    ...(found.address.host.startsWith('/') ? {} : { password: passwordOf({ cluster }) }),
  };
  const who =
    found.role === 'server' ? `the Belfry with pid ${found.owner}` : `a command with pid ${found.owner}`;
  const asked = await ask(connection, `embedded, run by ${who}`);
  return found.role === 'server' ? { ...asked, serverPid: found.owner } : asked;
}

/** Why a database is not asked, and whether that is as it should be. */
function notAsked(found: Found, cluster: string): Finding {
  switch (found.kind) {
    case 'none':
      return ok(CHECK, 'embedded: it does not run, so only its files were looked at');
    case 'stale':
      return ok(CHECK, 'embedded: it was killed and does not run; the next start recovers it');
    case 'owned':
      return warning(
        CHECK,
        `embedded: it is starting or stopping (pid ${found.pid})`,
        'ask again in a moment',
      );
    case 'orphan':
      return warning(
        CHECK,
        `embedded: it runs without its Belfry (pid ${found.pid})`,
        'start Belfry: that puts it right',
      );
    case 'elsewhere':
      return problem(
        CHECK,
        `embedded: another container or machine uses ${cluster}`,
        'stop that first, or choose another DATA_DIR',
      );
  }
}

function state(...findings: Finding[]): DatabaseState {
  return { findings, current: false };
}

async function ask(connection: ConnectionSettings, what: string): Promise<DatabaseState> {
  const db = openDatabase(connection, { size: 1, name: 'belfry doctor' });
  try {
    await db.query(ping); // the first one connects, which would be taken for a difference of clocks
    const askedAt = Date.now();
    const [facts] = await db.query<Facts>(selectFacts);
    if (facts === undefined) throw new Error('no answer');
    const clockMs = facts.now_ms - (askedAt + Date.now()) / 2;
    if (!facts.may_read) return await closed(db, [checkVersion(facts, what), ...checkRights(facts)]);
    const version = await schemaOf(db, facts);
    const findings = [
      checkVersion(facts, what),
      checkSchema(version),
      ...checkRights(facts),
      checkClock(clockMs),
    ];
    return { findings, db, current: version === newest() };
  } catch (error) {
    await db.close();
    const advice = 'check that it runs, its address, user and password, and who may connect to it';
    const words = error instanceof Error && error.message !== '' ? error.message : reasonOf(error);
    return state(problem(CHECK, `${what}: cannot be reached (${words})`, advice));
  }
}

async function closed(db: Database, findings: Finding[]): Promise<DatabaseState> {
  await db.close();
  return state(...findings);
}

function checkVersion({ version_number, version }: Facts, what: string): Finding {
  const message = `${what}: PostgreSQL ${version}`;
  return version_number >= OLDEST
    ? ok(CHECK, message)
    : problem(CHECK, message, 'Belfry needs PostgreSQL 15 or newer: upgrade it');
}

function checkSchema(version: number): Finding {
  if (version === newest()) return ok(CHECK, `schema ${version}, which is this release's`);
  if (version === 0) return ok(CHECK, 'no schema yet: the first start makes it');
  return version < newest()
    ? warning(
        CHECK,
        `schema ${version}, this release has ${newest()}`,
        'run: belfry migrate (the next start does it too)',
      )
    : problem(
        CHECK,
        `schema ${version} was made by a newer release than this, which knows ${newest()}`,
        'run the newer release',
      );
}

function checkRights({ may_create, may_read, read_only, login }: Facts): Finding[] {
  if (read_only)
    return [
      problem(
        CHECK,
        'it takes no changes (a replica, or read-only)',
        'name the primary server in DATABASE_URL',
      ),
    ];
  if (!may_read) {
    const advice = `name the user that made the tables in DATABASE_URL, or grant "${login}" all on all tables in the schema`;
    return [problem(CHECK, `user ${login} may not read Belfry's tables`, advice)];
  }
  if (may_create) return [];
  return [
    problem(
      CHECK,
      `user ${login} may not create tables`,
      `run, as the owner of the database: grant create on schema public to "${login}"`,
    ),
  ];
}

function checkClock(differenceMs: number): Finding {
  const seconds = (Math.abs(differenceMs) / 1000).toFixed(1);
  if (Math.abs(differenceMs) <= MAX_CLOCK_MS)
    return ok('clock', `the database's and this machine's agree within ${MAX_CLOCK_MS / 1000} s`);
  const message = `the database's is ${seconds} s ${differenceMs > 0 ? 'ahead of' : 'behind'} this machine's`;
  return problem('clock', message, 'set both by NTP: tokens and delays go by them');
}

function newest(): number {
  return migrations().at(-1)?.version ?? 0;
}

async function schemaOf(db: Database, { migrated }: Facts): Promise<number> {
  if (!migrated) return 0;
  const [row] = await db.query<{ version: number }>(selectVersion);
  return row?.version ?? 0;
}

interface Facts {
  version_number: number;
  version: string;
  login: string;
  migrated: boolean;
  may_create: boolean | null;
  may_read: boolean;
  read_only: boolean;
  now_ms: number;
}

const ping = sql('doctor_ping', 'select 1');

const selectFacts = sql(
  'doctor_facts',
  `select
    current_setting('server_version_num')::int as version_number,
    current_setting('server_version') as version,
    current_user as login,
    to_regclass('migrations') is not null as migrated,
    has_schema_privilege(current_schema(), 'create') as may_create,
    coalesce(has_table_privilege(to_regclass('migrations'), 'select'), true) as may_read,
    pg_is_in_recovery() or current_setting('transaction_read_only')::boolean as read_only,
    (extract(epoch from clock_timestamp()) * 1000)::float8 as now_ms`,
);

// A handful of rows.
const selectVersion = sql(
  'doctor_schema_version',
  'select coalesce(max(version), 0)::int as version from migrations',
);
