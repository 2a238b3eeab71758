import { fullFormats } from 'ajv-formats/dist/formats.js';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { validatorFor } from './validation.ts';

const isUri = validatorFor('body', { type: 'string', format: 'uri' });
const rfc3986 = fullFormats.uri as (text: string) => boolean;

test('an address that is taken is a URI to every client, too', () => {
  const nearly = fc
    .array(
      fc.constantFrom('a', '1', '.', ':', '@', '/', '?', '#', '[', ']', '%', '%4a', 'é', ' ', '|', '^', '-'),
      {
        maxLength: 14,
      },
    )
    .map((parts) => `http:${parts.join('')}`);
  fc.assert(
    fc.property(nearly, (text) => !isUri(text) || rfc3986(text)),
    { numRuns: 20_000 },
  );
});

test('any address of the web is taken', () => {
  const address = fc.webUrl({ withFragments: true, withQueryParameters: true });
  fc.assert(
    fc.property(address, (text) => isUri(text)),
    { numRuns: 2_000 },
  );
  expect(isUri('https://user:pw@[::1]:8080/a@b//c?d=%2F&e=?#f/?')).toBe(true);
});

test.each([
  'http://a@b@c/',
  'http://a b/',
  'http://a/#b#c',
  'http://a/%zz',
  'http://é/',
  'a',
  '//a',
  '1:a',
  '',
])('%j is no URI', (text) => {
  expect(isUri(text)).toBe(false);
});

test('a date and time is one for JavaScript, too', () => {
  const isDateTime = validatorFor('body', { type: 'string', format: 'date-time' });
  for (const time of ['2026-01-31T12:00:00Z', '2026-01-31t12:00:00.123456+14:00', '0001-01-01T00:00:00Z'])
    expect(isDateTime(time)).toBe(true);
  for (const no of ['2016-12-31T23:59:60Z', '2026-02-30T00:00:00Z', '2026-01-31T12:00:00', '1', ''])
    expect(isDateTime(no)).toBe(false);
});

test('lengths are counted in characters', () => {
  const isLong = validatorFor('body', { type: 'string', minLength: 3 });
  const isShort = validatorFor('body', { type: 'string', maxLength: 3 });
  const text = fc.string({ unit: fc.constantFrom('a', 'é', '\u{1f600}', '\ud83d', '\ude00'), maxLength: 9 });
  fc.assert(
    fc.property(text, (one) => {
      expect(isLong(one)).toBe([...one].length >= 3);
      expect(isShort(one)).toBe([...one].length <= 3);
    }),
    { numRuns: 2_000 },
  );
});
