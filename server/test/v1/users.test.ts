import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { sql } from '../../src/db/client.ts';
import { GRACE_MS, purgeUsers } from '../../src/domain/after/erasure/purge-users.ts';
import { newId } from '../../src/lib/ids.ts';
import {
  processed,
  startTestService,
  type TestProject,
  type TestService,
  until,
} from '../support/service.ts';

let it: TestService;
let project: TestProject;

beforeAll(async () => {
  it = await startTestService({ pollMs: 50 });
  project = it.project;
});
afterAll(() => it.stop());

const UNKNOWN = ["A user with the the given id doesn't exist"];
const pathOf = (reference: string) => `/users/${encodeURIComponent(reference)}`;

async function create(user: Record<string, unknown>, of = project) {
  const { status, body } = await of.v1('POST', '/users', { user });
  expect(status).toBe(201);
  return body.user;
}

describe('a user', () => {
  test('is created with every member, as version 2 shows it', async () => {
    const members = {
      external_id: 'u-1',
      email: 'U1@example.com',
      first_name: 'Ada',
      last_name: 'Lovelace',
      custom_attributes: { plan: 'pro' },
      phone_numbers: Array.from({ length: 50 }, (_, index) => `+150055500${String(index).padStart(2, '0')}`),
    };
    const user = await create(members);
    expect(user).toEqual({ id: user.id, ...members });
    expect((await project.call('GET', `/users/${user.id}`)).body).toMatchObject(members);
    for (const reference of [user.id, 'external_id:u-1', 'email:u1@EXAMPLE.com'])
      expect((await project.v1('GET', pathOf(reference))).body).toEqual({ user });
  });

  test('without attributes has an empty object, and absent members are null', async () => {
    const user = await create({ email: 'bare@example.com' });
    const none = { external_id: null, first_name: null, last_name: null };
    expect(user).toEqual({
      id: user.id,
      email: 'bare@example.com',
      ...none,
      custom_attributes: {},
      phone_numbers: [],
    });
  });

  test('is updated and renamed by every name', async () => {
    const { id } = await create({ external_id: 'old', email: 'old@example.com', first_name: 'A' });
    const update = (reference: string, user: unknown) => project.v1('PUT', pathOf(reference), { user });
    expect((await update(id, { external_id: 'new' })).body.user).toMatchObject({
      id,
      external_id: 'new',
      first_name: 'A',
    });
    expect((await update('external_id:new', { email: 'new@example.com' })).status).toBe(200);
    const { body } = await update('email:NEW@example.com', { first_name: null, last_name: 'L' });
    expect(body.user).toMatchObject({ id, external_id: 'new', email: 'new@example.com', first_name: null });
    expect((await update('external_id:old', {})).messages).toEqual(UNKNOWN);
    await create({ external_id: 'taken' });
    expect((await update(id, { external_id: 'taken' })).messages).toEqual([
      "Param 'user.external_id' belongs to another user",
    ]);
    expect((await update(id, { external_id: null, email: null })).messages).toEqual([
      "Param 'user' must leave the user an external_id or an email",
    ]);
  });

  test('is deleted by every name, and lookups neither create nor restore it', async () => {
    for (const reference of ['id', 'external_id:gone', 'email:gone@example.com']) {
      const { id } = await create({ external_id: 'gone', email: 'gone@example.com' });
      const path = pathOf(reference === 'id' ? id : reference);
      expect(await project.v1('DELETE', path)).toMatchObject({ status: 204, text: '' });
      for (const method of ['GET', 'PUT', 'DELETE'])
        expect(await project.v1(method, path, method === 'PUT' ? { user: {} } : undefined)).toMatchObject({
          status: 404,
          messages: UNKNOWN,
        });
      expect((await project.call('GET', `/users/${id}`)).status).toBe(404);
    }
    expect((await project.v1('GET', pathOf('external_id:never'))).messages).toEqual(UNKNOWN);
    expect((await project.call('GET', '/users?query=never')).body.data).toEqual([]);
  });

  test('is restored by its own requests for seven days, and then erased', async () => {
    const names = ['back', 'silent'];
    const [back, silent] = await Promise.all(names.map((external_id) => create({ external_id })));
    for (const name of names) await project.v1('DELETE', pathOf(`external_id:${name}`));
    const day = 24 * 3_600_000;
    const purge = (ms: number) => {
      const clock = { now: () => Date.now() + ms };
      return purgeUsers({ ...it.context, clock, signal: new AbortController().signal });
    };
    await purge(GRACE_MS - day);
    expect((await project.v1('GET', pathOf('external_id:silent'))).status).toBe(404);
    expect((await project.v1As('back')('GET', '/notifications')).status).toBe(200);
    expect((await project.v1('GET', pathOf(back.id))).body.user).toEqual(back);
    while (await purge(GRACE_MS + day));
    expect((await project.v1('GET', pathOf(back.id))).body.user).toEqual(back);
    await project.v1As('silent')('GET', '/notifications');
    const { body } = await project.v1('GET', pathOf('external_id:silent'));
    expect(body.user.id).not.toBe(silent.id);
  });

  test('of another project is not found', async () => {
    const other = await it.createProject('elsewhere');
    const theirs = await create({ external_id: 'theirs' }, other);
    for (const reference of [theirs.id, 'external_id:theirs'])
      for (const method of ['GET', 'PUT', 'DELETE'])
        expect(
          (await project.v1(method, pathOf(reference), method === 'PUT' ? { user: {} } : undefined)).status,
        ).toBe(404);
    expect((await other.v1('GET', pathOf(theirs.id))).body.user).toEqual(theirs);
  });

  test.each<[string, string, string, unknown, number, string[]]>([
    ['POST', '/users', 'no wrapper', {}, 422, ["Param 'user' is missing"]],
    [
      'POST',
      '/users',
      'no identity',
      { user: { first_name: 'A' } },
      422,
      ["Param 'user' must have an external id or an email so the user can be identified"],
    ],
    [
      'POST',
      '/users',
      'several problems',
      { user: { external_id: 'x', email: 'x', nick: 1 } },
      422,
      ["Param 'user' doesn't allow key: nick", "Param 'user.email' must be an e-mail address"],
    ],
    [
      'GET',
      '/users/nonsense',
      'no reference',
      undefined,
      400,
      ["Param 'user_id' must be a UUID, external_id:<id> or email:<address>"],
    ],
  ])('%s %s with %s is rejected', async (method, path, _what, body, status, messages) => {
    const response = await project.v1(method, path, body);
    expect([response.status, response.messages.toSorted()]).toEqual([status, messages.toSorted()]);
  });
});

