import { once } from 'node:events';
import { existsSync, readFileSync } from 'node:fs';
import { connect, type Socket } from 'node:net';
import { promisify } from 'node:util';
import { Type } from 'typebox';
import { afterEach, describe, expect, test } from 'vitest';
import { WebSocket } from 'ws';
import { type App, publicRoute } from '../../src/http/route.ts';
import { rawExchange } from '../support/raw-exchange.ts';
import { startTestService, type TestService, type TestServiceOptions, until } from '../support/service.ts';

let it: TestService;
let client: Socket[] = [];
afterEach(async () => {
  for (const socket of client) socket.destroy();
  client = [];
  await it.stop();
});

async function start(options: TestServiceOptions = {}): Promise<void> {
  it = await startTestService(options);
}

/** An open connection, and the text that it received. */
async function open({ allowHalfOpen = false } = {}): Promise<Socket & { text: string }> {
  const port = Number(new URL(it.address).port);
  const socket = Object.assign(connect({ port, host: '127.0.0.1', allowHalfOpen }), { text: '' });
  client.push(socket);
  socket.on('error', () => {});
  socket.setEncoding('utf8').on('data', (chunk: string) => {
    socket.text += chunk;
  });
  await once(socket, 'connect');
  return socket;
}

const HEAD = 'Host: x\r\nContent-Type: application/json\r\n';
const SHORT = { headMs: 1_000, checkEveryMs: 20 };

describe('a connection that sends no request', () => {
  test('is closed, whether it sends nothing or empty lines', async () => {
    await start({ http: { timeouts: SHORT } });
    const [nothing, emptyLines] = await Promise.all([open(), open()]);
    emptyLines.write('\r\n\r\n');
    await Promise.all([once(nothing, 'close'), once(emptyLines, 'close')]);
    for (const { text } of [nothing, emptyLines]) expect(text).toMatch(/^HTTP\/1.1 408 Request Timeout/);
  });

  test('is closed; WebSockets, streams, slow responses and kept-alive connections stay open', async () => {
    const waiting = Promise.withResolvers<void>();
    const slow = (app: App) =>
      publicRoute(app, {
        method: 'GET',
        url: '/slow',
        operationId: 'slow',
        summary: 'Waits',
        description: 'For this test.',
        tags: ['Test'],
        reply: { 200: Type.Object({}) },
        handler: async () => {
          await waiting.promise;
          return {};
        },
      });
    await start({ http: { timeouts: SHORT, routes: slow } });
    const inboxToken = 'a'.repeat(64);
    await it.project.as('ada')('PUT', '/channels/in_app/inbox/tokens', { token: inboxToken });
    const query = new URLSearchParams({ api_key: it.project.apiKey, token: inboxToken });
    const webSocket = new WebSocket(`${it.address.replace('http', 'ws')}/?${query}`);
    await once(webSocket, 'open');
    const token = it.project.userJwt({ user_external_id: 'ada' });
    const stream = await open();
    stream.write(
      `GET /v2/notifications/stream HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${token}\r\n\r\n`,
    );
    await once(stream, 'data');
    const busy = await open();
    busy.write('GET /v2/slow HTTP/1.1\r\nHost: x\r\n\r\n');
    const keptAlive = await open();
    keptAlive.write('GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n');
    await once(keptAlive, 'data');
    await once(await open(), 'close'); // now the others are older than the limit
    webSocket.ping();
    await once(webSocket, 'pong');
    expect(stream.destroyed).toBe(false);
    keptAlive.write('GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n');
    await once(keptAlive, 'data');
    waiting.resolve();
    await once(busy, 'data');
    expect(busy.text).toMatch(/^HTTP\/1.1 200 OK/);
    webSocket.terminate();
  });
});

describe('a connection without a request', () => {
  const LONG = { settings: { SHUTDOWN_GRACE_SECONDS: '3600' } };
  const accepted = () =>
    until(
      () => promisify(it.http.fastify.server.getConnections.bind(it.http.fastify.server))(),
      (count) => count === 1,
    );

  test('does not delay a stop', async () => {
    await start(LONG);
    const socket = await open();
    await accepted();
    await Promise.all([it.restart(), once(socket, 'close')]);
    expect(socket.text).toBe('');
  });

  test('that was opened just before a stop gets its response', async () => {
    await start(LONG);
    const socket = await open();
    await accepted();
    const restarted = it.restart();
    socket.write('GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n');
    await Promise.all([restarted, once(socket, 'close')]);
    expect(socket.text).toMatch(/^HTTP\/1.1 200 OK/);
  });
});

