import { expect, test } from 'vitest';
import { jsonElements } from './json-elements.ts';

const elements = (json: string) => jsonElements(Buffer.from(json)).map(String);

test('gives the elements as they were written', () => {
  expect(elements('[ {"a": "]},[\\"", "b":[1,2]} ,[ ], 1.0 ,"é,\\\\", {}]')).toEqual([
    ' {"a": "]},[\\"", "b":[1,2]} ',
    '[ ]',
    ' 1.0 ',
    '"é,\\\\"',
    ' {}',
  ]);
});

test.each(['[]', ' [ \n] '])('an empty array has none: %j', (json) => {
  expect(elements(json)).toEqual([]);
});

test.each([[[1, 'a', null, { b: [{}] }, [[]], '"', '\\', '\\"']], [[[[['x']]], { '[': ']', ',': ',' }]]])(
  'put together again they are the same array',
  (value) => {
    for (const json of [JSON.stringify(value), JSON.stringify(value, null, 2)]) {
      expect(JSON.parse(`[${elements(json).join(',')}]`)).toEqual(value);
      expect(elements(json).map((text) => JSON.parse(text))).toEqual(value);
    }
  },
);
