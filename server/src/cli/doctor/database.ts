import { existsSync, readFileSync, realpathSync } from 'node:fs';
import { join } from 'node:path';
import type { Config } from '../../config.ts';
import { type ConnectionSettings, type Database, openDatabase, sql } from '../../db/client.ts';
import { findPackage, packageVersion } from '../../db/embedded/binaries.ts';
import { DATABASE_NAME, DATABASE_USER, passwordOf } from '../../db/embedded/cluster.ts';
import { type Found, findPostmaster } from '../../db/embedded/postmaster.ts';
import { GuardedClient } from '../../db/guarded-client.ts';
import { notifyArrives, obstacleInPooler, SILENT_BUS } from '../../db/pooler.ts';
import { newestSchema, type Schema, schemaObstacle } from '../../db/schema.ts';
import {
  connectionObstacle,
  type DatabaseFacts,
  obstacleTo,
  obstacleToMigration,
  readFacts,
  readSchema,
} from '../../db/usability.ts';
import { DEFAULT_CELL } from '../../domain/setup/cells/cells.ts';
import type { Place } from '../../open.ts';
import { checkDurability } from './durability.ts';
import { addressesOf, checkFamilies } from './families.ts';
import { type Finding, ok, problem, warning } from './finding.ts';

const CHECK = 'database';
// With a larger difference, tokens would expire or become valid at the wrong time.
export const MAX_CLOCK_MS = 2_000;

/** The findings about the database, and the open database for further checks. The caller closes it. */
export interface DatabaseState {
  findings: Finding[];
  db?: Database;
  /** Where it is. */
  place?: Place;
  /** Whether this release can use its schema. */
  usable: boolean;
  /** The process id of the Belfry server that owns the embedded database. */
  serverPid?: number;
  /** Whether there is an embedded database that does not run. */
  stopped?: boolean;
}

/** Checks the database of DATABASE_URL, or the embedded one without starting it. */
export async function checkDatabase(config: Config): Promise<DatabaseState> {
  const { DATABASE_URL: url, DATABASE_DIRECT_URL: directUrl = url } = config;
  if (url !== undefined && directUrl !== undefined) {
    const [state, families] = await Promise.all([checkExternal(url, directUrl), familiesOf(url)]);
    return { ...state, findings: [...state.findings, ...families] };
  }
  if (directUrl !== undefined)
    return state(
      problem(CHECK, 'DATABASE_DIRECT_URL is set without DATABASE_URL', 'set DATABASE_URL as well'),
    );
  try {
    return await checkEmbedded(config.DATA_DIR);
  } catch (error) {
    const advice = 'another user may own the files: check their permissions';
    return {
      findings: [problem(CHECK, error instanceof Error ? error.message : String(error), advice)],
      usable: false,
    };
  }
}

/** Checks the database of DATABASE_URL, and the connection pooler if there is one. */
async function checkExternal(url: string, directUrl: string): Promise<DatabaseState> {
  const pool = { connectionString: url };
  if (url === directUrl) {
    const state = await ask(pool, 'that of DATABASE_URL');
    return state.db === undefined ? state : withFindings(state, await checkBus(state.db));
  }
  const direct = { connectionString: directUrl };
  const obstacle = await obstacleInPooler(pool, direct);
  const state = await ask(direct, 'that of DATABASE_DIRECT_URL', obstacle === undefined ? pool : direct);
  if (obstacle !== undefined)
    return withFindings(state, [
      problem('pooler', `that of DATABASE_URL ${obstacle.message}`, obstacle.advice),
    ]);
  const pooler = ok('pooler', 'that of DATABASE_URL runs statements');
  if (state.db === undefined) return withFindings(state, [pooler]);
  const pooled = openDatabase(pool, { size: 1, name: 'belfry doctor', direct });
  const bus = await checkBus(pooled).finally(() => pooled.close());
  return withFindings(state, [pooler, ...bus]);
}

function withFindings(state: DatabaseState, findings: Finding[]): DatabaseState {
  return { ...state, findings: [...state.findings, ...findings] };
}

async function checkBus(db: Database): Promise<Finding[]> {
  if (await notifyArrives(db)) return [ok('bus', 'messages between nodes arrive')];
  return [problem('bus', SILENT_BUS.message, SILENT_BUS.advice)];
}

/** Checks IPv4 and IPv6 connections to the database, if its name has both. */
async function familiesOf(connectionString: string): Promise<Finding[]> {
  const { host, port } = new GuardedClient({ connectionString });
  if (host.startsWith('/')) return []; // a socket
  return checkFamilies(CHECK, { name: `${host}:${port}`, port, addresses: await addressesOf(host) });
}

