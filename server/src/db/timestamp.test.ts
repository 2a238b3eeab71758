import pg from 'pg';
import { expect, test } from 'vitest';
import { parseTimestamp } from './timestamp.ts';

const parseByDriver: (text: string) => Date | number = pg.types.getTypeParser(
  pg.types.builtins.TIMESTAMPTZ,
  'text',
);

test.each([
  ['2026-11-21 02:13:33+00', '2026-11-21T02:13:33.000Z'],
  ['2026-11-21 02:13:33.5+00', '2026-11-21T02:13:33.500Z'],
  ['2026-11-21 02:13:33.05+00', '2026-11-21T02:13:33.050Z'],
  ['2026-11-21 02:13:33.999999+00', '2026-11-21T02:13:33.999Z'],
  ['1969-12-31 23:59:59.999999+00', '1969-12-31T23:59:59.999Z'],
  ['2024-02-29 00:00:00+00', '2024-02-29T00:00:00.000Z'],
  ['9999-12-31 23:59:59.001+00', '9999-12-31T23:59:59.001Z'],
  ['0099-03-15 00:00:00+00', '0099-03-15T00:00:00.000Z'],
  ['10000-01-01 00:00:00+00', '+010000-01-01T00:00:00.000Z'],
  ['0044-03-15 00:00:00+00 BC', '-000043-03-15T00:00:00.000Z'],
  ['2026-11-21 03:13:33.5+01', '2026-11-21T02:13:33.500Z'],
  ['2026-11-21 07:43:33.5+05:30', '2026-11-21T02:13:33.500Z'],
])('%s is the time that the driver reads, and is written as %s', (text, iso) => {
  const time = parseTimestamp(text);
  expect(time).toEqual(parseByDriver(text));
  expect(JSON.stringify({ time })).toBe(`{"time":"${iso}"}`);
  expect(new Date(Number(time)).toISOString()).toBe(iso);
});

test('infinity is a number', () => {
  expect(parseTimestamp('infinity')).toBe(Number.POSITIVE_INFINITY);
  expect(parseTimestamp('-infinity')).toBe(Number.NEGATIVE_INFINITY);
});

test('every millisecond is kept', () => {
  for (let ms = 0; ms < 1_000; ms += 1) {
    const text = `2026-11-21 02:13:33.${String(ms).padStart(3, '0')}+00`;
    const time = parseTimestamp(text) as Date;
    expect(time.getTime()).toBe(Date.UTC(2026, 10, 21, 2, 13, 33, ms));
    expect(time.toISOString()).toBe(new Date(time.getTime()).toISOString());
  }
});
