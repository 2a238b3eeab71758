import fc from 'fast-check';
import { DateTime } from 'luxon';
import { describe, expect, it } from 'vitest';
import { nextOpening, type Window } from './weekly-hours.ts';

const at = (text: string, zone: string) => DateTime.fromISO(text, { zone }).toMillis();
const opening = (windows: Window[], zone: string, now: string) =>
  DateTime.fromMillis(nextOpening(windows, zone, at(now, zone)) ?? Number.NaN, { zone }).toISO({
    suppressMilliseconds: true,
  });

const daytime: Window = { from: 8 * 60, to: 21 * 60 };
const overnight: Window = { from: 22 * 60, to: 6 * 60 };

describe('the next opening', () => {
  it.each<[string, Window[], string, string, string]>([
    [
      'is now while one is open',
      [daytime],
      'Europe/Berlin',
      '2026-06-01T08:00:00',
      '2026-06-01T08:00:00+02:00',
    ],
    [
      'is this morning before it',
      [daytime],
      'Europe/Berlin',
      '2026-06-01T07:59:59',
      '2026-06-01T08:00:00+02:00',
    ],
    [
      'is tomorrow once it is over',
      [daytime],
      'Europe/Berlin',
      '2026-06-01T21:00:00',
      '2026-06-02T08:00:00+02:00',
    ],
    ['runs over midnight', [overnight], 'UTC', '2026-06-01T03:00:00', '2026-06-01T03:00:00Z'],
    ['begins in the evening', [overnight], 'UTC', '2026-06-01T06:00:00', '2026-06-01T22:00:00Z'],
    [
      'belongs to the day on which it begins',
      [{ ...overnight, days: [5] }],
      'UTC',
      '2026-06-05T05:00:00', // a Friday; its night begins in the evening
      '2026-06-05T22:00:00Z',
    ],
    [
      'goes on in the morning of the day after',
      [{ ...overnight, days: [5] }],
      'UTC',
      '2026-06-06T05:00:00',
      '2026-06-06T05:00:00Z',
    ],
    [
      'is on Monday after a weekend',
      [{ ...daytime, days: [1, 2, 3, 4, 5] }],
      'UTC',
      '2026-06-05T21:30:00',
      '2026-06-08T08:00:00Z',
    ],
    [
      'is when the clock has jumped over the beginning',
      [{ from: 150, to: 240 }],
      'Europe/Berlin',
      '2026-03-29T01:00:00',
      '2026-03-29T03:00:00+02:00',
    ],
    [
      'is on the next day where the clock jumps over all of it',
      [{ from: 130, to: 170 }],
      'Europe/Berlin',
      '2026-03-29T01:00:00',
      '2026-03-30T02:10:00+02:00',
    ],
    [
      'is a week later where it has one day and that one skips it',
      [{ from: 130, to: 170, days: [7] }],
      'Europe/Berlin',
      '2026-03-29T01:00:00',
      '2026-04-05T02:10:00+02:00',
    ],
    [
      'is the first showing of an hour that is shown twice',
      [{ from: 150, to: 240 }],
      'Europe/Berlin',
      '2026-10-25T01:00:00',
      '2026-10-25T02:30:00+02:00',
    ],
    [
      'is the second showing, where the first is over',
      [{ from: 150, to: 155 }],
      'Europe/Berlin',
      '2026-10-25T02:40:00+02:00',
      '2026-10-25T02:30:00+01:00',
    ],
    [
      'is on the day after one that its zone never had',
      [daytime],
      'Pacific/Apia',
      '2011-12-29T22:00:00',
      '2011-12-31T08:00:00+14:00',
    ],
    [
      'is a fortnight later where the clock skips it next week',
      [{ from: 130, to: 170, days: [7] }],
      'Europe/Berlin',
      '2026-03-22T03:00:00',
      '2026-04-05T02:10:00+02:00',
    ],
    [
      'is a fortnight later where next week has no such day',
      [{ ...daytime, days: [5] }],
      'Pacific/Apia',
      '2011-12-23T22:00:00',
      '2012-01-06T08:00:00+14:00',
    ],
    [
      'is the morning after a day that was to begin it and never came',
      [{ ...overnight, days: [5] }],
      'Pacific/Apia',
      '2011-12-29T22:00:00',
      '2011-12-31T00:00:00+14:00',
    ],
    [
      'may be all day long',
      [{ from: 0, to: 1440, days: [3] }],
      'UTC',
      '2026-06-02T12:00:00',
      '2026-06-03T00:00:00Z',
    ],
  ])('%s', (_what, windows, zone, now, expected) => {
    expect(opening(windows, zone, now)).toBe(expected);
  });

  it.each<[string, Window, string, string]>([
    ['is when the quiet hours end', overnight, '2026-06-01T23:00:00', '2026-06-02T06:00:00Z'],
    ['is now before they begin', overnight, '2026-06-01T21:59:59', '2026-06-01T21:59:59Z'],
    [
      'is after the weekend, if that is quiet',
      { from: 0, to: 1440, days: [6, 7] },
      '2026-06-06T09:00:00',
      '2026-06-08T00:00:00Z',
    ],
    [
      'is after the night that begins on the last quiet day',
      { ...overnight, days: [5] },
      '2026-06-06T03:00:00',
      '2026-06-06T06:00:00Z',
    ],
  ])('with quiet hours %s', (_what, quiet, now, expected) => {
    const found = nextOpening([{ from: 0, to: 1440 }], 'UTC', at(now, 'UTC'), quiet);
    expect(DateTime.fromMillis(found ?? Number.NaN, { zone: 'UTC' }).toMillis()).toBe(at(expected, 'UTC'));
  });

  it('does not exist if all windows are quiet', () => {
    expect(nextOpening([daytime], 'UTC', 0, { from: 7 * 60, to: 22 * 60 })).toBeUndefined();
  });

  it('is the first minute at which a second library sees a window open, in every zone there is', () => {
    const zones = Intl.supportedValuesOf('timeZone');
    const minute = fc.integer({ min: 0, max: 1439 });
    const window = fc
      .record({
        from: minute,
        to: fc.integer({ min: 1, max: 1440 }),
        days: fc.option(fc.uniqueArray(fc.integer({ min: 1, max: 7 }), { minLength: 1 }), { nil: undefined }),
      })
      .filter(({ from, to }) => from !== to)
      .map(({ days, ...rest }): Window => (days === undefined ? rest : { ...rest, days }));
    fc.assert(
      fc.property(
        fc.array(window, { minLength: 1, maxLength: 3 }),
        fc.constantFrom(...zones),
        fc.oneof(
          fc.integer({ min: Date.UTC(2024, 0), max: Date.UTC(2031, 0) }),
          // Around the weeks in which clocks change.
          fc.integer({ min: Date.UTC(2026, 2, 1), max: Date.UTC(2026, 3, 10) }),
          fc.integer({ min: Date.UTC(2026, 9, 1), max: Date.UTC(2026, 10, 10) }),
        ),
        fc.option(window, { nil: undefined }),
        (windows, zone, nowMs, quiet) => {
          const found = nextOpening(windows, zone, nowMs, quiet);
          expect(found).toBe(firstOpenMinute(windows, zone, nowMs, quiet));
        },
      ),
      { numRuns: 300 },
    );
  });
});

