import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { fanOutHandler } from '../../src/domain/line/fan-out/fan-out.ts';
import { insertCrowd } from '../support/crowd.ts';
import { openStream, titles } from '../support/realtime.ts';
import {
  processed,
  startTestService,
  type TestProject,
  type TestService,
  until,
} from '../support/service.ts';
import { type SmtpStandIn, startSmtpStandIn } from '../support/smtp-stand-in.ts';
import { STORED_EVENTS } from '../support/stored-events.ts';

let service: TestService;
let mail: SmtpStandIn;
let project: TestProject;
let made = 0;

beforeAll(async () => {
  [service, mail] = await Promise.all([startTestService({ pollMs: 50 }), startSmtpStandIn()]);
});
afterAll(async () => {
  await Promise.all([service?.stop(), mail?.stop()]);
});
beforeEach(async () => {
  made += 1;
  project = await service.createProject(`broadcasts to topics ${made}`);
});

const subscribers = { topic: { subscribers: true } };
const subscribe = async (user: string, ...categories: (string | object)[]) => {
  const { status } = await project.as(user)('POST', '/subscriptions', {
    topic: 'news',
    categories: categories.map((one) => (typeof one === 'string' ? { slug: one } : one)),
  });
  expect(status).toBe(200);
};
const not = (slug: string) => ({ slug, status: 'unsubscribed' });
const send = (body: object = {}) =>
  project.call('POST', '/broadcasts', { title: 'Hello', topic: 'news', recipients: [subscribers], ...body });
const sendAndWait = async (body: object = {}) => {
  const { status, body: accepted } = await send(body);
  expect([status, accepted.errors]).toEqual([201, undefined]);
  return processed(project.call, accepted.id);
};
const summary = (total: number, failures = 0) => ({ total, failures, pending: 0 });

const crowd = (count: number, options?: { categories: string }) =>
  insertCrowd(service, project, count, options);

/** The users that have a notification of this broadcast. */
async function reached(broadcastId: string): Promise<string[]> {
  const found = await service.rows<{ user_id: string }>(
    'select user_id from notifications where broadcast_id = $1 order by user_id',
    [broadcastId],
  );
  return found.map((row) => row.user_id);
}

async function pagesOf(broadcastId: string): Promise<number[]> {
  const found = await service.rows<{ users: number }>(
    'select cardinality(user_ids) as users from broadcast_users where broadcast_id = $1 order by page',
    [broadcastId],
  );
  return found.map((row) => row.users);
}

async function eventsOf(broadcastId: string): Promise<Record<string, number>> {
  const found = await service.rows<{ type: string; count: number }>(
    `select type, sum(size)::int as count from ${STORED_EVENTS} where broadcast_id = $1 group by type
      order by type`,
    [broadcastId],
  );
  return Object.fromEntries(found.map(({ type, count }) => [type, count]));
}

const has = async (user: string) =>
  (await project.as(user)('GET', '/notifications')).body.data.map((one: { title: string }) => one.title);

describe('subscribers get it', () => {
  test('if subscribed to the category or, without a subscription to that, to all', async () => {
    await subscribe('all', '*');
    await subscribe('sport', 'sport');
    await subscribe('not sport', '*', not('sport'));
    await subscribe('only sport', not('*'), 'sport');
    await subscribe('left', '*', 'sport');
    await subscribe('left', not('*'));
    await project.as('elsewhere')('POST', '/subscriptions', { topic: 'news/sport' });
    const users = ['all', 'sport', 'not sport', 'only sport', 'left', 'elsewhere'];
    const sent: [string, string | undefined, string[]][] = [
      ['with none', undefined, ['all', 'not sport']],
      ['on sport', 'sport', ['all', 'sport', 'only sport']],
      ['on weather', 'weather', ['all', 'not sport']],
    ];
    for (const [title, category, expected] of sent) {
      const { status } = await sendAndWait({ title, category });
      expect(status).toEqual({ status: 'processed', summary: summary(expected.length), errors: null });
    }
    for (const user of users) {
      const expected = sent.filter(([, , reaches]) => reaches.includes(user)).map(([title]) => title);
      expect([user, (await has(user)).toSorted()]).toEqual([user, expected.toSorted()]);
    }
  });

  test('no subscribers: the broadcast is processed nevertheless', async () => {
    const { id, status, recipients } = await sendAndWait();
    expect(status).toEqual({ status: 'processed', summary: summary(0), errors: null });
    expect(recipients).toEqual([subscribers]);
    expect(await eventsOf(id)).toEqual({ 'broadcast.created': 1, 'broadcast.processed': 1 });
  });

  test('only those of the project that sends it', async () => {
    const other = await service.createProject(`elsewhere ${made}`);
    await other.as('ada')('POST', '/subscriptions', { topic: 'news' });
    expect((await sendAndWait()).status.summary).toEqual(summary(0));
  });

  test('beside named recipients, each once; named recipients get it even if they unsubscribed', async () => {
    await subscribe('ada', '*');
    await subscribe('bob', not('*'));
    await subscribe('cy', '*');
    const { status, recipients } = await sendAndWait({
      recipients: [{ external_id: 'ada' }, subscribers, { external_id: 'bob' }, subscribers],
    });
    expect(status).toEqual({ status: 'processed', summary: summary(3), errors: null });
    expect(recipients).toHaveLength(4);
    for (const user of ['ada', 'bob', 'cy']) expect(await has(user)).toEqual(['Hello']);
  });

  test('unless they are deleted; a restored user is still subscribed', async () => {
    await crowd(2);
    await subscribe('ada', '*');
    const { body: ada } = await project.call('PUT', '/users', { external_id: 'ada' });
    expect((await project.call('DELETE', `/users/${ada.id}`)).status).toBe(204);
    const without = await sendAndWait({ title: 'Without' });
    expect(without.status).toEqual({ status: 'processed', summary: summary(2), errors: null });
    expect(await reached(without.id)).not.toContain(ada.id);
    await project.call('PUT', '/users', { external_id: 'ada' });
    expect((await sendAndWait({ title: 'With' })).status.summary).toEqual(summary(3));
    expect(await has('ada')).toEqual(['With']);
  });
});

