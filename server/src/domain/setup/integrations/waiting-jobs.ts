import { type Queryable, sql } from '../../../db/client.ts';
import { enqueue } from '../../../queue/enqueue.ts';
import { priorityFor } from '../../../queue/jobs.ts';

/**
 * Enqueues the job that makes the deliveries due that wait for an integration of a channel, in the
 * transaction that saves one. Enqueues nothing if there are none.
 */
export async function wakeWaiting(tx: Queryable, projectId: string, channel: string): Promise<void> {
  const [waiting] = await tx.query(hasWaiting, [projectId]);
  if (waiting === undefined) return;
  const priority = priorityFor(1);
  await enqueue(tx, [{ kind: 'wake_waiting', projectId, priority, weight: 1, payload: { channel } }]);
}

// Index jobs_that_wait, whose condition is repeated word for word; primary key of the pauses, in which a
// delivery may be about to wait.
const hasWaiting = sql(
  'has_waiting_jobs',
  `select 1
  where exists (
      select from jobs
      where kind = 'deliver' and due_at is not null and payload ->> 'waits_for' is not null
        and project_id = $1
    )
    or exists (select from integration_pauses where project_id = $1)`,
);
