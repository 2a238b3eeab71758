import { setTimeout as delay } from 'node:timers/promises';
import type pg from 'pg';
import { GuardedClient } from '../guarded-client.ts';

/** The use of a shared server by a command: its starter must not stop it meanwhile. */
export interface Presence {
  leave(): Promise<void>;
}

type Connection = pg.ClientConfig;

// An advisory lock: shared by all running commands, exclusive for the one that stops the server. It ends with
// its connection, so a killed command blocks nothing.
const LOCK_KEY = '7091862340117266';
const POLL_MS = 20;

/** Begins to use a running server. Resolves to undefined if it is stopping or has stopped. */
export async function enter(connection: Connection): Promise<Presence | undefined> {
  const client = connectionOf(connection);
  try {
    await client.connect();
    if (await tryLock(client, 'pg_try_advisory_lock_shared')) return { leave: () => client.end() };
  } catch {
    // It stopped meanwhile. The caller looks again.
  }
  await client.end().catch(() => undefined);
  return undefined;
}

/** Waits until no other command uses the server, and runs `stop`, during which no command can enter. */
export async function whenAlone(
  connection: Connection,
  { onWait, stop }: { onWait: () => void; stop: () => Promise<void> },
): Promise<void> {
  const client = connectionOf(connection);
  try {
    await client.connect();
    if (!(await tryLock(client, 'pg_try_advisory_lock'))) onWait();
    while (!(await tryLock(client, 'pg_try_advisory_lock'))) await delay(POLL_MS);
  } catch {
    // The server is gone, so no command uses it.
  }
  await stop();
  await client.end().catch(() => undefined);
}

function connectionOf(connection: Connection): pg.Client {
  const client = new GuardedClient({ ...connection, application_name: 'belfry presence' });
  client.on('error', () => undefined); // the server may stop, for which this connection exists
  return client;
}

async function tryLock(
  client: pg.Client,
  take: 'pg_try_advisory_lock' | 'pg_try_advisory_lock_shared',
): Promise<boolean> {
  const { rows } = await client.query<{ taken: boolean }>(`select ${take}($1::bigint) as taken`, [LOCK_KEY]);
  return rows[0]?.taken === true;
}