describe('invalid input is rejected', () => {
  test.each<[string, object, string[]]>([
    [
      'subscribers without a topic',
      { topic: undefined, recipients: [{ external_id: 'a' }, subscribers] },
      ["Param 'topic' is missing: recipients.1 are its subscribers"],
    ],
    [
      'subscribers of a null topic',
      { topic: null },
      ["Param 'topic' is missing: recipients.0 are its subscribers"],
    ],
    [
      'subscribers that are not true',
      { recipients: [{ topic: { subscribers: false } }] },
      ["Param 'recipients.0.topic.subscribers' must be true"],
    ],
    [
      'a topic alone, with an unknown key, or as a string',
      { recipients: [{ topic: {} }, { topic: { subscribers: true, category: 'x' } }, { topic: 'news' }] },
      [
        "Param 'recipients.0.topic.subscribers' is missing",
        "Param 'recipients.1.topic' doesn't allow key: category",
        "Param 'recipients.2.topic' must be an object",
      ],
    ],
    [
      'subscribers with a name',
      { recipients: [{ ...subscribers, external_id: 'ada' }] },
      ["Param 'recipients.0' doesn't allow key: topic"],
    ],
    [
      'recipients without a name, among others',
      { recipients: [{}, { external_id: 5 }, { email: 'a@example.com', baz: 1 }, subscribers, 7] },
      [
        "Param 'recipients.0' must have external_id or email",
        "Param 'recipients.1.external_id' must be a string or null",
        "Param 'recipients.2' doesn't allow key: baz",
        "Param 'recipients.4' must be an object",
      ],
    ],
  ])('%s', async (_what, body, messages) => {
    const { status, body: response } = await send(body);
    expect(status).toBe(422);
    expect(response.errors.map((error: { message: string }) => error.message)).toEqual(messages);
    expect((await project.call('GET', '/broadcasts')).body.data).toEqual([]);
  });
});

