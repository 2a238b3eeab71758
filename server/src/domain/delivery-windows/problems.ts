import type { DeliveryWindows, Windows } from '../../contract/delivery-windows.ts';
import { isTimeZone } from '../../lib/time-zone.ts';

/** What is wrong with windows that have the right shape. */
export function problemsOfWindows({ time_zone: timeZone, channels }: DeliveryWindows): string[] {
  const problems: string[] = [];
  if (timeZone !== undefined && !isTimeZone(timeZone))
    problems.push(`Param 'time_zone' is not the IANA name of a time zone, such as Europe/Berlin`);
  const named = new Map<string, number>();
  for (const [index, { channel, windows }] of channels.entries()) {
    const before = named.get(channel);
    if (before !== undefined)
      problems.push(
        `Param 'channels.${index}.channel' names ${channel} again, after channels.${before}: give each channel once`,
      );
    named.set(channel, before ?? index);
    problems.push(...problemsOfTimes(`channels.${index}.windows`, windows));
  }
  return problems;
}

/** What is wrong with the times of windows; `name` is the parameter that has them. */
export function problemsOfTimes(name: string, windows: Windows): string[] {
  return [...windows.entries()]
    .filter(([, { from, to }]) => from === to)
    .map(([index]) => `Param '${name}.${index}.to' is the same as from: all day is from 00:00 to 24:00`);
}
