import { createSecretKey } from 'node:crypto';
import { once } from 'node:events';
import { rm } from 'node:fs/promises';
import { Agent, get } from 'node:http';
import { connect } from 'node:net';
import { expect, test } from 'vitest';
import { partOf, planProcesses } from '../../src/cli/processes/plan.ts';
import { readConfig } from '../../src/config.ts';
import { sql } from '../../src/db/client.ts';
import { type BelfryProcess, kill, startBelfry, withDatabaseOf } from '../support/belfry-process.ts';
import { newDataDir } from '../support/data-dir.ts';
import { expectExactlyOnce, load, messageIdOf, saveSmtp, settled } from '../support/faults.ts';
import { hs256 } from '../support/jwt.ts';
import { openStream, openStreamSocket, titles } from '../support/realtime.ts';
import { caller, until } from '../support/service.ts';
import { startSmtpStandIn } from '../support/smtp-stand-in.ts';

/** The metrics of a node. A connection to a process that was killed is replaced. */
function metricsOf({ address }: BelfryProcess): Promise<string> {
  const text = async () => (await fetch(`${address}/metrics`)).text();
  return until(
    () => text().catch(() => ''),
    (metrics) => metrics !== '',
  );
}

// The connection that was being passed to a process when it stopped has no response, even when that process
// has ended: Node keeps it open.
const RESPONSE_WITHIN_MS = 30_000;

type Undo = (step: () => Promise<void>) => void;

/**
 * Starts a node of three processes: for requests with small work, for bulk, and for realtime connections. A
 * fourth one is another one for requests, the second.
 */
async function start(undo: Undo, dataDir: string, count = 3) {
  const belfry = await startBelfry(dataDir, { PROCESSES: String(count), LOG_LEVEL: 'info' });
  undo(() => belfry.killTree());
  const { credentials } = belfry;
  const call = caller(() => belfry.address, credentials.project_jwt, {
    withinMs: RESPONSE_WITHIN_MS,
  });
  const secret = createSecretKey(Buffer.from(credentials.api_secret));
  const jwt = hs256({ api_key: credentials.api_key, user_external_id: 'watcher' }, secret);
  return { belfry, call, jwt };
}

/** The ids of the running processes by their numbers, as the log has them. */
function pidsOf({ output }: BelfryProcess): Map<number, number> {
  const pids = new Map<number, number>();
  for (const line of output) {
    if (!line.startsWith('{')) continue;
    const { msg, process, pid } = JSON.parse(line);
    if (msg === 'process started') pids.set(process, pid);
  }
  return pids;
}

/** Kills or stops a process, and waits until it is replaced. */
async function replace(
  belfry: BelfryProcess,
  number: number,
  signal: 'SIGKILL' | 'SIGSTOP' = 'SIGKILL',
): Promise<void> {
  const before = pidsOf(belfry).get(number) ?? 0;
  expect(before).toBeGreaterThan(0);
  kill(before, signal);
  const replaced = until(
    () => pidsOf(belfry).get(number),
    (pid) => pid !== before,
  );
  await replaced.catch((cause: unknown) => {
    throw new Error(`process ${number} was not replaced:\n${belfry.output.join('\n')}`, { cause });
  });
}

test('killed processes are replaced, and nothing is lost or doubled', async ({ onTestFinished: undo }) => {
  const dataDir = await newDataDir('processes');
  undo(() => rm(dataDir, { recursive: true, force: true }));
  const smtp = await startSmtpStandIn();
  undo(() => smtp.stop());
  const { belfry, call, jwt } = await start(undo, dataDir);
  await saveSmtp({ call }, smtp);

  // Both kinds of connections come through the one port, and are served by the third process.
  const stream = await openStream(`${belfry.address}/v2/notifications/stream`, { jwt });
  const socket = await openStreamSocket(belfry.address, { jwt });
  undo(async () => stream.source.close());
  await call('POST', '/broadcasts', { title: 'live', recipients: [{ external_id: 'watcher' }] });
  for (const { frames } of [stream, socket]) await expect.poll(() => titles(frames)).toContain('live');
  const accepted = /^belfry_broadcasts_accepted_total 1$/m;
  const metrics = await metricsOf(belfry);
  expect(metrics).toMatch(/^belfry_realtime_connections\{transport="websocket"\} 1$/m);
  expect(metrics).toMatch(/^belfry_realtime_connections\{transport="sse"\} 1$/m);
  expect(metrics).toMatch(accepted);
  // What the first process has counted remains.
  await replace(belfry, 1);
  expect(await metricsOf(belfry)).toMatch(accepted);

  // The connection is with the third process now, which has no other requests.
  const headers = { authorization: 'Bearer x' };
  const refused = await fetch(`${belfry.address}/v2/notifications/stream`, { headers });
  expect([refused.status, refused.headers.get('connection')]).toEqual([401, 'close']);

  const running = load({ call }, { clients: 4 });
  await running.accepted(30);
  await replace(belfry, 3);
  expect((await socket.closed).code).toBe(1006);
  await running.accepted(60);
  await replace(belfry, 2);
  await running.accepted(90);
  await replace(belfry, 1);
  await running.accepted(120);
  belfry.signal('SIGKILL'); // the supervisor, and with it all others
  await running.refusedOrCut(20);
  await running.stop();
  await until(
    () => belfry.tree(),
    (pids) => pids.length === 0,
  );

  const { belfry: again } = await start(undo, dataDir);
  await settled(again);
  again.signal('SIGTERM');
  expect(await again.ended).toBe(0);
  expect(again.tree()).toEqual([]);
  await withDatabaseOf(dataDir, async (opened) => {
    await expectExactlyOnce({ context: opened }, running);
    const rows = await opened.db.query<{ id: string }>(
      sql('', 'select n.id from notifications n join users u on u.id = n.user_id where u.email is not null'),
    );
    const ids = new Set(smtp.received.map(messageIdOf));
    expect(rows.filter(({ id }) => !ids.has(id))).toEqual([]);
    expect(ids.size).toBe(rows.length);
    expect(await opened.db.query(sql('', 'select id from leases'))).toEqual([]);
  });
});

