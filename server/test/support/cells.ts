import { inject } from 'vitest';
import type { Service } from '../../src/app.ts';
import { inSchema } from '../../src/db/client.ts';
import { migrate } from '../../src/db/migrate.ts';
import {
  createSchemaOf,
  DEFAULT_CELL,
  insertCell,
  schemaOfCell,
  sealedCell,
} from '../../src/domain/setup/cells/cells.ts';
import { assignToCell } from '../../src/domain/setup/cells/directory.ts';
import { CITUS, createDistributedCell } from './citus.ts';
import { createTestDatabase, type TestDatabase } from './database.ts';
import { PATIENCE_MS } from './patience.ts';
import { createProjectKeys, type ProjectKeys } from './project-keys.ts';
import { withClient } from './with-client.ts';

const templates = new Map<number, Promise<string>>();

/**
 * Creates a database for a service that gets so many cells by `addCells`. It is a copy of one where their
 * tables exist: to migrate two schemas costs as much as three services.
 */
export async function createDatabaseForCells(count: number): Promise<TestDatabase> {
  if (count < 1 || CITUS !== undefined || inject('testPooler') !== undefined) return createTestDatabase();
  const template = templates.get(count) ?? createTemplate(count);
  templates.set(count, template);
  return createTestDatabase(await template);
}

/** It stays until the run ends. */
async function createTemplate(count: number): Promise<string> {
  const { connection } = await createTestDatabase();
  for (const name of namesOf(count)) {
    const schema = schemaOfCell(name);
    await withClient(connection, (client) => client.query(`create schema ${schema}`));
    await withClient(inSchema(connection, schema), (client) => migrate(client));
  }
  return connection.database ?? '';
}

const namesOf = (count: number) => Array.from({ length: Math.max(0, count) }, (_, index) => `c${index + 1}`);

/** Adds cells to the database of a service. Resolves with the names of all when they are open. */
export async function addCells(
  { context, contexts }: Pick<Service, 'context' | 'contexts'>,
  count: number,
): Promise<string[]> {
  const names = namesOf(count);
  for (const name of names) {
    const cell = await (inject('testPooler') === undefined ? newSchema(context, name) : newDatabase(name));
    await insertCell(context.db, sealedCell(context, cell));
  }
  if (count > 0) context.bus.publish({ type: 'cells_changed' });
  const deadline = Date.now() + PATIENCE_MS;
  while (contexts().length <= count) {
    if (Date.now() > deadline) throw new Error('the cells were not opened');
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
  return [...names, DEFAULT_CELL];
}

type NewCell = Parameters<typeof sealedCell>[1];

async function newSchema(context: Service['context'], name: string): Promise<NewCell> {
  const schema = schemaOfCell(name);
  await createSchemaOf(context.db, schema);
  if (CITUS !== undefined) await createDistributedCell(context.place.direct, schema);
  return { name, schema, urls: undefined };
}

/** For a connection pooler, behind which no cell has a schema of its own. It stays until the run ends. */
async function newDatabase(name: string): Promise<NewCell> {
  const { settings, url } = await createTestDatabase();
  return { name, schema: 'public', urls: { url: settings.DATABASE_URL ?? url, directUrl: url } };
}

/** The context of a cell of a service. */
export function contextIn({ contexts }: Pick<Service, 'contexts'>, cell: string): Service['context'] {
  const context = contexts().find((one) => one.cell === cell);
  if (context === undefined) throw new Error(`the cell ${cell} is not open`);
  return context as Service['context']; // the context of a server has all members of that of its database
}

/** Creates a project in a cell. */
export async function createProjectKeysIn(
  service: Pick<Service, 'context' | 'contexts'>,
  cell: string,
  name: string,
): Promise<ProjectKeys> {
  const keys = await createProjectKeys(contextIn(service, cell), name);
  if (cell !== DEFAULT_CELL) await assignToCell(service.context.db, { ...keys, cell });
  return keys;
}
