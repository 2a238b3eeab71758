import fc from 'fast-check';
import { expect, test } from 'vitest';
import {
  keepNumbers,
  readJson,
  rememberWritten,
  withExactNumbers,
  writeJson,
  writtenNumbers,
} from './exact-numbers.ts';

const NUMBERS = [
  '9007199254740993',
  '-123456789012345678901234567890',
  '0.1234567890123456789',
  '1e400',
  '1.0',
];

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
