import { existsSync, readFileSync, realpathSync } from 'node:fs';
import { join } from 'node:path';
import pg from 'pg';
import type { Config } from '../../config.ts';
import { type ConnectionSettings, type Database, openDatabase, sql } from '../../db/client.ts';
import { findPackage, packageVersion } from '../../db/embedded/binaries.ts';
import { DATABASE_NAME, DATABASE_USER, passwordOf } from '../../db/embedded/cluster.ts';
import { type Found, findPostmaster } from '../../db/embedded/postmaster.ts';
import {
  connectionObstacle,
  type DatabaseFacts,
  newestSchema,
  obstacleTo,
  obstacleToMigration,
  readFacts,
  readSchema,
} from '../../db/usability.ts';
import { checkDurability } from './durability.ts';
import { addressesOf, checkFamilies } from './families.ts';
import { type Finding, ok, problem, warning } from './finding.ts';

const CHECK = 'database';
// With a larger difference, tokens would expire or become valid at the wrong time.
const MAX_CLOCK_MS = 2_000;

/** The findings about the database, and the open database for further checks. The caller closes it. */
export interface DatabaseState {
  findings: Finding[];
  db?: Database;
  /** Whether it has the schema of this release. */
  current: boolean;
  /** The process id of the Belfry server that owns the embedded database. */
  serverPid?: number;
}

/** Checks the database of DATABASE_URL, or the embedded one without starting it. */
export async function checkDatabase(config: Config): Promise<DatabaseState> {
  const { DATABASE_URL: url } = config;
  if (url !== undefined) {
    const [asked, families] = await Promise.all([
      ask({ connectionString: url }, 'that of DATABASE_URL'),
      familiesOf(url),
    ]);
    return { ...asked, findings: [...asked.findings, ...families] };
  }
  try {
    return await checkEmbedded(config.DATA_DIR);
  } catch (error) {
    const advice = 'another user may own the files: check their permissions';
    return {
      findings: [problem(CHECK, error instanceof Error ? error.message : String(error), advice)],
      current: false,
    };
  }
}

/** Checks IPv4 and IPv6 connections to the database, if its name has both. */
async function familiesOf(connectionString: string): Promise<Finding[]> {
  const { host, port } = new pg.Client({ connectionString });
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
  return { findings, current: false };
}

async function ask(connection: ConnectionSettings, what: string): Promise<DatabaseState> {
  const db = openDatabase(connection, { size: 1, name: 'belfry doctor' });
  try {
    await db.query(ping); // connects, so that the connection does not count as a difference of clocks
    const askedAt = Date.now();
    const facts = await readFacts(db);
    const clockMs = facts.now_ms - (askedAt + Date.now()) / 2;
    const running = ok(CHECK, `${what}: PostgreSQL ${facts.version}`);
    const obstacle = obstacleTo(facts);
    if (obstacle !== undefined)
      return await closed(db, [running, problem(CHECK, obstacle.message, obstacle.advice)]);
    const version = await readSchema(db, facts);
    const findings = [
      running,
      checkSchema(version),
      ...checkCreation(facts, version),
      ...(await checkDurability(connection)),
      checkClock(clockMs),
    ];
    return { findings, db, current: version === newestSchema() };
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

function checkSchema(version: number): Finding {
  if (version === newestSchema()) return ok(CHECK, `schema ${version}, that of this release`);
  if (version === 0) return ok(CHECK, 'no schema yet: the first start creates it');
  return version < newestSchema()
    ? warning(
        CHECK,
        `schema ${version}, this release has ${newestSchema()}`,
        'run: belfry migrate (or start Belfry)',
      )
    : problem(
        CHECK,
        `schema ${version} was made by a newer release; this one knows ${newestSchema()}`,
        'run the newer release',
      );
}

/** Checks the right to create tables, which only migrations need. */
function checkCreation(facts: DatabaseFacts, version: number): Finding[] {
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

const ping = sql('doctor_ping', 'select 1');
