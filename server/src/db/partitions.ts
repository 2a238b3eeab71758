import { NEWEST, OLDEST } from '../lib/cursor.ts';
import { firstIdAt, timeOf } from '../lib/ids.ts';
import { type Database, type Queryable, sql } from './client.ts';

/** A table whose rows are in partitions by month, by the time in their ids. */
export type PartitionedTable = 'events' | 'deliveries';

interface Partition {
  name: string;
  /** The first id; null for the partition that has all ids before `to`. */
  from: string | null;
  /** The id after the last. */
  to: string;
}

/**
 * What is kept of an expired partition: nothing, a few rows that SQL selects, or all of it for now.
 */
export type Kept = 'none' | 'all' | { rows: (partition: string) => string; values: readonly unknown[] };

type Partitioned = Pick<Database, 'query' | 'transaction'>;

// Full months ahead of the current one. The server may be unable to create partitions for as long.
const MONTHS_AHEAD = 2;
// Requests wait behind a statement that waits for a lock.
const LOCK_TIMEOUT_MS = 500;

/**
 * Creates the partitions of the current month and the next two. If rows are in none of the partitions, their
 * table becomes one that includes them. Any number of nodes may do this at the same time. Throws 55P03 if a
 * long transaction has read the table and is still open.
 */
export async function createPartitions(
  db: Partitioned,
  table: PartitionedTable,
  nowMs: number,
): Promise<void> {
  if ((await missingRange(db, table, nowMs)) === undefined) return;
  await locked(db, table, async (tx) => {
    for (;;) {
      const missing = await missingRange(tx, table, nowMs);
      if (missing === undefined) return;
      const { from, until, rowsUntil } = missing;
      if (rowsUntil !== undefined) await keepRows(tx, table, from, rowsUntil);
      await createMonths(tx, table, rowsUntil ?? from, until);
    }
  });
}

/**
 * Drops the partitions that have only ids before this one, but not the last, with which the next one
 * continues. Of each, `kept` says what is kept; a partition is replaced by its kept rows once. Throws 55P03
 * as `createPartitions` does.
 */
export async function dropPartitions(
  db: Partitioned,
  table: PartitionedTable,
  before: string,
  kept: (on: Queryable, partition: Partition) => Promise<Kept> = async () => 'none',
): Promise<void> {
  const expired = async (on: Queryable) => {
    const found: { partition: Partition; keep: Exclude<Kept, 'all'> }[] = [];
    for (const partition of (await listPartitions(on, table)).slice(0, -1)) {
      if (partition.to > before) break;
      const keep = await kept(on, partition);
      if (keep === 'none' || (keep !== 'all' && !isReplaced(partition))) found.push({ partition, keep });
    }
    return found;
  };
  if ((await expired(db)).length === 0) return;
  await locked(db, table, async (tx) => {
    for (const { partition, keep } of await expired(tx)) {
      if (keep === 'none') await tx.query(sql('', `drop table ${partition.name}`));
      else await replace(tx, table, partition, keep);
    }
  });
}

/**
 * The ranges of ids whose expired rows are deleted one by one, because no drop of a partition deletes them in
 * time: of the table from before it was partitioned, and of partitions that were replaced by kept rows.
 */
export async function rangesWithoutDrop(
  db: Queryable,
  table: PartitionedTable,
): Promise<{ has(id: string): boolean }> {
  const ranges = (await listPartitions(db, table)).filter(
    (one) => one.name === `${table}_first` || isReplaced(one),
  );
  return { has: (id) => ranges.some(({ from, to }) => (from === null || id >= from) && id < to) };
}

/** Whether `<table>_first` exists: the table from before it was partitioned. */
export async function hasFirstPartition(db: Queryable, table: PartitionedTable): Promise<boolean> {
  return (await listPartitions(db, table)).some(({ name }) => name === `${table}_first`);
}

