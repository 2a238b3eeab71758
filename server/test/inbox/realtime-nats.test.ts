import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { openDatabase } from '../../src/db/client.ts';
import { createBus, type NodeBus } from '../../src/domain/ground/bus/bus.ts';
import type { RealtimeMessage } from '../../src/domain/ground/bus/messages.ts';
import { type NatsOptions, natsSubject } from '../../src/domain/ground/bus/nats.ts';
import { newId } from '../../src/lib/ids.ts';
import { createLogger, type Logger } from '../../src/lib/log.ts';
import { createTestDatabase } from '../support/database.ts';
import { hasNats, type NatsServer, startNatsServer } from '../support/nats-server.ts';
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
import { startTestService } from '../support/service.ts';
import { startTcpProxy } from '../support/tcp-proxy.ts';
import { distrustTestAuthority, trustTestAuthority } from '../support/test-authority.ts';

const SECRET = 'a-password';

function recordingLog(level: string): { log: Logger; lines: string[] } {
  const lines: string[] = [];
  return { log: createLogger({ level, stream: { write: (line) => lines.push(line) } }), lines };
}

const changed = (index: number): RealtimeMessage => ({
  type: 'changed',
  userId: newId(),
  name: 'read',
  id: newId(),
  atMs: index,
});
const typesOf = (heard: readonly RealtimeMessage[]) => heard.map(({ type }) => type);

