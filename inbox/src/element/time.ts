const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

/** Formats times for readers of a language. */
export class Times {
  readonly #locale: string;
  readonly #relative: Intl.RelativeTimeFormat;
  readonly #days: Intl.RelativeTimeFormat;

  constructor(locale: string) {
    this.#locale = locale;
    this.#relative = new Intl.RelativeTimeFormat(locale, { numeric: 'auto', style: 'narrow' });
    this.#days = new Intl.RelativeTimeFormat(locale, { numeric: 'auto' });
  }

  /** `5 min. ago`, or a date after a week. */
  ago(at: Date, now = Date.now()): string {
    const ms = now - at.getTime();
    if (ms < MINUTE) return this.#relative.format(0, 'second');
    if (ms < HOUR) return this.#relative.format(-Math.floor(ms / MINUTE), 'minute');
    if (ms < DAY) return this.#relative.format(-Math.floor(ms / HOUR), 'hour');
    if (ms < 7 * DAY) return this.#relative.format(-Math.floor(ms / DAY), 'day');
    return this.#date(at, now, 'short');
  }

  /** The heading of a day: `Today`, `Yesterday`, a weekday, or a date. */
  day(at: Date, now = Date.now()): string {
    const days = Math.round((startOfDay(new Date(now)) - startOfDay(at)) / DAY);
    if (days >= 0 && days < 2) return capitalized(this.#days.format(-days, 'day'), this.#locale);
    if (days > 0 && days < 7)
      return capitalized(new Intl.DateTimeFormat(this.#locale, { weekday: 'long' }).format(at), this.#locale);
    return this.#date(at, now, 'long');
  }

  full(at: Date): string {
    return new Intl.DateTimeFormat(this.#locale, { dateStyle: 'full', timeStyle: 'short' }).format(at);
  }

  /** A weekday and time, for a choice in the next days. */
  soon(at: Date): string {
    const options = { weekday: 'short', hour: 'numeric', minute: '2-digit' } as const;
    return new Intl.DateTimeFormat(this.#locale, options).format(at);
  }

  #date(at: Date, now: number, month: 'short' | 'long'): string {
    const isThisYear = at.getFullYear() === new Date(now).getFullYear();
    const year = isThisYear ? {} : ({ year: 'numeric' } as const);
    return new Intl.DateTimeFormat(this.#locale, { day: 'numeric', month, ...year }).format(at);
  }
}

/** Midnight of the day in local time, in milliseconds. */
export function startOfDay(at: Date): number {
  return new Date(at.getFullYear(), at.getMonth(), at.getDate()).getTime();
}

export type SnoozeChoice = 'inAnHour' | 'thisEvening' | 'tomorrow' | 'nextWeek';

/** The times that a menu offers, soonest first. */
export function snoozeChoices(now = new Date()): [SnoozeChoice, Date][] {
  const at = (days: number, hour: number) =>
    new Date(now.getFullYear(), now.getMonth(), now.getDate() + days, hour);
  const daysToMonday = (8 - now.getDay()) % 7 || 7;
  return [
    ['inAnHour', new Date(now.getTime() + HOUR)],
    ...(now.getHours() < 17 ? [['thisEvening', at(0, 18)] satisfies [SnoozeChoice, Date]] : []),
    ['tomorrow', at(1, 9)],
    ['nextWeek', at(daysToMonday, 9)],
  ];
}

function capitalized(text: string, locale: string): string {
  const [first = '', ...others] = text;
  return first.toLocaleUpperCase(locale) + others.join('');
}
