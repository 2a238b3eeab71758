import { randomBytes } from 'node:crypto';
import { expect, inject } from 'vitest';
import { createProjectKeysIn } from './cells.ts';
import { runCommand } from './cli.ts';
import { createTestDatabase, type TestDatabase } from './database.ts';
import { projectWith, startTestService, type TestProject, type TestService, until } from './service.ts';

/**
 * A node with three cells: the default one, `near` in another schema, and `far` in another database. Behind a
 * connection pooler, where no cell has a schema of its own, `near` has a database too.
 */
export interface ThreeCells {
  service: TestService;
  /** The database of `far`. */
  elsewhere: TestDatabase;
  /** The settings of commands on the database of the service. */
  settings: Record<string, string>;
  /** Runs a command that must succeed. Returns what it prints as JSON. */
  // biome-ignore lint/suspicious/noExplicitAny: a test reads what it expects, and fails if it is missing
  command(...args: string[]): Promise<any>;
  /** Creates a project in a cell, when that is open. */
  createIn(cell: string, name: string): Promise<TestProject>;
  stop(): Promise<void>;
}

export async function startThreeCells(options: { logLevel?: 'info' } = {}): Promise<ThreeCells> {
  const SECRET_KEY = randomBytes(32).toString('hex');
  const service = await startTestService({ settings: { SECRET_KEY }, ...options });
  const elsewhere = await createTestDatabase();
  const nearby = inject('testPooler') === undefined ? undefined : await createTestDatabase();
  const { DATA_DIR, DATABASE_URL = '', DATABASE_DIRECT_URL = DATABASE_URL } = service.context.config;
  const settings = { DATA_DIR, DATABASE_URL: DATABASE_DIRECT_URL, SECRET_KEY };
  const command: ThreeCells['command'] = async (...args) => {
    const { code, out, err } = await runCommand([...args, '--json'], settings);
    expect({ code, err }).toEqual({ code: 0, err: '' });
    return JSON.parse(out);
  };
  await command('cell', 'add', 'near', ...(nearby ? addressOf(nearby) : []));
  await command('cell', 'add', 'far', ...addressOf(elsewhere));
  await until(
    () => service.contexts().length,
    (cells) => cells === 3,
  );
  return {
    service,
    elsewhere,
    settings,
    command,
    async createIn(cell, name) {
      await until(
        () => service.contexts().some((context) => context.cell === cell),
        (isOpen) => isOpen,
      );
      return projectWith(() => service.address, await createProjectKeysIn(service, cell, name));
    },
    async stop() {
      await service.stop(); // ends connections of all kinds, which tests leave open
      await elsewhere.drop();
      await nearby?.drop();
    },
  };
}

/** The options of `belfry cell add`. */
function addressOf({ settings: { DATABASE_URL = '', DATABASE_DIRECT_URL } }: TestDatabase): string[] {
  const direct = DATABASE_DIRECT_URL === undefined ? [] : ['--direct-url', DATABASE_DIRECT_URL];
  return ['--database-url', DATABASE_URL, ...direct];
}