describe('a topic with many subscribers', () => {
  test.each([
    [999, [999]],
    [1000, [1000]],
    [1001, [1000, 1]],
    [2500, [1000, 1000, 500]],
  ])('of %i subscribers each is reached once', async (count, pages) => {
    const users = await crowd(count);
    const { id, status } = await sendAndWait();
    expect(status).toEqual({ status: 'processed', summary: summary(count), errors: null });
    expect(await reached(id)).toEqual(users);
    expect(await pagesOf(id)).toEqual(pages);
    expect(await eventsOf(id)).toEqual({
      'broadcast.created': 1,
      'broadcast.processed': 1,
      'delivery.sent': count,
      'notification.created': count,
    });
    const [event] = await service.rows<{ details: string }>(
      "select details::text from events where broadcast_id = $1 and type = 'broadcast.processed'",
      [id],
    );
    expect(JSON.parse(event?.details ?? '')).toEqual({ payload: summary(count) });
    expect(await service.rows('select 1 from jobs where project_id = $1', [project.id])).toEqual([]);
  });

  test('named recipients come first and get it once', async () => {
    const users = await crowd(1500);
    const named = [3, 700, 1400].map((number) => ({ external_id: `crowd-${number}` }));
    const { id, status } = await sendAndWait({ recipients: [...named, subscribers, { external_id: 'new' }] });
    expect(status).toEqual({ status: 'processed', summary: summary(1501), errors: null });
    const found = await reached(id);
    expect(users.filter((user) => !found.includes(user))).toEqual([]);
    expect(found).toHaveLength(1501);
    expect((await pagesOf(id)).reduce((sum, count) => sum + count)).toBe(1501);
    expect((await eventsOf(id))['notification.created']).toBe(1501);
  });

  test('a rare category is found behind tens of thousands of other subscriptions', async () => {
    const users = await crowd(20_500, { categories: '{"other": {"status": "subscribed"}}' });
    const few = [users[12_000], users[20_499]];
    await service.rows(
      `update subscriptions set categories = '{"rare": {"status": "subscribed"}}'
        where user_id = any ($1::uuid[])`,
      [few],
    );
    const { id, status } = await sendAndWait({ category: 'rare' });
    expect(status.summary).toEqual(summary(2));
    expect(await reached(id)).toEqual(few);
  });

  test('e-mails sent, failed and skipped are counted correctly over all pages', async () => {
    await project.call('PUT', '/integrations/smtp', {
      host: mail.host,
      port: mail.port,
      username: '',
      password: '',
      security: 'none',
      from: { email: 'news@example.com' },
    });
    await project.call('PUT', '/channels', {
      key: 'sport',
      channels: [{ channel: 'in_app', if: "user.external_id != 'crowd-8'" }, { channel: 'email' }],
    });
    const crowded = await crowd(1_200);
    const rows = await service.rows<{ id: string }>(
      "select id from users where project_id = $1 and external_id in ('crowd-8', 'crowd-9')",
      [project.id],
    );
    // Ids are random, so these two can be anywhere.
    const users = crowded.filter((user) => !rows.some(({ id }) => id === user));
    const named = { external_id: 'boss', email: 'boss@example.com' };
    // Both pages have a user without an address and one with an invalid one. Another has disabled e-mail.
    for (const user of [users[5], users[1_105]])
      await service.rows('update users set email = null where id = $1', [user]);
    for (const user of [users[7], users[1_107]])
      await service.rows("update users set email = 'no address ' || id where id = $1", [user]);
    await project.as('crowd-9')('PUT', '/channels/user_preferences', {
      categories: [{ key: 'sport', channels: [{ name: 'email', enabled: false }] }],
    });
    const before = mail.received.length;
    const { body } = await send({ category: 'sport', recipients: [named, subscribers] });
    const { id, status } = await processed(project.call, body.id);
    expect(status.summary).toEqual(summary(1_201, 2));
    expect(status.errors).toHaveLength(2);
    expect(mail.received.length - before).toBe(1_201 - 5);
    expect(await reached(id)).toHaveLength(1_201);
    expect(await has('crowd-8')).toEqual([]);
    expect(await has('crowd-9')).toEqual(['Hello']);
  });

  test('users that leave or join during the fan-out do not affect the others, who get it once', async () => {
    const users = await crowd(6_000);
    const staying = users.filter((_, index) => index % 3 !== 0);
    const leaving = users.filter((_, index) => index % 3 === 0);
    const { body } = await send();
    for (let start = 0; start < leaving.length; start += 100) {
      const some = leaving.slice(start, start + 100);
      await service.rows('delete from subscriptions where user_id = any ($1::uuid[])', [some]);
      await service.rows(
        `insert into subscriptions (user_id, topic, id, project_id, categories)
        select id, 'news', gen_random_uuid(), $1, '{"*": {"status": "subscribed"}}' 
         from unnest($2::uuid[]) as u (id)`,
        [project.id, some.slice(0, 50)],
      );
    }
    const { id, status } = await processed(project.call, body.id);
    const found = await reached(id);
    const set = new Set(found);
    expect(staying.filter((user) => !set.has(user))).toEqual([]);
    expect(set.size).toBe(found.length);
    expect(status.summary).toEqual(summary(found.length));
    expect((await eventsOf(id))['notification.created']).toBe(found.length);
  });

  test('concurrent broadcasts whose deliveries end during their fan-out do not deadlock', async () => {
    await project.call('PUT', '/channels', { key: 'sport', channels: [{ channel: 'in_app', if: 'true' }] });
    await crowd(3_000);
    const deadlocks = async () => {
      const [row] = await service.rows<{ deadlocks: number }>(
        'select deadlocks from pg_stat_database where datname = current_database()',
        [],
      );
      return row?.deadlocks;
    };
    const before = await deadlocks();
    const sent = await Promise.all(Array.from({ length: 5 }, () => send({ category: 'sport' })));
    for (const { body } of sent) {
      const { id, status } = await processed(project.call, body.id);
      expect(status).toEqual({ status: 'processed', summary: summary(3_000), errors: null });
      expect((await eventsOf(id))['delivery.sent']).toBe(3_000);
      expect((await eventsOf(id))['broadcast.processed']).toBe(1);
    }
    expect(await deadlocks()).toBe(before);
  });

  test('a message to one user is sent before the remaining pages', async () => {
    await crowd(20_000);
    const { body: large } = await send();
    await until(
      () => project.call('GET', `/broadcasts/${large.id}`),
      ({ body }) => body.status.summary.total > 0,
    );
    const { body: one } = await send({ title: 'Urgent', recipients: [{ external_id: 'crowd-1' }] });
    await processed(project.call, one.id);
    const { status } = (await project.call('GET', `/broadcasts/${large.id}`)).body;
    expect(status.status).toBe('processing');
    expect(status.summary.total).toBeLessThan(20_000);
    expect((await processed(project.call, large.id)).status.summary).toEqual(summary(20_000));
  });

  test('a connected client is notified once, whatever the page', async () => {
    const users = await crowd(2_100);
    const names = await service.rows<{ id: string; external_id: string }>(
      'select id, external_id from users where project_id = $1',
      [project.id],
    );
    const name = (id: string | undefined) => names.find((one) => one.id === id)?.external_id ?? '';
    const streams = await Promise.all(
      [users[0], users[1_500], users[2_099]].map((id) =>
        openStream(`${service.address}/v2/notifications/stream`, {
          jwt: project.userJwt({ user_external_id: name(id) }),
        }),
      ),
    );
    try {
      await sendAndWait({ title: 'First', content: 'x', custom_attributes: { a: 1 } });
      await sendAndWait({ title: 'Second' });
      for (const stream of streams) {
        await until(
          () => titles(stream.frames),
          (seen) => seen.length >= 2,
        );
        expect(titles(stream.frames)).toEqual(['First', 'Second']);
      }
    } finally {
      for (const stream of streams) stream.source.close();
    }
  });

  test('other nodes are notified of a page by its number, of an ordinary broadcast as before', async () => {
    await crowd(2_100);
    const pages: (number | undefined)[] = [];
    const unsubscribe = service.context.bus.subscribe((message) => {
      if (message.type === 'new' && message.projectId === project.id) pages.push(message.page);
    });
    try {
      await sendAndWait({ recipients: [subscribers, { external_id: 'crowd-1' }] });
      // The notification follows the commit, so a response may have shown the page already.
      await until(
        () => pages,
        (pages) => pages.length >= 4,
      );
      expect(pages).toEqual([0, 1, 2, 3]);
      await sendAndWait({ recipients: [{ external_id: 'crowd-1' }] });
      await until(
        () => pages,
        (pages) => pages.length >= 5,
      );
      expect(pages.slice(4)).toEqual([undefined]);
    } finally {
      unsubscribe();
    }
  });
});

