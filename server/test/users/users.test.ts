import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { sql } from '../../src/db/client.ts';
import { newId } from '../../src/lib/ids.ts';
import { pathOfPage } from '../support/pages.ts';
import { processed, startTestService, type TestProject, type TestService } from '../support/service.ts';

let service: TestService;
let project: TestProject;

beforeAll(async () => {
  service = await startTestService();
  project = service.project;
});
afterAll(() => service?.stop());

const save = (body: unknown, of: TestProject = project) => of.call('PUT', '/users', body);

describe('saving', () => {
  test('creates a user with every member', async () => {
    const { status, body } = await save({
      external_id: 'u1',
      email: 'Ada@Example.com',
      first_name: 'Ada',
      locale: 'pt-br',
      custom_attributes: { plan: 'premium', __proto__x: [1] },
      phone_numbers: ['+1 5005550001'],
    });
    expect(status).toBe(200);
    expect(body).toEqual({
      id: expect.stringMatching(/^[0-9a-f-]{36}$/),
      external_id: 'u1',
      email: 'Ada@Example.com',
      first_name: 'Ada',
      last_name: null,
      locale: 'pt-BR',
      custom_attributes: { plan: 'premium', __proto__x: [1] },
      phone_numbers: ['+1 5005550001'],
      created_at: expect.stringMatching(/Z$/),
      updated_at: expect.stringMatching(/Z$/),
      last_seen_at: null,
      last_notified_at: null,
    });
    expect((await project.call('GET', `/users/${body.id}`)).body).toEqual(body);
  });

  test('replaces present members, keeps absent ones, clears null ones', async () => {
    await save({ external_id: 'u2', first_name: 'A', last_name: 'B', custom_attributes: { a: 1 } });
    const { body } = await save({ external_id: 'u2', first_name: 'C', custom_attributes: null });
    expect(body).toMatchObject({ first_name: 'C', last_name: 'B', custom_attributes: null });
    expect((await save({ external_id: 'u2', last_name: null })).body).toMatchObject({
      first_name: 'C',
      last_name: null,
    });
  });

  test.each([
    ['PT-br', 'pt-BR'],
    ['zh-hant-tw', 'zh-Hant-TW'],
    ['iw', 'he'],
    ['de-u-co-phonebk', 'de-u-co-phonebk'],
  ])('stores the locale %s as %s, and the same one once more changes nothing', async (given, stored) => {
    const { body } = await save({ external_id: `locale ${given}`, locale: given });
    expect(body.locale).toBe(stored);
    expect((await save({ external_id: `locale ${given}`, locale: stored })).body).toEqual(body);
    expect((await save({ external_id: `locale ${given}`, locale: null })).body.locale).toBe(null);
  });

  test.each(['', 'de_DE', 'deutsch!', 'd', 'x-own', 'de\u0000', ' de', 'e'.repeat(65), 'de-a-ccc-a-ccc', 7])(
    'rejects the locale %j',
    async (locale) => {
      const { status, body } = await save({ external_id: 'no locale', locale });
      expect(status).toBe(422);
      expect(body.errors[0].message).toContain("Param 'locale' must");
    },
  );

  test('accepts a user as returned, and ignores read-only members', async () => {
    const { body: read } = await save({ external_id: 'u2-read', email: 'read@example.com', first_name: 'A' });
    const changed = { ...read, first_name: 'B', last_seen_at: '2020-01-01T00:00:00Z' };
    const { status, body } = await save(changed);
    expect(status).toBe(200);
    expect(body).toEqual({ ...read, first_name: 'B', updated_at: body.updated_at });
    expect((await save({ ...read, id: read.id.slice(1) })).status).toBe(422);
  });

  test('finds a user by address in any spelling, keeps the last one, and adds an external id', async () => {
    const { body: first } = await save({ email: 'grace@example.com' });
    const { body: again } = await save({ email: 'GRACE@example.com', external_id: 'u3' });
    expect(again).toMatchObject({ id: first.id, external_id: 'u3', email: 'GRACE@example.com' });
    expect((await save({ external_id: 'u3' })).body.id).toBe(first.id);
  });

  test.each([
    ['another spelling of the address', { email: 'SPELT@example.com', first_name: 'New' }],
    ['a removed address', { email: null, first_name: 'New' }],
    ['another spelling alone', { email: 'SPELT@example.com' }],
    ['a name alone', { first_name: 'New' }],
  ])('records one event for a change: %s', async (what, change) => {
    const name = `one event: ${what}`;
    const email = `spelt-${newId()}@example.com`;
    const { body } = await save({ external_id: name, email, first_name: 'Old' });
    const respelt = 'email' in change && change.email ? { ...change, email: email.toUpperCase() } : change;
    expect((await save({ external_id: name, ...respelt })).body).toMatchObject(respelt);
    const rows = await service.context.db.query<{ type: string }>(
      sql('test_user_updates', 'select type from events where user_ids = array[$1::uuid] order by id'),
      [body.id],
    );
    expect(rows.map(({ type }) => type)).toEqual(['user.created', 'user.updated']);
  });

  test('a new address replaces the former one, which is then free', async () => {
    const { body: one } = await save({ external_id: 'u4', email: 'old@example.com' });
    expect((await save({ external_id: 'u4', email: 'new@example.com' })).body.id).toBe(one.id);
    const { body: other } = await save({ external_id: 'u5', email: 'old@example.com' });
    expect(other.id).not.toBe(one.id);
    expect(other.email).toBe('old@example.com');
  });

  test('null removes an identity, which is then free', async () => {
    const { body: one } = await save({ external_id: 'u6', email: 'six@example.com' });
    const { body: cleared } = await save({ external_id: 'u6', email: null });
    expect(cleared).toMatchObject({ id: one.id, email: null });
    const { body: other } = await save({ email: 'six@example.com', external_id: 'u7' });
    expect(other.id).not.toBe(one.id);
    const { body: nameless } = await save({ email: 'six@example.com', external_id: null });
    expect(nameless).toMatchObject({ id: other.id, external_id: null });
    expect((await save({ external_id: 'u7' })).body.id).not.toBe(other.id);
  });

  test('an address of another user is rejected with its name, and nothing changes', async () => {
    await save({ external_id: 'u8', email: 'eight@example.com' });
    const { body: nine } = await save({ external_id: 'u9', first_name: 'Nine' });
    for (const external_id of ['u9', 'u10-is-new']) {
      const refused = await save({ external_id, email: 'EIGHT@example.com', first_name: 'X' });
      expect(refused.status).toBe(422);
      expect(refused.body.errors).toEqual([
        { code: 'validation_failed', message: "Param 'email' belongs to another user" },
      ]);
    }
    expect((await project.call('GET', `/users/${nine.id}`)).body).toEqual(nine);
    const { body } = await project.call('GET', '/users?query=u10-is-new');
    expect(body.data).toEqual([]);
  });

  test('twenty concurrent requests create one user', async () => {
    const responses = await Promise.all(
      Array.from({ length: 20 }, (_, index) =>
        save({ external_id: 'race', email: 'race@example.com', first_name: `${index}` }),
      ),
    );
    expect(responses.map(({ status }) => status)).toEqual(responses.map(() => 200));
    expect(new Set(responses.map(({ body }) => body.id)).size).toBe(1);
  });

  test('a deleted user is restored when saved', async () => {
    const { body } = await save({ external_id: 'back' });
    expect((await project.call('DELETE', `/users/${body.id}`)).status).toBe(204);
    expect((await project.call('GET', `/users/${body.id}`)).status).toBe(404);
    expect((await save({ external_id: 'back' })).body.id).toBe(body.id);
    expect((await project.call('GET', `/users/${body.id}`)).status).toBe(200);
  });

  test.each([
    ['no identity', { first_name: 'x' }, ['external_id or an email']],
    ['identities of null', { external_id: null, email: null }, ['external_id or an email']],
    ['an unknown key', { external_id: 'x', nick: 1 }, ["doesn't allow key: nick"]],
    [
      'all problems together',
      {
        external_id: 'a\0b',
        email: 'no address',
        first_name: '\ud800',
        last_name: 7,
        locale: 'de_DE',
        custom_attributes: [],
        phone_numbers: ['0800'],
      },
      ['external_id', 'email', 'first_name', 'last_name', 'locale', 'custom_attributes', 'phone_numbers.0'],
    ],
  ])('rejects %s', async (_what, body, named) => {
    const response = await save(body);
    expect(response.status).toBe(422);
    const errors = response.body.errors.map((error: { message: string }) => error.message).join('\n');
    for (const name of named) expect(errors).toContain(name);
  });
});

