import { randomBytes } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect } from 'vitest';
import { openDatabase } from '../../src/db/client.ts';
import { insertCell, sealedCell } from '../../src/domain/setup/cells/cells.ts';
import { createSealer } from '../../src/lib/seal.ts';
import { type Ended, runCommand } from './cli.ts';
import { createTestDatabase, type TestDatabase } from './database.ts';

/** An installation without a server. Its cells, besides the default one, have databases of their own. */
export interface Installation<Cell extends string> {
  /** A new folder. The data directory is in it. */
  folder: string;
  /** The default cell is in `main`. */
  databases: Record<Cell | 'main', TestDatabase>;
  /** The settings of commands. */
  settings: Record<string, string>;
  run(...args: string[]): Promise<Ended>;
  /** Runs a command that must succeed. Returns what it prints as JSON. */
  // biome-ignore lint/suspicious/noExplicitAny: a test reads what it expects, and fails if it is missing
  command(...args: string[]): Promise<any>;
  create(name: string, cell: string): Promise<{ project_id: string; api_key: string }>;
  /** Drops the database of a cell. */
  lose(cell: Cell): Promise<void>;
  delete(): Promise<void>;
}

/** Creates an installation with these cells, as `belfry cell add` enters them. */
export async function createInstallation<Cell extends string>(
  ...cells: readonly Cell[]
): Promise<Installation<Cell>> {
  const folder = await mkdtemp(join(tmpdir(), 'belfry-cells-'));
  const key = randomBytes(32);
  const main = await createTestDatabase();
  const databases = { main } as Record<Cell | 'main', TestDatabase>;
  const db = openDatabase(main.connection, { size: 1, name: 'test' });
  const sealer = createSealer([key]);
  for (const name of cells) {
    const database = await createTestDatabase();
    databases[name] = database;
    const urls = { url: database.url, directUrl: database.url };
    await insertCell(db, sealedCell({ sealer }, { name, schema: 'public', urls }));
  }
  await db.close();
  const settings = {
    DATABASE_URL: main.url,
    DATA_DIR: join(folder, 'data'),
    SECRET_KEY: key.toString('hex'),
  };
  const run = (...args: string[]) => runCommand(args, settings);
  const command: Installation<Cell>['command'] = async (...args) => {
    const { code, out, err } = await run(...args, '--json');
    expect({ code, err }).toEqual({ code: 0, err: '' });
    return JSON.parse(out);
  };
  const drop = (names: readonly (Cell | 'main')[]) =>
    Promise.all(names.map((name) => databases[name].drop()));
  const lost: Cell[] = [];
  return {
    ...{ folder, databases, settings, run, command },
    create: (name, cell) => command('project', 'create', name, '--cell', cell),
    async lose(cell) {
      lost.push(cell);
      await drop([cell]);
    },
    async delete() {
      await drop(['main', ...cells.filter((cell) => !lost.includes(cell))]);
      await rm(folder, { recursive: true, force: true });
    },
  };
}
