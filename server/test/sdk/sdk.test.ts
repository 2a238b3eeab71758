import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import {
  BelfryError,
  createUserToken,
  ProjectClient,
  type User,
  UserClient,
} from '../../../sdk/src/index.ts';
import { startProxy, type TestProxy } from '../support/proxy.ts';
import { processed, startTestService, type TestService } from '../support/service.ts';

let service: TestService;
let proxy: TestProxy;
/** Clients of the service, directly and through the proxy. */
let belfry: ProjectClient;
let shaky: ProjectClient;

beforeAll(async () => {
  service = await startTestService();
  proxy = await startProxy(service.address);
  belfry = new ProjectClient({ baseUrl: `${service.address}/v2`, token: service.project.jwt });
  shaky = new ProjectClient({ baseUrl: `${proxy.url}/v2/`, token: () => service.project.jwt });
});
afterAll(async () => {
  await proxy.close();
  await service.stop();
});
beforeEach(() => {
  proxy.requests.length = 0;
  proxy.decide = () => 'pass';
});

const hello = (externalId = randomUUID()) => ({ title: 'Hello', recipients: [{ external_id: externalId }] });

/** The error that a call rejects with. */
async function failure(call: PromiseLike<unknown>): Promise<BelfryError> {
  const error = await call.then(
    () => undefined,
    (reason: unknown) => reason,
  );
  expect(error).toBeInstanceOf(BelfryError);
  return error as BelfryError;
}

describe('calls', () => {
  test('a broadcast is created and fetched with wire names', async () => {
    const created = await belfry.broadcasts.create({ ...hello(), action_url: 'https://shop.example/1' });
    expect(created).toMatchObject({ title: 'Hello', action_url: 'https://shop.example/1', category: null });
    await processed(service.project.call, created.id);
    const got = await belfry.broadcasts.get(created.id);
    expect(got.status).toEqual({
      status: 'processed',
      summary: { total: 1, failures: 0, pending: 0 },
      errors: null,
    });
  });

  test('a user reads notifications with a token of the SDK', async () => {
    const { apiKey, apiSecret } = service.project;
    const externalId = randomUUID();
    const { id } = await belfry.broadcasts.create(hello(externalId));
    await processed(service.project.call, id);
    const token = () => createUserToken({ apiKey, apiSecret, externalId });
    const user = new UserClient({ baseUrl: `${service.address}/v2`, token });
    const { data } = await user.notifications.list();
    expect(data.map(({ title, status }) => [title, status])).toEqual([['Hello', 'unseen']]);
    expect(await user.notifications.read(data[0]?.id ?? '')).toBeUndefined();
    expect(await user.notifications.countUnread()).toEqual({ count: 0 });
    expect(await user.notifications.archiveAll({ category: 'none' })).toBeUndefined();
    expect((await user.notifications.get(data[0]?.id ?? '')).status).toBe('read');
  });

  test('a token without a user is rejected', async () => {
    const { apiKey, apiSecret } = service.project;
    await expect(createUserToken({ apiKey, apiSecret })).rejects.toThrow(TypeError);
  });

  test('an id that is undefined or blank does not issue a token for the e-mail address', async () => {
    const { apiKey, apiSecret } = service.project;
    for (const value of [undefined, null, '', '  ', 42, {}]) {
      const externalId = value as string;
      await expect(
        createUserToken({ apiKey, apiSecret, externalId, email: 'victim@example.com' }),
      ).rejects.toThrow(/externalId is .*; pass a string or leave it out/);
      await expect(
        createUserToken({ apiKey, apiSecret, externalId: 'a', email: externalId }),
      ).rejects.toThrow(/email is/);
    }
  });

  test('nested resources, queries and bodies arrive', async () => {
    const attributes = { plan: { name: 'pro' } };
    const saved = await belfry.integrations.smtp.save({
      host: 'mail.example',
      port: 587,
      username: 'u',
      password: 'p',
      from: { email: 'a@example.com', name: 'A' },
    });
    expect(saved).toMatchObject({ host: 'mail.example', port: 587 });
    const { data } = await belfry.integrations.smtp.list();
    expect(await belfry.integrations.smtp.delete({ id: data[0]?.id })).toEqual({});
    const { id } = await belfry.broadcasts.create({ ...hello(), custom_attributes: attributes });
    expect((await belfry.broadcasts.get(id)).custom_attributes).toEqual(attributes);
  });

  test('an id that is undefined does not delete everything', async () => {
    await expect(belfry.integrations.smtp.delete({ id: undefined })).rejects.toThrow(
      /id is undefined; leave it out to mean all/,
    );
  });

  test.each(['', '.', '..'])('the id %j is rejected', (id) => {
    expect(() => belfry.broadcasts.get(id)).toThrow(TypeError);
  });

  test('an id is one segment of the path, whatever its characters', async () => {
    expect((await failure(belfry.broadcasts.get('a/../b?c#d'))).code).toBe('invalid_id');
  });

  test('operations of a newer server can be called by path', async () => {
    const page = await belfry.request<{ data: unknown[] }>({
      method: 'GET',
      path: '/users',
      query: { limit: 1 },
    });
    expect(page.data.length).toBeLessThanOrEqual(1);
  });

  test('headers of the client and of the call are sent, and the name of the client', async () => {
    const client = new ProjectClient({
      baseUrl: `${proxy.url}/v2`,
      token: service.project.jwt,
      clientId: 'tab-1',
      headers: { 'x-request-id': 'client', 'x-trace': 'a' },
    });
    await client.users.list({}, { headers: { 'x-request-id': 'call' } });
    expect(proxy.requests[0]?.headers).toMatchObject({
      'x-service-client-id': 'tab-1',
      'x-request-id': 'call',
      'x-trace': 'a',
    });
  });

  test('an invalid address throws at once', () => {
    expect(() => new ProjectClient({ baseUrl: 'notify.example.com', token: '' })).toThrow(TypeError);
  });
});

