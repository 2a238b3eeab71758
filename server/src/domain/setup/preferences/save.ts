import { textArray } from '../../../db/arrays.ts';
import { type Queryable, sql } from '../../../db/client.ts';
import { ClientError } from '../../../errors.ts';
import type { Bus } from '../../ground/bus/messages.ts';
import { newEventId } from '../../ground/events/record.ts';
import { storedKey } from '../categories/cache.ts';

/** Whether a category is switched on for a channel; `category: null` are notifications without a category. */
export interface Preference {
  category: string | null;
  channel: string;
  enabled: boolean;
}

/**
 * Saves preferences of a user in one statement. Records an event only if something changes; ignores a user
 * that does not exist. Throws `validation_failed`, and saves nothing, if the user would have more than `max`.
 */
export async function savePreferences(
  { db, bus }: { db: Queryable; bus: Bus },
  {
    projectId,
    userId,
    preferences,
    max,
  }: { projectId: string; userId: string; preferences: readonly Preference[]; max?: number },
): Promise<void> {
  if (preferences.length === 0) return;
  const [row] = await db.query<{ newly_off: boolean; too_many: boolean }>(upsertPreferences, [
    userId,
    textArray(preferences.map((one) => storedKey(one.category))),
    textArray(preferences.map((one) => one.channel)),
    preferences.map((one) => one.enabled),
    projectId,
    newEventId(),
    max ?? null,
  ]);
  if (row?.too_many)
    throw new ClientError('validation_failed', [
      `Param 'categories' has too many preferences: a user can have at most ${max}`,
    ]);
  if (row?.newly_off) bus.publish({ type: 'project_changed', projectId });
}

// Primary keys. Sorted, so that concurrent saves do not deadlock. A first preference (xmax = 0: the row is
// new) that is on is stored for the list, but is no change, because channels are on by default.
const upsertPreferences = sql(
  'save_preferences',
  `with given as (
    select * from unnest($2::text[], $3::text[], $4::boolean[]) as given (category, channel, enabled)
  ),
  known as (
    select category, channel from preferences where user_id = $1
  ),
  total as materialized (
    select (select count(*) from known)
      + (
        select count(*)
        from (select category, channel from given except select category, channel from known) added
      ) > $7::int as too_many
  ),
  owner as materialized (
    select id from users where id = $1 and project_id = $5
  ),
  saved as (
    insert into preferences as p (user_id, category, channel, enabled, updated_at)
    select owner.id, given.category, given.channel, given.enabled, now()
    from owner
    cross join given
    where (select too_many from total) is not true
    order by given.category, given.channel
    on conflict (user_id, category, channel) do update
    set enabled = excluded.enabled, updated_at = excluded.updated_at
    where p.enabled <> excluded.enabled
    returning category, channel, enabled, enabled and xmax = 0 as unchanged
  ),
  newly_off as (
    insert into preference_categories (project_id, category, channel)
    select $5, category, channel
    from saved
    where not enabled
    order by category, channel
    on conflict do nothing
    returning category
  ),
  payload as (
    select json_agg(
        json_build_object('category', nullif(category, ''), 'channel', channel, 'enabled', enabled)
        order by category, channel
      ) as changes
    from saved
    where not unchanged
  ),
  event as (
    insert into events (project_id, id, type, user_ids, details)
    select $5, $6, 'preferences.updated', array[$1::uuid],
      json_build_object('payload', json_build_object('changes', changes))
    from payload
    where changes is not null
  )
  select exists (select from newly_off) as newly_off,
    coalesce((select too_many from total), false) as too_many`,
);
