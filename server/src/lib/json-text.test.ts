import fc from 'fast-check';
import { expect, test } from 'vitest';
import { exactJson, parseExact } from './json-text.ts';

const exact = (json: string) => exactJson(Buffer.from(json), 'a', JSON.parse(json).a);
const NUMBERS = [
  '9007199254740993',
  '-123456789012345678901234567890',
  '0.1234567890123456789',
  '1e400',
  '1.0',
];

test('the JSON of a member keeps its numbers as they were sent, also those that a double cannot hold', () => {
  for (const number of NUMBERS.slice(0, 4))
    expect(exact(`{"b":1,"a":{"x":[{"y":${number}}]}}`)).toBe(`{"x":[{"y":${number}}]}`);
  expect(exact('{"a":{"x":9007199254740991}}')).toBe('{"x":9007199254740991}');
});

test('the JSON of a member is one line, of the last member with the name', () => {
  expect(exact('{"a":{"x":1},"a" : {\n\t"x": 12345678901234567890,\r\n "y": "a\\n b" }\n}')).toBe(
    '{"x": 12345678901234567890, "y": "a\\n b" }',
  );
  expect(exact('{"a":{ "x":\n1 }}')).toBe('{"x":1}');
});

test('the JSON of a missing member is null; without a text it is made from the value', () => {
  expect(exactJson(Buffer.from('{}'), 'a', null)).toBe('null');
  expect(exactJson(undefined, 'a', { x: 0.5 })).toBe('{"x":0.5}');
});

test('parsed exactly, JSON is serialized with the same numbers', () => {
  const json = `[{"a":"]},[\\"","b":[1,2]},[],"é,\\\\",{},null,true,{"__proto__":1.50},${NUMBERS}]`;
  expect(JSON.stringify(parseExact(json))).toBe(json);
  expect(JSON.stringify(parseExact(` [ ${json} ,\n 1.0 ] `))).toBe(`[${json},1.0]`);
  for (const empty of ['[]', ' [ \n] ']) expect(JSON.stringify(parseExact(empty))).toBe('[]');
});

test('parsed exactly, any JSON is serialized as the same value', () => {
  fc.assert(
    fc.property(fc.json(), (json) => {
      expect(JSON.parse(JSON.stringify(parseExact(json)))).toEqual(JSON.parse(json));
    }),
  );
});
