import { type Queryable, sql } from '../db/client.ts';
import { writeJson } from '../lib/exact-numbers.ts';
import type { JobKind, NewJob } from './jobs.ts';

/**
 * Adds jobs in the caller's transaction: a job is committed together with the rows that it acts on. Returns
 * the kinds of those that are ready, not scheduled.
 */
export async function enqueue(tx: Queryable, jobs: readonly NewJob[]): Promise<readonly JobKind[]> {
  if (jobs.length === 0) return [];
  await tx.query(insertJobs, [
    jobs.map((job) => job.kind),
    jobs.map((job) => job.projectId),
    jobs.map((job) => job.partitionKey ?? null),
    jobs.map((job) => job.priority),
    jobs.map((job) => job.weight),
    jobs.map((job) => (job.dueAtMs === undefined ? null : new Date(job.dueAtMs))),
    jobs.map((job) => writeJson(job.payload)),
  ]);
  const ready = jobs.filter(({ dueAtMs }) => dueAtMs === undefined);
  return [...new Set(ready.map(({ kind }) => kind))];
}

const insertJobs = sql(
  'enqueue',
  `insert into jobs (kind, project_id, partition_key, priority, weight, due_at, payload)
  select kind, project_id, partition_key, priority, weight, due_at, payload::json
  from unnest($1::text[], $2::uuid[], $3::uuid[], $4::smallint[], $5::int[], $6::timestamptz[], $7::text[])
    as j (kind, project_id, partition_key, priority, weight, due_at, payload)`,
);
