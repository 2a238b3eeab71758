import { type Belfry, startBelfry } from '../support/belfry.ts';
import { broadcastBody, randomIds } from '../support/broadcast-body.ts';
import { databaseState, preload, resetStatements, showStatements } from '../support/database-costs.ts';
import type { LoadResult } from '../support/load.ts';
import { cpuOf, used } from '../support/processes.ts';
import { queueEmpty } from '../support/queue.ts';
import type { Bench, Scenario } from '../support/scenario.ts';
import { startTask, type Task } from '../support/task.ts';

/**
 * What a broadcast and a notification cost: CPU time, statements, transactions that write, and
 * write-ahead log.
 */
export const measureCost: Scenario = async (bench) => {
  await preload(bench.dataDir, 'pg_stat_statements');
  const belfry = await startBelfry(bench);
  const sender = startTask('send.ts');
  try {
    const users = 20_000;
    const prefix = `g${Date.now()}-`;
    const large = (known: boolean, count: number) =>
      Array.from({ length: count }, (_, broadcast) =>
        broadcastBody(
          known
            ? randomIds(prefix, users, 1_000)
            : Array.from({ length: 1_000 }, (_, index) => `${prefix}${broadcast * 1_000 + index}`),
        ),
      );
    await measure(bench, belfry, sender, '1000 new users', large(false, users / 1_000), 1_000);
    await measure(bench, belfry, sender, '1000 known users', large(true, bench.quick ? 20 : 100), 1_000);
    const single = Array.from({ length: bench.quick ? 1_000 : 20_000 }, () =>
      broadcastBody(randomIds(prefix, users, 1)),
    );
    await measure(bench, belfry, sender, '1 known user', single, 1);
  } finally {
    sender.stop();
    await belfry.stop();
    await preload(bench.dataDir, '');
  }
};

async function measure(
  bench: Bench,
  belfry: Belfry,
  sender: Task,
  name: string,
  bodies: string[],
  recipients: number,
): Promise<void> {
  const { db, address, projectJwt: jwt } = belfry;
  await resetStatements(db);
  const before = { cpu: cpuOf(belfry.pid), database: await databaseState(db) };
  await sender.request<LoadResult>({ address, jwt, bodies, connections: 8 });
  await queueEmpty(belfry);
  const cpu = used(before.cpu, cpuOf(belfry.pid));
  const after = await databaseState(db);
  const broadcasts = bodies.length;
  const notifications = broadcasts * recipients;
  const each = (name: string, value: number, unit: string, note?: string) =>
    bench.figure({ name, value, unit, ...(note === undefined ? {} : { note }) });
  each(`${name}: CPU of Node`, (cpu.nodeCpuMs * 1000) / notifications, 'µs/notification');
  each(`${name}: CPU of PostgreSQL`, (cpu.postgresCpuMs * 1000) / notifications, 'µs/notification');
  each(
    `${name}: write-ahead log`,
    (after.walBytes - before.database.walBytes) / notifications,
    'B/notification',
  );
  const of = 'calls';
  const statements = await showStatements(db, { of, units: notifications, batches: broadcasts });
  each(`${name}: statements`, statements / broadcasts, 'per broadcast');
  each(`${name}: transactions that write`, (after.xid - before.database.xid) / broadcasts, 'per broadcast');
}
