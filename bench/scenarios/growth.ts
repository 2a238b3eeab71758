import { join } from 'node:path';
import { sql } from '../../server/src/db/client.ts';
import { type Belfry, startBelfry } from '../support/belfry.ts';
import { broadcastBody, randomIds } from '../support/broadcast-body.ts';
import { preload, resetStatements } from '../support/database-costs.ts';
import {
  addUnreadInboxes,
  fillInboxes,
  growUsers,
  growWithDeliveries,
  someBroadcasts,
} from '../support/large-table.ts';
import { type Mailers, startMailers } from '../support/mailers.ts';
import { queueEmpty } from '../support/queue.ts';
import type { Bench, Scenario } from '../support/scenario.ts';
import { percentile } from '../support/statistics.ts';

const MANY_USERS = 1_000_000;
const MILLION = 1_000_000;
const MARKED_INBOXES = 10;
const SNOOZED_MS = 3_000;

/** One request, repeated. */
interface Operation {
  name: string;
  times: number;
  send(): Promise<{ status: number }>;
  begin?(): Promise<unknown>;
  end?(): Promise<unknown>;
}

/**
 * (growth) What every frequent operation costs the database while the tables of notifications and deliveries
 * grow from 1 to 10 and to 50 million rows each, of a million users. The larger ones do not fit into the
 * memory of PostgreSQL. Takes 20 minutes and 30 GB, so it runs only if it is named.
 */
export const measureGrowth: Scenario = async (bench) => {
  const dataDir = join(bench.dataDir, 'growth');
  await preload(dataDir, 'pg_stat_statements');
  const mailers = await startMailers();
  const belfry = await startBelfry({ ...bench, dataDir });
  const users = bench.quick ? 10_000 : MANY_USERS;
  try {
    await fillInboxes(belfry.db, belfry.projectId);
    await growUsers(belfry.db, belfry.projectId, users);
    const broadcasts = await someBroadcasts(belfry.db);
    let perUser = 0;
    for (const rows of bench.quick ? [users, 10 * users] : [MILLION, 10 * MILLION, 50 * MILLION]) {
      const unread = await addUnreadInboxes(belfry.db, belfry.projectId, MARKED_INBOXES);
      await growWithDeliveries(belfry.db, { users, from: perUser, to: rows / users });
      perUser = rows / users;
      for (const operation of operations(belfry, { users, broadcasts, unread }, mailers))
        await measure(bench, belfry, operation, rows);
    }
  } finally {
    mailers.stop();
    await belfry.stop();
  }
};

interface Rows {
  users: number;
  /** Ids of some of the broadcasts. */
  broadcasts: readonly string[];
  /** External ids of users with 10,000 unread notifications. */
  unread: readonly string[];
}

