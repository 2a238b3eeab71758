import { isCategoryKey } from '../../../contract/category.ts';
import { type Queryable, sql } from '../../../db/client.ts';
import { listStatements } from '../../../db/list-statements.ts';
import type { Cursor } from '../../../lib/cursor.ts';

export interface CategoryRow {
  id: string;
  /** JSON text, as it was saved. */
  config: string;
}

/** Returns the category config with this key, if there is one. */
export async function getCategory(
  db: Queryable,
  projectId: string,
  key: string,
): Promise<CategoryRow | undefined> {
  if (!isCategoryKey(key)) return undefined;
  const [row] = await db.query<CategoryRow>(selectCategory, [projectId, key]);
  return row;
}

/** Returns up to `limit` of the project's category configs beyond the cursor, nearest first. */
export async function listCategories(
  db: Queryable,
  projectId: string,
  { direction, id, limit }: Cursor,
): Promise<CategoryRow[]> {
  return db.query<CategoryRow>(LIST[direction], [projectId, id, limit]);
}

/** Counts the project's category configs. */
export async function countCategories(db: Queryable, projectId: string): Promise<number> {
  const [row] = await db.query<{ count: number }>(countAll, [projectId]);
  return row?.count ?? 0;
}

// Primary key.
const selectCategory = sql(
  'get_category',
  'select id, config::text as config from categories where project_id = $1 and key = $2',
);

// Index categories_listed.
const LIST = listStatements('categories', {
  select: 'id, config::text as config',
  from: 'categories',
  owner: 'project_id',
});

// Index categories_listed.
const countAll = sql(
  'count_categories',
  'select count(*)::int as count from categories where project_id = $1',
);
