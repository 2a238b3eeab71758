import { randomBytes } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { openDatabase, sql } from '../../src/db/client.ts';
import { discardToken } from '../../src/domain/people/tokens/discard.ts';
import { findInboxToken } from '../../src/domain/people/tokens/find-by-value.ts';
import { getToken, listTokens, recordId } from '../../src/domain/people/tokens/list.ts';
import { saveToken } from '../../src/domain/people/tokens/save.ts';
import { NEWEST } from '../../src/lib/cursor.ts';
import { isId, newId } from '../../src/lib/ids.ts';
import { tokenCollection } from '../../src/providers/index.ts';
import { createTestDatabase } from '../support/database.ts';
import { pathOfPage } from '../support/pages.ts';
import { type ApiResponse, type Caller, startTestService, type TestService } from '../support/service.ts';

let service: TestService;

beforeAll(async () => {
  service = await startTestService({ settings: { BRAND: 'magicbell' } });
});
afterAll(() => service?.stop());

type Body = Record<string, unknown>;

const hex = () => randomBytes(32).toString('hex');
const text = (name: string) => name.padEnd(64, 'x');
const hook = (name: string) => `https://hooks.slack.com/services/${name}`;
const oauth = (channel: string) => ({ oauth: { channel_id: channel, installation_id: 'A0-T0' } });
const keys = { auth: 'tBHItJI5svbpez7KI4CCXg', p256dh: 'BNcRdreALRFXTkOOUHK1EtK2wtaz5Ry4' };
const chat = {
  shared: true,
  save: (name: string): Body => oauth(name),
  changed: (name: string): Body => ({ oauth: { ...oauth(name).oauth, scope: 'chat:write' } }),
};

/** Every collection: how a token of this name is saved, and how it is saved after a change. */
const COLLECTIONS: Record<
  string,
  { shared?: boolean; save: (name: string) => Body; changed?: (name: string) => Body }
> = {
  'in_app/inbox': {
    save: (name) => ({ token: text(name), connection_id: null }),
    changed: (name) => ({ token: text(name), connection_id: 'c-1' }),
  },
  'mobile_push/apns': {
    save: (name) => ({ device_token: text(name) }),
    changed: (name) => ({
      device_token: text(name),
      app_id: 'com.example.app',
      installation_id: 'development',
    }),
  },
  'mobile_push/expo': { save: (name) => ({ device_token: `ExponentPushToken[${name}]` }) },
  'mobile_push/fcm': { save: (name) => ({ device_token: text(name) }) },
  slack: chat,
  'slack/magicbell_slackbot': chat,
  teams: { shared: true, save: (name) => ({ webhook: { url: `https://teams.example.com/${name}` } }) },
  web_push: {
    save: (name) => ({ endpoint: `https://push.example.com/${name}`, keys }),
    changed: (name) => ({ endpoint: `https://push.example.com/${name}`, keys: { ...keys, auth: 'another' } }),
  },
};

const pathOf = (collection: string) => `/channels/${collection}/tokens`;

async function records(call: Caller, path: string): Promise<(Body & { id: string })[]> {
  const { status, body } = await call('GET', path);
  expect(status).toBe(200);
  return body.data;
}

const messages = ({ body }: ApiResponse): string[] =>
  body.errors.map(({ message }: { message: string }) => message);

async function userIdOf(externalId: string): Promise<string> {
  await service.project.as(externalId)('GET', pathOf('teams'));
  const found = await service.project.call('GET', `/users?query=${encodeURIComponent(externalId)}`);
  expect(found.body.data).toMatchObject([{ external_id: externalId }]);
  return found.body.data[0].id;
}

