import { type Queryable, sql } from '../../../db/client.ts';
import { complete } from '../../../queue/complete.ts';
import { enqueue } from '../../../queue/enqueue.ts';
import { type Handler, ONE_JOB } from '../../../queue/handler.ts';
import type { Job } from '../../../queue/jobs.ts';
import { wakingJob } from '../../setup/integrations/waiting-jobs.ts';
import type { LineContext } from '../context/context.ts';

// Jobs in one transaction: those of a large broadcast may wait at a second each for a whole day.
const CHUNK = 2_000;

// A delivery that was decided before an integration was saved may be deferred after it, by a job that is
// committed behind the first pass.
const SECOND_PASS_MS = 3_000;

/**
 * Makes deliveries due that wait for an integration or its rate, a chunk in each transaction: a config that
 * was saved may work, and permit more. Those that still have to wait are deferred once more.
 */
export function wakeHandler(context: Pick<LineContext, 'db' | 'clock'>): Handler<'wake_waiting'> {
  return {
    slots: 1,
    slotsPerPartition: 1,
    ...ONE_JOB,
    async run(jobs, leaseId) {
      for (const job of jobs) await runChunk(context, job, leaseId);
      return ['deliver', 'wake_waiting'];
    },
    discard: (job, leaseId) => complete(context.db, leaseId, [job.id]),
  };
}

function runChunk(
  { db, clock }: Pick<LineContext, 'db' | 'clock'>,
  { id, projectId, payload }: Job<'wake_waiting'>,
  leaseId: string,
): Promise<void> {
  const { channel } = payload;
  return db.transaction(async (tx) => {
    await complete(tx, leaseId, [id]);
    const upTo = payload.up_to ?? (await lastJob(tx));
    const woken = await tx.query(wakeJobs, [projectId, channel, upTo, CHUNK]);
    if (woken.length === CHUNK) await enqueue(tx, [wakingJob(projectId, { ...payload, up_to: upTo })]);
    else if (!payload.second_pass)
      await enqueue(tx, [
        { ...wakingJob(projectId, { channel, second_pass: true }), dueAtMs: clock.now() + SECOND_PASS_MS },
      ]);
  });
}

async function lastJob(tx: Queryable): Promise<number> {
  const [row] = await tx.query<{ id: number }>(selectLast);
  return row?.id ?? 0;
}

// Primary key.
const selectLast = sql('last_job', 'select id from jobs order by id desc limit 1');
// Index jobs_that_wait, whose condition is repeated word for word. A job that is woken leaves the index. One
// that has to wait once more is another job, behind the last one of this pass. The time that the jobs wait in
// the queue begins now.
const wakeJobs = sql(
  'wake_waiting_jobs',
  `update jobs
  set due_at = null, enqueued_at = now(), payload = (payload::jsonb || '{"woken": true}')::json
  where id = any (array(
    select id
    from jobs
    where kind = 'deliver' and due_at is not null and payload ->> 'waits_for' is not null
      and project_id = $1 and payload ->> 'channel' = $2 and id <= $3 and lease_id is null
    limit $4
    for update skip locked
  ))
  returning 1`,
);
