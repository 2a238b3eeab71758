import type { IncomingMessage } from 'node:http';
import { Type } from 'typebox';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { issueToken } from '../../src/domain/setup/projects/tokens.ts';
import { clientAddress } from '../../src/http/client-address.ts';
import { network } from '../../src/http/rate-limit.ts';
import { type App, projectRoute, userRoute } from '../../src/http/route.ts';
import { newProject, startTestServer, type TestServer } from '../support/http.ts';

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

let it: TestServer;
beforeAll(async () => {
  it = await startTestServer({
    routes: nothingRoutes,
    settings: { RATE_LIMIT_READS: '5', RATE_LIMIT_WRITES: '3', RATE_LIMIT_IP: '4' },
  });
  // What is counted is counted by the second: whatever a test sends between two advances is of one.
  it.clock.hold();
});
afterAll(() => it.close());

const tokenOf = async (name: string) => (await newProject(it.context, name)).jwt;
/** The statuses of `times` requests, one after the other. */
async function statuses(times: number, ask: () => Promise<{ status: number }>): Promise<number[]> {
  const found: number[] = [];
  for (let index = 0; index < times; index += 1) found.push((await ask()).status);
  return found;
}

describe('OPTIONS', () => {
  test('is a read of the credential that it comes with, else one of its address', async () => {
    const token = await tokenOf('options');
    const options = () => it.call('OPTIONS', '/v2/nothing', { token });
    expect((await options()).headers.get('ratelimit-remaining')).toBe('4');
    expect(await statuses(3, options)).toEqual([204, 204, 204]);
    expect((await it.call('GET', '/v2/nothing', { token })).status).toBe(200);
    expect((await options()).status).toBe(429);
    expect((await it.call('PUT', '/v2/nothing', { token })).status).toBe(200);
    it.clock.advance(60_000);
    const stranger = () => it.call('OPTIONS', '/v2/nothing');
    expect(await statuses(5, stranger)).toEqual([204, 204, 204, 204, 429]);
    // What a browser asks before a request of its own is none of the user's requests.
    const preflight = { origin: 'https://a.example', 'access-control-request-method': 'PUT' };
    expect((await it.call('OPTIONS', '/v2/nothing', { headers: preflight })).status).toBe(204);
    it.clock.advance(60_000);
  });
});

describe('a credential', () => {
  test('has its reads and its writes a minute, exactly, and says what is left', async () => {
    const token = await tokenOf('exact');
    const read = () => it.call('GET', '/v2/nothing', { token });
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
    expect(await statuses(4, () => it.call('PUT', '/v2/nothing', { token }))).toEqual([200, 200, 200, 429]);
    it.clock.advance((wait - 1) * 1000);
    expect(await statuses(1, read)).toEqual([429]);
    it.clock.advance(1000);
    expect(await statuses(6, read)).toEqual([200, 200, 200, 200, 200, 429]);
  });

  test('does not get more by sending them at once', async () => {
    const token = await tokenOf('burst');
    const all = await Promise.all(Array.from({ length: 20 }, () => it.call('GET', '/v2/nothing', { token })));
    expect(all.filter(({ status }) => status === 200)).toHaveLength(5);
  });

  test('is a token of a project, or a user whatever their tokens', async () => {
    const [first, second] = [
      await tokenOf('first'),
      (await issueToken(it.context, { projectId: it.project.id, name: 'second' }))?.token,
    ];
    expect(await statuses(6, () => it.call('GET', '/v2/nothing', { token: first }))).toContain(429);
    expect((await it.call('GET', '/v2/nothing', { token: second ?? '' })).status).toBe(200);
    let minted = 0;
    const asAnn = () =>
      it.call('GET', '/v2/mine', { token: it.userJwt({ user_external_id: 'ann', minted: minted++ }) });
    expect(await statuses(6, asAnn)).toEqual([200, 200, 200, 200, 200, 429]);
    expect(
      (await it.call('GET', '/v2/mine', { token: it.userJwt({ user_external_id: 'bob' }) })).status,
    ).toBe(200);
  });

  test("follows its project's own limits, 0 being none", async () => {
    const project = await newProject(it.context, 'special');
    await it.db.query({ name: 'limits', text: 'update projects set rate_limits = $2 where id = $1' }, [
      project.id,
      '{"reads":0,"writes":1}',
    ]);
    it.context.bus.publish({ type: 'project_changed', projectId: project.id });
    const read = await it.call('GET', '/v2/nothing', { token: project.jwt });
    expect([read.status, read.headers.get('ratelimit-limit')]).toEqual([200, null]);
    expect(await statuses(10, () => it.call('GET', '/v2/nothing', { token: project.jwt }))).toEqual(
      Array(10).fill(200),
    );
    expect(await statuses(2, () => it.call('PUT', '/v2/nothing', { token: project.jwt }))).toEqual([
      200, 429,
    ]);
  });
});