describe.each(Object.entries(COLLECTIONS))('%s', (collection, { shared = false, save, changed }) => {
  const path = pathOf(collection);
  const name = (about: string) => `${collection.replaceAll('/', '-')}-${about}`;

  test('a token is saved, listed, read and discarded', async () => {
    const call = service.project.as(name('whole'));
    for (const body of [save(name('a')), ...(changed ? [changed(name('b'))] : [])]) {
      const saved = await call('PUT', path, body);
      expect([saved.status, saved.body]).toEqual([200, body]);
      const [record] = await records(call, path);
      expect(record).toEqual({
        id: expect.any(String),
        ...body,
        created_at: expect.stringMatching(/Z$/),
        updated_at: null,
        discarded_at: null,
      });
      const one = `${path}/${record?.id}`;
      expect((await call('GET', one)).body).toEqual(record);
      const discarded = await call('DELETE', one);
      expect([discarded.status, discarded.body]).toEqual([
        200,
        { id: record?.id, discarded_at: expect.stringMatching(/Z$/) },
      ]);
      expect((await call('DELETE', one)).body).toEqual(discarded.body);
      expect(await records(call, path)).toEqual([]);
      expect((await call('GET', one)).body).toEqual({ ...record, discarded_at: discarded.body.discarded_at });
    }
  });

  test('a repeated save makes no second record and updates the existing one', async () => {
    const call = service.project.as(name('again'));
    await call('PUT', path, save(name('c')));
    const [before] = await records(call, path);
    await call('PUT', path, save(name('c')));
    expect(await records(call, path)).toEqual([before]);
    if (changed === undefined) return;
    expect((await call('PUT', path, changed(name('c')))).body).toEqual(changed(name('c')));
    expect(await records(call, path)).toEqual([
      { ...before, ...changed(name('c')), updated_at: expect.stringMatching(/Z$/) },
    ]);
    await call('PUT', path, save(name('c')));
    const [after] = await records(call, path);
    expect(after).toEqual({ ...before, updated_at: expect.stringMatching(/Z$/) });
  });

  test('a save by another user takes over a device token, and shares a chat token', async () => {
    const [first, second] = [service.project.as(name('first')), service.project.as(name('second'))];
    await first('PUT', path, save(name('d')));
    const [former] = await records(first, path);
    await second('PUT', path, save(name('d')));
    expect(await records(second, path)).toHaveLength(1);
    expect(await records(first, path)).toEqual(shared ? [former] : []);
    const then = (await first('GET', `${path}/${former?.id}`)).body;
    if (shared) expect(then.discarded_at).toBeNull();
    else expect(then.discarded_at).toMatch(/Z$/);
  });

  test('concurrent saves and discards leave each user at most one active record', async () => {
    const calls = Array.from({ length: 4 }, (_, index) => service.project.as(name(`race-${index}`)));
    const responses = await Promise.all(
      Array.from({ length: 8 }, async (_, index) => {
        const call = calls[index % 4];
        if (call === undefined) return [];
        const saved = await call('PUT', path, index % 3 ? save(name('r')) : (changed ?? save)(name('r')));
        const [mine] = index % 2 ? await records(call, path) : [];
        const discarded = mine && (await call('DELETE', `${path}/${mine.id}`));
        return [saved.status, discarded?.status ?? 200];
      }),
    );
    expect(responses.flat().every((status) => status === 200)).toBe(true);
    const active = await Promise.all(calls.map((call) => records(call, path)));
    for (const of of active) expect(of.length).toBeLessThanOrEqual(1);
    if (!shared) expect(active.flat().length).toBeLessThanOrEqual(1);
    for (const call of calls) await call('PUT', path, save(name('r')));
    const then = await Promise.all(calls.map((call) => records(call, path)));
    expect(then.map(({ length }) => length)).toEqual(shared ? [1, 1, 1, 1] : [0, 0, 0, 1]);
  });

  test('the project lists and discards the tokens of its users', async () => {
    const call = service.project.as(name('seen'));
    const userId = await userIdOf(name('seen'));
    await call('PUT', path, save(name('e')));
    const mine = await call('GET', path);
    const url = `/users/${userId}${path}`;
    const theirs = await service.project.call('GET', url);
    expect([theirs.status, theirs.body.data]).toEqual([200, mine.body.data]);
    expect(theirs.body.links.first).toBe(`${service.address}/v2${url}`);
    const one = `${url}/${theirs.body.data[0].id}`;
    expect((await service.project.call('GET', one)).body).toEqual(theirs.body.data[0]);
    const discarded = await service.project.call('DELETE', one);
    expect([discarded.status, discarded.body.id]).toEqual([200, theirs.body.data[0].id]);
    expect(await records(call, path)).toEqual([]);
  });

  test('tokens of another user, project, collection or of a deleted user are not found', async () => {
    const call = service.project.as(name('mine'));
    const userId = await userIdOf(name('mine'));
    await call('PUT', path, save(name('f')));
    const [record] = await records(call, path);
    const other = await otherProject();
    const otherUser = await userIdOf(name('other'));
    const strangers: [Caller, string][] = [
      [service.project.as(name('other')), path],
      [other.as(name('mine')), path],
      [other.call, `/users/${userId}${path}`],
      [service.project.call, `/users/${otherUser}${path}`],
      [service.project.call, `/users/${newId()}${path}`],
      ...Object.keys(COLLECTIONS)
        .filter((key) => key !== collection)
        .map((key): [Caller, string] => [call, pathOf(key)]),
    ];
    for (const method of ['GET', 'DELETE']) {
      for (const [stranger, at] of strangers) {
        const uuidsOnly = !isId(record?.id ?? '') && !at.includes('/slack/');
        expect((await stranger(method, `${at}/${record?.id}`)).status).toBe(uuidsOnly ? 400 : 404);
      }
    }
    for (const [stranger, at] of strangers.slice(2, 5)) {
      const listed = await stranger('GET', at);
      expect(listed.status === 404 || listed.body.data.length === 0).toBe(true);
    }
    expect(await records(call, path)).toEqual([record]);
    await service.context.db.query(sql('test_delete', 'update users set deleted_at = now() where id = $1'), [
      userId,
    ]);
    for (const [method, at] of [
      ['GET', path],
      ['GET', `${path}/${record?.id}`],
      ['DELETE', `${path}/${record?.id}`],
    ] as const) {
      expect((await service.project.call(method, `/users/${userId}${at}`)).status).toBe(404);
    }
  });

  test('the list is paged in both directions, newest first', async () => {
    const call = service.project.as(name('paged'));
    for (let index = 0; index < 5; index += 1) await call('PUT', path, save(name(`p${index}`)));
    const all = await records(call, path);
    const membersOf = ({ id: _id, created_at: _at, ...members }: Body) => JSON.stringify(members);
    expect(all.map(membersOf)).toEqual(
      [4, 3, 2, 1, 0].map((index) =>
        JSON.stringify({ ...save(name(`p${index}`)), updated_at: null, discarded_at: null }),
      ),
    );
    const follow = (link: string) => call('GET', pathOfPage(link));
    const first = await call('GET', `${path}?limit=2`);
    const second = await follow(first.body.links.next);
    const third = await follow(second.body.links.next);
    expect([first, second, third].flatMap(({ body }) => body.data)).toEqual(all);
    expect([first.body.links.prev, third.body.links.next]).toEqual([null, null]);
    expect((await follow(third.body.links.prev)).body.data).toEqual(second.body.data);
    const id = all[2]?.id;
    expect((await call('GET', `${path}?starting_after=${id}`)).body.data).toEqual(all.slice(3));
    expect((await call('GET', `${path}?ending_before=${id}`)).body.data).toEqual(all.slice(0, 2));
  });

  test('is stored sealed', async () => {
    const call = service.project.as(name('sealed'));
    const secret = hex();
    await call('PUT', path, save(secret));
    const rows = await service.context.db.query<{ row: string }>(
      sql('test_rows', `select sealed_data::text as row from tokens`),
    );
    expect(rows.some(({ row }) => row.includes(Buffer.from(secret).toString('hex')))).toBe(false);
    const elsewhere = await service.context.db.query<{ row: string }>(
      sql(
        'test_elsewhere',
        `select t::text as row from token_owners t union all select e::text from events e`,
      ),
    );
    // The channel that a chat token posts to is its id, and no secret.
    expect(elsewhere.filter(({ row }) => row.includes(secret)).length).toBe(
      chat === COLLECTIONS[collection] ? 1 : 0,
    );
  });
});

