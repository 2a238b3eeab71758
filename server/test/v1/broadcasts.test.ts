import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { newId } from '../../src/lib/ids.ts';
import {
  processed,
  startTestService,
  type TestProject,
  type TestService,
  until,
} from '../support/service.ts';

let service: TestService;
let project: TestProject;

beforeAll(async () => {
  service = await startTestService({ pollMs: 50 });
  project = service.project;
});
afterAll(() => service?.stop());

const ada = { external_id: 'ada', email: 'ada@example.com' };
const full = {
  title: 'Your order is on its way',
  content: 'It arrives <b>tomorrow</b>.',
  action_url: 'https://shop.example/orders/1042',
  category: 'orders',
  topic: 'orders/1042',
  custom_attributes: { order: { id: 1042, exact: 12345678901234567890n } },
  recipients: [ada],
};
const json = (value: object) =>
  JSON.stringify(value, (_key, member) => (typeof member === 'bigint' ? `#${member}#` : member)).replace(
    /"#(\d+)#"/g,
    '$1',
  );
const titles = async (user: string) =>
  (await project.as(user)('GET', '/notifications')).body.data.map((one: { title: string }) => one.title);
const stored = async (id: string) => {
  await processed(project.call, id);
  const { status, body } = await project.v1('GET', `/broadcasts/${id}`);
  expect(status).toBe(200);
  return body.broadcast;
};

