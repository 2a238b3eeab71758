import type { ImportFailure } from '../../../contract/user-import.ts';
import { type Queryable, sql } from '../../../db/client.ts';
import { unpackJson } from '../../../lib/packed-json.ts';

/** An import of users without its failures. */
export interface ImportRow {
  id: string;
  status: 'enqueued' | 'processing' | 'processed';
  total: number;
  done: number;
  created: number;
  updated: number;
  failed: number;
  created_at: Date;
  processed_at: Date | null;
}

/** Returns an import of the project; undefined if there is none. */
export async function getImport(
  db: Queryable,
  projectId: string,
  id: string,
): Promise<ImportRow | undefined> {
  const [row] = await db.query<ImportRow>(selectImport, [id, projectId]);
  return row;
}

/** Returns the rows of an import that failed so far, in their order. */
export async function importFailures(db: Queryable, id: string): Promise<ImportFailure[]> {
  const pages = await db.query<{ failures: Buffer }>(selectFailures, [id]);
  return pages.flatMap(({ failures }) => JSON.parse(unpackJson(failures)) as ImportFailure[]);
}

// Primary keys.
const selectImport = sql(
  'get_import',
  `select id, status, total, done, created, updated, failed, created_at, processed_at
  from user_imports
  where id = $1 and project_id = $2`,
);
const selectFailures = sql(
  'import_failures',
  `select failures
  from user_import_pages
  where import_id = $1 and rows is null and failures is not null
  order by page`,
);