function operations(
  { call, userJwt }: Belfry,
  { users, broadcasts, unread }: Rows,
  mailers: Mailers,
): Operation[] {
  const any = () => Math.floor(Math.random() * users) + 1;
  const send = (count: number) => () =>
    call('POST', '/broadcasts', JSON.parse(broadcastBody(randomIds('user-', users, count))) as object);
  const as = (name: () => string, method: string, path: string) => () =>
    call(method, path, undefined, userJwt(name()));
  const anyUser = () => `user-${any()}`;
  const newestOf = async (list: string, jwt?: string) => {
    const { body } = await call('GET', `${list}?limit=1`, undefined, jwt);
    return `${list}/${(body as { data: { id: string }[] }).data[0]?.id}`;
  };
  const nextUnread = unread.values();
  const change = (action: string, body?: () => object) => async () => {
    const jwt = userJwt(anyUser());
    return call('POST', `${await newestOf('/notifications', jwt)}/${action}`, body?.(), jwt);
  };
  const untilSoon = () => ({ until: new Date(Date.now() + SNOOZED_MS).toISOString() });
  const anyBroadcast = () => broadcasts[Math.floor(Math.random() * broadcasts.length)] ?? '';
  return [
    { name: 'broadcast to 1,000 users', times: 30, send: send(1_000) },
    { name: 'broadcast to one user', times: 200, send: send(1) },
    { name: 'list of 20', times: 300, send: as(anyUser, 'GET', '/notifications?limit=20') },
    { name: 'list of 20, of 100,000', times: 300, send: as(() => 'heavy', 'GET', '/notifications?limit=20') },
    { name: 'unread count', times: 300, send: as(anyUser, 'GET', '/notifications/unread/count') },
    {
      name: 'unread count, of 100,000',
      times: 300,
      send: as(() => 'heavy', 'GET', '/notifications/unread/count'),
    },
    { name: 'find one and mark it as read', times: 200, send: change('read') },
    { name: 'find one and archive it', times: 200, send: change('archive') },
    {
      name: 'find one, snooze it, and show it again',
      times: 200,
      send: change('snooze', untilSoon),
    },
    {
      name: 'find one and delete it',
      times: 200,
      async send() {
        const jwt = userJwt(anyUser());
        return call('DELETE', await newestOf('/notifications', jwt), undefined, jwt);
      },
    },
    { name: 'unseen count', times: 300, send: as(anyUser, 'GET', '/notifications/unseen/count') },
    { name: 'mark all as seen', times: 200, send: as(anyUser, 'POST', '/notifications/seen') },
    { name: 'mark all as read', times: 200, send: as(anyUser, 'POST', '/notifications/read') },
    {
      name: 'mark 10,000 as read',
      times: unread.length,
      send: as(() => nextUnread.next().value ?? '', 'POST', '/notifications/read'),
    },
    {
      name: 'page of broadcasts',
      times: 200,
      send: () => call('GET', '/broadcasts?limit=20'),
    },
    { name: 'one broadcast', times: 200, send: () => call('GET', `/broadcasts/${anyBroadcast()}`) },
    { name: 'page of events', times: 200, send: () => call('GET', '/events?limit=20') },
    {
      name: 'page of the notifications of a user',
      times: 200,
      send: () => call('GET', `/users/external_id:user-${any()}/notifications?limit=20`),
    },
    {
      name: 'broadcast to 1,000 users, in the inbox and by e-mail',
      times: 10,
      send: send(1_000),
      begin: () => call('PUT', '/integrations/ping_email', { url: mailers.url }),
      end: () => call('DELETE', '/integrations/ping_email'),
    },
    // The newest broadcast is one of those.
    {
      name: 'page of the deliveries of a broadcast',
      times: 200,
      send: async () => call('GET', `${await newestOf('/broadcasts')}/deliveries?limit=20`),
    },
  ];
}

async function measure(
  { figure, quick }: Bench,
  belfry: Belfry,
  { name, times, send, begin, end }: Operation,
  rows: number,
): Promise<void> {
  const count = quick ? Math.min(times, 5) : times;
  const wallMs: number[] = [];
  await begin?.();
  await resetStatements(belfry.db);
  for (let place = 0; place < count; place += 1) {
    const startedMs = performance.now();
    const { status } = await send();
    wallMs.push(performance.now() - startedMs);
    if (status >= 300) throw new Error(`${name} returned ${status}`);
  }
  await queueEmpty(belfry);
  await end?.();
  const [total] = await belfry.db.query<{ ms: number; blocks: number }>(costOfStatements);
  const per = (value = 0) => value / count;
  figure({
    name: `${name}, ${rows.toLocaleString('en-US')} rows`,
    value: per(total?.ms),
    unit: 'ms in database',
    note:
      `${per(total?.blocks).toFixed(0)} blocks; by HTTP p50 ${percentile(wallMs, 50).toFixed(1)}, ` +
      `p99 ${percentile(wallMs, 99).toFixed(1)} ms`,
  });
}

// The statements of the server.
const costOfStatements = sql(
  'bench_cost_of_statements',
  `select sum(total_exec_time) as ms, sum(shared_blks_hit + shared_blks_read)::float8 as blocks
  from pg_stat_statements s
  where query not like '%bench%' and query not like 'select exists (select from jobs)%'`,
);
