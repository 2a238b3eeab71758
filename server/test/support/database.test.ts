import pg from 'pg';
import { expect, test } from 'vitest';
import { migrations } from '../../src/db/migrations.ts';
import { createTestDatabase } from './database.ts';

test('a test database has the schema, shares nothing with others, and has a URL', async () => {
  const [first, second] = await Promise.all([createTestDatabase(), createTestDatabase()]);
  const one = new pg.Client(first.connection);
  const other = new pg.Client({ connectionString: second.url });
  await Promise.all([one.connect(), other.connect()]);
  await one.query('create table mine ()');
  const applied = await other.query<{ version: number }>('select version from migrations order by version');
  expect(applied.rows.map(({ version }) => version)).toEqual(migrations().map(({ version }) => version));
  const leaked = await other.query<{ mine: string | null }>("select to_regclass('mine') as mine");
  expect(leaked.rows).toEqual([{ mine: null }]);
  await Promise.all([one.end(), other.end()]);
  await Promise.all([first.drop(), second.drop()]);
});