describe('POST /notifications', () => {
  test('returns what was sent, with the id of the broadcast, and delivers it', async () => {
    const sent = await project.v1('POST', '/notifications', json({ notification: full }));
    expect(sent.status).toBe(201);
    const { id, ...rest } = sent.body.notification;
    const plain = {
      ...full,
      custom_attributes: { order: { id: 1042, exact: Number(12345678901234567890n) } },
    };
    expect(rest).toEqual({ ...plain, sent_at: null, seen_at: null, read_at: null, archived_at: null });
    // Numbers are stored as they were sent.
    expect(sent.text).toContain('12345678901234567890');
    expect((await project.call('GET', `/broadcasts/${id}`)).text).toContain('12345678901234567890');
    await processed(project.call, id);
    expect(await titles('ada')).toEqual([full.title]);
    expect(sent.headers.get('deprecation')).not.toBeNull();
  });

  test('names every problem as clients know it', async () => {
    const problems = async (body: object) => {
      const { status, codes, messages } = await project.v1('POST', '/notifications', body);
      expect([status, new Set(codes)]).toEqual([422, new Set(['validation_failed'])]);
      return messages;
    };
    expect(await problems({ notification: {} })).toEqual([
      "Param 'notification.title' is missing",
      "Param 'notification.recipients' is missing",
    ]);
    expect(await problems({})).toEqual(["Param 'notification' is missing"]);
    expect(await problems({ notification: { title: '', recipients: [] } })).toHaveLength(2);
    const wrong = { title: 'Hello', recipients: [{ topic: { subscribers: true } }] };
    expect(await problems({ notification: wrong })).toEqual([
      "Param 'notification.topic' is missing: recipients.0 are its subscribers",
    ]);
    expect(
      await problems({
        notification: { title: 'Hello', recipients: [{ first_name: 'Ada' }], more: 1 },
        x: 1,
      }),
    ).toEqual([
      "Param '(root)' doesn't allow key: x",
      "Param 'notification' doesn't allow key: more",
      "Param 'notification.recipients.0' must have external_id or email",
    ]);
    for (const text of ['a\0', '\ud800'])
      expect(
        await problems({
          notification: { title: text, content: text, recipients: [{ external_id: 'a' }] },
        }),
      ).toEqual([
        expect.stringContaining("Param 'notification.title'"),
        expect.stringContaining("Param 'notification.content'"),
      ]);
    const many = Array.from({ length: 1_001 }, (_none, index) => ({ external_id: `u${index}` }));
    expect(await problems({ notification: { title: 'Hello', recipients: many } })).toHaveLength(1);
    expect(
      await problems({ notification: { title: 'Hello', recipients: [{ matches: 'plan = 1' }] } }),
    ).toEqual([expect.stringContaining("Param 'notification.recipients.0")]);
  });

  test('sends to a thousand users with many details', async () => {
    const recipients = Array.from({ length: 1_000 }, (_none, index) => ({
      external_id: `many-${index}`,
      first_name: 'Ada',
      last_name: 'Lovelace',
      custom_attributes: { a: 1, b: 2, c: 3, d: 4, e: 5, f: 6 },
    }));
    const { status, body } = await project.v1('POST', '/notifications', {
      notification: { title: 'Many', recipients },
    });
    expect(status).toBe(201);
    expect((await stored(body.notification.id)).status.summary).toEqual({ total: 1_000, failures: 0 });
  });

  test('a recipient has up to 50 phone numbers', async () => {
    const send = (count: number) => {
      const phoneNumbers = Array.from({ length: count }, (_, index) => `+1500555${1000 + index}`);
      const recipients = [{ external_id: 'phones', phone_numbers: phoneNumbers }];
      return project.v1('POST', '/notifications', { notification: { title: 'Call', recipients } });
    };
    expect((await send(50)).status).toBe(201);
    const refused = await send(51);
    expect([refused.status, JSON.stringify(refused.body)]).toEqual([
      422,
      expect.stringContaining('phone_numbers'),
    ]);
  });

  test('a wildcard addresses every user of the project, and no other', async () => {
    const other = await service.createProject('other');
    await other.call('PUT', '/users', { external_id: 'stranger' });
    for (const name of ['one', 'two']) await project.call('PUT', '/users', { external_id: name });
    const { status, body } = await project.v1('POST', '/notifications', {
      notification: { title: 'For all', recipients: [{ matches: '*' }] },
    });
    expect([status, body.notification.recipients]).toEqual([201, [{ matches: '*' }]]);
    await processed(project.call, body.notification.id);
    expect(await titles('one')).toEqual(['For all']);
    expect(await titles('two')).toEqual(['For all']);
    expect((await other.as('stranger')('GET', '/notifications')).body.data).toEqual([]);
  });

  test('an Idempotency-Key sends once, and not across versions', async () => {
    const key = { 'idempotency-key': 'once' };
    const body = { notification: { title: 'Once', recipients: [{ external_id: 'once' }] } };
    const first = await project.v1('POST', '/notifications', body, key);
    const second = await project.v1('POST', '/notifications', body, key);
    expect([second.text, second.headers.get('idempotency-replayed')]).toEqual([first.text, 'true']);
    const other = { notification: { ...body.notification, title: 'Twice' } };
    expect((await project.v1('POST', '/notifications', other, key)).status).toBe(409);
    expect((await project.v1('POST', '/broadcasts', { broadcast: body.notification }, key)).status).toBe(201);
    expect((await project.call('POST', '/broadcasts', body.notification, key)).status).toBe(201);
  });

  test('long content, numbers and overrides are stored as they were sent', async () => {
    const content = '€'.repeat(600_000);
    const overrides = { providers: { ios: { aps: { badge: 1 } } } };
    const notification = { ...full, content, overrides, recipients: [{ external_id: 'long' }] };
    const { status, body, text } = await project.v1('POST', '/notifications', json({ notification }));
    expect([status, body.notification.content.length]).toEqual([201, 600_000]);
    expect(text).toContain('12345678901234567890');
    expect(await stored(body.notification.id)).toMatchObject({
      content,
      overrides: { providers: { apns: overrides.providers.ios } },
    });
    expect((await project.call('GET', `/broadcasts/${body.notification.id}`)).text).toContain(
      '12345678901234567890',
    );
  });

  test.each([
    ['with white space', (text: string) => ` \r\n\t{ "notification"\n: ${text} }\n`],
    ['with an escaped key', (text: string) => `{"\\u006eotification":${text}}`],
    [
      'with the key twice, of which the last counts',
      (text: string) => `{"notification":{},"notification":${text}}`,
    ],
  ])('the body may be written %s', async (_how, write) => {
    const recipients = [{ external_id: 'written', custom_attributes: { exact: 12345678901234567890n } }];
    const sent = await project.v1('POST', '/notifications', write(json({ title: 'Written', recipients })));
    expect([sent.status, sent.body?.notification.title]).toEqual([201, 'Written']);
    expect(sent.text).toContain('12345678901234567890');
  });

  test.each([
    ['no end', '{"notification":{"title":"A","recipients":[{"external_id":"a"}]}', 400],
    ['a comma before the end', '{"notification":{"title":"A","recipients":[{"external_id":"a"}]},}', 400],
    ['another member', '{"notification":{"title":"A","recipients":[{"external_id":"a"}]},"a":{}}', 422],
    ['no wrapper', '{"title":"A","recipients":[{"external_id":"a"}]}', 422],
    ['a list', '{"notification":[]}', 422],
    ['nothing in the wrapper', '{"notification":}', 400],
  ])('a body with %s is rejected', async (_what, body, status) => {
    expect((await project.v1('POST', '/notifications', body)).status).toBe(status);
  });
});