describe.runIf(hasNats)('realtime over NATS', () => {
  let realtime: TestRealtime;
  let server: NatsServer;
  let nats: NatsOptions;

  beforeAll(async () => {
    [realtime, server] = await Promise.all([
      startTestRealtime(),
      startNatsServer(['--user', 'belfry', '--pass', SECRET]),
    ]);
    nats = { ...at(server.port), subject: await natsSubject(realtime.db) };
  });
  afterAll(async () => {
    await realtime.close();
    await server.kill();
  });

  const at = (port: number) => ({
    ...{ servers: [`127.0.0.1:${port}`], tls: false },
    ...{ user: 'belfry', pass: SECRET },
  });

  async function startBus(
    options: { nats?: NatsOptions | undefined; log?: Logger; shared?: boolean } = {},
  ): Promise<{ bus: NodeBus; heard: RealtimeMessage[] }> {
    const log = createLogger({ level: 'silent' });
    const bus = createBus({ ...{ db: realtime.db, log, nodeId: newId(), shared: true, nats }, ...options });
    onTestFinished(() => bus.close());
    const heard: RealtimeMessage[] = [];
    bus.subscribe((message) => heard.push(message));
    await bus.listening();
    return { bus, heard };
  }

  const connected = (bus: NodeBus) => bus.state().every((link) => link.connected);

  test('messages reach other nodes in order, once, with users and content', async () => {
    const [one, two] = [await startBus(), await startBus()];
    const content = { category: 'news', topic: null, message: Buffer.from([1, 0]), inApp: null };
    const userIds = Array.from({ length: 1_000 }, newUser);
    const messages: RealtimeMessage[] = Array.from({ length: 2_000 }, (_, index) => changed(index));
    messages.push({ type: 'new', projectId: newId(), broadcastId: newId(), userIds, sentAtMs: 1, content });
    for (const message of messages) one.bus.publish(message);
    await expect.poll(() => two.heard.length).toBeGreaterThanOrEqual(messages.length);
    expect(two.heard).toEqual(messages);
    expect(one.heard).toEqual(messages);
  });

  test('a command that knows only the database is received', async () => {
    const { heard } = await startBus();
    const command = createBus({
      ...{ db: realtime.db, log: createLogger({ level: 'silent' }), nodeId: newId(), shared: true },
    });
    command.publish({ type: 'project_changed', projectId: 'revoked' });
    await command.close();
    await expect.poll(() => heard).toEqual([{ type: 'project_changed', projectId: 'revoked' }]);
  });

  test('other installations on the same server are not received', async () => {
    const other = await createTestDatabase();
    const db = openDatabase(other.connection, { size: 1, name: 'test' });
    onTestFinished(async () => {
      await db.close();
      await other.drop();
    });
    const subject = await natsSubject(db);
    expect(subject).not.toBe(nats.subject);
    expect(await natsSubject(db)).toBe(subject);
    const [one, two] = [await startBus(), await startBus()];
    const foreign = await startBus({ nats: { ...nats, subject } });
    one.bus.publish(changed(1));
    foreign.bus.publish(changed(2));
    await expect.poll(() => two.heard).toHaveLength(1);
    two.bus.publish(changed(3));
    await expect.poll(() => one.heard).toHaveLength(2);
    expect(foreign.heard).toHaveLength(1);
  });

  test.each(['the server is killed', 'the connection is cut'])(
    'no notification is lost or repeated while %s',
    async (fault) => {
      const own = await startNatsServer(['--user', 'belfry', '--pass', SECRET]);
      const proxy = await startTcpProxy({ host: '127.0.0.1', port: own.port });
      onTestFinished(async () => {
        await proxy.close();
        await own.kill();
      });
      const over = (port: number) => ({ nats: { ...nats, ...at(port) } });
      const [one, two] = [
        await realtime.startNode(over(own.port)),
        await realtime.startNode(over(proxy.port)),
      ];
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
      if (fault === 'the server is killed') await own.kill();
      else proxy.cut();
      await missing;
      // As if a node died before it published: the row exists, and no message about it.
      await insertBroadcast(realtime.db, realtime.project.id, { title: 'unannounced', userIds: [userId] });
      await publish('own', two);
      await publish('by the other');
      if (fault === 'the server is killed') await own.start();
      await expect.poll(() => connected(one.bus) && connected(two.bus)).toBe(true);
      await publish('after');
      for (const { frames } of [socket, stream]) {
        await expect
          .poll(() => titles(frames).toSorted())
          .toEqual(['after', 'before', 'by the other', 'own', 'unannounced']);
      }
    },
    90_000,
  );

  test('a node that reads too slowly is disconnected, and reads the database', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'belfry-nats-'));
    const file = join(folder, 'nats.conf');
    writeFileSync(file, 'max_pending: 1MB\nwrite_deadline: "1s"\n');
    const own = await startNatsServer(['-c', file]);
    const proxy = await startTcpProxy({ host: '127.0.0.1', port: own.port });
    onTestFinished(async () => {
      await proxy.close();
      await own.kill();
      rmSync(folder, { recursive: true });
    });
    const over = (port: number) => ({ servers: [`127.0.0.1:${port}`], tls: false, subject: nats.subject });
    const [one, two] = [await startBus({ nats: over(own.port) }), await startBus({ nats: over(proxy.port) })];
    proxy.stall();
    const userIds = Array.from({ length: 1_000 }, newUser);
    const slow = own.logged(/Slow Consumer/);
    // More than the kernel and the server keep for a connection.
    for (let index = 0; index < 1_000; index += 1)
      one.bus.publish({ type: 'new', projectId: 'p', broadcastId: newId(), userIds, sentAtMs: index });
    await slow;
    proxy.resume();
    await expect.poll(() => typesOf(two.heard)).toContain('missed');
    expect(typesOf(two.heard)).toContain('missing');
    one.bus.publish(changed(5));
    await expect.poll(() => two.heard.at(-1)).toMatchObject({ type: 'changed', atMs: 5 });
  });

  test('a node starts without NATS, and catches up when it is there', async () => {
    const own = await startNatsServer();
    await own.kill();
    const { log, lines } = recordingLog('warn');
    const over = { servers: [`127.0.0.1:${own.port}`], tls: false, subject: nats.subject };
    const { bus, heard } = await startBus({ nats: over, log });
    expect(bus.state().map(({ name, connected }) => [name, connected])).toEqual([
      ['postgres', true],
      ['nats', false],
    ]);
    expect(lines.join('')).toMatch(/could not connect to the message bus/);
    const later: RealtimeMessage[] = [];
    bus.subscribe((message) => later.push(message));
    expect(typesOf(later)).toEqual(['missing']);
    await own.start();
    onTestFinished(() => own.kill());
    await expect.poll(() => typesOf(heard)).toEqual(['missing', 'missed']);
  });

  test('after an outage, a backlog is sent without users and contents', async () => {
    const own = await startNatsServer();
    onTestFinished(() => own.kill());
    const over = { servers: [`127.0.0.1:${own.port}`], tls: false, subject: nats.subject };
    const [one, two] = [await startBus({ nats: over }), await startBus({ nats: over })];
    await own.kill();
    await expect.poll(() => !connected(one.bus) && !connected(two.bus)).toBe(true);
    const content = { category: null, topic: null, message: Buffer.alloc(9), inApp: null };
    const userIds = Array.from({ length: 1_000 }, newUser);
    const broadcasts = Array.from({ length: 50 }, (_, index) => {
      const ids = { projectId: newId(), broadcastId: newId() };
      return { type: 'new' as const, ...ids, userIds, sentAtMs: index, content };
    });
    for (const message of broadcasts) one.bus.publish(message);
    await own.start();
    // The node that publishes may be connected first. Then the other one reads the database.
    await expect.poll(() => typesOf(two.heard)).toContain('missed');
    await expect.poll(() => connected(one.bus) && connected(two.bus)).toBe(true);
    one.bus.publish(changed(7));
    await expect.poll(() => two.heard.at(-1)).toMatchObject({ type: 'changed', atMs: 7 });
    expect(typesOf(two.heard)).not.toContain('new');
  });

  test('messages whose connection breaks before the response are sent again on the next one', async () => {
    const proxy = await startTcpProxy({ host: '127.0.0.1', port: server.port });
    onTestFinished(() => proxy.close());
    const one = await startBus({ nats: { ...nats, ...at(proxy.port) } });
    const two = await startBus();
    proxy.onRequest = (bytes) => {
      if (!bytes.includes('"changed"')) return true;
      proxy.onRequest = () => {};
      proxy.cut();
      return false;
    };
    one.bus.publish(changed(1));
    await expect.poll(() => typesOf(one.heard)).toContain('missed');
    expect(connected(one.bus)).toBe(true);
    // The last one: no later message makes the node send.
    one.bus.publish(changed(2));
    await expect.poll(() => two.heard.length).toBeGreaterThanOrEqual(2);
    expect(two.heard).toMatchObject([{ atMs: 1 }, { atMs: 2 }]);
  });

  test('with TLS, the certificate is checked', async () => {
    const [certificate, key] = ['server.crt', 'server.key'].map((name) =>
      fileURLToPath(new URL(`../support/tls/${name}`, import.meta.url)),
    );
    const tls = ['--tls', '--tlscert', certificate ?? '', '--tlskey', key ?? ''];
    const own = await startNatsServer(tls);
    onTestFinished(() => own.kill());
    const over = { servers: [`localhost:${own.port}`], tls: true, subject: nats.subject };
    const { log, lines } = recordingLog('warn');
    expect(connected((await startBus({ nats: over, log })).bus)).toBe(false);
    expect(lines.join('')).toContain('UNABLE_TO_VERIFY_LEAF_SIGNATURE');
    trustTestAuthority();
    onTestFinished(distrustTestAuthority);
    expect(connected((await startBus({ nats: over })).bus)).toBe(true);
  });

  test('a wrong password is reported without the password', async () => {
    const { log, lines } = recordingLog('trace');
    const { bus } = await startBus({ nats: { ...nats, pass: 'wrong-secret' }, log });
    expect(connected(bus)).toBe(false);
    expect(lines.join('')).toContain('Authorization Violation');
    expect(lines.join('')).not.toContain('wrong-secret');
  });

  test('a subject that the account may not use is reported', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'belfry-nats-'));
    const file = join(folder, 'nats.conf');
    const permissions = 'permissions: { publish: "other.>", subscribe: "belfry.>" }';
    writeFileSync(file, `authorization { users: [{ user: a, password: b, ${permissions} }] }`);
    const own = await startNatsServer(['-c', file]);
    onTestFinished(async () => {
      await own.kill();
      rmSync(folder, { recursive: true });
    });
    const { log, lines } = recordingLog('warn');
    const { bus } = await startBus({ nats: { ...nats, ...at(own.port), user: 'a', pass: 'b' }, log });
    expect(connected(bus)).toBe(false);
    // The report may come after the attempt has failed.
    await expect.poll(() => lines.join('')).toContain('Permissions Violation');
  });

  test('a node without NATS_URL beside one with it is reported', async () => {
    const { log, lines } = recordingLog('error');
    const { heard } = await startBus({ log });
    const other = await startBus({ nats: undefined });
    other.bus.publish(changed(1));
    await expect.poll(() => heard).toHaveLength(1);
    other.bus.publish(changed(2));
    await expect.poll(() => heard).toHaveLength(2);
    expect(lines).toHaveLength(1);
    expect(lines.join('')).toContain('runs without NATS_URL');
  });

  test('a service connects to NATS_URL, and shows it in readyz and metrics', async () => {
    const NATS_URL = `nats://belfry:${SECRET}@127.0.0.1:${server.port}`;
    const service = await startTestService({ settings: { NATS_URL } });
    onTestFinished(() => service.stop());
    const link = { connected: true, silent_seconds: expect.any(Number) };
    const { body } = await service.request('GET', '/readyz?verbose');
    expect(body).toMatchObject({ bus: { postgres: link, nats: link } });
    const { text } = await service.request('GET', '/metrics');
    expect(text).toContain('belfry_bus_connected{bus="nats"} 1');
  });
});
