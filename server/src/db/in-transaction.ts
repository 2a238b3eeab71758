import type pg from 'pg';

/** Runs work in a transaction of the client, which is rolled back if it throws. */
export async function inTransaction(client: pg.ClientBase, work: () => Promise<unknown>): Promise<void> {
  await client.query('begin');
  try {
    await work();
    await client.query('commit');
  } catch (error) {
    await client.query('rollback').catch(() => {}); // a connection that was lost has rolled back
    throw error;
  }
}