let another: Promise<TestService['project']> | undefined;
const otherProject = () => {
  another ??= service.createProject('other');
  return another;
};

describe('a Slack token', () => {
  const path = pathOf('slack');

  test('has the id of its installation and channel; a plain webhook gets a generated id', async () => {
    const call = service.project.as('slack-id');
    const both = { ...oauth('C1'), webhook: { url: hook('1') } };
    await call('PUT', path, both);
    await call('PUT', path, { webhook: { url: hook('1') } });
    const [second, first] = await records(call, path);
    expect(first).toMatchObject({ id: 'A0-T0-C1', ...both });
    expect(second).toMatchObject({ webhook: { url: hook('1') } });
    expect(second).not.toHaveProperty('oauth');
    expect(isId(second?.id ?? '')).toBe(true);
  });

  test('saved after a discard is a new record, and the discarded one stays discarded', async () => {
    const call = service.project.as('slack-again');
    await call('PUT', path, oauth('C1'));
    await call('PUT', path, { webhook: { url: hook('2') } });
    const [webhook, channel] = await records(call, path);
    for (const record of [webhook, channel]) await call('DELETE', `${path}/${record?.id}`);
    await call('PUT', path, { webhook: { url: hook('2') } });
    await call('PUT', path, oauth('C1'));
    const [again, newWebhook] = await records(call, path);
    // The id of an oauth token is Slack's. The record is a new one, and the newest of the list.
    expect(again).toMatchObject({ id: 'A0-T0-C1', ...oauth('C1'), updated_at: null, discarded_at: null });
    expect(again?.created_at).not.toBe(channel?.created_at);
    expect((await call('GET', `${path}/A0-T0-C1`)).body).toEqual(again);
    const kept = await service.context.db.query<{ discarded: boolean }>(
      sql(
        'test_slack_records',
        `select discarded_at is not null as discarded from tokens
        where channel = 'slack' and user_id = (select id from users where external_id = 'slack-again')
          and hash = sha256('id:A0-T0-C1') order by id`,
      ),
    );
    expect(kept).toEqual([{ discarded: true }, { discarded: false }]);
    expect(newWebhook?.id).not.toBe(webhook?.id);
    expect((await call('GET', `${path}/${webhook?.id}`)).body.discarded_at).toMatch(/Z$/);
    const events = await service.context.db.query<{ type: string }>(
      sql(
        'test_slack_events',
        `select type from events where details -> 'context' ->> 'token_id' = 'A0-T0-C1'
          and details -> 'context' ->> 'channel' = 'slack' and user_ids = (select array[id] from users
          where external_id = 'slack-again') order by id`,
      ),
    );
    expect(events.map(({ type }) => type)).toEqual(['token.saved', 'token.discarded', 'token.saved']);
  });

  test('is separate from a slackbot token with the same id', async () => {
    const call = service.project.as('slack-two');
    const bot = pathOf('slack/magicbell_slackbot');
    await call('PUT', path, oauth('C1'));
    await call('PUT', bot, { ...oauth('C1'), webhook: { url: hook('3') } });
    await call('DELETE', `${path}/A0-T0-C1`);
    expect(await records(call, path)).toEqual([]);
    expect(await records(call, bot)).toMatchObject([{ id: 'A0-T0-C1', webhook: { url: hook('3') } }]);
  });

  test('of the slackbot is found under both names of the brand', async () => {
    const call = service.project.as('slack-brand');
    const other = pathOf('slack/service_slackbot');
    await call('PUT', other, oauth('C1'));
    expect(await records(call, pathOf('slack/magicbell_slackbot'))).toEqual(await records(call, other));
    expect((await call('DELETE', `${other}/A0-T0-C1`)).status).toBe(200);
    expect(await records(call, pathOf('slack/magicbell_slackbot'))).toEqual([]);
  });

  test('may have any text as its id, even one in the format of generated ids', async () => {
    const call = service.project.as('slack-odd');
    const own = newId();
    for (const [installation_id, channel_id] of [
      ['A-T', 'a/b c?&é#%'],
      [own.slice(0, 23), own.slice(24)],
    ] as const) {
      const body = { oauth: { installation_id, channel_id } };
      expect((await call('PUT', path, body)).status).toBe(200);
      expect((await call('PUT', path, body)).status).toBe(200);
    }
    const [likeOurs, odd] = await records(call, path);
    expect(odd?.id).toBe('A-T-a/b c?&é#%');
    expect(isId(likeOurs?.id ?? '') && likeOurs?.id !== own).toBe(true);
    for (const record of [likeOurs, odd]) {
      const one = `${path}/${encodeURIComponent(record?.id ?? '')}`;
      expect((await call('GET', one)).body).toEqual(record);
      expect((await call('DELETE', one)).body.id).toBe(record?.id);
    }
  });

  test('is not found under its webhook’s URL, and no id contains U+0000', async () => {
    const call = service.project.as('slack-address');
    await call('PUT', path, { webhook: { url: hook('4') } });
    expect((await call('GET', `${path}/${encodeURIComponent(hook('4'))}`)).status).toBe(404);
    expect((await call('GET', `${path}/A0%00`)).status).toBe(400);
    const listed = await call('GET', `${path}?starting_after=A0-T0-C9`);
    expect([listed.status, messages(listed)]).toEqual([
      422,
      ["Param 'starting_after' is not the id of a record"],
    ]);
    expect((await call('GET', `${path}?ending_before=%00`)).status).toBe(422);
  });

  test.each([path, pathOf('slack/magicbell_slackbot')])(
    '%s: all unknown members are rejected at once',
    async (at) => {
      const call = service.project.as('slack-unknown');
      const response = await call(
        'PUT',
        `${at}?a=1`,
        { more: 1 },
        {
          cookie: 'sid=1',
          'x-magicbell-nonsense': '1',
          'x-magicbell-client-id': 'known',
        },
      );
      expect(response.status).toBe(422);
      expect(messages(response).sort()).toEqual([
        "Cookie 'sid' is not known",
        "Header 'x-magicbell-nonsense' is not known",
        "Param '(root)' doesn't allow key: more",
        "Param '(root)' must have oauth or webhook",
        "Query parameter 'a' is not known",
      ]);
      expect(await records(call, at)).toEqual([]);
    },
  );
});

