import { type DeliveryWindows, WEEKDAYS, type Windows } from '../../../contract/delivery-windows.ts';
import { type Queryable, sql } from '../../../db/client.ts';
import type { Window } from '../../../lib/weekly-hours.ts';

/** When a project's messages go out, and whether users have a say in it. */
export interface ProjectWindows extends OwnWindows {
  /** False when no user has ever said anything: then there is nothing to look for. */
  readonly ofUsers: boolean;
}

/** What somebody has said. */
export interface OwnWindows {
  readonly timeZone: string | undefined;
  readonly channels: ReadonlyMap<string, readonly Window[]>;
}

export async function loadProjectWindows(db: Queryable, projectId: string): Promise<ProjectWindows> {
  const [row] = await db.query<{ config: string; of_users: boolean }>(selectOfProject, [projectId]);
  if (row === undefined) return { timeZone: undefined, channels: new Map(), ofUsers: false };
  return { ...ownWindows(row.config), ofUsers: row.of_users };
}

/** Stored windows, read. */
export function ownWindows(json: string): OwnWindows {
  const { time_zone, channels } = JSON.parse(json) as DeliveryWindows;
  return {
    timeZone: time_zone,
    channels: new Map(channels.map(({ channel, windows }) => [channel, windowsOf(windows)])),
  };
}

/** Windows as they come over the wire, in minutes. */
export function windowsOf(windows: Windows): Window[] {
  return windows.map(({ days, from, to }) => ({
    ...(days === undefined ? {} : { days: days.map((day) => WEEKDAYS.indexOf(day) + 1) }),
    from: minutesOf(from),
    to: minutesOf(to),
  }));
}

/** The minutes since midnight of a time such as `08:30`. */
export function minutesOf(time: string): number {
  return Number(time.slice(0, 2)) * 60 + Number(time.slice(3));
}

// Primary key.
const selectOfProject = sql(
  'load_project_delivery_windows',
  'select config, of_users from project_delivery_windows where project_id = $1',
);
