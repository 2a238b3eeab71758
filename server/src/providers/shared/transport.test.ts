import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { createServer, type ServerResponse } from 'node:http';
import { createServer as createHttpsServer } from 'node:https';
import { type AddressInfo, createServer as createTcpServer, type Socket } from 'node:net';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { distrustTestAuthority, trustTestAuthority } from '../../../test/support/test-authority.ts';
import { startVendor, type VendorStandIn } from '../../../test/support/vendor-stand-in.ts';
import { createEgressGuard } from '../../lib/egress.ts';
import { createTransport, type Transport } from './transport.ts';

const open = createEgressGuard({ allow: '127.0.0.0/8' });
// Long enough for a busy machine. Tests of a timeout shorten that one.
const timeouts = { connectMs: 15_000, replyMs: 15_000, idleMs: 1_000 };

let vendor: VendorStandIn;
let transport: Transport;
beforeAll(async () => {
  vendor = await startVendor();
});
afterAll(() => vendor.stop());
beforeEach(() => {
  transport = createTransport({ egress: open, timeouts });
});
afterEach(() => transport.close());

const get = { method: 'GET', path: '/x' } as const;

test('a request arrives unchanged, and its response is returned', async () => {
  vendor.reply({ status: 201, headers: { 'X-Two': 'a' }, body: { ok: true } });
  const response = await transport.at(`${vendor.address}/base/`).request({
    method: 'POST',
    path: '/v1/send?a=%20b',
    headers: { authorization: 'Bearer t', 'content-type': 'application/json' },
    body: '{"ä":1}',
  });
  expect(response).toMatchObject({ status: 201, headers: { 'x-two': 'a' }, text: '{"ok":true}' });
  expect(vendor.requests).toMatchObject([
    {
      method: 'POST',
      path: '/base/v1/send?a=%20b',
      headers: {
        authorization: 'Bearer t',
        'content-type': 'application/json',
        'content-length': '8',
        'user-agent': 'Belfry',
      },
      body: '{"ä":1}',
    },
  ]);
});

describe('the egress guard', () => {
  test('applies to addresses of customers and to vendors', async () => {
    const closed = createTransport({ egress: createEgressGuard(), timeouts });
    vendor.reply({ status: 200 });
    for (const endpoint of [
      closed.at(vendor.address),
      closed.vendor('PROVIDER_TWILIO_BASE_URL', vendor.address),
    ]) {
      expect(await endpoint.request(get)).toEqual({
        error: { code: 'EGRESS_REFUSED', message: expect.stringContaining('a loopback address') },
        written: false,
      });
    }
    expect(vendor.requests).toEqual([]);
    await closed.close();
  });

  test('permits the operator’s replacement of a vendor’s origin, for that vendor only', async () => {
    const moved = createTransport({
      egress: createEgressGuard(),
      origins: { PROVIDER_TWILIO_BASE_URL: `${vendor.address}/twilio` },
      timeouts,
    });
    vendor.reply({ status: 200 });
    expect(
      await moved.vendor('PROVIDER_TWILIO_BASE_URL', 'https://api.twilio.com').request(get),
    ).toMatchObject({
      status: 200,
    });
    expect(vendor.requests.map(({ path }) => path)).toEqual(['/twilio/x']);
    // The same address from a customer, even if a connection to it is open.
    for (const endpoint of [
      moved.at(`${vendor.address}/twilio`),
      moved.vendor('PROVIDER_EXPO_BASE_URL', vendor.address),
    ])
      expect(await endpoint.request(get)).toMatchObject({ error: { code: 'EGRESS_REFUSED' } });
    await moved.close();
  });
});

test('a redirect is returned like any response', async () => {
  vendor.reply({ status: 302, headers: { location: 'http://169.254.169.254/' } });
  expect(await transport.at(vendor.address).request(get)).toMatchObject({ status: 302 });
  expect(vendor.requests).toHaveLength(1);
});

