import type { Database, Queryable } from '../../../db/client.ts';
import type { Clock } from '../../../lib/clock.ts';
import { complete } from '../../../queue/complete.ts';
import { type Handler, ONE_JOB } from '../../../queue/handler.ts';
import type { Job } from '../../../queue/jobs.ts';
import { continueThose } from '../engine/continue-waiting.ts';
import type { ArrivedEvent } from '../feed/arrived-event.ts';
import { eventsOfRows } from './events-of-rows.ts';

type ContinueJob = Job<'continue_workflows'>;

/**
 * Continues runs that waited when an event came, and were too many for its transaction. The job ends in the
 * transaction that continues its runs, so each is continued once, whatever crashes.
 */
export function continueHandler({
  db,
  clock,
}: {
  db: Pick<Database, 'query' | 'transaction'>;
  clock: Clock;
}): Handler<'continue_workflows'> {
  return {
    slots: 1,
    slotsPerPartition: 1,
    ...ONE_JOB,
    async run(jobs, leaseId) {
      for (const { id, projectId, priority, payload } of jobs)
        await db.transaction(async (tx) => {
          await complete(tx, leaseId, [id]);
          const runs = payload.runs.map(([runId, turn]) => ({ id: runId, turn }));
          const events = await eventsOf(tx, projectId, payload);
          await continueThose(tx, runs, events, { priority, nowMs: clock.now() });
        });
      return ['run_workflow'];
    },
    // The runs time out.
    discard: (job, leaseId) => complete(db, leaseId, [job.id]),
  };
}

async function eventsOf(
  tx: Queryable,
  projectId: string,
  payload: ContinueJob['payload'],
): Promise<ArrivedEvent[]> {
  if ('posted' in payload) {
    const { name, user_id: userId, value } = payload.posted;
    return [{ name, userId, broadcastId: null, xact: null, value }];
  }
  const names = new Set(payload.names);
  return (await eventsOfRows(tx, projectId, payload.rows)).filter(({ name }) => names.has(name));
}
