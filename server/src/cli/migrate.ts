import { readConfig } from '../config.ts';
import { openDatabase } from '../db/client.ts';
import { type MigrationPlan, planMigration } from '../db/migration-plan.ts';
import { newestSchema } from '../db/schema.ts';
import { connectionObstacle } from '../db/usability.ts';
import { DEFAULT_CELL } from '../domain/setup/cells/cells.ts';
import { type Migrated, migrateDatabase, type Place, withPlaces } from '../open.ts';
import { CommandError } from './command.ts';
import { print, printJson } from './output.ts';
import { reportFailures } from './with-cells.ts';

/**
 * `belfry migrate`: migrates all cells before a start, which would do the same. If another cell than the
 * default one cannot be migrated, the rest is, and the exit code is 1.
 */
export async function migrateCommand(options: { json?: boolean; dryRun?: boolean }): Promise<void> {
  if (options.dryRun) return showPlan(options);
  const report = (line: string) => process.stderr.write(`${line}\n`);
  const { migrated, failures } = await migrateDatabase(readConfig(), report);
  reportFailures(failures);
  const { [DEFAULT_CELL]: own, ...cells } = Object.fromEntries(migrated);
  if (own === undefined) throw new Error('the database was not migrated');
  const others = Object.entries(cells);
  if (options.json) {
    const ofCells = Object.fromEntries(others.map(([name, { applied }]) => [name, applied]));
    return printJson({ ...own, ...(others.length === 0 ? {} : { cells: ofCells }) });
  }
  print(`The database ${afterwards(own)}`);
  for (const [cell, ofCell] of others) print(`The cell ${cell} ${afterwards(ofCell)}`);
}

function afterwards({ schema, applied }: Migrated): string {
  if (applied.length > 0) return `now has schema ${schema}; applied: ${applied.join(', ')}.`;
  return `already has schema ${schema}${schema > newestSchema() ? ', made by a newer release' : ''}.`;
}

/** Exit code 1 if the migration fails, or the running servers do not allow it. */
async function showPlan({ json }: { json?: boolean }): Promise<void> {
  const { plans, failures } = await readPlans();
  reportFailures(failures);
  const { [DEFAULT_CELL]: own, ...others } = plans;
  if (own === undefined) throw new Error('there is no plan for the database');
  const cells = Object.entries(others);
  if ([own, ...Object.values(others)].some((plan) => problemsOf(plan).length > 0)) process.exitCode = 1;
  if (json) {
    const ofCells = Object.fromEntries(cells.map(([name, plan]) => [name, toRecord(plan)]));
    return printJson({ ...toRecord(own), ...(cells.length === 0 ? {} : { cells: ofCells }) });
  }
  show(own);
  for (const [name, plan] of cells) {
    print(`\nCell ${name}:`);
    show(plan);
  }
}

function toRecord(plan: MigrationPlan) {
  const { schema, oldestProgram, migrations, running } = plan;
  const known = { schema, newest: newestSchema(), oldest_program: oldestProgram };
  return { ...known, migrations, running, problems: problemsOf(plan) };
}

function show(plan: MigrationPlan): void {
  print(describe(plan));
  for (const { version, name } of plan.migrations) print(`  ${version} ${name}`);
  for (const problem of problemsOf(plan)) console.error(`belfry: ${problem}`);
}

function problemsOf({ problems, warnings }: MigrationPlan): string[] {
  return [...problems, ...warnings];
}

function describe({ schema, oldestProgram, migrations }: MigrationPlan): string {
  const allowed = `servers that know schema ${oldestProgram} or newer may run`;
  if (schema > newestSchema())
    return `The database has schema ${schema}, made by a newer release; ${allowed}.`;
  if (migrations.length === 0) return `The database already has schema ${schema}; ${allowed}.`;
  return `The database has schema ${schema}. These migrations would run, and then ${allowed}:`;
}

/** The plans of all cells, by name, and why others have none. */
function readPlans(): Promise<{ plans: Record<string, MigrationPlan>; failures: CommandError[] }> {
  return withPlaces(readConfig(), async (main, others) => {
    const plans = { [main.cell]: await readPlan(main, 'the database') };
    const failures: CommandError[] = [];
    for (const place of await others())
      try {
        plans[place.cell] = await readPlan(place, `the cell ${place.cell}`);
      } catch (error) {
        if (!(error instanceof CommandError)) throw error;
        failures.push(error);
      }
    return { plans, failures };
  });
}

async function readPlan({ direct }: Place, what: string): Promise<MigrationPlan> {
  const db = openDatabase(direct, { size: 1, name: 'belfry migrate' });
  try {
    return await planMigration(db);
  } catch (error) {
    const { message, advice } = connectionObstacle(error);
    throw new CommandError(`${what} ${message}: ${advice}`);
  } finally {
    await db.close();
  }
}