test('a process that hangs is replaced, and others have its jobs', async ({ onTestFinished: undo }) => {
  const dataDir = await newDataDir('hanging-process');
  undo(() => rm(dataDir, { recursive: true, force: true }));
  const { belfry, call } = await start(undo, dataDir, 4);
  const running = load({ call }, { clients: 4 });
  await running.accepted(30);
  const before = pidsOf(belfry);
  await replace(belfry, 1, 'SIGSTOP');
  expect(belfry.output.filter((line) => line.includes('a process hangs'))).toHaveLength(1);
  // The other process that accepts requests listens further at the same port.
  const after = pidsOf(belfry);
  expect([2, 3, 4].map((number) => after.get(number))).toEqual([2, 3, 4].map((number) => before.get(number)));
  await running.accepted(60);
  await running.stop();
  await settled(belfry);
  belfry.signal('SIGTERM');
  expect(await belfry.ended).toBe(0);
  await withDatabaseOf(dataDir, (opened) => expectExactlyOnce({ context: opened }, running));
});

test('connections that a process was given right before it ended are closed', async ({
  onTestFinished: undo,
}) => {
  const dataDir = await newDataDir('given-connections');
  undo(() => rm(dataDir, { recursive: true, force: true }));
  const { belfry } = await start(undo, dataDir);
  const realtime = pidsOf(belfry).get(3) ?? 0;
  kill(realtime, 'SIGSTOP');
  const { hostname, port } = new URL(belfry.address);
  const ends = Array.from({ length: 3 }, async () => {
    const socket = connect(Number(port), hostname);
    undo(async () => void socket.destroy());
    // The process that replaces it would refuse the request, and close the connection.
    socket.write('GET /v2/notifications/stream HTTP/1.1\r\nHost: belfry\r\nAuthorization: Bearer x\r\n\r\n');
    socket.on('error', () => {}).resume(); // it may be reset
    await once(socket, 'close');
  });
  // Nothing shows that they were passed on. These requests come later, and take the same way up to there.
  for (let count = 0; count < 10; count += 1) await metricsOf(belfry);
  kill(realtime, 'SIGKILL');
  await Promise.all(ends);
});

test('no process outlives its supervisor, even one that is passing a connection on', async ({
  onTestFinished: undo,
}) => {
  const dataDir = await newDataDir('outlived');
  undo(() => rm(dataDir, { recursive: true, force: true }));
  const { belfry } = await start(undo, dataDir);
  const [first, second] = [new Agent({ keepAlive: true }), new Agent({ keepAlive: true })];
  undo(async () => [first, second].forEach((agent) => void agent.destroy()));
  const request = (path: string, agent: Agent) => get(`${belfry.address}${path}`, { agent });
  const healthy = async (agent: Agent) => {
    const [response] = await once(request('/healthz', agent), 'response');
    await once(response.resume(), 'end');
  };
  await healthy(first);
  await healthy(second);
  belfry.signal('SIGSTOP'); // it cannot acknowledge the connection
  request('/v2/notifications/stream', first).on('error', () => {});
  // The process that has both connections has read the request before the second of these.
  await healthy(second);
  await healthy(second);
  belfry.signal('SIGKILL');
  await until(
    () => belfry.tree(),
    (pids) => pids.length === 0,
  );
});

test('the roles and the jobs are divided over the processes, and each part has one', () => {
  const shape = (roles: string, count: number) =>
    planProcesses(readConfig({ ROLE: roles }).ROLE, count).map((plan) => `${partOf(plan)} ${plan.listens}`);
  const bulk = 'worker for bulk false';
  const main = 'api,worker for small work true';
  expect(shape('', 2)).toEqual(['api,worker,realtime for small work true', bulk]);
  expect(shape('', 3)).toEqual([main, bulk, 'realtime false']);
  expect(shape('', 4)).toEqual([main, main, bulk, 'realtime false']);
  expect(shape('', 8).toSorted()).toEqual(
    [main, main, main, bulk, bulk, bulk, 'realtime false', 'realtime false'].toSorted(),
  );
  expect(shape('api,worker', 2)).toEqual([main, bulk]);
  expect(shape('worker', 2)).toEqual(['worker for small work true', bulk]);
  expect(shape('worker', 1)).toEqual(['worker true']);
  expect(shape('api,realtime', 2)).toEqual(['api true', 'realtime false']);
  expect(shape('realtime', 2)).toEqual(['realtime true', 'realtime true']);
});

test('PROCESSES is auto or a number', () => {
  expect(readConfig({}).PROCESSES).toBe(1);
  expect(readConfig({ PROCESSES: '3' }).PROCESSES).toBe(3);
  expect(readConfig({ PROCESSES: 'auto' }).PROCESSES).toBeGreaterThan(0);
  for (const PROCESSES of ['0', 'all', '1.5']) expect(() => readConfig({ PROCESSES })).toThrow('PROCESSES');
});
