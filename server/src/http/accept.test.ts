import { expect, test } from 'vitest';
import { prefersHtml } from './accept.ts';

const prefers = (accept?: string, method = 'GET') =>
  prefersHtml({ method, headers: accept === undefined ? {} : { accept } });

test.each([
  'text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8',
  'text/html',
  'TEXT/HTML; charset=utf-8',
  'application/json;q=0.5, text/html;level=1;q=0.9',
  'text/*',
  'text/html, */*;q=0.1',
])('%s prefers HTML', (accept) => {
  expect(prefers(accept)).toBe(true);
});

test.each([
  undefined,
  '',
  '*/*',
  'application/json',
  'application/json, text/html',
  'application/*, text/html;q=0.9',
  'text/html;q=0',
  'text/html;q=x',
  'text/plain',
  ';,;,q=1',
  `${'a/b,'.repeat(100_000)}text/html`,
])('%.40s prefers JSON', (accept) => {
  expect(prefers(accept)).toBe(false);
});

test('only requests that read can get a page', () => {
  expect(prefers('text/html', 'HEAD')).toBe(true);
  for (const method of ['POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS'])
    expect(prefers('text/html', method)).toBe(false);
});
