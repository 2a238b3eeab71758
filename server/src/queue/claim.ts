import { type Queryable, sql } from '../db/client.ts';
import { readJson } from '../lib/exact-numbers.ts';
import {
  ALL_PRIORITIES,
  BULK,
  BULK_PRIORITIES,
  type Job,
  type JobKind,
  type JobPayloads,
  PARTITIONED_KINDS,
  type Priorities,
} from './jobs.ts';

/** What a worker asks for. */
export interface Claim<Kind extends JobKind> {
  kind: Kind;
  leaseId: string;
  maxJobs: number;
  /** The batch ends with the job that reaches this weight. The first job is taken whatever it weighs. */
  maxWeight: number;
  /** The number of partitions that the batch may be mixed from. */
  maxPartitions: number;
  /** Partitions to leave out: enough of their work is in flight. */
  exceptPartitions: readonly string[];
  /** Only jobs of these priorities. */
  priorities: Priorities;
  /** The rotation starts behind this partition, and goes on with the first after the last. */
  afterPartition: string;
  /** Takes each partition's priorities in turn, oldest job first, so that small work never starves bulk. */
  oldestFirst: boolean;
}

/**
 * Leases ready jobs: at most `maxJobs`, rotating over the partitions that have any. Returns them in the order
 * of their choice, so that the next claim is fair if it starts behind the partition of the last one.
 */
export async function claim<Kind extends JobKind>(db: Queryable, wanted: Claim<Kind>): Promise<Job<Kind>[]> {
  const { urgent, oldest } = PARTITIONED_KINDS.has(wanted.kind) ? byPartition : byProject;
  const rows = await db.query<Row>(wanted.oldestFirst ? oldest : urgent, [
    wanted.kind,
    wanted.leaseId,
    wanted.maxJobs,
    wanted.maxWeight,
    wanted.maxPartitions,
    wanted.exceptPartitions,
    wanted.afterPartition,
    ...wanted.priorities,
  ]);
  return rows.map((row) => ({
    id: row.id,
    kind: wanted.kind,
    projectId: row.project_id,
    partitionKey: row.partition_key,
    priority: row.priority,
    weight: row.weight,
    attempt: row.attempt,
    cutOffs: row.cut_offs,
    payload: readJson(row.payload) as JobPayloads[Kind],
  }));
}

interface Row {
  id: number;
  project_id: string;
  partition_key: string;
  priority: number;
  weight: number;
  attempt: number;
  cut_offs: number;
  payload: string;
}

export const NIL = '00000000-0000-0000-0000-000000000000';
const LAST = 'ffffffff-ffff-ffff-ffff-ffffffffffff';

type Column = 'project_id' | 'partition_key';

const READY = 'j.kind = $1 and j.due_at is null and j.lease_id is null';

// Index jobs_ready (kind, project_id, priority, id) or jobs_ready_by_partition (kind, partition_key, …). The
// recursion jumps from partition to partition by index instead of reading every ready job, so a
// claim costs the same beside ten ready jobs and beside a million. A partition without a job of the wanted
// priorities is passed over like one that is busy. It looks at no more jobs of a partition
// than about its share of the batch: it would lock the others needlessly until the statement ends, and
// locking is writing.
//
// The table is often empty. A plan that PostgreSQL makes then would read all jobs in a join, and all ready
// ones to hash them for `exists`. With the ids in an array, no join with the batch, and a limit, it cannot.
//
// The commit of a claim does not wait for the disk. If a crash of the database undoes it, `complete` notices.
const claimJobs = (column: Column, classes: string, order: string) => `
  with recursive partitions (key, turn, wrapped, busy) as (
    select $7::uuid, 0, false, true
    union all
    select next.key, partitions.turn + case when next.busy then 0 else 1 end, next.wrapped, next.busy
    from partitions, lateral (
      select key, wrapped, key = any ($6::uuid[]) or (
        select true
        from jobs j
        where ${READY} and j.${column} = key and j.priority between $8 and $9
        limit 1
      ) is null as busy
      from (
        (
          select j.${column} as key, partitions.wrapped
          from jobs j
          where ${READY}
            and j.${column} > partitions.key
            and j.${column} <= case when partitions.wrapped then $7 else '${LAST}'::uuid end
          order by j.${column}
          limit 1
        )
        union all
        (
          select j.${column}, true
          from jobs j
          where ${READY}
            and j.${column} <= case when partitions.wrapped then '${NIL}'::uuid else $7 end
          order by j.${column}
          limit 1
        )
      ) either
      order by wrapped
      limit 1
    ) next
    where partitions.turn < $5
  ),
  candidates as (
    select ready.*, key, turn, row_number() over (partition by key, priority order by ready.id) as place
    from partitions,
      (values ${classes}) as class (lowest, highest),
      lateral (
        select j.id, j.priority, j.weight
        from jobs j
        where ${READY} and j.${column} = partitions.key
          and j.priority between greatest(class.lowest, $8) and least(class.highest, $9)
        order by j.priority, j.id
        limit greatest($3 / (select count(*) from partitions where not busy), 8)
        for update skip locked
      ) ready
    where not busy
  ),
  chosen as materialized (
    select id, sum(weight) over (order by ${order}) - weight as weight_before
    from candidates
    order by ${order}
    limit $3
  ),
  claimed as (
    update jobs
    set lease_id = $2, attempt = attempt + 1
    where id = any (array(select id from chosen where weight_before < $4))
    returning id, project_id, ${column} as key, priority, weight, attempt, cut_offs, payload
  )
  select id, project_id, key as partition_key, priority, weight, attempt, cut_offs, payload
  from claimed, (select set_config('synchronous_commit', 'off', true)) without_waiting
  order by array_position(array(select id from chosen), id)`;

const rangeText = ([lowest, highest]: Priorities) => `(${lowest}, ${highest})`;
// Each priority that `priorityFor` returns by itself: sorting all jobs of a partition by age would read them
// all.
const EACH_PRIORITY = [
  ...Array.from({ length: BULK }, (_, priority): Priorities => [priority, priority]),
  BULK_PRIORITIES,
]
  .map(rangeText)
  .join(', ');

const statements = (column: Column) => ({
  urgent: sql(
    `claim_urgent_by_${column}`,
    claimJobs(column, rangeText(ALL_PRIORITIES), 'priority, place, turn'),
  ),
  oldest: sql(`claim_oldest_by_${column}`, claimJobs(column, EACH_PRIORITY, 'place, turn, id')),
});
const byProject = statements('project_id');
const byPartition = statements('partition_key');
