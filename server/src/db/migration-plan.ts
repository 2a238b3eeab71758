import type { Queryable } from './client.ts';
import { migrations } from './migrations.ts';
import { newestSchema, runningPrograms, type Schema, schemaObstacle } from './schema.ts';
import {
  type DatabaseFacts,
  type Obstacle,
  obstacleTo,
  obstacleToMigration,
  readFacts,
  readSchema,
} from './usability.ts';

/** The migrations of this release that a database does not have yet, and what prevents them. */
export interface MigrationPlan {
  /** The schema of the database. */
  schema: number;
  /** Servers that know this schema, or a newer one, may run after the migration. */
  oldestProgram: number;
  migrations: { version: number; name: string }[];
  /** The schemas that the running servers know; 0 for releases that do not report it. */
  running: number[];
  /** Why this release cannot migrate or use the database, and what to do. */
  problems: string[];
  /** What to do about running servers that the migration does not allow. */
  warnings: string[];
}

/** Plans the migration to this release's schema, and changes nothing. */
export async function planMigration(db: Queryable): Promise<MigrationPlan> {
  const facts = await readFacts(db);
  const obstacle = obstacleTo(facts);
  if (obstacle !== undefined) {
    const unknown = { schema: 0, oldestProgram: 0, migrations: [], running: [], warnings: [] };
    return { ...unknown, problems: [sentence(obstacle)] };
  }
  const schema = await readSchema(db, facts);
  const missing = migrations().filter(({ version }) => version > schema.version);
  const oldestProgram = Math.max(schema.oldestProgram, ...missing.map((one) => one.oldestProgram));
  const running = await runningPrograms(db);
  return {
    schema: schema.version,
    oldestProgram,
    migrations: missing.map(({ version, name }) => ({ version, name })),
    running,
    problems: problemsOf(schema, facts, missing.length),
    warnings: missing.length === 0 ? [] : aboutOutdated(running, oldestProgram),
  };
}

function sentence({ message, advice }: Obstacle): string {
  return `the database of DATABASE_URL: ${message}: ${advice}`;
}

function problemsOf(schema: Schema, facts: DatabaseFacts, missing: number): string[] {
  const newer = schemaObstacle(schema, newestSchema());
  if (newer !== undefined) return [`${newer}; start the newer release, or restore a backup`];
  const right = missing === 0 ? undefined : obstacleToMigration(facts);
  return right === undefined ? [] : [sentence(right)];
}

function aboutOutdated(running: readonly number[], oldestProgram: number): string[] {
  const outdated = running.filter((known) => known < oldestProgram);
  if (outdated.length === 0) return [];
  const known = outdated.map((one) => (one === 0 ? 'an older one' : one)).join(', ');
  return [
    `the migration requires servers that know schema ${oldestProgram}, and some that run know ${known}: ` +
      'update these to a release in between first, or stop them',
  ];
}