const MINUTE_MS = 60_000;
const QUARTER_MS = 15 * MINUTE_MS;

/**
 * Computes the opening minute by minute. Clocks change and days begin only at quarters of an hour, so the
 * second library, which is slow, is called once for each.
 */
function firstOpenMinute(
  windows: readonly Window[],
  zone: string,
  nowMs: number,
  quiet: Window | undefined,
): number | undefined {
  const limit = nowMs + 16 * 86_400_000;
  for (let quarter = nowMs - (nowMs % QUARTER_MS); quarter < limit; quarter += QUARTER_MS) {
    const there = DateTime.fromMillis(quarter, { zone });
    // The previous calendar day, even if the zone skipped it.
    const before = DateTime.utc(there.year, there.month, there.day).minus({ days: 1 });
    const within = (some: readonly Window[], minute: number) =>
      some.some(({ days, from, to }) => {
        const dayOf = (one: DateTime) => days === undefined || days.includes(one.weekday);
        if (from < to) return dayOf(there) && minute >= from && minute < to;
        return (dayOf(there) && minute >= from) || (dayOf(before) && minute < to);
      });
    const open = (minute: number) => within(windows, minute) && !within(quiet ? [quiet] : [], minute);
    const first = there.hour * 60 + there.minute;
    for (let ms = quarter, minute = first; minute < first + 15; ms += MINUTE_MS, minute += 1)
      if (ms + MINUTE_MS > nowMs && open(minute)) return Math.max(ms, nowMs);
  }
  return undefined;
}
