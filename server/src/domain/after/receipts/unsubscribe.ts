import { textArray, uuidArray } from '../../../db/arrays.ts';
import { type Queryable, sql } from '../../../db/client.ts';
import type { Bus } from '../../ground/bus/messages.ts';
import { recordEvents } from '../../ground/events/record.ts';
import { storedKey } from '../../setup/categories/cache.ts';

/** A user who unsubscribed from a category, and when. */
export interface Unsubscribed {
  userId: string;
  category: string | null;
  at: Date;
}

/**
 * Switches categories off on a channel for users who unsubscribed at a vendor: by one statement, in the
 * caller's transaction. A later decision of a user stays, because vendors repeat their reports. Ignores
 * deleted users.
 */
export async function unsubscribe(
  { db, bus }: { db: Queryable; bus: Bus },
  { projectId, channel }: { projectId: string; channel: string },
  list: readonly Unsubscribed[],
): Promise<void> {
  if (list.length === 0) return;
  const latest = new Map<string, Unsubscribed>();
  for (const one of list) {
    const name = `${one.userId} ${storedKey(one.category)}`;
    const before = latest.get(name);
    if (before === undefined || before.at < one.at) latest.set(name, one);
  }
  const given = [...latest.values()];
  const changed = await db.query<{ user_id: string; category: string | null; news: boolean }>(switchOff, [
    uuidArray(given.map(({ userId }) => userId)),
    textArray(given.map(({ category }) => storedKey(category))),
    given.map(({ at }) => at),
    channel,
    projectId,
  ]);
  // One row per user, because it is erased with the user (erasure/purge-users.ts).
  await recordEvents(
    db,
    changed.map(({ user_id, category }) => ({
      projectId,
      type: 'preferences.updated',
      userIds: [user_id],
      details: { payload: { changes: [{ category, channel, enabled: false }] } },
    })),
  );
  if (changed[0]?.news) bus.publish({ type: 'project_changed', projectId });
}

// Primary keys, looked up one by one. Written in their order, as preferences/save.ts does.
const switchOff = sql(
  'unsubscribe_users',
  `with switched_off as materialized (
    select u.id as user_id, g.category
    from unnest($1::uuid[], $2::text[], $3::timestamptz[]) as g (user_id, category, at)
    cross join lateral (
      select u.id from users u where u.id = g.user_id and u.project_id = $5 limit 1
    ) u
    where (
      select true
      from preferences later
      where later.user_id = g.user_id and later.category = g.category and later.channel = $4
        and later.updated_at > g.at
      limit 1
    ) is null
  ),
  saved as (
    insert into preferences as p (user_id, category, channel, enabled, updated_at)
    select user_id, category, $4, false, now()
    from switched_off
    order by user_id, category
    on conflict (user_id, category, channel) do update
    set enabled = false, updated_at = excluded.updated_at
    where p.enabled
    returning user_id, category
  ),
  marked as (
    insert into preference_categories (project_id, category, channel)
    select distinct $5::uuid, category, $4
    from saved
    order by category
    on conflict do nothing
    returning category
  )
  select user_id, nullif(category, '') as category, exists (select from marked) as news
  from saved`,
);
