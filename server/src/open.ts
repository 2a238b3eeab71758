import { mkdirSync, statSync } from 'node:fs';
import { hostname } from 'node:os';
import { join } from 'node:path';
import { type Config, vendorOrigins } from './config.ts';
import { type ConnectionSettings, type Database, openDatabase } from './db/client.ts';
import { followDatabaseClock } from './db/database-clock.ts';
import {
  type Durability,
  describeDurability,
  neededSynchronousCommit,
  readDurability,
  risksOf,
} from './db/durability.ts';
import { StartError } from './db/embedded/start-error.ts';
import { startEmbedded } from './db/embedded.ts';
import { MigrationFailed, migrate, UnusableDatabase } from './db/migrate.ts';
import {
  connectionObstacle,
  newestSchema,
  type Obstacle,
  obstacleTo,
  obstacleToMigration,
  readFacts,
  readSchema,
} from './db/usability.ts';
import { WriteFailures } from './db/write-failures.ts';
import { FreshRecipients } from './domain/broadcasts/fresh-recipients.ts';
import { CategoryCache } from './domain/categories/of-project.ts';
import type { Context } from './domain/context.ts';
import { IntegrationCache } from './domain/integrations/of-project.ts';
import { BroadcastContents } from './domain/notifications/contents.ts';
import { ProjectCache } from './domain/projects/cache.ts';
import { checkKeys } from './domain/projects/check-keys.ts';
import { createBus, type PostgresBus } from './domain/realtime/bus.ts';
import { AddressKeys } from './domain/suppressions/address-keys.ts';
import { Identities } from './domain/users/identities.ts';
import { type Clock, systemClock } from './lib/clock.ts';
import { createEgressGuard } from './lib/egress.ts';
import { newId } from './lib/ids.ts';
import type { Logger } from './lib/log.ts';
import { createSealer, loadOrCreateKey, type Sealer } from './lib/seal.ts';
import type { Timeouts } from './providers/transport.ts';
import { createTransport } from './providers/transport.ts';

/** The domain's context on an open database of this release's schema, and its end. */
export interface Opened extends Context {
  readonly bus: PostgresBus;
  /** Tells this process from others on the same database. */
  readonly nodeId: string;
  /** Whether this process alone works on the database. */
  readonly alone: boolean;
  /** The versions of the schema that this opening brought the database to. */
  readonly migrated: readonly number[];
  /** Opens another pool on the same database; `close` closes it too. */
  pool(name: string, size: number): Database;
  close(): Promise<void>;
}

// With both pools of a server well below the 60 connections of the embedded one, and below the 100 that a PostgreSQL has by default.
const POOL_SIZE = 12;

/**
 * Opens the database: the one of DATABASE_URL, or the embedded one in DATA_DIR, started as a `server` (which may only one process be) or
 * shared as a `client` (a command). Throws `StartError`, in one line that says what to do, when that cannot be.
 */
export async function open(
  config: Config,
  options: {
    role: 'server' | 'client';
    log: Logger;
    clock?: Clock;
    timeouts?: Partial<Timeouts>;
    onLost?: (error: StartError) => void;
  },
): Promise<Opened> {
  const { role, log } = options;
  makeDataDir(config.DATA_DIR);
  const sealer = createSealer(config.SECRET_KEY.length > 0 ? config.SECRET_KEY : [keyOf(config.DATA_DIR)]);
  if (role === 'server') warnOfOthers(config, log);
  const egress = createEgressGuard({ allow: config.EGRESS_ALLOW });
  const { timeouts = {} } = options;
  const transport = createTransport({ egress, origins: vendorOrigins(config), timeouts });
  const { connection, stop, embedded } = await connect(config, options);
  const databases: Database[] = [];
  try {
    const { migrated, durability } = await prepare(connection);
    const synchronousCommit = neededSynchronousCommit(durability.synchronous_commit);
    const writeFailures = new WriteFailures();
    const pool = (name: string, size: number) => {
      const options = { size, name: `belfry ${name}`, synchronousCommit, writeFailures };
      const database = openDatabase(connection, options);
      databases.push(database);
      return database;
    };
    const db = pool(role === 'server' ? 'api' : 'command', POOL_SIZE);
    if (role === 'server') reportDurability(await readDurability(db), log);
    if (role === 'server') await refuseForeignKeys({ db, sealer, log });
    const following = await followDatabaseClock({ db, log });
    const nodeId = `${hostname()}-${newId()}`;
    const bus = createBus({ db, log, nodeId, shared: !embedded });
    const clock = options.clock ?? systemClock;
    const projects = new ProjectCache({ db, sealer, clock, bus });
    const integrations = new IntegrationCache({ db, sealer, log, bus });
    const categories = new CategoryCache({ db, bus });
    const identities = new Identities(bus);
    return {
      config,
      db,
      clock,
      log,
      sealer,
      egress,
      transport,
      bus,
      identities,
      projects,
      integrations,
      categories,
      contents: new BroadcastContents({ db }),
      addressKeys: new AddressKeys({ sealer, log }),
      fresh: new FreshRecipients(),
      nodeId,
      alone: embedded && role === 'server',
      migrated,
      pool,
      async close() {
        following.stop();
        projects.close();
        integrations.close();
        categories.close();
        identities.close();
        await bus.close();
        await transport.close();
        await Promise.all(databases.map((database) => database.close()));
        await stop();
      },
    };
  } catch (error) {
    await Promise.all(databases.map((database) => database.close()));
    await stop();
    throw error;
  }
}

