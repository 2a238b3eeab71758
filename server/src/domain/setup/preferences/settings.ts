import type { QuietHours } from '../../../contract/delivery-windows.ts';
import { type Queryable, sql } from '../../../db/client.ts';

/** What a user has set, apart from categories. */
export interface UserSettings {
  locale: string | null;
  /** JSON text of an object. */
  customAttributes: string | null;
  timeZone: string | null;
  quietHours: QuietHours | null;
}

/** Returns the settings of one of the project's users; undefined if there is no such user. */
export async function loadSettings(
  db: Queryable,
  { projectId, userId }: { projectId: string; userId: string },
): Promise<UserSettings | undefined> {
  const [row] = await db.query<Row>(selectSettings, [userId, projectId]);
  if (row === undefined) return undefined;
  const { locale, custom_attributes: customAttributes, time_zone: timeZone, quiet_hours } = row;
  const quietHours = quiet_hours === null ? null : (JSON.parse(quiet_hours) as QuietHours);
  return { locale, customAttributes, timeZone, quietHours };
}

interface Row {
  locale: string | null;
  custom_attributes: string | null;
  time_zone: string | null;
  quiet_hours: string | null;
}

// Primary keys.
const selectSettings = sql(
  'settings_of_user',
  `select u.locale, u.custom_attributes, w.config ->> 'time_zone' as time_zone, w.quiet_hours
  from users u
  left join user_delivery_windows w on w.user_id = u.id
  where u.id = $1 and u.project_id = $2 and u.deleted_at is null`,
);
