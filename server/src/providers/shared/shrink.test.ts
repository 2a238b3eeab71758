import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { readJson, writeJson } from '../../lib/exact-numbers.ts';
import { isRejection, type NotificationContent } from '../provider.ts';
import { buildToFit, bytesAtMost, cut } from './shrink.ts';

const message = (changes: Partial<NotificationContent>): NotificationContent => ({
  deliveryId: 'd',
  reference: 'r',
  notificationId: 'n',
  title: 'T',
  content: '<b>C</b>',
  text: 'C',
  actionUrl: 'https://x.example/',
  actionLabel: 'Open',
  category: null,
  topic: null,
  customAttributes: null,
  expiresAt: new Date(0),
  ...changes,
});

const build = ({ title, text, content, actionUrl, customAttributes }: NotificationContent) => ({
  body: JSON.stringify({ title, text, content, actionUrl, customAttributes }),
});
const bytesOf = ({ body }: { body: string }) => Buffer.byteLength(body);

function fitted(changes: Partial<NotificationContent>, maxBytes: number) {
  const built = buildToFit(message(changes), { build, bytesOf, maxBytes });
  return isRejection(built) ? built : (JSON.parse(built.body) as Record<string, unknown>);
}

describe('a message that is too big', () => {
  test('is unchanged while it fits', () => {
    const whole = { customAttributes: { a: 'b' } };
    const bytes = bytesOf(build(message(whole)));
    expect(fitted(whole, bytes)).toMatchObject({ customAttributes: { a: 'b' }, content: '<b>C</b>' });
    expect(fitted(whole, bytes - 1)).toMatchObject({
      customAttributes: null,
      content: '<b>C</b>',
      text: 'C',
    });
  });

  test('loses its custom attributes first, then the end of its text', () => {
    expect(fitted({ text: 'word '.repeat(100), content: null, customAttributes: { a: 1 } }, 120)).toEqual({
      title: 'T',
      text: expect.stringMatching(/^word .*…$/),
      content: null,
      actionUrl: 'https://x.example/',
      customAttributes: null,
    });
  });

  test('has its cut text as content', () => {
    const { text, content } = fitted(
      { text: 'x'.repeat(500), content: `<b>${'x'.repeat(500)}</b>` },
      200,
    ) as {
      text: string;
      content: string;
    };
    expect(text).toMatch(/^x+…$/);
    expect(content).toBe(text);
  });

  test('is rejected if it is too big even without text', () => {
    expect(fitted({ title: 'T'.repeat(255) }, 200)).toEqual({
      kind: 'rejected',
      scope: 'message',
      code: 'too_big',
      reason: 'the message is larger than the 200 bytes that the provider accepts',
    });
  });

  test('uses the available room for any text, in few attempts', () => {
    fc.assert(
      fc.property(
        fc.string({ unit: 'binary', maxLength: 2_000 }),
        fc.integer({ min: 150, max: 800 }),
        (text, maxBytes) => {
          let tries = 0;
          const counted = (given: NotificationContent) => {
            tries += 1;
            return build({ ...given, content: null });
          };
          const built = buildToFit(message({ text }), { build: counted, bytesOf, maxBytes });
          if (isRejection(built)) throw new Error(built.reason);
          const got = (JSON.parse(built.body) as { text: string }).text;
          expect(bytesOf(built)).toBeLessThanOrEqual(maxBytes);
          expect(tries).toBeLessThan(15);
          if (got === text) return;
          expect(got.isWellFormed()).toBe(text.isWellFormed());
          // One more character would be too much.
          const more = build(message({ text: cut(text, got.length + 2), content: null }));
          expect(bytesOf(more)).toBeGreaterThan(maxBytes - 12);
        },
      ),
    );
  });
});

test.each([
  ['abc', 3, 'abc'],
  ['abcd', 3, 'ab…'],
  ['a😀b', 3, 'a…'],
  ['a😀bc', 4, 'a😀…'],
  ['abc', 1, '…'],
  ['abc', 0, ''],
])('%s cut to %i is %s', (text, length, wanted) => {
  expect(cut(text, length)).toBe(wanted);
});

test('the bound is never below the size of the JSON', () => {
  const value = fc.jsonValue({ stringUnit: 'binary', maxDepth: 4 });
  const most = { '\u0000': '\ud800'.repeat(9), list: [-1.2345678901234567e-308, true, null] };
  const small = -0.0000013129751835699041; // the longest that has no exponent
  fc.assert(
    fc.property(value, (given) => {
      expect(bytesAtMost(given)).toBeGreaterThanOrEqual(Buffer.byteLength(JSON.stringify(given)));
    }),
    { numRuns: 500, examples: [[most], [small], [''], [[]], [{}]] },
  );
  const large = readJson(`{"a":${'9'.repeat(5_000)},"b":[${'9'.repeat(5_000)}]}`);
  expect(bytesAtMost(large)).toBeGreaterThanOrEqual(writeJson(large).length);
});
