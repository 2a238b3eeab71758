import { readFileSync, statSync, writeFileSync } from 'node:fs';
import { hostname } from 'node:os';
import { join } from 'node:path';
import type { Config } from './config.ts';
import { isOnWorker } from './db/citus.ts';
import {
  type ConnectionSettings,
  type Database,
  inSchema,
  openDatabase,
  type Queryable,
  sql,
} from './db/client.ts';
import { checkClockOfCell, followDatabaseClock } from './db/database-clock.ts';
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
import { planMigration } from './db/migration-plan.ts';
import { notifyArrives, obstacleInPooler, SILENT_BUS } from './db/pooler.ts';
import { newestSchema, programSuffix } from './db/schema.ts';
import { connectionObstacle, type Obstacle } from './db/usability.ts';
import { WriteFailures } from './db/write-failures.ts';
import { describeUnreadableWebhooks } from './domain/after/webhooks/secrets.ts';
import type { Context } from './domain/context.ts';
import { createBus, type NodeBus } from './domain/ground/bus/bus.ts';
import { LostResponses } from './domain/ground/bus/lost-responses.ts';
import { natsSubject } from './domain/ground/bus/nats.ts';
import { Identities } from './domain/ground/identities/identities.ts';
import { describeUnreadable, unreadableIntegrations } from './domain/ground/secrets/unreadable.ts';
import { AddressKeys } from './domain/ground/suppressions/address-keys.ts';
import { CancelledBroadcasts } from './domain/line/context/cancelled-broadcasts.ts';
import { RecentBroadcasts } from './domain/line/context/recent-broadcasts.ts';
import { BroadcastContents } from './domain/line/notifications/contents.ts';
import { createCategoryCache } from './domain/setup/categories/cache.ts';
import { type Cell, DEFAULT_CELL, listCellsIfAny, urlsOf } from './domain/setup/cells/cells.ts';
import { createIntegrationCache } from './domain/setup/integrations/cache.ts';
import { ProjectCache } from './domain/setup/projects/cache.ts';
import { claimSealingKey, keysInUse } from './domain/setup/projects/sealing-key.ts';
import { type Clock, systemClock } from './lib/clock.ts';
import { createEgressGuard } from './lib/egress.ts';
import { newId } from './lib/ids.ts';
import { createLogger, type Logger } from './lib/log.ts';
import { makeFolder } from './lib/make-folder.ts';
import { CannotOpen, createSealer, keyPath, loadKey, loadOrCreateKey, type Sealer } from './lib/seal.ts';
import type { Timeouts } from './providers/shared/transport.ts';
import { createTransport } from './providers/shared/transport.ts';

/** The domain's context with an open, migrated database: a cell, usually the only one. */
export interface Opened extends Context {
  readonly bus: NodeBus;
  /** The name of the cell. */
  readonly cell: string;
  readonly place: Place;
  /** Identifies this process among others on the same database. */
  readonly nodeId: string;
  /** Whether no other process uses the database. */
  readonly alone: boolean;
  /** Opens another pool on the same database, which `close` closes as well. */
  pool(name: string, size: number): Database;
  close(): Promise<void>;
}

/** What a process gets from its supervisor, which has opened and migrated the database. */
export interface SupervisedDatabase {
  connection: ConnectionSettings;
  nodeId: string;
}

/** An id that no other process has had. */
export function newNodeId(): string {
  return `${hostname()}-${newId()}`;
}

// Both pools of a server together stay well below the 60 connections of the embedded database.
const POOL_SIZE = 12;
// Of the embedded database: for the first process and some commands, and for each further process and cell.
const CONNECTIONS = { first: 60, more: 25 };
// The number of cells, in DATA_DIR: the database cannot be asked before it starts.
const CELLS_FILE = 'cells';

export interface OpenOptions {
  role: 'server' | 'client';
  log: Logger;
  clock?: Clock;
  timeouts?: Partial<Timeouts>;
  onLost?: (error: StartError) => void;
  supervised?: SupervisedDatabase;
}

