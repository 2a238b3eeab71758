import { uuidArray } from '../../../db/arrays.ts';
import { type Queryable, sql } from '../../../db/client.ts';
import { isTimeZone } from '../../../lib/time-zone.ts';
import type { Window } from '../../../lib/weekly-hours.ts';
import { type ChannelWindows, type ProjectWindows, parseWindows } from './windows.ts';

/** The delivery windows of a category. */
export interface TimedCategory {
  critical: boolean;
  channels: readonly { channel: string; windows?: readonly Window[] | undefined }[];
}

/** The part of a message that decides when it may be delivered. */
export interface TimedMessage {
  userId: string;
  channel: string;
  category: TimedCategory | undefined;
  /** JSON text of an object. */
  customAttributes: string | null;
}

/**
 * Loads the windows that apply to these messages. Returns a function that returns the opening of a message's
 * next window in unix milliseconds, or undefined if it may be delivered at `nowMs`. Reads the users' windows
 * in one statement, and only in projects with user windows.
 */
export async function closedUntil(
  db: Queryable,
  windows: ProjectWindows,
  messages: readonly TimedMessage[],
  nowMs: number,
): Promise<(message: TimedMessage) => number | undefined> {
  const timed = messages.filter(({ channel, category }) => mayClose(windows, channel, category));
  if (timed.length === 0) return () => undefined;
  const userWindows = windows.hasUserWindows
    ? await loadUserWindows(db, timed)
    : new Map<string, ChannelWindows>();
  // Temporal takes 40 ms and 8 MB to load, so it is loaded only if there are windows.
  const { nextOpening } = await import('../../../lib/weekly-hours.ts');
  const known = new Map<readonly Window[], Map<string, number | undefined>>();
  return ({ userId, channel, category, customAttributes }) => {
    const own = userWindows.get(userId);
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
 * Returns the windows of the user, else of the category, else of the project; none for critical categories.
 */
function applyingWindows(
  project: ChannelWindows,
  own: ChannelWindows | undefined,
  channel: string,
  category: TimedCategory | undefined,
): readonly Window[] | undefined {
  if (category?.critical) return undefined;
  const ofCategory = category?.channels.find((one) => one.channel === channel)?.windows;
  return own?.channels.get(channel) ?? ofCategory ?? project.channels.get(channel);
}

/** Returns whether any message of the project may have to wait for a window. */
export function mayAnyClose(
  windows: ProjectWindows,
  categories: ReadonlyMap<string, TimedCategory>,
): boolean {
  if (windows.hasUserWindows || windows.channels.size > 0) return true;
  return [...categories.values()].some(({ channels }) => channels.some((one) => one.windows !== undefined));
}

function mayClose(windows: ProjectWindows, channel: string, category: TimedCategory | undefined): boolean {
  if (channel === 'in_app' || category?.critical) return false;
  return windows.hasUserWindows || applyingWindows(windows, undefined, channel, category) !== undefined;
}

/** Returns the user's time zone from the project's custom attributes, if it is a valid one. */
function timeZoneIn(customAttributes: string | null): string | undefined {
  if (!customAttributes?.includes('"time_zone"')) return undefined;
  const { time_zone: name } = JSON.parse(customAttributes) as { time_zone?: unknown };
  return typeof name === 'string' && isTimeZone(name) ? name : undefined;
}

async function loadUserWindows(
  db: Queryable,
  timed: readonly TimedMessage[],
): Promise<Map<string, ChannelWindows>> {
  const ids = new Set(timed.map(({ userId }) => userId));
  const rows = await db.query<{ user_id: string; config: string }>(selectWindows, [uuidArray([...ids])]);
  return new Map(rows.map((row) => [row.user_id, parseWindows(row.config)]));
}

// Primary key.
const selectWindows = sql(
  'delivery_windows_of_users',
  'select user_id, config from user_delivery_windows where user_id = any ($1::uuid[])',
);