describe('a user in a path', () => {
  const at = (reference: string, of = project) => of.call('GET', `/users/${encodeURIComponent(reference)}`);

  test('is found by id, external id and e-mail address', async () => {
    const { body } = await save({ external_id: 'a/b c:d%é', email: 'In.Path@example.com' });
    for (const reference of [
      body.id,
      body.id.toUpperCase(),
      'external_id:a/b c:d%é',
      'email:In.Path@example.com',
      'email:in.path@EXAMPLE.com',
    ]) {
      expect(await at(reference)).toMatchObject({ status: 200, body });
      const tokens = await project.call(
        'GET',
        `/users/${encodeURIComponent(reference)}/channels/slack/tokens`,
      );
      expect(tokens).toMatchObject({ status: 200, body: { data: [] } });
    }
  });

  test('is a 404 if the project has no such user, and is not created', async () => {
    const other = await service.createProject('other paths');
    const { body: theirs } = await save({ external_id: 'theirs only', email: 'theirs@example.com' }, other);
    const references = [theirs.id, 'external_id:theirs only', 'email:theirs@example.com', newId()];
    for (const reference of [...references, 'external_id:THEIRS ONLY'])
      expect((await at(reference)).codes).toEqual(['not_found']);
    expect((await project.call('GET', '/users?query=theirs')).body.data).toEqual([]);
  });

  test('is a 404 if it is deleted, and is not restored', async () => {
    const references = ['external_id:gone by name', 'email:gone@example.com'];
    await save({ external_id: 'gone by name', email: 'gone@example.com' });
    const path = `/users/${encodeURIComponent(references[0] ?? '')}`;
    expect((await project.call('DELETE', path)).status).toBe(204);
    for (const reference of references) expect((await at(reference)).codes).toEqual(['not_found']);
    expect((await project.call('DELETE', path)).status).toBe(404);
  });

  test.each(['nonsense', 'external_id:', 'external_id: ', `external_id:${'x'.repeat(256)}`, 'email:ada'])(
    'is a 400 if it is %j',
    async (reference) => {
      const { status, body } = await at(reference);
      expect(status).toBe(400);
      const message = "Param 'user_id' must be a UUID, external_id:<id> or email:<address>";
      expect(body).toEqual({ errors: [{ code: 'invalid_id', message }] });
    },
  );
});

