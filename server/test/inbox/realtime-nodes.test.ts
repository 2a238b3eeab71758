import { connect } from 'node:net';
import pg from 'pg';
import { afterAll, beforeAll, expect, onTestFinished, test, vi } from 'vitest';
import { openDatabase } from '../../src/db/client.ts';
import { ResumeCursor } from '../../src/domain/after/realtime/resume-cursor.ts';
import { createBus, type NodeBus } from '../../src/domain/ground/bus/bus.ts';
import type { RealtimeMessage } from '../../src/domain/ground/bus/messages.ts';
import { newId } from '../../src/lib/ids.ts';
import { createLogger } from '../../src/lib/log.ts';
import {
  insertBroadcast,
  newUser,
  openSocket,
  openStream,
  saveInboxToken,
  socketUrl,
  startTestRealtime,
  type TestRealtime,
  titles,
} from '../support/realtime.ts';
import { until } from '../support/service.ts';

let realtime: TestRealtime;

beforeAll(async () => {
  realtime = await startTestRealtime();
});
afterAll(() => realtime.close());

async function startBus(shared = true): Promise<{ bus: NodeBus; heard: RealtimeMessage[] }> {
  const log = createLogger({ level: 'silent' });
  const bus = createBus({ db: realtime.db, log, nodeId: newId(), shared });
  const heard: RealtimeMessage[] = [];
  bus.subscribe((message) => heard.push(message));
  await bus.listening();
  onTestFinished(() => bus.close());
  return { bus, heard };
}

/** Closes the listening connections, as a restart of the database or a firewall does. */
async function cutLinks(): Promise<void> {
  const client = new pg.Client(realtime.database.connection);
  await client.connect();
  const { rowCount } = await client.query(
    `select pg_terminate_backend(pid) from pg_stat_activity
    where datname = current_database() and pid <> pg_backend_pid()
      and (query ilike '%listen belfry%' or query ilike '%clock_timestamp() as now%'
        or query ilike '%pg_notify(%')`,
  );
  await client.end();
  expect(rowCount).toBeGreaterThan(0);
}

const changed = (index: number): RealtimeMessage => ({
  type: 'changed',
  userId: newId(),
  name: 'read',
  id: newId(),
  atMs: index,
});

test('messages reach the own node at once and the others in order, once', async () => {
  const [one, two] = [await startBus(), await startBus()];
  const messages = Array.from({ length: 2_000 }, (_, index) => changed(index));
  for (const message of messages) one.bus.publish(message);
  expect(one.heard).toEqual(messages);
  await expect.poll(() => two.heard.length).toBeGreaterThanOrEqual(2_000);
  expect(two.heard).toEqual(messages);
  two.bus.publish({ type: 'project_changed', projectId: 'p' });
  await expect.poll(() => one.heard.at(-1)).toEqual({ type: 'project_changed', projectId: 'p' });
  expect(one.heard).toHaveLength(2_001);
});

test('a command connects when it sends its first message, and a node gets that', async () => {
  const node = await startBus();
  const db = openDatabase(realtime.database.connection, { size: 1, name: 'test' });
  onTestFinished(() => db.close());
  const connect = vi.spyOn(db, 'connect');
  const log = createLogger({ level: 'silent' });
  const create = () => createBus({ db, log, nodeId: newId(), shared: true, isCommand: true });
  await create().close();
  const bus = create();
  bus.subscribe(() => {});
  expect(connect).not.toHaveBeenCalled();
  bus.publish({ type: 'project_changed', projectId: 'p' });
  await bus.close();
  await expect.poll(() => node.heard).toEqual([{ type: 'project_changed', projectId: 'p' }]);
  expect(connect).toHaveBeenCalledOnce();
});

test('a subscriber that throws does not stop the others or the publisher', async () => {
  const { bus, heard } = await startBus();
  const broken = vi.fn(() => {
    throw new Error('broken');
  });
  const end = bus.subscribe(broken);
  const later: RealtimeMessage[] = [];
  bus.subscribe((message) => later.push(message));
  bus.publish(changed(1));
  expect(broken).toHaveBeenCalledOnce();
  expect(later).toHaveLength(1);
  end();
  bus.publish(changed(2));
  expect(broken).toHaveBeenCalledOnce();
  expect(heard).toHaveLength(2);
});