function makeDataDir(dataDir: string): void {
  try {
    // Whatever the umask: who may write here may put a key of their own in the place of ours.
    mkdirSync(dataDir, { recursive: true, mode: 0o755 });
  } catch (error) {
    throw new StartError(
      `DATA_DIR ${dataDir} cannot be made (${codeOf(error)}): choose a directory that this user may write to`,
    );
  }
}

function keyOf(dataDir: string): Buffer {
  try {
    return loadOrCreateKey(dataDir);
  } catch (error) {
    if (codeOf(error) === undefined)
      throw new StartError(error instanceof Error ? error.message : String(error));
    throw new StartError(
      `DATA_DIR ${dataDir} cannot be written (${codeOf(error)}): choose a directory that this user may write to`,
    );
  }
}

/** Without its key a database is of no use: better no start than an error for every request. One key of several may be gone for good. */
async function refuseForeignKeys({
  db,
  sealer,
  log,
}: {
  db: Database;
  sealer: Sealer;
  log: Logger;
}): Promise<void> {
  const { keys, problems } = await checkKeys({ db, sealer });
  if (keys > 0 && problems.length === keys) {
    throw new StartError(
      `the secrets in the database cannot be opened (${problems[0]}): start with the SECRET_KEY, or the secret.key in DATA_DIR, that they were sealed with; to change it, give both: SECRET_KEY=<new>,<old>`,
    );
  }
  for (const problem of problems) log.error(`Some projects cannot be used: ${problem}`);
}

const OTHERS_READ = 0o044;
const OTHERS_WRITE = 0o002;
const STICKY = 0o1000;

/** Tells of what other users of the machine could read or replace. Not an error: containers mount keys as they please. */
function warnOfOthers({ DATA_DIR }: Config, log: Logger): void {
  if (process.platform === 'win32') return; // has no such modes
  const modeOf = (path: string) => statSync(path, { throwIfNoEntry: false })?.mode ?? 0;
  const folder = modeOf(DATA_DIR);
  if ((folder & OTHERS_WRITE) !== 0 && (folder & STICKY) === 0)
    log.warn(`DATA_DIR ${DATA_DIR} can be changed by every user of this machine: chmod o-w ${DATA_DIR}`);
  for (const name of ['secret.key', 'credentials.json']) {
    const path = join(DATA_DIR, name);
    if ((modeOf(path) & OTHERS_READ) !== 0)
      log.warn(`${path} can be read by other users of this machine: chmod 600 ${path}`);
  }
}

/** Where the database is, started or shared as for `open`, whatever is in it: for backup and restore. */
export async function connect(
  config: Config,
  { role, log, onLost }: { role: 'server' | 'client'; log: Logger; onLost?: (error: StartError) => void },
): Promise<{ connection: ConnectionSettings; stop: () => Promise<void>; embedded: boolean }> {
  if (config.DATABASE_URL !== undefined) {
    return { connection: { connectionString: config.DATABASE_URL }, stop: async () => {}, embedded: false };
  }
  const server = await startEmbedded({
    dataDir: config.DATA_DIR,
    role,
    log: (message) => log.info(message),
    ...(onLost ? { onLost } : {}),
  });
  return { connection: server.connection, stop: () => server.stop(), embedded: true };
}

/** Brings the database to this release's schema, and reads how it commits where nobody says otherwise. */
async function prepare(
  connection: ConnectionSettings,
): Promise<{ migrated: number[]; durability: Durability }> {
  const db = openDatabase(connection, { size: 1, name: 'belfry start' });
  try {
    return { migrated: await bringUpToDate(db), durability: await readDurability(db) };
  } finally {
    await db.close();
  }
}

/** Logs how the server's connections commit. Refuses one that would lose what was accepted, although we asked for another. */
function reportDurability(durability: Durability, log: Logger): void {
  log.info(durability, `The database commits with ${describeDurability(durability)}`);
  for (const { message, advice } of risksOf(durability)) {
    if (durability.synchronous_commit === 'off') throw new StartError(`${message}: ${advice}`);
    log.warn(`${message}: ${advice}`);
  }
}

async function bringUpToDate(db: Database): Promise<number[]> {
  const facts = await readFacts(db).catch((error: unknown) => {
    const { message, advice } = connectionObstacle(error);
    throw new StartError(`the database of DATABASE_URL ${message}: ${advice}`, { cause: error });
  });
  const obstacle = obstacleTo(facts);
  if (obstacle !== undefined) throw refusal(obstacle);
  const missing = (await readSchema(db, facts)) < newestSchema() ? obstacleToMigration(facts) : undefined;
  if (missing !== undefined) throw refusal(missing);
  const client = await db.connect();
  try {
    return await migrate(client);
  } catch (error) {
    if (error instanceof UnusableDatabase) throw new StartError(error.message);
    if (!(error instanceof MigrationFailed)) throw error;
    const { message, cause } = error;
    throw new StartError(`the database: ${message} (${cause instanceof Error ? cause.message : cause})`, {
      cause,
    });
  } finally {
    await client.end();
  }
}

function refusal({ message, advice }: Obstacle): StartError {
  return new StartError(`the database of DATABASE_URL: ${message}: ${advice}`);
}

function codeOf(error: unknown): string | undefined {
  const code = error instanceof Error ? (error as NodeJS.ErrnoException).code : undefined;
  return typeof code === 'string' ? code : undefined;
}
