import { textArray, uuidArray } from '../../db/arrays.ts';
import { type Queryable, type Statement, sql } from '../../db/client.ts';

/** A broadcast whose users are known. */
interface Addressed {
  id: string;
  category: string | null;
  topic: string | null;
  sentAt: Date;
  /** Ascending, each once; and their notifications' ids in the same order. */
  userIds: readonly string[];
  notificationIds: readonly string[];
}

/**
 * Writes the notifications. None of them is there yet unless the fan-out was done before, in a database that was put back since; so they are
 * inserted as if none were, which spares a fifth of the time, and only when one is, again with a look at each.
 */
export async function insertNotifications(tx: Queryable, broadcasts: readonly Addressed[]): Promise<void> {
  await tx.query(savepoint);
  try {
    await insertInto(tx, broadcasts, PLAIN);
    await tx.query(releaseSavepoint);
  } catch (error) {
    if ((error as { code?: unknown }).code !== UNIQUE_VIOLATION) throw error;
    await tx.query(rollbackToSavepoint);
    await insertInto(tx, broadcasts, CAREFUL);
  }
}

const UNIQUE_VIOLATION = '23505';

async function insertInto(
  tx: Queryable,
  broadcasts: readonly Addressed[],
  how: InsertStatements,
): Promise<void> {
  // A large broadcast has a statement of its own, in which all that is equal for its rows travels once; small ones share one.
  const large = broadcasts.filter((broadcast) => broadcast.userIds.length >= OWN_STATEMENT_FROM);
  const small = broadcasts.filter((broadcast) => broadcast.userIds.length < OWN_STATEMENT_FROM);
  for (const broadcast of large) await insertSame(tx, broadcast, how.same);
  await insertMixed(tx, small, how.mixed);
}

const OWN_STATEMENT_FROM = 50;

async function insertSame(tx: Queryable, broadcast: Addressed, statement: Statement): Promise<void> {
  await tx.query(statement, [
    uuidArray(broadcast.userIds),
    uuidArray(broadcast.notificationIds),
    broadcast.id,
    broadcast.sentAt,
    broadcast.category,
    broadcast.topic,
  ]);
}

async function insertMixed(
  tx: Queryable,
  broadcasts: readonly Addressed[],
  statement: Statement,
): Promise<void> {
  const rows = broadcasts.flatMap((broadcast) =>
    broadcast.userIds.map((userId, index) => ({
      userId,
      id: broadcast.notificationIds[index] as string,
      broadcast,
    })),
  );
  if (rows.length === 0) return;
  rows.sort((a, b) => (a.userId === b.userId ? (a.id < b.id ? -1 : 1) : a.userId < b.userId ? -1 : 1));
  await tx.query(statement, [
    uuidArray(rows.map((row) => row.userId)),
    uuidArray(rows.map((row) => row.id)),
    uuidArray(rows.map((row) => row.broadcast.id)),
    rows[0]?.broadcast.sentAt,
    textArray(rows.map((row) => row.broadcast.category)),
    textArray(rows.map((row) => row.broadcast.topic)),
  ]);
}

const SAME = `insert into notifications (user_id, id, broadcast_id, sent_at, category, topic)
  select user_id, id, $3, $4, $5, $6
  from unnest($1::uuid[], $2::uuid[]) as n (user_id, id)`;
const MIXED = `insert into notifications (user_id, id, broadcast_id, sent_at, category, topic)
  select user_id, id, broadcast_id, $4, category, topic
  from unnest($1::uuid[], $2::uuid[], $3::uuid[], $5::text[], $6::text[])
    as n (user_id, id, broadcast_id, category, topic)`;
interface InsertStatements {
  same: Statement;
  mixed: Statement;
}
const PLAIN: InsertStatements = { same: sql('fan_out_same', SAME), mixed: sql('fan_out_mixed', MIXED) };
const CAREFUL: InsertStatements = {
  same: sql('fan_out_same_again', `${SAME}\n  on conflict do nothing`),
  mixed: sql('fan_out_mixed_again', `${MIXED}\n  on conflict do nothing`),
};
const savepoint = sql('fan_out_savepoint', 'savepoint notifications');
const releaseSavepoint = sql('fan_out_release', 'release savepoint notifications');
const rollbackToSavepoint = sql('fan_out_rollback', 'rollback to savepoint notifications');
