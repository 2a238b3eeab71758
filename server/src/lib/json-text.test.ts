import { expect, test } from 'vitest';
import { JsonBytes, joinTexts } from './json-text.ts';

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