/**
 * Opens and migrates the database: that of DATABASE_URL, or the embedded one in DATA_DIR. Only one process
 * may be its `server`; a `client` (a command) may share it. Throws a `StartError` whose message says what to
 * do.
 */
export async function open(config: Config, options: OpenOptions): Promise<Opened> {
  const { role, log, supervised } = options;
  const reports = role === 'server' && supervised === undefined;
  makeDataDir(config.DATA_DIR);
  if (reports) warnOfOthers(config, log);
  const { stop, ...place } =
    supervised === undefined || config.DATABASE_URL !== undefined
      ? await connect(config, options)
      : { ...ofSupervisor(supervised), stop: async () => {} };
  const nodeId = supervised?.nodeId ?? newNodeId();
  return openAt({ cell: DEFAULT_CELL, ...place }, config, { ...options, reports, nodeId, stop });
}

/** The database that the supervisor of this process has opened. */
function ofSupervisor({ connection }: SupervisedDatabase): Omit<Place, 'cell'> {
  return { connection, direct: connection, embedded: false };
}

/**
 * Opens and migrates another cell of the directory for the node of the default cell, which stays open longer.
 */
export async function openCell(
  { config, place, nodeId, sealer }: Opened,
  cell: Cell,
  options: OpenOptions,
): Promise<Opened> {
  const log = options.log.child({ cell: cell.name });
  const reports = options.role === 'server' && options.supervised === undefined;
  const node = { log, reports, nodeId, stop: async () => {} };
  return ofCell(cell.name, () => openAt(placeOfCell(place, cell, sealer), config, { ...options, ...node }));
}

/** Where a cell is. Throws a `StartError` if it cannot be reached as the default cell is. */
export function placeOfCell({ connection, direct, embedded }: Place, cell: Cell, sealer: Sealer): Place {
  const { name, schema } = cell;
  const urls = urlsOf({ sealer }, cell);
  if (urls !== undefined) {
    const own = { connectionString: urls.url };
    const ownDirect = urls.directUrl === urls.url ? own : { connectionString: urls.directUrl };
    return { cell: name, schema, connection: own, direct: ownDirect, embedded: false };
  }
  if (direct !== connection) throw new StartError(NOT_BEHIND_A_POOLER);
  const own = inSchema(connection, schema);
  return { cell: name, schema, isBesideDefault: true, connection: own, direct: own, embedded };
}

// A connection pooler gives connections to any client, so they cannot have a schema of their own.
const NOT_BEHIND_A_POOLER =
  'DATABASE_URL is a connection pooler, whose connections have no schema of their own: ' +
  'use the URL of the database itself, or a cell that was added with --database-url, ' +
  'for a user with a search_path of its own';