describe('updating', () => {
  const update = (reference: string, body: unknown) =>
    project.call('PATCH', `/users/${encodeURIComponent(reference)}`, body);
  const create = async (name: string, more = {}) =>
    (await save({ external_id: name, email: `${name.replaceAll(' ', '-')}@update.example`, ...more })).body;

  test('renames a user, who keeps everything', async () => {
    const before = await create('renamed', { first_name: 'Ada' });
    const sent = await project.call('POST', '/broadcasts', {
      title: 'Before',
      recipients: [{ external_id: 'renamed' }],
    });
    await processed(project.call, sent.body.id);
    const changes = { external_id: 'new name', email: 'New.Name@update.example', last_name: 'L' };
    const { status, body } = await update(before.id, changes);
    expect(status).toBe(200);
    const { updated_at, last_notified_at } = body;
    expect(body).toEqual({ ...before, ...changes, updated_at, last_notified_at });
    const { body: inbox } = await project.as('new name')('GET', '/notifications');
    expect(inbox.data).toMatchObject([{ title: 'Before', user_id: before.id }]);
    expect((await save({ external_id: 'new name' })).body.id).toBe(before.id);
    for (const free of [{ external_id: 'renamed' }, { email: 'renamed@update.example' }])
      expect((await save(free)).body.id).not.toBe(before.id);
  });

  test('frees former identities for broadcasts at once', async () => {
    const before = await create('cached');
    const send = async () => {
      const { body } = await project.call('POST', '/broadcasts', {
        title: 'T',
        recipients: [{ external_id: 'cached' }],
      });
      await processed(project.call, body.id);
    };
    await send();
    expect((await update(before.id, { external_id: 'no longer cached' })).status).toBe(200);
    await send();
    const { body: inbox } = await project.as('no longer cached')('GET', '/notifications');
    expect(inbox.data).toHaveLength(1);
    const { body } = await project.call('GET', '/users/external_id:cached');
    expect(body.id).not.toBe(before.id);
  });

  test('replaces present members, keeps absent ones, clears null ones', async () => {
    const before = await create('cleared', {
      first_name: 'A',
      last_name: 'B',
      phone_numbers: ['+15005550001'],
    });
    const { body } = await update('external_id:cleared', { external_id: null, first_name: null });
    const { updated_at } = body;
    expect(body).toEqual({ ...before, external_id: null, first_name: null, updated_at });
    expect((await update(before.id, {})).body).toEqual(body);
    expect((await update(before.id, body)).body).toEqual(body);
    expect((await save({ external_id: 'cleared' })).body.id).not.toBe(before.id);
  });

  test('changes the spelling of an address', async () => {
    const { id } = await create('respelt');
    const email = 'RESPELT@update.example';
    expect((await update(id, { email })).body).toMatchObject({ id, email });
    expect((await save({ email: 'respelt@update.example', external_id: 'respelt' })).body.id).toBe(id);
  });

  test('records one event', async () => {
    const { id } = await create('one event');
    await update(id, { external_id: 'still one event', email: null, first_name: 'A' });
    await update(id, { external_id: 'still one event' });
    const rows = await service.context.db.query<{ type: string }>(
      sql('test_user_updates', 'select type from events where user_ids = array[$1::uuid] order by id'),
      [id],
    );
    expect(rows.map(({ type }) => type)).toEqual(['user.created', 'user.updated']);
  });

  test('takes the address of a deleted user, and not the external id', async () => {
    const deleted = await create('deleted owner');
    const other = await create('new owner');
    await project.call('DELETE', `/users/${deleted.id}`);
    const { status, body } = await update(other.id, { external_id: 'deleted owner' });
    expect([status, body.errors]).toEqual([
      422,
      [{ code: 'validation_failed', message: "Param 'external_id' belongs to another user that is deleted" }],
    ]);
    const moved = await update(other.id, { email: deleted.email });
    expect(moved.status).toBe(200);
    const { body: restored } = await save({ external_id: 'deleted owner' });
    expect(restored).toMatchObject({ id: deleted.id, email: null });
  });

  test('reports every identity of another user, and changes nothing', async () => {
    await create('taken');
    const before = await create('wants');
    const { status, messages } = await update(before.id, {
      external_id: 'taken',
      email: 'TAKEN@update.example',
      first_name: 'X',
    });
    expect(status).toBe(422);
    expect(messages).toEqual([
      "Param 'external_id' belongs to another user",
      "Param 'email' belongs to another user",
    ]);
    expect((await update(before.id, before)).body).toEqual(before);
  });

  test('keeps the last identity', async () => {
    const { id } = await create('last');
    expect((await update(id, { email: null })).status).toBe(200);
    expect((await update(id, { external_id: null })).messages).toEqual([
      "Param '(root)' must leave the user an external_id or an email",
    ]);
    expect((await update(id, { external_id: null, email: 'last@update.example' })).status).toBe(200);
  });

  test('of twenty users with the same new name, one gets it', async () => {
    const ids = await Promise.all(
      Array.from({ length: 20 }, async (_, index) => (await create(`racer-${index}`)).id as string),
    );
    const responses = await Promise.all(ids.map((id) => update(id, { external_id: 'winner' })));
    expect(responses.map(({ status }) => status).toSorted()).toEqual([200, ...Array(19).fill(422)]);
  });

  test('of twenty concurrent new names of a user, the last one stays', async () => {
    const { id } = await create('indecisive');
    const responses = await Promise.all(
      Array.from({ length: 20 }, (_, index) => update(id, { external_id: `indecisive-${index}` })),
    );
    expect(responses.map(({ status }) => status)).toEqual(Array(20).fill(200));
    const { external_id } = (await project.call('GET', `/users/${id}`)).body;
    for (let index = 0; index < 20; index += 1) {
      const { status } = await project.call('GET', `/users/external_id:indecisive-${index}`);
      expect(status).toBe(external_id === `indecisive-${index}` ? 200 : 404);
    }
  });

  test('is a 404 for another project’s user and a deleted one, and a 422 with all problems', async () => {
    const other = await service.createProject('elsewhere too');
    const { body: theirs } = await save({ external_id: 'theirs too' }, other);
    expect((await update(theirs.id, { first_name: 'X' })).codes).toEqual(['not_found']);
    expect((await other.call('GET', `/users/${theirs.id}`)).body).toEqual(theirs);
    const { id } = await create('deleted now');
    await project.call('DELETE', `/users/${id}`);
    expect((await update(id, { first_name: 'X' })).codes).toEqual(['not_found']);
    const { status, messages } = await update(theirs.id, { nick: 1, email: 'x', first_name: 7 });
    expect([status, messages.length]).toEqual([422, 3]);
  });
});