describe('rejects, with every problem, and stores nothing of', () => {
  const address = 'must be an address that begins with https:// or http://';
  test.each<[string, string, unknown, string[]]>([
    ['inbox', 'in_app/inbox', { token: 'x' }, ["Param 'token' must have at least 64 characters"]],
    [
      'apns',
      'mobile_push/apns',
      { device_token: 'x'.repeat(63), app_id: 'com..example', installation_id: 'sandbox', x: 1 },
      [
        "Param '(root)' doesn't allow key: x",
        "Param 'device_token' must have at least 64 characters",
        "Param 'app_id' must match the pattern ^[a-zA-Z0-9]+(.[a-zA-Z0-9]+)*$",
        "Param 'installation_id' must be one of: development, production",
      ],
    ],
    ['apns without a token', 'mobile_push/apns', {}, ["Param 'device_token' is missing"]],
    [
      'apns with null',
      'mobile_push/apns',
      { device_token: text('n'), app_id: null, installation_id: 1 },
      [
        "Param 'app_id' must be a string",
        "Param 'installation_id' must be a string",
        "Param 'installation_id' must be one of: development, production",
      ],
    ],
    [
      'expo',
      'mobile_push/expo',
      { device_token: '' },
      ["Param 'device_token' must have at least 1 character"],
    ],
    [
      'expo with a member of apns',
      'mobile_push/expo',
      { device_token: 'x', app_id: 'a' },
      ["Param '(root)' doesn't allow key: app_id"],
    ],
    ['fcm', 'mobile_push/fcm', { device_token: 1 }, ["Param 'device_token' must be a string"]],
    ['slack with nothing', 'slack', {}, ["Param '(root)' must have oauth or webhook"]],
    [
      'slack with half',
      'slack',
      { oauth: { installation_id: '', x: 1 }, webhook: {} },
      [
        "Param 'oauth' doesn't allow key: x",
        "Param 'oauth.channel_id' is missing",
        "Param 'oauth.installation_id' must have at least 1 character",
        "Param 'webhook.url' is missing",
      ],
    ],
    [
      'slack with null',
      'slack',
      { oauth: null },
      ["Param 'oauth' must be an object", "Param '(root)' must have oauth or webhook"],
    ],
    [
      'slackbot',
      'slack/magicbell_slackbot',
      { webhook: { url: 'ftp://x.example.com' } },
      [`Param 'webhook.url' ${address}`],
    ],
    [
      'teams',
      'teams',
      { webhook: { url: 'javascript:alert(1)', x: 1 } },
      ["Param 'webhook' doesn't allow key: x", `Param 'webhook.url' ${address}`],
    ],
    [
      'web push',
      'web_push',
      { endpoint: 'file:///etc/passwd', keys: { auth: '' } },
      [
        `Param 'endpoint' ${address}`,
        "Param 'keys.auth' must have at least 1 character",
        "Param 'keys.p256dh' is missing",
      ],
    ],
    ['web push without', 'web_push', {}, ["Param 'endpoint' is missing", "Param 'keys' is missing"]],
    ['no object', 'teams', [], ["Param '(root)' must be an object"]],
  ])('%s', async (_what, collection, body, problems) => {
    const call = service.project.as('refused');
    const response = await call('PUT', pathOf(collection), body);
    expect(response.status).toBe(422);
    expect(messages(response).sort()).toEqual([...problems].sort());
    expect(await records(call, pathOf(collection))).toEqual([]);
  });
});