describe('an address without /v2', () => {
  const userToken = () => {
    const { apiKey, apiSecret } = service.project;
    return createUserToken({ apiKey, apiSecret, externalId: 'without-v2' });
  };

  test.each(['', '/'])('fails every call, with a reason (%j)', async (path) => {
    const wrong = new ProjectClient({ baseUrl: `${proxy.url}${path}`, token: service.project.jwt });
    const wrongUser = new UserClient({ baseUrl: `${proxy.url}${path}`, token: await userToken() });
    const users = wrong.users.list();
    const calls: [string, number, () => PromiseLike<unknown>][] = [
      ['GET /users', 200, () => users],
      ['GET /users', 200, () => wrong.users.list()[Symbol.asyncIterator]().next()],
      ['GET /users', 200, () => wrong.request({ method: 'GET', path: '/users' })],
      ['GET /notifications', 200, () => wrongUser.notifications.list()],
      ['POST /broadcasts', 422, () => wrong.broadcasts.create(hello())],
      ['GET /broadcasts/no-id', 400, () => wrong.broadcasts.get('no-id')],
    ];
    for (const [what, status, call] of calls) {
      const { message, ...error } = await failure(call());
      expect(error).toMatchObject({ code: 'invalid_response', status });
      const [method, target] = what.split(' ');
      expect(message).toBe(
        `${method} ${proxy.url}${target}: ${status}, but from version 1 of the API: ` +
          'is baseUrl right? Usually it ends in /v2.',
      );
    }
    expect(proxy.requests).toHaveLength(calls.length); // none is retried
    const { message, ...unknown } = await failure(wrong.webhooks.list());
    expect(unknown).toMatchObject({ code: 'not_found', status: 404 });
    expect(message).toBe('GET /webhooks: 404 There is nothing at GET /webhooks');
  });

  test('is right if a proxy serves version 2 there', async () => {
    const ofVersion2 = await startProxy(`${service.address}/v2`);
    try {
      const client = new ProjectClient({ baseUrl: ofVersion2.url, token: service.project.jwt });
      const { id } = await client.broadcasts.create(hello());
      expect((await client.broadcasts.get(id)).id).toBe(id);
      expect((await client.broadcasts.list({ limit: 1 })).data[0]?.id).toBe(id);
    } finally {
      await ofVersion2.close();
    }
  });

  test.each([{ data: [] }, { links: {} }, { data: {}, links: {} }, null, 'page'])(
    'a list rejects a response without a page: %j',
    async (body) => {
      const headers = { 'content-type': 'application/json' };
      proxy.decide = () => ({ status: 200, headers, body: JSON.stringify(body) });
      const expected = {
        code: 'invalid_response',
        status: 200,
        message: 'GET /users: the response is not a page of a list: is baseUrl right?',
      };
      expect(await failure(shaky.users.list())).toMatchObject(expected);
      await expect(shaky.users.list()[Symbol.asyncIterator]().next()).rejects.toMatchObject(expected);
    },
  );

  test('an empty body of a list is an invalid response', async () => {
    proxy.decide = () => ({ status: 204 });
    expect((await failure(shaky.users.list())).code).toBe('invalid_response');
  });
});

