import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { pathOfPage } from '../support/pages.ts';
import { startTestService, type TestProject, type TestService } from '../support/service.ts';

let service: TestService;
let project: TestProject;

beforeAll(async () => {
  service = await startTestService();
  project = service.project;
});
afterAll(() => service?.stop());

const get = (key: string, of = project) => of.call('GET', `/channels/${encodeURIComponent(key)}`);
const save = (body: unknown, of = project) => of.call('PUT', '/channels', body);
const remove = (key: string, of = project) => of.call('DELETE', `/channels/${encodeURIComponent(key)}`);
const eventsOf = (type: string, of: TestProject) =>
  service.rows<{ details: string }>(
    'select details::text from events where project_id = $1 and type = $2 order by id',
    [of.id, type],
  );

const full = {
  key: 'orders/shipped.v2:a_b-c',
  disabled: false,
  channels: [
    { channel: 'in_app' },
    { channel: 'email', delay: 900, if: '{{notification.unseen}} == true' },
    { channel: 'sms', delay: 0, if: null },
    { channel: 'mobile_push', if: "user.custom_attributes.plan == 'premium'" },
    { channel: 'web_push', delay: 34_560_000 },
    { channel: 'slack' },
    { channel: 'teams', delay: 1 },
  ],
};

describe('a category config', () => {
  test('is saved by its key and returned as saved: absent optional members stay absent', async () => {
    for (const body of [full, { key: 'abc', channels: [] }, { key: 'only', disabled: true, channels: [] }]) {
      const saved = await save(body);
      expect([saved.status, saved.body]).toEqual([200, body]);
      const read = await get(body.key);
      expect([read.status, read.body]).toEqual([200, body]);
    }
  });

  test('is replaced as a whole by the next save of its key', async () => {
    await save({ key: 'replaced', disabled: true, channels: [{ channel: 'email', delay: 5 }] });
    await save({ key: 'replaced', channels: [{ channel: 'in_app' }] });
    expect((await get('replaced')).body).toEqual({ key: 'replaced', channels: [{ channel: 'in_app' }] });
  });

  test('is deleted, and then not found', async () => {
    await save({ key: 'a/b', channels: [] });
    const deleted = await remove('a/b');
    expect([deleted.status, deleted.body]).toEqual([204, undefined]);
    expect((await get('a/b')).status).toBe(404);
    expect((await remove('a/b')).status).toBe(404);
  });

  test('of another project is not shown, listed, replaced or deleted', async () => {
    const other = await service.createProject('other');
    await save({ key: 'shared', channels: [{ channel: 'email' }] });
    expect((await get('shared', other)).status).toBe(404);
    expect((await remove('shared', other)).status).toBe(404);
    expect((await other.call('GET', '/channels')).body.data).toEqual([]);
    await save({ key: 'shared', channels: [] }, other);
    expect((await get('shared')).body.channels).toEqual([{ channel: 'email' }]);
  });

  test.each([
    'slack',
    'teams',
    'web_push/tokens',
    'in_app/inbox/tokens',
    'user_preferences/x',
    'Read',
    '...',
  ])('may be called %s, which is also a path segment of other routes', async (key) => {
    await save({ key, channels: [{ channel: 'email' }] });
    expect((await get(key)).body).toEqual({ key, channels: [{ channel: 'email' }] });
    expect((await remove(key)).status).toBe(204);
  });

  test('may have a key of 255 characters that each need three in a URL', async () => {
    const key = '/'.repeat(255);
    expect((await save({ key, channels: [] })).status).toBe(200);
    expect((await get(key)).body.key).toBe(key);
    await remove(key);
  });

  test.each(['%00abc', 'no such', 'ÄÖÜ', 'x', `${'a'.repeat(300)}`])(
    '%s is not a valid key, so not found',
    async (key) => {
      const path = `/channels/${key.startsWith('%') ? key : encodeURIComponent(key)}`;
      expect((await project.call('GET', path)).status).toBe(404);
      expect((await project.call('DELETE', path)).status).toBe(404);
    },
  );
});

