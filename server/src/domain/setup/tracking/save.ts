import type { Tracking } from '../../../contract/tracking.ts';
import { type Queryable, sql } from '../../../db/client.ts';
import { ClientError } from '../../../errors.ts';
import type { Bus } from '../../ground/bus/messages.ts';
import { newEventId } from '../../ground/events/record.ts';
import { problemsOfTracking } from './problems.ts';

/** Saves the project's tracking settings. Does nothing if they are unchanged. */
export async function saveTracking(
  { db, bus, config }: { db: Queryable; bus: Bus; config: { PUBLIC_URL: string | undefined } },
  projectId: string,
  tracking: Tracking,
): Promise<void> {
  const problems = problemsOfTracking(config, tracking);
  if (problems.length > 0) throw new ClientError('validation_failed', problems);
  const { opens, clicks } = tracking;
  const event = JSON.stringify({ payload: { opens, clicks } });
  const saved = await db.query(upsertTracking, [projectId, opens, clicks, newEventId(), event]);
  if (saved.length > 0) bus.publish({ type: 'project_changed', projectId });
}

// Primary key.
const upsertTracking = sql(
  'save_tracking',
  `with saved as (
    insert into tracking as t (project_id, opens, clicks)
    values ($1, $2, $3)
    on conflict (project_id) do update
    set opens = excluded.opens, clicks = excluded.clicks
    where (t.opens, t.clicks) <> (excluded.opens, excluded.clicks)
    returning project_id
  )
  insert into events (project_id, id, type, details)
  select project_id, $4, 'tracking.saved', $5
  from saved
  returning id`,
);
