import { readDatabaseUrl } from '../config.ts';
import { distributeSchema, hasCitus, placedSchemas } from '../db/citus.ts';
import type { Database, Queryable } from '../db/client.ts';
import { StartError } from '../db/embedded/start-error.ts';
import { runningPrograms } from '../db/schema.ts';
import { natsSubject } from '../domain/ground/bus/nats.ts';
import {
  type Cell,
  type CellUrls,
  createSchemaOf,
  DEFAULT_CELL,
  deleteCell,
  insertCell,
  problemOfCellName,
  schemaOfCell,
  sealedCell,
  updateCell,
  urlsOf,
} from '../domain/setup/cells/cells.ts';
import { countProjects, firstMissingProject, projectsOf } from '../domain/setup/cells/directory.ts';
import { describeConflicts, type IndexedProject, indexCells } from '../domain/setup/cells/index-cells.ts';
import { startedMove } from '../domain/setup/cells/move-project.ts';
import { listProjects } from '../domain/setup/projects/find.ts';
import { createLogger } from '../lib/log.ts';
import { currentSchema, type Opened, openCell, rememberCells } from '../open.ts';
import { workersOf } from './cell-workers.ts';
import { CommandError, UsageError } from './command.ts';
import { print, printJson, printTable } from './output.ts';
import { removeLostCell } from './remove-lost-cell.ts';
import { type CommandCells, reportFailures, withCells } from './with-cells.ts';
import { linked } from './with-context.ts';
import { withDatabase } from './with-database.ts';

// The migration that creates the directory. Older releases do not know cells.
const SCHEMA_OF_CELLS = 58;

/** `belfry cell add`: creates the tables of a cell, and enters it into the directory. */
export async function addCellCommand(
  name: string,
  {
    databaseUrl,
    directUrl,
    distribute = false,
    json,
  }: { databaseUrl?: string; directUrl?: string; distribute?: boolean; json?: boolean },
): Promise<void> {
  const problem = problemOfCellName(name);
  if (problem !== undefined) throw new UsageError(problem);
  if (databaseUrl === undefined && directUrl !== undefined)
    throw new UsageError('--direct-url needs --database-url');
  const urls = databaseUrl === undefined ? undefined : readUrls(databaseUrl, directUrl);
  const { cell, worker, notified, fits } = await withCells(async (cells) => {
    const { main, names } = cells;
    if (names.includes(name)) throw new CommandError(`there is a cell ${name} already: see belfry cell list`);
    await checkNodes(main, 'cells', SCHEMA_OF_CELLS);
    if (distribute) await onDatabase(main, urls, checkCitus);
    const notified = await linked(main);
    const schema = urls === undefined ? await createSchema(main, name) : await schemaAt(urls);
    const cell = sealedCell(main, { name, schema, urls });
    await checkAndMigrate(cells, cell);
    const worker = distribute ? await onDatabase(main, urls, (db) => placeOnWorker(db, schema)) : undefined;
    if (!(await insertCell(main.db, cell)))
      throw new CommandError(`there is a cell ${name} already: see belfry cell list`);
    const fits = rememberCells(main, names.length + 1);
    main.bus.publish({ type: 'cells_changed' });
    return { cell, worker, notified, fits };
  });
  if (json) return printJson({ name, schema: cell.schema, worker });
  const place = worker === undefined ? '' : ` on ${worker}`;
  print(`Cell ${name} is ready, in the schema ${cell.schema}${place}. Running servers open it now.`);
  print(`Create a project in it with: belfry project create <name> --cell ${name}`);
  if (!notified) print(NOT_NOTIFIED);
  if (!fits) print('Restart the server: the embedded database needs more connections for it.');
}

/** `belfry cell set`: changes how the database of a cell is reached. */
export async function setCellCommand(
  name: string,
  { databaseUrl, directUrl, json }: { databaseUrl: string; directUrl?: string; json?: boolean },
): Promise<void> {
  if (name === DEFAULT_CELL) throw new UsageError(`the URL of the cell ${DEFAULT_CELL} is DATABASE_URL`);
  const urls = readUrls(databaseUrl, directUrl);
  const { schema, notified } = await withCells(async (cells) => {
    const { main, names } = cells;
    if (!names.includes(name)) throw new CommandError(`there is no cell ${name}: see belfry cell list`);
    const schema = await schemaAt(urls);
    await checkProjects(main, name, urls);
    const cell = sealedCell(main, { name, schema, urls });
    await withCell(cells, cell, async () => {});
    const notified = await linked(main);
    await updateCell(main.db, cell);
    main.bus.publish({ type: 'cells_changed' });
    return { schema, notified };
  });
  if (json) return printJson({ name, schema });
  print(`Cell ${name} is in the schema ${schema} of that database. Running servers open it there now.`);
  if (!notified) print(NOT_NOTIFIED);
}

