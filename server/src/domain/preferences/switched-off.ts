import { type Queryable, sql } from '../../db/client.ts';

/** The key under which preferences for broadcasts without a category are kept. */
export const UNCATEGORIZED = 'uncategorized';

/** Which channels each of these users switched off for a category; a user who switched nothing off is not in it. */
export async function switchedOff(
  db: Queryable,
  userIds: readonly string[],
  category: string | null,
): Promise<Map<string, ReadonlySet<string>>> {
  const rows = await db.query<{ user_id: string; channels: string[] }>(selectSwitchedOff, [
    userIds,
    category ?? UNCATEGORIZED,
  ]);
  return new Map(rows.map((row) => [row.user_id, new Set(row.channels)]));
}

// Primary key of preferences (user_id, category, channel).
const selectSwitchedOff = sql(
  'preferences_switched_off',
  `select user_id, array_agg(channel) as channels
  from preferences
  where user_id = any ($1::uuid[]) and category = $2 and not enabled
  group by user_id`,
);
