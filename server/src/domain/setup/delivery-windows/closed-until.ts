import { uuidArray } from '../../../db/arrays.ts';
import { type Queryable, sql } from '../../../db/client.ts';
import { isTimeZone } from '../../../lib/time-zone.ts';
import type { Window } from '../../../lib/weekly-hours.ts';
import { type OwnWindows, ownWindows, type ProjectWindows } from './of-project.ts';

/** What of a category decides when its messages may come. */
export interface TimedCategory {
  critical: boolean;
  channels: readonly { channel: string; windows?: readonly Window[] | undefined }[];
}

/** A message for a user, as far as it matters to when it may come. */
export interface Timed {
  userId: string;
  channel: string;
  category: TimedCategory | undefined;
  /** JSON text of an object. */
  customAttributes: string | null;
}

/**
 * Until when a message has to wait for its window, in unix milliseconds; undefined when it may go out at
 * `nowMs`. What users have said is read by one statement, and only in projects where some have.
 */
export async function closedUntil(
  db: Queryable,
  windows: ProjectWindows,
  messages: readonly Timed[],
  nowMs: number,
): Promise<(message: Timed) => number | undefined> {
  const timed = messages.filter(({ channel, category }) => mayClose(windows, channel, category));
  if (timed.length === 0) return () => undefined;
  const ofUsers = windows.ofUsers ? await loadOfUsers(db, timed) : new Map<string, OwnWindows>();
  // Temporal takes 40 ms and 8 MB to load: who has no windows does without. Of the same windows in the same
  // zone the answer is the same.
  const { nextOpening } = await import('../../../lib/weekly-hours.ts');
  const known = new Map<readonly Window[], Map<string, number | undefined>>();
  return ({ userId, channel, category, customAttributes }) => {
    const own = ofUsers.get(userId);
    const applying = applyingWindows(windows, own, channel, category);
    if (applying === undefined) return undefined;
    const zone = own?.timeZone ?? timeZoneIn(customAttributes) ?? windows.timeZone ?? 'UTC';
    const byZone = known.get(applying) ?? new Map<string, number | undefined>();
    known.set(applying, byZone);
    if (!byZone.has(zone)) byZone.set(zone, nextOpening(applying, zone, nowMs));
    const opening = byZone.get(zone);
    return opening === nowMs ? undefined : opening;
  };
}

/**
 * The windows that count: the user's own word, else the category's, else the project's; none for what is
 * critical. Pure.
 */
function applyingWindows(
  project: OwnWindows,
  own: OwnWindows | undefined,
  channel: string,
  category: TimedCategory | undefined,
): readonly Window[] | undefined {
  if (category?.critical) return undefined;
  const ofCategory = category?.channels.find((one) => one.channel === channel)?.windows;
  return own?.channels.get(channel) ?? ofCategory ?? project.channels.get(channel);
}

/** Whether any message of the project may have to wait. */
export function mayAnyClose(
  windows: ProjectWindows,
  categories: ReadonlyMap<string, TimedCategory>,
): boolean {
  if (windows.ofUsers || windows.channels.size > 0) return true;
  return [...categories.values()].some(({ channels }) => channels.some((one) => one.windows !== undefined));
}

function mayClose(windows: ProjectWindows, channel: string, category: TimedCategory | undefined): boolean {
  if (channel === 'in_app' || category?.critical) return false;
  return windows.ofUsers || applyingWindows(windows, undefined, channel, category) !== undefined;
}

/** What the project has told us of the user: a name that is no time zone is as none. */
function timeZoneIn(customAttributes: string | null): string | undefined {
  if (!customAttributes?.includes('"time_zone"')) return undefined;
  const { time_zone: name } = JSON.parse(customAttributes) as { time_zone?: unknown };
  return typeof name === 'string' && isTimeZone(name) ? name : undefined;
}

async function loadOfUsers(db: Queryable, timed: readonly Timed[]): Promise<Map<string, OwnWindows>> {
  const ids = new Set(timed.map(({ userId }) => userId));
  const rows = await db.query<{ user_id: string; config: string }>(selectOfUsers, [uuidArray([...ids])]);
  return new Map(rows.map((row) => [row.user_id, ownWindows(row.config)]));
}

// Primary key.
const selectOfUsers = sql(
  'delivery_windows_of_users',
  'select user_id, config from user_delivery_windows where user_id = any ($1::uuid[])',
);