const NOT_NOTIFIED = 'A server that did not get the message opens it within half a minute.';

/** The URLs of the options. Throws a `UsageError` unless they are addresses of a PostgreSQL. */
function readUrls(databaseUrl: string, directUrl: string = databaseUrl): CellUrls {
  for (const [option, url] of Object.entries({ '--database-url': databaseUrl, '--direct-url': directUrl }))
    try {
      readDatabaseUrl(url);
    } catch (error) {
      throw new UsageError(`${option} ${error instanceof Error ? error.message : error}`);
    }
  return { url: databaseUrl, directUrl };
}

/** Throws if a database does not have all projects that the directory has in a cell. Writes nothing. */
async function checkProjects({ db }: Opened, name: string, { directUrl }: CellUrls): Promise<void> {
  const ids = (await projectsOf(db, name)).map(({ id }) => id);
  const missing = await withDatabase({ connectionString: directUrl }, '--database-url', (other) =>
    firstMissingProject(other, ids),
  );
  if (missing !== undefined)
    throw new CommandError(`the database of --database-url does not have the project ${missing} of ${name}`);
}

/** Throws if a node runs that does not know `schema`, which `what` needs. */
export async function checkNodes({ db }: Opened, what: string, schema: number): Promise<void> {
  const old = (await runningPrograms(db)).filter((known) => known < schema);
  if (old.length === 0) return;
  const known = old.map((one) => (one === 0 ? 'an unknown schema' : `schema ${one}`)).join(', ');
  throw new CommandError(
    `a server runs whose release does not know ${what} (it knows ${known}): ` +
      `update all servers to a release that knows schema ${schema} or newer first`,
  );
}

/** `belfry cell list`. */
export async function listCellsCommand({ json }: { json?: boolean }): Promise<void> {
  const records = await withCells(async ({ main, cells }) => {
    const counts = await countProjects(main.db);
    const { workers } = await workersOf(main, cells);
    const own = { cell: DEFAULT_CELL, schema: 'that of DATABASE_URL', database: 'that of DATABASE_URL' };
    return [
      { ...own, worker: null, projects: (await listProjects(main)).length },
      ...cells.map((cell) => ({
        cell: cell.name,
        schema: cell.schema,
        database: shownDatabase(main, cell),
        worker: workers.get(cell.name) ?? null,
        projects: counts.get(cell.name) ?? 0,
      })),
    ];
  });
  if (json) return printJson(records);
  const isDistributed = records.some(({ worker }) => worker !== null);
  printTable(
    records.map(({ worker, projects, ...record }) => ({
      ...record,
      ...(isDistributed && { worker: worker ?? '' }),
      projects: `${projects}`,
    })),
    '',
  );
}

/** `belfry cell remove`: of a cell without projects, whose tables remain, or of one whose data is lost. */
export async function removeCellCommand(
  name: string,
  { lost = false, yes = false, json }: { lost?: boolean; yes?: boolean; json?: boolean },
): Promise<void> {
  if (name === DEFAULT_CELL) throw new UsageError(`the cell ${DEFAULT_CELL} has the directory: it remains`);
  if (lost) return removeLostCell(name, { yes, json });
  if (yes) throw new UsageError('--yes needs --lost');
  const { schema } = await withCells(async ({ main, cells, named }) => {
    const opened = await named(name).catch((error: unknown) => {
      if (!(error instanceof StartError)) throw error;
      const remedy = `If its data is lost for ever: belfry cell remove ${name} --lost`;
      throw new CommandError(`${error.message}. ${remedy}`);
    });
    const projects = await listProjects(opened);
    if (projects.length > 0)
      throw new CommandError(
        `the cell ${name} still has projects (${projects.length}): it can only be removed empty`,
      );
    const move = await startedMove(main.db);
    if (move?.from === name || move?.to === name)
      throw new CommandError(
        `the move of project ${move.projectId} has not ended: finish or cancel it first`,
      );
    await linked(main);
    await deleteCell(main.db, name);
    main.bus.publish({ type: 'cells_changed' });
    return { schema: cells.find((cell) => cell.name === name)?.schema };
  });
  if (json) return printJson({ name, removed: true });
  print(
    `Cell ${name} was removed. Its tables remain: drop the schema ${schema} when all nodes have closed it.`,
  );
}

