import { textArray } from '../../../db/arrays.ts';
import { type Queryable, sql } from '../../../db/client.ts';
import { ClientError } from '../../../errors.ts';
import type { Bus } from '../../ground/bus/messages.ts';
import { newEventId } from '../../ground/events/record.ts';
import { storedKey } from '../../ground/links/stored-key.ts';

/** A category's messages on a channel, switched on or off; `category: null` are those without one. */
export interface Preference {
  category: string | null;
  channel: string;
  enabled: boolean;
}

/**
 * Switches categories on and off on channels for a user: all of it or nothing, by one statement. What is that
 * way already is no change, and without a change there is no event. A user who is gone is ignored. Throws
 * `validation_failed` for one of whom more than `most` would be kept.
 */
export async function savePreferences(
  { db, bus }: { db: Queryable; bus: Bus },
  {
    projectId,
    userId,
    preferences,
    most,
  }: { projectId: string; userId: string; preferences: readonly Preference[]; most?: number },
): Promise<void> {
  if (preferences.length === 0) return;
  const [row] = await db.query<{ news: boolean; crowded: boolean }>(upsertPreferences, [
    userId,
    textArray(preferences.map((one) => storedKey(one.category))),
    textArray(preferences.map((one) => one.channel)),
    preferences.map((one) => one.enabled),
    projectId,
    newEventId(),
    most ?? null,
  ]);
  if (row?.crowded)
    throw new ClientError('validation_failed', [
      `Param 'categories' says too much: of a user at most ${most} preferences are kept, of a category on a channel each`,
    ]);
  if (row?.news) bus.publish({ type: 'project_changed', projectId });
}

// Primary keys. In the order of the key, so that two who save the same at once wait for one another instead
// of deadlocking. What nobody switched off is on: saying so for the first time (xmax = 0: the row is new) is
// kept, to be listed, but changes nothing.
const upsertPreferences = sql(
  'save_preferences',
  `with given as (
    select * from unnest($2::text[], $3::text[], $4::boolean[]) as given (category, channel, enabled)
  ),
  known as (
    select category, channel from preferences where user_id = $1
  ),
  room as materialized (
    select (select count(*) from known)
      + (select count(*) from (select category, channel from given except select category, channel from known) added) > $7::int
      as crowded
  ),
  saved as (
    insert into preferences as p (user_id, category, channel, enabled, updated_at)
    select u.id, given.category, given.channel, given.enabled, now()
    from users u
    cross join given
    where u.id = $1 and u.project_id = $5 and (select crowded from room) is not true
    order by given.category, given.channel
    on conflict (user_id, category, channel) do update
    set enabled = excluded.enabled, updated_at = excluded.updated_at
    where p.enabled <> excluded.enabled
    returning category, channel, enabled, enabled and xmax = 0 as as_before
  ),
  marked as (
    insert into preference_categories (project_id, category, channel)
    select $5, category, channel
    from saved
    where not enabled
    order by category, channel
    on conflict do nothing
    returning category
  ),
  made as (
    select json_agg(
        json_build_object('category', nullif(category, ''), 'channel', channel, 'enabled', enabled)
        order by category, channel
      ) as changes
    from saved
    where not as_before
  ),
  event as (
    insert into events (project_id, id, type, user_ids, details)
    select $5, $6, 'preferences.updated', array[$1::uuid], json_build_object('payload', json_build_object('changes', changes))
    from made
    where changes is not null
  )
  select exists (select from marked) as news, coalesce((select crowded from room), false) as crowded`,
);
