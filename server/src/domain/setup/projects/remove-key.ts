import { type Queryable, sql } from '../../../db/client.ts';
import type { Bus } from '../../ground/bus/messages.ts';

/**
 * Deletes a former key of a project, so that it does not verify links either. Returns `valid` if it has not
 * ended yet, and `unknown` if the project has no former key of that id.
 */
export async function removeKey(
  { db, bus }: { db: Queryable; bus: Bus },
  projectId: string,
  id: string,
): Promise<'removed' | 'valid' | 'unknown'> {
  const removed = await db.query(deleteKey, [projectId, id]);
  if (removed.length > 0) {
    bus.publish({ type: 'project_changed', projectId });
    return 'removed';
  }
  return (await db.query(selectKey, [projectId, id])).length > 0 ? 'valid' : 'unknown';
}

// Primary keys.
const deleteKey = sql(
  'remove_project_key',
  `with removed as (
    delete from former_project_keys
    where project_id = $1 and id = $2 and valid_until <= now()
    returning project_id, id
  ), uses as (
    delete from project_key_uses u
    using removed r
    where u.project_id = r.project_id and u.key_id = r.id
  )
  select id from removed`,
);
const selectKey = sql(
  'select_former_project_key',
  'select id from former_project_keys where project_id = $1 and id = $2',
);
