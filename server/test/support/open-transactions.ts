import type { Queryable } from '../../src/db/client.ts';
import { rowsOf } from './rows.ts';
import { until } from './service.ts';

/**
 * Waits until no transaction of the database is open between two statements.
 *
 * Work in the background opens transactions of a moment. One that waits for something else stays open.
 */
export async function untilNoTransactionIsOpen(db: Queryable): Promise<void> {
  const text = `select from pg_stat_activity
    where datname = current_database() and state like 'idle in transaction%'`;
  await until(
    () => rowsOf(db, text),
    (open) => open.length === 0,
  );
}
