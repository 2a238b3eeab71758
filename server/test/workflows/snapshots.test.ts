import { afterAll, beforeAll, expect, test } from 'vitest';
import { listTables } from '../../src/db/backup/catalog.ts';
import { type Database, openDatabase, sql } from '../../src/db/client.ts';
import { takeSnapshot, visibilityIn } from '../../src/domain/workflows/engine/snapshot.ts';
import { createTestDatabase, type TestDatabase } from '../support/database.ts';

let database: TestDatabase;
let db: Database;
beforeAll(async () => {
  database = await createTestDatabase();
  db = openDatabase(database.connection, { size: 8, name: 'snapshots' });
});
afterAll(async () => {
  await db.close();
  await database.drop();
});

const current = async (on: Pick<Database, 'query'>) => {
  const [row] = await on.query<{ xact: string }>(sql('', 'select pg_current_xact_id()::text as xact'));
  return row?.xact ?? '';
};

test('a snapshot has what has ended, and its own transaction', async () => {
  const ended = await current(db);
  await db.transaction(async (open) => {
    const running = await current(open);
    const { own, snapshot } = await db.transaction(async (tx) => {
      // The own transaction is neither the oldest nor the newest.
      const xact = await current(tx);
      const later = await db.transaction(async (third) => {
        const newest = await current(third);
        return { newest, taken: await takeSnapshot(tx) };
      });
      const isVisible = visibilityIn(later.taken);
      expect([xact, ended].map(isVisible)).toEqual([true, true]);
      expect([running, later.newest].map(isVisible)).toEqual([false, false]);
      return { own: xact, snapshot: later.taken };
    });
    const next = await current(db);
    expect([own, running, next].map(visibilityIn(snapshot))).toEqual([true, false, false]);
    // PostgreSQL reads it in the same way.
    const [row] = await db.query<{ own: boolean; running: boolean; next: boolean }>(
      sql(
        '',
        `select pg_visible_in_snapshot($1::xid8, s) as own, pg_visible_in_snapshot($2::xid8, s) as running,
          pg_visible_in_snapshot($3::xid8, s) as next
        from (select $4::text::pg_snapshot as s) given`,
      ),
      [own, running, next, snapshot],
    );
    expect(row).toEqual({ own: true, running: false, next: false });
  });
});

test('a transaction that has no id yet gets one, which its snapshot has', async () => {
  const { snapshot, own } = await db.transaction(async (tx) => ({
    snapshot: await takeSnapshot(tx),
    own: await current(tx),
  }));
  expect(visibilityIn(snapshot)(own)).toBe(true);
});

test('backups and moves leave snapshots out, which mean nothing in another database', async () => {
  const client = await db.connect();
  const tables = await listTables(client).finally(() => client.end());
  const columns = tables.find(({ name }) => name === 'workflow_runs')?.columns;
  expect(columns).toContain('waits_for');
  expect(columns).not.toContain('waits_since');
});