async function checkEmbedded(dataDir: string): Promise<DatabaseState> {
  const major = Number.parseInt(packageVersion(findPackage()), 10);
  const link = join(dataDir, 'postgres');
  if (!existsSync(link))
    return state(ok(CHECK, `embedded (PostgreSQL ${major}): the first start creates it`));
  const cluster = join(realpathSync(link), 'data');
  const run = join(realpathSync(link), 'run');
  if (!existsSync(cluster))
    return state(ok(CHECK, `embedded (PostgreSQL ${major}): the first start creates it`));
  const made = readFileSync(join(cluster, 'PG_VERSION'), 'utf8').trim();
  if (made !== String(major)) {
    const advice =
      'back it up with the release that made it, and restore it with this one into an empty DATA_DIR';
    return state(
      problem(
        CHECK,
        `embedded: ${cluster} was made by PostgreSQL ${made}, this release has ${major}`,
        advice,
      ),
    );
  }
  const found = await findPostmaster(cluster, existsSync(run) ? run : undefined);
  if (found.kind !== 'owned' || !found.ready) {
    const stopped = found.kind === 'none' || found.kind === 'stale';
    return { ...state(notAsked(found, cluster)), stopped };
  }
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

/** Why an embedded database is not checked, and whether that is a problem. */
function notAsked(found: Found, cluster: string): Finding {
  switch (found.kind) {
    case 'none':
      return ok(CHECK, 'embedded: it does not run, so only its files were checked');
    case 'stale':
      return ok(CHECK, 'embedded: it was killed and does not run; the next start recovers it');
    case 'owned':
      return warning(
        CHECK,
        `embedded: it is starting or stopping (pid ${found.pid})`,
        'try again in a moment',
      );
    case 'orphan':
      return warning(
        CHECK,
        `embedded: it runs without its Belfry (pid ${found.pid})`,
        'start Belfry, which corrects that',
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
  return { findings, usable: false };
}

async function ask(
  connection: ConnectionSettings,
  what: string,
  pool: ConnectionSettings = connection,
): Promise<DatabaseState> {
  const db = openDatabase(connection, { size: 1, name: 'belfry doctor' });
  try {
    const { facts, clockMs } = await askFacts(db);
    const running = ok(CHECK, `${what}: PostgreSQL ${facts.version}`);
    const obstacle = obstacleTo(facts);
    if (obstacle !== undefined)
      return await closed(db, [running, problem(CHECK, obstacle.message, obstacle.advice)]);
    const schema = await readSchema(db, facts);
    const findings = [
      running,
      checkSchema(schema),
      ...checkCreation(facts, schema),
      ...checkOwnership(facts),
      ...(await checkDurability(connection, pool)),
      checkClock(clockMs),
    ];
    const newest = newestSchema();
    const usable = schema.version >= newest && schemaObstacle(schema, newest) === undefined;
    const place = { cell: DEFAULT_CELL, connection: pool, direct: connection, embedded: false };
    return { findings, db, place, usable };
  } catch (error) {
    await db.close();
    const { message, advice } = connectionObstacle(error);
    return state(problem(CHECK, `${what}: ${message}`, advice));
  }
}

async function closed(db: Database, findings: Finding[]): Promise<DatabaseState> {
  await db.close();
  return state(...findings);
}

function checkSchema(schema: Schema): Finding {
  const { version, oldestProgram } = schema;
  const newest = newestSchema();
  if (version === 0) return ok(CHECK, 'no schema yet: the first start creates it');
  if (version < newest)
    return warning(
      CHECK,
      `schema ${version}, this release has ${newest}`,
      'run: belfry migrate (or start Belfry)',
    );
  const obstacle = schemaObstacle(schema, newest);
  if (obstacle !== undefined) return problem(CHECK, obstacle, 'run the newer release');
  const whose = version === newest ? 'that of this release' : `newer than that of this release (${newest})`;
  return ok(CHECK, `schema ${version}, ${whose}; servers that know ${oldestProgram} or newer may run`);
}

/** Checks the right to create tables, which only migrations need. */
function checkCreation(facts: DatabaseFacts, { version }: Schema): Finding[] {
  const obstacle = obstacleToMigration(facts);
  if (obstacle === undefined) return [];
  const finding = version < newestSchema() ? problem : warning;
  return [finding(CHECK, obstacle.message, obstacle.advice)];
}

function checkClock(differenceMs: number): Finding {
  const seconds = (Math.abs(differenceMs) / 1000).toFixed(1);
  if (Math.abs(differenceMs) <= MAX_CLOCK_MS)
    return ok('clock', `the clocks of the database and this machine agree within ${MAX_CLOCK_MS / 1000} s`);
  const direction = differenceMs > 0 ? 'ahead of' : 'behind';
  const message = `the clock of the database is ${seconds} s ${direction} that of this machine`;
  return problem('clock', message, 'set both by NTP: tokens and delays depend on them');
}

/** Reads the facts of a database, and how far its clock is ahead of that of this machine. */
export async function askFacts(db: Database): Promise<{ facts: DatabaseFacts; clockMs: number }> {
  await db.query(ping); // connects, so that the connection does not count as a difference of clocks
  const askedAt = Date.now();
  const facts = await readFacts(db);
  return { facts, clockMs: facts.now_ms - (askedAt + Date.now()) / 2 };
}

const ping = sql('doctor_ping', 'select 1');

function checkOwnership({ owns_tables, login }: DatabaseFacts): Finding[] {
  if (owns_tables) return [];
  const message = `user ${login} does not own Belfry's tables, so it adds no months to them and drops none`;
  return [warning(CHECK, message, 'use the user that created the tables in DATABASE_URL')];
}