test('last_notified_at is the time of the newest notification', async () => {
  const { body: sent } = await project.call('POST', '/broadcasts', {
    title: 'T',
    recipients: [{ external_id: 'notified' }],
  });
  await processed(project.call, sent.id);
  const { body } = await project.call('GET', '/users?query=notified');
  const { body: inbox } = await project.as('notified')('GET', '/notifications');
  expect(body.data[0].last_notified_at).toBe(inbox.data[0].sent_at);
});

describe('listing', () => {
  test('pages through all, newest first, and searches by the beginning of an identity', async () => {
    const other = await service.createProject('list');
    for (const name of ['ann', 'anna', 'Bob', 'annette%', 'zoë']) {
      await save({ external_id: name, email: `${name.replace('%', '')}@x.example` }, other);
    }
    const names = async (path: string): Promise<unknown[]> => {
      const { body } = await other.call('GET', path);
      const rest = body.links.next ? await names(pathOfPage(body.links.next)) : [];
      return [...body.data.map((user: { external_id: string }) => user.external_id), ...rest];
    };
    const page = async (query: string) => (await other.call('GET', `/users?limit=2${query}`)).body.data;
    expect(await page('&starting_after=null&ending_before=null')).toEqual(await page(''));
    expect(await names('/users?limit=2')).toEqual(['zoë', 'annette%', 'Bob', 'anna', 'ann']);
    expect(await names('/users?query=ann&limit=1')).toEqual(['annette%', 'anna', 'ann']);
    expect(await names('/users?query=annette%25')).toEqual(['annette%']);
    expect(await names('/users?query=BOB@')).toEqual(['Bob']);
    expect(await names('/users?query=zoë')).toEqual(['zoë']);
    expect(await names('/users?query=unknown')).toEqual([]);
  });

  test('finds users by the beginning of each word of a name, in any case', async () => {
    const other = await service.createProject('names');
    const people = [
      ['Zebediah', 'Álvarez García López'],
      ['Mary Ann Sue', 'van der Berg'],
      ['MARY', null],
      [null, 'Marylebone'],
      ['ann', 'O’Neil'],
    ];
    for (const [first_name, last_name] of people)
      await save({ external_id: `${first_name} ${last_name}`, first_name, last_name }, other);
    const found = async (query: string) => {
      const { body } = await other.call('GET', `/users?query=${encodeURIComponent(query)}`);
      return body.data.map((user: { external_id: string }) =>
        people.findIndex(([first, last]) => user.external_id === `${first} ${last}`),
      );
    };
    expect(await found('Zebediah')).toEqual([0]);
    expect(await found('zEB')).toEqual([0]);
    expect(await found('zebediah ÁLV')).toEqual([0]);
    for (const name of ['álvarez g', 'garcía', 'LÓP']) expect(await found(name)).toEqual([0]);
    for (const name of ['mary ann', 'sue', 'Van', 'DER', 'berg', ' van der berg '])
      expect(await found(name)).toEqual([1]);
    expect(await found('mary')).toEqual([3, 2, 1]);
    expect(await found('ann')).toEqual([4, 1]);
    expect(await found('o’')).toEqual([4]);
    for (const name of ['ebediah', 'ary', 'null', '%', '_', 'zebediah\\', "'"])
      expect(await found(name)).toEqual(name === 'null' ? [3] : []);
    const { body } = await other.call('GET', `/users?query=zeb`);
    await other.call('DELETE', `/users/${body.data[0].id}`);
    expect(await found('zeb')).toEqual([]);
    expect((await project.call('GET', '/users?query=sue')).body.data).toEqual([]);
  });

  test('finds the same among very many matches', async () => {
    const other = await service.createProject('many');
    await service.context.db.query(
      sql(
        'test_many_users',
        `with u as (
          insert into users (id, project_id, external_id, created_at, updated_at)
          select gen_random_uuid(), $1, 'm' || i, now(), now() from generate_series(1, 2500) i
          returning id, external_id
        )
        insert into user_keys (project_id, kind, value, user_id)
        select $1, 'external_id', external_id, id from u`,
      ),
      [other.id],
    );
    await save({ external_id: 'other' }, other);
    const { body } = await other.call('GET', '/users?query=m&limit=100');
    expect(body.data).toHaveLength(100);
    expect(body.data.every((user: { external_id: string }) => user.external_id.startsWith('m'))).toBe(true);
    expect(body.links.next).not.toBeNull();
  });
});

