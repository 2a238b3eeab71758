import { describe, expect, it } from 'vitest';
import { isTimeZone } from './time-zone.ts';

describe('a time zone', () => {
  it.each(['Europe/Berlin', 'UTC', 'America/Argentina/Buenos_Aires', 'Asia/Kolkata'])('%s exists', (name) => {
    expect(isTimeZone(name)).toBe(true);
  });

  it.each(['Mars/Phobos', '', '+02:00', '-01', 'Europe/Berlin ', '../etc'])('%j does not', (name) => {
    expect(isTimeZone(name)).toBe(false);
  });
});
