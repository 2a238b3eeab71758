import { WEEKDAYS } from '../../../contract/delivery-windows.ts';
import { itemsOf, memberOf } from '../../../lib/members.ts';
import { isTimeZone } from '../../../lib/time-zone.ts';
import { minutesOf } from './windows.ts';

/** Returns the problems of windows of any shape that their schema does not find. */
export function problemsOfWindows(given: unknown): string[] {
  return [...problemsOfTimeZone(given), ...problemsOfChannels(itemsOf(memberOf(given, 'channels')))];
}

/** Returns the problems of `time_zone` and `quiet_hours` in a body of any shape. */
export function problemsOfTimes(body: unknown): string[] {
  const quiet = memberOf(body, 'quiet_hours');
  const problems = problemsOfWindow('quiet_hours', quiet);
  return [
    ...problemsOfTimeZone(body),
    ...(problems.length === 0 && isNearlyAlways(quiet) ? [NEARLY_ALWAYS] : problems),
  ];
}

function problemsOfTimeZone(given: unknown): string[] {
  const timeZone = memberOf(given, 'time_zone');
  return typeof timeZone === 'string' && !isTimeZone(timeZone)
    ? [`Param 'time_zone' is not the IANA name of a time zone, such as Europe/Berlin`]
    : [];
}

const NEARLY_ALWAYS =
  "Param 'quiet_hours' must leave ten minutes of the day: choose days, or switch channels off";

/** Whether quiet hours leave no time to send what has waited. */
function isNearlyAlways(quiet: unknown): boolean {
  const [from, to, days] = [memberOf(quiet, 'from'), memberOf(quiet, 'to'), memberOf(quiet, 'days')];
  if (!isTime(from) || !isTime(to) || (days !== undefined && itemsOf(days).length < WEEKDAYS.length))
    return false;
  return minutesBetween(to, from) < SHORTEST_WINDOW_MINUTES;
}

/** Returns the problems of channels and their windows: repeated channels, and invalid pairs of times. */
export function problemsOfChannels(channels: readonly unknown[]): string[] {
  return [
    ...repeatedChannels(channels),
    ...channels.flatMap((one, index) =>
      itemsOf(memberOf(one, 'windows')).flatMap((window, place) =>
        problemsOfWindow(`channels.${index}.windows.${place}`, window),
      ),
    ),
  ];
}

function repeatedChannels(channels: readonly unknown[]): string[] {
  const problems: string[] = [];
  const places = new Map<string, number>();
  for (const [index, one] of channels.entries()) {
    const channel = memberOf(one, 'channel');
    if (typeof channel !== 'string') continue;
    const before = places.get(channel);
    if (before === undefined) places.set(channel, index);
    else
      problems.push(
        `Param 'channels.${index}.channel' repeats channels.${before}: list ${channel.slice(0, 100)} once`,
      );
  }
  return problems;
}

function problemsOfWindow(name: string, window: unknown): string[] {
  const [from, to] = [memberOf(window, 'from'), memberOf(window, 'to')];
  if (!isTime(from) || !isTime(to)) return []; // the schema finds it
  if (from === to) return [`Param '${name}.to' is the same as from: all day is from 00:00 to 24:00`];
  const minutes = minutesBetween(from, to);
  return minutes > 0 && minutes < SHORTEST_WINDOW_MINUTES
    ? [`Param '${name}.to' is less than ${SHORTEST_WINDOW_MINUTES} minutes after from`]
    : [];
}

/** Returns 0 for a whole day. */
function minutesBetween(from: string, to: string): number {
  return (minutesOf(to) - minutesOf(from) + DAY) % DAY;
}

// Deferred messages are released over five minutes, and the window must still be open for the last ones.
const SHORTEST_WINDOW_MINUTES = 10;
const DAY = 1_440;
const TIME = /^[0-9]{2}:[0-9]{2}$/;

function isTime(value: unknown): value is string {
  return typeof value === 'string' && TIME.test(value);
}
