import { createHash } from 'node:crypto';
import { setImmediate } from 'node:timers/promises';
import type { NatsConnection } from '@nats-io/transport-node';
import { type Queryable, sql } from '../../../db/client.ts';
import { systemClock } from '../../../lib/clock.ts';
import type { NatsServers } from '../../../lib/nats-servers.ts';
import type { BusTransport, Channel } from './channel.ts';
import { natsFormat } from './wire.ts';
import { withTimeout } from './with-timeout.ts';

const CONNECT_TIMEOUT_MS = 5_000;

/** The servers, and the subject of this database. */
export interface NatsOptions extends NatsServers {
  subject: string;
}

/**
 * Messages by core NATS. All nodes of a database share a subject. The server closes the connection of a node
 * that reads too slowly, so lost messages are always noticed as a lost connection.
 */
export function natsTransport({ subject, servers, tls, ...credentials }: NatsOptions): BusTransport {
  return {
    name: 'nats',
    gatherMs: 1,
    async open(onPayload) {
      const { connect } = await import('@nats-io/transport-node'); // 46 modules, which few nodes need
      const connection = await connect({
        ...credentials,
        servers: [...servers],
        ...(tls ? { tls: {} } : {}),
        name: 'belfry',
        noEcho: true,
        // The link connects again, to any of the servers, and probes the connection.
        reconnect: false,
        timeout: CONNECT_TIMEOUT_MS,
      });
      try {
        return await subscribe(connection, subject, onPayload);
      } catch (error) {
        drop(connection);
        throw error;
      }
    },
    isRejection: () => false,
  };
}

/** The subject of a database: two installations on one NATS server do not receive each other's messages. */
export async function natsSubject(db: Queryable): Promise<string> {
  const [row] = await db.query<{ id: string }>(selectDatabaseId);
  const hash = createHash('sha256')
    .update(row?.id ?? '')
    .digest('hex');
  return `belfry.${hash.slice(0, 24)}`;
}

async function subscribe(
  connection: NatsConnection,
  subject: string,
  onPayload: (payload: string) => void,
): Promise<Channel> {
  const failed = Promise.withResolvers<void>();
  failed.promise.catch(() => {}); // if it fails later
  void endAfterError(connection, failed.reject);
  connection.subscribe(subject, {
    callback(error, message) {
      if (error === null) onPayload(message.string());
    },
  });
  const flush = flusher(connection);
  // Shows that the account may use the subject. Nodes ignore it.
  connection.publish(subject);
  await withTimeout(flush());
  // An error that came before the response is passed on in this turn of the event loop.
  await Promise.race([failed.promise, setImmediate()]);
  return {
    format: natsFormat(connection.info?.max_payload),
    ended: connection.closed().then(() => {}),
    async send(payloads) {
      for (const payload of payloads) connection.publish(subject, payload);
      await flush();
    },
    async probe() {
      const nowMs = systemClock.now();
      await flush();
      return nowMs;
    },
    drop: () => drop(connection),
  };
}

/**
 * Returns a function that resolves when the server has processed what was sent, and rejects when the
 * connection closes. The promise of the package stays open then: messages in flight would wait for the limit.
 */
function flusher(connection: NatsConnection): () => Promise<void> {
  const waiting = new Set<(error: Error) => void>();
  void connection.closed().then(() => {
    for (const reject of waiting) reject(new Error('the connection to NATS closed'));
  });
  return async () => {
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    waiting.add(reject);
    connection.flush().then(resolve, reject);
    await promise.finally(() => waiting.delete(reject));
  };
}

/** Closes the connection if the server reports an error, such as a subject that the account may not use. */
async function endAfterError(connection: NatsConnection, onError: (error: Error) => void): Promise<void> {
  for await (const status of connection.status()) {
    if (status.type !== 'error') continue;
    onError(status.error);
    drop(connection);
  }
}

function drop(connection: NatsConnection): void {
  connection.close().catch(() => {}); // already closed
}

// The time of the first migration differs between installations, and the oid between copies in one server.
const selectDatabaseId = sql(
  'select_database_id',
  `select concat_ws(' ', d.oid, extract(epoch from min(m.applied_at))) as id
  from pg_database d, migrations m
  where d.datname = current_database()
  group by d.oid`,
);
