import { type Database, sql } from '../../../db/client.ts';
import { newId } from '../../../lib/ids.ts';
import { activeSpan } from '../../../lib/tracing.ts';
import { enqueue } from '../../../queue/enqueue.ts';
import { BULK } from '../../../queue/jobs.ts';
import { getImport, type ImportRow } from './get.ts';

/** The rows of a page, at most 1000. */
export interface ImportPage {
  /** The number of rows. */
  size: number;
  /** The valid rows: `[row, user]` for each, as packed JSON. */
  rows: Buffer;
  /** The others: ImportFailure for each, as packed JSON. */
  failures: Buffer | null;
}

/** Stores an import with the job of its first page. */
export function createImport(
  { db }: { db: Pick<Database, 'transaction'> },
  projectId: string,
  pages: readonly ImportPage[],
): Promise<ImportRow> {
  const id = newId();
  return db.transaction(async (tx) => {
    await tx.query(insertImport, [id, projectId, pages.reduce((sum, { size }) => sum + size, 0)]);
    await tx.query(insertPages, [
      id,
      pages.map((page) => page.rows),
      pages.map((page) => page.failures),
      pages.map((page) => page.size),
    ]);
    const traceparent = activeSpan()?.traceparent;
    const payload = { import_id: id, page: 0, traceparent };
    await enqueue(tx, [{ kind: 'import_users', projectId, priority: BULK, weight: 1, payload }]);
    const created = await getImport(tx, projectId, id);
    if (created === undefined) throw new Error(`import ${id} does not exist after it was stored`);
    return created;
  });
}

const insertImport = sql(
  'insert_import',
  `insert into user_imports (id, project_id, status, total, created_at)
  values ($1, $2, 'enqueued', $3, now())`,
);
const insertPages = sql(
  'insert_import_pages',
  `insert into user_import_pages (import_id, page, rows, failures, size)
  select $1, page - 1, rows, failures, size
  from unnest($2::bytea[], $3::bytea[], $4::int[]) with ordinality as p (rows, failures, size, page)`,
);
