import { Temporal } from 'temporal-polyfill';

/** A weekly time window in local time. */
export interface Window {
  /** The days on which it begins, 1 (Monday) to 7; every day if not given. */
  days?: readonly number[];
  /**
   * Minutes since midnight, from `from` until before `to`. If `to` is not later than `from`, it is on the
   * next day. 1440 is midnight at the end of the day.
   */
  from: number;
  to: number;
}

/**
 * Returns when one of the windows is open in a time zone and it is not `quiet`, in unix milliseconds: `nowMs`
 * if that is now, else the next opening; undefined if there is none within a year. Windows are compared with
 * the local time: an hour that is repeated is open twice, one that is skipped is never open, and a window
 * that begins in a skipped hour opens after the skip. Throws `RangeError` for an unknown time zone.
 */
export function nextOpening(
  windows: readonly Window[],
  timeZone: string,
  nowMs: number,
  quiet?: Window,
): number | undefined {
  const hours = { windows, quiet };
  const now = Temporal.Instant.fromEpochMilliseconds(nowMs).toZonedDateTimeISO(timeZone);
  if (isOpen(hours, now)) return nowMs;
  // A week without an opening has one in a skipped hour; a later week has that hour.
  for (let day = 0; day <= LONGEST_DAYS; day += WEEK) {
    const opening = openingWithin(hours, now, day);
    if (opening !== undefined) return opening;
  }
  return undefined;
}

const WEEK = 7;
const LONGEST_DAYS = 364;

interface Hours {
  windows: readonly Window[];
  quiet: Window | undefined;
}

function isOpen({ windows, quiet }: Hours, at: Temporal.ZonedDateTime): boolean {
  return isWithin(windows, at) && !(quiet !== undefined && isWithin([quiet], at));
}

function isWithin(windows: readonly Window[], at: Temporal.ZonedDateTime): boolean {
  const minute = at.hour * 60 + at.minute;
  const { dayOfWeek } = at;
  const before = dayOfWeek === 1 ? 7 : dayOfWeek - 1;
  return windows.some(({ days, from, to }) => {
    const begins = (day: number) => days === undefined || days.includes(day);
    if (from < to) return begins(dayOfWeek) && from <= minute && minute < to;
    return (begins(dayOfWeek) && from <= minute) || (begins(before) && minute < to);
  });
}

/** Returns the first opening after `now`, in the week that begins `fromDay` days after it. */
function openingWithin(
  { windows, quiet }: Hours,
  now: Temporal.ZonedDateTime,
  fromDay: number,
): number | undefined {
  const candidates = new Set<number>();
  const today = now.toPlainDate();
  for (let day = fromDay; day <= fromDay + WEEK; day++) {
    const date = today.add({ days: day });
    const addTime = (minutes: number) => {
      const time = date.toPlainDateTime({ hour: Math.floor(minutes / 60) % 24, minute: minutes % 60 });
      // A local time that occurs twice: either may be the next opening.
      for (const disambiguation of ['earlier', 'later'] as const)
        candidates.add(time.toZonedDateTime(now.timeZoneId, { disambiguation }).epochMilliseconds);
    };
    if (quiet !== undefined) addTime(quiet.to);
    for (const { from, to } of windows) {
      addTime(from);
      // An overnight window continues at midnight, even if this zone skipped the day before.
      if (to < from) candidates.add(date.toZonedDateTime(now.timeZoneId).epochMilliseconds);
    }
  }
  // A clock change may skip into a window.
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
      isOpen(
        { windows, quiet },
        Temporal.Instant.fromEpochMilliseconds(ms).toZonedDateTimeISO(now.timeZoneId),
      ),
    );
}
