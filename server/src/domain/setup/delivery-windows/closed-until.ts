import { INTERRUPTING, type QuietHours } from '../../../contract/delivery-windows.ts';
import { uuidArray } from '../../../db/arrays.ts';
import { type Queryable, sql } from '../../../db/client.ts';
import { isTimeZone } from '../../../lib/time-zone.ts';
import type { Window } from '../../../lib/weekly-hours.ts';
import { type ChannelWindows, type ProjectWindows, parseWindows, windowOf } from './windows.ts';

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

/** Why a message must wait, and until when in unix milliseconds. */
export interface Closed {
  untilMs: number;
  code: 'outside_window' | 'quiet_hours';
}

/** Why deliveries wait, in words. */
export const CLOSED_TEXTS: Readonly<Record<Closed['code'], string>> = {
  outside_window: 'deferred until the next delivery window opens',
  quiet_hours: 'deferred until the quiet hours of the user end',
};

/**
 * Loads the windows and quiet hours that apply to these messages. Returns a function that returns until when
 * a message must wait, or undefined if it may be delivered at `nowMs`. Reads those of users in one statement,
 * and only in projects whose users have some.
 */
export async function closedUntil(
  db: Queryable,
  windows: ProjectWindows,
  messages: readonly TimedMessage[],
  nowMs: number,
): Promise<(message: TimedMessage) => Closed | undefined> {
  const timed = messages.filter(({ channel, category }) => mayClose(windows, channel, category));
  if (timed.length === 0) return () => undefined;
  const userWindows = windows.hasUserWindows
    ? await loadUserWindows(db, timed)
    : new Map<string, UserWindows>();
  // Temporal takes 40 ms and 8 MB to load, so it is loaded only if there are windows.
  const { nextOpening } = await import('../../../lib/weekly-hours.ts');
  const known = new Map<readonly Window[], Map<string, number | undefined>>();
  const openingOf = (applying: readonly Window[], zone: string, quiet?: string) => {
    const openings = known.get(applying) ?? new Map<string, number | undefined>();
    known.set(applying, openings);
    const key = `${zone} ${quiet}`;
    if (!openings.has(key)) openings.set(key, nextOpening(applying, zone, nowMs, parseQuietHours(quiet)));
    return openings.get(key);
  };
  return ({ userId, channel, category, customAttributes }) => {
    if (channel === 'in_app' || category?.critical) return undefined;
    const own = userWindows.get(userId);
    const applying = applyingWindows(windows, own, channel, category) ?? ALWAYS;
    const quiet = INTERRUPTING.has(channel) ? own?.quietHours : undefined;
    if (applying === ALWAYS && quiet === undefined) return undefined;
    const zone = timeZoneOf(windows, own, customAttributes);
    const opening = openingOf(applying, zone);
    // Quiet hours that cover all windows are ignored: otherwise the message would wait forever.
    const untilMs = (quiet === undefined ? undefined : openingOf(applying, zone, quiet)) ?? opening;
    if (untilMs === undefined || untilMs === nowMs) return undefined;
    return { untilMs, code: opening === nowMs ? 'quiet_hours' : 'outside_window' };
  };
}

const ALWAYS: readonly Window[] = [{ from: 0, to: 1_440 }];

function parseQuietHours(json: string | undefined): Window | undefined {
  return json === undefined ? undefined : windowOf(JSON.parse(json) as QuietHours);
}

/** Returns the time zone of a user: their own, else that of their custom attributes, else the project's. */
export function timeZoneOf(
  project: Pick<ChannelWindows, 'timeZone'>,
  own: { timeZone: string | null | undefined } | undefined,
  customAttributes: string | null,
): string {
  return ownTimeZone(own, customAttributes) ?? project.timeZone ?? 'UTC';
}

/** Returns the time zone that is known of a user. */
export function ownTimeZone(
  own: { timeZone: string | null | undefined } | undefined,
  customAttributes: string | null,
): string | undefined {
  return own?.timeZone ?? timeZoneIn(customAttributes);
}

/** Returns the windows of the user, else of the category, else of the project. */
function applyingWindows(
  project: ChannelWindows,
  own: ChannelWindows | undefined,
  channel: string,
  category: TimedCategory | undefined,
): readonly Window[] | undefined {
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

interface UserWindows extends ChannelWindows {
  /** JSON text: users with the same quiet hours share a computation. */
  quietHours: string | undefined;
}

async function loadUserWindows(
  db: Queryable,
  timed: readonly TimedMessage[],
): Promise<Map<string, UserWindows>> {
  const ids = new Set(timed.map(({ userId }) => userId));
  const rows = await db.query<{ user_id: string; config: string; quiet_hours: string | null }>(
    selectWindows,
    [uuidArray([...ids])],
  );
  return new Map(
    rows.map(({ user_id, config, quiet_hours }) => [
      user_id,
      { ...parseWindows(config), quietHours: quiet_hours ?? undefined },
    ]),
  );
}

// Primary key.
const selectWindows = sql(
  'delivery_windows_of_users',
  'select user_id, config, quiet_hours from user_delivery_windows where user_id = any ($1::uuid[])',
);
