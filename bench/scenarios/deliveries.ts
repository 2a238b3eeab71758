import { sql } from '../../server/src/db/client.ts';
import { type Belfry, startBelfry, until } from '../support/belfry.ts';
import { broadcastBody } from '../support/broadcast-body.ts';
import { databaseState, preload, resetStatements, showStatements } from '../support/database-costs.ts';
import { fcmAccount } from '../support/fcm-account.ts';
import type { Rate } from '../support/in-flight.ts';
import type { LoadResult } from '../support/load.ts';
import { cpuOf, memoryOf, type Usage, used } from '../support/processes.ts';
import { createPushUsers } from '../support/push-users.ts';
import type { Bench, Scenario } from '../support/scenario.ts';
import { startTask, type Task } from '../support/task.ts';

const RECIPIENTS = 1_000;
const CONNECTIONS = 8;
const POLL_MS = 25;
const MEGABYTE = 1_048_576;
const MEMORY_STEPS = 6;

/** The vendor, and how many pushes it has accepted. */
type Vendor = { http2: string; http1: string; accepted: number };

interface World {
  belfry: Belfry;
  vendor: Task;
  sender: Task;
}

/**
 * (deliveries) A campaign: 600 broadcasts to a thousand users each, every user once, in the inbox and on a
 * phone. Measures the time until all are in the inboxes, at the vendor and recorded, the cost, and the memory
 * of the server. The limit is the rate of node:http2 alone to the same vendor, before and after.
 */
export const measureDeliveries: Scenario = async (bench) => {
  const broadcasts = bench.quick ? 20 : 600;
  await preload(bench.dataDir, 'pg_stat_statements');
  const [vendor, sender, alone] = [
    startTask('push-vendor.ts'),
    startTask('send.ts'),
    startTask('bare-push.ts'),
  ];
  const { http1, http2 } = await vendor.request<Vendor>({});
  const belfry = await startBelfry({ ...bench, settings: { PROVIDER_FCM_BASE_URL: http2 } });
  try {
    await setUp(belfry, `${http1}/token`);
    const prefix = `p${Date.now()}-`;
    const world = { belfry, vendor, sender };
    // The first batches run cold code, and are not measured.
    await createPushUsers(belfry, `warm${prefix}`, 5 * RECIPIENTS);
    await runCampaign(world, bodiesOf(`warm${prefix}`, 5));
    await createPushUsers(belfry, prefix, broadcasts * RECIPIENTS);
    const limits = [await limitOf(alone, http2)];
    const campaign = await runCampaign(world, bodiesOf(prefix, broadcasts));
    limits.push(await limitOf(alone, http2));
    show(bench, campaign, limits);
    await showCosts(bench, belfry, campaign);
  } finally {
    for (const task of [sender, alone, vendor]) task.stop();
    await belfry.stop();
    await preload(bench.dataDir, '');
  }
};

async function setUp({ call }: Belfry, tokenUri: string): Promise<void> {
  const { status, body } = await call('PUT', '/integrations/fcm', fcmAccount(tokenUri));
  if (status >= 300) throw new Error(`saving the integration returned ${status}: ${JSON.stringify(body)}`);
}

/** Broadcasts to a thousand users each, in random order. */
function bodiesOf(prefix: string, broadcasts: number): string[] {
  const ids = Array.from({ length: broadcasts * RECIPIENTS }, (_, index) => `${prefix}${index}`);
  for (let last = ids.length - 1; last > 0; last -= 1) {
    const other = Math.floor(Math.random() * (last + 1));
    [ids[last], ids[other]] = [ids[other] as string, ids[last] as string];
  }
  return Array.from({ length: broadcasts }, (_, broadcast) =>
    broadcastBody(ids.slice(broadcast * RECIPIENTS, (broadcast + 1) * RECIPIENTS)),
  );
}

/** The result of a campaign; times in seconds from its first request. */
interface Campaign {
  users: number;
  acceptedS: number;
  inInboxesS: number;
  atVendorS: number;
  processedS: number;
  usage: Usage;
  walBytes: number;
  transactions: number;
  memory: { pushes: number; nodeBytes: number }[];
}

