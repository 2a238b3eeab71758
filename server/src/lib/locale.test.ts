import { expect, test } from 'vitest';
import { acceptedLocales, canonicalLocale, fallbacksOf } from './locale.ts';

test.each([
  ['PT-br', 'pt-BR'],
  ['zh-hant-tw', 'zh-Hant-TW'],
  ['iw', 'he'],
  ['de-u-co-phonebk', 'de-u-co-phonebk'],
  ['', undefined],
  ['de_DE', undefined],
  ['d', undefined],
  ['x-own', undefined],
  [' de', undefined],
  [`de-${'x-abcdefgh'.repeat(8)}`, undefined],
])('the canonical form of %j is %j', (tag, canonical) => {
  expect(canonicalLocale(tag)).toBe(canonical);
});

test('a locale falls back to more general ones', () => {
  expect(fallbacksOf('zh-Hant-TW')).toEqual(['zh-Hant-TW', 'zh-Hant', 'zh']);
  expect(fallbacksOf('de')).toEqual(['de']);
});

test.each([
  ['fr-CH, fr;q=0.9, en;q=0.8, de;q=0.7, *;q=0.5', ['fr-CH', 'fr', 'en', 'de']],
  ['en;q=0.1,ja', ['ja', 'en']],
  ['de;q=0, es ; q=0.5', ['es']],
  ['PT-br', ['pt-BR']],
  ['*', []],
  ['', []],
  ['de_DE,;q=1,en;q=x,fr;q=1.2.3,\u0000', []],
  [`${'de,'.repeat(10_000)}fr`, Array.from({ length: 20 }, () => 'de')],
])('the header %j accepts %j', (header, locales) => {
  expect(acceptedLocales(header)).toEqual(locales);
});

test('without a header, no locale is accepted', () => {
  expect(acceptedLocales(undefined)).toEqual([]);
});