test('a connection beyond MAX_CONNECTIONS is closed at once, logged and counted', async () => {
  await start({ settings: { MAX_CONNECTIONS: '2' }, logLevel: 'warn' });
  const [first, second] = [await open(), await open()];
  // The system accepts another one before the server closes it.
  const third = await open();
  await once(third, 'close');
  expect(third.text).toBe('');
  second.write('GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n');
  await expect.poll(() => second.text).toMatch(/^belfry_http_connections_refused_total [1-9]/m);
  expect(it.logged.join()).toContain('MAX_CONNECTIONS');
  first.destroy();
  await expect
    .poll(async () => {
      const again = await open();
      again.write('GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n');
      await once(again, 'close');
      return again.text;
    })
    .toContain('200 OK');
});

describe('a request without a token whose body is unfinished', () => {
  const post = (length: number) => `POST /v2/broadcasts HTTP/1.1\r\n${HEAD}Content-Length: ${length}\r\n\r\n`;

  test('gets its 401, and the connection is closed, even if the client never closes its side', async () => {
    await start({ http: { timeouts: { lingerMs: 100 } } });
    for (const allowHalfOpen of [false, true]) {
      const chunked = post(0).replace(/Content-Length.*/, 'Transfer-Encoding: chunked');
      for (const unfinished of [`${post(100)}{`, `${post(10_000_000)}{`, `${chunked}64\r\n{`, chunked]) {
        const socket = await open({ allowHalfOpen });
        socket.write(unfinished);
        await once(socket, 'end');
        expect(socket.text).toMatch(/^HTTP\/1.1 401 Unauthorized\r\n[\s\S]*invalid_jwt_format/);
        expect(socket.text).toMatch(/\r\nconnection: close\r\n/i);
      }
    }
    const openConnections = promisify(it.http.fastify.server.getConnections.bind(it.http.fastify.server));
    await expect.poll(() => openConnections()).toBe(0);
  });

  test('is not read to its end, and its response is not lost', async () => {
    await start({ http: { timeouts: { lingerMs: 300 } } });
    const accepted = once(it.http.fastify.server, 'connection') as Promise<[Socket]>;
    const socket = await open({ allowHalfOpen: true });
    const [side] = await accepted;
    let read = 0;
    side.once('close', () => {
      read = side.bytesRead;
    });
    socket.write(post(200_000_000));
    // Not `once`, which rejects: the socket is still writing, so it closes with an error.
    const closed = new Promise((resolve) => socket.once('close', resolve));
    const sending = setInterval(() => {
      if (socket.writableLength < 1_000_000) socket.write('x'.repeat(1_000_000));
    }, 1);
    await closed;
    clearInterval(sending);
    expect(socket.text).toMatch(/^HTTP\/1.1 401 Unauthorized/);
    await expect.poll(() => read).toBeGreaterThan(0);
    expect(read).toBeLessThan(4_000_000);
  });

  test('gets its 401 in ordinary clients; after a short body the connection stays open', async () => {
    await start();
    const body = 'x'.repeat(10 * 1_048_576);
    for (let attempt = 1; attempt <= 3; attempt += 1)
      expect((await it.request('POST', '/v2/broadcasts', { raw: body })).status).toBe(401);
    const socket = await open();
    socket.write(`${post(2)}{}${post(2)}{}`);
    await expect.poll(() => socket.text.match(/HTTP\/1.1 401/g)?.length).toBe(2);
    expect(socket.text).not.toMatch(/connection: close/i);
  });
});