describe('a page that fails because of a bug', () => {
  test('ends the broadcast with the finished part, and reports the error', async () => {
    await crowd(1_001);
    const { body } = await send();
    await processed(project.call, body.id);
    // As if the second page were still pending.
    await service.rows("update broadcasts set status = 'processing', awaited = 1 where id = $1", [body.id]);
    // Under a live lease: without one, the next worker that polls would release the job.
    await service.rows(
      "insert into leases (id, node, expires_at) values ($1, 'test', now() + interval '1 hour')",
      [project.id],
    );
    const [job] = await service.rows<{ id: number }>(
      `insert into jobs (kind, project_id, priority, lease_id, due_at, payload)
      values ('fan_out', $1, 2, $2, now() + interval '1 day', '{}')
      returning id`,
      [project.id, project.id],
    );
    const handler = fanOutHandler(service.context);
    await handler.discard(
      {
        id: job?.id ?? 0,
        kind: 'fan_out',
        projectId: project.id,
        partitionKey: project.id,
        priority: 2,
        weight: 1_000,
        attempt: 8,
        cutOffs: 0,
        payload: { broadcast_id: body.id, page: 1 },
      },
      project.id,
      new Error('broken'),
    );
    const { status } = (await project.call('GET', `/broadcasts/${body.id}`)).body;
    expect(status).toEqual({
      status: 'processed',
      summary: summary(1_001),
      errors: [
        {
          message: expect.stringMatching(
            /^Not all subscribers of the topic could be reached: internal error: the server/,
          ),
        },
      ],
    });
  });
});
