import { expect } from 'vitest';
import { type Database, type Queryable, sql } from '../../src/db/client.ts';

interface Node {
  'Node Type': string;
  'Actual Rows': number;
  'Actual Loops': number;
  'Rows Removed by Filter'?: number;
  Plans?: Node[];
}

/** Runs statements in a transaction and counts the rows that they read. Expects that none scans a table. */
export async function rowsRead(
  db: Pick<Database, 'transaction'>,
  run: (tx: Queryable) => Promise<unknown>,
): Promise<number> {
  let read = 0;
  await db.transaction(async (tx) => {
    await run({
      async query(statement, values) {
        // Explain the statement, roll it back, and run it.
        await tx.query(sql('', 'savepoint explained'));
        const [row] = await tx.query<{ 'QUERY PLAN': string }>(
          sql('', `explain (analyze, format json) ${statement.text}`),
          values,
        );
        await tx.query(sql('', 'rollback to savepoint explained'));
        const [{ Plan: root }] = JSON.parse(row?.['QUERY PLAN'] ?? '[]') as [{ Plan: Node }];
        const scans = nodesOf(root).filter((node) => isScanOfTable(node) && node['Actual Loops'] > 0);
        expect(scans.map((node) => node['Node Type'])).not.toContain('Seq Scan');
        for (const node of scans)
          read += (node['Actual Rows'] + (node['Rows Removed by Filter'] ?? 0)) * node['Actual Loops'];
        return tx.query(statement, values);
      },
    });
  });
  return read;
}

function nodesOf(node: Node): Node[] {
  return [node, ...(node.Plans ?? []).flatMap(nodesOf)];
}

/** The heap scan of a bitmap reads the rows that its index scan counts already. */
function isScanOfTable({ 'Node Type': kind }: Node): boolean {
  return / Scan$/.test(kind) && !/^(Function|CTE|Subquery|Bitmap H)/.test(kind);
}
