import { globSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';
import { integrations } from '../../src/providers/index.ts';

const source = fileURLToPath(new URL('../../src/', import.meta.url));
const CHANNELS = ['inbox', 'slack', 'teams', 'web_push']; // names of channels, too
const VENDORS = [...Object.keys(integrations).filter((name) => !CHANNELS.includes(name)), 'sns'];
const VENDOR = new RegExp(`\\b(${VENDORS.join('|').replaceAll('_', ' ')})(?![a-z])`, 'i');
// Installations are the OAuth flow of one vendor.
const exclude = (path: string) => /\.test\.ts$|^domain\/people\/installations\//.test(path);

test('no vendor is named outside its provider', () => {
  const files = globSync(['domain/**/*.ts', 'queue/**/*.ts'], { cwd: source }).filter(
    (path) => !exclude(path),
  );
  const named = files.flatMap((path) =>
    codeOf(readFileSync(`${source}${path}`, 'utf8'))
      .split('\n')
      .filter((line) => VENDOR.test(line.replaceAll('_', ' ')))
      .map((line) => `${path}: ${line.trim()}`),
  );
  expect(files.length).toBeGreaterThan(150);
  expect(named).toEqual([]);
});

function codeOf(text: string): string {
  return text.replaceAll(/\/\*[\s\S]*?\*\/|\/\/.*$/gm, '');
}