describe('no response', () => {
  test('is an error that states whether the request may have arrived', async () => {
    const gone = await startVendor();
    await gone.stop();
    expect(await transport.at(gone.address).request(get)).toMatchObject({
      error: { code: 'ECONNREFUSED' },
      written: false,
    });
    vendor.reply('cut');
    expect(await transport.at(vendor.address).request(get)).toMatchObject({ error: {}, written: true });
    vendor.reply('hang');
    const impatient = createTransport({ egress: open, timeouts: { ...timeouts, replyMs: 200 } });
    expect(await impatient.at(vendor.address).request(get)).toMatchObject({
      error: { code: 'UND_ERR_HEADERS_TIMEOUT' },
      written: true,
    });
    await impatient.close();
  });

  test.each(['', 'nonsense', 'ftp://127.0.0.1', 'file:///etc/passwd', 'http://['])(
    'from %j',
    async (base) => {
      expect(await transport.at(base).request(get)).toMatchObject({
        error: { code: 'ERR_INVALID_URL' },
        written: false,
      });
    },
  );

  test('because a header is invalid is an error, too', async () => {
    vendor.reply({ status: 200 });
    const response = await transport
      .at(vendor.address)
      .request({ ...get, headers: { authorization: 'a\nb: c' } });
    expect(response).toMatchObject({ error: { code: 'UND_ERR_INVALID_ARG' }, written: false });
    expect(vendor.requests).toEqual([]);
  });

  test('is an error after the transport was closed, at once for requests in flight', async () => {
    vendor.reply('hang');
    const asked = transport.at(vendor.address).request(get);
    await expect.poll(() => vendor.requests.length).toBe(1);
    await transport.close();
    expect(await asked).toMatchObject({ error: {}, written: true });
    expect(await transport.at(vendor.address).request(get)).toMatchObject({ error: { code: 'CLOSED' } });
  });
});

describe('a server that does not stop', () => {
  const responses = {
    /** As fast as possible. */
    endless: (response: ServerResponse) => {
      const chunk = Buffer.alloc(64 * 1024, 'x');
      const pump = () => {
        while (response.write(chunk));
      };
      response.on('drain', pump);
      pump();
    },
    /** Often enough that the timeout between bytes never expires. */
    trickling: (response: ServerResponse) => {
      const timer = setInterval(() => response.write('x'), 20);
      response.on('close', () => clearInterval(timer));
    },
  };

  test.each(['endless', 'trickling'] as const)('%s, is left', async (kind) => {
    const server = createServer((_request, response) => responses[kind](response));
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    const left = new Promise((resolve) =>
      server.once('connection', (socket) => socket.once('close', resolve)),
    );
    const impatient = createTransport({
      egress: open,
      // The whole response has connectMs and twice replyMs.
      timeouts: kind === 'endless' ? timeouts : { ...timeouts, connectMs: 1_000, replyMs: 200 },
    });
    const { port } = server.address() as AddressInfo;
    const response = await impatient.at(`http://127.0.0.1:${port}`).request(get);
    if (kind === 'endless') expect(response).toMatchObject({ status: 200, text: 'x'.repeat(1024 * 1024) });
    else expect(response).toMatchObject({ error: { code: 'ETIMEDOUT' }, written: true });
    await left;
    await impatient.close();
    server.close();
  });
});

test('a request that timed out while waiting for a connection is never written', async () => {
  vendor.reply({ status: 200 });
  const gate = Promise.withResolvers<void>();
  const slow: typeof open = {
    ...open,
    connect: async (options) => {
      await gate.promise;
      return open.connect(options);
    },
  };
  const impatient = createTransport({
    egress: slow,
    timeouts: { ...timeouts, connectMs: 500, replyMs: 500 },
  });
  const endpoint = impatient.at(vendor.address);
  expect(await endpoint.request({ ...get, path: '/late' })).toMatchObject({
    error: { code: 'ETIMEDOUT' },
    written: false,
  });
  const next = endpoint.request({ ...get, path: '/next' });
  gate.resolve();
  expect(await next).toMatchObject({ status: 200 });
  expect(vendor.requests.map(({ path }) => path)).toEqual(['/next']);
  await impatient.close();
});

test('an idle connection is closed by our timeout, not by the server’s', async () => {
  const server = createServer((_request, response) => {
    response.writeHead(204, { connection: 'keep-alive', 'keep-alive': 'timeout=600' }).end();
  });
  server.keepAliveTimeout = 0; // never
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const closed = once(server, 'connection').then(([socket]) => once(socket as Socket, 'close'));
  const { port } = server.address() as AddressInfo;
  const brief = createTransport({ egress: open, timeouts: { ...timeouts, idleMs: 100 } });
  expect(await brief.at(`http://127.0.0.1:${port}`).request(get)).toMatchObject({ status: 204 });
  await closed;
  await brief.close();
  server.close();
});

test('connections are kept alive and reused', async () => {
  const server = createServer((_request, response) => response.end('ok'));
  let connections = 0;
  server.on('connection', () => connections++);
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const endpoint = transport.at(`http://127.0.0.1:${(server.address() as AddressInfo).port}`);
  for (let count = 0; count < 20; count += 1)
    expect(await endpoint.request(get)).toMatchObject({ text: 'ok' });
  // Sometimes two: a request may start before the previous response is known to be complete.
  expect(connections).toBeLessThanOrEqual(2);
  server.close();
});

