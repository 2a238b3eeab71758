import { expect, test } from 'vitest';
import { inTransaction } from '../../src/db/in-transaction.ts';
import { createTestDatabase } from '../support/database.ts';
import { withClient } from '../support/with-client.ts';

test('a transaction whose connection is lost reports the loss, not the failed rollback', async () => {
  const database = await createTestDatabase();
  try {
    const lost = withClient(database.connection, (client) => {
      client.on('error', () => {});
      return inTransaction(client, () => client.query('select pg_terminate_backend(pg_backend_pid())'));
    });
    await expect(lost).rejects.toThrow('terminating connection due to administrator command');
  } finally {
    await database.drop();
  }
});