/** Opens and migrates a cell. `stop` is called last, also if it fails. */
async function openAt(
  place: Place,
  config: Config,
  options: OpenOptions & { reports: boolean; nodeId: string; stop: () => Promise<void> },
): Promise<Opened> {
  const { role, log, reports, nodeId, stop, timeouts = {} } = options;
  const { cell, connection, direct, embedded } = place;
  const egress = createEgressGuard({ allow: config.EGRESS_ALLOW });
  const transport = createTransport({ egress, origins: config, timeouts });
  const databases: Database[] = [];
  try {
    const { durability, isDistributed } = await prepare(place, (line) => log.warn(line));
    const synchronousCommit = neededSynchronousCommit(durability.synchronous_commit);
    const writeFailures = new WriteFailures();
    const suffix = `${cell === DEFAULT_CELL ? '' : ` ${cell}`}${role === 'server' ? programSuffix() : ''}`;
    const pool = (name: string, size: number) => {
      const own = { size, name: `belfry ${name}${suffix}`, isDistributed };
      const database = openDatabase(connection, { ...own, synchronousCommit, writeFailures, direct });
      databases.push(database);
      return database;
    };
    const db = pool(role === 'server' ? 'api' : 'command', POOL_SIZE);
    if (direct !== connection) {
      const obstacle = await obstacleInPooler(connection, direct);
      if (obstacle !== undefined) throw unreachable(nameOfUrl(place), obstacle);
      await checkSchema(db, place.schema);
    }
    if (reports) {
      reportDurability(await readDurability(db), log);
      if (!embedded && !(await notifyArrives(db)))
        throw new StartError(`${SILENT_BUS.message}: ${SILENT_BUS.advice}`);
    }
    const sealer = await sealerFor(db, config, options);
    if (reports) await reportUnreadable({ db, sealer, log });
    // A direct connection, because the time in a pooler's queue would count as a difference of clocks.
    const clockDb = direct === connection ? db : openDatabase(direct, { size: 1, name: 'belfry clock' });
    if (clockDb !== db) databases.push(clockDb);
    let following: { stop(): void } | undefined;
    if (cell === DEFAULT_CELL) following = await followDatabaseClock({ db: clockDb, log });
    else await checkClockOfCell(clockDb);
    const shared = !embedded || config.PROCESSES > 1;
    const nats =
      role === 'server' && shared && config.NATS_URL !== undefined
        ? { ...config.NATS_URL, subject: await natsSubject(db) }
        : undefined;
    if (reports && !shared && config.NATS_URL !== undefined)
      log.warn('NATS_URL is not used: the embedded database has one node, with one process');
    const isCommand = role === 'client';
    const bus = createBus({ db, log, nodeId, shared, isCommand, nats, channel: channelOf(cell) });
    const clock = options.clock ?? systemClock;
    const projects = new ProjectCache({ db, sealer, clock, bus });
    const integrations = createIntegrationCache({ db, sealer, log, bus });
    const categories = createCategoryCache({ db, bus });
    const identities = new Identities(bus);
    const cancelled = new CancelledBroadcasts({ db, bus, log });
    return {
      config,
      db,
      clock,
      log,
      sealer,
      egress,
      transport,
      bus,
      lostResponses: new LostResponses({ db, bus, clock }),
      identities,
      projects,
      integrations,
      categories,
      contents: new BroadcastContents({ db }),
      addressKeys: new AddressKeys({ sealer, log }),
      recent: new RecentBroadcasts(),
      cancelled,
      nodeId,
      cell,
      place,
      alone: !shared && role === 'server',
      pool,
      async close() {
        following?.stop();
        projects.close();
        integrations.close();
        categories.close();
        identities.close();
        cancelled.close();
        await bus.close();
        await transport.close();
        await Promise.all(databases.map((database) => database.close()));
        await stop();
      },
    };
  } catch (error) {
    await transport.close();
    await Promise.all(databases.map((database) => database.close()));
    await stop();
    throw error;
  }
}

/** The channel of the bus of a cell in its database, which others may share; undefined for the default. */
function channelOf(cell: string): string | undefined {
  return cell === DEFAULT_CELL ? undefined : `belfry_cell_${cell}`;
}

/** Throws a `StartError` if connections of a cell find other tables than those of the cell. */
async function checkSchema(db: Database, schema: string | undefined): Promise<void> {
  if (schema === undefined) return;
  const obstacle = obstacleOfSchema(await currentSchema(db), schema);
  if (obstacle !== undefined) throw new StartError(`${obstacle.message}: ${obstacle.advice}`);
}

/** Why a cell whose tables are in `schema` cannot be used by connections that use another one, or none. */
export function obstacleOfSchema(current: string | undefined, schema: string): Obstacle | undefined {
  if (current === schema) return undefined;
  const used = current === undefined ? 'find no schema' : `use the schema ${current}`;
  return {
    message: `its connections ${used}, and its tables are in ${schema}`,
    advice: 'check the search_path of its user, its URL, and that this schema exists',
  };
}

/** The schema in which tables are created, and found first; undefined if it does not exist. */
export async function currentSchema(db: Queryable): Promise<string | undefined> {
  const [row] = await db.query<{ schema: string | null }>(selectCurrentSchema);
  return row?.schema ?? undefined;
}

const selectCurrentSchema = sql('select_current_schema', 'select current_schema()::text as schema');

