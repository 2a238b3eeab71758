import { join } from 'node:path';
import { startEmbedded } from '../../server/src/db/embedded.ts';
import { startNatsServer } from '../../server/test/support/nats-server.ts';
import type { BurstTimes, ProbeTimes, SocketsRequest } from '../processes/sockets.ts';
import { type Belfry, databaseUrl, startBelfry, startSecondNode } from '../support/belfry.ts';
import { createInboxUsers } from '../support/inbox-users.ts';
import { cpuOf } from '../support/processes.ts';
import { queueEmpty } from '../support/queue.ts';
import type { Bench, Scenario } from '../support/scenario.ts';
import { median, percentile } from '../support/statistics.ts';
import { startTask } from '../support/task.ts';

const SOCKETS = 1_000;
const BROADCASTS = 20;

/**
 * Broadcasts that one node accepts and delivers, to inboxes at another one: over the database and over NATS,
 * beside a node that has the inboxes itself. Needs `nats-server`.
 */
export const measureNodes: Scenario = async (bench) => {
  const postgres = await startEmbedded({ dataDir: bench.dataDir, role: 'server', log: () => {} });
  const nats = await startNatsServer();
  const DATABASE_URL = databaseUrl(postgres.connection);
  const NATS_URL = `nats://127.0.0.1:${nats.port}`;
  try {
    await withNodes(bench, { DATABASE_URL }, 'one node');
    await withNodes(bench, { DATABASE_URL, ROLE: 'api,worker' }, 'two nodes, NOTIFY', {});
    await withNodes(bench, { DATABASE_URL, ROLE: 'api,worker', NATS_URL }, 'two nodes, NATS', { NATS_URL });
    await withRoles(bench, { DATABASE_URL }, 'a node for each role, NOTIFY');
    await withRoles(bench, { DATABASE_URL, NATS_URL }, 'a node for each role, NATS');
  } finally {
    await nats.kill();
    await postgres.stop();
  }
};

async function withNodes(
  bench: Bench,
  settings: Record<string, string>,
  name: string,
  ofSecond?: Record<string, string>,
): Promise<void> {
  const first = await startBelfry({ ...bench, settings });
  try {
    if (ofSecond === undefined) return await measure(bench, name, first, first);
    const second = await startSecondNode({ ...bench, settings: { ...ofSecond, ROLE: 'realtime' } }, first);
    try {
      await measure(bench, name, first, second);
    } finally {
      await second.stop();
    }
  } finally {
    await first.stop();
  }
}

// They ask for new jobs once a minute, so a job that was not announced to the worker takes that long.
const PROGRAM = join(import.meta.dirname, '../processes/rarely-polling.ts');
const TEMPLATE = 'bench';

/** One node accepts, one works, and one has the inboxes: from the request to the frame, one at a time. */
async function withRoles(bench: Bench, settings: Record<string, string>, name: string): Promise<void> {
  const options = { ...bench, program: PROGRAM };
  const api = await startBelfry({ ...options, settings: { ...settings, ROLE: 'api' } });
  const others = [];
  const client = startTask<SocketsRequest>('sockets.ts');
  try {
    for (const ROLE of ['worker', 'realtime'])
      others.push(await startSecondNode({ ...options, settings: { ...settings, ROLE } }, api));
    const { address, projectJwt: jwt, apiKey } = api;
    const { externalIds, tokens } = await createInboxUsers(api, `r${Date.now()}-`, 100);
    const texts = { default_locale: 'en', locales: { en: { title: 'Hello' } } };
    await api.call('PUT', `/templates/${TEMPLATE}`, texts);
    await client.request({ open: { address: others[1]?.address ?? '', apiKey, tokens } });
    for (const [how, template] of [
      ['written with the broadcast', {}],
      ['written by the worker', { template: TEMPLATE }],
    ] as const) {
      const probe = (count: number) =>
        client.request<ProbeTimes>({ probe: { address, jwt, externalIds, count, everyMs: 10, ...template } });
      await probe(50); // cold code
      const { fromRequestMs } = await probe(bench.quick ? 100 : 1_000);
      for (const percent of [50, 99])
        bench.figure({
          name: `${name}: request → frame, idle, ${how}: p${percent}`,
          value: percentile(fromRequestMs, percent),
          unit: 'ms',
          ...(percent === 99 && { aim: { value: 100, better: 'less' as const } }),
        });
    }
  } finally {
    client.stop();
    for (const node of others) await node.stop();
    await api.stop();
  }
}

/** Requests go to `sender`, and the inboxes are open at `shown`. */
async function measure(
  bench: Bench,
  name: string,
  sender: Belfry,
  shown: Pick<Belfry, 'address' | 'pid'>,
): Promise<void> {
  const { address, projectJwt: jwt, apiKey } = sender;
  const client = startTask<SocketsRequest>('sockets.ts');
  try {
    const { externalIds, tokens } = await createInboxUsers(sender, `n${Date.now()}-`, SOCKETS);
    await client.request({ open: { address: shown.address, apiKey, tokens } });
    const probe = (count: number) =>
      client.request<ProbeTimes>({ probe: { address, jwt, externalIds, count, everyMs: 10 } });
    await probe(50); // cold code
    const { fromRequestMs } = await probe(bench.quick ? 100 : 500);
    for (const percent of [50, 99])
      bench.figure({
        name: `${name}: request → frame, idle: p${percent}`,
        value: percentile(fromRequestMs, percent),
        unit: 'ms',
      });
    const burst = () =>
      client.request<BurstTimes>({
        burst: { address, jwt, externalIds, broadcasts: BROADCASTS, order: 'together' },
      });
    await burst(); // cold code
    await queueEmpty(sender);
    const cpuMs = () => cpuOf(shown.pid).nodeCpuMs;
    const beforeMs = cpuMs();
    const bursts: BurstTimes[] = [];
    for (let round = 0; round < (bench.quick ? 5 : 15); round += 1) bursts.push(await burst());
    const frames = bursts.length * BROADCASTS * SOCKETS;
    bench.figure({
      name: `${name}: ${BROADCASTS} broadcasts to ${SOCKETS} sockets`,
      value: median(bursts.map(({ frameMs, totalMs }) => (frameMs.length / totalMs) * 1000)),
      unit: 'frames/s',
      note: 'from the first request to the last frame',
    });
    for (const percent of [50, 99])
      bench.figure({
        name: `${name}: request → frame in these bursts: p${percent}`,
        value: median(bursts.map(({ frameMs }) => percentile(frameMs, percent))),
        unit: 'ms',
      });
    bench.figure({
      name: `${name}: CPU of a frame at the node with the inboxes`,
      value: ((cpuMs() - beforeMs) * 1000) / frames,
      unit: 'µs',
      note: shown.pid === sender.pid ? 'with accepting and writing the notification' : 'frames alone',
    });
  } finally {
    client.stop();
  }
}
