import { randomUUID } from 'node:crypto';
import { createServer } from 'node:http';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { backoffMs } from '../../../sdk/src/backoff.ts';
import { BelfryError, type ClientOptions, ProjectClient } from '../../../sdk/src/index.ts';
import { type Fate, startProxy, type TestProxy } from '../support/proxy.ts';
import { startTestService, type TestService } from '../support/service.ts';

let service: TestService;
let proxy: TestProxy;

beforeAll(async () => {
  service = await startTestService();
  proxy = await startProxy(service.address);
});
afterAll(async () => {
  await proxy.close();
  await service.stop();
});
beforeEach(() => {
  proxy.requests.length = 0;
  proxy.decide = () => 'pass';
});

const client = (options: Partial<ClientOptions> = {}) =>
  new ProjectClient({ baseUrl: `${proxy.url}/v2`, token: service.project.jwt, ...options });
const hello = (title = randomUUID()) => ({ title, recipients: [{ external_id: 'ada' }] });

/** Sets the fates of the first requests. All others pass. */
function fates(...list: Fate[]): void {
  proxy.decide = (_request, number) => list[number - 1] ?? 'pass';
}

async function failure(call: PromiseLike<unknown>): Promise<BelfryError> {
  const error = await call.then(
    () => undefined,
    (reason: unknown) => reason,
  );
  expect(error).toBeInstanceOf(BelfryError);
  return error as BelfryError;
}

async function broadcastsTitled(title: string): Promise<number> {
  const titles: string[] = [];
  const direct = new ProjectClient({ baseUrl: `${service.address}/v2`, token: service.project.jwt });
  for await (const broadcast of direct.broadcasts.list({ limit: 100 })) titles.push(broadcast.title);
  return titles.filter((other) => other === title).length;
}

describe('retries', () => {
  test('429 is retried after Retry-After, not before', async () => {
    fates({ status: 429, headers: { 'retry-after': '1' } });
    const startedAt = performance.now();
    await client().users.list();
    expect(performance.now() - startedAt).toBeGreaterThanOrEqual(1000);
    expect(proxy.requests).toHaveLength(2);
  });

  test('Retry-After may be a date', async () => {
    fates({ status: 503, headers: { 'retry-after': new Date(Date.now() + 60_000).toUTCString() } });
    const error = await failure(client({ maxRetries: 0 }).users.list());
    expect(error.status).toBe(503);
    expect(error.retryAfterMs).toBeGreaterThan(0);
    expect(error.retryAfterMs).toBeLessThanOrEqual(60_000);
  });

  test('the rate limit headers of the service are understood', async () => {
    const limited = await startTestService({ settings: { RATE_LIMIT_READS: '2' } });
    try {
      const token = limited.project.jwt;
      const one = new ProjectClient({ baseUrl: `${limited.address}/v2`, token, totalTimeoutMs: 10_000 });
      await one.users.list();
      await one.users.list();
      const error = await failure(one.users.list());
      expect(error).toMatchObject({ status: 429, code: 'rate_limit_exceeded' });
      expect(error.retryAfterMs).toBeGreaterThan(10_000);
      expect(error.requestId).toMatch(/./);
    } finally {
      await limited.stop();
    }
  });

  test.each([408, 500, 502, 503, 504])('%i is retried until it succeeds', async (status) => {
    fates({ status }, { status, body: '<html>not ours</html>' });
    await client().users.list();
    expect(proxy.requests).toHaveLength(3);
  });

  test.each([400, 401, 403, 404, 409, 413, 422])('%i is final', async (status) => {
    fates({ status, body: '{"errors":[{"code":"so","message":"so it is"}]}' });
    expect(await failure(client().users.save({ external_id: 'a' }))).toMatchObject({ status, code: 'so' });
    expect(proxy.requests).toHaveLength(1);
  });

  test('at most maxRetries, with the error of the last attempt', async () => {
    proxy.decide = (_request, number) => ({ status: 503, headers: { 'x-request-id': `r${number}` } });
    const error = await failure(client({ maxRetries: 2 }).users.list());
    expect(error).toMatchObject({ status: 503, code: 'http_503', errors: [], requestId: 'r3' });
    await failure(client({ maxRetries: 2 }).users.list({}, { maxRetries: 0 }));
    expect(proxy.requests).toHaveLength(4);
  });

  test('a wait longer than the timeout of the call fails at once', async () => {
    fates({ status: 429, headers: { 'retry-after': '30' } });
    const startedAt = performance.now();
    const error = await failure(client({ totalTimeoutMs: 15_000 }).users.list());
    expect(error).toMatchObject({ status: 429, retryAfterMs: 30_000 });
    expect(performance.now() - startedAt).toBeLessThan(10_000);
  });

  test('a wait longer than the call allows fails at once', async () => {
    fates({ status: 429, headers: { 'retry-after': '1' } }, { status: 429, headers: { 'retry-after': '2' } });
    const error = await failure(client().users.list({}, { maxRetryAfterMs: 1_000 }));
    expect(error).toMatchObject({ status: 429, retryAfterMs: 2_000 });
    expect(proxy.requests).toHaveLength(2);
  });

  test('every attempt gets a new token', async () => {
    fates({ status: 503 });
    const tokens = ['stale', service.project.jwt];
    await client({ token: async () => tokens.shift() ?? '' }).users.list();
    expect(proxy.requests.map(({ headers }) => headers.authorization)).toEqual([
      'Bearer stale',
      `Bearer ${service.project.jwt}`,
    ]);
  });

  test('waits double up to a limit, vary, and are never shorter than Retry-After', () => {
    for (const [attempt, longest] of [500, 1000, 2000, 4000, 8000, 8000].entries()) {
      const waits = Array.from({ length: 100 }, () => backoffMs(attempt + 1, undefined));
      expect(Math.min(...waits)).toBeGreaterThanOrEqual(longest / 2);
      expect(Math.max(...waits)).toBeLessThanOrEqual(longest);
      expect(new Set(waits).size).toBeGreaterThan(50);
    }
    const waits = Array.from({ length: 100 }, () => backoffMs(1, 20_000));
    expect(Math.min(...waits)).toBeGreaterThanOrEqual(20_000);
    expect(Math.max(...waits)).toBeLessThanOrEqual(21_000);
    expect(new Set(waits).size).toBeGreaterThan(50);
  });

  test('a PATCH, which may accumulate, is not retried', async () => {
    fates({ status: 503 });
    await failure(client().request({ method: 'PATCH', path: '/users' }));
    expect(proxy.requests).toHaveLength(1);
  });
});

