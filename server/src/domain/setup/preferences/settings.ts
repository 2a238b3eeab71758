import type { QuietHours } from '../../../contract/delivery-windows.ts';
import { uuidArray } from '../../../db/arrays.ts';
import { type Queryable, sql } from '../../../db/client.ts';

/** A preference of a user for a category and channel. */
export type CategoryPreference = readonly [category: string, channel: string, enabled: boolean];

/** What a user has set. */
export interface UserSettings {
  locale: string | null;
  /** JSON text of an object. */
  customAttributes: string | null;
  timeZone: string | null;
  quietHours: QuietHours | null;
  /** By category and channel. */
  categories: readonly CategoryPreference[];
}

/** Returns the settings of one of the project's users; undefined if there is no such user. */
export async function loadSettings(
  db: Queryable,
  { projectId, userId }: { projectId: string; userId: string },
): Promise<UserSettings | undefined> {
  return (await settingsOf(db, { projectId, userIds: [userId] })).get(userId);
}

/** Returns the settings of those users of the project that exist, by their id. */
export async function settingsOf(
  db: Queryable,
  { projectId, userIds }: { projectId: string; userIds: readonly string[] },
): Promise<Map<string, UserSettings>> {
  const rows = await db.query<Row>(selectSettings, [uuidArray(userIds), projectId]);
  return new Map(
    rows.map(({ id, locale, custom_attributes: customAttributes, time_zone: timeZone, ...row }) => {
      const quietHours = row.quiet_hours === null ? null : (JSON.parse(row.quiet_hours) as QuietHours);
      const categories = JSON.parse(row.categories ?? '[]') as CategoryPreference[];
      return [id, { locale, customAttributes, timeZone, quietHours, categories }];
    }),
  );
}

interface Row {
  id: string;
  locale: string | null;
  custom_attributes: string | null;
  time_zone: string | null;
  quiet_hours: string | null;
  categories: string | null;
}

// Primary keys.
const selectSettings = sql(
  'settings_of_user',
  `select u.id, u.locale, u.custom_attributes, w.config ->> 'time_zone' as time_zone, w.quiet_hours,
    (
      select json_agg(json_build_array(p.category, p.channel, p.enabled) order by p.category, p.channel)
      from preferences p
      where p.user_id = u.id
    ) as categories
  from users u
  left join user_delivery_windows w on w.user_id = u.id
  where u.id = any ($1::uuid[]) and u.project_id = $2 and u.deleted_at is null`,
);
