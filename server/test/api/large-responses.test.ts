import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { type ApiResponse, startTestService, type TestService, until } from '../support/service.ts';

// Longer than what the kernel buffers of a connection.
const CONTENT = 'x'.repeat(10_485_760);
const USERS = ['ada', 'ben', 'cy'];
const BROADCAST = { title: 'Large', content: CONTENT, recipients: USERS.map((id) => ({ external_id: id })) };

let it: TestService;
let broadcastId: string;
let sockets: Socket[] = [];

/** Starts a service with memory for four responses with that content, of which a credential gets two. */
async function start(timeouts: { stalledMs?: number; crowdedMs?: number } = {}): Promise<void> {
  it = await startTestService({ settings: { REQUEST_BODIES_MIB: '48' }, http: { timeouts } });
  const { status, body } = await it.project.call('POST', '/broadcasts', BROADCAST);
  expect(status).toBe(201);
  broadcastId = body.id;
  for (const user of USERS)
    await until(
      () => lengthOf(user),
      (length) => length > CONTENT.length,
    );
}

const readInbox = (user: string) => it.project.as(user)('GET', '/notifications?limit=1');
const lengthOf = async (user: string) => (await readInbox(user)).text.length;

interface Unread {
  socket: Socket;
  status: number;
  /** The first bytes of the response. */
  text: string;
  /** Resolves when the server has closed its side. */
  closed: Promise<unknown>;
}

/** Sends a request, and reads only the first bytes of its response. */
async function unread(request: string, token: string): Promise<Unread> {
  const { hostname, port } = new URL(it.address);
  const accepted = once(it.http.fastify.server, 'connection') as Promise<[Socket]>;
  const socket = connect(Number(port), hostname);
  sockets.push(socket);
  socket.on('error', () => {}); // the server may reset it
  const [side] = await accepted;
  const closed = new Promise((resolve) => side.once('close', resolve));
  socket.write(
    `${request} HTTP/1.1\r\nHost: ${hostname}\r\nAuthorization: Bearer ${token}\r\nContent-Length: 0\r\n\r\n`,
  );
  await once(socket, 'readable');
  const text = String(socket.read());
  return { socket, text, closed, status: Number(text.slice(9, 12)) };
}

const tokenOf = (user: string) => it.project.userJwt({ user_external_id: user });
const unreadInbox = (user: string) => unread('GET /v2/notifications?limit=1', tokenOf(user));
const unreadBroadcasts = () => unread('GET /v2/broadcasts?limit=1', it.project.jwt);
const unreadCancel = () => unread(`POST /v2/broadcasts/${broadcastId}/cancel`, it.project.jwt);

/** The status of a response, the codes of its errors, and when to retry. */
const refusal = ({ status, codes, headers }: ApiResponse) => [status, codes, headers.get('retry-after')];
const TOO_MANY = [429, ['rate_limit_exceeded'], '1'];

/** Opens connections one after the other that do not read their large responses. */
async function hold(...opened: (() => Promise<Unread>)[]): Promise<Unread[]> {
  const held: Unread[] = [];
  for (const open of opened) held.push(await open());
  expect(held.map(({ status }) => status)).toEqual(opened.map(() => 200));
  return held;
}

/** Ends connections. Resolves when the server has noticed. */
async function end(held: Pick<Unread, 'socket' | 'closed'>[]): Promise<void> {
  for (const { socket } of held) socket.destroy();
  await Promise.all(held.map(({ closed }) => closed));
}

