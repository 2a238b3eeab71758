const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

/** Formats times for readers of a language. */
export class Times {
  /** The language tag; undefined, which `Intl` takes for the language of the browser, if there is none. */
  readonly locale: string | undefined;
  readonly #relative: Intl.RelativeTimeFormat;
  readonly #days: Intl.RelativeTimeFormat;
  readonly #full: Intl.DateTimeFormat;

  /** The time, in milliseconds. */
  readonly now: () => number;

  /** Without a clock, such as that of an inbox of an earlier release, that of the browser counts. */
  constructor(locale: string, now = Date.now) {
    this.now = now;
    this.locale = tagOf(locale);
    this.#relative = new Intl.RelativeTimeFormat(this.locale, { numeric: 'auto', style: 'narrow' });
    this.#days = new Intl.RelativeTimeFormat(this.locale, { numeric: 'auto' });
    this.#full = new Intl.DateTimeFormat(this.locale, { dateStyle: 'full', timeStyle: 'short' });
  }

  /** `5 min. ago`, or a date after a week. Days are those of the calendar, as in the headings. */
  ago(at: Date, now = this.now()): string {
    const ms = now - at.getTime();
    const days = daysFrom(at, now);
    if (days > 6) return this.#date(at, now, 'short');
    return ms < MINUTE
      ? this.#relative.format(0, 'second')
      : ms < HOUR
        ? this.#relative.format(-Math.floor(ms / MINUTE), 'minute')
        : ms < DAY
          ? this.#relative.format(-Math.floor(ms / HOUR), 'hour')
          : this.#relative.format(-days, 'day');
  }

  /** The heading of a day: `Today`, `Yesterday`, a weekday, or a date. */
  day(at: Date, now = this.now()): string {
    const days = daysFrom(at, now);
    if (days < 0 || days > 6) return this.#date(at, now, 'long');
    const text = days < 2 ? this.#days.format(-days, 'day') : this.#format({ weekday: 'long' }, at);
    return capitalized(text, this.locale);
  }

  full(at: Date): string {
    return this.#full.format(at);
  }

  /** A weekday and time in the next days; later, a date and time. */
  soon(at: Date, now = this.now()): string {
    const time = { hour: 'numeric', minute: '2-digit' } as const;
    return daysFrom(now, at) > 6
      ? this.#date(at, now, 'short', time)
      : this.#format({ weekday: 'short', ...time }, at);
  }

  #date(at: Date, now: number, month: 'short' | 'long', time?: Intl.DateTimeFormatOptions): string {
    const isThisYear = at.getFullYear() === new Date(now).getFullYear();
    return this.#format({ day: 'numeric', month, year: isThisYear ? undefined : 'numeric', ...time }, at);
  }

  #format(options: Intl.DateTimeFormatOptions, at: Date): string {
    return new Intl.DateTimeFormat(this.locale, options).format(at);
  }
}

/** How many days of the calendar lie between two times. */
function daysFrom(earlier: Date | number, later: Date | number): number {
  return Math.round((startOfDay(later) - startOfDay(earlier)) / DAY);
}

/** Midnight of the day in local time, in milliseconds. */
export function startOfDay(at: Date | number): number {
  return new Date(at).setHours(0, 0, 0, 0);
}

/** Pages, projects and users also write `pt_BR`, or what is no locale at all. */
function tagOf(locale: string): string | undefined {
  try {
    return Intl.getCanonicalLocales(locale.replaceAll('_', '-'))[0];
  } catch {
    return undefined;
  }
}

function capitalized(text: string, locale: string | undefined): string {
  const [first = '', ...others] = text;
  return first.toLocaleUpperCase(locale) + others.join('');
}
