import { type Queryable, sql } from './client.ts';
import type { Durability } from './durability.ts';

// Citus makes several PostgreSQL servers one database: a coordinator, to which clients connect, and workers,
// which store tables. A distributed schema is on one worker as a whole, and can move to another while it is
// in use. https://docs.citusdata.com/en/stable/develop/api_udf.html

/** A distributed schema. */
export interface PlacedSchema {
  schema: string;
  /** The worker that stores it, as `host:port`. */
  worker: string;
}

/** A schema that is to move between workers, given as `host:port`. */
export interface SchemaTransfer {
  schema: string;
  from: string;
  to: string;
}

/** How far a rebalancing is. */
export interface RebalanceState {
  state: 'scheduled' | 'running' | 'finished' | 'cancelling' | 'cancelled' | 'failing' | 'failed';
  /** What Citus reports of tasks that failed; null if it reports nothing. */
  message: string | null;
}

/** Whether the database is a coordinator of Citus, version 12 or newer. */
export async function hasCitus(db: Queryable): Promise<boolean> {
  const [row] = await db.query<{ exists: boolean }>(findFunction);
  return row?.exists === true;
}

/** Places all tables of a schema, and those that it gets later, on one of the workers. Repeatable. */
export async function distributeSchema(db: Queryable, schema: string): Promise<void> {
  await db.query(distribute, [schema]);
}

/** Returns the distributed schemas. Only for a database with Citus. */
export function placedSchemas(db: Queryable): Promise<PlacedSchema[]> {
  return db.query<PlacedSchema>(selectPlaces);
}

/** Whether the tables of the connection's own schema are on a worker. */
export async function isOnWorker(db: Queryable): Promise<boolean> {
  if (!(await hasCitus(db))) return false;
  return (await db.query(selectOwnPlace)).length > 0;
}

/** Returns the settings of the connections that the coordinator has to each worker that responds. */
export function durabilityOfWorkers(db: Queryable): Promise<(Durability & { worker: string })[]> {
  return db.query<Durability & { worker: string }>(selectDurabilities);
}

/** Returns what a rebalancing would move now. */
export function plannedTransfers(db: Queryable): Promise<SchemaTransfer[]> {
  return db.query<SchemaTransfer>(selectPlan);
}

/** Starts to move schemas between workers, in the database. */
export async function startRebalance(db: Queryable): Promise<void> {
  await db.query(start);
}

/** Returns the state of the last rebalancing; undefined if there was none. */
export async function rebalanceState(db: Queryable): Promise<RebalanceState | undefined> {
  const [row] = await db.query<RebalanceState>(selectState);
  return row;
}

const findFunction = sql('', "select to_regproc('citus_schema_distribute') is not null as exists");
const selectOwnPlace = sql(
  '',
  'select from pg_dist_schema where schemaid = quote_ident(current_schema())::regnamespace',
);
const selectDurabilities = sql(
  '',
  `select nodename || ':' || nodeport as worker, result::json->>0 as synchronous_commit,
    result::json->>1 as fsync, result::json->>2 as full_page_writes
  from run_command_on_workers($$
    select json_build_array(current_setting('synchronous_commit'), current_setting('fsync'),
      current_setting('full_page_writes'))
  $$)
  where success
  order by worker`,
);
const distribute = sql('', 'select citus_schema_distribute($1::text::regnamespace)');

// The parts of all tables of a schema are on the same worker.
const selectPlaces = sql(
  '',
  `select distinct n.nspname as schema, w.nodename || ':' || w.nodeport as worker
  from pg_dist_schema s
  join pg_namespace n on n.oid = s.schemaid
  join pg_dist_partition t on t.colocationid = s.colocationid
  join pg_dist_shard on pg_dist_shard.logicalrelid = t.logicalrelid
  join pg_dist_placement p on p.shardid = pg_dist_shard.shardid
  join pg_dist_node w on w.groupid = p.groupid and w.noderole = 'primary'
  order by schema`,
);
const selectPlan = sql(
  '',
  `select distinct n.nspname as schema, p.sourcename || ':' || p.sourceport as from,
    p.targetname || ':' || p.targetport as to
  from get_rebalance_table_shards_plan() p
  join pg_class c on c.oid = p.table_name
  join pg_namespace n on n.oid = c.relnamespace
  order by schema`,
);
const start = sql('', 'select citus_rebalance_start()');
const selectState = sql(
  '',
  `select state::text, (
    select string_agg(task.value->>'message', '; ')
    from jsonb_array_elements(details->'tasks') task
  ) as message
  from citus_rebalance_status(true)`,
);