describe('a POST has one effect', () => {
  test.each(['lose the response', 'cut the response'] as const)('when networks %s', async (fate) => {
    fates(fate, fate);
    const title = randomUUID();
    const created = await client().broadcasts.create(hello(title));
    expect(created.title).toBe(title);
    expect(proxy.requests).toHaveLength(3);
    const keys = new Set(proxy.requests.map(({ headers }) => headers['idempotency-key']));
    expect([...keys]).toEqual([expect.stringMatching(/^[0-9a-f]{32}$/)]);
    expect(await broadcastsTitled(title)).toBe(1);
  });

  test('two calls have two effects, unless they have the same key', async () => {
    const title = randomUUID();
    const [one, two] = [
      await client().broadcasts.create(hello(title)),
      await client().broadcasts.create(hello(title)),
    ];
    expect(one.id).not.toBe(two.id);
    const keyed = { idempotencyKey: randomUUID() };
    const three = await client().broadcasts.create(hello(title), keyed);
    expect((await client().broadcasts.create(hello(title), keyed)).id).toBe(three.id);
    expect(await broadcastsTitled(title)).toBe(3);
  });

  test('a key that was used for another request is refused, without a retry', async () => {
    const keyed = { idempotencyKey: randomUUID() };
    await client().broadcasts.create(hello(), keyed);
    proxy.requests.length = 0;
    const error = await failure(client().broadcasts.create(hello(), keyed));
    expect(error).toMatchObject({ status: 409, code: 'idempotency_conflict' });
    expect(proxy.requests).toHaveLength(1);
  });

  test('only a POST has a key', async () => {
    await client().users.save({ external_id: 'keyless' });
    expect(proxy.requests[0]?.headers['idempotency-key']).toBeUndefined();
  });
});

