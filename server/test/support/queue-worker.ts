import type { Database } from '../../src/db/client.ts';
import { createLogger, type Logger } from '../../src/lib/log.ts';
import type { Handler } from '../../src/queue/handler.ts';
import { JOB_KINDS, type JobKind, type Work } from '../../src/queue/jobs.ts';
import { type Handlers, Worker } from '../../src/queue/worker.ts';

interface WorkerOptions {
  pollMs?: number;
  work?: Work;
  log?: Logger;
}

/** Starts a worker with this handler for one kind of jobs. It completes other jobs without work. */
export async function startWorker<Kind extends JobKind>(
  db: Database,
  kind: Kind,
  handler: Handler<Kind>,
  { pollMs, work = 'both', log = createLogger({ level: 'silent' }) }: WorkerOptions = {},
): Promise<Worker> {
  const none = { ...handler, run: async () => [] };
  const handlers = Object.fromEntries(JOB_KINDS.map((one) => [one, one === kind ? handler : none]));
  const worker = new Worker({
    db,
    clock: { now: Date.now },
    log,
    node: 'test',
    handlers: handlers as unknown as Handlers,
    work,
    pollMs,
  });
  await worker.start();
  return worker;
}