describe('invalid input is rejected', () => {
  test.each<[string, unknown, string[]]>([
    ['no members', {}, ["Param 'key' is missing", "Param 'channels' is missing"]],
    ['a short key', { key: 'ab', channels: [] }, ["Param 'key' must have at least 3 characters"]],
    ['a long key', { key: 'a'.repeat(256), channels: [] }, ["Param 'key' must have at most 255 characters"]],
    [
      'other characters',
      { key: 'a b c', channels: [] },
      ["Param 'key' must match the pattern ^[A-Za-z0-9_.\\-:\\/]+$"],
    ],
    [
      'a key that is a path of the API',
      { key: 'user_preferences', channels: [] },
      ["Param 'key' must not be user_preferences"],
    ],
    [
      'all problems together',
      {
        key: 'abc',
        disabled: 'no',
        more: 1,
        channels: [{ channel: 'fax' }, { delay: -1, if: 5 }, { channel: 'sms', delay: 0.5, at: 1 }],
      },
      [
        "Param '(root)' doesn't allow key: more",
        "Param 'disabled' must be a boolean",
        "Param 'channels.0.channel' must be one of: in_app, slack, web_push, mobile_push, teams, email, sms",
        "Param 'channels.1.channel' is missing",
        "Param 'channels.1.delay' must be 0 or more",
        "Param 'channels.1.if' must be a string or null",
        "Param 'channels.2' doesn't allow key: at",
        "Param 'channels.2.delay' must be an integer",
      ],
    ],
    [
      'null where a member is optional',
      { key: 'abc', disabled: null, channels: [{ channel: 'sms', delay: null }] },
      ["Param 'disabled' must be a boolean", "Param 'channels.0.delay' must be an integer"],
    ],
    [
      'a delay beyond 400 days',
      { key: 'abc', channels: [{ channel: 'email', delay: 34_560_001 }] },
      ["Param 'channels.0.delay' must be 34560000 or less"],
    ],
    [
      'conditions that cannot be parsed',
      {
        key: 'abc',
        channels: [
          { channel: 'email', if: 'user ==' },
          { channel: 'sms', if: "{{ user.name | shout }} == 'A'" },
          { channel: 'in_app', if: 'true' },
          { channel: 'slack', if: "users.plan == 'x'" },
        ],
      },
      [
        "Param 'channels.0.if' is not a condition: it ends too early",
        "Param 'channels.1.if' is not a condition: undefined filter: shout, line:1, col:1",
        "Param 'channels.3.if' is not a condition: Unknown variable: users",
      ],
    ],
    [
      'variables that conditions of categories do not have',
      {
        key: 'abc',
        channels: [
          { channel: 'email', if: 'user.emial == null' },
          { channel: 'sms', if: "{{ user.fist_name }} == 'A' && run.id != input.custom_attributes.any" },
          { channel: 'slack', if: "input.titel == 'x'" },
        ],
      },
      [
        "Param 'channels.0.if' reads user.emial, which does not exist: did you mean user.email?",
        "Param 'channels.1.if' reads run, which does not exist: known are user, notification, input",
        "Param 'channels.1.if' reads user.fist_name, which does not exist: did you mean user.first_name?",
        "Param 'channels.2.if' reads input.titel, which does not exist: did you mean input.title?",
      ],
    ],
    [
      'a condition of more than 2000 characters',
      { key: 'abc', channels: [{ channel: 'email', if: `true${' '.repeat(2_000)}` }] },
      ["Param 'channels.0.if' must have at most 2000 characters"],
    ],
    [
      'a channel twice',
      { key: 'abc', channels: [{ channel: 'email' }, { channel: 'sms' }, { channel: 'email', delay: 5 }] },
      ["Param 'channels.2.channel' repeats channels.0: list email once"],
    ],
  ])('%s', async (_what, body, messages) => {
    await remove('abc');
    const { status, body: response } = await save(body);
    expect(status).toBe(422);
    const errors = response.errors.map((error: { message: string }) => error.message);
    expect(errors.toSorted()).toEqual(messages.toSorted());
    expect((await get('abc')).status).toBe(404);
  });

  test('a rejected save keeps the previous config', async () => {
    const before = { key: 'kept', channels: [{ channel: 'email', delay: 60 }] };
    await save(before);
    expect((await save({ key: 'kept', channels: [{ channel: 'email', if: '((' }] })).status).toBe(422);
    expect((await get('kept')).body).toEqual(before);
  });

  test('a project at its limit of categories can still save existing ones', async () => {
    const crowded = await service.createProject('crowded');
    await service.rows(
      `insert into categories (project_id, key, id, config, updated_at)
        select $1, 'cat' || n, gen_random_uuid(), 
             json_build_object('key', 'cat' || n, 'channels', '[]'::json), now()
        from generate_series(1, 1000) n`,
      [crowded.id],
    );
    const refused = await save({ key: 'one-more', channels: [] }, crowded);
    expect([refused.status, refused.body.errors[0].message]).toEqual([
      422,
      "Param 'key' cannot be added: a project can have at most 1000 category configs",
    ]);
    expect((await save({ key: 'cat7', channels: [{ channel: 'sms' }] }, crowded)).status).toBe(200);
    expect((await remove('cat8', crowded)).status).toBe(204);
    expect((await save({ key: 'one-more', channels: [] }, crowded)).status).toBe(200);
  });

  test.each([
    ['PUT', '/channels'],
    ['GET', '/channels'],
    ['GET', '/channels/abc'],
    ['DELETE', '/channels/abc'],
  ])('%s %s needs a Project JWT', async (method, path) => {
    const body = method === 'PUT' ? full : undefined;
    expect((await project.as('u')(method, path, body)).status).toBe(403);
    expect((await fetch(`${service.address}/v2${path}`, { method })).status).toBe(401);
  });
});

