import { globSync, readFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { expect, test } from 'vitest';
import { migrations } from './migrations.ts';

// Two statements with one name fail only on a connection that runs both, so it is noticed late and by chance.
test('no two statements have one name', () => {
  const places = new Map<string, string[]>();
  for (const file of globSync('**/*.ts', { cwd: dirname(import.meta.dirname) })) {
    if (file.endsWith('.test.ts')) continue;
    const text = readFileSync(`${dirname(import.meta.dirname)}/${file}`, 'utf8');
    for (const [, name = ''] of text.matchAll(/\bsql\(\s*'([^']+)'/g))
      places.set(name, [...(places.get(name) ?? []), file]);
  }
  expect(places.size).toBeGreaterThan(200);
  expect([...places].filter(([, files]) => files.length > 1)).toEqual([]);
});

test('migrations are numbered without gaps or repeats', () => {
  const versions = migrations().map(({ version }) => version);
  expect(versions).toEqual(versions.map((_, index) => index + 1));
});
