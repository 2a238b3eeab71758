import { type Queryable, sql } from '../../db/client.ts';
import { newEventId } from '../events/record.ts';

/** Switches a category's messages on a channel on or off for a user. Doing it again changes nothing; a user who is gone is ignored. */
export async function setPreference(
  db: Queryable,
  {
    projectId,
    userId,
    category,
    channel,
    enabled,
  }: { projectId: string; userId: string; category: string; channel: string; enabled: boolean },
): Promise<void> {
  const details = JSON.stringify({ payload: { category, channel, enabled } });
  await db.query(upsertPreference, [userId, category, channel, enabled, projectId, newEventId(), details]);
}

// Primary keys of users and preferences.
const upsertPreference = sql(
  'set_preference',
  `with saved as (
    insert into preferences as p (user_id, category, channel, enabled, updated_at)
    select u.id, $2, $3, $4, now()
    from users u
    where u.id = $1 and u.project_id = $5
    on conflict (user_id, category, channel) do update
    set enabled = excluded.enabled, updated_at = excluded.updated_at
    where p.enabled <> excluded.enabled
    returning user_id
  )
  insert into events (project_id, id, type, user_ids, details)
  select $5, $6, 'preferences.updated', array[user_id], $7
  from saved`,
);
