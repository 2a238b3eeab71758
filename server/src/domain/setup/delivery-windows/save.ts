import type { DeliveryWindows } from '../../../contract/delivery-windows.ts';
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

// Primary keys. Configs are compared as JSON texts that this server wrote.
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
const upsertOfUser = sql(
  'save_user_delivery_windows',
  `with saved as (
    insert into user_delivery_windows as w (user_id, config)
    select id, $2
    from users
    where id = $5 and project_id = $1
    on conflict (user_id) do update
    set config = excluded.config
    where w.config::text <> excluded.config::text
    returning user_id
  ),
  event as (
    insert into events (project_id, id, type, user_ids, details)
    select $1, $3, 'delivery_windows.saved', array[user_id], $4
    from saved
  ),
  first_of_users as materialized (
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
  returning project_id`,
);
