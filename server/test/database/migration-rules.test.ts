import { loadModule } from 'libpg-query';
import { beforeAll, describe, expect, test } from 'vitest';
import { migrations, parseMigration } from '../../src/db/migrations.ts';
import { unsafeParts } from '../support/migration-rules.ts';
import released from './released.json' with { type: 'json' };

beforeAll(() => loadModule());

test('every migration since the newest release is safe while that release runs', async () => {
  const added = migrations().filter(({ version }) => version > released.schema);
  const found = await Promise.all(
    added.map(async (migration) =>
      (await unsafeParts(migration, released.schema)).map((problem) => `${migration.name}: ${problem}`),
    ),
  );
  expect(found.flat()).toEqual([]);
});

test('the schema of the newest release is one that this program knows', () => {
  expect(migrations().map(({ version }) => version)).toContain(released.schema);
});

const IN_TRANSACTION = '-- oldest program: 52\n';
const ALONE = '-- oldest program: 52\n-- no transaction\n';
const unsafe = (text: string) => unsafeParts(parseMigration('0060_example.sql', text), 52);

describe('the rules accept', () => {
  test.each([
    [IN_TRANSACTION, 'alter table users add column nickname text;'],
    [IN_TRANSACTION, 'alter table users add column points int not null default 0;'],
    [IN_TRANSACTION, 'create table notes (id uuid primary key);\ncreate index notes_by_id on notes (id);'],
    [IN_TRANSACTION, 'alter table users add constraint short check (length(locale) < 9) not valid;'],
    [IN_TRANSACTION, 'drop index users_by_name;'],
    [IN_TRANSACTION, '-- safe because the table has a row per server\nalter table leases drop column node;'],
    [ALONE, 'create index concurrently if not exists users_by_locale on users (locale);'],
    [ALONE, 'create unique index concurrently if not exists one on users (locale);'],
    [ALONE, 'drop index concurrently if exists users_by_name;'],
    [
      ALONE,
      [
        'alter table users drop constraint if exists named,',
        '  add constraint named check (first_name is not null and last_name is not null) not valid;',
        'alter table users validate constraint named;',
        'alter table users alter first_name set not null;',
      ].join('\n'),
    ],
  ])('%j %s', async (head, statement) => {
    expect(await unsafe(`${head}${statement}\n`)).toEqual([]);
  });
});

describe('the rules reject', () => {
  test.each([
    ['', 'select 1;', 'needs programs that know schema 60; the last release: 52'],
    [ALONE, 'create index concurrently a on users (id); drop table a;', 'a statement does not end'],
    [IN_TRANSACTION, 'create index a on users (locale);', 'create index on users: not concurrently'],
    [IN_TRANSACTION, 'create index concurrently if not exists a on users (id);', 'in a transaction'],
    [ALONE, 'create index a on users (locale);', 'not concurrently'],
    [ALONE, 'create index concurrently a on users (locale);', 'without "if not exists"'],
    [ALONE, 'drop index concurrently a;', 'drop index without "if exists"'],
    [IN_TRANSACTION, 'drop index concurrently a;', 'drop index concurrently in a transaction'],
    [ALONE, 'create table a (id int);', 'create table without "if not exists"'],
    [IN_TRANSACTION, 'drop table users;', 'drop of OBJECT_TABLE: older programs may use it'],
    [IN_TRANSACTION, 'alter table users drop column locale;', 'alter table users: AT_DropColumn'],
    [IN_TRANSACTION, 'alter table users rename locale to language;', 'RenameStmt'],
    [IN_TRANSACTION, 'alter table users alter locale type int using 1;', 'AT_AlterColumnType'],
    [IN_TRANSACTION, 'alter table users add column a uuid default gen_random_uuid();', 'computed default'],
    [IN_TRANSACTION, 'alter table users add column a int not null;', 'not null without a default'],
    [IN_TRANSACTION, 'alter table users add column a int check (a > 0);', 'add column with CONSTR_CHECK'],
    [
      IN_TRANSACTION,
      'alter table users add column a int generated always as (1) stored;',
      'add column with CONSTR_GENERATED',
    ],
    [ALONE, 'alter table users add column a int;', 'add column without "if not exists"'],
    [IN_TRANSACTION, 'alter table users alter locale set not null;', 'without a validated check of locale'],
    [IN_TRANSACTION, 'alter table users add constraint a check (true);', 'without "not valid"'],
    [IN_TRANSACTION, 'alter table users add constraint a unique (locale);', 'without "using index"'],
    [
      IN_TRANSACTION,
      'alter table users add constraint a check (locale is not null) not valid;\n' +
        'alter table users validate constraint a;',
      'validate constraint in a transaction',
    ],
    [IN_TRANSACTION, "update users set locale = 'en';", 'UpdateStmt'],
    [IN_TRANSACTION, 'vacuum full users;', 'VacuumStmt'],
  ])('%j %s', async (head, statement, problem) => {
    expect((await unsafe(`${head}${statement}\n`)).join()).toContain(problem);
  });

  test('a line that only mentions a reason', async () => {
    const found = await unsafe(`${IN_TRANSACTION}-- unsafe because users read it\ndrop table users;\n`);
    expect(found).toEqual(['drop of OBJECT_TABLE: older programs may use it']);
  });
});