describe('a caller without a valid credential', () => {
  test('is limited by address, whatever a proxy header says, and holds up no valid one', async () => {
    let index = 0;
    const guess = () =>
      it.call('GET', '/v2/nothing', {
        token: `a.b.${index++}`,
        headers: { 'x-forwarded-for': `9.9.9.${index}` },
      });
    expect(await statuses(6, guess)).toEqual([401, 401, 401, 401, 429, 429]);
    expect((await it.call('GET', '/v2/unknown')).status).toBe(429);
    const preflight = { origin: 'https://x.example', 'access-control-request-method': 'GET' };
    expect(await statuses(10, () => it.call('OPTIONS', '/v2/nothing', { headers: preflight }))).toEqual(
      Array(10).fill(204),
    );
    expect((await it.call('GET', '/v2/nothing', { token: it.project.jwt })).status).toBe(200);
    expect((await it.call('GET', '/healthz')).status).toBe(200);
  });
});

describe('behind proxies that are trusted, a caller without a valid credential', () => {
  let behind: TestServer;
  beforeAll(async () => {
    behind = await startTestServer({
      logLevel: 'info',
      settings: { RATE_LIMIT_IP: '2', TRUSTED_PROXIES: '127.0.0.1,10.0.0.0/8' },
    });
    behind.clock.hold();
  });
  afterAll(() => behind.close());
  const guesses = (forwarded: (index: number) => string) => {
    let index = 0;
    return statuses(4, () =>
      behind.call('GET', '/v2/users', { token: 'a.b.c', headers: { 'x-forwarded-for': forwarded(index++) } }),
    );
  };

  test('is the last address that is no such proxy, whatever it wrote before that itself', async () => {
    expect(await guesses(() => '192.0.2.1')).toEqual([401, 401, 429, 429]);
    expect(await guesses((index) => `9.9.9.${index}, 192.0.2.2`)).toEqual([401, 401, 429, 429]);
    expect(
      await guesses((index) => `${index}, 10.0.0.${index}, 192.0.2.3:${index}, 10.1.${index}.1`),
    ).toEqual([401, 401, 429, 429]);
    expect(behind.logged.join('')).toContain('"address":"192.0.2.3"');
  });

  test('is 64 bits of an IPv6 address', async () => {
    expect(await guesses((index) => `2001:db8::${index}:0:0:0:1, 10.0.0.1`)).toEqual(Array(4).fill(401));
    expect(await guesses((index) => `[2001:db8:0:9:${index}::1]:443`)).toEqual([401, 401, 429, 429]);
  });

  test('is the proxy itself, where that says nothing that can be an address', async () => {
    expect(await guesses((index) => `unknown-${index}`)).toEqual([401, 401, 429, 429]);
  });
});

test('an address comes from who is trusted alone, IPv4 in the dress of IPv6 included', () => {
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

test('one network is an IPv4 address, or 64 bits of an IPv6 one however it is written', () => {
  expect(network('192.0.2.7')).toBe('192.0.2.7');
  expect(network('::ffff:192.0.2.7')).toBe('192.0.2.7');
  expect(network('2001:db8:0:1:aaaa::1')).toBe('2001:db8:0:1::/64');
  expect(network('2001:db8::1:bbbb:0:0:2')).toBe('2001:db8:0:1::/64');
  expect(network('2001:0DB8:0000:0001:0:0:0:3')).toBe('2001:db8:0:1::/64');
  expect(network('2001:db8:0:2::1')).not.toBe('2001:db8:0:1::/64');
  expect(network('::1')).toBe('0:0:0:0::/64');
  expect(network('fe80::1%eth0')).toBe('fe80:0:0:0::/64');
});
