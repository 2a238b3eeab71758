import { readConfig } from '../config.ts';
import { openDatabase } from '../db/client.ts';
import { type MigrationPlan, planMigration } from '../db/migration-plan.ts';
import { newestSchema } from '../db/schema.ts';
import { connectionObstacle } from '../db/usability.ts';
import { createLogger } from '../lib/log.ts';
import { connect, migrateDatabase } from '../open.ts';
import { CommandError } from './command.ts';
import { print, printJson } from './output.ts';

/** `belfry migrate`: migrates the database before a start, which would do the same. */
export async function migrateCommand(options: { json?: boolean; dryRun?: boolean }): Promise<void> {
  if (options.dryRun) return showPlan(options);
  const report = (line: string) => process.stderr.write(`${line}\n`);
  const applied = await migrateDatabase(readConfig(), report);
  const schema = newestSchema();
  if (options.json) return printJson({ schema, applied });
  print(
    applied.length === 0
      ? `The database already has schema ${schema}.`
      : `The database now has schema ${schema}; applied: ${applied.join(', ')}.`,
  );
}

/** Exit code 1 if the migration fails, or the running servers do not allow it. */
async function showPlan({ json }: { json?: boolean }): Promise<void> {
  const plan = await readPlan();
  const problems = [...plan.problems, ...plan.warnings];
  if (problems.length > 0) process.exitCode = 1;
  if (json) {
    const { schema, oldestProgram, migrations, running } = plan;
    return printJson({
      schema,
      newest: newestSchema(),
      oldest_program: oldestProgram,
      migrations,
      running,
      problems,
    });
  }
  print(describe(plan));
  for (const { version, name } of plan.migrations) print(`  ${version} ${name}`);
  for (const problem of problems) console.error(`belfry: ${problem}`);
}

function describe({ schema, oldestProgram, migrations }: MigrationPlan): string {
  const allowed = `servers that know schema ${oldestProgram} or newer may run`;
  if (schema > newestSchema())
    return `The database has schema ${schema}, made by a newer release; ${allowed}.`;
  if (migrations.length === 0) return `The database already has schema ${schema}; ${allowed}.`;
  return `The database has schema ${schema}. These migrations would run, and then ${allowed}:`;
}

async function readPlan(): Promise<MigrationPlan> {
  const { direct, stop } = await connect(readConfig(), {
    role: 'client',
    log: createLogger({ level: 'silent' }),
  });
  const db = openDatabase(direct, { size: 1, name: 'belfry migrate' });
  try {
    return await planMigration(db);
  } catch (error) {
    const { message, advice } = connectionObstacle(error);
    throw new CommandError(`the database ${message}: ${advice}`);
  } finally {
    await db.close();
    await stop();
  }
}
