import { type Queryable, sql } from '../../src/db/client.ts';

/** Executes a statement of a test, and returns its rows. */
export function rowsOf<Row = Record<string, unknown>>(
  db: Queryable,
  text: string,
  values: readonly unknown[] = [],
): Promise<Row[]> {
  return db.query<Row>(sql('', text), values);
}
