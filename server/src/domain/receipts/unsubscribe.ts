import { textArray, uuidArray } from '../../db/arrays.ts';
import { type Queryable, sql } from '../../db/client.ts';
import { savePreferences } from '../preferences/save.ts';
import { storedKey } from '../preferences/stored-key.ts';
import type { Bus } from '../realtime/messages.ts';

/** That a user wants nothing of a category any more, and since when. */
export interface Unsubscribed {
  userId: string;
  category: string | null;
  at: Date;
}

/**
 * Switches categories off on a channel for the users who have said so to a vendor, in the caller's transaction. What a user has decided
 * since then stays: vendors repeat what they report.
 */
export async function unsubscribe(
  { db, bus }: { db: Queryable; bus: Bus },
  { projectId, channel }: { projectId: string; channel: string },
  list: readonly Unsubscribed[],
): Promise<void> {
  if (list.length === 0) return;
  const latest = new Map<string, Unsubscribed>();
  for (const one of list) {
    const name = nameOf(one.userId, storedKey(one.category));
    const before = latest.get(name);
    if (before === undefined || before.at < one.at) latest.set(name, one);
  }
  const given = [...latest.values()];
  const decided = await db.query<{ user_id: string; category: string }>(selectDecided, [
    uuidArray(given.map(({ userId }) => userId)),
    textArray(given.map(({ category }) => storedKey(category))),
    given.map(({ at }) => at),
    channel,
  ]);
  for (const { user_id, category } of decided) latest.delete(nameOf(user_id, category));
  for (const { userId, category } of latest.values()) {
    // One after the other: each of them is a person who has followed a link.
    const preferences = [{ category, channel, enabled: false }];
    await savePreferences({ db, bus }, { projectId, userId, preferences });
  }
}

function nameOf(userId: string, key: string): string {
  return `${userId} ${key}`;
}

// Primary key, looked up one by one.
const selectDecided = sql(
  'preferences_decided_since',
  `select g.user_id, g.category
  from unnest($1::uuid[], $2::text[], $3::timestamptz[]) as g (user_id, category, at)
  cross join lateral (
    select
    from preferences p
    where p.user_id = g.user_id and p.category = g.category and p.channel = $4 and p.updated_at > g.at
    limit 1
  ) decided`,
);
