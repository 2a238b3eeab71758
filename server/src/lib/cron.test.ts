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
  ['@reboot', 'not supported'],
])('rejects %s', (expression, problem) => {
  expect(parseSchedule(expression, 'UTC')).toEqual({ problem: expect.stringContaining(problem) });
});
