import fc from 'fast-check';
import { expect, test } from 'vitest';
import {
  exactJson,
  JsonBytes,
  joinTexts,
  keepNumbers,
  parseExact,
  readJson,
  rememberWritten,
  withExactNumbers,
  writeJson,
  writtenNumbers,
} from './json-text.ts';

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

test('texts are joined in their order; with bytes among them, to bytes', () => {
  expect(joinTexts(['{"a":', '1', '}'])).toBe('{"a":1}');
  const object = new JsonBytes([Buffer.from('{'), Buffer.from('"a":"日"'), Buffer.from('}')]);
  const joined = joinTexts([
    '{"id":1,',
    object.withoutBraces(),
    ',"b":',
    new JsonBytes([Buffer.from('2')]),
    '}',
  ]);
  expect(joined.toString()).toBe('{"id":1,"a":"日","b":2}');
  expect(joined.length).toBe(Buffer.byteLength(joined.toString()));
  expect(new JsonBytes([Buffer.from('{"a":1}')]).withoutBraces().toString()).toBe('"a":1');
});

test('JSON that was read is written with the same numbers', () => {
  const json = `{"a":[9007199254740993,{"b":1e400}],"c":[${NUMBERS}],"__proto__":{"d":1e400},"e":"1e9"}`;
  expect(writeJson(readJson(json))).toBe(json.replace('1.0]', '1]'));
  expect(JSON.stringify(withExactNumbers(readJson(json)))).toBe(writeJson(readJson(json)));
});

test('such a number is found wherever JSON may have it', () => {
  for (const number of [...NUMBERS.slice(0, 4), '-1E400', '-0.1e999'])
    for (const json of [`[${number}]`, `[0,${number}]`, `{"a":${number}}`, `["1e5",{"a":[${number}]}]`])
      for (const spaced of [json, json.replaceAll(number, `\n\t ${number}\r\n`)])
        expect(writeJson(readJson(spaced))).toBe(json);
});

test('numbers beside long strings and escapes are read', () => {
  const text = String.raw`\u0041\"1e9\\`;
  for (const string of [text, text.repeat(500_000), 'x'.repeat(5_000_000), '']) {
    const json = `{"${string}":"${string}","a":[9007199254740993],"\\"":"\\\\","b":1e400}`;
    const read = readJson(json) as Record<string, unknown>;
    expect(read).toEqual(JSON.parse(json));
    expect(writeJson({ a: read.a, ...read })).toContain('"a":[9007199254740993]');
    expect(writeJson(read).endsWith('"b":1e400}')).toBe(true);
  }
});

test('an own member __proto__ keeps its number', () => {
  const json = '{"__proto__":9007199254740993,"a":{"__proto__":[1e400]}}';
  expect(writeJson(readJson(json))).toBe(json);
  expect(Object.getPrototypeOf(readJson(json))).toBe(Object.prototype);
});

test('a number that was replaced or added after reading is written as it is', () => {
  const read = readJson('{"a":9007199254740993,"b":[9007199254740993]}') as { a: number; b: number[] };
  Object.assign(read, { a: 7, c: 0.5 });
  read.b.unshift(1);
  expect(writeJson(read)).toBe('{"a":7,"b":[1,9007199254740992],"c":0.5}');
});

test('a clone remembers the numbers of the original', () => {
  const json = `{"a":[{"b":9007199254740993},${NUMBERS}],"__proto__":{"c":1e400},"d":1}`;
  const read = readJson(json);
  const clone = structuredClone(read);
  rememberWritten(clone, structuredClone(writtenNumbers(read)));
  expect(writeJson(clone)).toBe(writeJson(read));
  expect(writtenNumbers(readJson('{"a":1}'))).toEqual([]);
});

test('a copy keeps the numbers of the original', () => {
  const read = readJson('{"a":9007199254740993,"b":1}') as object;
  expect(writeJson(keepNumbers(read, { ...read, b: 'x' }))).toBe('{"a":9007199254740993,"b":"x"}');
  const other = readJson('{"c":1e400}') as object;
  const joined = keepNumbers(other, keepNumbers(read, { ...read, ...other }));
  expect(writeJson(joined)).toBe('{"a":9007199254740993,"b":1,"c":1e400}');
});

test('any JSON is read as JSON.parse reads it, and written as JSON.stringify writes it', () => {
  fc.assert(
    fc.property(fc.json(), (json) => {
      const read = readJson(json);
      expect(read).toEqual(JSON.parse(json));
      expect(JSON.parse(writeJson(read))).toEqual(JSON.parse(JSON.stringify(read)));
    }),
  );
});
