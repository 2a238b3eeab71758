import { existsSync } from 'node:fs';
import { open } from 'node:fs/promises';
import { join } from 'node:path';
import { readConfig } from '../config.ts';
import type { Moved, MoveOptions, Progressed } from '../db/backup.ts';
import { openDatabase } from '../db/client.ts';
import { restore } from '../db/restore.ts';
import { createSchemaOf } from '../domain/setup/cells/cells.ts';
import { indexProjects } from '../domain/setup/cells/directory.ts';
import { listProjects } from '../domain/setup/projects/find.ts';
import type { Place } from '../open.ts';
import { fileOfCell } from './backup.ts';
import { print, printJson } from './output.ts';
import { movedText, progress } from './progress.ts';
import { withConnection } from './with-connection.ts';

/** `belfry restore`: restores everything or nothing, into an empty database. */
export async function restoreCommand(file: string, { json }: { json?: boolean }): Promise<void> {
  const shown = progress();
  const onProgress = (moved: Progressed) => shown.show(movedText(moved));
  const { moved, cells, missing } = await withConnection(file, async (main, others) => {
    const moved = await restoreFrom(file, { connection: main.direct, onProgress });
    const cells: { cell: string; file: string; rows: number }[] = [];
    const missing: string[] = [];
    for (const place of await others()) {
      const source = fileOfCell(file, place.cell);
      if (existsSync(source)) {
        await createSchema(main, place);
        const { rows } = await restoreFrom(source, { connection: place.direct, onProgress });
        await enterProjects(main, place);
        cells.push({ cell: place.cell, file: source, rows });
      } else missing.push(source);
    }
    return { moved, cells, missing };
  }).finally(() => shown.end());
  for (const source of missing) console.error(`belfry: ${source} is missing, so its cell was not restored`);
  if (missing.length > 0) process.exitCode = 1;
  const { schema, tables, rows } = moved;
  if (json) return printJson({ file, schema, tables, rows, ...(cells.length > 0 ? { cells } : {}) });
  print(`Restored ${rows} rows of schema ${schema}.`);
  for (const one of cells) print(`Restored ${one.rows} rows of the cell ${one.cell}.`);
  const { SECRET_KEY, DATA_DIR } = readConfig();
  const key = join(DATA_DIR, 'secret.key');
  if (SECRET_KEY.length === 0 && !existsSync(key))
    print(`Before the next start, copy the secret.key of the backed-up server to ${key}`);
}

async function restoreFrom(file: string, options: MoveOptions): Promise<Moved> {
  const handle = await open(file);
  return restore(options, handle.createReadStream());
}

/** Creates the schema of a cell that lives in the database of the default one. */
async function createSchema(main: Place, { schema, isBesideDefault }: Place): Promise<void> {
  if (schema === undefined || !isBesideDefault) return;
  const db = openDatabase(main.direct, { size: 1, name: 'belfry restore' });
  await createSchemaOf(db, schema).finally(() => db.close());
}

/** Enters the projects of a restored cell into the directory, which may be older. */
async function enterProjects(main: Place, { cell, direct }: Place): Promise<void> {
  const db = openDatabase(main.direct, { size: 1, name: 'belfry restore' });
  const ofCell = openDatabase(direct, { size: 1, name: 'belfry restore' });
  try {
    await indexProjects(db, cell, await listProjects({ db: ofCell }));
  } finally {
    await Promise.all([db.close(), ofCell.close()]);
  }
}