async function runCampaign({ belfry, vendor, sender }: World, bodies: string[]): Promise<Campaign> {
  const { address, projectJwt: jwt, db, pid } = belfry;
  const users = bodies.length * RECIPIENTS;
  const { accepted: takenBefore } = await vendor.request<Vendor>({});
  await resetStatements(db);
  const memory = [{ pushes: 0, nodeBytes: memoryOf(pid).nodeBytes }];
  const before = { cpu: cpuOf(pid), database: await databaseState(db), startedMs: performance.now() };
  const seconds = () => (performance.now() - before.startedMs) / 1000;
  let acceptedS = Number.POSITIVE_INFINITY;
  const posting = sender
    .request<LoadResult>({ address, jwt, bodies, connections: CONNECTIONS })
    .then(({ errors }) => {
      if (errors > 0) throw new Error(`${errors} broadcasts were not accepted`);
      acceptedS = seconds();
    });
  const inboxes = (async () => {
    await posting;
    await until('all fan-outs have ended', async () => !(await anyJob(db, 'fan_out')), { everyMs: POLL_MS });
    return seconds();
  })();
  const pushes = until(
    'every push is at the vendor',
    async () => {
      const taken = (await vendor.request<Vendor>({})).accepted - takenBefore;
      if (taken >= (memory.length * users) / MEMORY_STEPS)
        memory.push({ pushes: taken, nodeBytes: memoryOf(pid).nodeBytes });
      return taken >= users;
    },
    { everyMs: POLL_MS },
  ).then(seconds);
  const [inInboxesS, atVendorS] = await Promise.all([inboxes, pushes]);
  await until('all deliveries have ended', async () => !(await anyJob(db, 'deliver')), { everyMs: POLL_MS });
  const processedS = seconds();
  const database = await databaseState(db);
  await check(belfry, bodies.length);
  const { accepted: taken } = await vendor.request<Vendor>({});
  if (taken - takenBefore !== users) throw new Error(`${taken - takenBefore} pushes for ${users} users`);
  return {
    users,
    acceptedS,
    inInboxesS,
    atVendorS,
    processedS,
    usage: used(before.cpu, cpuOf(pid)),
    walBytes: database.walBytes - before.database.walBytes,
    transactions: database.xid - before.database.xid,
    memory,
  };
}

async function anyJob(db: Belfry['db'], kind: string): Promise<boolean> {
  const [row] = await db.query<{ bench: boolean }>(
    sql('bench_any_of_kind', 'select exists (select from jobs where kind = $1) as bench'),
    [kind],
  );
  return row?.bench === true;
}

/** Every broadcast is processed, and nothing failed. */
async function check({ db }: Belfry, broadcasts: number): Promise<void> {
  const [row] = await db.query<{ bench: number }>(
    sql(
      'bench_check_broadcasts',
      `select count(*)::int as bench
      from (select status, failures, failed_users, pending from broadcasts order by id desc limit $1) b
      where status = 'processed' and failures = 0 and failed_users = 0 and pending = 0`,
    ),
    [broadcasts],
  );
  if (row?.bench !== broadcasts) throw new Error(`${row?.bench} of ${broadcasts} broadcasts were processed`);
}

function limitOf(alone: Task, address: string): Promise<Rate> {
  return alone.request<Rate>({ address, count: 20_000, inFlight: 500 });
}

function show({ figure }: Bench, campaign: Campaign, limits: readonly Rate[]): void {
  const { users, acceptedS, inInboxesS, atVendorS, processedS, memory } = campaign;
  const thousands = (count: number) => `${Math.round(count / 1000).toLocaleString('en-US')},000`;
  const all = `all ${thousands(users)}`;
  figure({ name: `until ${all} are accepted`, value: acceptedS, unit: 's' });
  figure({
    name: `until ${all} are in the inboxes`,
    value: inInboxesS,
    unit: 's',
    note: 'the fan-outs; pushes go out beside them',
  });
  figure({ name: `until ${all} pushes are at the vendor`, value: atVendorS, unit: 's' });
  figure({
    name: 'until all is written down and the broadcasts are processed',
    value: processedS,
    unit: 's',
    note: `${((2 * users) / processedS).toFixed(0)} deliveries/s`,
  });
  const rate = users / processedS;
  const limit = limits.reduce((sum, { perSecond }) => sum + perSecond, 0) / limits.length;
  figure({
    name: 'limit: node:http2 alone to the same vendor',
    value: limit,
    unit: 'pushes/s',
    note: `before and after: ${limits.map(shown).join(', ')}`,
  });
  figure({ name: 'pushes', value: rate, unit: 'pushes/s' });
  figure({ name: 'share of node:http2 alone', value: (100 * rate) / limit, unit: '%' });
  for (const { pushes, nodeBytes } of memory)
    figure({
      name: `Node's memory after ${thousands(pushes)} pushes`,
      value: nodeBytes / MEGABYTE,
      unit: 'MiB',
    });
}

function shown({ perSecond, cpuMicros }: Rate): string {
  return `${perSecond.toFixed(0)} (CPU each ${cpuMicros.toFixed(0)} µs)`;
}

/** The cost of a user's notification in the inbox and on the phone, with accepting the broadcast. */
async function showCosts({ figure }: Bench, { db }: Belfry, campaign: Campaign): Promise<void> {
  const { users, usage, walBytes, transactions } = campaign;
  const thousands = users / 1_000;
  const each = (name: string, value: number, unit: string) => figure({ name, value, unit });
  each('CPU of Node', (usage.nodeCpuMs * 1000) / users, 'µs/user');
  each('CPU of PostgreSQL', (usage.postgresCpuMs * 1000) / users, 'µs/user');
  each('write-ahead log', walBytes / users, 'B/user');
  each('transactions that write', transactions / thousands, 'per 1000 users');
  const statements = await showStatements(db, {
    of: 'calls per 1000',
    units: users,
    batches: thousands,
    most: 14,
  });
  each('statements', statements / thousands, 'per 1000 users');
}
