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

test('a row that is not missing names what shows it', () => {
  for (const [, number, , shownBy, state] of rows)
    expect(`${number}: ${shownBy === ''}`).toBe(`${number}: ${state === 'missing'}`);
});
