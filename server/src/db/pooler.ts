import { randomBytes } from 'node:crypto';
import type pg from 'pg';
import { afterAwake } from '../lib/awake.ts';
import { type ConnectionSettings, type Database, openDatabase, type Queryable, sql } from './client.ts';
import { readDurability } from './durability.ts';
import { connectionObstacle, type Obstacle } from './usability.ts';

const TIMEOUT_MS = 5_000;

/** Why nodes would not receive each other's messages. */
export const SILENT_BUS: Obstacle = {
  message:
    'a NOTIFY over DATABASE_URL does not arrive at a LISTEN over DATABASE_DIRECT_URL ' +
    '(default: DATABASE_URL), as with a connection pooler in transaction mode',
  advice: 'set DATABASE_DIRECT_URL to the address of the same database without the pooler',
};

/** Why statements cannot be run through the connection pooler; undefined if they can. */
export async function obstacleInPooler(
  pooler: ConnectionSettings,
  direct: ConnectionSettings,
): Promise<Obstacle | undefined> {
  // Two connections prepare the same statement. If the pooler does not keep them apart, the second one fails.
  for (const name of ['belfry start', 'belfry start, second connection']) {
    const db = openDatabase(pooler, { size: 1, name, direct });
    try {
      await readDurability(db);
      const [shown] = await db.query<{ style: string }>(selectDateStyle);
      if (shown !== undefined && !shown.style.startsWith('ISO')) return otherDateStyle(shown.style);
    } catch (error) {
      return connectionObstacle(error);
    } finally {
      await db.close();
    }
  }
  return undefined;
}

const selectDateStyle = sql('select_date_style', "select current_setting('datestyle') as style");

/** Connections of a pooler have no settings of their own, and times of this style cannot be read. */
function otherDateStyle(style: string): Obstacle {
  return {
    message: `cannot be used: the DateStyle of its connections is ${style}, and Belfry reads only ISO`,
    advice: "run alter role <user> set datestyle = 'ISO', then restart the pooler",
  };
}

/** Whether a NOTIFY of the pool arrives at a listener on a direct connection. */
export async function notifyArrives(db: Database): Promise<boolean> {
  const client = await db.connect();
  try {
    return await arrivesAt(client, db);
  } finally {
    await client.end();
  }
}

/**
 * Whether a NOTIFY over `db` arrives at this client. It does not if the two are connected to different
 * databases, or if the client is connected to a pooler in transaction mode, which gives LISTEN to any client.
 * `query` runs statements of the client, if others run some, too. Rejects when the client's connection ends.
 */
export async function arrivesAt(
  client: pg.Client,
  db: Queryable,
  query: (text: string) => Promise<unknown> = (text) => client.query(text),
): Promise<boolean> {
  const channel = `belfry_proof_${randomBytes(8).toString('hex')}`;
  const arrived = Promise.withResolvers<boolean>();
  const receive = (message: pg.Notification) => message.channel === channel && arrived.resolve(true);
  arrived.promise.catch(() => {}); // the connection may end while a statement runs
  const end = () => arrived.reject(new Error('the connection ended'));
  client.on('notification', receive).once('end', end);
  let clear = () => {};
  try {
    await query(`listen ${channel}`);
    await db.query(notify, [channel]);
    clear = afterAwake(TIMEOUT_MS, () => arrived.resolve(false));
    const result = await arrived.promise;
    await query(`unlisten ${channel}`);
    return result;
  } finally {
    clear();
    client.off('notification', receive).off('end', end);
  }
}

const notify = sql('notify_proof', "select pg_notify($1, '')");