test('a broken connection is detected and replaced, and no message is lost meanwhile', async () => {
  const [one, two] = [await startBus(), await startBus()];
  one.bus.publish(changed(0));
  await expect.poll(() => two.heard).toHaveLength(1);
  await cutLinks();
  await expect.poll(() => two.heard.map(({ type }) => type)).toContain('missing');
  one.bus.publish(changed(1));
  await expect.poll(() => two.heard.map(({ type }) => type)).toContain('missed');
  await expect.poll(() => one.heard.map(({ type }) => type)).toContain('missed');
  one.bus.publish(changed(2));
  const at2 = (heard: RealtimeMessage[]) =>
    heard.some((message) => message.type === 'changed' && message.atMs === 2);
  await expect.poll(() => at2(two.heard)).toBe(true);
  const missed = two.heard.find((message) => message.type === 'missed');
  expect(missed?.type === 'missed' && (missed.sinceMs ?? 0) > Date.now() - 60_000).toBe(true);
});

test.runIf(process.platform === 'linux')('a connection that hangs is replaced, and reported', async () => {
  const { bus, heard } = await startBus();
  const client = new pg.Client(realtime.database.connection);
  await client.connect();
  onTestFinished(() => client.end());
  const pid = await until(
    async () => {
      const { rows } = await client.query<{ pid: number }>(
        `select pid from pg_stat_activity
        where datname = current_database()
          and (query like 'unlisten belfry_proof_%' or query like 'select clock_timestamp() as now')`,
      );
      return Number(rows[0]?.pid);
    },
    (found) => found > 0,
  );
  process.kill(pid, 'SIGSTOP');
  onTestFinished(() => void process.kill(pid, 'SIGCONT'));
  await expect.poll(() => heard.map(({ type }) => type)).toEqual(['missing', 'missed']);
  await bus.listening();
  const other = await startBus();
  other.bus.publish(changed(1));
  await expect.poll(() => heard.at(-1)).toMatchObject({ type: 'changed', atMs: 1 });
});

test('a single node publishes no notifications to the database, and receives those of commands', async () => {
  const [server, observer] = [await startBus(false), await startBus(false)];
  server.bus.publish(changed(1));
  server.bus.publish({ type: 'token_discarded', userId: 'u', tokenId: 't' });
  await expect.poll(() => observer.heard).toHaveLength(1);
  expect(observer.heard[0]?.type).toBe('token_discarded');
});

test('a command that publishes and ends at once is received', async () => {
  const server = await startBus(false);
  const command = createBus({
    db: realtime.db,
    log: createLogger({ level: 'silent' }),
    nodeId: newId(),
    shared: false,
  });
  command.publish({ type: 'project_changed', projectId: 'revoked' });
  await command.close();
  await expect.poll(() => server.heard).toEqual([{ type: 'project_changed', projectId: 'revoked' }]);
});

test('a bus without a database neither throws nor keeps the process alive', async () => {
  const port = 9; // the discard port: no server listens
  await new Promise<void>((resolve) => connect(port, '127.0.0.1').on('error', () => resolve()));
  const db = openDatabase({ host: '127.0.0.1', port, user: 'x', database: 'x' }, { size: 1, name: 'none' });
  const bus = createBus({ db, log: createLogger({ level: 'silent' }), nodeId: newId(), shared: true });
  for (let index = 0; index < 20_000; index += 1) bus.publish(changed(index));
  const startedAt = performance.now();
  await bus.close();
  expect(performance.now() - startedAt).toBeLessThan(20_000);
  await db.close();
});

