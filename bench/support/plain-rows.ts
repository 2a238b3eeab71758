import { once } from 'node:events';
import { from as copyFrom } from 'pg-copy-streams';
import { type Database, sql } from '../../server/src/db/client.ts';
import { firstIdAt, notificationId } from '../../server/src/lib/ids.ts';
import type { Belfry } from './belfry.ts';
import { cpuOf, used } from './processes.ts';

/** The notifications of one broadcast, in the order of the primary key. */
export interface Rows {
  broadcastId: string;
  userIds: string[];
  ids: string[];
}

// As many as the fan-out has transactions in flight.
const WRITERS = 2;

/** Creates empty tables for the comparison, with the same columns and indexes. */
export async function createPlainTables(db: Database): Promise<void> {
  for (const name of ['unnest', 'copy']) {
    await db.query(sql(`bench_drop_${name}`, `drop table if exists plain_${name}`));
    await db.query(
      sql(`bench_create_${name}`, `create table plain_${name} (like notifications including all)`),
    );
    await db.query(
      sql(
        `bench_set_${name}`,
        `alter table plain_${name} set (fillfactor = 95, autovacuum_vacuum_insert_scale_factor = 0.05)`,
      ),
    );
  }
  for (const name of ['users', 'user_keys']) {
    await db.query(sql(`bench_drop_${name}`, `drop table if exists plain_${name}`));
    await db.query(sql(`bench_create_${name}`, `create table plain_${name} (like ${name} including all)`));
  }
}

/** The notifications of all broadcasts since then, as the service wrote them. */
export async function rowsSince(db: Database, sinceMs: number): Promise<Rows[]> {
  const rows = await db.query<{ broadcast_id: string; user_ids: string[] }>(
    sql(
      'bench_rows_since',
      'select broadcast_id, user_ids from broadcast_users where broadcast_id >= $1 order by broadcast_id',
    ),
    [firstIdAt(sinceMs)],
  );
  return rows.map(({ broadcast_id: broadcastId, user_ids: userIds }) => ({
    broadcastId,
    userIds,
    ids: userIds.map((userId) => notificationId(broadcastId, userId)),
  }));
}

/** What writing rows took: elapsed seconds, and CPU time of PostgreSQL. */
export interface PlainCost {
  seconds: number;
  postgresCpuMs: number;
}

/** A plain insert of the rows, a statement and a commit for each thousand. */
export function insertPlainly({ db, pid }: Belfry, all: readonly Rows[]): Promise<PlainCost> {
  return timed(pid, all, async ({ broadcastId, userIds, ids }) => {
    await db.query(insertUnnest, [
      `{${userIds.join(',')}}`,
      `{${ids.join(',')}}`,
      broadcastId,
      SENT_AT,
      'orders',
    ]);
  });
}

/** COPY of the rows, one for each thousand. */
export async function copyPlainly({ db, pid }: Belfry, all: readonly Rows[]): Promise<PlainCost> {
  const clients = await Promise.all(Array.from({ length: WRITERS }, () => db.connect()));
  const free = [...clients];
  const texts = new Map(all.map((rows) => [rows, copyText(rows)]));
  const cost = await timed(pid, all, async (rows) => {
    const client = free.pop();
    if (client === undefined) throw new Error('more writers than connections');
    const copy = client.query(
      copyFrom('copy plain_copy (user_id, id, broadcast_id, sent_at, category) from stdin'),
    );
    copy.end(texts.get(rows));
    await once(copy, 'finish');
    free.push(client);
  });
  await Promise.all(clients.map((client) => client.end()));
  return cost;
}

/** A plain insert of what new users add to their notifications: the user and the user's key. */
export function insertUsersPlainly({ db, pid, projectId }: Belfry, all: readonly Rows[]): Promise<PlainCost> {
  return timed(pid, all, async ({ userIds }) => {
    const users = `{${userIds.join(',')}}`;
    // In random order, like the external ids of most projects.
    const keys = userIds.map((id) => id.split('').reverse().join(''));
    await db.query(insertPlainUsers, [users, projectId, keys]);
    await db.query(insertPlainKeys, [users, projectId, keys]);
  });
}

const SENT_AT = new Date();

function copyText({ broadcastId, userIds, ids }: Rows): string {
  return userIds
    .map((userId, index) => `${userId}\t${ids[index]}\t${broadcastId}\t${SENT_AT.toISOString()}\torders\n`)
    .join('');
}

async function timed(
  pid: number,
  all: readonly Rows[],
  write: (rows: Rows) => Promise<void>,
): Promise<PlainCost> {
  const before = cpuOf(pid);
  const waiting = all.values();
  const startedMs = performance.now();
  await Promise.all(
    Array.from({ length: WRITERS }, async () => {
      for (const rows of waiting) await write(rows);
    }),
  );
  const seconds = (performance.now() - startedMs) / 1000;
  return { seconds, postgresCpuMs: used(before, cpuOf(pid)).postgresCpuMs };
}

const insertUnnest = sql(
  'bench_insert_unnest',
  `insert into plain_unnest (user_id, id, broadcast_id, sent_at, category)
  select user_id, id, $3, $4, $5
  from unnest($1::uuid[], $2::uuid[]) as n (user_id, id)`,
);
const insertPlainUsers = sql(
  'bench_insert_users',
  `insert into plain_users (id, project_id, external_id, created_at, updated_at)
  select id, $2, external_id, now(), now()
  from unnest($1::uuid[], $3::text[]) as u (id, external_id)`,
);
const insertPlainKeys = sql(
  'bench_insert_keys',
  `insert into plain_user_keys (project_id, kind, value, user_id)
  select $2, 'external_id', value, user_id
  from unnest($1::uuid[], $3::text[]) as k (user_id, value)`,
);