describe('the list', () => {
  const list = async (of: TestProject, query: string) => {
    const { status, body } = await of.v1('GET', `/users${query}`);
    expect(status).toBe(200);
    return body.users.map((user: { external_id: string }) => user.external_id);
  };

  test('is paged, newest first, and empty beyond the end', async () => {
    const of = await it.createProject('paged');
    for (let index = 0; index < 5; index += 1) await create({ external_id: `p${index}` }, of);
    const { body } = await of.v1('GET', '/users');
    expect([body.current_page, body.per_page, body.users.length]).toEqual([1, 20, 5]);
    expect(await list(of, '?per_page=2')).toEqual(['p4', 'p3']);
    expect(await list(of, '?per_page=2&page=3')).toEqual(['p0']);
    expect(await list(of, '?per_page=2&page=4')).toEqual([]);
    expect(await list(of, '?per_page=2&order_by=created_at,ASC')).toEqual(['p0', 'p1']);
    await of.v1('DELETE', '/users/external_id:p4');
    expect(await list(of, '?per_page=2')).toEqual(['p3', 'p2']);
  });

  test('is filtered and ordered by the times of the last visit and notification', async () => {
    const of = await it.createProject('filtered');
    for (const name of ['a', 'b', 'c', 'd']) await create({ external_id: name }, of);
    const seen = (name: string, time: string) =>
      it.context.db.query(
        sql('', 'update users set last_seen_at = $2 where project_id = $1 and external_id = $3'),
        [of.id, time, name],
      );
    await seen('b', '2026-02-01T00:00:00Z');
    await seen('a', '2026-01-01T00:00:00Z');
    for (const external_id of ['d', 'a']) {
      const { body } = await of.call('POST', '/broadcasts', { title: 'T', recipients: [{ external_id }] });
      await processed(of.call, body.id);
    }
    expect(await list(of, '?order_by=last_seen_at,DESC')).toEqual(['b', 'a', 'd', 'c']);
    expect(await list(of, '?order_by=last_seen_at,ASC')).toEqual(['a', 'b', 'c', 'd']);
    expect(await list(of, '?last_seen_at:before=2026-01-15T00:00:00Z')).toEqual(['a']);
    expect(await list(of, '?last_seen_at:after=2026-01-15T00:00:00%2B00:00')).toEqual(['b']);
    expect((await list(of, '?order_by=last_notified_at,DESC')).slice(0, 2)).toEqual(['a', 'd']);
    expect((await list(of, '?order_by=last_notified_at,ASC')).slice(0, 2)).toEqual(['d', 'a']);
    expect(await list(of, '?last_notified_at:after=2026-01-15T00:00:00Z')).toEqual(['d', 'a']);
    expect(await list(of, '?last_notified_at:before=2026-01-15T00:00:00Z')).toEqual([]);
    for (const filter of ['last_seen_at', 'last_notified_at']) {
      expect(await list(of, `?${filter}:before=0000-02-29T00:00:00Z`)).toEqual([]);
      expect(await list(of, `?${filter}:after=0000-02-29T00:00:00Z`)).toHaveLength(2);
    }
    expect(
      await list(of, '?last_seen_at:after=2026-01-15T00:00:00Z&last_notified_at:after=2020-01-01T00:00:00Z'),
    ).toEqual([]);
  });

  test.each([
    ['per_page=0', "Param 'per_page' must be 1 or more"],
    ['per_page=101', "Param 'per_page' must be 100 or less"],
    ['per_page=abc', "Param 'per_page' must be an integer"],
    ['page=0', "Param 'page' must be 1 or more"],
    [
      'last_seen_at:before=now',
      "Param 'last_seen_at:before' must be a date and time as in 2026-01-31T12:00:00Z",
    ],
    ['order_by=email', "Param 'order_by' must be one of: created_at,ASC, created_at,DESC"],
  ])('rejects %s', async (query, message) => {
    const response = await project.v1('GET', `/users?${query}`);
    expect(response.status).toBe(422);
    expect(response.messages).toEqual([expect.stringContaining(message)]);
  });
});