describe('the Host header', () => {
  const get = async (head: string, version = '1.1') => {
    const socket = await open();
    socket.write(`GET /v2/users?limit=1 HTTP/${version}\r\nConnection: close\r\n${head}\r\n`);
    await once(socket, 'close');
    return socket.text;
  };

  test('that is missing, repeated or invalid is a 400 with the usual body of errors', async () => {
    await start();
    const bearer = `Authorization: Bearer ${it.project.jwt}\r\n`;
    for (const [head, why] of [
      ['', 'The Host header is missing'],
      ['Host: a.example\r\nHost: b.example\r\n', 'more than one Host header'],
      ['Host: a.example\r\nhost: a.example\r\n', 'more than one Host header'],
      ...[
        'evil.example/a?b#',
        'evil.example?',
        'user@evil.example',
        'evil example',
        'a.example:port',
        'a.example:123456',
        'a.example:80:80',
        '[::1',
        '"><script>',
        'a\\b',
        `${'a'.repeat(300)}.example`,
        '-evil.example',
        'ä.example',
      ].map((host) => [`Host: ${host}\r\n`, 'not a host name']),
    ] as [string, string][]) {
      const text = await get(`${head}${bearer}`);
      expect(text, head).toMatch(/^HTTP\/1.1 400 Bad Request\r\n/);
      const [, body = ''] = text.split('\r\n\r\n');
      expect(JSON.parse(body).errors[0], head).toMatchObject({
        code: 'bad_request',
        message: expect.stringContaining(why),
      });
    }
  });

  test('is the host of links', async () => {
    await start();
    const bearer = `Authorization: Bearer ${it.project.jwt}\r\n`;
    for (const host of ['a.example', 'a.example:8080', 'belfry_web:3000', '127.0.0.1', '[::1]:3000'])
      expect(await get(`Host: ${host}\r\n${bearer}`), host).toContain(`"first":"http://${host}/v2/users?`);
    expect(await get(bearer, '1.0')).toMatch(/^HTTP\/1.1 200 OK/);
  });
});

test('an unknown Expect header is a 417 with the usual body of errors', async () => {
  await start();
  const text = await rawExchange(it.address, 'GET /healthz HTTP/1.1\r\nHost: x\r\nExpect: tea\r\n\r\n');
  expect(text).toMatch(/^HTTP\/1.1 417 Expectation Failed\r\n/);
  expect(JSON.parse(text.split('\r\n\r\n')[1] ?? '')).toMatchObject({
    errors: [{ code: 'expectation_failed' }],
  });
});

test('responses are neither cached nor sniffed, except for public ones', async () => {
  await start();
  const token = it.project.jwt;
  for (const [path, options] of [
    ['/v2/users', { token }],
    ['/v2/users', {}],
    ['/v2/events', { token }],
    ['/v2/nothing', { token }],
    ['/v2/integrations', { token }],
    ['/v2/notifications', { token: it.project.userJwt({ user_external_id: 'ada' }) }],
    ['/metrics', {}],
  ] as const) {
    const { headers } = await it.request('GET', path, options);
    expect(headers.get('cache-control'), path).toBe('no-store');
    expect(headers.get('x-content-type-options'), path).toBe('nosniff');
  }
  expect((await it.request('GET', '/v2/openapi.json')).headers.get('cache-control')).toBe('no-cache');
  const page = await it.request('GET', '/docs');
  expect([page.status, page.headers.get('cache-control')]).toEqual([200, 'no-cache']);
});

const MOST_WAITING = '/proc/sys/net/core/somaxconn';
const RUSH = 1_500;
const hasRoom = existsSync(MOST_WAITING) && Number(readFileSync(MOST_WAITING, 'utf8')) > RUSH;

/** How many connections to the port the system has not completed yet. */
function incomplete(port: number): number {
  const remote = `:${port.toString(16).toUpperCase().padStart(4, '0')}`;
  const lines = readFileSync('/proc/net/tcp', 'utf8').split('\n');
  return lines
    .map((line) => line.trim().split(/\s+/))
    .filter(([, , to, state]) => to?.endsWith(remote) && state === '02').length;
}

test.skipIf(!hasRoom)(
  'clients that connect at the same moment wait for the server, and get responses',
  async () => {
    await start();
    const port = Number(new URL(it.address).port);
    const rush = Array.from({ length: RUSH }, () => connect({ port, host: '127.0.0.1' }));
    client.push(...rush);
    const responses = rush.map(async (socket) => {
      socket.write('GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n');
      const [chunk] = await once(socket, 'data');
      return chunk.toString('latin1', 0, 12);
    });
    // The clients connect in this turn of the event loop, in which the server accepts none.
    await new Promise<void>((resolve) => process.nextTick(resolve));
    const deadline = performance.now() + 5_000;
    while (incomplete(port) > 0 && performance.now() < deadline);
    expect(incomplete(port)).toBe(0);
    expect(new Set(await Promise.all(responses))).toEqual(new Set(['HTTP/1.1 200']));
  },
);