function makeDataDir(dataDir: string): void {
  try {
    // With this mode, because a user who may write here could replace the key.
    makeFolder(dataDir, 0o755);
  } catch (error) {
    throw new StartError(
      `DATA_DIR ${dataDir} cannot be created (${codeOf(error)}): ` +
        'choose a directory that this user may write to',
    );
  }
}

/**
 * The sealer with the keys of the settings or of the data directory. A key is created only for a database
 * without sealed secrets. A server that could open none of them does not start.
 */
async function sealerFor(
  db: Database,
  { SECRET_KEY, DATA_DIR }: Config,
  { role, log }: { role: 'server' | 'client'; log: Logger },
): Promise<Sealer> {
  const present = keysOf({ SECRET_KEY, DATA_DIR });
  if (present === undefined) {
    const needed = await keysInUse(db);
    if (needed.length > 0) return unusable(role, missingKey(DATA_DIR, needed));
  }
  const keys = present ?? keyIn(DATA_DIR, () => loadOrCreateKey(DATA_DIR)) ?? [];
  const sealer = createSealer(keys);
  const fit = await claimSealingKey({ db, sealer });
  switch (fit.kind) {
    case 'other_keys':
      return unusable(
        role,
        `the secrets in the database cannot be decrypted (${fit.problem}): ` +
          'start with the SECRET_KEY, or the secret.key in DATA_DIR, that encrypted them; ' +
          'to change it, set both: SECRET_KEY=<new>,<old>',
        sealer,
      );
    case 'claimed':
      return unusable(
        role,
        `another server has set up this database with the key ${fit.keyId}, this one has ` +
          `${sealer.keyIds[0]}: give both the same SECRET_KEY, or copy the secret.key of the other server ` +
          `to ${keyPath(DATA_DIR)}`,
        sealer,
      );
    case 'fits':
      for (const problem of fit.problems) log.error(`Some projects cannot be used: ${problem}`);
      return sealer;
    case 'unclaimed':
      throw new Error('the key of the database could not be recorded');
  }
}

/** The keys of the settings, or of the data directory if there is one. */
function keysOf({ SECRET_KEY, DATA_DIR }: Pick<Config, 'SECRET_KEY' | 'DATA_DIR'>): Buffer[] | undefined {
  return SECRET_KEY.length > 0 ? SECRET_KEY : keyIn(DATA_DIR, () => loadKey(DATA_DIR));
}

/** Logs the integrations and webhooks that cannot send because their key is missing. */
async function reportUnreadable(deps: { db: Database; sealer: Sealer; log: Logger }): Promise<void> {
  for (const line of describeUnreadable(await unreadableIntegrations(deps)))
    deps.log.error(`${line}. Add the key to SECRET_KEY, or save the integrations again`);
  for (const line of await describeUnreadableWebhooks(deps))
    deps.log.error(`${line}. Add the key to SECRET_KEY, or rotate the secrets`);
}

function missingKey(dataDir: string, needed: readonly string[] = []): string {
  const key = needed.length === 0 ? 'a key' : `the key ${needed.join(', ')}`;
  return (
    `${keyPath(dataDir)} is missing, and the secrets in the database were encrypted with ${key}: ` +
    'restore your copy of the file, or set SECRET_KEY'
  );
}

/** Throws for a server. A command gets a sealer that only opens, because many need no secret. */
function unusable(role: 'server' | 'client', problem: string, sealer?: Sealer): Sealer {
  if (role === 'server') throw new StartError(problem);
  const refuse = () => {
    throw new CannotOpen(problem);
  };
  return sealer === undefined
    ? { keyIds: ['none'], seal: refuse, open: refuse }
    : { ...sealer, seal: refuse };
}

function keyIn(dataDir: string, read: () => Buffer | undefined): Buffer[] | undefined {
  try {
    const key = read();
    return key === undefined ? undefined : [key];
  } catch (error) {
    if (codeOf(error) === undefined)
      throw new StartError(
        `${error instanceof Error ? error.message : error}: restore your copy of the file, or set SECRET_KEY`,
      );
    throw new StartError(
      `DATA_DIR ${dataDir} cannot be used (${codeOf(error)}): choose a directory that this user may write to`,
    );
  }
}

