import { once } from 'node:events';
import type { IncomingMessage } from 'node:http';
import { Type } from 'typebox';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { WebSocket } from 'ws';
import { issueToken } from '../../src/domain/setup/projects/tokens.ts';
import { clientAddress } from '../../src/http/client-address.ts';
import { network } from '../../src/http/rate-limit.ts';
import { type App, projectRoute, userRoute } from '../../src/http/route.ts';
import { startTestService, type TestService } from '../support/service.ts';
import { TestClock } from '../support/test-clock.ts';

function nothingRoutes(app: App): void {
  const common = {
    summary: 'Nothing',
    description: 'For this test.',
    tags: ['Test'] as [string],
    reply: { 200: Type.Object({}) },
    handler: async () => ({}),
  };
  projectRoute(app, { ...common, method: 'GET', url: '/nothing', operationId: 'read' });
  projectRoute(app, { ...common, method: 'PUT', url: '/nothing', operationId: 'write' });
  userRoute(app, { ...common, method: 'GET', url: '/mine', operationId: 'mine' });
}

const clock = new TestClock();
let it: TestService;
beforeAll(async () => {
  it = await startTestService({
    clock,
    http: { routes: nothingRoutes },
    settings: { RATE_LIMIT_READS: '5', RATE_LIMIT_WRITES: '3', RATE_LIMIT_IP: '4' },
  });
  // Limits count by the second. All requests between two advances are in the same second.
  clock.stop();
});
afterAll(() => it.stop());

const tokenOf = async (name: string) => (await it.createProject(name)).jwt;
/** The statuses of consecutive requests. */
async function statuses(times: number, send: () => Promise<{ status: number }>): Promise<number[]> {
  const found: number[] = [];
  for (let index = 0; index < times; index += 1) found.push((await send()).status);
  return found;
}

describe('OPTIONS', () => {
  test('counts as a read of its credential, or of its address without one', async () => {
    const token = await tokenOf('options');
    const options = () => it.request('OPTIONS', '/v2/nothing', { token });
    expect((await options()).headers.get('ratelimit-remaining')).toBe('4');
    expect(await statuses(3, options)).toEqual([204, 204, 204]);
    expect((await it.request('GET', '/v2/nothing', { token })).status).toBe(200);
    expect((await options()).status).toBe(429);
    expect((await it.request('PUT', '/v2/nothing', { token })).status).toBe(200);
    clock.advance(60_000);
    const stranger = () => it.request('OPTIONS', '/v2/nothing');
    expect(await statuses(5, stranger)).toEqual([204, 204, 204, 204, 429]);
    // The preflight of a browser does not count as a request of the user.
    const preflight = { origin: 'https://a.example', 'access-control-request-method': 'PUT' };
    expect((await it.request('OPTIONS', '/v2/nothing', { headers: preflight })).status).toBe(204);
    clock.advance(60_000);
  });
});

describe('a credential', () => {
  test('has exactly its reads and writes a minute, and responses report the rest', async () => {
    const token = await tokenOf('exact');
    const read = () => it.request('GET', '/v2/nothing', { token });
    const first = await read();
    expect([first.headers.get('ratelimit-limit'), first.headers.get('ratelimit-remaining')]).toEqual([
      '5',
      '4',
    ]);
    expect(await statuses(6, read)).toEqual([200, 200, 200, 200, 429, 429]);
    const refused = await read();
    expect([refused.status, refused.codes, refused.headers.get('ratelimit-remaining')]).toEqual([
      429,
      ['rate_limit_exceeded'],
      '0',
    ]);
    const wait = Number(refused.headers.get('retry-after'));
    expect([wait, Number(refused.headers.get('ratelimit-reset'))]).toEqual([60, 60]);
    expect(await statuses(4, () => it.request('PUT', '/v2/nothing', { token }))).toEqual([
      200, 200, 200, 429,
    ]);
    clock.advance((wait - 1) * 1000);
    expect(await statuses(1, read)).toEqual([429]);
    clock.advance(1000);
    expect(await statuses(6, read)).toEqual([200, 200, 200, 200, 200, 429]);
  });

  test('does not get more with concurrent requests', async () => {
    const token = await tokenOf('burst');
    const all = await Promise.all(
      Array.from({ length: 20 }, () => it.request('GET', '/v2/nothing', { token })),
    );
    expect(all.filter(({ status }) => status === 200)).toHaveLength(5);
  });

  test('is a token of a project, or a user with any token', async () => {
    const [first, second] = [
      await tokenOf('first'),
      (await issueToken(it.context, { projectId: it.project.id, name: 'second' }))?.token,
    ];
    expect(await statuses(6, () => it.request('GET', '/v2/nothing', { token: first }))).toContain(429);
    expect((await it.request('GET', '/v2/nothing', { token: second ?? '' })).status).toBe(200);
    let minted = 0;
    const asAnn = () =>
      it.request('GET', '/v2/mine', {
        token: it.project.userJwt({ user_external_id: 'ann', minted: minted++ }),
      });
    expect(await statuses(6, asAnn)).toEqual([200, 200, 200, 200, 200, 429]);
    expect(
      (await it.request('GET', '/v2/mine', { token: it.project.userJwt({ user_external_id: 'bob' }) }))
        .status,
    ).toBe(200);
  });

  test('has the limits of its project, where 0 means none', async () => {
    const project = await it.createProject('special');
    await it.context.db.query(
      { name: 'limits', text: 'update projects set rate_limits = $2 where id = $1' },
      [project.id, '{"reads":0,"writes":1}'],
    );
    it.context.bus.publish({ type: 'project_changed', projectId: project.id });
    const read = await it.request('GET', '/v2/nothing', { token: project.jwt });
    expect([read.status, read.headers.get('ratelimit-limit')]).toEqual([200, null]);
    expect(await statuses(10, () => it.request('GET', '/v2/nothing', { token: project.jwt }))).toEqual(
      Array(10).fill(200),
    );
    expect(await statuses(2, () => it.request('PUT', '/v2/nothing', { token: project.jwt }))).toEqual([
      200, 429,
    ]);
  });
});

