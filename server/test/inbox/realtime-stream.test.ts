import { once } from 'node:events';
import { request } from 'node:http';
import { afterAll, beforeAll, describe, expect, onTestFinished, test, vi } from 'vitest';
import type { Queryable } from '../../src/db/client.ts';
import type { NotificationsNew } from '../../src/domain/ground/bus/messages.ts';
import { changeNotification } from '../../src/domain/line/notifications/change.ts';
import { changeAllNotifications } from '../../src/domain/line/notifications/change-all.ts';
import { systemClock } from '../../src/lib/clock.ts';
import { notificationId } from '../../src/lib/ids.ts';
import {
  insertBroadcast,
  newUser,
  openStream,
  openStreamSocket,
  type StreamClient,
  startTestRealtime,
  type TestNode,
  type TestRealtime,
  titles,
} from '../support/realtime.ts';

let realtime: TestRealtime;
let node: TestNode;

beforeAll(async () => {
  realtime = await startTestRealtime();
  node = await realtime.startNode();
});
afterAll(() => realtime.close());

const streamUrl = (userId: string, port = node.port) => `http://127.0.0.1:${port}/stream?user=${userId}`;

type Open = (userId: string, options: { lastEventId?: string; port?: number }) => Promise<StreamClient>;
const openSocketOf: Open = (userId, { port = node.port, ...options }) =>
  openStreamSocket(`http://127.0.0.1:${port}`, { jwt: userId, ...options });
/** How to open a stream, and how to get the event id at its start. */
const TRANSPORTS: Record<string, { open: Open; firstEventId: (userId: string) => Promise<string> }> = {
  'Server-Sent Events': {
    open: (userId, { port, ...options }) => openStream(streamUrl(userId, port), options),
    async firstEventId(userId) {
      const response = await getStream(streamUrl(userId));
      const [chunk] = (await once(response, 'data')) as [Buffer];
      response.destroy();
      return /^id: (.+)$/m.exec(String(chunk))?.[1] ?? '';
    },
  },
  WebSocket: {
    open: openSocketOf,
    async firstEventId(userId) {
      const client = await openSocketOf(userId, {});
      client.source.close();
      return client.lastEventId();
    },
  },
};

const insert = (userId: string, title: string, on: Queryable = realtime.db) =>
  insertBroadcast(on, realtime.project.id, { userIds: [userId], title });

async function broadcast(userId: string, title: string): Promise<NotificationsNew> {
  const message = await insert(userId, title);
  node.bus.publish(message);
  return message;
}

const waitForFrames = (client: StreamClient, count: number) =>
  expect
    .poll(() => client.frames.length, {
      interval: 5,
    })
    .toBeGreaterThanOrEqual(count);

const idOf = ({ broadcastId }: NotificationsNew, userId: string) => notificationId(broadcastId, userId);
const notification = (userId: string, id: string) => ({ projectId: realtime.project.id, userId, id });

