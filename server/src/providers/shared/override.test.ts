import { describe, expect, test } from 'vitest';
import { readJson, writeJson } from '../../lib/exact-numbers.ts';
import { mergeOverride } from './override.ts';

const merge = (payload: object, override: unknown, locked: string[] = []) =>
  mergeOverride(payload, override as Record<string, unknown>, { locked });

// The examples of RFC 7396, appendix A, whose patch and target are objects.
test.each([
  [{ a: 'b' }, { a: 'c' }, { a: 'c' }],
  [{ a: 'b' }, { b: 'c' }, { a: 'b', b: 'c' }],
  [{ a: 'b' }, { a: null }, {}],
  [{ a: 'b', b: 'c' }, { a: null }, { b: 'c' }],
  [{ a: ['b'] }, { a: 'c' }, { a: 'c' }],
  [{ a: 'c' }, { a: ['b'] }, { a: ['b'] }],
  [{ a: { b: 'c' } }, { a: { b: 'd', c: null } }, { a: { b: 'd' } }],
  [{ a: [{ b: 'c' }] }, { a: [1] }, { a: [1] }],
  [{ e: null }, { a: 1 }, { e: null, a: 1 }],
  [{}, { a: { bb: { ccc: null } } }, { a: { bb: {} } }],
])('%j with %j is %j', (payload, override, merged) => {
  const before = JSON.stringify(payload);
  expect(merge(payload, override)).toEqual({ payload: merged });
  expect(JSON.stringify(payload)).toBe(before);
});

test('without an override the payload is unchanged', () => {
  const payload = { a: 1 };
  expect(mergeOverride(payload, undefined, { locked: ['a'] })).toEqual({ payload });
});

test('large numbers of the payload and of the override are kept', () => {
  const payload = readJson('{"a":9007199254740993,"b":{"c":9007199254740995},"to":"ada"}') as object;
  const override = readJson('{"b":{"d":9007199254740997},"e":[9007199254740999],"to":"eve","f":1e400}');
  const merged = merge(payload, override, ['to', 'b/x']);
  expect(writeJson(merged)).toBe(
    '{"payload":{"a":9007199254740993,"b":{"c":9007199254740995,"d":9007199254740997},"to":"ada",' +
      '"e":[9007199254740999],"f":1e400}}',
  );
});

describe('a locked member', () => {
  const payload = { to: 'ada', list: [{ to: ['ada'], args: { id: 1 } }], deep: { to: { all: ['ada'] } } };
  const locked = ['to', 'list/0/to', 'list/0/args/id', 'deep/to/all', 'channel', 'deep/token'];

  test.each([
    ['replaced', { to: 'eve', list: [{ to: ['eve'] }], deep: { to: { all: ['eve'] } } }],
    ['removed', { to: null, list: null, deep: null }],
    ['put into something of another kind', { to: {}, list: 'eve', deep: ['eve'] }],
    ['in something shorter', { list: [], deep: { to: [] } }],
    ['added to', { list: [{}, { to: ['eve'] }], deep: { to: { all: ['ada', 'eve'] } } }],
    ['named where it was not', { channel: 'eve', deep: { token: 'eve' } }],
  ])('stays when it is %s', (_, override) => {
    const result = merge(payload, override, locked) as { payload: typeof payload };
    expect(JSON.stringify(result)).not.toContain('eve');
    expect(result.payload).toMatchObject(payload);
    expect(result.payload.list).toHaveLength(1);
    expect(result.payload).not.toHaveProperty('channel');
    expect(result.payload.deep).not.toHaveProperty('token');
  });

  test('leaves its neighbours unchanged', () => {
    expect(
      merge(payload, { list: [{ cc: ['bob'], args: { tag: 'x' } }], deep: { from: 'x' } }, locked),
    ).toEqual({
      payload: {
        to: 'ada',
        list: [{ to: ['ada'], cc: ['bob'], args: { id: 1, tag: 'x' } }],
        deep: { to: { all: ['ada'] }, from: 'x' },
      },
    });
  });
});

describe('an override that is rejected', () => {
  test.each(['__proto__', 'constructor', 'prototype'])('names %s, at any depth', (name) => {
    for (const text of [`{"${name}":{"x":1}}`, `{"a":[{"b":{"${name}":1}}]}`]) {
      expect(merge({}, JSON.parse(text))).toEqual({
        kind: 'rejected',
        scope: 'message',
        code: 'bad_override',
        reason: `the override must not name ${name}`,
      });
    }
    expect(({} as { x?: unknown }).x).toBeUndefined();
  });

  test('is nested deeper than 32 levels', () => {
    const nested = (levels: number): unknown => (levels === 0 ? 1 : { a: nested(levels - 1) });
    expect(merge({}, nested(32))).toHaveProperty('payload');
    expect(merge({}, nested(33))).toMatchObject({ kind: 'rejected', scope: 'message' });
    expect(merge({}, { a: JSON.parse('['.repeat(5_000) + ']'.repeat(5_000)) })).toMatchObject({
      kind: 'rejected',
    });
  });
});