test('an app_id is matched as the contract has it, and hostile ones take no time', async () => {
  const call = service.project.as('app-id');
  const save = (app_id: string) =>
    call('PUT', pathOf('mobile_push/apns'), { device_token: text('app'), app_id });
  for (const good of ['a', 'com.example.app', 'com-example_1']) expect((await save(good)).status).toBe(200);
  for (const bad of ['', '.a', 'a.', 'a..b', `${'a'.repeat(60_000)}!`])
    expect((await save(bad)).status).toBe(422);
});

test("a browser's subscription is accepted as toJSON returns it", async () => {
  const call = service.project.as('subscribed');
  const subscription = { endpoint: 'https://push.example.com/toJSON', keys };
  for (const expirationTime of [null, 1_790_000_000_000]) {
    const saved = await call('PUT', pathOf('web_push'), { ...subscription, expirationTime });
    expect([saved.status, saved.body]).toEqual([200, subscription]);
  }
  const [record, ...others] = await records(call, pathOf('web_push'));
  expect(record).toMatchObject(subscription);
  expect(record).not.toHaveProperty('expirationTime');
  expect([record?.updated_at, others]).toEqual([null, []]);
  const installed = await call('PUT', '/integrations/web_push/installations', {
    ...subscription,
    expirationTime: null,
  });
  expect([installed.status, installed.body]).toEqual([200, subscription]);
});

