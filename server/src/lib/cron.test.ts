import { describe, expect, test } from 'vitest';
import { parseSchedule } from './cron.ts';

const schedule = (expression: string, timeZone = 'Europe/Berlin') => {
  const parsed = parseSchedule(expression, timeZone);
  if ('problem' in parsed) throw new Error(parsed.problem);
  return parsed;
};
/** The next times after this one. */
const times = (expression: string, after: string, count: number, timeZone?: string): string[] => {
  const { nextAfter } = schedule(expression, timeZone);
  const found: string[] = [];
  for (let ms: number | undefined = Date.parse(after); found.length < count; ) {
    ms = nextAfter(ms);
    if (ms === undefined) break;
    found.push(new Date(ms).toISOString());
  }
  return found;
};

describe('a schedule', () => {
  test('is in its time zone, and after the given time', () => {
    expect(times('0 9 * * 1', '2026-03-01T00:00:00Z', 2)).toEqual([
      '2026-03-02T08:00:00.000Z',
      '2026-03-09T08:00:00.000Z',
    ]);
    expect(times('0 9 * * *', '2026-01-01T00:30:00Z', 1, 'Asia/Tokyo')).toEqual(['2026-01-02T00:00:00.000Z']);
    expect(times('0 9 * * *', '2026-01-01T08:00:00.500Z', 1)).toEqual(['2026-01-02T08:00:00.000Z']);
    expect(times('0 9 * * *', '2026-01-01T07:59:59.999Z', 1)).toEqual(['2026-01-01T08:00:00.000Z']);
  });

  test('moves a fixed time that the clock skips to the end of the gap', () => {
    expect(times('30 2 * * *', '2026-03-28T12:00:00Z', 2)).toEqual([
      '2026-03-29T01:00:00.000Z',
      '2026-03-30T00:30:00.000Z',
    ]);
  });

  test('has a fixed time once if the clock repeats it', () => {
    const [first, ...others] = times('30 2 * * *', '2026-10-24T12:00:00Z', 2);
    expect([first, ...others]).toEqual(['2026-10-25T00:30:00.000Z', '2026-10-26T01:30:00.000Z']);
    // Also after a restart between both.
    expect(times('30 2 * * *', '2026-10-25T00:45:00Z', 1)).toEqual(['2026-10-26T01:30:00.000Z']);
  });

  test.each([
    // Clocks go from 02:00 to 03:00 on 28 March 2027, and from 03:00 to 02:00 on 31 October.
    ['30 2,14 * * *', ['01:00', '12:30'], ['00:30', '13:30']],
    ['0,30 2 * * *', ['01:00'], ['00:00', '00:30']],
    ['*/30 2 * * *', ['01:00'], ['00:00', '00:30']],
    ['30 1-3 * * *', ['00:30', '01:00', '01:30'], ['23:30', '00:30', '02:30']],
    ['0 2-23/6 * * *', ['01:00', '06:00', '12:00', '18:00'], ['00:00', '07:00', '13:00', '19:00']],
    ['0 0-23 2 * *', [], []],
  ])('has each listed time of a day with a clock change once: %s', (expression, inSpring, inAutumn) => {
    const within = (from: string, until: string) =>
      times(expression, from, 30)
        .filter((at) => at < until)
        .map((at) => at.slice(11, 16));
    expect(within('2027-03-27T22:59:00Z', '2027-03-28T22:00:00Z')).toEqual(inSpring);
    expect(within('2027-10-30T21:59:00Z', '2027-10-31T23:00:00Z')).toEqual(inAutumn);
  });

  test('follows the clock if the hour is not listed', () => {
    expect(times('0 */2 * * *', '2027-03-27T22:30:00Z', 3)).toEqual([
      '2027-03-27T23:00:00.000Z',
      '2027-03-28T02:00:00.000Z',
      '2027-03-28T04:00:00.000Z',
    ]);
    expect(times('0 */2 * * *', '2027-10-30T21:30:00Z', 4)).toEqual([
      '2027-10-30T22:00:00.000Z',
      '2027-10-31T00:00:00.000Z',
      '2027-10-31T01:00:00.000Z',
      '2027-10-31T03:00:00.000Z',
    ]);
    // Thursday from 23:00 to 24:00 occurs twice in Cairo.
    expect(times('0 * * * 4', '2029-10-25T20:30:00Z', 1, 'Africa/Cairo')).toEqual([
      '2029-10-25T21:00:00.000Z',
    ]);
    expect(times('@hourly', '2027-10-30T23:30:00Z', 3)).toEqual(
      times('0 * * * *', '2027-10-30T23:30:00Z', 3),
    );
  });

  test('may have spaces and tabs around its fields', () => {
    expect(times(' 0  9\t* * *\n', '2026-01-01T00:00:00Z', 1)).toEqual(['2026-01-01T08:00:00.000Z']);
    expect(times(' @Daily ', '2026-01-01T00:00:00Z', 1, 'UTC')).toEqual(['2026-01-02T00:00:00.000Z']);
  });

  test('has every interval of a day that has 23 or 25 hours', () => {
    expect(times('0 * * * *', '2026-03-28T23:00:00Z', 22)).toHaveLength(22);
    expect(times('0 * * * *', '2026-03-28T23:00:00Z', 23).at(-1)).toBe('2026-03-29T22:00:00.000Z');
    expect(times('0 * * * *', '2026-10-24T22:00:00Z', 25).at(-1)).toBe('2026-10-25T23:00:00.000Z');
  });

  test('knows leap days, last days and names', () => {
    expect(times('0 9 29 2 *', '2026-01-01T00:00:00Z', 2, 'UTC')).toEqual([
      '2028-02-29T09:00:00.000Z',
      '2032-02-29T09:00:00.000Z',
    ]);
    expect(times('0 0 L * *', '2026-02-01T00:00:00Z', 1, 'UTC')).toEqual(['2026-02-28T00:00:00.000Z']);
    expect(times('@daily', '2026-02-01T00:00:00Z', 1, 'UTC')).toEqual(['2026-02-02T00:00:00.000Z']);
    expect(times('0 0 30 2 *', '2026-02-01T00:00:00Z', 1, 'UTC')).toEqual([]);
  });

  test.each([
    'America/Havana',
    'America/New_York',
    'Africa/Cairo',
    'Asia/Gaza',
    'Australia/Lord_Howe',
    'Pacific/Chatham',
  ])('is strictly ascending in %s', (timeZone) => {
    for (const expression of ['15 0-3 * * 0,5', '30 2 * * *']) {
      const found = times(expression, '2026-01-01T00:00:00Z', 366, timeZone);
      expect([timeZone, found]).toEqual([timeZone, [...new Set(found)].toSorted()]);
    }
  });
});

test.each([
  ['* * * * * *', 'needs a minute, hour'],
  ['', 'needs a minute, hour'],
  ['2026-01-01T00:00:00', 'needs a minute, hour'],
  ['60 * * * *', 'Invalid value for minute: 60'],
  ['0 9 * * MONDAY', 'illegal characters'],
  ['*/0 * * * *', 'illegal stepping: 0'],
  ['@reboot', 'the names are @yearly, @annually, @monthly, @weekly, @daily, @midnight, @hourly'],
  ['@daily * * * *', 'the names are @yearly'],
])('rejects %s', (expression, problem) => {
  expect(parseSchedule(expression, 'UTC')).toEqual({ problem: expect.stringContaining(problem) });
});
