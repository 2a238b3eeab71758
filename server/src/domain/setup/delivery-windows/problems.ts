import { itemsOf, memberOf } from '../../../lib/members.ts';
import { isTimeZone } from '../../../lib/time-zone.ts';
import { minutesOf } from './of-project.ts';

/** What is wrong with windows, as far as their schema does not say it, of whatever shape they are. */
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

/**
 * What is wrong with channels and their windows: one that is named twice, and times that do not go together.
 */
export function problemsOfChannels(channels: readonly unknown[]): string[] {
  return [
    ...problemsOfRepeats(channels),
    ...channels.flatMap((one, index) =>
      problemsOfTimes(`channels.${index}.windows`, memberOf(one, 'windows')),
    ),
  ];
}

function problemsOfRepeats(channels: readonly unknown[]): string[] {
  const problems: string[] = [];
  const named = new Map<string, number>();
  for (const [index, one] of channels.entries()) {
    const channel = memberOf(one, 'channel');
    if (typeof channel !== 'string') continue;
    const before = named.get(channel);
    if (before === undefined) named.set(channel, index);
    else
      problems.push(
        `Param 'channels.${index}.channel' names ${channel.slice(0, 100)} again, after channels.${before}: give each channel once`,
      );
  }
  return problems;
}

function problemsOfTimes(name: string, windows: unknown): string[] {
  return itemsOf(windows).flatMap((one, index) => {
    const [from, to] = [memberOf(one, 'from'), memberOf(one, 'to')];
    if (!isTime(from) || !isTime(to)) return []; // the schema says so
    const minutes = (minutesOf(to) - minutesOf(from) + DAY) % DAY;
    if (from === to)
      return [`Param '${name}.${index}.to' is the same as from: all day is from 00:00 to 24:00`];
    return minutes > 0 && minutes < SHORTEST_WINDOW_MINUTES
      ? [`Param '${name}.${index}.to' is less than ${SHORTEST_WINDOW_MINUTES} minutes after from`]
      : [];
  });
}

// What was held is released over five minutes: all of it has to find the window open.
const SHORTEST_WINDOW_MINUTES = 10;
const DAY = 1_440;
const TIME = /^[0-9]{2}:[0-9]{2}$/;

function isTime(value: unknown): value is string {
  return typeof value === 'string' && TIME.test(value);
}
