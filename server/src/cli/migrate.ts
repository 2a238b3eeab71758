import { migrations } from '../db/migrate.ts';
import { print, printJson } from './output.ts';
import { withContext } from './with-context.ts';

/** `belfry migrate`: what every start does too, for those who want it done before. */
export async function migrateCommand({ json }: { json?: boolean }): Promise<void> {
  const applied = await withContext(async ({ migrated }) => migrated);
  const newest = migrations().at(-1)?.version ?? 0;
  if (json) return printJson({ schema: newest, applied });
  print(
    applied.length === 0
      ? `The database has schema ${newest} already: nothing to do.`
      : `The database has schema ${newest} now; applied: ${applied.join(', ')}.`,
  );
}
