import { expect, test } from 'vitest';
import { oneLine } from './one-line.ts';

test.each([
  ['as it is', 'No such user: Zoë 🙂', 'No such user: Zoë 🙂'],
  ['without line breaks and other control characters', 'one\r\ntwo\u0000three\u0085', 'one two three '],
  ['without halves of characters', 'a\ud83db\ude42', 'a\ufffdb\ufffd'],
])('a text becomes one line: %s', (_name, text, line) => {
  expect(oneLine(text)).toBe(line);
});

test('a text that is cut within a character stays well-formed', () => {
  expect(oneLine('abc🙂', 4)).toBe('abc\ufffd');
  expect(oneLine('abc🙂', 5)).toBe('abc🙂');
  expect(oneLine('ab\r\nc', 3)).toBe('ab ');
});
