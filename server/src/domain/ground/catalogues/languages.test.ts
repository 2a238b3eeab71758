import { describe, expect, test } from 'vitest';
import { type Catalogue, en } from './en.ts';
import { LANGUAGES, languageFor, withValues } from './languages.ts';

const placeholdersIn = (text: string) => [...text.matchAll(/\{\w*\}/g)].map(([placeholder]) => placeholder);

describe.each([...LANGUAGES])('the catalogue %s', (lang, { texts }) => {
  test('has the keys of English', () => {
    expect(Object.keys(texts)).toEqual(Object.keys(en));
  });

  test.each(Object.entries(en) as [keyof Catalogue, string][])('has a text for %s', (key, english) => {
    const text = texts[key];
    expect(text.trim()).toBe(text);
    expect(text).not.toBe('');
    expect(placeholdersIn(text)).toEqual(placeholdersIn(english));
    if (lang !== 'en') expect(text).not.toBe(english);
  });
});

test.each([
  [['pt-BR', 'es-MX'], 'es'],
  [['de-AT'], 'de'],
  [['ar-EG'], 'ar'],
  [[null, undefined, 'ja'], 'ja'],
  [['nl', 'fr', 'de'], 'fr'],
  [['deu', 'constructor', ''], 'en'],
  [[], 'en'],
])('the language for %j is %s', (locales, lang) => {
  expect(languageFor(locales).lang).toBe(lang);
});

test('values are inserted as they are', () => {
  expect(withValues('a {category} {other} {category}', { category: '$& {url}' })).toBe(
    'a $& {url} {other} $& {url}',
  );
});
