import { expect, test } from 'vitest';
import { writeJson } from '../../lib/exact-numbers.ts';
import { parseAny } from './parse-body.ts';

// A member that is a long array is parsed in pieces. Each result must be that of JSON.parse for the whole.

const LIMITS = { keysAndValues: 100_000, inMember: 100_000, levels: 32 };
const ELEMENTS = Array.from({ length: 1_500 }, (_, n) => `{"id":"u${n}, [\\"é\\"]","n":[${n},{}],"x":1.50}`);
const LONG = `[${ELEMENTS.join(', ')} ]`;
const bodyOf = (recipients: string) => `{"title":"a","recipients":${recipients} ,"n":12345678901234567890}`;
const PIECE_BYTES = 32 * 1024;

function parsed(text: string): unknown {
  try {
    const rules = { limits: LIMITS, longArray: 'recipients', hashed: false };
    return parseAny(Buffer.from(text), rules).value;
  } catch (error) {
    return (error as Error).message;
  }
}

function parsedAtOnce(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    return `The request body is not valid JSON: ${(error as Error).message}`;
  }
}

test.each([
  ['many elements', bodyOf(LONG)],
  ['one long element', bodyOf(JSON.stringify(['x'.repeat(200_000)]))],
  ['long elements', bodyOf(JSON.stringify(Array(5).fill('é'.repeat(40_000))))],
  ['the first of two arrays long', `{"recipients":${LONG},"recipients":[1]}`],
  ['the second of two arrays long', `{"recipients":[1],"recipients":${LONG}}`],
  ['no array the second time', `{"recipients":${LONG},"recipients":7}`],
  ['a name with an escape', `{"recip\\u0069ents":${LONG}}`],
  ['space around it', `\n{ "recipients" :\t${LONG}\n}\n`],
  ['the array in an array', `["recipients",${LONG}]`],
  ['the array in an object', `{"a":{"recipients":[${ELEMENTS.slice(0, 20)}]}}`],
  ['an own member named __proto__', `{"__proto__":{"a":1},"recipients":${LONG}}`],
  ['no end', bodyOf(LONG).slice(0, -2_000)],
  ['text behind the array', `{"recipients":${LONG}1}`],
  ['another closing bracket', bodyOf(`${LONG.slice(0, -1)}}`)],
  ['a comma at the end', bodyOf(`${LONG.slice(0, -1)},]`)],
  ['a comma at the start', bodyOf(`[,${LONG.slice(1)}`)],
  ['a colon for a comma', bodyOf(`[${ELEMENTS.join(':')}]`)],
  ['two commas each time', bodyOf(`[${ELEMENTS.join(',,')}]`)],
])('%s', (_name, text) => {
  expect(parsed(text)).toEqual(parsedAtOnce(text));
});

test('numbers keep their digits, within the array and besides', () => {
  const elements = Array(6_000).fill('{"n":0.10000000000000000555}');
  const text = `{"a":12345678901234567890,"recipients":[${elements}]}`;
  expect(writeJson(parsed(text))).toBe(text);
});

test('every wrong byte where the array is cut is found', () => {
  const text = bodyOf(LONG);
  const start = text.indexOf(LONG);
  for (const cut of [start + 1, start + PIECE_BYTES, start + 2 * PIECE_BYTES + 40, start + LONG.length - 1])
    for (let at = cut - 3; at < cut + 30; at += 1)
      for (const byte of ',:[]{}" 1') {
        const wrong = text.slice(0, at) + byte + text.slice(at + 1);
        const [ours, expected] = [parsed(wrong), parsedAtOnce(wrong)];
        expect(
          ours === expected || JSON.stringify(ours) === JSON.stringify(expected),
          wrong.slice(at - 9, at + 9),
        ).toBe(true);
      }
});