describe('the list', () => {
  test('lists the newest first, and pages by its links and by keys', async () => {
    const paged = await service.createProject('paged');
    const keys = ['bbb', 'AAA', 'x/y', 'ccc', 'aaa'];
    for (const key of keys) await save({ key, channels: [] }, paged);
    await save({ key: 'bbb', disabled: true, channels: [] }, paged); // keeps its position
    const newestFirst = keys.toReversed();
    const keysOf = (body: { data: { key: string }[] }) => body.data.map((one) => one.key);
    expect(keysOf((await paged.call('GET', '/channels')).body)).toEqual(newestFirst);

    const seen: string[] = [];
    let next: string | null = '/channels?limit=2';
    let body: { data: { key: string }[]; links: { next: string | null; prev: string | null } } | undefined;
    while (next !== null) {
      body = (await paged.call('GET', next)).body;
      seen.push(...keysOf(body as { data: { key: string }[] }));
      const link: string | null = body?.links.next ?? null;
      next = link && pathOfPage(link);
    }
    expect(seen).toEqual(newestFirst);
    expect(body?.links.prev).toContain('/v2/channels?limit=2&ending_before=');

    const at = (query: string) => paged.call('GET', `/channels?limit=2&${query}`);
    expect(keysOf((await at('starting_after=ccc')).body)).toEqual(['x/y', 'AAA']);
    expect(keysOf((await at(`starting_after=${encodeURIComponent('x/y')}`)).body)).toEqual(['AAA', 'bbb']);
    expect(keysOf((await at('ending_before=AAA')).body)).toEqual(['ccc', 'x/y']);
    expect(keysOf((await at('starting_after=')).body)).toEqual(['aaa', 'ccc']);
    const lost = await at('starting_after=unknown');
    expect([lost.status, lost.body.errors[0].message]).toEqual([
      422,
      "Param 'starting_after' is not the key of a record",
    ]);
    expect((await at('starting_after=%00')).status).toBe(422);
    expect((await at('starting_after=aaa&ending_before=bbb')).status).toBe(422);
  });

  test('links still work when the record at the edge of a page is deleted', async () => {
    const paged = await service.createProject('edge');
    for (const key of ['k-1', 'k-2', 'k-3']) await save({ key, channels: [] }, paged);
    const { body } = await paged.call('GET', '/channels?limit=2');
    await remove('k-2', paged);
    const after = await paged.call('GET', pathOfPage(body.links.next));
    expect(after.body.data).toEqual([{ key: 'k-1', channels: [] }]);
  });
});

test('each change is one event; a save or delete that changes nothing is none', async () => {
  const watched = await service.createProject('watched');
  const one = { key: 'one', channels: [{ channel: 'email' }] };
  for (let count = 0; count < 3; count += 1) await save(one, watched);
  await save({ ...one, disabled: true }, watched);
  await remove('one', watched);
  await remove('one', watched);
  const saved = await eventsOf('category.saved', watched);
  expect(saved.map((event) => JSON.parse(event.details))).toEqual([
    { payload: one },
    { payload: { ...one, disabled: true } },
  ]);
  const deleted = await eventsOf('category.deleted', watched);
  expect(deleted.map((event) => JSON.parse(event.details))).toEqual([{ payload: { key: 'one' } }]);
});

test('concurrent saves of one key leave one config, which is one of those saved', async () => {
  const busy = await service.createProject('at once');
  const bodies = Array.from({ length: 8 }, (_none, delay) => ({
    key: 'race',
    channels: [{ channel: 'email', delay }],
  }));
  const responses = await Promise.all(bodies.map((body) => save(body, busy)));
  expect(responses.map(({ status }) => status)).toEqual(bodies.map(() => 200));
  const { body } = await busy.call('GET', '/channels');
  expect(body.data).toHaveLength(1);
  expect(bodies).toContainEqual(body.data[0]);
});

test('the config in memory follows saves and deletes at once', async () => {
  const cached = await service.createProject('cached');
  const known = async () => [...(await service.context.categories.of(cached.id)).configured.values()];
  expect(await known()).toEqual([]);
  await save({ key: 'now', disabled: true, channels: [{ channel: 'email', delay: 2, if: 'true' }] }, cached);
  expect(await known()).toEqual([
    {
      key: 'now',
      disabled: true,
      critical: false,
      channels: [{ channel: 'email', delayMs: 2_000, condition: 'true' }],
    },
  ]);
  await remove('now', cached);
  expect(await known()).toEqual([]);
});
