import { Cron } from 'croner';

/** Times that repeat, such as every Monday at nine in Berlin. */
export interface Schedule {
  /** Returns the first time after this one, in unix milliseconds; undefined if there is none. */
  nextAfter(ms: number): number | undefined;
}

/**
 * Parses a cron expression: minute, hour, day of the month, month and day of the week, or a name such as
 * `@daily`. Returns its problem if there is one. The time zone must exist.
 *
 * A fixed time of day that the clock skips is at the first valid time after it, and one that the clock
 * repeats is at the first of both. Other expressions skip times that do not exist, and repeat those that
 * occur twice.
 */
export function parseSchedule(expression: string, timeZone: string): Schedule | { problem: string } {
  if (!FORM.test(expression)) return { problem: 'needs a minute, hour, day, month and weekday' };
  try {
    const cron = new Cron(expression, { timezone: timeZone, mode: '5-part', paused: true });
    return { nextAfter: (ms) => cron.nextRun(new Date(ms))?.getTime() };
  } catch (error) {
    return { problem: error instanceof Error ? error.message.replace(/^CronPattern: /, '') : String(error) };
  }
}

// Also parsed by the library: a date, and expressions with seconds.
const FORM = /^(@[a-z]+|\S+( \S+){4})$/;