describe.each(Object.entries(TRANSPORTS))('resume by %s', (_name, { open, firstEventId }) => {
  const listen = async (userId: string, lastEventId?: string, port?: number): Promise<StreamClient> => {
    const client = await open(userId, {
      ...(lastEventId === undefined ? {} : { lastEventId }),
      ...(port === undefined ? {} : { port }),
    });
    onTestFinished(() => client.source.close());
    return client;
  };
  test('a reconnecting client gets what it missed, in order and once, even on another node', async () => {
    const userId = newUser();
    const first = await listen(userId);
    await broadcast(userId, 'before');
    await waitForFrames(first, 1);
    first.source.close();
    for (const title of ['a', 'b', 'c']) await broadcast(userId, title);
    const other = await realtime.startNode();
    const second = await listen(userId, first.lastEventId(), other.port);
    await broadcast(userId, 'after');
    await waitForFrames(second, 4);
    expect(titles(second.frames)).toEqual(['a', 'b', 'c', 'after']);
    expect(second.resyncs).toBe(0);
  });

  test('a client with an id of a time that no clock has starts from now, with a resync', async () => {
    const id = Buffer.concat([Buffer.of(2), Buffer.alloc(6, 255), Buffer.alloc(6)]).toString('base64url');
    const userId = newUser();
    const client = await listen(userId, id);
    await broadcast(userId, 'live');
    await waitForFrames(client, 1);
    expect(client.resyncs).toBe(1);
  });

  test('a client that left before its first event misses nothing, and gets nothing older', async () => {
    const userId = newUser();
    await broadcast(userId, 'in the list already');
    const id = await firstEventId(userId);
    await broadcast(userId, 'missed');
    const client = await listen(userId, id);
    await broadcast(userId, 'live');
    await waitForFrames(client, 2);
    expect(titles(client.frames)).toEqual(['missed', 'live']);
  });

  test.each(['while the client is disconnected', 'when the client has the event already'])(
    'a late commit with an earlier time is sent nevertheless, published %s',
    async (published) => {
      const userId = newUser();
      const first = await listen(userId);
      // The slow transaction takes its time first, and commits while the client is disconnected.
      const gate = Promise.withResolvers<void>();
      const inserted = Promise.withResolvers<NotificationsNew>();
      const slow = realtime.db.transaction(async (tx) => {
        inserted.resolve(await insert(userId, 'slow', tx));
        await gate.promise;
      });
      const late = await inserted.promise;
      await broadcast(userId, 'quick');
      await waitForFrames(first, 1);
      first.source.close();
      gate.resolve();
      await slow;
      if (published.startsWith('while')) node.bus.publish(late);
      const second = await listen(userId, first.lastEventId());
      if (published.startsWith('when')) node.bus.publish(late);
      await broadcast(userId, 'next');
      await waitForFrames(second, 2);
      expect(titles(second.frames)).toEqual(['slow', 'next']);
      second.source.close();
      const third = await listen(userId, second.lastEventId());
      await broadcast(userId, 'last');
      await waitForFrames(third, 1);
      expect(titles(third.frames)).toEqual(['last']);
    },
  );

  test('changes during a disconnection are sent as the current state', async () => {
    const userId = newUser();
    const first = await listen(userId);
    const messages = [];
    for (const title of ['read', 'archived', 'deleted', 'unread', 'untouched'])
      messages.push(await broadcast(userId, title));
    await waitForFrames(first, 5);
    const [read, archived, deleted, unread, untouched] = messages.map((message) => idOf(message, userId));
    await changeNotification({ db: realtime.db, bus: node.bus }, 'read', notification(userId, unread ?? ''));
    await waitForFrames(first, 6);
    first.source.close();
    const otherNode = { db: realtime.db, bus: node.bus };
    const gone = await broadcast(userId, 'came and went');
    await changeNotification(otherNode, 'delete', notification(userId, idOf(gone, userId)));
    await changeNotification(otherNode, 'read', notification(userId, read ?? ''));
    await changeNotification(otherNode, 'read', notification(userId, archived ?? ''));
    await changeNotification(otherNode, 'archive', notification(userId, archived ?? ''));
    await changeNotification(otherNode, 'delete', notification(userId, deleted ?? ''));
    await changeNotification(otherNode, 'unread', notification(userId, unread ?? ''));
    const second = await listen(userId, first.lastEventId());
    await waitForFrames(second, 4);
    expect(second.frames.map(({ name, data }) => [name, data.id, data.notification?.status])).toEqual([
      ['notifications/read', read, 'read'],
      ['notifications/archived', archived, 'archived'],
      ['notifications/delete', deleted, undefined],
      ['notifications/unread', unread, 'unread'],
    ]);
    await broadcast(userId, 'end');
    await waitForFrames(second, 5);
    expect(second.frames.filter(({ data }) => data.id === untouched)).toEqual([]);
  });

  test('a bulk change is not sent again for each notification', async () => {
    const userId = newUser();
    const first = await listen(userId);
    for (const title of ['a', 'b']) await broadcast(userId, title);
    await waitForFrames(first, 2);
    const how = { projectId: realtime.project.id, userId, filter: {} };
    await changeAllNotifications({ db: realtime.db, bus: node.bus }, 'read', how);
    await waitForFrames(first, 3);
    expect(first.frames.at(-1)).toMatchObject({ name: 'notifications/read/all', data: { id: userId } });
    first.source.close();
    const second = await listen(userId, first.lastEventId());
    await broadcast(userId, 'c');
    await waitForFrames(second, 1);
    expect(titles(second.frames)).toEqual(['c']);
  });

  test('no gap, no duplicate and no disorder under load with commits out of order', async () => {
    const userId = newUser();
    const total = 110;
    let client = await listen(userId);
    const received: string[] = [];
    const publisher = Promise.all(
      [0, 1, 2, 3].map(async (lane) => {
        for (let index = lane; index < total; index += 4) {
          const message = await realtime.db.transaction(async (tx) => {
            const inserted = await insert(userId, `${index}`, tx);
            // Every third commits after others that took a later time.
            if (index % 3 === 0) await insert(newUser(), 'takes a while', tx);
            return inserted;
          });
          node.bus.publish(message);
        }
      }),
    );
    let publishing = true;
    const done = publisher.then(() => {
      publishing = false;
    });
    const collect = () => received.push(...titles(client.frames).map(String));
    while (publishing) {
      await waitForFrames(client, 3).catch(() => {});
      client.source.close();
      collect();
      client = await listen(userId, client.lastEventId());
      expect(client.resyncs).toBe(0);
    }
    await done;
    await expect.poll(() => received.length + client.frames.length).toBeGreaterThanOrEqual(total);
    collect();
    expect(received.length).toBe(total);
    // One lane publishes one after another, so its events have an order.
    for (const lane of [0, 1, 2, 3]) {
      const ofLane = received.map(Number).filter((index) => index % 4 === lane);
      expect(ofLane).toEqual(ofLane.toSorted((a, b) => a - b));
    }
    expect([...received].sort((a, b) => Number(a) - Number(b))).toEqual(
      Array.from({ length: total }, (_, index) => `${index}`),
    );
  });

  test.each(['', 'nonsense', 'AAAAAAAAAAAAAAAAAAAAAAAA', '../../etc/passwd'])(
    'an unknown event id %j',
    async (id) => {
      const userId = newUser();
      const client = await listen(userId, id);
      await broadcast(userId, 'first');
      await waitForFrames(client, 1);
      expect(client.resyncs).toBe(id === '' ? 0 : 1);
      expect(titles(client.frames)).toEqual(['first']);
    },
  );

  test('a client that missed too much gets a request to refresh, and continues from there', async () => {
    const userId = newUser();
    const id = await firstEventId(userId);
    await realtime.db.transaction(async (tx) => {
      for (let index = 0; index < 1_001; index += 1) await insert(userId, `${index}`, tx);
    });
    const client = await listen(userId, id);
    await expect.poll(() => client.resyncs).toBe(1);
    await broadcast(userId, 'live');
    await waitForFrames(client, 1);
    expect(titles(client.frames)).toEqual(['live']);
  });

  test('a thousand missed notifications are sent within the limits for slow readers', async () => {
    const userId = newUser();
    const id = await firstEventId(userId);
    await realtime.db.transaction(async (tx) => {
      for (let index = 0; index < 1_000; index += 1) {
        const content = 'x'.repeat(10_000);
        await insertBroadcast(tx, realtime.project.id, { userIds: [userId], title: `${index}`, content });
      }
    });
    const client = await listen(userId, id);
    await waitForFrames(client, 1_000);
    expect(titles(client.frames)).toEqual(Array.from({ length: 1_000 }, (_, index) => `${index}`));
    expect(client.resyncs).toBe(0);
  });
});