describe('a caller without a valid credential', () => {
  test('is limited by address, despite any proxy header, and does not affect valid ones', async () => {
    let index = 0;
    const guess = () =>
      it.request('GET', '/v2/nothing', {
        token: `a.b.${index++}`,
        headers: { 'x-forwarded-for': `9.9.9.${index}` },
      });
    expect(await statuses(6, guess)).toEqual([401, 401, 401, 401, 429, 429]);
    expect((await it.request('GET', '/v2/unknown')).status).toBe(429);
    const preflight = { origin: 'https://x.example', 'access-control-request-method': 'GET' };
    expect(await statuses(10, () => it.request('OPTIONS', '/v2/nothing', { headers: preflight }))).toEqual(
      Array(10).fill(204),
    );
    expect((await it.request('GET', '/v2/nothing', { token: it.project.jwt })).status).toBe(200);
    expect((await it.request('GET', '/healthz')).status).toBe(200);
  });
});

describe('behind trusted proxies, the address of a caller without a valid credential', () => {
  const clock = new TestClock();
  let behind: TestService;
  beforeAll(async () => {
    behind = await startTestService({
      clock,
      logLevel: 'info',
      settings: { RATE_LIMIT_IP: '2', TRUSTED_PROXIES: '127.0.0.1,10.0.0.0/8' },
    });
    clock.stop();
  });
  afterAll(() => behind.stop());
  const guesses = (forwarded: (index: number) => string) => {
    let index = 0;
    return statuses(4, () =>
      behind.request('GET', '/v2/users', {
        token: 'a.b.c',
        headers: { 'x-forwarded-for': forwarded(index++) },
      }),
    );
  };

  test('is the last one that is not such a proxy, whatever the caller put before it', async () => {
    expect(await guesses(() => '192.0.2.1')).toEqual([401, 401, 429, 429]);
    expect(await guesses((index) => `9.9.9.${index}, 192.0.2.2`)).toEqual([401, 401, 429, 429]);
    expect(
      await guesses((index) => `${index}, 10.0.0.${index}, 192.0.2.3:${index}, 10.1.${index}.1`),
    ).toEqual([401, 401, 429, 429]);
    expect(behind.logged.join('')).toContain('"address":"192.0.2.3"');
  });

  test('is the first 64 bits of an IPv6 address', async () => {
    expect(await guesses((index) => `2001:db8::${index}:0:0:0:1, 10.0.0.1`)).toEqual(Array(4).fill(401));
    expect(await guesses((index) => `[2001:db8:0:9:${index}::1]:443`)).toEqual([401, 401, 429, 429]);
  });

  test('is that of the proxy, if the header has no valid address', async () => {
    expect(await guesses((index) => `unknown-${index}`)).toEqual([401, 401, 429, 429]);
  });

  test('is that of the handshake, for credentials in the first message of a GraphQL client', async () => {
    const forwarded = '192.0.2.4';
    for (let index = 0; index < 2; index += 1) {
      const url = `${behind.address.replace('http', 'ws')}/graphql`;
      const headers = { 'x-forwarded-for': forwarded };
      const socket = new WebSocket(url, 'graphql-transport-ws', { headers });
      socket.on('open', () => socket.send(JSON.stringify({ type: 'connection_init', payload: {} })));
      const [code] = await once(socket, 'close');
      expect(code).toBe(4403);
    }
    expect(await guesses(() => forwarded)).toEqual([429, 429, 429, 429]);
  });
});

test('only the headers of trusted proxies count, of IPv4 mapped to IPv6, too', () => {
  const request = (remoteAddress: string, forwarded?: string) =>
    ({ socket: { remoteAddress }, headers: { 'x-forwarded-for': forwarded } }) as unknown as IncomingMessage;
  const addressOf = clientAddress('10.0.0.0/8, fd00::/8');
  expect(addressOf(request('192.0.2.1', '9.9.9.9'))).toBe('192.0.2.1');
  expect(addressOf(request('::ffff:10.0.0.1', '9.9.9.9'))).toBe('9.9.9.9');
  expect(addressOf(request('fd00::1', '9.9.9.9, fd12::3'))).toBe('9.9.9.9');
  expect(addressOf(request('10.0.0.1'))).toBe('10.0.0.1');
  expect(addressOf(request('10.0.0.1', '10.0.0.3, 10.0.0.2'))).toBe('10.0.0.3');
  expect(clientAddress('')(request('10.0.0.1', '9.9.9.9'))).toBe('10.0.0.1');
});

test('a network is an IPv4 address, or the first 64 bits of an IPv6 address in any notation', () => {
  expect(network('192.0.2.7')).toBe('192.0.2.7');
  expect(network('::ffff:192.0.2.7')).toBe('192.0.2.7');
  expect(network('2001:db8:0:1:aaaa::1')).toBe('2001:db8:0:1::/64');
  expect(network('2001:db8::1:bbbb:0:0:2')).toBe('2001:db8:0:1::/64');
  expect(network('2001:0DB8:0000:0001:0:0:0:3')).toBe('2001:db8:0:1::/64');
  expect(network('2001:db8:0:2::1')).not.toBe('2001:db8:0:1::/64');
  expect(network('::1')).toBe('0:0:0:0::/64');
  expect(network('fe80::1%eth0')).toBe('fe80:0:0:0::/64');
});
