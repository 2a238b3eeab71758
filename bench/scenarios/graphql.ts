import { join } from 'node:path';
import { type Belfry, startBelfry } from '../support/belfry.ts';
import { Connection, requestBytes } from '../support/connection.ts';
import { fillInboxes } from '../support/large-table.ts';
import { cpuOf, used } from '../support/processes.ts';
import type { Bench, Scenario } from '../support/scenario.ts';

const PAGE = 50;
const ROUNDS = 6;
const AIM = 2;

// All members of REST.
const QUERY = `query Inbox($first: Int) {
  notifications(first: $first) {
    nodes {
      id userId status title content actionUrl category topic customAttributes createdAt updatedAt sentAt
      seenAt readAt archivedAt discardedAt
    }
    pageInfo { hasNextPage endCursor }
  }
}`;

/** (graphql) The CPU time of an inbox page over GraphQL, compared with REST, in turns. */
export const measureGraphql: Scenario = async (bench) => {
  const belfry = await startBelfry({ ...bench, dataDir: join(bench.dataDir, 'graphql') });
  try {
    await fillInboxes(belfry.db, belfry.projectId);
    const jwt = belfry.userJwt('heavy');
    const body = JSON.stringify({ query: QUERY, variables: { first: PAGE } });
    const requests = {
      REST: requestBytes({ method: 'GET', path: `/v2/notifications?limit=${PAGE}`, jwt }),
      GraphQL: requestBytes({ method: 'POST', path: '/graphql', jwt, body }),
    };
    const totals = { REST: { node: 0, postgres: 0 }, GraphQL: { node: 0, postgres: 0 } };
    const times = bench.quick ? 200 : 1_000;
    for (const request of Object.values(requests)) await send(belfry, request, times);
    for (let round = 0; round < ROUNDS; round += 1) {
      for (const name of ['REST', 'GraphQL'] as const) {
        const before = cpuOf(belfry.pid);
        await send(belfry, requests[name], times);
        const { nodeCpuMs, postgresCpuMs } = used(before, cpuOf(belfry.pid));
        totals[name].node += nodeCpuMs;
        totals[name].postgres += postgresCpuMs;
      }
    }
    show(bench, totals, ROUNDS * times);
  } finally {
    await belfry.stop();
  }
};

function show(
  bench: Bench,
  totals: Record<'REST' | 'GraphQL', { node: number; postgres: number }>,
  pages: number,
): void {
  const ofPage = (name: 'REST' | 'GraphQL') => ((totals[name].node + totals[name].postgres) * 1_000) / pages;
  for (const name of ['REST', 'GraphQL'] as const) {
    const { node, postgres } = totals[name];
    const [inNode, inPostgres] = [node, postgres].map((ms) => ((ms * 1_000) / pages).toFixed(0));
    const note = `Node ${inNode}, PostgreSQL ${inPostgres}`;
    bench.figure({ name: `inbox page of ${PAGE}: CPU of ${name}`, value: ofPage(name), unit: 'µs', note });
  }
  bench.figure({
    name: `inbox page of ${PAGE}: CPU of GraphQL to REST`,
    value: ofPage('GraphQL') / ofPage('REST'),
    unit: 'times',
    aim: { value: AIM, better: 'less' },
  });
}

async function send(belfry: Belfry, request: Buffer, times: number): Promise<void> {
  const connection = new Connection(belfry.address);
  try {
    for (let sent = 0; sent < times; sent += 1) {
      const status = await connection.send(request);
      if (status !== 200) throw new Error(`a page returned ${status}`);
    }
  } finally {
    connection.close();
  }
}
