import type { Config } from '../../config.ts';
import { durabilityOfWorkers, isOnWorker } from '../../db/citus.ts';
import { type Database, openDatabase, sql } from '../../db/client.ts';
import { type Risk, risksOf } from '../../db/durability.ts';
import { StartError } from '../../db/embedded/start-error.ts';
import { newestSchema, schemaObstacle } from '../../db/schema.ts';
import { connectionObstacle, obstacleTo, readSchema } from '../../db/usability.ts';
import { type Cell, listCells } from '../../domain/setup/cells/cells.ts';
import { CellDirectory } from '../../domain/setup/cells/directory.ts';
import { startedMove } from '../../domain/setup/cells/move-project.ts';
import { listProjects } from '../../domain/setup/projects/find.ts';
import { keyFit } from '../../domain/setup/projects/sealing-key.ts';
import { systemClock } from '../../lib/clock.ts';
import { CannotOpen, type Sealer } from '../../lib/seal.ts';
import { currentSchema, obstacleOfSchema, type Place, placeOfCell } from '../../open.ts';
import { askFacts, MAX_CLOCK_MS } from './database.ts';
import { type Finding, ok, problem, warning } from './finding.ts';
import { sealerOf } from './sealing.ts';

/** Checks the cells besides the default one, whose database is `db` at `main`. */
export async function checkCells(config: Config, main: Place, db: Database): Promise<Finding[]> {
  const cells = await listCells(db);
  const { sealer } = sealerOf(config);
  if (cells.length === 0 || sealer === undefined) return []; // a missing key is reported by other checks
  const directory = new CellDirectory({ db, clock: systemClock });
  return [
    ...(await checkMove(db)),
    ...(await Promise.all(cells.map((cell) => checkCell(cell, { main, directory, sealer })))),
  ];
}

/** Reports a move that has not ended: it may have been interrupted. */
async function checkMove(db: Database): Promise<Finding[]> {
  const [table] = await db.query<{ exists: boolean }>(findMoves);
  const move = table?.exists ? await startedMove(db) : undefined;
  if (move === undefined) return [];
  const command = `belfry project move ${move.projectId} --to ${move.to}`;
  return [
    warning(
      'move',
      `the project ${move.projectId} moves from the cell ${move.from} to ${move.to}`,
      `if the command does not run any more, run: ${command}`,
    ),
  ];
}

interface Around {
  main: Place;
  directory: CellDirectory;
  sealer: Sealer;
}

/** The first problem of a cell. */
async function checkCell(cell: Cell, { main, directory, sealer }: Around): Promise<Finding> {
  const check = `cell ${cell.name}`;
  let db: Database | undefined;
  try {
    db = openDatabase(placeOfCell(main, cell, sealer).direct, { size: 1, name: 'belfry doctor' });
    const { facts, clockMs } = await askFacts(db);
    const otherSchema = obstacleOfSchema(await currentSchema(db), cell.schema);
    if (otherSchema !== undefined) return problem(check, otherSchema.message, otherSchema.advice);
    const obstacle = obstacleTo(facts);
    if (obstacle !== undefined) return problem(check, obstacle.message, obstacle.advice);
    const { version, ...rest } = await readSchema(db, facts);
    const newer = schemaObstacle({ version, ...rest }, newestSchema());
    if (newer !== undefined) return problem(check, newer, 'run the newer release');
    if (version < newestSchema())
      return warning(check, `schema ${version}, this release has ${newestSchema()}`, 'run: belfry migrate');
    if (Math.abs(clockMs) > MAX_CLOCK_MS)
      return problem(
        check,
        `the clock of its database is ${(Math.abs(clockMs) / 1000).toFixed(1)} s ` +
          `${clockMs > 0 ? 'ahead of' : 'behind'} that of this machine`,
        'set both by NTP: a node does not open a cell whose clock differs by more than 30 s',
      );
    const risk = await riskOfWorkers(db);
    if (risk !== undefined) return warning(check, risk.message, risk.advice);
    return await checkContent(check, cell, { db, directory, sealer });
  } catch (error) {
    if (error instanceof StartError)
      return problem(check, error.message, 'only an empty cell can be removed, and added in another place');
    if (error instanceof CannotOpen)
      return problem(check, `its URL cannot be decrypted: ${error.message}`, 'add the key that encrypted it');
    const { message, advice } = connectionObstacle(error);
    return problem(check, message, advice);
  } finally {
    await db?.close();
  }
}

/** The first setting with which a worker of Citus could lose what was accepted. */
async function riskOfWorkers(db: Database): Promise<Risk | undefined> {
  if (!(await isOnWorker(db))) return undefined;
  const [found] = (await durabilityOfWorkers(db)).flatMap(({ worker, ...durability }) =>
    risksOf(durability).map(({ message, advice }) => ({
      message: `on its worker ${worker}, ${message}`,
      advice: `on ${worker}, ${advice}`,
    })),
  );
  return found;
}

/** Checks that the server can open the secrets of the cell, and finds its projects there. */
async function checkContent(
  check: string,
  { name }: Cell,
  { db, directory, sealer }: Omit<Around, 'main'> & { db: Database },
): Promise<Finding> {
  const fit = await keyFit({ db, sealer });
  if (fit.kind === 'other_keys' || fit.kind === 'claimed')
    return problem(
      check,
      'its secrets were encrypted with another SECRET_KEY',
      'set both keys, the own one first',
    );
  const projects = await listProjects({ db });
  const lost: string[] = [];
  for (const { id, name: project } of projects)
    if ((await directory.find({ projectId: id })) !== name) lost.push(project);
  if (lost.length > 0)
    return problem(
      check,
      `the directory does not know that it has the projects ${lost.slice(0, 10).join(', ')}`,
      'run: belfry cell index',
    );
  const count = `${projects.length} project${projects.length === 1 ? '' : 's'}`;
  return ok(check, `its database can be used, with ${count}`);
}

const findMoves = sql('doctor_find_moves', "select to_regclass('project_moves') is not null as exists");
