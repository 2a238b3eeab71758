import type { Tracking } from '../../../contract/tracking.ts';
import { type Queryable, sql } from '../../../db/client.ts';

/** Returns the project's tracking settings; by default nothing is tracked. */
export async function getTracking(db: Queryable, projectId: string): Promise<Tracking> {
  const [saved] = await db.query<Tracking>(selectTracking, [projectId]);
  return saved ?? { opens: false, clicks: false };
}

// Primary key.
const selectTracking = sql('get_tracking', 'select opens, clicks from tracking where project_id = $1');
