import { expect, test } from 'vitest';
import { Times } from '../src/element/time.ts';

// How times are written for readers.

const times = new Times('en-GB');
const at = (day: number, hour: number, minute = 0) => new Date(2026, 10, day, hour, minute);
const NOW = at(25, 10).getTime(); // a Wednesday

test.each([
  [at(25, 9, 59), '1 min ago', 'Today'],
  [at(25, 1), '9 hr ago', 'Today'],
  [at(24, 11), '23 hr ago', 'Yesterday'],
  [at(24, 1), 'yesterday', 'Yesterday'],
  [at(23, 11), '2 days ago', 'Monday'], // 47 hours
  [at(19, 23), '6 days ago', 'Thursday'],
  [at(18, 23), '18 Nov', '18 November'], // not yet seven times 24 hours
  [new Date(2025, 10, 18), '18 Nov 2025', '18 November 2025'],
  [at(25, 11), 'now', 'Today'], // by the clock of the server
])('%s was %s, under the heading %s', (time, ago, heading) => {
  expect([short(times.ago(time, NOW)), times.day(time, NOW)]).toEqual([short(ago), heading]);
});

test.each([
  [at(25, 18), 'Wed 18:00'],
  [at(30, 10), 'Mon 10:00'],
  [at(32, 10), '2 Dec 10:00'], // also a Wednesday
  [new Date(2027, 2, 2, 10), '2 Mar 2027 10:00'],
])('a snooze until %s ends on %s', (time, expected) => {
  expect(times.soon(time, NOW).replace(',', '')).toBe(expected);
});

/** Versions of ICU differ in `1 min ago`, `1 min. ago` and `1m ago`. */
function short(text: string): string {
  return text.replace(/ ?(m|h|d)[a-z.]* ago/, ' $1 ago');
}
