import { itemsOf, memberOf } from '../../lib/members.ts';
import { isTimeZone } from '../../lib/time-zone.ts';

/** What is wrong with windows, as far as their schema does not say it, of whatever shape they are. */
export function problemsOfWindows(given: unknown): string[] {
  const timeZone = memberOf(given, 'time_zone');
  const channels = itemsOf(memberOf(given, 'channels'));
  return [
    ...(typeof timeZone === 'string' && !isTimeZone(timeZone)
      ? [`Param 'time_zone' is not the IANA name of a time zone, such as Europe/Berlin`]
      : []),
    ...problemsOfRepeats(channels),
    ...channels.flatMap((one, index) =>
      problemsOfTimes(`channels.${index}.windows`, memberOf(one, 'windows')),
    ),
  ];
}

/** What is wrong with channels of which one is named twice. */
export function problemsOfRepeats(channels: readonly unknown[]): string[] {
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

/** What is wrong with the times of windows; `name` is the parameter that has them. */
export function problemsOfTimes(name: string, windows: unknown): string[] {
  return [...itemsOf(windows).entries()]
    .filter(
      ([, one]) => typeof memberOf(one, 'from') === 'string' && memberOf(one, 'from') === memberOf(one, 'to'),
    )
    .map(([index]) => `Param '${name}.${index}.to' is the same as from: all day is from 00:00 to 24:00`);
}
