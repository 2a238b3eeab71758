import { expect, test } from 'vitest';
import { ownText } from './own-text.ts';

const text = (json: string) => ownText(Buffer.from(json), 'a', JSON.parse(json).a);

test('a number is answered as it was written, whatever a double makes of it', () => {
  for (const number of [
    '9007199254740993',
    '-123456789012345678901234567890',
    '0.1234567890123456789',
    '1e400',
  ])
    expect(text(`{"b":1,"a":{"x":[{"y":${number}}]}}`)).toBe(`{"x":[{"y":${number}}]}`);
  expect(text('{"a":{"x":9007199254740991}}')).toBe('{"x":9007199254740991}');
});

test('is one line, and of members with the same name the last', () => {
  expect(text('{"a":{"x":1},"a" : {\n\t"x": 12345678901234567890,\r\n "y": "a\\n b" }\n}')).toBe(
    '{"x": 12345678901234567890, "y": "a\\n b" }',
  );
  expect(text('{"a":{ "x":\n1 }}')).toBe('{"x":1}');
});

test('is null where there is none, and what it is where no text is known', () => {
  expect(ownText(Buffer.from('{}'), 'a', null)).toBe('null');
  expect(ownText(undefined, 'a', { x: 0.5 })).toBe('{"x":0.5}');
});
