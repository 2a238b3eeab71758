import fc from 'fast-check';
import { expect, test } from 'vitest';
import { parseLongArray } from './parse-long-array.ts';

// As if every text were long, and a piece full with the first element.
const SMALL = { longBytes: 0, pieceBytes: 1 };
const parsed = (json: string) => parseLongArray(Buffer.from(json), 'recipients', SMALL);

test('a long body is read as JSON.parse reads it, with the text of its array', () => {
  const recipients = Array.from({ length: 5_000 }, (_, index) => ({
    external_id: `u${index}`,
    é: '\u{1f600},]',
  }));
  const array = ` ${JSON.stringify(recipients)}\n`;
  const json = Buffer.from(`{"title":"a","recipients":${array},"content":"[b]"}`);
  const read = parseLongArray(json, 'recipients');
  expect(read?.value).toEqual(JSON.parse(json.toString()));
  expect(Object.keys(read?.value ?? {})).toEqual(['title', 'recipients', 'content']);
  expect(read?.member.toString()).toBe(array);
});

test('a short one is left to JSON.parse', () => {
  expect(parseLongArray(Buffer.from('{"recipients":[1,2]}'), 'recipients')).toBeUndefined();
});

test.each([
  ['no such member', '{"title":"a"}'],
  ['a member that is no array', '{"recipients":{"a":1,"b":2}}'],
  ['an empty array', '{"recipients":[ ]}'],
  ['an array deeper down', '{"broadcast":{"recipients":[1,2]}}'],
  ['no object', '[{"recipients":[1,2]}]'],
  ['an element missing', '{"recipients":[1,,2]}'],
  ['a comma too many', '{"recipients":[1,2,]}'],
  ['a comma alone', '{"recipients":[,]}'],
  ['a bracket of the wrong kind at the end', '{"recipients":[1,2}}'],
  ['brackets crossed', '{"recipients":[[1,{2],3}]}'],
  ['something behind the array', '{"recipients":[1,2]3}'],
  ['something behind the object', '{"recipients":[1,2]}}'],
  ['something before the array', '{"recipients":1[1,2]}'],
  ['a control character before the array', '{"recipients":\u0001[1,2]}'],
  ['a wrong name', '{"\\x":1,"recipients":[1,2]}'],
  ['a text that does not end', '{"recipients":[1,"2'],
  ['names in an array', '{"recipients":["a":1,"b":2]}'],
])('what cannot be read in pieces is left to JSON.parse: %s', (_name, json) => {
  expect(parsed(json)).toBeUndefined();
});

test.each([
  ['of two arrays the last', '{"recipients":[1,2],"recipients":[3,4]}'],
  ['one spelt with escapes', '{"recipient\\u0073":[1,[2,3],{"a":4,"b":5}]}'],
  ['white space everywhere', ' { "recipients" : [ 1 , 2 ] , "a" : 3 } '],
  [
    'names that objects inherit',
    '{"__proto__":{"a":1},"recipients":[{"__proto__":[1,2]},{"constructor":1}]}',
  ],
])('%s', (_name, json) => {
  expect(parsed(json)?.value).toEqual(JSON.parse(json));
});

test('whatever is sent is read as JSON.parse reads it, or not at all', () => {
  const json = fc
    .tuple(fc.array(fc.json({ maxDepth: 2 })), fc.json({ maxDepth: 1 }))
    .map(([elements, other]) => {
      return `{"a":${other},"recipients":[${elements.join(',')}],"b":[1,2]}`;
    });
  const damaged = fc.tuple(
    json,
    fc.nat(),
    fc.nat({ max: 2 }),
    fc.constantFrom('', ',', '[', ']', '{', '}', '"', ':', '\\', '1', ' '),
  );
  let read = 0;
  fc.assert(
    fc.property(damaged, ([whole, place, length, put]) => {
      const at = place % whole.length;
      const sent = whole.slice(0, at) + put + whole.slice(at + length);
      const value = parsed(sent)?.value;
      if (value === undefined) return;
      read += 1;
      expect(value).toEqual(JSON.parse(sent));
    }),
    { numRuns: 5_000 },
  );
  expect(read).toBeGreaterThan(500);
});
