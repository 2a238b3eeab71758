import { readConfig } from '../config.ts';
import { migrations } from '../db/migrate.ts';
import { createLogger } from '../lib/log.ts';
import { migrateDatabase } from '../open.ts';
import { print, printJson } from './output.ts';

/** `belfry migrate`: migrates the database before a start, which would do the same. */
export async function migrateCommand({ json }: { json?: boolean }): Promise<void> {
  const applied = await migrateDatabase(readConfig(), createLogger({ level: 'silent' }));
  const newest = migrations().at(-1)?.version ?? 0;
  if (json) return printJson({ schema: newest, applied });
  print(
    applied.length === 0
      ? `The database already has schema ${newest}.`
      : `The database now has schema ${newest}; applied: ${applied.join(', ')}.`,
  );
}
