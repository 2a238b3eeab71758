import { Cron } from 'croner';
import { type ZoneClock, zoneClock } from './zone-clock.ts';

/** Times that repeat, such as every Monday at nine in Berlin. */
export interface Schedule {
  /** Returns the first time after this one, in unix milliseconds; undefined if there is none. */
  nextAfter(ms: number): number | undefined;
}

/**
 * Parses a cron expression: minute, hour, day of the month, month and day of the week, or a name such as
 * `@daily`. Returns its problem if there is one. The time zone must exist.
 *
 * As in Vixie cron, clock changes matter only if the hour is listed. Then each time of a day is due once: at
 * the end of the gap if the clock skips it, and at the first of both if the clock repeats it. If the hour
 * begins with `*`, a schedule is due whenever the clock shows the time.
 */
export function parseSchedule(expression: string, timeZone: string): Schedule | { problem: string } {
  const fields = expression.split(/\s+/).filter((field) => field !== '');
  const [first = '', hour = ''] = fields;
  const isName = first.startsWith('@');
  if (isName ? fields.length > 1 || !NAMES.has(first.toLowerCase()) : fields.length !== 5)
    return { problem: isName ? UNKNOWN_NAME : 'needs a minute, hour, day, month and weekday' };
  try {
    // Wall times are computed as if they were in UTC.
    const cron = new Cron(fields.join(' '), { utcOffset: 0, mode: '5-part', paused: true });
    const nextWall = (wall: number) => cron.nextRun(new Date(wall))?.getTime();
    const clock = zoneClock(timeZone);
    const hasAnyHour = isName ? first.toLowerCase() === '@hourly' : /^[*?]/.test(hour);
    const next = hasAnyHour ? nextShown : nextOnce;
    return { nextAfter: (ms) => next(clock, nextWall, ms) };
  } catch (error) {
    return { problem: error instanceof Error ? error.message.replace(/^CronPattern: /, '') : String(error) };
  }
}

const NAMES = new Set(['@yearly', '@annually', '@monthly', '@weekly', '@daily', '@midnight', '@hourly']);
const UNKNOWN_NAME = `the names are ${[...NAMES].join(', ')}`;

type NextWall = (wall: number) => number | undefined;

/** Returns the next time of a schedule that has each of its wall times once. */
function nextOnce(clock: ZoneClock, nextWall: NextWall, ms: number): number | undefined {
  let wall = nextWall(clock.wallAt(ms));
  // Wall times that the clock repeats were due the first time, and several can be due at the end of a gap.
  while (wall !== undefined && clock.firstAt(wall) <= ms) wall = nextWall(wall);
  return wall === undefined ? undefined : clock.firstAt(wall);
}

/** Returns the next time at which the clock shows a wall time of the schedule. */
function nextShown(clock: ZoneClock, nextWall: NextWall, ms: number): number | undefined {
  const offsetAt = (at: number) => clock.wallAt(at) - at;
  let after = ms;
  let offset = offsetAt(ms);
  for (;;) {
    const wall = nextWall(after + offset);
    if (wall === undefined) return undefined;
    const at = wall - offset;
    // Clocks are never put back by a day, so a later change repeats no wall time before `after`.
    const soon = Math.min(at, after + DAY_MS);
    if (offsetAt(soon) !== offset) {
      const change = clock.changeAfter(after, soon);
      offset = offsetAt(change);
      after = change - 1;
    } else if (soon === at) return at;
    else {
      // Later changes cannot make it due earlier than this.
      after = Math.max(soon, at - 2 * DAY_MS);
      offset = offsetAt(after);
    }
  }
}

const DAY_MS = 86_400_000;