describe('/broadcasts', () => {
  test('a broadcast is returned with its progress, and with arrays that are never null', async () => {
    const { status, body } = await project.v1('POST', '/broadcasts', {
      broadcast: { title: 'Plain', recipients: [{ external_id: 'plain' }] },
    });
    expect(status).toBe(201);
    const { id, created_at: createdAt } = body.broadcast;
    const members = {
      id,
      title: 'Plain',
      content: null,
      action_url: null,
      category: null,
      topic: null,
      custom_attributes: null,
      recipients: [{ external_id: 'plain' }],
      created_at: createdAt,
    };
    const progress = (value: string) => ({
      status: value,
      summary: { total: 1, failures: 0 },
      errors: [],
    });
    expect(body).toEqual({ broadcast: { ...members, sent_at: null, status: progress('enqueued') } });
    expect(await stored(id)).toEqual({ ...members, sent_at: createdAt, status: progress('processed') });
  });

  test('one of version 2 is shown, too, and null becomes an empty array or is left out', async () => {
    const { body } = await project.call('POST', '/broadcasts', { title: 'Version 2', recipients: null });
    const broadcast = await stored(body.id);
    expect([broadcast.recipients, broadcast.status.errors, 'overrides' in broadcast]).toEqual([
      [],
      [],
      false,
    ]);
  });

  test('overrides have the names of the providers, and one without a provider is reported', async () => {
    const overrides = {
      channels: { in_app: { title: 'In the inbox' } },
      providers: { ios: { aps: { badge: 1 } }, android: { data: { a: '1' } }, postmark: { Tag: 'x' } },
    };
    const { body } = await project.v1('POST', '/broadcasts', {
      broadcast: { title: 'Overridden', recipients: [{ external_id: 'over' }], overrides },
    });
    const error = { message: 'broadcast.overrides.providers.postmark was ignored' };
    expect(body.broadcast.status.errors).toEqual([error]);
    const { overrides: kept, status } = await processed(project.call, body.broadcast.id);
    expect(kept).toEqual({
      channels: overrides.channels,
      providers: { apns: overrides.providers.ios, fcm: overrides.providers.android },
    });
    expect(status.errors).toEqual([error]);
    expect(await titles('over')).toEqual(['In the inbox']);
  });

  test('what was ignored is reported beside recipients that cannot be used', async () => {
    const { body: gone } = await project.call('PUT', '/users', { external_id: 'gone' });
    await project.call('DELETE', `/users/${gone.id}`);
    const { body } = await project.v1('POST', '/broadcasts', {
      broadcast: {
        title: 'Both',
        recipients: [{ external_id: 'gone' }],
        overrides: { providers: { postmark: {} } },
      },
    });
    expect((await stored(body.broadcast.id)).status).toMatchObject({
      summary: { total: 1, failures: 1 },
      errors: [
        { message: 'broadcast.overrides.providers.postmark was ignored' },
        { message: expect.stringContaining('recipients.0') },
      ],
    });
  });

  test('the list has numbered pages with exact totals', async () => {
    const of = await service.createProject('pages');
    const ids: string[] = [];
    for (let number = 0; number < 5; number += 1) {
      const broadcast = { title: `Number ${number}`, recipients: [{ external_id: 'ada' }] };
      ids.unshift((await of.v1('POST', '/broadcasts', { broadcast })).body.broadcast.id);
    }
    const page = async (query: string) => (await of.v1('GET', `/broadcasts${query}`)).body;
    const idsOf = (body: { broadcasts: { id: string }[] }) => body.broadcasts.map(({ id }) => id);
    const first = await page('?per_page=2');
    expect([first.total, first.total_pages, first.current_page, first.per_page]).toEqual([5, 3, 1, 2]);
    expect(idsOf(first)).toEqual(ids.slice(0, 2));
    expect(idsOf(await page('?per_page=2&page=3'))).toEqual(ids.slice(4));
    expect(await page('?per_page=2&page=9')).toMatchObject({ total: 5, current_page: 9, broadcasts: [] });
    expect(await page('')).toMatchObject({ per_page: 20, total_pages: 1 });
    for (const wrong of ['per_page=0', 'per_page=101', 'per_page=abc', 'page=0']) {
      const { status, messages } = await of.v1('GET', `/broadcasts?${wrong}`);
      expect([status, messages]).toEqual([422, [expect.stringContaining(`'${wrong.split('=')[0]}'`)]]);
    }
  });

  test('a page whose texts do not fit names the parameter', async () => {
    const of = await service.createProject('long pages');
    const content = 'x'.repeat(9 * 1024 * 1024);
    for (let number = 0; number < 2; number += 1)
      await of.call('POST', '/broadcasts', { title: 'Long', content, recipients: null });
    const { status, messages } = await of.v1('GET', '/broadcasts');
    expect([status, messages]).toEqual([422, [expect.stringContaining("Param 'per_page' must be smaller")]]);
    expect((await of.v1('GET', '/broadcasts?per_page=1')).status).toBe(200);
  });

  test('an unknown broadcast is a 404, and that of another project, too', async () => {
    const other = await service.createProject('stranger');
    const { body } = await project.v1('POST', '/broadcasts', {
      broadcast: { title: 'Mine', recipients: [ada] },
    });
    for (const [by, id] of [
      [project, newId()],
      [other, body.broadcast.id],
    ] as const) {
      const { status, codes } = await by.v1('GET', `/broadcasts/${id}`);
      expect([status, codes]).toEqual([404, ['not_found']]);
    }
    expect((await project.v1('GET', '/broadcasts/mine')).codes).toEqual(['invalid_id']);
  });

  test('needs the API secret', async () => {
    for (const path of ['/notifications', '/broadcasts']) {
      const { status, codes } = await project.v1As('ada')('POST', path, {});
      expect([status, codes]).toEqual([401, ['api_secret_not_provided']]);
    }
  });
});

