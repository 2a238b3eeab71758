import {
  type DeliveryWindows,
  type QuietHours,
  WEEKDAYS,
  type Windows,
} from '../../../contract/delivery-windows.ts';
import { type Queryable, sql } from '../../../db/client.ts';
import type { Window } from '../../../lib/weekly-hours.ts';

export interface ProjectWindows extends ChannelWindows {
  /** False if no user has ever saved windows. */
  readonly hasUserWindows: boolean;
}

/** The delivery windows of a project or of a user. */
export interface ChannelWindows {
  readonly timeZone: string | undefined;
  readonly channels: ReadonlyMap<string, readonly Window[]>;
}

export async function loadProjectWindows(db: Queryable, projectId: string): Promise<ProjectWindows> {
  const [row] = await db.query<{ config: string; of_users: boolean }>(selectWindows, [projectId]);
  if (row === undefined) return { timeZone: undefined, channels: new Map(), hasUserWindows: false };
  return { ...parseWindows(row.config), hasUserWindows: row.of_users };
}

/** Parses stored windows. */
export function parseWindows(json: string): ChannelWindows {
  const { time_zone, channels } = JSON.parse(json) as DeliveryWindows;
  return {
    timeZone: time_zone,
    channels: new Map(channels.map(({ channel, windows }) => [channel, windowsOf(windows)])),
  };
}

/** Converts windows of the API to minutes. */
export function windowsOf(windows: Windows): Window[] {
  return windows.map(windowOf);
}

export function windowOf({ days, from, to }: QuietHours): Window {
  return {
    ...(days === undefined ? {} : { days: days.map((day) => WEEKDAYS.indexOf(day) + 1) }),
    from: minutesOf(from),
    to: minutesOf(to),
  };
}

/** Returns the minutes since midnight of a time such as `08:30`. */
export function minutesOf(time: string): number {
  return Number(time.slice(0, 2)) * 60 + Number(time.slice(3));
}

// Primary key.
const selectWindows = sql(
  'load_project_delivery_windows',
  'select config, of_users from project_delivery_windows where project_id = $1',
);
