import { setTimeout as delay } from 'node:timers/promises';
import { sql } from '../../server/src/db/client.ts';
import type { SocketsRequest } from '../processes/sockets.ts';
import { type Belfry, startBelfry } from '../support/belfry.ts';
import { fcmAccount } from '../support/fcm-account.ts';
import { type HeapReader, heapReader } from '../support/heap.ts';
import { createInboxUsers } from '../support/inbox-users.ts';
import { type Load, type LoadResult, sendSteadily } from '../support/load.ts';
import { descriptorsOf, memoryOf } from '../support/processes.ts';
import { createPushUsers } from '../support/push-users.ts';
import { queueEmpty } from '../support/queue.ts';
import type { Bench, Scenario } from '../support/scenario.ts';
import { median } from '../support/statistics.ts';
import { runTask, startTask } from '../support/task.ts';

const USERS = 10_000;
const SOCKETS = 200;
const RECIPIENTS = 5;
const SHARE = 0.7;
const PARTS = 12;
const SAMPLES = 20;
const MEGABYTE = 1_048_576;
// Everything else holds work or settings, and must not grow.
const GROWING = ['broadcasts', 'broadcast_texts', 'broadcast_users', 'deliveries', 'events', 'notifications'];

/** A twelfth of the time: requests, the medians of what the server holds, and the rows at the end. */
interface Part {
  load: LoadResult;
  /** After a garbage collection. */
  heapBytes: number;
  nodeBytes: number;
  postgresBytes: number;
  nodeDescriptors: number;
  postgresDescriptors: number;
  tableBytes: number;
  growingBytes: number;
  notifications: number;
}

/**
 * (soak) An hour at 70 % of what the server processes: broadcasts to five users in the inbox and on a phone,
 * of whom some have an open socket. Compares the last twelfth with the second; caches fill in the first.
 */
export const measureSoak: Scenario = async (bench) => {
  const vendor = startTask('push-vendor.ts');
  const sockets = startTask<SocketsRequest>('sockets.ts');
  const { http1, http2 } = await vendor.request<{ http1: string; http2: string }>({});
  const heap = heapReader();
  const belfry = await startBelfry({
    ...bench,
    nodeArguments: [...bench.nodeArguments, ...heap.nodeArguments],
    settings: { PROVIDER_FCM_BASE_URL: http2, ...heap.settings },
  });
  try {
    const { address, apiKey, projectJwt: jwt } = belfry;
    const { status } = await belfry.call('PUT', '/integrations/fcm', fcmAccount(`${http1}/token`));
    if (status >= 300) throw new Error(`saving the integration returned ${status}`);
    const prefix = `soak${Date.now()}-`;
    await createPushUsers(belfry, prefix, USERS);
    const { tokens } = await createInboxUsers(belfry, prefix, SOCKETS);
    await sockets.request({ open: { address, apiKey, tokens } });
    const load = { address, jwt, recipients: RECIPIENTS, users: USERS, prefix, connections: 16 };
    const most = await mostPerSecond(belfry, { ...load, durationMs: bench.quick ? 2_000 : 30_000 });
    const perSecond = most * SHARE;
    const durationMs = bench.quick ? 5_000 : 300_000;
    const parts: Part[] = [];
    for (let index = 1; index <= PARTS; index += 1) {
      const part = await run(belfry, heap, { ...load, perSecond, durationMs });
      parts.push(part);
      console.log(`      ${index}: ${lineOf(part)}`);
    }
    await queueEmpty(belfry);
    await checkAll(belfry);
    show(bench, parts, { most, perSecond });
  } finally {
    sockets.stop();
    vendor.stop();
    await belfry.stop();
    heap.close();
  }
};

/** How many such broadcasts the server accepts and processes. */
async function mostPerSecond(belfry: Belfry, load: Load): Promise<number> {
  const startedMs = performance.now();
  const { requests } = await runTask<LoadResult>('send.ts', load);
  await queueEmpty(belfry);
  return requests / ((performance.now() - startedMs) / 1_000);
}

async function run(belfry: Belfry, heap: HeapReader, load: Load & { perSecond: number }): Promise<Part> {
  const sending = sendSteadily(load);
  const samples: { memory: ReturnType<typeof memoryOf>; open: ReturnType<typeof descriptorsOf> }[] = [];
  for (let index = 0; index < SAMPLES; index += 1) {
    await delay(load.durationMs / (SAMPLES + 1));
    samples.push({ memory: memoryOf(belfry.pid), open: descriptorsOf(belfry.pid) });
  }
  const sizes = await sizesOf(belfry);
  const result = await sending;
  const heapBytes = await heap.read(belfry.pid);
  if (result.errors > 0) throw new Error(`${result.errors} broadcasts were not accepted`);
  return {
    load: result,
    heapBytes,
    nodeBytes: median(samples.map(({ memory }) => memory.nodeBytes)),
    postgresBytes: median(samples.map(({ memory }) => memory.postgresBytes)),
    nodeDescriptors: median(samples.map(({ open }) => open.node)),
    postgresDescriptors: median(samples.map(({ open }) => open.postgres)),
    ...sizes,
  };
}

