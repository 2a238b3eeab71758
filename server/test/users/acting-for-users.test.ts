import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { describedBy } from '../support/operations.ts';
import { openStream } from '../support/realtime.ts';
import { type Caller, processed, startTestService, type TestService } from '../support/service.ts';

let service: TestService;

beforeAll(async () => {
  service = await startTestService();
});
afterAll(() => service.stop());

/** Creates a user without any request of its own, and returns the id. */
async function newUser(externalId: string): Promise<string> {
  const saved = await service.project.call('PUT', '/users', {
    external_id: externalId,
    email: `${externalId}@example.com`,
  });
  return saved.body.id;
}

/** Sends a broadcast to a user, and returns the id of the notification. */
async function notify(externalId: string, more: object = {}): Promise<string> {
  const { call } = service.project;
  const sent = await call('POST', '/broadcasts', {
    title: 'T',
    recipients: [{ external_id: externalId }],
    ...more,
  });
  await processed(call, sent.body.id);
  return (await call('GET', `/users/external_id:${externalId}/notifications`)).body.data[0].id;
}

/** Calls the API as the project, below the path of a user. */
const actingFor =
  (reference: string, call: Caller = service.project.call): Caller =>
  (method, path, body, headers) =>
    call(method, `/users/${reference}${path}`, body, headers);

