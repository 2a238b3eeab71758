import type pg from 'pg';
import { inTransaction } from '../in-transaction.ts';
import { AS_MOVER } from './capture.ts';
import { type MovedTable, ofProject, ownedBy } from './tables.ts';

const ROWS = 10_000;
const OWNERS = 200;

/**
 * Deletes all rows of a project from a cell, in small transactions: in the one that it has left, or in one
 * where it has not arrived. `onRows` gets the rows so far. Repeatable.
 */
export async function deleteRows(
  client: pg.Client,
  tables: readonly MovedTable[],
  projectId: string,
  onRows: (rows: number) => void = () => {},
): Promise<void> {
  let rows = 0;
  const run = async (statements: readonly string[]) => {
    let last = 0;
    await inTransaction(client, async () => {
      await client.query(AS_MOVER);
      for (const statement of statements) {
        last = (await client.query(statement)).rowCount ?? 0;
        rows += last;
      }
    });
    onRows(rows);
    return last;
  };
  // Those that others refer to come last.
  for (const table of tables.filter(({ owner }) => owner === 'project').toReversed()) {
    const owned = ownedBy(tables, table);
    const { name, key } = table;
    const columns = key.join(', ');
    const some = `select ${columns} from ${name} r where ${ofProject(table, 'r', projectId)}
      order by ${columns} limit ${owned.length > 0 ? OWNERS : ROWS}`;
    const statements = [
      ...owned.map((one) => `delete from ${one.name} where ${one.key[0]} in (${some})`),
      `delete from ${name} where (${columns}) in (${some})`,
    ];
    while ((await run(statements)) > 0);
  }
}
