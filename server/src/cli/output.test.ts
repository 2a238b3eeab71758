import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { plain } from './output.ts';

test('foreign text is one line without control characters', () => {
  expect(plain('a\u001b[31mred\u202e\nprocessed:\t1\u2028end\u0000')).toBe('a[31mred processed: 1 end');
  expect(plain('Überraschung 👋🏽 \u05e9\u05dc\u05d5\u05dd')).toBe(
    'Überraschung 👋🏽 \u05e9\u05dc\u05d5\u05dd',
  );
});

const program = join(import.meta.dirname, '../../../bin/belfry.mjs');
const help = `'${process.execPath}' '${program}' --help`;
const run = (command: string) => spawnSync('bash', ['-c', command], { encoding: 'utf8' });

test('a reader that closes the pipe ends the process quietly', () => {
  expect(run(`set -o pipefail; ${help} | true`)).toMatchObject({ stderr: '' });
});

test.runIf(process.platform === 'linux')('a full disk is named', () => {
  expect(run(`${help} > /dev/full`)).toMatchObject({
    status: 1,
    stderr: 'belfry: the output cannot be written (ENOSPC)\n',
  });
});