/** The partitions in the order of their ids, without that for ids beyond the last. */
async function listPartitions(db: Queryable, table: PartitionedTable): Promise<Partition[]> {
  return db.query<Partition>(selectPartitions, [table]);
}

interface MissingRange {
  from: string;
  until: string;
  /** Rows are in the range before this id, which starts a month. */
  rowsUntil: string | undefined;
}

/**
 * Returns the first range without partitions that needs some: one with the current month, if a clock that was
 * ahead had it dropped, or that beyond the last partition.
 */
async function missingRange(
  db: Queryable,
  table: PartitionedTable,
  nowMs: number,
): Promise<MissingRange | undefined> {
  const partitions = await listPartitions(db, table);
  const end = partitions.at(-1)?.to;
  if (end === undefined) throw new Error(`the table ${table} has no partitions`);
  const now = startOfMonth(nowMs, 0);
  const at = partitions.findIndex(({ to }) => to > now);
  const next = partitions[at]?.from ?? OLDEST;
  if (next > now) {
    const { oldest, newest } = await rowsBetween(db, table, partitions[at - 1]?.to ?? OLDEST, next);
    const from = oldest === null ? now : earlier(now, startOfMonth(timeOf(oldest), 0));
    return { from, until: next, rowsUntil: newest === null ? undefined : monthAfter(newest) };
  }
  const wanted = startOfMonth(nowMs, MONTHS_AHEAD + 1);
  const { newest } = await rowsBetween(db, table, end, NEWEST);
  if (newest === null) return end >= wanted ? undefined : { from: end, until: wanted, rowsUntil: undefined };
  const until = later(wanted, monthAfter(newest));
  return { from: end, until, rowsUntil: until };
}

/** Other nodes do their work before or after it. Reading and writing rows goes on. */
async function locked(
  db: Partitioned,
  table: PartitionedTable,
  work: (tx: Queryable) => Promise<void>,
): Promise<void> {
  // The error of a statement would mean that the database cannot be written.
  const [{ owns } = { owns: false }] = await db.query<{ owns: boolean }>(selectOwnership, [table]);
  if (!owns)
    throw new Error(`the user of DATABASE_URL does not own the table ${table}: only its owner can do this`);
  await db.transaction(async (tx) => {
    await tx.query(sql('', `lock table ${table} in share update exclusive mode`));
    await tx.query(sql('', `set local lock_timeout = ${LOCK_TIMEOUT_MS}`));
    await work(tx);
  });
}

async function createMonths(
  tx: Queryable,
  table: PartitionedTable,
  from: string,
  until: string,
): Promise<void> {
  for (let start = from; start < until; ) {
    const end = startOfMonth(timeOf(start), 1);
    const name = nameOf(table, start);
    // Unlike `create table … partition of`, it does not wait for those who read the table.
    await tx.query(sql('', `create table ${name} (like ${table} including all)`));
    await attach(tx, table, name, start, end);
    start = end;
  }
}

/** The table of rows in no partition becomes one. Its other rows, which are few, move to a new table. */
async function keepRows(tx: Queryable, table: PartitionedTable, from: string, until: string): Promise<void> {
  const name = nameOf(table, from);
  const rest = `${table}_default`;
  await tx.query(sql('', `alter table ${table} detach partition ${rest}`));
  await tx.query(sql('', `alter table ${rest} rename to ${name}`));
  await tx.query(sql('', `create table ${rest} partition of ${table} default`));
  const [{ columns } = { columns: '' }] = await tx.query<{ columns: string }>(selectColumns, [table]);
  const isOther = `${ID_OF[table]} < '${from}' or ${ID_OF[table]} >= '${until}'`;
  await tx.query(
    sql(
      '',
      `with moved as (delete from ${name} where ${isOther} returning ${columns})
      insert into ${rest} (${columns}) select ${columns} from moved`,
    ),
  );
  await attach(tx, table, name, from, until);
}

const REPLACED = '_kept';
const isReplaced = ({ name }: Partition): boolean => name.endsWith(REPLACED);

