import { expect, test } from 'vitest';
import { migrations, statementsOf } from './migrations.ts';

test('a statement ends with its line, unless the line is in a body', () => {
  const text = [
    '-- A function.',
    'create function one() returns int language plpgsql as $$',
    'begin',
    '  return 1; -- one',
    '  return 1;',
    'end;',
    '$$;',
    "create table a (b text default ';', c int);  ",
    'do $$ begin perform 1;',
    'end $$;',
    '-- the end',
  ].join('\n');
  expect(statementsOf({ text }).map((statement) => statement.trim().split('\n').at(-1))).toEqual([
    '$$',
    "create table a (b text default ';', c int)",
    'end $$',
  ]);
});

test('no statement of a migration is cut in a body or a quote', () => {
  for (const migration of migrations())
    for (const statement of statementsOf(migration)) {
      const code = statement.replaceAll(/--.*$/gm, '');
      expect(code.split('$$').length % 2, statement).toBe(1);
      expect(code.split("'").length % 2, statement).toBe(1);
    }
});