describe('GET /broadcasts/{id}/notifications', () => {
  interface Listed {
    id: string;
    title: string;
    status: string;
    discarded_at: null;
    recipient: { user: { id: string; external_id: string | null; phone_numbers: string[] } };
    deliveries: { id: string; channel: string; status: string; title: string; scheduled_at: string }[];
  }
  const list = async (id: string, query = '') => {
    const { status, body } = await project.v1('GET', `/broadcasts/${id}/notifications${query}`);
    expect(status).toBe(200);
    return body as { total: number; total_pages: number; notifications: Listed[] };
  };

  test('has each user once, with the outcome on each channel', async () => {
    const channels = [{ channel: 'in_app', delay: 3_600 }];
    await project.call('PUT', '/channels', { key: 'later', channels });
    const people = [{ external_id: 'ann', phone_numbers: ['+15005550006'] }, { external_id: 'ben' }];
    const broadcast = { title: 'Listed', recipients: people };
    const { body } = await project.v1('POST', '/broadcasts', { broadcast });
    const { body: later } = await project.v1('POST', '/broadcasts', {
      broadcast: { ...broadcast, category: 'later' },
    });
    await processed(project.call, body.broadcast.id);
    const { notifications } = await list(body.broadcast.id);
    expect(notifications).toHaveLength(2);
    for (const one of notifications)
      expect(one).toMatchObject({
        title: 'Listed',
        status: 'unseen',
        deliveries: [
          {
            id: `${one.id}.in_app`,
            title: 'Listed',
            channel: 'in_app',
            status: 'sent',
            scheduled_at: expect.stringMatching(/Z$/),
          },
        ],
      });
    const users = notifications.map(({ recipient }) => recipient.user);
    expect(users.map((user) => [user.external_id, user.phone_numbers]).sort()).toEqual([
      ['ann', ['+15005550006']],
      ['ben', []],
    ]);
    const waiting = await until(
      () => list(later.broadcast.id),
      ({ total }) => total === 2,
    );
    expect(waiting.notifications.map((one) => [one.discarded_at, one.deliveries[0]?.status])).toEqual([
      [null, 'scheduled'],
      [null, 'scheduled'],
    ]);
  });

  test('shows a snoozed notification with a status of v1', async () => {
    const broadcast = { title: 'Snoozed', recipients: [{ external_id: 'sam' }] };
    const { body } = await project.v1('POST', '/broadcasts', { broadcast });
    await processed(project.call, body.broadcast.id);
    const shown = async () => (await list(body.broadcast.id)).notifications[0];
    const { id } = (await shown()) ?? { id: '' };
    const until = new Date(Date.now() + 3_600_000).toISOString();
    const sam = project.as('sam');
    await sam('POST', `/notifications/${id}/snooze`, { until });
    expect(await shown()).toMatchObject({ status: 'unread', snoozed_until: until });
    await sam('POST', `/notifications/${id}/read`);
    await sam('POST', `/notifications/${id}/snooze`, { until });
    expect(await shown()).toMatchObject({ status: 'read', snoozed_until: until });
  });

  test('has numbered pages across the pages of users', async () => {
    const of = await service.createProject('crowd');
    await service.rows(
      `insert into users (id, project_id, external_id, created_at, updated_at)
        select gen_random_uuid(), $1, 'crowd-' || n, now(), now() from generate_series(1, 1050) n`,
      [of.id],
    );
    const broadcast = { title: 'All', recipients: [{ matches: '*' }, { external_id: 'named' }] };
    const { body } = await of.v1('POST', '/broadcasts', { broadcast });
    const { id } = body.broadcast;
    await processed(of.call, id);
    const seen = new Set<string>();
    for (let page = 1; page <= 11; page += 1) {
      const response = await of.v1('GET', `/broadcasts/${id}/notifications?per_page=100&page=${page}`);
      const { total, total_pages: pages, notifications } = response.body;
      expect([total, pages, notifications.length]).toEqual([1_051, 11, page < 11 ? 100 : 51]);
      for (const one of notifications) seen.add(one.recipient.user.id);
    }
    expect(seen.size).toBe(1_051);
    const beyond = await of.v1('GET', `/broadcasts/${id}/notifications?page=1000000000`);
    expect([beyond.status, beyond.body.notifications]).toEqual([200, []]);
  });

  test('shows only the id of a deleted user', async () => {
    const broadcast = { title: 'Gone', recipients: [{ external_id: 'going', email: 'going@example.com' }] };
    const { body } = await project.v1('POST', '/broadcasts', { broadcast });
    await processed(project.call, body.broadcast.id);
    const { id } = (await list(body.broadcast.id)).notifications[0]?.recipient.user ?? { id: '' };
    await project.call('DELETE', `/users/${id}`);
    expect((await list(body.broadcast.id)).notifications[0]?.recipient.user).toEqual({
      id,
      external_id: null,
      email: null,
      first_name: null,
      last_name: null,
      custom_attributes: {},
      phone_numbers: [],
    });
  });

  test('is a 404 for an unknown broadcast and for that of another project', async () => {
    const other = await service.createProject('list stranger');
    const { body } = await project.v1('POST', '/broadcasts', {
      broadcast: { title: 'Mine', recipients: [ada] },
    });
    expect((await project.v1('GET', `/broadcasts/${newId()}/notifications`)).status).toBe(404);
    expect((await other.v1('GET', `/broadcasts/${body.broadcast.id}/notifications`)).status).toBe(404);
    expect((await project.v1('GET', `/broadcasts/${body.broadcast.id}/notifications?page=0`)).status).toBe(
      422,
    );
  });
});
