import type { DeliveryWindows, QuietHours } from '../../../contract/delivery-windows.ts';
import { type Queryable, sql } from '../../../db/client.ts';
import { ClientError } from '../../../errors.ts';
import type { Bus } from '../../ground/bus/messages.ts';
import { newEventId } from '../../ground/events/record.ts';
import type { WindowsOwner } from './get.ts';
import { problemsOfWindows } from './problems.ts';

/**
 * Replaces the delivery windows of the project or of the user. Does nothing if they are unchanged, or if the
 * user does not exist.
 */
export async function saveWindows(
  { db, bus }: { db: Queryable; bus: Bus },
  { projectId, userId }: WindowsOwner,
  config: DeliveryWindows,
): Promise<void> {
  const problems = problemsOfWindows(config);
  if (problems.length > 0) throw new ClientError('validation_failed', problems);
  const values = [projectId, JSON.stringify(config), newEventId(), JSON.stringify({ payload: config })];
  const changed = await (userId === undefined
    ? db.query(upsertOfProject, values)
    : db.query(upsertOfUser, [...values, userId]));
  if (changed.length > 0) bus.publish({ type: 'project_changed', projectId });
}

/** The times of a user that are not windows. Left out: unchanged; `null`: removed. */
export interface UserTimes {
  time_zone?: string | null | undefined;
  quiet_hours?: QuietHours | null | undefined;
}

/** Saves quiet hours and the time zone of a user. Does nothing if they are unchanged or there is no user. */
export async function saveTimes(
  { db, bus }: { db: Queryable; bus: Bus },
  { projectId, userId }: { projectId: string; userId: string },
  { time_zone, quiet_hours }: UserTimes,
): Promise<void> {
  if (time_zone === undefined && quiet_hours === undefined) return;
  const zone = time_zone == null ? {} : { time_zone };
  const changed = await db.query(upsertTimes, [
    projectId,
    JSON.stringify({ ...zone, channels: [] }),
    newEventId(),
    JSON.stringify({ payload: { changes: [], time_zone, quiet_hours } }),
    userId,
    quiet_hours == null ? null : JSON.stringify(quiet_hours),
    time_zone !== undefined,
    quiet_hours !== undefined,
  ]);
  if (changed.length > 0) bus.publish({ type: 'project_changed', projectId });
}

// Primary keys. Configs of projects are compared as JSON texts that this server wrote.
const upsertOfProject = sql(
  'save_project_delivery_windows',
  `with saved as (
    insert into project_delivery_windows as w (project_id, config)
    values ($1, $2)
    on conflict (project_id) do update
    set config = excluded.config
    where w.config::text <> excluded.config::text
    returning project_id
  )
  insert into events (project_id, id, type, details)
  select project_id, $3, 'delivery_windows.saved', $4
  from saved
  returning id`,
);
// Only the first user writes the project's row, and is returned: otherwise all users would wait for its lock.
const markProject = `first_of_users as materialized (
    select user_id
    from saved
    where not exists (select from project_delivery_windows where project_id = $1 and of_users)
  )
  insert into project_delivery_windows as p (project_id, of_users)
  select $1, true
  from first_of_users
  on conflict (project_id) do update
  set of_users = true
  where not p.of_users
  returning project_id`;
const upsertOfUser = sql(
  'save_user_delivery_windows',
  `with saved as (
    insert into user_delivery_windows as w (user_id, config)
    select id, $2
    from users
    where id = $5 and project_id = $1
    on conflict (user_id) do update
    set config = excluded.config
    where w.config::jsonb <> excluded.config::jsonb
    returning user_id
  ),
  event as (
    insert into events (project_id, id, type, user_ids, details)
    select $1, $3, 'delivery_windows.saved', array[user_id], $4
    from saved
  ),
  ${markProject}`,
);
const upsertTimes = sql(
  'save_user_times',
  `with known as materialized (
    select user_id from user_delivery_windows where user_id = $5
  ),
  saved as (
    insert into user_delivery_windows as w (user_id, config, quiet_hours)
    select u.id, $2::json, $6::json
    from users u
    where u.id = $5 and u.project_id = $1
      and (
        $2::json -> 'time_zone' is not null
        or $6::json is not null
        or exists (select from known)
      )
    on conflict (user_id) do update
    set config = case
        when $7 then (w.config::jsonb - 'time_zone' || (excluded.config::jsonb - 'channels'))::json
        else w.config
      end,
      quiet_hours = case when $8 then excluded.quiet_hours else w.quiet_hours end
    where ($7 and w.config ->> 'time_zone' is distinct from excluded.config ->> 'time_zone')
      or ($8 and w.quiet_hours::jsonb is distinct from excluded.quiet_hours::jsonb)
    returning user_id
  ),
  event as (
    insert into events (project_id, id, type, user_ids, details)
    select $1, $3, 'preferences.updated', array[user_id], $4
    from saved
  ),
  ${markProject}`,
);
