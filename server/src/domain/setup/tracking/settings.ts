import type { Tracking } from '../../../contract/tracking.ts';
import { uuidArray } from '../../../db/arrays.ts';
import { type Queryable, sql } from '../../../db/client.ts';
import { ClientError } from '../../../errors.ts';
import type { Bus } from '../../ground/bus/messages.ts';
import { newEventId } from '../../ground/events/record.ts';

/** Returns the project's tracking settings; by default nothing is tracked. */
export async function getTracking(db: Queryable, projectId: string): Promise<Tracking> {
  return (await trackingOf(db, [projectId])).get(projectId) ?? { opens: false, clicks: false };
}

/** Returns the tracking settings of those of these projects that have saved some. */
export async function trackingOf(
  db: Queryable,
  projectIds: readonly string[],
): Promise<ReadonlyMap<string, Tracking>> {
  const rows = await db.query<Tracking & { project_id: string }>(selectTracking, [uuidArray(projectIds)]);
  return new Map(rows.map(({ project_id: id, ...tracking }) => [id, tracking]));
}

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

/** Returns the problems of tracking settings of any shape: links need the public address of the server. */
export function problemsOfTracking(
  { PUBLIC_URL }: { PUBLIC_URL: string | undefined },
  tracking: { opens?: unknown; clicks?: unknown },
): string[] {
  if (PUBLIC_URL !== undefined) return [];
  return (['opens', 'clicks'] as const)
    .filter((member) => tracking[member] === true)
    .map((member) => `Param '${member}' needs the public address of this server: set its PUBLIC_URL`);
}

// Primary key, both.
const selectTracking = sql(
  'get_tracking',
  'select project_id, opens, clicks from tracking where project_id = any ($1::uuid[])',
);
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
