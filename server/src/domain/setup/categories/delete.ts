import { isCategoryKey } from '../../../contract/category.ts';
import { type Queryable, sql } from '../../../db/client.ts';
import type { Bus } from '../../ground/bus/messages.ts';
import { newEventId } from '../../ground/events/record.ts';

/**
 * Deletes a category's config, so that its broadcasts use every channel. Returns false if there is none with
 * this key.
 */
export async function deleteCategory(
  { db, bus }: { db: Queryable; bus: Bus },
  projectId: string,
  key: string,
): Promise<boolean> {
  if (!isCategoryKey(key)) return false;
  const [deleted] = await db.query<{ key: string }>(removeCategory, [
    projectId,
    key,
    newEventId(),
    JSON.stringify({ payload: { key } }),
  ]);
  if (deleted === undefined) return false;
  bus.publish({ type: 'project_changed', projectId });
  return true;
}

// Primary key.
const removeCategory = sql(
  'delete_category',
  `with deleted as (
    delete from categories
    where project_id = $1 and key = $2
    returning key
  ),
  event as (
    insert into events (project_id, id, type, details)
    select $1, $3, 'category.deleted', $4
    from deleted
  )
  select key from deleted`,
);
