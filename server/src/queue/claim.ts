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
  /** The turn begins behind this project, and goes on with the first after the last. */
  afterProject: string;
  /**
   * Takes turns over the priorities of each project, the oldest job first, so that bulk is never starved by
   * small work.
   */
  oldestFirst: boolean;
}

/**
 * Leases ready jobs: at most `maxJobs`, taken in turns from the projects that have some. They are answered in
 * the order of their choice, so that the next turn is fair when it begins behind the project of the last one.
 */
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

const NIL = '00000000-0000-0000-0000-000000000000';
const LAST = 'ffffffff-ffff-ffff-ffff-ffffffffffff';

// Index jobs_ready (kind, project_id, priority, id). The recursion jumps from project to project by index
// instead of reading every ready job, so a claim costs the same beside ten waiting jobs and beside a million.
// Of each project no more jobs are looked at than about its share of the batch: those that do not fit were
// locked for nothing until the statement ends, and locking is writing.
//
// The commit of a claim does not wait for the disk: one that a crash of the server takes back finds out when
// it settles.
const claimJobs = ({ classes, order }: { classes: string; order: string }) => `
  with recursive projects (project_id, turn, again, busy) as (
    select $7::uuid, 0, false, true
    union all
    select next.project_id, projects.turn + case when next.busy then 0 else 1 end, next.again, next.busy
    from projects, lateral (
      select project_id, again, project_id = any ($6::uuid[]) as busy
      from (
        (
          select j.project_id, projects.again
          from jobs j
          where j.kind = $1 and j.due_at is null and j.lease_id is null
            and j.project_id > projects.project_id
            and j.project_id <= case when projects.again then $7 else '${LAST}'::uuid end
          order by j.project_id
          limit 1
        )
        union all
        (
          select j.project_id, true
          from jobs j
          where j.kind = $1 and j.due_at is null and j.lease_id is null
            and j.project_id <= case when projects.again then '${NIL}'::uuid else $7 end
          order by j.project_id
          limit 1
        )
      ) either
      order by again
      limit 1
    ) next
    where projects.turn < $5
  ),
  candidates as (
    select ready.*, turn, row_number() over (partition by project_id, priority order by ready.id) as place
    from projects,
      (values ${classes}) as class (lowest, highest),
      lateral (
        select j.id, j.priority, j.weight
        from jobs j
        where j.kind = $1 and j.project_id = projects.project_id and j.due_at is null and j.lease_id is null
          and j.priority between class.lowest and class.highest
        order by j.priority, j.id
        limit greatest($3 / (select count(*) from projects where not busy), 8)
        for update skip locked
      ) ready
    where not busy
  ),
  chosen as (
    select id, turn, place, sum(weight) over (order by ${order}) - weight as weight_before
    from candidates
    order by ${order}
    limit $3
  ),
  claimed as (
    update jobs
    set lease_id = $2, attempt = attempt + 1
    from chosen
    where jobs.id = chosen.id and chosen.weight_before < $4
    returning jobs.id, jobs.project_id, jobs.priority, jobs.weight, jobs.attempt, jobs.payload, turn, place
  )
  select id, project_id, priority, weight, attempt, payload
  from claimed, (select set_config('synchronous_commit', 'off', true)) without_waiting
  order by ${order}`;

const claimUrgent = sql('claim_urgent', claimJobs({ classes: '(0, 32767)', order: 'priority, place, turn' }));
// The priorities that priorityFor gives, each by itself: to sort a project's jobs by age alone would read all
// of them.
const claimOldest = sql(
  'claim_oldest',
  claimJobs({ classes: '(0, 0), (1, 1), (2, 32767)', order: 'place, turn, id' }),
);
