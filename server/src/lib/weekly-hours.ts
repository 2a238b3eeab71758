import { Temporal } from 'temporal-polyfill';

/** A stretch of time that comes back every week, by the clock on the wall. */
export interface Window {
  /** The days on which it begins, 1 (Monday) to 7; every day when left out. */
  days?: readonly number[];
  /**
   * Minutes since midnight: from `from` until before `to`, on the next day where `to` is not the later one.
   * 1440 is midnight at the end.
   */
  from: number;
  to: number;
}

/**
 * When one of the windows is open in a time zone: `nowMs` if one is now, else the first moment after it, in
 * unix milliseconds. A moment lies in a window when the clock on the wall shows a time of it: an hour that
 * the clock repeats is open twice, one that it skips never, and a window that begins in the skipped hour
 * opens when the clock has jumped. Undefined when none opens within a year. Throws `RangeError` for a time
 * zone that does not exist.
 */
export function nextOpening(windows: readonly Window[], timeZone: string, nowMs: number): number | undefined {
  const now = Temporal.Instant.fromEpochMilliseconds(nowMs).toZonedDateTimeISO(timeZone);
  if (isOpen(windows, now)) return nowMs;
  // What a week does not have is in an hour that the clock skipped that week: the next one has it.
  for (let day = 0; day <= LONGEST_DAYS; day += WEEK) {
    const opening = openingWithin(windows, now, day);
    if (opening !== undefined) return opening;
  }
  return undefined;
}

const WEEK = 7;
const LONGEST_DAYS = 364;

function isOpen(windows: readonly Window[], at: Temporal.ZonedDateTime): boolean {
  const minute = at.hour * 60 + at.minute;
  const { dayOfWeek } = at;
  const before = dayOfWeek === 1 ? 7 : dayOfWeek - 1;
  return windows.some(({ days, from, to }) => {
    const begins = (day: number) => days === undefined || days.includes(day);
    if (from < to) return begins(dayOfWeek) && from <= minute && minute < to;
    return (begins(dayOfWeek) && from <= minute) || (begins(before) && minute < to);
  });
}

/**
 * The first moment of the week that begins so many days after `now`, and after `now`, at which a window is
 * open.
 */
function openingWithin(
  windows: readonly Window[],
  now: Temporal.ZonedDateTime,
  fromDay: number,
): number | undefined {
  const candidates = new Set<number>();
  const today = now.toPlainDate();
  for (let day = fromDay; day <= fromDay + WEEK; day++) {
    const date = today.add({ days: day });
    for (const { from, to } of windows) {
      const begins = date.toPlainDateTime({ hour: Math.floor(from / 60) % 24, minute: from % 60 });
      // Of an hour that is shown twice either showing may be the next one.
      for (const disambiguation of ['earlier', 'later'] as const)
        candidates.add(begins.toZonedDateTime(now.timeZoneId, { disambiguation }).epochMilliseconds);
      // An overnight window goes on at midnight, where the day before was none in this zone.
      if (to < from) candidates.add(date.toZonedDateTime(now.timeZoneId).epochMilliseconds);
    }
  }
  // Where the clock jumps it may jump into a window.
  const end = now.add({ days: fromDay + WEEK + 1 }).epochMilliseconds;
  for (
    let jump = now.getTimeZoneTransition('next');
    jump !== null;
    jump = jump.getTimeZoneTransition('next')
  ) {
    if (jump.epochMilliseconds > end) break;
    candidates.add(jump.epochMilliseconds);
  }
  return [...candidates]
    .filter((ms) => ms > now.epochMilliseconds)
    .sort((a, b) => a - b)
    .find((ms) =>
      isOpen(windows, Temporal.Instant.fromEpochMilliseconds(ms).toZonedDateTimeISO(now.timeZoneId)),
    );
}
