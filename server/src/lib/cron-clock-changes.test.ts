import fc from 'fast-check';
import { Temporal } from 'temporal-polyfill';
import { expect, test } from 'vitest';
import { parseSchedule } from './cron.ts';

const DAY_MS = 86_400_000;

/** Field of a cron expression, with the values that it has. */
interface Field {
  text: string;
  values: readonly number[];
}

const range = (from: number, to: number, step = 1) =>
  Array.from({ length: Math.floor((to - from) / step) + 1 }, (_, index) => from + index * step);
/** A list, a range or a range with steps. */
const listed = (max: number): fc.Arbitrary<Field> => {
  const number = fc.integer({ min: 0, max });
  const ends = fc.tuple(number, number).map(([a, b]) => [Math.min(a, b), Math.max(a, b)] as const);
  return fc.oneof(
    fc
      .uniqueArray(number, { minLength: 1, maxLength: 3 })
      .map((values): Field => ({ text: values.join(','), values })),
    ends.map(([from, to]): Field => ({ text: `${from}-${to}`, values: range(from, to) })),
    fc
      .tuple(ends, fc.integer({ min: 1, max }))
      .map(([[from, to], step]): Field => ({ text: `${from}-${to}/${step}`, values: range(from, to, step) })),
  );
};
const stepped = (max: number): fc.Arbitrary<Field> =>
  fc
    .integer({ min: 1, max })
    .map((step): Field => ({ text: step === 1 ? '*' : `*/${step}`, values: range(0, max, step) }));
const minutes = fc.oneof(listed(59), stepped(59));
const weekdays = fc.oneof(fc.constant<Field>({ text: '*', values: range(0, 6) }), listed(6));

interface Times {
  zone: string;
  from: Temporal.Instant;
  until: Temporal.Instant;
  minute: Field;
  hour: Field;
  weekday: Field;
}

const matches = ({ minute, hour, weekday }: Times, at: Temporal.PlainDateTime | Temporal.ZonedDateTime) =>
  weekday.values.includes(at.dayOfWeek % 7) &&
  hour.values.includes(at.hour) &&
  minute.values.includes(at.minute);
const within = ({ from, until }: Times, ms: number) =>
  from.epochMilliseconds < ms && ms <= until.epochMilliseconds;

/** Each wall time of each day once: the first time, or at the end of the gap. */
function onceEach(given: Times): number[] {
  const { zone, from, until, hour, minute } = given;
  const found = new Set<number>();
  const last = until.toZonedDateTimeISO(zone).toPlainDate().add({ days: 1 });
  let date = from.toZonedDateTimeISO(zone).toPlainDate().subtract({ days: 1 });
  for (; Temporal.PlainDate.compare(date, last) <= 0; date = date.add({ days: 1 }))
    for (const h of hour.values)
      for (const m of minute.values) {
        const wall = date.toPlainDateTime({ hour: h, minute: m });
        if (!matches(given, wall)) continue;
        let at = wall.toZonedDateTime(zone, { disambiguation: 'earlier' });
        if (!at.toPlainDateTime().equals(wall)) at = at.getTimeZoneTransition('next') ?? at;
        if (within(given, at.epochMilliseconds)) found.add(at.epochMilliseconds);
      }
  return [...found].sort((a, b) => a - b);
}

/** Whenever the clock shows the time. */
function wheneverShown(given: Times): number[] {
  const { zone, from, until } = given;
  const found: number[] = [];
  const first = Math.floor(from.epochMilliseconds / 60_000) * 60_000;
  for (let ms = first; ms <= until.epochMilliseconds; ms += 60_000)
    if (
      within(given, ms) &&
      matches(given, Temporal.Instant.fromEpochMilliseconds(ms).toZonedDateTimeISO(zone))
    )
      found.push(ms);
  return found;
}

function scheduled({ zone, from, until, minute, hour, weekday }: Times): number[] {
  const schedule = parseSchedule(`${minute.text} ${hour.text} * * ${weekday.text}`, zone);
  if ('problem' in schedule) throw new Error(schedule.problem);
  const found: number[] = [];
  let ms = schedule.nextAfter(from.epochMilliseconds);
  for (; ms !== undefined && ms <= until.epochMilliseconds; ms = schedule.nextAfter(ms)) found.push(ms);
  return found;
}

const ZONES = [
  'Europe/Berlin',
  'America/New_York',
  'Australia/Lord_Howe',
  'America/Santiago',
  'America/Havana',
  'Africa/Cairo',
  'Antarctica/Troll',
];

/** A period that has one of the clock changes of the years 2025 to 2032. */
const periods = (zone: string) => {
  const changes: Temporal.Instant[] = [];
  let at = Temporal.ZonedDateTime.from(`2025-01-01T00:00[${zone}]`).getTimeZoneTransition('next');
  for (; at !== null && at.year <= 2032; at = at.getTimeZoneTransition('next')) changes.push(at.toInstant());
  return fc
    .tuple(
      fc.constantFrom(...changes),
      fc.integer({ min: 1, max: 1.2 * DAY_MS }),
      fc.integer({ min: 1, max: 1.2 * DAY_MS }),
    )
    .map(([change, before, after]) => ({
      zone,
      from: change.subtract({ milliseconds: before }),
      until: change.add({ milliseconds: after }),
    }));
};

const check = (hours: fc.Arbitrary<Field>, expected: (given: Times) => number[], numRuns: number) => {
  const times = fc.constantFrom(...ZONES).chain((zone) => fc.tuple(periods(zone), minutes, hours, weekdays));
  fc.assert(
    fc.property(times, ([period, minute, hour, weekday]) => {
      const given = { ...period, minute, hour, weekday };
      expect(scheduled(given)).toEqual(expected(given));
    }),
    { numRuns },
  );
};

test('a schedule with listed hours has each of its wall times once', () => {
  check(listed(23), onceEach, 300);
});

test('a schedule with other hours is due whenever the clock shows the time', () => {
  check(stepped(23), wheneverShown, 60);
});

test('a schedule of one day in the year is found across clock changes', () => {
  const first = parseSchedule('30 * 29 2 *', 'America/Santiago');
  if ('problem' in first) throw new Error(first.problem);
  expect(new Date(first.nextAfter(Date.UTC(2025, 0)) ?? 0).toISOString()).toBe('2028-02-29T03:30:00.000Z');
});