test('a user is notified on any node, of a small broadcast and of a large one', async () => {
  const [one, two] = [await realtime.startNode(), await realtime.startNode()];
  const userId = newUser();
  const { token } = await saveInboxToken(realtime, userId);
  const client = await openSocket(socketUrl(two.port, realtime, { token }));
  onTestFinished(() => client.socket.terminate());
  const crowd = Array.from({ length: 999 }, newUser);
  const insert = (title: string, userIds: string[]) =>
    insertBroadcast(realtime.db, realtime.project.id, { title, userIds });
  one.bus.publish(await insert('small', [userId]));
  one.bus.publish(await insert('for others', crowd));
  one.bus.publish(await insert('large', [...crowd, userId]));
  await expect.poll(() => titles(client.frames)).toEqual(['small', 'large']);
});

test('messages of other nodes during a broken connection reach open sockets and streams, once', async () => {
  const [one, two] = [await realtime.startNode(), await realtime.startNode()];
  const userId = newUser();
  const { token } = await saveInboxToken(realtime, userId);
  const socket = await openSocket(socketUrl(two.port, realtime, { token }));
  const stream = await openStream(`http://127.0.0.1:${two.port}/stream?user=${userId}`);
  onTestFinished(() => {
    socket.socket.terminate();
    stream.source.close();
  });
  const publish = async (title: string, by = one) =>
    by.bus.publish(await insertBroadcast(realtime.db, realtime.project.id, { title, userIds: [userId] }));
  await publish('before');
  await expect.poll(() => titles(socket.frames)).toEqual(['before']);
  const missing = new Promise<void>((resolve) => {
    two.bus.subscribe(({ type }) => type === 'missing' && resolve());
  });
  await cutLinks();
  await missing;
  // As if a node died before it published: the row exists, and no message about it.
  await insertBroadcast(realtime.db, realtime.project.id, { title: 'unannounced', userIds: [userId] });
  await publish('own', two);
  await publish('by the other');
  await expect.poll(() => socket.frames.length).toBeGreaterThanOrEqual(4);
  await two.bus.listening();
  await publish('after');
  for (const { frames } of [socket, stream]) {
    await expect.poll(() => titles(frames)).toContain('after');
    expect(titles(frames).toSorted()).toEqual(['after', 'before', 'by the other', 'own', 'unannounced']);
  }
});

async function startListener() {
  const node = await realtime.startNode({ shared: false });
  const userId = newUser();
  const stream = await openStream(`http://127.0.0.1:${node.port}/stream?user=${userId}`);
  onTestFinished(async () => {
    stream.source.close();
    await node.close();
  });
  const insert = (title: string) =>
    insertBroadcast(realtime.db, realtime.project.id, { title, userIds: [userId] });
  const publish = async (title: string) => {
    node.bus.publish(await insert(title));
    await expect.poll(() => titles(stream.frames).at(-1)).toBe(title);
  };
  return { bus: node.bus, stream, insert, publish };
}

test('a client that has read the database after a loss does not fetch its list', async () => {
  const { bus, stream, insert, publish } = await startListener();
  await publish('first');
  await insert('unannounced');
  const lostAtMs = Date.now();
  bus.publish({ type: 'missed', sinceMs: lostAtMs - 1_000, untilMs: lostAtMs });
  await expect.poll(() => titles(stream.frames)).toEqual(['first', 'unannounced']);
  // Another node reports a loss of the same outage later.
  bus.publish({ type: 'missed', sinceMs: lostAtMs - 60_000, untilMs: lostAtMs - 1_000 });
  await publish('live');
  expect(stream.resyncs).toBe(0);
  bus.publish({ type: 'missed', sinceMs: lostAtMs - 60_000 });
  await expect.poll(() => stream.resyncs).toBe(1);
});

test('a loss on one node does not end the time in which messages of others are missing', async () => {
  const { bus, stream, publish } = await startListener();
  await publish('first');
  bus.publish({ type: 'missing', sinceMs: Date.now() - 1_000 });
  const sinceMs = Date.now();
  bus.publish({ type: 'missed', sinceMs });
  await publish('second'); // by the loss, or live
  const position = () => ResumeCursor.parse(stream.lastEventId())?.newestMs ?? 0;
  await publish('third');
  const readAtMs = position();
  await until(Date.now, (now) => now > readAtMs);
  await publish('fourth');
  expect(position()).toBe(readAtMs);
});