describe('a backend that acts for a user', () => {
  test('sees and changes what the user sees and changes', async () => {
    await newUser('both');
    const [own, acting] = [service.project.as('both'), actingFor('external_id:both')];
    const saved = await acting('POST', '/subscriptions', { topic: 'a/b', categories: [{ slug: 'c' }] });
    expect(saved).toMatchObject({
      status: 200,
      body: { topic: 'a/b', categories: [{ slug: 'c', status: 'subscribed' }] },
    });
    expect((await own('GET', '/subscriptions')).body.data).toEqual([saved.body]);
    await own('POST', '/subscriptions', { topic: 'second' });
    const first = await acting('GET', '/subscriptions?limit=1');
    expect(first.body.data).toMatchObject([{ topic: 'second' }]);
    const next = new URL(first.body.links.next);
    expect(next.pathname).toBe('/v2/users/external_id:both/subscriptions');
    const second = await service.project.call('GET', `${next.pathname.replace('/v2', '')}${next.search}`);
    expect(second.body.data).toEqual([saved.body]);
    expect(await acting('DELETE', '/subscriptions/a%2Fb')).toMatchObject({ status: 200, body: saved.body });
    expect((await own('GET', '/subscriptions')).body.data).toMatchObject([{ topic: 'second' }]);

    const preferences = { categories: [{ key: 'news', channels: [{ name: 'email', enabled: false }] }] };
    expect((await acting('PUT', '/preferences', preferences)).status).toBe(204);
    const shown = await own('GET', '/channels/user_preferences');
    expect(shown.body.categories[0]).toMatchObject({ key: 'news' });
    expect((await acting('GET', '/preferences')).body).toEqual(shown.body);
  });

  test('lists and counts the notifications of the user with all filters', async () => {
    await newUser('lists');
    const plain = await notify('lists');
    const labelled = await notify('lists', { category: 'c', topic: 't' });
    const [own, acting] = [service.project.as('lists'), actingFor('email:lists@example.com')];
    const ids = async (call: Caller, query: string) =>
      (await call('GET', `/notifications${query}`)).body.data.map(({ id }: { id: string }) => id);
    await acting('POST', `/notifications/${plain}/read`);
    const expected: [string, string[]][] = [
      ['', [labelled, plain]],
      ['?limit=1', [labelled]],
      ['?status=read', [plain]],
      ['?status=unread', [labelled]],
      ['?status=archived', []],
      ['?category=c', [labelled]],
      ['?category=uncategorized', [plain]],
      ['?topic=t', [labelled]],
    ];
    for (const [query, wanted] of expected) {
      expect(await ids(acting, query), query).toEqual(wanted);
      expect(await ids(own, query), query).toEqual(wanted);
    }
    const counted = await acting('GET', '/notifications/unread/count');
    expect(counted).toMatchObject({ status: 200, body: { count: 1 } });
    expect((await acting('GET', '/notifications/unread/count?category=x')).body).toEqual({ count: 0 });
    expect((await acting('GET', '/notifications/unseen/count')).body).toEqual({ count: 1 });
    expect((await acting('GET', `/notifications/${plain}`)).body).toEqual(
      (await own('GET', `/notifications/${plain}`)).body,
    );
  });

  test('changes notifications, open inboxes show it, and the user is not seen by it', async () => {
    const id = await newUser('live');
    const acting = actingFor('external_id:live');
    await notify('live');
    const notification = await notify('live');
    const jwt = service.project.userJwt({ user_external_id: 'live' });
    const stream = await openStream(`${service.address}/v2/notifications/stream`, { jwt });
    onTestFinished(() => stream.source.close());
    const lastSeen = async () => {
      await service.http.context.lastSeen.flush();
      return (await service.project.call('GET', `/users/${id}`)).body.last_seen_at;
    };
    const before = await lastSeen();
    const single = ['seen', 'read', 'unread', 'archive', 'unarchive'].map((action) => [
      'POST',
      `/notifications/${notification}/${action}`,
    ]);
    const bulk = ['seen', 'read', 'archive'].map((action) => ['POST', `/notifications/${action}`]);
    for (const [method = '', path = ''] of [...single, ...bulk, ['DELETE', `/notifications/${notification}`]])
      expect((await acting(method, path, undefined, { 'x-service-client-id': 'crm' })).status, path).toBe(
        204,
      );
    const names = ['seen', 'read', 'unread', 'archived', 'unarchived'].map((name) => [name, notification]);
    const allNames = ['seen/all', 'read/all', 'archive/all'].map((name) => [name, id]);
    const expected = [...names, ...allNames, ['delete', notification]];
    await expect.poll(() => stream.frames.length).toBe(expected.length);
    expect(stream.frames.map(({ name, data }) => [name, data.id, data.client_id])).toEqual(
      expected.map(([name, of]) => [`notifications/${name}`, of, 'crm']),
    );
    expect((await acting('GET', `/notifications/${notification}`)).status).toBe(404);
    expect((await acting('DELETE', `/notifications/${notification}`)).status).toBe(404);
    expect(await lastSeen()).toBe(before);
  });

  test('names the user by id, external id or address', async () => {
    const id = await newUser('a/b');
    for (const reference of [id, id.toUpperCase(), 'external_id:a%2Fb', 'email:A%2FB@Example.com'])
      expect((await actingFor(reference)('GET', '/notifications')).status, reference).toBe(200);
  });

  test('finds only users that exist, in its own project, and creates none', async () => {
    const other = await service.createProject('other');
    const id = await newUser('here');
    const deleted = await newUser('deleted');
    await service.project.call('DELETE', `/users/${deleted}`);
    const { operations } = describedBy(service.http.fastify.swagger() as unknown as Record<string, unknown>);
    const acts = operations.filter(({ path }) =>
      /^\/users\/\{user_id\}\/(notifications|subscriptions|preferences)/.test(path),
    );
    expect(acts.length).toBe(19);
    for (const { method, path, example } of acts) {
      const rest = path
        .replace('/users/{user_id}', '')
        .replace('{notification_id}', deleted)
        .replace('{topic}', 'news');
      for (const acting of [
        actingFor('external_id:unknown'),
        actingFor(deleted),
        actingFor('external_id:deleted'),
        actingFor('email:deleted@example.com'),
        actingFor(id, other.call),
        actingFor('external_id:here', other.call),
      ])
        expect((await acting(method, rest, example)).status, `${method} ${path}`).toBe(404);
      for (const malformed of ['unknown', 'external_id:', 'email:unknown', 'name:x'])
        expect((await actingFor(malformed)(method, rest, example)).codes).toEqual(['invalid_id']);
    }
    for (const name of ['unknown', 'deleted'])
      expect((await service.project.call('GET', `/users?query=${name}`)).body.data).toEqual([]);
  });

  test('gets the stored response of its Idempotency-Key, for the same user', async () => {
    await newUser('key-1');
    await newUser('key-2');
    const headers = { 'idempotency-key': 'one' };
    const [first, second] = [actingFor('external_id:key-1'), actingFor('external_id:key-2')];
    const saved = await first('POST', '/subscriptions', { topic: 't' }, headers);
    await first('DELETE', '/subscriptions/t');
    const repeated = await first('POST', '/subscriptions', { topic: 't' }, headers);
    expect(repeated.body).toEqual(saved.body);
    expect(repeated.headers.get('idempotency-replayed')).toBe('true');
    const conflict = await second('POST', '/subscriptions', { topic: 't' }, headers);
    expect([conflict.status, conflict.codes]).toEqual([409, ['idempotency_conflict']]);
  });

  test('gets the same errors as the user', async () => {
    await newUser('errors');
    const [own, acting] = [service.project.as('errors'), actingFor('external_id:errors')];
    const wrong = { categories: [{ slug: 'a' }, { slug: 'a' }] };
    const given = await acting('POST', '/subscriptions', wrong);
    expect(given.messages).toEqual([
      "Param 'topic' is missing",
      "Param 'categories.1.slug' repeats categories.0: list a once",
    ]);
    expect((await own('POST', '/subscriptions', wrong)).messages).toEqual(given.messages);
    expect((await acting('GET', '/notifications?status=lost')).status).toBe(422);
    expect((await acting('PUT', '/preferences', { categories: [{}] })).messages).toEqual([
      "Param 'categories.0.key' is missing",
    ]);
    expect((await own('GET', '/users/external_id:errors/notifications')).codes).toEqual(['forbidden']);
  });
});