describe('an import', () => {
  test('creates users, and has one entry for each that failed', async () => {
    const { status, body } = await project.v1('POST', '/imports', {
      import: {
        users: [
          { external_id: 'imported', first_name: 'Ida' },
          { first_name: 'A', nick: 1 },
          { external_id: 'bad', email: 'x', phone_numbers: ['1'] },
        ],
      },
    });
    expect(status).toBe(201);
    const { id } = body.import;
    const summary = { total: 3, failures: 0 };
    expect(body).toEqual({
      import: { id, status: 'enqueued', summary, errors: [], failures: { users: [] } },
    });
    const done = await until(
      async () => (await project.v1('GET', `/imports/${id}`)).body.import,
      (one) => one.status === 'processed',
    );
    expect(done).toMatchObject({ id, summary: { total: 3, failures: 2 } });
    expect(done.failures.users).toEqual([
      { errors: { base: ['needs an external_id or an email', "doesn't allow key: nick"] } },
      {
        external_id: 'bad',
        email: 'x',
        errors: {
          email: ['must be an e-mail address'],
          phone_numbers: ['must be a phone number in international form, such as +15005550001'],
        },
      },
    ]);
    expect(done.errors[1]).toMatchObject({ external_id: 'bad', email: 'x' });
    expect(done.errors).toHaveLength(2);
    expect((await project.call('GET', '/users/external_id:imported')).body).toMatchObject({
      first_name: 'Ida',
    });
    expect((await project.call('GET', `/imports/${id}`)).body).toMatchObject({ total: 3, failed: 2 });
  });

  test.each([
    [{}, "Param 'import' is missing"],
    [
      { users: [{ external_id: 'unwrapped' }] },
      ["Param 'import' is missing", "Param '(root)' doesn't allow key: users"],
    ],
    [{ import: {} }, "Param 'import.users' is missing"],
    [{ import: { users: [] } }, "Param 'import.users' must have at least 1 item"],
    [{ import: { users: [{}], x: 1 } }, "Param 'import' doesn't allow key: x"],
  ])('with the body %j is rejected', async (body, message) => {
    const response = await project.v1('POST', '/imports', body);
    expect([response.status, response.messages]).toEqual([422, [message].flat()]);
  });

  test('that is unknown, or of another project, is not found', async () => {
    expect((await project.v1('GET', `/imports/${newId()}`)).codes).toEqual(['not_found']);
    const other = await it.createProject('imports elsewhere');
    const { body } = await other.v1('POST', '/imports', { import: { users: [{ external_id: 'x' }] } });
    expect((await project.v1('GET', `/imports/${body.import.id}`)).codes).toEqual(['not_found']);
  });
});

test.each(['POST /users', 'GET /users', 'GET /users/external_id:u', 'POST /imports'])(
  '%s needs the API secret',
  async (operation) => {
    const [method = '', path = ''] = operation.split(' ');
    const body = method === 'POST' ? { user: { external_id: 'u' } } : undefined;
    const asUser = await project.v1As('u')(method, path, body);
    expect([401, 403]).toContain(asUser.status);
  },
);
