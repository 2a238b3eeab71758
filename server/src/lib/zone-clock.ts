import { LRUCache } from 'lru-cache';
import { cacheLimit } from './cache-limit.ts';

/**
 * The clocks of a time zone. A wall time is what they show, as the unix milliseconds at which a clock in UTC
 * shows the same.
 */
export interface ZoneClock {
  wallAt(ms: number): number;
  /** The first time at which the clocks show this wall time, or else the end of the gap that skips it. */
  firstAt(wall: number): number;
  /** The first time after `fromMs` with another offset than at `fromMs`. At `untilMs` it must be another. */
  changeAfter(fromMs: number, untilMs: number): number;
}

/** Returns the clocks of a time zone, which must exist. */
export function zoneClock(timeZone: string): ZoneClock {
  const format = formatOf(timeZone);
  const wallAt = (ms: number) => {
    const [month = 1, day, year = 0, ...time] = format.format(ms).match(/\d+/g)?.map(Number) ?? [];
    return Date.UTC(year, month - 1, day, ...time) + modulo(ms, SECOND_MS);
  };
  const offsetAt = (ms: number) => wallAt(ms) - ms;
  const changeAfter = (fromMs: number, untilMs: number) => {
    const before = offsetAt(fromMs);
    let [from, until] = [Math.floor(fromMs / SECOND_MS), Math.ceil(untilMs / SECOND_MS)];
    while (until - from > 1) {
      const middle = Math.floor((from + until) / 2);
      if (offsetAt(middle * SECOND_MS) === before) from = middle;
      else until = middle;
    }
    return until * SECOND_MS;
  };
  return {
    wallAt,
    changeAfter,
    firstAt(wall) {
      // A day away in UTC is before and after any clock change at this wall time.
      const [before, after] = [wall - offsetAt(wall - DAY_MS), wall - offsetAt(wall + DAY_MS)];
      if (before === after || wallAt(before) === wall) return before;
      return wallAt(after) === wall ? after : changeAfter(after, before);
    },
  };
}

const SECOND_MS = 1_000;
const DAY_MS = 86_400_000;

function modulo(value: number, divisor: number): number {
  return ((value % divisor) + divisor) % divisor;
}

// To create one takes longer than to compute a time with it.
const formats = new LRUCache<string, Intl.DateTimeFormat>(cacheLimit(200));

function formatOf(timeZone: string): Intl.DateTimeFormat {
  let format = formats.get(timeZone);
  if (format === undefined) {
    format = new Intl.DateTimeFormat('en-US', {
      timeZone,
      hourCycle: 'h23',
      ...{ year: 'numeric', month: 'numeric', day: 'numeric' },
      ...{ hour: 'numeric', minute: 'numeric', second: 'numeric' },
    });
    formats.set(timeZone, format);
  }
  return format;
}