/** Replaces a partition by a table with its kept rows. Statements about the table wait meanwhile. */
async function replace(
  tx: Queryable,
  table: PartitionedTable,
  { name, from, to }: Partition,
  { rows, values }: Exclude<Kept, string>,
): Promise<void> {
  const replacement = `${name}${REPLACED}`;
  await tx.query(sql('', `lock table ${table} in access exclusive mode`));
  await tx.query(sql('', `create table ${replacement} (like ${table} including all)`));
  await tx.query(sql('', `insert into ${replacement} ${rows(name)}`), values);
  await tx.query(sql('', `drop table ${name}`));
  await attach(tx, table, replacement, from, to);
}

async function attach(
  tx: Queryable,
  table: PartitionedTable,
  name: string,
  from: string | null,
  to: string,
): Promise<void> {
  const bounds = `for values from (${from === null ? 'minvalue' : `'${from}'`}) to ('${to}')`;
  await tx.query(sql('', `alter table ${table} attach partition ${name} ${bounds}`));
}

/** `events_2027_02` for the partition that starts with that month. */
function nameOf(table: PartitionedTable, from: string): string {
  const start = new Date(timeOf(from));
  return `${table}_${start.getUTCFullYear()}_${String(start.getUTCMonth() + 1).padStart(2, '0')}`;
}

/** The first id of the month that is `ahead` months after that of the time. */
function startOfMonth(ms: number, ahead: number): string {
  const date = new Date(ms);
  return firstIdAt(Date.UTC(date.getUTCFullYear(), date.getUTCMonth() + ahead));
}

const monthAfter = (id: string): string => startOfMonth(timeOf(id), 1);
const later = (one: string, other: string): string => (one > other ? one : other);
const earlier = (one: string, other: string): string => (one < other ? one : other);

/** The oldest and the newest row in a range of ids without partitions. */
async function rowsBetween(
  db: Queryable,
  table: PartitionedTable,
  from: string,
  to: string,
): Promise<{ oldest: string | null; newest: string | null }> {
  const [rows] = await db.query<{ oldest: string | null; newest: string | null }>(ROWS_BETWEEN[table], [
    from,
    to,
  ]);
  return rows ?? { oldest: null, newest: null };
}

const selectOwnership = sql(
  'owns_table',
  "select pg_has_role(relowner, 'usage') as owns from pg_class where oid = $1::text::regclass",
);
const selectPartitions = sql(
  'list_partitions',
  `select name, substring(bound from 'FROM \\(''([^'']+)''\\)') as "from",
    substring(bound from 'TO \\(''([^'']+)''\\)') as "to"
  from (
    select c.relname::text as name, pg_get_expr(c.relpartbound, c.oid) as bound
    from pg_inherits i
    join pg_class c on c.oid = i.inhrelid
    where i.inhparent = $1::text::regclass
  ) partitions
  where bound <> 'DEFAULT'
  order by "to"`,
);
const selectColumns = sql(
  'columns_of_table',
  `select string_agg(quote_ident(attname), ', ') as columns
  from pg_attribute
  where attrelid = $1::text::regclass and attnum > 0 and not attisdropped and attgenerated = ''`,
);
const ID_OF = { events: 'id', deliveries: 'notification_id' } as const;
// Only the partition for ids in no other is read, which is nearly always empty.
const ROWS_BETWEEN = {
  events: sql(
    'events_without_partition',
    `select (select id from events where id >= $1 and id < $2 order by id limit 1) as oldest,
      (select id from events where id >= $1 and id < $2 order by id desc limit 1) as newest`,
  ),
  deliveries: sql(
    'deliveries_without_partition',
    `select (
        select notification_id
        from deliveries
        where notification_id >= $1 and notification_id < $2
        order by notification_id
        limit 1
      ) as oldest, (
        select notification_id
        from deliveries
        where notification_id >= $1 and notification_id < $2
        order by notification_id desc
        limit 1
      ) as newest`,
  ),
} as const;
