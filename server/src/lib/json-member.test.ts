import fc from 'fast-check';
import { expect, test } from 'vitest';
import { type JsonLimits, jsonMember, scanObject } from './json-member.ts';

const member = (json: string, name: string) => jsonMember(Buffer.from(json), name)?.toString();

test.each([
  ['the only one', '{"a":[1,2]}', '[1,2]'],
  ['among others', '{"b":"x","a":{"c":1},"d":null}', '{"c":1}'],
  ['a string with all that ends values', '{"a":"\\"}],:{[","b":1}', '"\\"}],:{["'],
  ['after a string that ends in backslashes', '{"b":"\\\\","a":1}', '1'],
  ['with white space around it', ' { "a" :\t[ 1 ]\n, "b" : 2 } ', '\t[ 1 ]\n'],
  ['spelt with an escape', '{"\\u0061":1}', '1'],
  ['the last of two', '{"a":1,"b":2,"a":3}', '3'],
  ['the last of two, one spelt with an escape', '{"a":1,"\\u0061":3}', '3'],
  ['beyond ASCII', '{"é":"ü","a":"\u{1f600}\\ud800"}', '"\u{1f600}\\ud800"'],
])('finds a member: %s', (_, json, text) => {
  expect(member(json, 'a')).toBe(text);
});

test.each([
  ['an empty object', '{}'],
  ['deeper', '{"b":{"a":1},"c":[{"a":1}]}'],
  ['a value', '{"b":"a"}'],
  ['a value before a name', '{"b":"a","c":1}'],
  ['the beginning of a name', '{"ab":1}'],
  ['no object', '[{"a":1}]'],
])('finds none: %s', (_, json) => {
  expect(member(json, 'a')).toBeUndefined();
});

// Few names, so that they repeat at every depth; arrays of members, because an object cannot repeat a name.
const { value } = fc.letrec<{ value: string; array: string; object: string }>((tie) => ({
  value: fc.oneof(
    { depthSize: 'small' },
    fc.oneof(
      fc.string({ unit: 'binary' }).map((text) => JSON.stringify(text)),
      fc.constantFrom('null', '-1.5e3', '"recipients"', '"\\\\"', '"\\""', '"\\ud800"'),
    ),
    tie('array'),
    tie('object'),
  ),
  array: fc.array(tie('value')).map((values) => `[${values.join(' ,')}]`),
  object: objectOf(tie('value')),
}));

function objectOf(values: fc.Arbitrary<string>): fc.Arbitrary<string> {
  const name = fc.constantFrom(
    '"recipients"',
    '"recipient\\u0073"',
    '"recipient"',
    '"recipients_of_all"',
    '"action_url"',
    '"\\""',
    '"é"',
    '"__proto__"',
  );
  return fc
    .array(fc.tuple(name, fc.constantFrom(':', ' : ', '\n:'), values))
    .map((members) => `{${members.map((parts) => parts.join('')).join(', ')}}`);
}

test('finds what JSON.parse returns, in any object', () => {
  fc.assert(
    fc.property(objectOf(value), (json) => {
      const parsed = JSON.parse(json) as { recipients?: unknown };
      const text = member(json, 'recipients');
      if (text === undefined) expect(Object.hasOwn(parsed, 'recipients')).toBe(false);
      else expect(JSON.parse(text)).toEqual(parsed.recipients);
    }),
    { numRuns: 2_000 },
  );
});

const exceeded = (json: string, limits: Partial<JsonLimits>) =>
  scanObject(Buffer.from(json), {
    name: 'recipients',
    limits: { keysAndValues: 1_000, inMember: 1_000, levels: 100, ...limits },
  }).exceeded;

test.each<[string, string, Partial<JsonLimits>, keyof JsonLimits]>([
  ['members', '{"a":1,"b":2}', { keysAndValues: 5 }, 'keysAndValues'],
  ['values of an array', '{"a":[1,2]}', { keysAndValues: 5 }, 'keysAndValues'],
  ['members before and after an object', '{"a":1,"b":{"c":1},"d":1}', { keysAndValues: 9 }, 'keysAndValues'],
  ['values of the member', '{"recipients":[{"a":1},2]}', { inMember: 3 }, 'inMember'],
  ['members beside the member', '{"recipients":[1,2,3],"a":1}', { keysAndValues: 6 }, 'keysAndValues'],
  ['levels', '{"a":[{}]}', { levels: 3 }, 'levels'],
  ['levels of the member', '{"recipients":[{"a":{}}]}', { levels: 4 }, 'levels'],
])('counts %s', (_, json, limits, limit) => {
  expect(exceeded(json, limits)).toBeUndefined();
  expect(exceeded(json, { ...limits, [limit]: (limits[limit] ?? 0) - 1 })).toBe(limit);
});

test('counts keys and values of any object, and nothing within strings', () => {
  fc.assert(
    fc.property(objectOf(value), (json) => {
      const structure = json.replace(/"(?:[^"\\]|\\.)*"/g, '');
      const count = 1 + (structure.match(/[,:{[]/g) ?? []).length;
      const scan = (keysAndValues: number) =>
        scanObject(Buffer.from(json), { limits: { keysAndValues, inMember: 0, levels: 100 } }).exceeded;
      expect(scan(count)).toBeUndefined();
      expect(scan(count - 1)).toBe('keysAndValues');
    }),
    { numRuns: 2_000 },
  );
});
