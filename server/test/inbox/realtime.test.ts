import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import { connect, type Socket } from 'node:net';
import { afterAll, beforeAll, describe, expect, onTestFinished, test, vi } from 'vitest';
import type { NotificationChanged } from '../../src/domain/ground/bus/messages.ts';
import { discardToken } from '../../src/domain/people/tokens/discard.ts';
import { CLOSINGS } from '../../src/http/realtime/socket.ts';
import { notificationId } from '../../src/lib/ids.ts';
import { tokenCollection } from '../../src/providers/index.ts';
import {
  insertBroadcast,
  newUser,
  openSocket,
  Refused,
  type SocketClient,
  saveInboxToken,
  socketUrl,
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

async function open(
  userId: string,
  connectionId?: string,
): Promise<SocketClient & { tokenId: string; token: string }> {
  const { id, token } = await saveInboxToken(realtime, userId, connectionId ?? null);
  const parameters = connectionId === undefined ? { token } : { token, connection_id: connectionId };
  const client = await openSocket(socketUrl(node.port, realtime, parameters));
  onTestFinished(() => client.socket.terminate());
  return { ...client, tokenId: id, token };
}

async function broadcast(
  userIds: string[],
  title: string,
  more: { content?: string; inApp?: Record<string, unknown> } = {},
) {
  const message = await insertBroadcast(realtime.db, realtime.project.id, { userIds, title, ...more });
  node.bus.publish(message);
  return message;
}

async function discard(userId: string, id: string): Promise<void> {
  const { db, project } = realtime;
  await discardToken({ db, bus: node.bus }, tokenCollection('inbox').collection, {
    projectId: project.id,
    userId,
    id,
  });
}

function change(
  userId: string,
  name: NotificationChanged['name'],
  id: string,
  clientId?: string,
): NotificationChanged {
  return {
    type: 'changed',
    userId,
    name,
    id,
    atMs: Date.now(),
    ...(clientId === undefined ? {} : { clientId }),
  };
}

describe('frames', () => {
  test('a new notification arrives with all members, the in-app override over the message', async () => {
    const userId = newUser();
    const { frames } = await open(userId);
    const inApp = { content: '<b>here</b>', action_url: 'https://example.com/x' };
    const message = await broadcast([userId], 'For "you" \u{1F514}\u2028', { content: 'elsewhere', inApp });
    await expect.poll(() => frames).toHaveLength(1);
    const id = notificationId(message.broadcastId, userId);
    expect(frames[0]).toEqual({
      id: expect.stringMatching(/^[0-9a-f-]{36}$/),
      name: 'notifications/new',
      timestamp: new Date(message.sentAtMs).toISOString(),
      data: {
        id,
        notification: {
          id,
          user_id: userId,
          title: 'For "you" \u{1F514}\u2028',
          content: '<b>here</b>',
          action_url: 'https://example.com/x',
          category: 'news',
          topic: null,
          custom_attributes: null,
          status: 'unseen',
          created_at: expect.any(String),
          updated_at: new Date(message.sentAtMs).toISOString(),
          sent_at: new Date(message.sentAtMs).toISOString(),
          seen_at: null,
          read_at: null,
          archived_at: null,
          discarded_at: null,
          snoozed_until: null,
        },
      },
    });
  });

  test('what the publisher has in memory is not read from the database', async () => {
    const userId = newUser();
    const { frames } = await open(userId);
    const message = await insertBroadcast(realtime.db, realtime.project.id, {
      userIds: [userId],
      title: 'stored',
    });
    const packed = Buffer.from('\0{"title":"at hand"}');
    node.bus.publish({ ...message, content: { message: packed, inApp: null, category: null, topic: 'x' } });
    await expect.poll(() => titles(frames)).toEqual(['at hand']);
  });

  test.each([
    ['short', 100, true],
    ['with a two-byte length', 60_000, true],
    ['too large for the message between nodes', 70_000, false],
    ['of 10 MiB', 10_485_760, false],
  ])('content %s', async (_name, length, included) => {
    const userId = newUser();
    const { frames } = await open(userId);
    await broadcast([userId], 'sized', { content: 'x'.repeat(length) });
    await expect.poll(() => frames).toHaveLength(1);
    expect(frames[0]?.data.notification === undefined).toBe(!included);
    if (included) expect(frames[0]?.data.notification?.content).toHaveLength(length);
  });

  test('every session of a user is notified, other users are not, and own changes are marked', async () => {
    const [userId, other] = [newUser(), newUser()];
    const [first, second, stranger] = [await open(userId), await open(userId), await open(other)];
    const { broadcastId } = await broadcast([userId], 'one');
    const id = notificationId(broadcastId, userId);
    node.bus.publish(change(userId, 'read', id, 'tab "1"'));
    node.bus.publish(change(userId, 'read/all', userId));
    node.bus.publish(change(other, 'seen/all', other));
    await expect.poll(() => stranger.frames).toHaveLength(1);
    for (const { frames } of [first, second]) {
      await expect.poll(() => frames).toHaveLength(3);
      expect(frames.map(({ name }) => name)).toEqual([
        'notifications/new',
        'notifications/read',
        'notifications/read/all',
      ]);
      expect(frames.map(({ data }) => data.client_id)).toEqual([undefined, 'tab "1"', undefined]);
      expect(frames.map(({ data }) => data.id)).toEqual([id, id, userId]);
      expect(new Set(frames.map((frame) => frame.id)).size).toBe(3);
    }
    expect(stranger.frames[0]?.name).toBe('notifications/seen/all');
  });

  test('a user gets messages in the order of publishing, even if some are loaded first', async () => {
    const userId = newUser();
    const { frames } = await open(userId);
    const messages = [];
    for (let index = 0; index < 50; index += 1) {
      messages.push(
        await insertBroadcast(realtime.db, realtime.project.id, { userIds: [userId], title: `${index}` }),
      );
    }
    const expected: string[] = [];
    for (const message of messages) {
      const id = notificationId(message.broadcastId, userId);
      node.bus.publish(message);
      node.bus.publish(change(userId, 'read', id));
      expected.push(`notifications/new ${id}`, `notifications/read ${id}`);
    }
    await expect.poll(() => frames).toHaveLength(100);
    expect(frames.map(({ name, data }) => `${name} ${data.id}`)).toEqual(expected);
  });

  test('a notification that is published twice is sent once', async () => {
    const userId = newUser();
    const { frames } = await open(userId);
    const message = await broadcast([userId], 'once');
    node.bus.publish(message);
    await broadcast([userId], 'after');
    await expect.poll(() => titles(frames)).toContain('after');
    expect(titles(frames)).toEqual(['once', 'after']);
  });

  test('thousands of concurrent broadcasts cost a few queries, not one each', async () => {
    const userId = newUser();
    const { frames } = await open(userId);
    const messages = [];
    for (let index = 0; index < 300; index += 1) {
      messages.push(
        await insertBroadcast(realtime.db, realtime.project.id, { userIds: [userId], title: `${index}` }),
      );
    }
    const query = vi.spyOn(realtime.db, 'query');
    for (const message of messages) node.bus.publish(message);
    await expect.poll(() => frames).toHaveLength(300);
    const loads = query.mock.calls.filter(([statement]) => statement.name === 'select_contents');
    query.mockRestore();
    expect(loads.length).toBeGreaterThan(0);
    expect(loads.length).toBeLessThan(10);
  });
});

describe('opening a socket', () => {
  const refusal = async (parameters: Record<string, string>, path = '/') => {
    const url = new URL(socketUrl(node.port, realtime, parameters));
    url.pathname = path;
    const opened = openSocket(String(url));
    return opened.then(
      ({ socket }) => {
        socket.terminate();
        return 101;
      },
      (error: unknown) => (error instanceof Refused ? error.status : Promise.reject(error)),
    );
  };

  test('needs the token of an active session of the project', async () => {
    const { token } = await saveInboxToken(realtime, newUser());
    expect(await refusal({ token })).toBe(101);
    expect(await refusal({})).toBe(401);
    expect(await refusal({ token: '' })).toBe(401);
    expect(await refusal({ token: 'f'.repeat(64) })).toBe(401);
    expect(await refusal({ token: 'x'.repeat(8_000) })).toBe(401);
    expect(await refusal({ token, api_key: 'pk_unknown_unknown' })).toBe(401);
    expect(await refusal({ token, api_key: '' })).toBe(401);
    expect(await refusal({ token }, '/v2/ws')).toBe(404);
  });

  test('fails with a discarded token', async () => {
    const userId = newUser();
    const { id, token } = await saveInboxToken(realtime, userId);
    await discard(userId, id);
    expect(await refusal({ token })).toBe(401);
  });

  test('fails if the token is discarded between its look-up and the handshake', async () => {
    const userId = newUser();
    const { id, token } = await saveInboxToken(realtime, userId);
    // The discard arrives before the socket is open, after the look-up.
    node.bus.publish({ type: 'token_discarded', userId, tokenId: id });
    const { closed } = await openSocket(socketUrl(node.port, realtime, { token }));
    expect((await closed).code).toBe(4001);
  });

  test('a token for one connection opens only that one, and a newer one replaces it', async () => {
    const userId = newUser();
    const first = await open(userId, 'tab-1');
    expect(await refusal({ token: first.token })).toBe(403);
    expect(await refusal({ token: first.token, connection_id: 'tab-2' })).toBe(403);
    const second = await openSocket(
      socketUrl(node.port, realtime, { token: first.token, connection_id: 'tab-1' }),
    );
    onTestFinished(() => second.socket.terminate());
    expect((await first.closed).code).toBe(4002);
    await broadcast([userId], 'for the newer');
    await expect.poll(() => titles(second.frames)).toEqual(['for the newer']);
    expect(first.frames).toEqual([]);
  });

  test('of more than a hundred sockets of one user the oldest is closed', async () => {
    const userId = newUser();
    const { token } = await saveInboxToken(realtime, userId);
    const clients: SocketClient[] = [];
    for (let index = 0; index < 101; index += 1)
      clients.push(await openSocket(socketUrl(node.port, realtime, { token })));
    onTestFinished(() =>
      clients.forEach(({ socket }) => {
        socket.terminate();
      }),
    );
    expect((await clients[0]?.closed)?.code).toBe(4003);
    await broadcast([userId], 'crowd');
    await expect.poll(() => clients.filter(({ frames }) => frames.length === 1)).toHaveLength(100);
  });
});

describe('closing a socket', () => {
  test('discarding a token closes its sockets and no others', async () => {
    const userId = newUser();
    const [discarded, kept] = [await open(userId), await open(userId)];
    await discard(userId, discarded.tokenId);
    expect(await discarded.closed).toEqual({ code: 4001, reason: 'the token was discarded' });
    await broadcast([userId], 'still here');
    await expect.poll(() => titles(kept.frames)).toEqual(['still here']);
    expect(discarded.frames).toEqual([]);
  });

  test('a peer that does not respond to pings is dropped, another is kept', async () => {
    const userId = newUser();
    const living = await open(userId);
    const { token } = await saveInboxToken(realtime, userId);
    const dead = await rawSocket(token);
    const before = node.hub.counts().socket;
    const ponged = new Promise((resolve) => living.socket.once('ping', resolve));
    node.beat();
    await ponged;
    // The server has read the pong once it has responded to a later message.
    await roundTrip(living);
    const ended = once(dead, 'close');
    node.beat();
    await ended;
    await expect.poll(() => node.hub.counts().socket).toBe(before - 1);
    await broadcast([userId], 'alive');
    await expect.poll(() => titles(living.frames)).toEqual(['alive']);
  });

  test('a client that sends too much is closed', async () => {
    const { socket, closed } = await open(newUser());
    socket.send('x'.repeat(5_000));
    expect((await closed).code).toBe(1009);
  });

  test("a slow reader is closed within bounds; the user's other clients get everything", async () => {
    const userId = newUser();
    const quick = await open(userId);
    const { token } = await saveInboxToken(realtime, userId);
    const slow = await rawSocket(token);
    slow.pause();
    const sockets = node.hub.counts().socket;
    const heldBefore = process.memoryUsage().arrayBuffers;
    let sent = 0;
    while (node.hub.counts().socket === sockets) {
      const content = 'x'.repeat(50_000);
      for (let index = 0; index < 5; index += 1, sent += 1) await broadcast([userId], `${sent}`, { content });
      await expect.poll(() => quick.frames, { interval: 2 }).toHaveLength(sent);
      // 1 MiB of ours and the buffers of the kernel on both sides (some 5 MB on loopback).
      expect(sent * 50_000).toBeLessThan(32 * 1024 * 1024);
    }
    expect(sent * 50_000).toBeGreaterThan(1024 * 1024);
    expect(process.memoryUsage().arrayBuffers - heldBefore).toBeLessThan(64 * 1024 * 1024);
    await broadcast([userId], 'after');
    await expect.poll(() => titles(quick.frames).at(-1)).toBe('after');
    // When it reads again, it finds the reason: close code 1013, at the very end.
    const chunks: Buffer[] = [];
    slow.on('data', (chunk) => chunks.push(chunk)).resume();
    await expect.poll(() => Buffer.concat(chunks).includes('reads too slowly')).toBe(true);
    const bytes = Buffer.concat(chunks);
    const reason = bytes.indexOf('reads too slowly');
    expect(bytes.readUInt16BE(reason - 2)).toBe(1013);
  });

  test('a stopping node closes all sockets within a second', async () => {
    const stopping = await realtime.startNode();
    const { token } = await saveInboxToken(realtime, newUser());
    const client = await openSocket(socketUrl(stopping.port, realtime, { token }));
    const silent = await rawSocket(token, stopping.port);
    const silentEnded = once(silent, 'close');
    const startedAt = performance.now();
    await stopping.close();
    expect(performance.now() - startedAt).toBeLessThan(10_000); // without a limit it takes 30 s
    expect(await client.closed).toEqual({ code: 1001, reason: 'going away' });
    await silentEnded;
  });
});

/** A peer that has completed the handshake and does nothing by itself: no pong, no close frame. */
async function rawSocket(token: string, port = node.port): Promise<Socket> {
  const socket = connect(port, '127.0.0.1');
  onTestFinished(() => {
    socket.destroy();
  });
  const { search } = new URL(socketUrl(port, realtime, { token }));
  socket.write(
    `GET /${search} HTTP/1.1\r\nhost: localhost\r\nconnection: upgrade\r\nupgrade: websocket\r\n` +
      'sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n',
  );
  const [head] = (await once(socket, 'data')) as [Buffer];
  expect(String(head)).toMatch(/^HTTP\/1\.1 101 /);
  socket.resume();
  return socket;
}

async function roundTrip({ socket }: SocketClient): Promise<void> {
  const pong = once(socket, 'pong');
  socket.ping();
  await pong;
}

test('the guide lists every close code of a socket', async () => {
  const guide = await readFile(new URL('../../../docs/guides/realtime.md', import.meta.url), 'utf8');
  const listed = [...guide.matchAll(/^\| (\d{4}) \|/gm)].map(([, code]) => Number(code));
  expect(new Set(listed)).toEqual(new Set(Object.values(CLOSINGS).map(([code]) => code)));
});
