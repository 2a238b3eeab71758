import { expect, test } from 'vitest';
import { writeJson } from '../../lib/exact-numbers.ts';
import { scanObject } from '../../lib/json-member.ts';
import { type BodyRules, parseAny } from './parse-body.ts';

// A member that is a long array is parsed in pieces. Each result must be that of JSON.parse for the whole.

const LIMITS = { keysAndValues: 100_000, inMember: 100_000, levels: 32 };
const ELEMENTS = Array.from({ length: 3_000 }, (_, n) => `{"id":"u${n}, [\\"é\\"]","n":[${n},{}],"x":1.50}`);
const LONG = `[${ELEMENTS.join(', ')} ]`;
const SPACE = ' '.repeat(200_000);
const bodyOf = (recipients: string) => `{"title":"a","recipients":${recipients} ,"n":12345678901234567890}`;

/** The value as JSON, or the message of the error. */
function parsed(body: string | Buffer, more: Partial<BodyRules> = {}): string | undefined {
  try {
    const rules = { limits: LIMITS, longArray: 'recipients', hashed: false, ...more };
    return JSON.stringify(parseAny(Buffer.from(body as string), rules).value);
  } catch (error) {
    return (error as Error).message;
  }
}

function parsedAtOnce(text: string): string | undefined {
  try {
    return JSON.stringify(JSON.parse(text));
  } catch (error) {
    return `The request body is not valid JSON: ${(error as Error).message}`;
  }
}

const arrayOf = (body: Buffer) => scanObject(body, { name: 'recipients' }).member?.array;

test('the long array of these tests is cut between elements', () => {
  const body = Buffer.from(bodyOf(LONG));
  const { opening = 0, closing = 0, cuts = [] } = arrayOf(body) ?? {};
  expect(closing - opening).toBeGreaterThan(130_000);
  expect(cuts).toHaveLength(4);
  const starts = [opening, ...cuts].map((place) => place + 1);
  const pieces = [...cuts, closing].map((end, index) => body.toString('utf8', starts[index], end));
  expect(pieces.flatMap((piece) => JSON.parse(`[${piece}]`))).toEqual(JSON.parse(LONG));
});

test.each([
  ['many elements', bodyOf(LONG)],
  ['one long element', bodyOf(JSON.stringify(['x'.repeat(200_000)]))],
  ['long elements', bodyOf(JSON.stringify(Array(5).fill('é'.repeat(40_000))))],
  ['no elements', bodyOf(`[${SPACE}]`)],
  ['only a comma', bodyOf(`[${SPACE},${SPACE}]`)],
  ['the first of two arrays long', `{"recipients":${LONG},"recipients":[1]}`],
  ['the second of two arrays long', `{"recipients":[1],"recipients":${LONG}}`],
  ['no array the second time', `{"recipients":${LONG},"recipients":7}`],
  ['a name with an escape', `{"recip\\u0069ents":${LONG}}`],
  ['space around it', `\n{ "recipients" :\t${LONG}\n}\n`],
  ['the array in an array', `["recipients",${LONG}]`],
  ['a name in an array', `["recipients":${LONG}]`],
  ['the array in an object', `{"a":{"recipients":${LONG}}}`],
  ['an own member named __proto__', `{"__proto__":{"a":1},"recipients":${LONG}}`],
  ['no end', bodyOf(LONG).slice(0, -2_000)],
  ['text behind the array', `{"recipients":${LONG}1}`],
  ['another closing bracket', bodyOf(`${LONG.slice(0, -1)}}`)],
  ['a comma at the end', bodyOf(`${LONG.slice(0, -1)},]`)],
  ['a comma at the start', bodyOf(`[,${LONG.slice(1)}`)],
  ['a colon for each comma', bodyOf(`[${ELEMENTS.join(':')}]`)],
  ['two commas each time', bodyOf(`[${ELEMENTS.join(',,')}]`)],
])('%s', (_name, text) => {
  expect(parsed(text)).toBe(parsedAtOnce(text));
});

test('a byte order mark, and the wrapper of version 1', () => {
  const text = bodyOf(LONG);
  expect(parsed(`\ufeff${text}`)).toBe(parsedAtOnce(text));
  const wrapped = `{"notification":${text}}`;
  expect(parsed(wrapped, { unwrap: 'notification' })).toBe(parsedAtOnce(text));
  expect(parsed(wrapped, { unwrap: 'notification', keepWrapper: true })).toBe(parsedAtOnce(wrapped));
});

test.each([
  ['in elements', '{"n":0.10000000000000000555}'],
  ['that are elements', '12345678901234567890'],
])('numbers %s keep their digits, and those besides', (_where, element) => {
  const text = `{"a":12345678901234567890,"recipients":[${Array(6_000).fill(element)}]}`;
  const rules = { limits: LIMITS, longArray: 'recipients', hashed: false };
  expect(writeJson(parseAny(Buffer.from(text), rules).value)).toBe(text);
});

test('every wrong byte around the brackets and cuts is found', () => {
  const body = Buffer.from(bodyOf(LONG));
  const { opening = 0, closing = 0, cuts = [] } = arrayOf(body) ?? {};
  for (const place of [opening, ...cuts, closing])
    for (let at = place - 6; at <= place + 6; at += 1)
      for (const byte of Buffer.from(',:[]{}" 1')) {
        const wrong = Buffer.from(body);
        wrong[at] = byte;
        expect(
          parsed(wrong) === parsedAtOnce(wrong.toString()),
          `${String.fromCharCode(byte)} at ${at}`,
        ).toBe(true);
      }
});
