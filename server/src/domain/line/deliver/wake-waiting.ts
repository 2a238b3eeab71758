import { type Queryable, sql } from '../../../db/client.ts';
import type { Handler } from '../../../queue/handler.ts';
import { makeDueHandler } from '../../../queue/make-due.ts';
import type { LineContext } from '../context/context.ts';

// Jobs in one transaction: those of a large broadcast may wait at a second each for a whole day.
const CHUNK = 2_000;

/**
 * Makes deliveries due that wait for an integration or its rate: a config that was saved may work, and permit
 * more. Those that still have to wait are deferred once more.
 */
export function wakeHandler(context: Pick<LineContext, 'db' | 'clock'>): Handler<'wake_waiting'> {
  return makeDueHandler(context, ['deliver'], async (tx, { projectId, payload }) => {
    const { channel, up_to: upTo = await lastJob(tx) } = payload;
    const woken = await tx.query(wakeJobs, [projectId, channel, upTo, CHUNK]);
    const isLast = woken.length < CHUNK;
    return { isLast, next: isLast ? { channel } : { ...payload, up_to: upTo } };
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