describe('lists', () => {
  const total = 250;
  const prefix = `paged-${randomUUID().slice(0, 8)}`;
  const number = ({ external_id }: User) => Number(external_id?.split(':')[1]);

  let paging: ProjectClient;
  let pagingByProxy: ProjectClient;

  beforeAll(async () => {
    const { jwt: token } = await service.createProject('paging');
    paging = new ProjectClient({ baseUrl: `${service.address}/v2`, token });
    pagingByProxy = new ProjectClient({ baseUrl: `${proxy.url}/v2`, token });
    for (let index = 0; index < total; index += 1)
      await paging.users.save({ external_id: `${prefix}:${index}` });
  });

  test('a loop returns every record once, newest first', async () => {
    const seen: number[] = [];
    for await (const user of paging.users.list({ limit: 100 })) seen.push(number(user));
    expect(seen).toEqual(Array.from({ length: total }, (_, index) => total - 1 - index));
  });

  test('with ending_before, the loop starts there, oldest first', async () => {
    const middle = (await paging.users.list({ limit: 100 })).data.at(-1);
    const seen: number[] = [];
    for await (const user of paging.users.list({ limit: 30, ending_before: middle?.id }))
      seen.push(number(user));
    expect(seen).toEqual(Array.from({ length: 99 }, (_, index) => total - 99 + index));
    const all: number[] = [];
    const oldest = '00000000-0000-0000-0000-000000000000';
    for await (const user of paging.users.list({ limit: 100, ending_before: oldest })) all.push(number(user));
    expect(all).toEqual(Array.from({ length: total }, (_, index) => index));
  });

  test('an awaited list is a page with its neighbours', async () => {
    const first = await paging.users.list({ limit: 100 });
    expect(first.data).toHaveLength(100);
    expect(first.prev()).toBeUndefined();
    const second = await first.next();
    const third = await second?.next();
    expect(third?.data.map(number)).toEqual(Array.from({ length: 50 }, (_, index) => 49 - index));
    expect(third?.next()).toBeUndefined();
    expect((await third?.prev())?.data).toEqual(second?.data);
    expect((await second?.prev())?.data).toEqual(first.data);
  });

  test('pages are fetched one by one with their filters, and only as far as the loop runs', async () => {
    const sizes: number[] = [];
    for await (const page of pagingByProxy.users.list({ limit: 60, query: prefix }).pages()) {
      sizes.push(page.data.length);
      if (sizes.length === 2) break;
    }
    expect(sizes).toEqual([60, 60]);
    expect(proxy.requests.map(({ url }) => new URL(url, proxy.url).searchParams.get('query'))).toEqual([
      prefix,
      prefix,
    ]);
  });

  test('a list is requested when it is awaited or looped over, and once', async () => {
    const request = shaky.users.list({ limit: 1 });
    expect(proxy.requests).toHaveLength(0);
    await Promise.all([request, request.then((page) => page.data), request.finally(() => {})]);
    expect(proxy.requests).toHaveLength(1);
  });

  test('an error of a list fails the loop and the promise', async () => {
    const list = () => paging.users.list({ limit: 1000 });
    expect((await failure(list())).code).toBe('validation_failed');
    expect(await list().catch((error: BelfryError) => error.status)).toBe(422);
    await expect(list()[Symbol.asyncIterator]().next()).rejects.toMatchObject({ status: 422 });
  });
});
