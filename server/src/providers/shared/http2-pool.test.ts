import { once } from 'node:events';
import {
  constants,
  createServer,
  type Http2Server,
  type ServerHttp2Session,
  type ServerHttp2Stream,
  type Settings,
} from 'node:http2';
import {
  type AddressInfo,
  createServer as createTcpServer,
  connect as netConnect,
  type Socket,
} from 'node:net';
import { afterEach, describe, expect, test } from 'vitest';
import { createEgressGuard } from '../../lib/egress.ts';
import { Http2Pool } from './http2-pool.ts';
import { createTransport, type HttpResult, type Timeouts } from './transport.ts';

const egress = createEgressGuard({ allow: '127.0.0.0/8' });
// Long enough for a busy machine. Tests of a timeout shorten that one.
const limits: Timeouts = { connectMs: 15_000, replyMs: 15_000, idleMs: 15_000 };
const request = {
  method: 'POST',
  path: '/3/device/0',
  headers: { 'apns-id': 'x' },
  body: '{"a":1}',
} as const;

/** Closed after each test. */
const open: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of open.splice(0).reverse()) await close();
});

type Peer = {
  address: string;
  sessions: ServerHttp2Session[];
  /** The streams without a response, in order. */
  streams: ServerHttp2Stream[];
  /** The maximum of streams that were open at once on one session. */
  most: number;
  /** The path of every request. */
  paths: string[];
  /** Resets all connections. */
  reset(): void;
};