async function sizesOf({ db }: Belfry): Promise<{
  tableBytes: number;
  growingBytes: number;
  notifications: number;
}> {
  const [sizes] = await db.query<{ tables: number; growing: number; notifications: number }>(
    sql(
      'bench_sizes',
      `select
        (sum(bytes) filter (where not grows))::float8 as tables,
        (sum(bytes) filter (where grows))::float8 as growing,
        (select n_tup_ins from pg_stat_user_tables where relname = 'notifications')::float8 as notifications
      from (
        select pg_total_relation_size(c.oid) as bytes,
          coalesce(pg_partition_root(c.oid), c.oid)::regclass::text = any ($1::text[]) as grows
        from pg_class c
        where c.relkind = 'r' and c.relnamespace = 'public'::regnamespace
      ) t`,
    ),
    [GROWING],
  );
  return {
    tableBytes: sizes?.tables ?? Number.NaN,
    growingBytes: sizes?.growing ?? Number.NaN,
    notifications: sizes?.notifications ?? Number.NaN,
  };
}

/** Every broadcast is processed, and nothing failed. */
async function checkAll({ db }: Belfry): Promise<void> {
  const [row] = await db.query<{ wrong: number }>(
    sql(
      'bench_soak_wrong',
      `select count(*)::int as wrong
      from broadcasts
      where status <> 'processed' or failures > 0 or failed_users > 0 or pending > 0`,
    ),
  );
  if (row?.wrong !== 0) throw new Error(`${row?.wrong} broadcasts failed or were not processed`);
}

function lineOf(part: Part): string {
  const { load, nodeBytes, postgresBytes, nodeDescriptors, postgresDescriptors, tableBytes } = part;
  const { perSecond, p50Ms, p99Ms } = load;
  return [
    `${perSecond.toFixed(0)} broadcasts/s, p50 ${p50Ms.toFixed(1)} ms, p99 ${p99Ms.toFixed(0)} ms`,
    `Node ${megabytes(nodeBytes)}, heap ${megabytes(part.heapBytes)}, ${nodeDescriptors} descriptors`,
    `PostgreSQL ${megabytes(postgresBytes)}, ${postgresDescriptors} descriptors`,
    `tables of work ${megabytes(tableBytes)}, of data ${megabytes(part.growingBytes)}`,
  ].join('; ');
}

function megabytes(bytes: number): string {
  return `${(bytes / MEGABYTE).toFixed(0)} MiB`;
}

function show({ figure }: Bench, parts: readonly Part[], rates: { most: number; perSecond: number }): void {
  const [second, last] = [parts[1], parts.at(-1)] as [Part, Part];
  figure({
    name: 'broadcasts, each to five users, two channels',
    value: rates.perSecond,
    unit: '/s',
    note: `70 % of ${rates.most.toFixed(0)}`,
  });
  const compare = (name: string, of: (part: Part) => number, shown = megabytes) =>
    figure({
      name: `${name}: the last twelfth to the second`,
      value: of(last) / of(second),
      unit: '×',
      aim: { value: 1.1, better: 'less' },
      note: `${shown(of(second))} → ${shown(of(last))}`,
    });
  const plain = (count: number) => count.toFixed(0);
  compare('memory of Node', (part) => part.nodeBytes);
  compare("Node's heap after a collection", (part) => part.heapBytes);
  compare('memory of PostgreSQL', (part) => part.postgresBytes);
  compare('descriptors of Node', (part) => part.nodeDescriptors, plain);
  compare('descriptors of PostgreSQL', (part) => part.postgresDescriptors, plain);
  compare('tables of work and settings', (part) => part.tableBytes);
  const each = (before: number, after: number) => {
    const [from, to] = [parts[before], parts[after]] as [Part, Part];
    return (to.growingBytes - from.growingBytes) / (to.notifications - from.notifications);
  };
  figure({
    name: 'data of a notification: the last twelfth to the second',
    value: each(parts.length - 2, parts.length - 1) / each(0, 1),
    unit: '×',
    aim: { value: 1.1, better: 'less' },
    note: `${plain(each(0, 1))} → ${plain(each(parts.length - 2, parts.length - 1))} bytes`,
  });
  compare(
    'p50 of a request',
    (part) => part.load.p50Ms,
    (ms) => `${ms.toFixed(1)} ms`,
  );
  compare(
    'p99 of a request',
    (part) => part.load.p99Ms,
    (ms) => `${ms.toFixed(0)} ms`,
  );
}