/** `belfry cell index`: writes into the directory which projects each cell has. */
export async function indexCellsCommand({ json }: { json?: boolean }): Promise<void> {
  const counts = await withCells(async ({ main, all }) => {
    const { contexts, failures } = await all();
    const found = new Map<string, IndexedProject[]>();
    for (const context of contexts) found.set(context.cell, await listProjects(context));
    const conflicts = describeConflicts(await indexCells(main.db, found));
    reportFailures([...failures, ...conflicts.map((conflict) => new CommandError(conflict))]);
    found.delete(main.cell);
    return Object.fromEntries([...found].map(([cell, projects]) => [cell, projects.length]));
  });
  if (json) return printJson(counts);
  for (const [name, count] of Object.entries(counts)) print(`${name}: ${count}`);
}

/** Without the password. */
function shownDatabase(main: Opened, cell: Cell): string {
  const urls = urlsOf(main, cell);
  if (urls === undefined) return 'that of DATABASE_URL';
  const url = URL.parse(urls.url);
  return url === null ? 'an invalid URL' : `${url.host}${url.pathname}`;
}

async function checkCitus(db: Queryable): Promise<void> {
  if (!(await hasCitus(db)))
    throw new CommandError('--distribute needs a database with the extension Citus 12 or newer');
}

/** Distributes the schema of an empty cell. Returns its worker. */
async function placeOnWorker(db: Queryable, schema: string): Promise<string | undefined> {
  await distributeSchema(db, schema);
  return (await placedSchemas(db)).find((one) => one.schema === schema)?.worker;
}

/** Creates the schema of a cell in the database of the default one. */
async function createSchema(main: Opened, name: string): Promise<string> {
  const schema = schemaOfCell(name);
  await onDatabase(main, undefined, (db) => createSchemaOf(db, schema));
  return schema;
}

/** The schema that connections of these URLs use. */
async function schemaAt({ directUrl }: CellUrls): Promise<string> {
  const schema = await withDatabase({ connectionString: directUrl }, '--database-url', currentSchema);
  if (schema !== undefined) return schema;
  throw new CommandError(
    'the user of --database-url has no schema: create the one that its search_path names',
  );
}

/** Creates the tables. Throws a `CommandError` if the cell cannot be used. */
function checkAndMigrate(cells: CommandCells, cell: Cell): Promise<void> {
  return withCell(cells, cell, async (opened) => {
    if ((await listProjects(opened)).length > 0)
      throw new CommandError('there are projects in the database already: a new cell is empty');
  });
}

/** Opens a cell as the servers will, unless its tables are those of another one. */
async function withCell(
  { main, all }: CommandCells,
  cell: Cell,
  work: (opened: Opened) => Promise<void>,
): Promise<void> {
  // Cells that cannot be reached are left out: this cell can be reached, so it is another one.
  const { contexts } = await all();
  const opened = await openCell(main, cell, { role: 'client', log: createLogger({ level: 'silent' }) });
  try {
    const identity = await natsSubject(opened.db);
    for (const other of contexts.filter((one) => one.cell !== cell.name))
      if (identity === (await natsSubject(other.db)))
        throw new CommandError(
          `these are the tables of the cell ${other.cell}: choose another schema or database`,
        );
    await work(opened);
  } finally {
    await opened.close();
  }
}

/** Runs `work` on the database of these URLs, or on that of the default cell. */
function onDatabase<Result>(
  { place: { direct } }: Opened,
  urls: CellUrls | undefined,
  work: (db: Database) => Promise<Result>,
): Promise<Result> {
  return urls === undefined
    ? withDatabase(direct, 'DATABASE_URL', work)
    : withDatabase({ connectionString: urls.directUrl }, '--database-url', work);
}