/** A server on real sockets. The test responds to its streams, or `respond` does at once. */
async function startPeer({
  settings = {},
  respond,
}: {
  settings?: Settings;
  respond?: (stream: ServerHttp2Stream) => void;
} = {}): Promise<Peer> {
  const server: Http2Server = createServer({ settings });
  const sockets = new Set<Socket>();
  const reset = () => {
    for (const socket of sockets) socket.resetAndDestroy();
  };
  const peer: Peer = { address: '', sessions: [], streams: [], most: 0, paths: [], reset };
  server.on('connection', (socket: Socket) => sockets.add(socket));
  server.on('session', (session) => {
    peer.sessions.push(session);
    session.on('error', () => {});
    let count = 0;
    session.on('stream', (stream, headers) => {
      count += 1;
      peer.most = Math.max(peer.most, count);
      peer.paths.push(String(headers[':path']));
      stream.on('error', () => {});
      stream.once('close', () => {
        count -= 1;
      });
      stream.resume();
      if (respond === undefined) peer.streams.push(stream);
      else respond(stream);
    });
  });
  await once(server.listen(0, '127.0.0.1'), 'listening');
  peer.address = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  open.push(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  return peer;
}

function poolTo(address: string, timeouts: Partial<Timeouts> = {}, options?: { pingAfterMs: number }) {
  const transport = createTransport({ egress, timeouts: { ...limits, ...timeouts } });
  const pool = new Http2Pool(transport.at(address), transport.timeouts, options);
  open.push(
    () => pool.close({ graceMs: 0 }),
    () => transport.close(),
  );
  return pool;
}

function ok(stream: ServerHttp2Stream, body = 'ok'): void {
  stream.respond({ ':status': 200, 'apns-id': 'y' });
  stream.end(body);
}

const streams = (peer: Peer, count: number) => expect.poll(() => peer.streams.length).toBe(count);
const statuses = (responses: HttpResult[]) =>
  responses.map((response) => ('error' in response ? response.error.code : response.status));

test('a request arrives unchanged, and its response is returned', async () => {
  const got: unknown[] = [];
  const peer = await startPeer({
    respond: (stream) => {
      const chunks: Buffer[] = [];
      stream.on('data', (chunk: Buffer) => chunks.push(chunk));
      stream.on('end', () => {
        got.push(stream.sentHeaders, Buffer.concat(chunks).toString());
        ok(stream, 'ä');
      });
    },
  });
  const response = await poolTo(`${peer.address}/base`).request(request);
  expect(response).toEqual({ status: 200, headers: expect.objectContaining({ 'apns-id': 'y' }), text: 'ä' });
  expect(peer.paths).toEqual(['/base/3/device/0']);
  expect(got[1]).toBe('{"a":1}');
});

describe('sessions', () => {
  test('one session carries many concurrent requests, and later ones', async () => {
    const peer = await startPeer({ respond: ok });
    const pool = poolTo(peer.address);
    for (let round = 0; round < 3; round += 1) {
      const responses = await Promise.all(Array.from({ length: 100 }, () => pool.request(request)));
      expect(new Set(statuses(responses))).toEqual(new Set([200]));
    }
    expect(peer.sessions).toHaveLength(1);
    expect(peer.most).toBeGreaterThan(1);
  });

  test('keep to the server’s limit of streams, and at most four are opened', async () => {
    const peer = await startPeer({ settings: { maxConcurrentStreams: 1 } });
    const pool = poolTo(peer.address);
    const responses = Promise.all(Array.from({ length: 12 }, () => pool.request(request)));
    await streams(peer, 1);
    expect(peer.sessions).toHaveLength(1); // another only after this one has responded and is still full
    let done = 0;
    while (done < 12) {
      await expect.poll(() => peer.streams.length).toBeGreaterThan(0);
      for (const stream of peer.streams.splice(0)) {
        ok(stream);
        done += 1;
      }
    }
    expect(statuses(await responses)).toEqual(Array(12).fill(200));
    expect(peer.most).toBe(1);
    expect(peer.sessions.length).toBeGreaterThan(1);
    expect(peer.sessions.length).toBeLessThanOrEqual(4);
  });

  test('use a higher limit of the server at once', async () => {
    const peer = await startPeer({ settings: { maxConcurrentStreams: 1 } });
    const pool = poolTo(peer.address);
    const responses = Promise.all(Array.from({ length: 10 }, () => pool.request(request)));
    await streams(peer, 1);
    peer.sessions[0]?.settings({ maxConcurrentStreams: 1000 });
    await streams(peer, 10);
    for (const stream of peer.streams) ok(stream);
    expect(statuses(await responses)).toEqual(Array(10).fill(200));
    expect(peer.sessions).toHaveLength(1);
  });
});

describe('sessions whose server changes its limit', () => {
  test('keep to the new limit', async () => {
    const peer = await startPeer({ settings: { maxConcurrentStreams: 100 } });
    const pool = poolTo(peer.address);
    const first = Promise.all([1, 2, 3].map(() => pool.request(request)));
    await streams(peer, 3);
    peer.sessions[0]?.settings({ maxConcurrentStreams: 1 });
    await once(peer.sessions[0] as ServerHttp2Session, 'localSettings'); // acknowledged
    const then = Promise.all([4, 5].map(() => pool.request(request)));
    for (const stream of peer.streams.splice(0)) ok(stream);
    expect(statuses(await first)).toEqual([200, 200, 200]);
    for (let done = 0; done < 2; done += 1) {
      await expect.poll(() => peer.streams.length).toBeGreaterThan(0);
      for (const session of peer.sessions)
        expect(peer.streams.filter((one) => one.session === session).length).toBeLessThanOrEqual(1);
      const [stream] = peer.streams.splice(0, 1);
      if (stream !== undefined) ok(stream);
    }
    expect(statuses(await then)).toEqual([200, 200]);
  });

  test('send nothing while the limit is 0, as before a server knows its client', async () => {
    const peer = await startPeer({ settings: { maxConcurrentStreams: 0 } });
    const pool = poolTo(peer.address);
    const asked = pool.request(request);
    await expect.poll(() => peer.sessions.length).toBe(1);
    expect(peer.paths).toEqual([]);
    peer.sessions[0]?.settings({ maxConcurrentStreams: 10 });
    await streams(peer, 1);
    for (const stream of peer.streams) ok(stream);
    expect(await asked).toMatchObject({ status: 200 });
    expect(peer.sessions).toHaveLength(1);
  });
});

describe('GOAWAY', () => {
  test('in two steps, the first without a stream id: no new stream, no duplicate', async () => {
    const peer = await startPeer();
    const pool = poolTo(peer.address);
    const [first, second] = [pool.request(request), pool.request({ ...request, path: '/second' })];
    await streams(peer, 2);
    const [one] = peer.streams.splice(0);
    peer.sessions[0]?.goaway(constants.NGHTTP2_NO_ERROR, 2 ** 31 - 1);
    // The session accepts no more requests, though those it has may still get a response.
    const third = pool.request({ ...request, path: '/third' });
    await streams(peer, 1);
    expect(peer.streams[0]?.session).toBe(peer.sessions[1]);
    peer.sessions[0]?.goaway(constants.NGHTTP2_NO_ERROR, 1);
    await streams(peer, 2); // the second request, which the GOAWAY left out
    expect(peer.paths).toEqual(['/3/device/0', '/second', '/third', '/second']);
    if (one !== undefined) ok(one, 'from the old one');
    for (const stream of peer.streams) ok(stream);
    expect(await first).toMatchObject({ status: 200, text: 'from the old one' });
    expect(statuses(await Promise.all([second, third]))).toEqual([200, 200]);
  });

  test('a request that waits for room is sent on a new session at once', async () => {
    const peer = await startPeer({ settings: { maxConcurrentStreams: 1 } });
    const pool = poolTo(peer.address);
    const first = pool.request(request);
    await streams(peer, 1);
    const second = pool.request({ ...request, path: '/second' });
    peer.sessions[0]?.goaway(constants.NGHTTP2_NO_ERROR, 1); // it covers the first, which has no response yet
    await streams(peer, 2);
    expect(peer.streams[1]?.session).toBe(peer.sessions[1]);
    for (const stream of peer.streams) ok(stream);
    expect(statuses(await Promise.all([first, second]))).toEqual([200, 200]);
  });

  test('repeatedly under load: every request gets a response, and none is processed twice', async () => {
    const processed = new Map<string, number>();
    let taken = 0;
    const peer = await startPeer({
      respond: (stream) => {
        const path = peer.paths.at(-1) ?? '';
        const { session } = stream;
        taken += 1;
        // The GOAWAY leaves requests after the twentieth of a session unprocessed.
        const last = 2 * 20 - 1;
        if (session === undefined || (stream.id ?? 0) > last) return;
        processed.set(path, (processed.get(path) ?? 0) + 1);
        if (stream.id === last) (session as ServerHttp2Session).goaway(constants.NGHTTP2_NO_ERROR, last);
        setImmediate(() => ok(stream));
      },
    });
    const pool = poolTo(peer.address);
    // Few enough for the retries: a request is sent on at most three sessions.
    const responses = [];
    for (let round = 0; round < 10; round += 1) {
      const sends = Array.from({ length: 50 }, (_, n) =>
        pool.request({ ...request, path: `/${round}/${n}` }),
      );
      responses.push(...(await Promise.all(sends)));
    }
    expect(new Set(statuses(responses))).toEqual(new Set([200]));
    expect(processed.size).toBe(500);
    expect(new Set(processed.values())).toEqual(new Set([1]));
    expect(taken).toBeGreaterThan(500);
    expect(peer.sessions.length).toBeGreaterThanOrEqual(25);
  });

  test('in flight: requests that it covers get a response, the others move to a new session', async () => {
    const peer = await startPeer();
    const pool = poolTo(peer.address);
    const [first, second] = [pool.request(request), pool.request({ ...request, path: '/second' })];
    await streams(peer, 2);
    const [one, two] = peer.streams.splice(0);
    expect([one?.id, two?.id]).toEqual([1, 3]);
    peer.sessions[0]?.goaway(constants.NGHTTP2_NO_ERROR, 1);
    await streams(peer, 1);
    expect(peer.sessions).toHaveLength(2);
    expect(peer.paths).toEqual(['/3/device/0', '/second', '/second']);
    const third = pool.request(request);
    await streams(peer, 2);
    expect(peer.streams[1]?.session).toBe(peer.sessions[1]);
    if (one !== undefined) ok(one, 'from the old one');
    for (const stream of peer.streams) ok(stream);
    expect(await first).toMatchObject({ status: 200, text: 'from the old one' });
    expect(statuses(await Promise.all([second, third]))).toEqual([200, 200]);
    await expect.poll(() => peer.sessions[0]?.destroyed).toBe(true);
  });

  test('with an error: requests it covers may have been processed, the others are retried', async () => {
    const peer = await startPeer();
    const pool = poolTo(peer.address);
    const [first, second] = [pool.request(request), pool.request(request)];
    await streams(peer, 2);
    peer.streams.splice(0);
    peer.sessions[0]?.goaway(constants.NGHTTP2_ENHANCE_YOUR_CALM, 1);
    expect(await first).toMatchObject({
      error: { code: 'ECONNRESET', message: expect.stringContaining('GOAWAY, 11') },
      written: true,
    });
    await streams(peer, 1);
    for (const stream of peer.streams) ok(stream);
    expect(await second).toMatchObject({ status: 200 });
  });
});

test.each([constants.NGHTTP2_INTERNAL_ERROR, constants.NGHTTP2_CANCEL])(
  'a stream that is reset with code %i before its response is complete is ambiguous; others continue',
  async (code) => {
    const peer = await startPeer();
    const pool = poolTo(peer.address);
    const [broken, whole] = [pool.request(request), pool.request(request)];
    await streams(peer, 2);
    const [one, two] = peer.streams.splice(0);
    one?.respond({ ':status': 200 });
    one?.write('half of a resp');
    one?.close(code);
    expect(await broken).toMatchObject({ error: {}, written: true });
    if (two !== undefined) ok(two);
    expect(await whole).toMatchObject({ status: 200 });
    expect(peer.sessions).toHaveLength(1);
  },
);

test('a refused stream is retried, with a limit', async () => {
  let refusals = 1;
  const peer = await startPeer({
    respond: (stream) => {
      refusals -= 1;
      if (refusals >= 0) stream.close(constants.NGHTTP2_REFUSED_STREAM);
      else ok(stream);
    },
  });
  const pool = poolTo(peer.address);
  expect(await pool.request(request)).toMatchObject({ status: 200 });
  expect(peer.paths).toHaveLength(2);
  refusals = 100;
  expect(await pool.request(request)).toMatchObject({ error: { code: 'REFUSED_STREAM' }, written: false });
  expect(peer.paths).toHaveLength(5);
});

describe('a connection that breaks', () => {
  test('ends the requests in flight as ambiguous; the next request opens a new one', async () => {
    const peer = await startPeer();
    const relay = await startRelay(peer.address);
    const pool = poolTo(relay.address);
    const lost = Promise.all([pool.request(request), pool.request(request)]);
    await streams(peer, 2);
    const [done] = peer.streams.splice(0);
    done?.respond({ ':status': 200 });
    done?.write('half of a resp');
    await expect.poll(() => relay.passed()).toContain('half of a resp');
    relay.cut();
    for (const response of await lost) expect(response).toMatchObject({ error: {}, written: true });
    const next = pool.request(request);
    await streams(peer, 1);
    for (const stream of peer.streams) ok(stream);
    expect(await next).toMatchObject({ status: 200 });
  });

  test('silently is detected by a ping, when idle and when a response is late', async () => {
    const peer = await startPeer({ respond: ok });
    const relay = await startRelay(peer.address);
    const idle = poolTo(relay.address, { connectMs: 1_000, replyMs: 1_000 }, { pingAfterMs: 20 });
    expect(await idle.request(request)).toMatchObject({ status: 200 });
    // It survives several pings with a response.
    const pings = relay.bytes();
    await expect.poll(() => relay.bytes() - pings).toBeGreaterThan(3 * 17);
    expect(peer.sessions).toHaveLength(1);
    relay.freeze();
    await expect.poll(() => relay.closed()).toBe(1);
    relay.thaw();
    expect(await idle.request(request)).toMatchObject({ status: 200 });

    const busy = poolTo(relay.address, { connectMs: 1_000, replyMs: 500 });
    expect(await busy.request(request)).toMatchObject({ status: 200 });
    relay.freeze();
    const closed = relay.closed();
    expect(await busy.request(request)).toMatchObject({ error: { code: 'ETIMEDOUT' }, written: true });
    await expect.poll(() => relay.closed()).toBeGreaterThan(closed);
    relay.thaw();
    expect(await busy.request(request)).toMatchObject({ status: 200 });
  });
});

describe('no response', () => {
  test('in time: the stream is cancelled, the session continues', async () => {
    const peer = await startPeer();
    const pool = poolTo(peer.address, { replyMs: 1_000 });
    const asked = pool.request(request);
    await streams(peer, 1);
    const closed = once(peer.streams[0] as ServerHttp2Stream, 'close');
    expect(await asked).toMatchObject({ error: { code: 'ETIMEDOUT' }, written: true });
    await closed;
    peer.streams.splice(0);
    const next = pool.request(request);
    await streams(peer, 1);
    for (const stream of peer.streams) ok(stream);
    expect(await next).toMatchObject({ status: 200 });
    expect(peer.sessions).toHaveLength(1);
  });

  test('that ends: a response that trickles in times out', async () => {
    const peer = await startPeer({
      respond: (stream) => {
        stream.respond({ ':status': 200 });
        const timer = setInterval(() => stream.write('x'), 10);
        stream.once('close', () => clearInterval(timer));
      },
    });
    const pool = poolTo(peer.address, { replyMs: 100 });
    expect(await pool.request(request)).toMatchObject({ error: { code: 'ETIMEDOUT' }, written: true });
  });

  test('because no server listens, or it does not speak HTTP/2: nothing was written', async () => {
    const silent = await startTcp(() => {});
    const strange = await startTcp((socket) => socket.end('HTTP/1.1 400 Bad Request\r\n\r\n'));
    expect(await poolTo('http://127.0.0.1:1').request(request)).toMatchObject({
      error: { code: 'ECONNREFUSED' },
      written: false,
    });
    expect(await poolTo(silent, { connectMs: 100 }).request(request)).toMatchObject({
      error: { code: 'ETIMEDOUT' },
      written: false,
    });
    const responses = await Promise.all([1, 2, 3].map(() => poolTo(strange).request(request)));
    for (const response of responses) expect(response).toMatchObject({ error: {}, written: false });
    expect(await poolTo('nonsense').request(request)).toMatchObject({
      error: { code: 'ERR_INVALID_URL' },
      written: false,
    });
  });

  test('because no stream became free in time: nothing was written', async () => {
    const peer = await startPeer({ settings: { maxConcurrentStreams: 1 } });
    const pool = poolTo(peer.address, { connectMs: 500, replyMs: 1_000 });
    const responses = await Promise.all([
      pool.request(request),
      pool.request(request),
      pool.request(request),
    ]);
    expect(responses).toMatchObject([{ written: true }, {}, { written: false }]);
    expect(new Set(statuses(responses))).toEqual(new Set(['ETIMEDOUT']));
  });

  test('because the guard rejects the address', async () => {
    const transport = createTransport({ egress: createEgressGuard(), timeouts: limits });
    const peer = await startPeer({ respond: ok });
    const pool = new Http2Pool(transport.at(peer.address), transport.timeouts);
    expect(await pool.request(request)).toMatchObject({ error: { code: 'EGRESS_REFUSED' }, written: false });
    expect(peer.sessions).toEqual([]);
    await transport.close();
  });

  test('because a header is invalid', async () => {
    const peer = await startPeer({ respond: ok });
    const pool = poolTo(peer.address);
    const headers = { authorization: 'a\nb: c' };
    expect(await pool.request({ ...request, headers })).toMatchObject({ error: {}, written: false });
    expect(await pool.request(request)).toMatchObject({ status: 200 });
    expect(peer.paths).toHaveLength(1);
  });
});

describe('closing', () => {
  test('finishes the requests in flight, and rejects new ones', async () => {
    const peer = await startPeer();
    const pool = poolTo(peer.address);
    const asked = pool.request(request);
    await streams(peer, 1);
    const closed = pool.close();
    expect(await pool.request(request)).toMatchObject({ error: { code: 'CLOSED' }, written: false });
    for (const stream of peer.streams) ok(stream);
    expect(await asked).toMatchObject({ status: 200 });
    await closed;
    await expect.poll(() => peer.sessions[0]?.destroyed).toBe(true);
  });

  test('aborts requests that take longer than the grace period', async () => {
    const peer = await startPeer();
    const pool = poolTo(peer.address, { replyMs: 60_000 });
    const asked = pool.request(request);
    await streams(peer, 1);
    await pool.close({ graceMs: 50 });
    expect(await asked).toMatchObject({ error: {}, written: true });
  });

  test('does not wait for a dead peer', async () => {
    const peer = await startPeer({ respond: ok });
    const relay = await startRelay(peer.address);
    const pool = poolTo(relay.address, { connectMs: 500 });
    await pool.request(request);
    relay.freeze();
    await pool.close({ graceMs: 3_600_000 });
  });
});

async function startTcp(listener: (socket: Socket) => void): Promise<string> {
  const server = createTcpServer((socket) => {
    socket.on('error', () => {});
    open.push(() => socket.destroy());
    listener(socket);
  });
  await once(server.listen(0, '127.0.0.1'), 'listening');
  open.push(() => server.close());
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

/**
 * Forwards bytes until it is frozen. Then it drops them, like a network that has forgotten a
 * connection.
 */
async function startRelay(target: string) {
  let frozen = false;
  let closed = 0;
  let bytes = 0;
  let passed = '';
  const sockets = new Set<Socket>();
  const address = await startTcp((socket) => {
    const upstream = netConnect(Number(new URL(target).port), '127.0.0.1');
    upstream.on('error', () => {});
    open.push(() => upstream.destroy());
    sockets.add(socket);
    socket.on('data', (chunk) => {
      bytes += chunk.length;
      if (!frozen) upstream.write(chunk);
    });
    upstream.on('data', (chunk) => {
      if (frozen) return;
      socket.write(chunk);
      passed += chunk.toString('latin1');
    });
    socket.on('close', () => {
      closed += 1;
      upstream.destroy();
    });
  });
  return {
    address,
    /** The bytes from the client, and those sent to it. */
    bytes: () => bytes,
    passed: () => passed,
    /** The number of connections that the client or the test has closed. */
    closed: () => closed,
    cut() {
      for (const socket of sockets) socket.destroy();
    },
    freeze() {
      frozen = true;
    },
    thaw() {
      frozen = false;
    },
  };
}

test('a server cannot push responses, whose errors nothing handles', async () => {
  const uncaught: unknown[] = [];
  const note = (error: unknown) => uncaught.push(error);
  process.on('uncaughtException', note);
  open.push(() => process.off('uncaughtException', note));
  const pushes: boolean[] = [];
  const peer = await startPeer({
    respond(stream) {
      pushes.push(stream.pushAllowed);
      const end = () => {
        stream.respond({ ':status': 200 });
        stream.end('done');
      };
      if (!stream.pushAllowed) return end();
      stream.pushStream({ ':path': '/pushed' }, (_error, pushed) => {
        pushed.on('error', () => {});
        pushed.respond({ ':status': 200 });
        pushed.write('x');
        end();
      });
    },
  });
  const pool = poolTo(peer.address);
  expect(await pool.request(request)).toMatchObject({ status: 200 });
  await new Promise((resolve) => peer.sessions[0]?.ping(resolve)); // the client has read the push
  peer.reset();
  await expect.poll(() => pool.request(request)).toMatchObject({ status: 200 }); // over another connection
  expect({ uncaught, pushed: pushes.includes(true) }).toEqual({ uncaught: [], pushed: false });
});