describe('an origin that cannot be reached', () => {
  /** Accepts connections and stays silent, like a host behind a firewall that drops packets. */
  async function startSilent() {
    const sockets: Socket[] = [];
    const server = createTcpServer((socket) => sockets.push(socket.on('error', () => {})));
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    const { port } = server.address() as AddressInfo;
    return {
      origin: `https://127.0.0.1:${port}`,
      sockets,
      async stop() {
        for (const socket of sockets) socket.destroy();
        server.close();
        await once(server, 'close');
      },
    };
  }

  test('fails concurrent requests together, not one after another', async () => {
    const silent = await startSilent();
    const patient = createTransport({ egress: open, timeouts: { ...timeouts, connectMs: 60_000 } });
    const endpoint = patient.at(silent.origin);
    const responses = Promise.all(Array.from({ length: 20 }, () => endpoint.request(get)));
    // All connect at the same time, before any has failed.
    await expect.poll(() => silent.sockets.length).toBe(20);
    for (const socket of silent.sockets) socket.destroy();
    for (const response of await responses) expect(response).toMatchObject({ error: {}, written: false });
    expect(silent.sockets).toHaveLength(20);
    await patient.close();
    await silent.stop();
  });

  test('does not delay requests to other origins', async () => {
    const silent = await startSilent();
    vendor.reply({ status: 200 });
    const patient = createTransport({ egress: open, timeouts: { ...timeouts, connectMs: 60_000 } });
    const waiting = Promise.all(Array.from({ length: 100 }, () => patient.at(silent.origin).request(get)));
    for (let count = 0; count < 20; count += 1)
      expect(await patient.at(vendor.address).request(get)).toMatchObject({ status: 200 });
    await patient.close();
    for (const response of await waiting) expect(response).toMatchObject({ error: { code: 'CLOSED' } });
    await silent.stop();
  });

  test('is not retried within a second, and used at once when it is back', async () => {
    const silent = await startSilent();
    const endpoint = transport.at(silent.origin.replace('https', 'http'));
    const port = Number(new URL(silent.origin).port);
    await silent.stop();
    const refused = { error: { code: 'ECONNREFUSED' }, written: false };
    expect(await endpoint.request(get)).toMatchObject(refused);
    const back = createServer((_request, response) => response.end('ok'));
    back.listen(port, '127.0.0.1');
    await once(back, 'listening');
    let connections = 0;
    back.on('connection', () => connections++);
    // The same error as the first failure, and nothing was written.
    const burst = await Promise.all(Array.from({ length: 20 }, () => endpoint.request(get)));
    for (const response of burst) expect(response).toMatchObject(refused);
    expect(connections).toBe(0);
    await expect.poll(() => endpoint.request(get), { timeout: 10_000 }).toMatchObject({ text: 'ok' });
    const all = await Promise.all(Array.from({ length: 20 }, () => endpoint.request(get)));
    for (const response of all) expect(response).toMatchObject({ text: 'ok' });
    back.close();
  });

  test('by name is looked up once for a burst of requests', async () => {
    let lookups = 0;
    const resolver = async () => {
      lookups += 1;
      throw Object.assign(new Error('getaddrinfo ENOTFOUND gone.example'), { code: 'ENOTFOUND' });
    };
    const nameless = createTransport({ egress: createEgressGuard({ resolver }), timeouts });
    const endpoint = nameless.at('https://gone.example');
    for (let burst = 0; burst < 5; burst += 1) {
      const responses = await Promise.all(Array.from({ length: 20 }, () => endpoint.request(get)));
      for (const response of responses)
        expect(response).toMatchObject({ error: { code: 'ENOTFOUND' }, written: false });
    }
    expect(lookups).toBe(1);
    await nameless.close();
  });
});

describe('TLS', () => {
  afterEach(distrustTestAuthority);

  test('works with servers that prove their identity, and with no others', async () => {
    const file = (name: string) =>
      readFileSync(new URL(`../../../test/support/tls/${name}`, import.meta.url));
    const server = createHttpsServer(
      { key: file('server.key'), cert: file('server.crt') },
      (_request, response) => response.end('safe'),
    );
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    const { port } = server.address() as AddressInfo;
    const endpoint = transport.at(`https://localhost:${port}`);
    expect(await endpoint.request(get)).toMatchObject({
      error: { code: expect.stringMatching(/UNABLE_TO|SELF_SIGNED/) },
      written: false,
    });
    trustTestAuthority();
    // The failure is remembered for a second.
    await expect.poll(() => endpoint.request(get), { timeout: 10_000 }).toMatchObject({ text: 'safe' });
    await transport.close();
    server.close();
  });

  test('that is never established times out', async () => {
    vendor.reply('hang');
    const impatient = createTransport({ egress: open, timeouts: { ...timeouts, connectMs: 100 } });
    const response = await impatient.at(vendor.address.replace('http:', 'https:')).request(get);
    expect(response).toMatchObject({ error: {}, written: false });
    await impatient.close();
  });
});
