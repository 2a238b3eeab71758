import { existsSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';

const root = fileURLToPath(new URL('../../../', import.meta.url));

/** The rows of the table in docs/proofs.md: number, guarantee, what shows it, and the state. */
const rows = readFileSync(`${root}docs/proofs.md`, 'utf8')
  .split('\n')
  .filter((line) => /^\| \d+ \|/.test(line))
  .map((line) => line.split('|').map((cell) => cell.trim()));

test('the table of proofs has forty rows, each with a state', () => {
  expect(rows.map(([, number]) => Number(number))).toEqual(Array.from({ length: 40 }, (_, at) => at + 1));
  const states = rows.map(([, , , , state]) => state);
  expect(states.filter((state) => !/^(shown|partly: |missing$|\d{4}-\d\d-\d\d: )/.test(state ?? ''))).toEqual(
    [],
  );
});

test('every test file and script in the table exists', () => {
  const { scripts } = JSON.parse(readFileSync(`${root}package.json`, 'utf8')) as {
    scripts: Record<string, string>;
  };
  const missing = rows.flatMap(([, , , shownBy = '', state = '']) =>
    [...`${shownBy} ${state}`.matchAll(/`([^`]+)`/g)]
      .map(([, name = '']) => name)
      .filter((name) => {
        const script = /^npm run (\S+)/.exec(name)?.[1];
        return script === undefined ? !existsSync(`${root}server/${name}.test.ts`) : !(script in scripts);
      }),
  );
  expect(missing).toEqual([]);
});

test('every part of the bench that is named in the documents exists', () => {
  const parts = readFileSync(`${root}bench/main.ts`, 'utf8').matchAll(/^ {2}'?([\w-]+)'?: \{ ?(?:title|$)/gm);
  const known = new Set([...parts].map(([, name]) => name));
  const read = (name: string) => readFileSync(`${root}docs/${name}`, 'utf8');
  const named = ['proofs.md', 'performance.md', 'guides/load-testing.md', 'guides/upgrading.md'].flatMap(
    (file) => [...read(file).matchAll(/--only ([\w,-]+)/g)].flatMap(([, names = '']) => names.split(',')),
  );
  // The first column of the tables of results.
  const [, results = ''] = read('performance.md').split('## Results');
  const [measured = ''] = results.split('### Cost and providers');
  const columns = [...measured.matchAll(/^\| ([a-z][\w-]*) \|/gm)].map(([, name = '']) => name);
  expect(columns.length).toBeGreaterThan(50);
  expect([...named, ...columns].filter((name) => !known.has(name))).toEqual([]);
});

test('a row that is not missing names what shows it', () => {
  for (const [, number, , shownBy, state] of rows)
    expect(`${number}: ${shownBy === ''}`).toBe(`${number}: ${state === 'missing'}`);
});
