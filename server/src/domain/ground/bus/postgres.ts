import { type Database, isDatabaseUnavailable } from '../../../db/client.ts';
import { arrivesAt, SILENT_BUS } from '../../../db/pooler.ts';
import type { Logger } from '../../../lib/log.ts';
import type { BusTransport, Channel } from './channel.ts';
import { NOTIFY_FORMAT } from './wire.ts';
import { withTimeout } from './with-timeout.ts';

/** The channel of a database's default cell. Other cells may share the database, so each has its own. */
export const CHANNEL = 'belfry_realtime';

type Client = Awaited<ReturnType<Database['connect']>>;

/**
 * Messages by LISTEN/NOTIFY. NOTIFY runs on a connection of its own, never in the transaction that wrote: its
 * lock would make all writers commit one after another.
 */
export function postgresTransport({
  db,
  log,
  channel,
}: {
  db: Database;
  log: Logger;
  channel: string;
}): BusTransport {
  return {
    name: 'postgres',
    // Messages that are sent together share a transaction. Commits with NOTIFY take one lock after another,
    // so their number is kept to 200 a second.
    gatherMs: 5,
    async open(onPayload) {
      const client = await connect(db);
      try {
        return await listen(client, onPayload);
      } catch (error) {
        drop(client);
        throw error;
      }
    },
    isRejection: (error) => !isDatabaseUnavailable(error),
  };

  async function listen(client: Client, onPayload: (payload: string) => void): Promise<Channel> {
    const { promise: ended, resolve: end } = Promise.withResolvers<void>();
    client.on('error', () => end());
    client.on('end', () => end());
    client.on('notification', (message) => {
      if (message.channel === channel) onPayload(message.payload ?? '');
    });
    const query = oneByOne(client);
    await withTimeout(query(`listen ${channel}`));
    void prove(client, query);
    return {
      format: NOTIFY_FORMAT,
      ended,
      async send(payloads) {
        await query(notify, [channel, payloads]);
      },
      async probe() {
        const { rows } = await query<{ now: Date }>('select clock_timestamp() as now');
        return rows[0]?.now.getTime() ?? 0;
      },
      drop: () => drop(client),
    };
  }

  /** Replaces a connection that receives nothing, such as that to a pooler in transaction mode. */
  async function prove(client: Client, query: Query): Promise<void> {
    try {
      if (await arrivesAt(client, db, query)) return;
      log.error(`${SILENT_BUS.message}: ${SILENT_BUS.advice}`);
      drop(client);
    } catch {
      // The pool or the connection is unavailable: the next connection is checked.
    }
  }
}

type Query = <Row extends object>(text: string, values?: unknown[]) => Promise<{ rows: Row[] }>;

/**
 * Runs each statement when the one before has ended. If the database is slow, heartbeats and messages would
 * wait in the driver instead, which warns of that.
 */
function oneByOne(client: Client): Query {
  let last: Promise<unknown> = Promise.resolve();
  return (text, values) => {
    const result = last.then(() => client.query(text, values));
    last = result.catch(() => {}); // the caller has it
    return result;
  };
}

/** Resolves with a connection. Closes a late one. */
async function connect(db: Database): Promise<Client> {
  const connecting = db.connect();
  try {
    const client = await withTimeout(connecting);
    client.on('error', () => {}); // before and after the channel handles errors
    return client;
  } catch (error) {
    connecting.then((client) => client.end()).catch(() => {});
    throw error;
  }
}

/**
 * Closes a connection that may be broken, without waiting. The driver destroys it if a query is in flight.
 */
function drop(client: Client): void {
  client.end().catch(() => {}); // already closed
}

// Notifications of one transaction arrive in the order of the calls; identical ones arrive once. The commit
// need not wait for the disk: the data that a message announces is committed already.
const notify = `
  select pg_notify($1, payload)
  from (select set_config('synchronous_commit', 'off', true)) without_waiting,
    unnest($2::text[]) with ordinality as p (payload, n)
  order by n`;
