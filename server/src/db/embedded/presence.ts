import { setTimeout as delay } from 'node:timers/promises';
import type pg from 'pg';
import { GuardedClient } from '../guarded-client.ts';

/** Commands that share one server: the one that started it must not stop it under the others. */
export interface Presence {
  leave(): Promise<void>;
}

type Connection = pg.ClientConfig;

// An advisory lock of the embedded database: held shared by every command that is at work, exclusively by the
// one that stops the server. Session locks end with their connection, so a killed command holds up nobody.
const LOCK_KEY = '7091862340117266';
const POLL_MS = 20;

/** Enters a running server, or answers undefined when it is about to stop (or has stopped). */
export async function enter(connection: Connection): Promise<Presence | undefined> {
  const client = connectionOf(connection);
  try {
    await client.connect();
    if (await tryLock(client, 'pg_try_advisory_lock_shared')) return { leave: () => client.end() };
  } catch {
    // Refused or cut: it stopped while we knocked. The caller looks again at what runs.
  }
  await client.end().catch(() => undefined);
  return undefined;
}

/** Waits until no other command uses the server; from then on none enters, while `stop` ends it. */
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
    // The server is gone already: nobody can be using it.
  }
  await stop();
  await client.end().catch(() => undefined);
}

function connectionOf(connection: Connection): pg.Client {
  const client = new GuardedClient({ ...connection, application_name: 'belfry presence' });
  client.on('error', () => undefined); // the server may stop while we hold the connection: that is what it is for
  return client;
}

async function tryLock(
  client: pg.Client,
  take: 'pg_try_advisory_lock' | 'pg_try_advisory_lock_shared',
): Promise<boolean> {
  const { rows } = await client.query<{ taken: boolean }>(`select ${take}($1::bigint) as taken`, [LOCK_KEY]);
  return rows[0]?.taken === true;
}