test('a Teams token without a URL means the default of the project, once', async () => {
  const call = service.project.as('teams-default');
  const path = pathOf('teams');
  for (const body of [{}, { webhook: {} }, {}]) {
    const saved = await call('PUT', path, body);
    expect([saved.status, saved.body]).toEqual([200, body]);
  }
  const listed = await records(call, path);
  expect(listed).toHaveLength(1);
  expect(listed[0]).not.toHaveProperty('webhook');
});

test('a token that cannot be opened hides no other, and can be discarded or saved again', async () => {
  const call = service.project.as('unreadable');
  const path = pathOf('web_push');
  const body = (name: string) => COLLECTIONS.web_push?.save(`u${name}`);
  for (const name of ['1', '2', '3']) await call('PUT', path, body(name));
  const [third, second, first] = await records(call, path);
  await service.context.db.query(
    sql(
      'test_swap',
      'update tokens set sealed_data = (select sealed_data from tokens where id = $1) where id = any($2)',
    ),
    [third?.id, [first?.id, second?.id]],
  );
  expect(await records(call, path)).toEqual([third]);
  expect((await call('GET', `${path}/${first?.id}`)).status).toBe(404);
  expect((await call('DELETE', `${path}/${first?.id}`)).status).toBe(200);
  expect((await call('PUT', path, body('2'))).status).toBe(200);
  expect(await records(call, path)).toMatchObject([third, { id: second?.id, ...body('2') }]);
});