describe('an event stream', () => {
  test('a client misses nothing in a restart between two events: it reconnects by itself', async () => {
    const userId = newUser();
    const before = await realtime.startNode();
    const client = await openStream(streamUrl(userId, before.port));
    onTestFinished(() => client.source.close());
    before.bus.publish(await insert(userId, 'before'));
    await waitForFrames(client, 1);
    await before.close();
    await insert(userId, 'while it was down');
    const after = await realtime.startNode({ port: before.port });
    await expect.poll(() => titles(client.frames)).toEqual(['before', 'while it was down']);
    after.bus.publish(await insert(userId, 'after'));
    await waitForFrames(client, 3);
    expect(titles(client.frames)).toEqual(['before', 'while it was down', 'after']);
  });

  test('it has the headers that proxies need, and heartbeats keep it open', async () => {
    const response = await getStream(streamUrl(newUser()));
    expect(response.headers).toMatchObject({
      'content-type': 'text/event-stream; charset=utf-8',
      'cache-control': 'no-store, no-transform',
      'x-accel-buffering': 'no',
    });
    let text = '';
    response.setEncoding('utf8').on('data', (chunk) => {
      text += chunk;
    });
    await expect.poll(() => text).toMatch(/^retry: \d+\nid: [\w-]+\n\n/);
    const before = text.length;
    node.beat();
    await expect.poll(() => text.slice(before)).toContain(': \n\n');
    response.destroy();
  });

  test('it ends when its token expires', async () => {
    const expiresAtMs = systemClock.now() + 1_500; // time enough to open it
    const response = await getStream(`${streamUrl(newUser())}&expires=${expiresAtMs}`);
    const ended = once(response.resume(), 'end');
    await expect.poll(() => systemClock.now()).toBeGreaterThan(expiresAtMs);
    node.beat();
    await ended;
  });

  test('a client that reads nothing is disconnected, and leaves the hub', async () => {
    const userId = newUser();
    const before = node.hub.counts().stream;
    const response = await getStream(streamUrl(userId));
    response.pause();
    const content = 'x'.repeat(60_000);
    let sent = 0;
    while (node.hub.counts().stream > before) {
      node.bus.publish(
        await insertBroadcast(realtime.db, realtime.project.id, { userIds: [userId], content }),
      );
      sent += 1;
      expect(sent).toBeLessThan(600);
    }
    expect(sent * 60_000).toBeGreaterThan(1024 * 1024);
    response.destroy();
  });

  test('a database that does not respond is reported as an error before the stream starts', async () => {
    const userId = newUser();
    const { query: original } = realtime.db;
    // Only of this user: the hub may read at the same time.
    const query = vi.spyOn(realtime.db, 'query').mockImplementation((statement, values) => {
      if (JSON.stringify(values)?.includes(userId)) return Promise.reject(new Error('gone'));
      return original.call(realtime.db, statement, values);
    });
    const response = await getStream(streamUrl(userId));
    query.mockRestore();
    expect(response.statusCode).toBe(500);
    response.destroy();
  });
});

