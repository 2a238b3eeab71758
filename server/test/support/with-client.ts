import pg from 'pg';
import type { ConnectionSettings } from '../../src/db/client.ts';

/** Runs `work` with a connection of its own. */
export async function withClient<Result>(
  settings: ConnectionSettings,
  work: (client: pg.Client) => Promise<Result>,
): Promise<Result> {
  const client = new pg.Client(settings);
  await client.connect();
  try {
    return await work(client);
  } finally {
    await client.end();
  }
}
