import { join } from 'node:path';
import type { Queryable, Statement } from '../../server/src/db/client.ts';
import { countUnread } from '../../server/src/domain/line/notifications/count-unread.ts';
import { listNotifications } from '../../server/src/domain/line/notifications/list.ts';
import { listNumberedPage } from '../../server/src/domain/line/notifications/list-numbered.ts';
import { NEWEST } from '../../server/src/lib/cursor.ts';
import { type Belfry, startBelfry } from '../support/belfry.ts';
import { Connection, requestBytes } from '../support/connection.ts';
import { fillInboxes, growTo } from '../support/large-table.ts';
import type { Bench, Scenario } from '../support/scenario.ts';
import { percentile } from '../support/statistics.ts';

const PAGE = 50;
const AIM_MS = 0.5;
const ROWS = 1_000_000;
// An exact count reads an index entry for each notification.
const NUMBERED_AIM_MS = 20;

/**
 * A page of the inbox and the unread count, and numbered pages with exact counts, for a user with 100 and
 * one with 100,000 notifications, as the table grows.
 */
export const measureInbox: Scenario = async (bench) => {
  // A database of its own, so that the table has the number of rows in the figures.
  const belfry = await startBelfry({ ...bench, dataDir: join(bench.dataDir, 'inbox') });
  try {
    const { heavyUser, lightUser } = await fillInboxes(belfry.db, belfry.projectId);
    const users = [
      { name: '100', externalId: 'light', id: lightUser },
      { name: '100,000', externalId: 'heavy', id: heavyUser },
    ];
    for (const rows of [200_000, bench.quick ? 300_000 : ROWS]) {
      await growTo(belfry.db, rows);
      for (const user of users) await measure(bench, belfry, user, rows);
    }
  } finally {
    await belfry.stop();
  }
};

interface Operation {
  name: string;
  path: string;
  read(db: Queryable): Promise<unknown>;
  aimMs?: number;
}

async function measure(
  bench: Bench,
  belfry: Belfry,
  user: { name: string; externalId: string; id: string },
  rows: number,
): Promise<void> {
  const operations: Operation[] = [
    {
      name: `list ${PAGE}`,
      path: `/v2/notifications?limit=${PAGE}`,
      read: (db: Queryable) =>
        listNotifications(db, user.id, {}, { direction: 'older', id: NEWEST, limit: PAGE }),
    },
    {
      name: 'unread count',
      path: '/v2/notifications/unread/count',
      read: (db: Queryable) => countUnread(db, user.id),
    },
    ...[1, 500].map((page) => ({
      name: `v1 list, page ${page}`,
      path: `/notifications?page=${page}`,
      read: (db: Queryable) =>
        listNumberedPage(db, { projectId: belfry.projectId, id: user.id }, {}, { page, perPage: 15 }),
      aimMs: NUMBERED_AIM_MS,
    })),
  ];
  for (const { name, path, read, aimMs = AIM_MS } of operations) {
    const times = (bench.quick ? 200 : 2_000) / (aimMs > AIM_MS ? 5 : 1);
    const title = `${name}, a user with ${user.name}, table of ${rows.toLocaleString('en-US')}`;
    const inDatabase = await explained(belfry, read, times / 4);
    const roundTrip = await timed(times, () => read(belfry.db));
    const http = await overHttp(belfry, user.externalId, path, times);
    const note = (values: readonly number[]) =>
      `${percentile(values, 50).toFixed(2)} / ${percentile(values, 99).toFixed(2)}`;
    const p99 = percentile(inDatabase, 99).toFixed(2);
    bench.figure({
      name: `${title}: p50`,
      value: percentile(inDatabase, 50),
      unit: 'ms in database',
      aim: { value: aimMs, better: 'less' },
      note: `p99 ${p99}; p50 / p99 of the round trip ${note(roundTrip)}, by HTTP ${note(http)}`,
    });
  }
}

/**
 * The execution times that PostgreSQL reports, without the time for reading the clock at every row.
 */
async function explained(
  belfry: Belfry,
  read: (db: Queryable) => Promise<unknown>,
  times: number,
): Promise<number[]> {
  const client = await belfry.db.connect();
  const values: number[] = [];
  const explaining: Queryable = {
    async query<Row>(statement: Statement, parameters?: readonly unknown[]): Promise<Row[]> {
      const text = `explain (analyze, timing off, format json) ${statement.text}`;
      const result = await client.query({ text, values: parameters as unknown[] });
      const [plan] = result.rows as {
        'QUERY PLAN': { 'Execution Time': number; 'Planning Time': number }[] | string;
      }[];
      const json = plan?.['QUERY PLAN'];
      const parsed = typeof json === 'string' ? (JSON.parse(json) as { 'Execution Time': number }[]) : json;
      values.push(parsed?.[0]?.['Execution Time'] ?? Number.NaN);
      const { rows } = await client.query({ text: statement.text, values: parameters as unknown[] });
      return rows as Row[];
    },
  };
  try {
    for (let time = 0; time < times; time += 1) await read(explaining);
  } finally {
    await client.end();
  }
  return values;
}

async function timed(times: number, work: () => Promise<unknown>): Promise<number[]> {
  for (let time = 0; time < times / 10; time += 1) await work();
  const values: number[] = [];
  for (let time = 0; time < times; time += 1) {
    const startedMs = performance.now();
    await work();
    values.push(performance.now() - startedMs);
  }
  return values;
}

async function overHttp(belfry: Belfry, externalId: string, path: string, times: number): Promise<number[]> {
  const connection = new Connection(belfry.address);
  const request = requestBytes({ method: 'GET', path, jwt: belfry.userJwt(externalId) });
  try {
    return await timed(times, async () => {
      const status = await connection.send(request);
      if (status !== 200) throw new Error(`${path} returned ${status}`);
    });
  } finally {
    connection.close();
  }
}
