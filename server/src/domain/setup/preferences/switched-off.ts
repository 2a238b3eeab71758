import { textArray, uuidArray } from '../../../db/arrays.ts';
import { type Queryable, sql } from '../../../db/client.ts';
import { storedKey } from '../categories/cache.ts';

/** The recipients of a category. */
export interface UsersOfCategory {
  category: string | null;
  userIds: readonly string[];
}

/** Returns the channels that a user switched off for a category. */
export type SwitchedOff = (category: string | null, userId: string) => ReadonlySet<string>;

/** Loads the channels that these users switched off for these categories, in one statement. */
export async function switchedOff(db: Queryable, groups: readonly UsersOfCategory[]): Promise<SwitchedOff> {
  const byKey = new Map<string, Set<string>>();
  for (const { category, userIds } of groups) {
    const key = storedKey(category);
    const users = byKey.get(key);
    if (users === undefined) byKey.set(key, new Set(userIds));
    else for (const userId of userIds) users.add(userId);
  }
  const users = [...byKey.values()].flatMap((ids) => [...ids]);
  if (users.length === 0) return () => NONE;
  // Nearly always there is one category: send its key once.
  const [first = ''] = byKey.keys();
  const rows =
    byKey.size === 1
      ? await db.query<Row>(selectOfCategory, [uuidArray(users), first])
      : await db.query<Row>(selectOfCategories, [
          uuidArray(users),
          textArray([...byKey].flatMap(([key, ids]) => Array<string>(ids.size).fill(key))),
        ]);
  const found = new Map(rows.map((row) => [row.category + row.user_id, new Set(row.channels)]));
  return (category, userId) => found.get(storedKey(category) + userId) ?? NONE;
}

const NONE: ReadonlySet<string> = new Set();

interface Row {
  user_id: string;
  category: string;
  channels: string[];
}

// Primary key of preferences (user_id, category, channel).
const selectOfCategory = sql(
  'preferences_of_category',
  `select user_id, category, array_agg(channel) as channels
  from preferences
  where user_id = any ($1::uuid[]) and category = $2 and not enabled
  group by user_id, category`,
);
const selectOfCategories = sql(
  'preferences_of_categories',
  `select user_id, category, array_agg(channel) as channels
  from unnest($1::uuid[], $2::text[]) as wanted (user_id, category)
  join preferences p using (user_id, category)
  where not p.enabled
  group by user_id, category`,
);
