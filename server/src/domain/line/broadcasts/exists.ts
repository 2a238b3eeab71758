import { type Queryable, sql } from '../../../db/client.ts';

/** Whether the project has a broadcast with this id. */
export async function broadcastExists(db: Queryable, projectId: string, id: string): Promise<boolean> {
  return (await db.query(selectOne, [id, projectId])).length > 0;
}

// Primary key.
const selectOne = sql('broadcast_exists', 'select 1 from broadcasts where id = $1 and project_id = $2');