describe('a stream by WebSocket', () => {
  const address = () => `http://127.0.0.1:${node.port}`;
  const open = async (jwt: string) => {
    const client = await openStreamSocket(address(), { jwt });
    onTestFinished(() => client.source.close());
    return client;
  };

  test('it selects the protocol alone, and its messages are those of the event stream', async () => {
    const userId = newUser();
    const stream = await openStream(streamUrl(userId));
    onTestFinished(() => stream.source.close());
    const client = await open(userId);
    expect(client.socket.protocol).toBe('belfry.v1');
    expect(client.lastEventId()).toMatch(/^[\w-]+$/);
    await broadcast(userId, 'hello');
    await expect.poll(() => client.frames).toHaveLength(1);
    await expect.poll(() => stream.frames).toEqual(client.frames);
  });

  test('heartbeats are messages', async () => {
    const client = await open(newUser());
    node.beat();
    await expect.poll(() => client.heartbeats).toBe(1);
  });

  test('it is closed with a code of its own when its token expires', async () => {
    const expiresAtMs = systemClock.now() + 1_500; // time enough to open it
    const client = await open(`${newUser()}.${expiresAtMs}`);
    await expect.poll(() => systemClock.now()).toBeGreaterThan(expiresAtMs);
    node.beat();
    expect(await client.closed).toEqual({ code: 4005, reason: 'the credential is no longer valid' });
  });

  test('a client that reads nothing is disconnected, and leaves the hub', async () => {
    const userId = newUser();
    const before = node.hub.counts().socket;
    const client = await open(userId);
    client.socket.pause();
    const content = 'x'.repeat(60_000);
    let sent = 0;
    while (node.hub.counts().socket > before) {
      node.bus.publish(
        await insertBroadcast(realtime.db, realtime.project.id, { userIds: [userId], content }),
      );
      sent += 1;
      expect(sent).toBeLessThan(600);
    }
    expect(sent * 60_000).toBeGreaterThan(1024 * 1024);
    client.socket.resume();
    expect((await client.closed).code).toBe(1013);
  });

  test('it is closed when what it missed cannot be read', async () => {
    const { db } = realtime;
    const original = db.query.bind(db);
    const query = vi
      .spyOn(db, 'query')
      .mockImplementation((statement, values) =>
        statement.name === 'select_missed' ? Promise.reject(new Error('gone')) : original(statement, values),
      );
    const client = await open(newUser());
    query.mockRestore();
    expect((await client.closed).code).toBe(1013);
  });

  test('of more than a hundred of one user the oldest is closed', async () => {
    const userId = newUser();
    const oldest = await open(userId);
    const others = await Promise.all(Array.from({ length: 100 }, () => open(userId)));
    expect((await oldest.closed).code).toBe(4003);
    await broadcast(userId, 'still here');
    for (const { frames } of others) await expect.poll(() => titles(frames)).toEqual(['still here']);
  });

  test('a client that sends too much is closed; other messages are ignored', async () => {
    const userId = newUser();
    const client = await open(userId);
    client.socket.send('{"event":"hello"}');
    await broadcast(userId, 'still open');
    await expect.poll(() => titles(client.frames)).toEqual(['still open']);
    client.socket.send('x'.repeat(5_000));
    expect((await client.closed).code).toBe(1009);
  });
});

async function getStream(url: string) {
  const call = request(url).end();
  const [response] = (await once(call, 'response')) as [import('node:http').IncomingMessage];
  response.on('error', () => {}); // the test closes it
  return response;
}