test.each(['PUT /users', 'GET /users', `GET /users/${newId()}`, `PATCH /users/${newId()}`])(
  '%s needs a Project JWT',
  async (operation) => {
    const [method = '', path = ''] = operation.split(' ');
    const body = method.startsWith('P') ? { external_id: 'x' } : undefined;
    expect((await project.as('u')(method, path, body)).status).toBe(403);
    expect((await fetch(`${service.address}/v2${path}`, { method })).status).toBe(401);
  },
);

test('another project’s user is not found', async () => {
  const other = await service.createProject('elsewhere');
  const { body } = await save({ external_id: 'theirs' }, other);
  expect((await project.call('GET', `/users/${body.id}`)).status).toBe(404);
  expect((await project.call('GET', '/users/nonsense')).body.errors[0].code).toBe('invalid_id');
});

describe('a page of users with long attributes ends early', () => {
  const NAMES = ['l1', 'l2', 'l3', 'l4', 'l5'];
  let long: TestProject;

  beforeAll(async () => {
    long = await service.createProject('long');
    await service.rows(
      `with u as (
          insert into users (id, project_id, external_id, custom_attributes, created_at, updated_at)
          select ('01900000-0000-7000-8000-' || lpad(i::text, 12, '0'))::uuid, $1, 'l' || i,
            json_build_object('text', repeat('x', 7000000)), now(), now()
          from generate_series(1, 5) i
          returning id, external_id
        ),
        keys as (
          insert into user_keys (project_id, kind, value, user_id)
          select $1, 'external_id', external_id, id from u
        )
        insert into subscriptions (project_id, user_id, topic, id, categories)
        select $1, id, 'long', gen_random_uuid(), '{"*": {"status": "subscribed"}}' from u`,
      [long.id],
    );
  });

  test.each(['/users', '/users?query=l', '/topics/long/subscribers'])(
    '%s: its neighbours continue from there, and no user is left out',
    async (path) => {
      const pages: string[][] = [];
      let last = '';
      for (let url: string | null = path; url !== null; ) {
        const { body, text } = await long.call('GET', url);
        expect(text.length).toBeLessThan(17_000_000);
        pages.push(body.data.map((user: { external_id: string }) => user.external_id));
        last = url;
        url = body.links.next?.replace(`${service.address}/v2`, '') ?? null;
      }
      expect(pages).toEqual([['l5', 'l4'], ['l3', 'l2'], ['l1']]);
      const { body } = await long.call('GET', last);
      const before = await long.call('GET', body.links.prev.replace(`${service.address}/v2`, ''));
      expect(before.body.data.map((user: { external_id: string }) => user.external_id)).toEqual(['l3', 'l2']);
      expect(before.body.links.prev).not.toBeNull();
    },
  );

  test('in v1, whose pages have numbers, it is refused, and smaller pages have all', async () => {
    const named = async (query: string) =>
      (await long.v1('GET', `/users?${query}`)).body.users.map(
        (user: { external_id: string }) => user.external_id,
      );
    for (const order of ['created_at', 'last_seen_at', 'last_notified_at']) {
      const by = `order_by=${order},ASC`;
      const { status, messages } = await long.v1('GET', `/users?${by}`);
      expect([status, messages]).toEqual([
        422,
        ["Param 'per_page' must be smaller: of this page, only 2 fit into a response"],
      ]);
      const pages = await Promise.all([1, 2, 3].map((page) => named(`${by}&per_page=2&page=${page}`)));
      expect(pages.flat()).toEqual(NAMES);
    }
  });
});
