import { itemsOf, memberOf } from '../../../lib/members.ts';
import { isTimeZone } from '../../../lib/time-zone.ts';
import { minutesOf } from './windows.ts';

/** Returns the problems of windows of any shape that their schema does not find. */
export function problemsOfWindows(given: unknown): string[] {
  const timeZone = memberOf(given, 'time_zone');
  const channels = itemsOf(memberOf(given, 'channels'));
  return [
    ...(typeof timeZone === 'string' && !isTimeZone(timeZone)
      ? [`Param 'time_zone' is not the IANA name of a time zone, such as Europe/Berlin`]
      : []),
    ...problemsOfChannels(channels),
  ];
}

/** Returns the problems of channels and their windows: repeated channels, and invalid pairs of times. */
export function problemsOfChannels(channels: readonly unknown[]): string[] {
  return [
    ...repeatedChannels(channels),
    ...channels.flatMap((one, index) =>
      problemsOfTimes(`channels.${index}.windows`, memberOf(one, 'windows')),
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

function problemsOfTimes(name: string, windows: unknown): string[] {
  return itemsOf(windows).flatMap((one, index) => {
    const [from, to] = [memberOf(one, 'from'), memberOf(one, 'to')];
    if (!isTime(from) || !isTime(to)) return []; // the schema finds it
    const minutes = (minutesOf(to) - minutesOf(from) + DAY) % DAY;
    if (from === to)
      return [`Param '${name}.${index}.to' is the same as from: all day is from 00:00 to 24:00`];
    return minutes > 0 && minutes < SHORTEST_WINDOW_MINUTES
      ? [`Param '${name}.${index}.to' is less than ${SHORTEST_WINDOW_MINUTES} minutes after from`]
      : [];
  });
}

// Deferred messages are released over five minutes, and the window must still be open for the last ones.
const SHORTEST_WINDOW_MINUTES = 10;
const DAY = 1_440;
const TIME = /^[0-9]{2}:[0-9]{2}$/;

function isTime(value: unknown): value is string {
  return typeof value === 'string' && TIME.test(value);
}
