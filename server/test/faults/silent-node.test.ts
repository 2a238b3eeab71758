import { randomBytes } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import type { NetConnectOpts } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, test } from 'vitest';
import { openDatabase } from '../../src/db/client.ts';
import { createBus } from '../../src/domain/ground/bus/bus.ts';
import type { RealtimeMessage } from '../../src/domain/ground/bus/messages.ts';
import { natsSubject } from '../../src/domain/ground/bus/nats.ts';
import { createLogger } from '../../src/lib/log.ts';
import { startBelfry } from '../support/belfry-process.ts';
import { createTestDatabase, type TestDatabase } from '../support/database.ts';
import { hasNats, type NatsServer, startNatsServer } from '../support/nats-server.ts';
import { openStreamSocket, titles } from '../support/realtime.ts';
import { projectWith } from '../support/service.ts';
import { startTcpProxy } from '../support/tcp-proxy.ts';

// A node is killed after a commit, before its message about it has reached the other node: its connection for
// messages passes a proxy that no longer forwards them.

const SECRET_KEY = randomBytes(32).toString('hex');
let nats: NatsServer | undefined;
beforeAll(async () => {
  nats = hasNats ? await startNatsServer() : undefined;
});
afterAll(() => nats?.kill());

interface Way {
  /** Where the server that carries the messages listens. */
  target: NetConnectOpts;
  /** The settings of a node whose messages pass this port of a proxy, or go directly. */
  settings(port?: number): Record<string, string>;
}

function byDatabase({ url, connection: { host, port = 0, user, database } }: TestDatabase): Way {
  const through = (proxy: number) => ({
    DATABASE_DIRECT_URL: `postgres://${user}@127.0.0.1:${proxy}/${database}`,
  });
  return {
    target: host?.startsWith('/') ? { path: `${host}/.s.PGSQL.${port}` } : { host, port },
    settings: (proxy) => ({ DATABASE_URL: url, ...(proxy ? through(proxy) : {}) }),
  };
}

function byNats({ url }: TestDatabase): Way {
  const port = nats?.port ?? 0;
  return {
    target: { host: '127.0.0.1', port },
    settings: (proxy = port) => ({ DATABASE_URL: url, NATS_URL: `nats://127.0.0.1:${proxy}` }),
  };
}

const WAYS = [
  { ROLE: 'api,worker', bus: 'the database', wayOf: byDatabase },
  { ROLE: 'api', bus: 'the database', wayOf: byDatabase },
  ...(hasNats ? [{ ROLE: 'api', bus: 'NATS', wayOf: byNats }] : []),
];

test.concurrent.for(WAYS)(
  'what a killed node ($ROLE) did not publish over $bus reaches the inboxes of another',
  async ({ ROLE, wayOf }, { expect, onTestFinished }) => {
    const folder = await mkdtemp(join(tmpdir(), 'belfry-silent-node-'));
    onTestFinished(() => rm(folder, { recursive: true, force: true }));
    const database = await createTestDatabase();
    onTestFinished(() => database.drop());
    const way = wayOf(database);
    const proxy = await startTcpProxy(way.target);
    onTestFinished(() => proxy.close());
    const start = async (name: string, settings: Record<string, string>) => {
      const node = await startBelfry(join(folder, name), { SECRET_KEY, ...settings });
      onTestFinished(() => node.killTree());
      return node;
    };
    const other = await start('other', way.settings());
    const killed = await start('killed', { ...way.settings(proxy.port), ROLE });
    const { project_id: id, api_key, api_secret, project_jwt: jwt } = other.credentials;
    const keys = { id, apiKey: api_key, apiSecret: api_secret, jwt };
    const project = projectWith(() => killed.address, keys as Parameters<typeof projectWith>[1]);
    const send = async (title: string) => {
      const { status } = await project.call('POST', '/broadcasts', {
        title,
        recipients: [{ external_id: 'ada' }],
      });
      expect(status).toBe(201);
    };
    const ada = await openStreamSocket(other.address, { jwt: project.userJwt({ user_external_id: 'ada' }) });
    onTestFinished(() => ada.source.close());
    await send('published');
    await expect.poll(() => titles(ada.frames)).toEqual(['published']);
    const list = await project.as('ada')('GET', '/notifications');

    proxy.hold();
    await send('unpublished');
    await project.as('ada')('POST', `/notifications/${list.body.data[0].id}/read`);
    await killed.killTree();
    const received = () => ada.frames.map(({ name }, index) => `${name}: ${titles(ada.frames)[index]}`);
    const missed = ['notifications/new: unpublished', 'notifications/read: published'];
    await expect.poll(() => received().slice(1)).toEqual(missed);
    expect(ada.resyncs).toBe(0);
  },
);

test.concurrent.for(WAYS.slice(1))(
  'the last messages of a node are missed if it was cut off, and not if it has left, over $bus',
  async ({ wayOf }, { expect, onTestFinished }) => {
    const database = await createTestDatabase();
    onTestFinished(() => database.drop());
    const { target } = wayOf(database);
    const overNats = wayOf === byNats;
    const proxy = await startTcpProxy(target);
    const lines: string[] = [];
    const log = createLogger({ level: 'warn', stream: { write: (line) => lines.push(line) } });
    const start = async (nodeId: string, port?: number) => {
      const through = port !== undefined && !overNats ? { host: '127.0.0.1', port } : {};
      const db = openDatabase({ ...database.connection, ...through }, { size: 2, name: 'test' });
      const subject = await natsSubject(db);
      const servers = [`127.0.0.1:${port ?? nats?.port}`];
      const bus = createBus({
        ...{ db, log, nodeId, shared: true },
        ...(overNats ? { nats: { servers, tls: false, subject } } : {}),
      });
      onTestFinished(async () => {
        await bus.close();
        await db.close();
      });
      await bus.listening();
      return bus;
    };
    const observer = await start('observer');
    const missed: RealtimeMessage[] = [];
    observer.subscribe((message) => message.type === 'missed' && missed.push(message));
    const leaving = await start('leaving');
    await start('cut off', proxy.port);
    await leaving.close();
    await proxy.close();
    await expect.poll(() => missed.length).toBe(1);
    const silent = lines.flatMap((line) => JSON.parse(line).silent ?? []);
    expect(silent).toEqual(['cut off']);
  },
);