describe('the memory for responses that are not read', () => {
  beforeAll(() => start());
  afterAll(() => it.stop());
  afterEach(() => {
    for (const socket of sockets) socket.destroy();
    sockets = [];
  });

  test('one credential gets half of it: more is a 429 with Retry-After until connections end', async () => {
    const opened: Unread[] = [];
    for (let count = 0; count < 8; count += 1) opened.push(await unreadInbox('ada'));
    expect(opened.map(({ status }) => status)).toEqual([200, 200, 429, 429, 429, 429, 429, 429]);
    for (const { text } of opened.slice(2)) expect(text).toMatch(/\r\nretry-after: 1\r\n/);
    expect(refusal(await readInbox('ada'))).toEqual(TOO_MANY);
    expect((await readInbox('ben')).status).toBe(200);
    await end(opened);
    for (let count = 0; count < 3; count += 1) expect((await readInbox('ada')).status).toBe(200);
  });

  test('all credentials together get no more than all of it: more is a 503 with Retry-After', async () => {
    const [ada, ben] = [() => unreadInbox('ada'), () => unreadInbox('ben')];
    const held = await hold(ada, ada, ben, ben);
    expect(refusal(await readInbox('cy'))).toEqual([503, ['service_unavailable'], '1']);
    expect(refusal(await it.project.call('GET', '/broadcasts'))).toEqual([503, ['service_unavailable'], '1']);
    await end(held);
    expect((await readInbox('cy')).status).toBe(200);
  });

  test('a small response needs none of it, nor does one to HEAD', async () => {
    const ada = () => unreadInbox('ada');
    await hold(ada, ada);
    const paths = Array.from({ length: 50 }, () => '/notifications/unread/count');
    const responses = await Promise.all(paths.map((path) => it.project.as('ada')('GET', path)));
    expect(new Set(responses.map(({ status }) => status))).toEqual(new Set([200]));
    expect((await it.project.as('ada')('HEAD', '/notifications?limit=1')).status).toBe(200);
  });

  test('is free again as soon as a response was read', async () => {
    for (let count = 0; count < 10; count += 1) expect(await lengthOf('ada')).toBeGreaterThan(CONTENT.length);
  });

  test('is not needed for what a write did: its response is sent', async () => {
    await hold(unreadBroadcasts, unreadBroadcasts);
    expect(refusal(await it.project.call('GET', `/broadcasts/${broadcastId}`))).toEqual(TOO_MANY);
    const sent = await it.project.call('POST', '/broadcasts', BROADCAST);
    expect([sent.status, sent.body.content.length]).toEqual([201, CONTENT.length]);
    const cancelled = await it.project.call('POST', `/broadcasts/${broadcastId}/cancel`);
    expect([cancelled.status, cancelled.body.content.length]).toEqual([200, CONTENT.length]);
  });

  test('is used by the response of a write with a short body, too', async () => {
    const held = await hold(unreadCancel, unreadCancel);
    expect(refusal(await it.project.call('GET', `/broadcasts/${broadcastId}`))).toEqual(TOO_MANY);
    await end(held);
    expect((await it.project.call('GET', `/broadcasts/${broadcastId}`)).status).toBe(200);
  });

  test('is shared by all APIs, and each rejects in its own shape', async () => {
    const ada = () => unreadInbox('ada');
    await hold(ada, ada);
    expect(refusal(await it.project.v1As('ada')('GET', '/notifications?per_page=1'))).toEqual(TOO_MANY);
    const query = '{ notifications(first: 1) { nodes { content } } }';
    const token = tokenOf('ada');
    for (const response of [
      await it.request('POST', '/graphql', { token, body: { query } }),
      await it.request('GET', `/graphql?${new URLSearchParams({ query })}`, { token }),
    ]) {
      expect([response.status, response.headers.get('retry-after')]).toEqual([429, '1']);
      expect(response.body).toEqual({
        errors: [{ message: expect.any(String), extensions: { code: 'rate_limit_exceeded' } }],
      });
    }
    expect((await it.request('POST', '/graphql', { token: tokenOf('ben'), body: { query } })).status).toBe(
      200,
    );
  });

  test('a mutation that has run is not rejected', async () => {
    await hold(unreadBroadcasts, unreadBroadcasts);
    const query = `mutation { cancelBroadcast(id: "${broadcastId}") { content } }`;
    const { status, body } = await it.request('POST', '/graphql', { token: it.project.jwt, body: { query } });
    expect([status, body.data.cancelBroadcast.content.length]).toEqual([200, CONTENT.length]);
  });
});

describe('a client that reads nothing of a large response', () => {
  afterEach(() => it.stop());

  test('is disconnected; one that has read its response is not', async () => {
    // Longer than the reader pauses on a busy machine.
    await start({ stalledMs: 3_000 });
    const reader = await unreadInbox('ada');
    let length = reader.text.length;
    reader.socket.on('data', (chunk: Buffer) => {
      length += chunk.length;
    });
    await expect.poll(() => length).toBeGreaterThan(CONTENT.length);
    const [stalled] = await hold(() => unreadInbox('ada'));
    await stalled?.closed;
    length = 0;
    const headers = `Host: x\r\nAuthorization: Bearer ${tokenOf('ada')}\r\n`;
    reader.socket.write(`GET /v2/notifications/unread/count HTTP/1.1\r\n${headers}\r\n`);
    await expect.poll(() => length).toBeGreaterThan(0);
    reader.socket.destroy();
  });

  test('is disconnected earlier if that of a write does not fit into the memory', async () => {
    await start({ crowdedMs: 100 });
    const held = await hold(unreadBroadcasts, unreadBroadcasts);
    const [cancelled] = await hold(unreadCancel);
    await cancelled?.closed;
    expect(refusal(await it.project.call('GET', '/broadcasts?limit=1'))).toEqual(TOO_MANY);
    await end(held);
  });
});