test('every statement on tokens uses its index, even among many discarded tokens and users', async () => {
  const database = await createTestDatabase();
  const db = openDatabase(database.connection, { size: 1, name: 'token plans', isDistributed: false });
  try {
    const context = {
      db,
      sealer: service.context.sealer,
      bus: { publish: () => {}, subscribe: () => () => {} },
    };
    const owner = { projectId: newId(), userId: newId() };
    const place = { id: NEWEST, limit: 51 };
    for (const user of [owner, { ...owner, userId: newId() }, { ...owner, userId: newId() }]) {
      await saveToken(context, tokenCollection('expo'), user, { device_token: 'moves' });
    }
    for (const body of [oauth('C1'), { ...oauth('C1'), webhook: { url: hook('plan') } }]) {
      await saveToken(context, tokenCollection('slack'), owner, body);
    }
    await listTokens(db, owner.userId, 'slack', { ...place, direction: 'older' });
    await listTokens(db, owner.userId, 'slack', { ...place, direction: 'newer' });
    const id = (await recordId(db, owner.userId, 'slack', 'A0-T0-C1')) ?? '';
    await getToken(db, owner.userId, 'slack', id);
    await discardToken(context, 'slack', { ...owner, id });
    await findInboxToken(context, owner.projectId, 'none');
    const statements = await db.query<{ name: string; places: number }>(
      sql(
        '',
        `select name, cardinality(parameter_types) as places
        from pg_prepared_statements
        where statement ~* '(join|update|from) (tokens|token_owners)'`,
      ),
    );
    await db.query(sql('', 'set plan_cache_mode = force_generic_plan'));
    const used: Record<string, string[]> = {};
    for (const { name, places } of statements) {
      const values = Array.from({ length: places }, () => 'null').join(', ');
      const plan = await db.query<Record<'QUERY PLAN', string>>(
        sql('', `explain execute ${name}(${values})`),
      );
      const text = plan.map((line) => line['QUERY PLAN']).join('\n');
      expect(text).not.toContain('Seq Scan');
      used[name] = [...text.matchAll(/(?:using|Scan on) (\w+)(?= on| {2})/g)].map(([, index = '']) => index);
    }
    expect(used).toEqual({
      delete_token_owner: ['token_owners_pkey'],
      discard_oldest_devices: expect.arrayContaining(['tokens_listed', 'token_owners_pkey']),
      discard_oldest_shared_tokens: expect.arrayContaining(['tokens_listed']),
      discard_former_token: [expect.stringMatching(/^tokens_(pkey|listed)$/)],
      discard_token: [expect.stringMatching(/^tokens_(pkey|listed)$/)],
      find_token_by_public_id: ['tokens_unique'],
      find_token_owner: ['token_owners_pkey', 'tokens_pkey', 'users_pkey'],
      get_token: ['tokens_pkey'],
      list_tokens_newer: ['tokens_listed'],
      list_tokens_older: ['tokens_listed'],
      lock_token: ['tokens_unique'],
      lock_token_owner: ['token_owners_pkey', 'tokens_pkey'],
      move_token_owner: ['token_owners_pkey'],
      select_token_to_discard: ['tokens_pkey'],
      update_token: ['tokens_pkey'],
    });
  } finally {
    await db.close();
    await database.drop();
  }
});