describe('ends', () => {
  test('an attempt that takes too long is a timeout, and is retried', async () => {
    fates('hang');
    await client({ timeoutMs: 1_500 }).users.list();
    expect(proxy.requests).toHaveLength(2);
    fates('hang', 'hang', 'hang');
    proxy.requests.length = 0;
    const error = await failure(client({ timeoutMs: 200, maxRetries: 1 }).users.list());
    expect(error).toMatchObject({ code: 'timeout', status: undefined });
    expect(error.message).toBe('GET /users: no response within 200 ms');
  });

  test('a token that does not come within the timeout is a timeout, and is requested once more', async () => {
    const tokens = [new Promise<string>(() => {}), service.project.jwt];
    await client({ timeoutMs: 1_500, token: () => tokens.shift() ?? '' }).users.list();
    expect(proxy.requests).toHaveLength(1);
    const startedAt = performance.now();
    const error = await failure(
      client({ totalTimeoutMs: 400, token: () => new Promise(() => {}) }).users.list(),
    );
    expect(error.code).toBe('timeout');
    expect(performance.now() - startedAt).toBeLessThan(10_000);
    const reason = new Error('the page was left');
    const controller = new AbortController();
    const token = () => {
      controller.abort(reason);
      return new Promise<string>(() => {});
    };
    const { signal } = controller;
    await expect(client({ token }).users.list({}, { signal })).rejects.toBe(reason);
  });

  test('all attempts together end by totalTimeoutMs', async () => {
    proxy.decide = () => 'hang';
    const startedAt = performance.now();
    const error = await failure(client({ totalTimeoutMs: 400, maxRetries: 50 }).users.list());
    expect(error.code).toBe('timeout');
    expect(performance.now() - startedAt).toBeLessThan(10_000);
  });

  test('a refused connection is a network error', async () => {
    const gone = await startProxy(service.address);
    await gone.close();
    const error = await failure(client({ baseUrl: `${gone.url}/v2`, maxRetries: 1 }).users.list());
    expect(error).toMatchObject({ code: 'network_error', status: undefined, errors: [] });
    expect(error.message).toBe('GET /users: no response (ECONNREFUSED)');
    expect(error.cause).toBeInstanceOf(TypeError);
  });

  test('an aborted call rejects with the reason of the signal, during and between attempts', async () => {
    const reason = new Error('the page was left');
    await expect(client().users.list({}, { signal: AbortSignal.abort(reason) })).rejects.toBe(reason);
    expect(proxy.requests).toHaveLength(0);
    for (const fate of ['hang', { status: 429, headers: { 'retry-after': '20' } }] as const) {
      const controller = new AbortController();
      proxy.decide = () => fate;
      const call = client().users.list({}, { signal: controller.signal });
      const rejected = expect(call).rejects.toBe(reason);
      await expect.poll(() => proxy.requests.length).toBeGreaterThan(0);
      controller.abort(reason);
      await rejected;
      expect(proxy.requests).toHaveLength(1);
      proxy.requests.length = 0;
    }
  });

  test('a redirect is an error: a POST would become a GET, and the token would leak', async () => {
    fates({ status: 301, headers: { location: `${service.address}/v2/broadcasts` } });
    expect(await failure(client().broadcasts.create(hello()))).toMatchObject({
      status: 301,
      code: 'http_301',
    });
    expect(proxy.requests).toHaveLength(1);
  });

  test('a response that is not JSON is an error of its own', async () => {
    fates({ status: 200, headers: { 'content-type': 'text/html' }, body: '<html></html>' });
    const error = await failure(client().users.list());
    expect(error).toMatchObject({ code: 'invalid_response', status: 200 });
    expect(error.message).toMatch(/is baseUrl right/);
    expect(proxy.requests).toHaveLength(1);
  });

  test('the error has all errors of the response', async () => {
    const error = await failure(
      client().request({ method: 'POST', path: '/broadcasts', body: { recipients: [], title: '' } }),
    );
    expect(error).toMatchObject({ name: 'BelfryError', status: 422, code: 'validation_failed' });
    expect(error.errors.length).toBeGreaterThan(1);
    for (const { message } of error.errors) expect(error.message).toContain(message);
    expect(error.requestId).toMatch(/./);
  });
});

test('links to another host are not followed, so that it does not get the token', async () => {
  let strangers = 0;
  const stranger = createServer((_request, response) => {
    strangers += 1;
    response.end('{}');
  });
  await new Promise<void>((resolve) => stranger.listen(0, '127.0.0.1', resolve));
  const { port } = stranger.address() as { port: number };
  const links = { first: '', next: `http://127.0.0.1:${port}/v2/users?starting_after=x`, prev: null };
  fates({ status: 200, body: JSON.stringify({ data: [], links }) });
  await failure(
    client()
      .users.list()
      .then((page) => page.next()),
  );
  expect(proxy.requests[1]?.url).toBe('/v2/users?starting_after=x');
  expect(strangers).toBe(0);
  stranger.close();
});
