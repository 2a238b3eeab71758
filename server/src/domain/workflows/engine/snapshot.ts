import { type Queryable, sql } from '../../../db/client.ts';

/*
 * Snapshots of PostgreSQL as texts, `xmin:xmax:xid,…`: transactions before xmin have ended, those from xmax
 * on have not, and the listed ones are running.
 */

/** Returns the snapshot of this moment. Unlike PostgreSQL's, it counts the caller's transaction as ended. */
export async function takeSnapshot(tx: Queryable): Promise<string> {
  const [row] = await tx.query<{ own: string; snapshot: string }>(select);
  if (row === undefined) throw new Error('the database returned no snapshot');
  const { xmin, xmax, running } = parse(row.snapshot);
  const own = BigInt(row.own);
  for (let xid = xmax; xid < own; xid += 1n) running.add(xid);
  const next = own < xmax ? xmax : own + 1n;
  const oldest = [...running].reduce((least, xid) => (xid < least ? xid : least), next);
  return `${xmin < oldest ? xmin : oldest}:${next}:${[...running].join()}`;
}

/** Returns whether the changes of a transaction are visible in a snapshot. */
export function visibilityIn(snapshot: string): (xact: string) => boolean {
  const { xmax, running } = parse(snapshot);
  return (xact) => BigInt(xact) < xmax && !running.has(BigInt(xact));
}

function parse(snapshot: string): { xmin: bigint; xmax: bigint; running: Set<bigint> } {
  const [xmin = '', xmax = '', running = ''] = snapshot.split(':');
  const xids = running.split(',').filter((xid) => xid !== '');
  return { xmin: BigInt(xmin), xmax: BigInt(xmax), running: new Set(xids.map(BigInt)) };
}

// Without a table: on a distributed PostgreSQL, its server has other transactions.
const select = sql(
  'take_snapshot',
  'select pg_current_xact_id()::text as own, pg_current_snapshot()::text as snapshot',
);