const OTHERS_READ = 0o044;
const OTHERS_WRITE = 0o002;
const STICKY = 0o1000;

/** Warns of files that other users could read or replace. Not an error, because containers mount keys so. */
function warnOfOthers({ DATA_DIR }: Config, log: Logger): void {
  if (process.platform === 'win32') return; // without such modes
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

/** Where a cell is. */
export interface Place {
  cell: string;
  /** The schema of its tables, if the cell has one of its own. */
  schema?: string;
  /** Whether that schema is in the database of the default cell. */
  isBesideDefault?: true;
  connection: ConnectionSettings;
  /** The database itself: `connection`, unless that is a connection pooler. */
  direct: ConnectionSettings;
  embedded: boolean;
}

/** A running database. */
interface Connected extends Omit<Place, 'cell' | 'schema'> {
  stop(): Promise<void>;
}

/** Starts or shares the database as `open` does, with any contents. */
async function connect(
  config: Config,
  { role, log, onLost }: { role: 'server' | 'client'; log: Logger; onLost?: (error: StartError) => void },
): Promise<Connected> {
  const { DATABASE_URL: url, DATABASE_DIRECT_URL: directUrl = url } = config;
  if (url !== undefined) {
    const connection = { connectionString: url };
    const direct = directUrl === url ? connection : { connectionString: directUrl };
    return { connection, direct, stop: async () => {}, embedded: false };
  }
  if (directUrl !== undefined)
    throw new StartError('DATABASE_DIRECT_URL is set without DATABASE_URL: set DATABASE_URL as well');
  const server = await startEmbedded({
    dataDir: config.DATA_DIR,
    role,
    maxConnections: neededConnections(config),
    log: (message) => log.info(message),
    ...(onLost ? { onLost } : {}),
  });
  const { connection } = server;
  return { connection, direct: connection, stop: () => server.stop(), embedded: true };
}

/** The connections of all processes in all cells of the embedded database. */
function neededConnections({ DATA_DIR, PROCESSES }: Config): number {
  const cells = knownCells(DATA_DIR);
  return CONNECTIONS.first + CONNECTIONS.more * (PROCESSES - 1 + PROCESSES * cells);
}

/** The number of cells besides the default one when the embedded database ran last. */
function knownCells(dataDir: string): number {
  try {
    return Number.parseInt(readFileSync(join(dataDir, CELLS_FILE), 'utf8'), 10) || 0;
  } catch {
    return 0; // there is no file
  }
}

/**
 * Stores the number of cells in the embedded database, for which the next start needs more connections.
 * Returns whether the running one has enough.
 */
export function rememberCells({ config }: Pick<Opened, 'config'>, count: number): boolean {
  if (config.DATABASE_URL !== undefined || count <= knownCells(config.DATA_DIR)) return true;
  writeFileSync(join(config.DATA_DIR, CELLS_FILE), `${count}\n`);
  return false;
}

/** The schema of a database after a migration, and the versions that were applied. */
export interface Migrated {
  /** Newer than that of this release, if a newer release made it and allows this one. */
  schema: number;
  applied: number[];
}

/**
 * Migrates all cells and closes them. Returns what it did, by cell, and why cells besides the default one
 * could not be migrated. Needs no key, except for cells with a URL of their own.
 */
export async function migrateDatabase(
  config: Config,
  report: (line: string) => void,
): Promise<{ migrated: Map<string, Migrated>; failures: StartError[] }> {
  makeDataDir(config.DATA_DIR);
  return withPlaces(config, async (main, others) => {
    const migrated = new Map([[main.cell, (await prepare(main, report)).migrated]]);
    const failures: StartError[] = [];
    for (const place of await others())
      try {
        migrated.set(place.cell, (await ofCell(place.cell, () => prepare(place, report))).migrated);
      } catch (error) {
        if (!(error instanceof StartError)) throw error;
        failures.push(error);
      }
    return { migrated, failures };
  });
}

/**
 * Runs `work` with the place of the default cell, and a function that returns those of the others once its
 * database has a schema. Changes nothing.
 */
export async function withPlaces<Result>(
  config: Config,
  work: (main: Place, others: () => Promise<Place[]>) => Promise<Result>,
): Promise<Result> {
  const log = createLogger({ level: 'silent' });
  const { stop, ...connected } = await connect(config, { role: 'client', log });
  const main: Place = { cell: DEFAULT_CELL, ...connected };
  const others = async () => {
    const db = openDatabase(main.direct, { size: 1, name: 'belfry cells' });
    try {
      const cells = await listCellsIfAny(db);
      if (cells.length === 0) return [];
      const keys = keysOf(config);
      const sealer =
        keys === undefined ? unusable('client', missingKey(config.DATA_DIR)) : createSealer(keys);
      return await Promise.all(
        cells.map((cell) => ofCell(cell.name, async () => placeOfCell(main, cell, sealer))),
      );
    } finally {
      await db.close();
    }
  };
  try {
    return await work(main, others);
  } finally {
    await stop();
  }
}

/** Adds the name of the cell to the message of a `StartError`. */
async function ofCell<Result>(cell: string, work: () => Promise<Result>): Promise<Result> {
  try {
    return await work();
  } catch (error) {
    if (!(error instanceof StartError || error instanceof CannotOpen)) throw error;
    throw new StartError(`cell ${cell}: ${error.message}`, { cause: error });
  }
}

/** Migrates the database, and reads the durability that it has by default, and whether it is distributed. */
async function prepare(
  place: Omit<Place, 'cell'>,
  report: (line: string) => void,
): Promise<{ migrated: Migrated; durability: Durability; isDistributed: boolean }> {
  const { connection, direct, schema } = place;
  const db = openDatabase(direct, { size: 1, name: 'belfry start' });
  const setting = direct === connection ? nameOfUrl(place) : nameOfDirectUrl(place);
  try {
    await checkSchema(db, schema).catch((error: unknown) => {
      throw error instanceof StartError ? error : unreachable(setting, connectionObstacle(error), error);
    });
    return {
      migrated: await migrated(db, setting, report),
      durability: await readDurability(db),
      isDistributed: await isOnWorker(db),
    };
  } finally {
    await db.close();
  }
}

/** Logs the durability of the server's connections. Throws if accepted broadcasts could be lost. */
function reportDurability(durability: Durability, log: Logger): void {
  log.info(durability, `The database commits with ${describeDurability(durability)}`);
  for (const { message, advice } of risksOf(durability)) {
    if (durability.synchronous_commit === 'off') throw new StartError(`${message}: ${advice}`);
    log.warn(`${message}: ${advice}`);
  }
}

async function migrated(db: Database, setting: string, report: (line: string) => void): Promise<Migrated> {
  const { schema, problems, warnings, migrations } = await planMigration(db).catch((error: unknown) => {
    throw unreachable(setting, connectionObstacle(error), error);
  });
  const [problem] = problems;
  if (problem !== undefined) throw new StartError(problem);
  if (migrations.length === 0) return { schema, applied: [] };
  warnings.forEach(report);
  const client = await db.connect();
  try {
    return { schema: newestSchema(), applied: await migrate(client, { observer: db, onWait: report }) };
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

/** What errors call the URL of `connection`. A cell with a URL of its own has no setting for it. */
function nameOfUrl(place: Omit<Place, 'cell'>): string {
  return hasOwnUrl(place) ? 'the URL of the cell' : 'DATABASE_URL';
}

function nameOfDirectUrl(place: Omit<Place, 'cell'>): string {
  return hasOwnUrl(place) ? 'the direct URL of the cell' : 'DATABASE_DIRECT_URL';
}

function hasOwnUrl({ schema, isBesideDefault }: Omit<Place, 'cell'>): boolean {
  return schema !== undefined && !isBesideDefault;
}

function unreachable(setting: string, { message, advice }: Obstacle, cause?: unknown): StartError {
  return new StartError(`the database of ${setting} ${message}: ${advice}`, { cause });
}

function codeOf(error: unknown): string | undefined {
  const code = error instanceof Error ? (error as NodeJS.ErrnoException).code : undefined;
  return typeof code === 'string' ? code : undefined;
}
