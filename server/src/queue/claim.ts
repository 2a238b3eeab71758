import { type Queryable, sql } from '../db/client.ts';
import type { Job, JobKind, JobPayloads } from './jobs.ts';

/** What a worker asks for. */
export interface Claim<Kind extends JobKind> {
  kind: Kind;
  leaseId: string;
  maxJobs: number;
  /** The batch ends with the job that reaches this many recipients; one job is always taken whole. */
  maxWeight: number;
  /** From how many projects the batch may be mixed. */
  maxProjects: number;
  /** Projects whose turn it is not: they have enough work in flight. */
  exceptProjects: readonly string[];
  /** The projects after this one come first, so that turns rotate; the nil UUID starts anew. */
  afterProject: string;
  /** Takes the oldest job of each project instead of the most urgent one, so that bulk is never starved by small work. */
  oldestFirst: boolean;
}

/** Leases ready jobs: at most `maxJobs`, taken in turns from the projects that have some. */
export async function claim<Kind extends JobKind>(db: Queryable, wanted: Claim<Kind>): Promise<Job<Kind>[]> {
  const rows = await db.query<Row>(wanted.oldestFirst ? claimOldest : claimUrgent, [
    wanted.kind,
    wanted.leaseId,
    wanted.maxJobs,
    wanted.maxWeight,
    wanted.maxProjects,
    wanted.exceptProjects,
    wanted.afterProject,
  ]);
  return rows.map((row) => ({
    id: row.id,
    kind: wanted.kind,
    projectId: row.project_id,
    priority: row.priority,
    weight: row.weight,
    attempt: row.attempt,
    payload: JSON.parse(row.payload) as JobPayloads[Kind],
  }));
}

interface Row {
  id: number;
  project_id: string;
  priority: number;
  weight: number;
  attempt: number;
  payload: string;
}

// Index jobs_ready (kind, project_id, priority, id). The recursion jumps from project to project by index instead of reading every
// ready job, so a claim costs the same beside ten waiting jobs and beside a million. Rows that were locked but did not fit into the batch are
// free again when the statement ends. The claim need not survive a crash of the server: then the lease is void anyway.
const claimJobs = (order: string) => `
  with recursive projects (project_id, turn) as (
    (
      select project_id, 1
      from jobs
      where kind = $1 and due_at is null and lease_id is null and project_id > $7::uuid and project_id <> all ($6::uuid[])
      order by project_id
      limit 1
    )
    union all
    select next.project_id, projects.turn + 1
    from projects, lateral (
      select j.project_id
      from jobs j
      where j.kind = $1 and j.due_at is null and j.lease_id is null
        and j.project_id > projects.project_id and j.project_id <> all ($6::uuid[])
      order by j.project_id
      limit 1
    ) next
    where projects.turn < $5
  ),
  candidates as (
    select ready.*, row_number() over (partition by ready.project_id order by ${order}) as place
    from projects, lateral (
      select j.id, j.project_id, j.priority, j.weight
      from jobs j
      where j.kind = $1 and j.project_id = projects.project_id and j.due_at is null and j.lease_id is null
      order by ${order.replaceAll('ready.', 'j.')}
      limit $3
      for update skip locked
    ) ready
  ),
  chosen as (
    select id, place, sum(weight) over (order by priority, place, id) - weight as weight_before
    from candidates
    order by priority, place, id
    limit $3
  )
  update jobs
  set lease_id = $2, attempt = attempt + 1
  from chosen
  where jobs.id = chosen.id and chosen.weight_before < $4
  returning jobs.id, jobs.project_id, jobs.priority, jobs.weight, jobs.attempt, jobs.payload`;

const claimUrgent = sql('claim_urgent', claimJobs('ready.priority, ready.id'));
const claimOldest = sql('claim_oldest', claimJobs('ready.id'));
