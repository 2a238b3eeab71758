import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { createServer } from '../../src/http/server.ts';
import { newId } from '../../src/lib/ids.ts';
import { integrationConfigs } from '../support/integration-configs.ts';
import {
  type ApiResponse,
  processed,
  startTestService,
  type TestProject,
  type TestService,
} from '../support/service.ts';

let service: TestService;
let project: TestProject;
beforeAll(async () => {
  service = await startTestService();
  project = service.project;
});
afterAll(() => service.stop());

type Send = (query: string, variables?: object, headers?: Record<string, string>) => Promise<ApiResponse>;

/** Sends GraphQL with a token. */
const sender =
  (token: string): Send =>
  (query, variables, headers = {}) =>
    service.request('POST', '/graphql', { token, headers, body: { query, variables } });
const asUser = (externalId: string, of = project) => sender(of.userJwt({ user_external_id: externalId }));
const asProject = (of = project) => sender(of.jwt);

/** The data of a response without errors. */
async function data(sent: Promise<ApiResponse>): Promise<ApiResponse['body']> {
  const { status, body, text } = await sent;
  expect([status, body?.errors], text).toEqual([200, undefined]);
  return body.data;
}

/** The codes of the errors in a response. */
const codes = ({ body }: ApiResponse): string[] =>
  body.errors.map(({ extensions }: { extensions: { code: string } }) => extensions.code);

async function notify(externalId: string, members: object = {}, count = 1): Promise<void> {
  for (let sent = 0; sent < count; sent += 1) {
    const recipients = [{ external_id: externalId }];
    const { body } = await project.call('POST', '/broadcasts', { title: `${sent}`, recipients, ...members });
    await processed(project.call, body.id);
  }
}

describe('notifications', () => {
  test('the query of the contract returns data', async () => {
    await notify('ada', { title: 'Hello' });
    const found = await data(
      asUser('ada')('{ notifications(first:1){ totalCount edges { node { id title } } } }'),
    );
    expect(found).toEqual({
      notifications: { totalCount: 1, edges: [{ node: { id: expect.any(String), title: 'Hello' } }] },
    });
  });

  test('a notification has all members of REST', async () => {
    await notify('rest', {
      content: 'Text',
      action_url: 'https://shop.example',
      category: 'orders',
      topic: 'orders/1',
      custom_attributes: { snake_case: [1, { a_b: null }] },
    });
    const { body } = await project.as('rest')('GET', '/notifications');
    const { notifications } = await data(
      asUser('rest')(`{ notifications { nodes {
        id userId status title content actionUrl category topic customAttributes createdAt updatedAt
        sentAt seenAt readAt archivedAt discardedAt snoozedUntil
      } } }`),
    );
    const camel = (name: string) => name.replace(/_(.)/g, (_all, letter) => letter.toUpperCase());
    const expected = Object.entries(body.data[0]).map(([name, value]) => [camel(name), value]);
    expect(notifications.nodes).toEqual([{ ...Object.fromEntries(expected), status: 'UNSEEN' }]);
  });

  test('the pages in both directions have every notification once', async () => {
    await notify('pages', {}, 7);
    const send = asUser('pages');
    const read = `query ($first: Int, $after: String, $last: Int, $before: String) {
      notifications(first: $first, after: $after, last: $last, before: $before) {
        totalCount edges { cursor node { title } } pageInfo {
          hasNextPage hasPreviousPage startCursor endCursor
        }
      }
    }`;
    const forwards: string[][] = [];
    let next: object = { first: 3 };
    for (let more = true; more; ) {
      const { notifications } = await data(send(read, next));
      const { edges, pageInfo, totalCount } = notifications;
      expect([totalCount, pageInfo.hasPreviousPage]).toEqual([7, forwards.length > 0]);
      forwards.push(edges.map(({ node }: { node: { title: string } }) => node.title));
      next = { first: 3, after: pageInfo.endCursor };
      more = pageInfo.hasNextPage;
    }
    expect(forwards).toEqual([['6', '5', '4'], ['3', '2', '1'], ['0']]);
    const backwards: string[][] = [];
    next = { last: 3 };
    for (let more = true; more; ) {
      const { notifications } = await data(send(read, next));
      const { edges, pageInfo } = notifications;
      expect(pageInfo.hasNextPage).toBe(backwards.length > 0);
      backwards.push(edges.map(({ node }: { node: { title: string } }) => node.title));
      next = { last: 3, before: pageInfo.startCursor };
      more = pageInfo.hasPreviousPage;
    }
    expect(backwards).toEqual([['2', '1', '0'], ['5', '4', '3'], ['6']]);
  });

  test('the filters are those of REST', async () => {
    await notify('filters', { title: 'a', category: 'orders' });
    await notify('filters', { title: 'b', topic: 'news' });
    const send = asUser('filters');
    const titles = async (args: string) => {
      const { notifications } = await data(send(`{ notifications${args} { totalCount nodes { title } } }`));
      const shown = notifications.nodes.map(({ title }: { title: string }) => title);
      expect(notifications.totalCount).toBe(shown.length);
      return shown;
    };
    expect(await titles('')).toEqual(['b', 'a']);
    expect(await titles('(categories: ["orders"])')).toEqual(['a']);
    expect(await titles('(categories: ["uncategorized"])')).toEqual(['b']);
    expect(await titles('(categories: ["uncategorized", "orders"])')).toEqual(['b', 'a']);
    expect(await titles('(topics: ["news", "others"])')).toEqual(['b']);
    expect(await titles('(seen: true)')).toEqual([]);
    expect(await titles('(seen: false)')).toEqual(['b', 'a']);
    await data(send('mutation { readAllNotifications(topics: ["news"]) }'));
    expect(await titles('(read: true)')).toEqual(['b']);
    expect(await titles('(read: false)')).toEqual(['a']);
    expect(await titles('(seen: true)')).toEqual(['b']);
    expect(await titles('(seen: false, categories: ["orders"])')).toEqual(['a']);
    expect(await titles('(read: true, seen: false)')).toEqual([]);
    expect(await titles('(read: null, archived: false)')).toEqual(['b', 'a']);
    expect(await titles('(status: READ)')).toEqual(['b']);
    expect(await titles('(status: UNREAD)')).toEqual(['a']);
    expect(await data(send('{ unreadCount other: unreadCount(topics: ["news"]) }'))).toEqual({
      unreadCount: 1,
      other: 0,
    });
    await data(send('mutation { archiveAllNotifications(categories: ["orders"]) }'));
    expect(await titles('(status: ARCHIVED)')).toEqual(['a']);
    expect(await titles('(archived: true)')).toEqual(['a']);
    expect(await titles('(archived: true, read: false)')).toEqual(['a']);
    expect(await titles('(archived: true, read: true)')).toEqual([]);
    expect(await titles('(archived: true, seen: true)')).toEqual([]);
    expect(await titles('')).toEqual(['b']);
    await data(send('mutation { seenAllNotifications }'));
  });

  test('every state change is a mutation that returns the new state', async () => {
    await notify('states');
    const send = asUser('states');
    const { notifications } = await data(send('{ notifications { nodes { id status } } }'));
    const [{ id, status }] = notifications.nodes;
    expect(status).toBe('UNSEEN');
    const change = async (action: string) => {
      const changed = await data(
        send(`mutation ($id: ID!) { ${action}Notification(id: $id) { id status } }`, { id }),
      );
      expect(changed[`${action}Notification`].id).toBe(id);
      return changed[`${action}Notification`].status;
    };
    expect(await change('seen')).toBe('UNREAD');
    expect(await change('read')).toBe('READ');
    expect(await change('unread')).toBe('UNREAD');
    expect(await change('archive')).toBe('ARCHIVED');
    expect(await change('unarchive')).toBe('UNREAD');
    const read = 'query ($id: ID!) { notification(id: $id) { id title } }';
    expect(await data(send(read, { id }))).toEqual({ notification: { id, title: '0' } });
    const remove = 'mutation ($id: ID!) { deleteNotification(id: $id) }';
    expect(await data(send(remove, { id }))).toEqual({ deleteNotification: id });
    expect(await data(send(read, { id }))).toEqual({ notification: null });
    expect(codes(await send(remove, { id }))).toEqual(['not_found']);
  });
});

describe('the user', () => {
  test('preferences are saved and listed', async () => {
    const send = asUser('wishes');
    const input = { categories: [{ key: 'news', channels: [{ name: 'IN_APP', enabled: false }] }] };
    const saved = await data(
      send(
        `mutation ($input: UserPreferencesInput!) {
          savePreferences(input: $input) { key label channels { name enabled } }
        }`,
        { input },
      ),
    );
    const news = { key: 'news', label: null, channels: [{ name: 'IN_APP', enabled: false }] };
    expect(saved.savePreferences).toEqual([news]);
    const { preferences } = await data(
      send('{ preferences(first: 1) { totalCount pageInfo { hasNextPage } nodes { key } } }'),
    );
    expect(preferences).toEqual({
      totalCount: 1,
      pageInfo: { hasNextPage: false },
      nodes: [{ key: 'news' }],
    });
  });

  test('pages of preferences continue in both directions', async () => {
    const send = asUser('many wishes');
    const categories = ['aaa', 'bbb', 'ccc'].map((key) => ({
      key,
      channels: [{ name: 'IN_APP', enabled: false }],
    }));
    await data(
      send('mutation ($input: UserPreferencesInput!) { savePreferences(input: $input) { key } }', {
        input: { categories },
      }),
    );
    const keys = async (args: string) => {
      const { preferences } = await data(
        send(`{ preferences(${args}) { nodes { key } pageInfo { hasNextPage hasPreviousPage } } }`),
      );
      const { hasNextPage, hasPreviousPage } = preferences.pageInfo;
      return [preferences.nodes.map(({ key }: { key: string }) => key).join(), hasPreviousPage, hasNextPage];
    };
    expect(await keys('first: 2')).toEqual(['aaa,bbb', false, true]);
    expect(await keys('first: 2, after: "bbb"')).toEqual(['ccc', true, false]);
    expect(await keys('last: 2')).toEqual(['bbb,ccc', true, false]);
    expect(await keys('last: 2, before: "bbb"')).toEqual(['aaa', false, true]);
  });

  test('subscriptions to topics are saved, listed and deleted', async () => {
    const send = asUser('topics');
    const save = `mutation ($input: SubscriptionInput!) {
        saveSubscription(input: $input) { topic categories { slug status } }
      }`;
    const input = { topic: 'orders/1', categories: [{ slug: 'comments', status: 'UNSUBSCRIBED' }] };
    const subscription = {
      topic: 'orders/1',
      categories: [{ slug: 'comments', status: 'UNSUBSCRIBED' }],
    };
    expect(await data(send(save, { input }))).toEqual({ saveSubscription: subscription });
    const list = '{ topics { totalCount nodes { topic categories { slug status } } } }';
    expect(await data(send(list))).toEqual({ topics: { totalCount: 1, nodes: [subscription] } });
    const remove = 'mutation { deleteSubscription(topic: "orders/1") { topic } }';
    expect(await data(send(remove))).toEqual({ deleteSubscription: { topic: 'orders/1' } });
    expect(codes(await send(remove))).toEqual(['not_found']);
  });

  test('tokens of every integration are saved and discarded', async () => {
    const device = 'a'.repeat(64);
    const inputs: Record<string, object> = {
      Apns: { deviceToken: device, installationId: 'DEVELOPMENT' },
      Expo: { deviceToken: 'ExponentPushToken[x]' },
      Fcm: { deviceToken: device },
      Inbox: { token: device },
      Slack: { webhook: { url: 'https://hooks.slack.com/services/T9TK3CUKW/B0LJ2KD5H/x1y2z3' } },
      Slackbot: { oauth: { channelId: 'C024BE91L', installationId: 'A012ABCD0A0-T9TK3CUKW' } },
      Teams: { webhook: { url: 'https://127.0.0.1/workflows/1' } },
      WebPush: { endpoint: 'https://127.0.0.1/push/1', keys: { auth: 'a', p256dh: 'b' } },
    };
    const paths: Record<string, string> = {
      Apns: 'mobile_push/apns',
      Expo: 'mobile_push/expo',
      Fcm: 'mobile_push/fcm',
      Inbox: 'in_app/inbox',
      Slack: 'slack',
      Slackbot: 'slack/service_slackbot',
      Teams: 'teams',
      WebPush: 'web_push',
    };
    const { __schema: schema } = await data(
      asUser('devices')(
        '{ __schema { mutationType { fields { name args { type { ofType { name } } } } } } }',
      ),
    );
    const saves = schema.mutationType.fields.filter(({ name }: { name: string }) =>
      /^save.+Token$/.test(name),
    );
    expect(saves).toHaveLength(Object.keys(inputs).length);
    for (const [name, input] of Object.entries(inputs)) {
      const user = `devices ${name}`;
      const send = asUser(user);
      const field = saves.find((one: { name: string }) => one.name === `save${name}Token`);
      const type = field.args[0].type.ofType.name;
      await data(
        send(`mutation ($input: ${type}!) { save${name}Token(input: $input) { __typename } }`, { input }),
      );
      const listed = await project.as(user)('GET', `/channels/${paths[name]}/tokens`);
      const { id } = listed.body.data[0];
      const discard = `mutation ($id: String!) { discard${name}Token(id: $id) { id discardedAt } }`;
      const discarded = await data(send(discard, { id }));
      expect(discarded[`discard${name}Token`]).toEqual({ id, discardedAt: expect.any(String) });
      expect(codes(await send(discard, { id: newId() }))).toEqual(['not_found']);
    }
  });
});

describe('a backend that acts for a user', () => {
  const named = { 'x-service-user-external-id': 'acted' };
  const credentials: [string, () => Record<string, string>][] = [
    ['a Project JWT', () => ({ authorization: `Bearer ${project.jwt}` })],
    [
      'the API secret',
      () => ({ 'x-service-api-key': project.apiKey, 'x-service-api-secret': project.apiSecret }),
    ],
  ];

  test.each(credentials)(
    'has the rights of the user and of the project, with %s',
    async (_name, credential) => {
      const act: Send = (query, variables) =>
        service.request('POST', '/graphql', {
          headers: { ...credential(), ...named },
          body: { query, variables },
        });
      const asActed = asUser('acted');
      await notify('acted');
      const unread = '{ notifications(first: 1, read: false) { nodes { id } totalCount } }';
      const { notifications } = await data(act(unread));
      expect({ notifications }).toEqual(await data(asActed(unread)));
      const [{ id }] = notifications.nodes;
      const read = 'mutation ($id: ID!) { readNotification(id: $id) { id status } }';
      expect(await data(act(read, { id }))).toEqual({ readNotification: { id, status: 'READ' } });
      const after = await data(asActed('query ($id: ID!) { notification(id: $id) { status } }', { id }));
      expect(after).toEqual({ notification: { status: 'READ' } });
      await data(act('mutation { saveSubscription(input: { topic: "acted" }) { topic } }'));
      expect((await project.as('acted')('GET', '/subscriptions')).body.data).toMatchObject([
        { topic: 'acted' },
      ]);
      expect(await data(act('{ users(first: 1) { nodes { externalId } } unreadCount }'))).toEqual({
        users: { nodes: [{ externalId: expect.any(String) }] },
        unreadCount: 0,
      });
      expect(codes(await asUser('bystander')(read, { id }))).toEqual(['not_found']);
      const input = { key: 'acted', channels: [{ channel: 'IN_APP', if: 'user.email != null' }] };
      await data(
        act('mutation ($input: CategoryDeliveryConfigInput!) { saveCategory(input: $input) { key } }', {
          input,
        }),
      );
      const conditions = '{ categories { nodes { channels { if } } } }';
      expect(await data(act(conditions))).toEqual({
        categories: { nodes: [{ channels: [{ if: 'user.email != null' }] }] },
      });
      expect(await data(asActed(conditions))).toEqual({
        categories: { nodes: [{ channels: [{ if: null }] }] },
      });
      await data(act('mutation { deleteCategory(key: "acted") }'));
    },
  );

  test('reaches only users of its project', async () => {
    await notify('acted');
    const other = await service.createProject('acting');
    const headers = { authorization: `Bearer ${other.jwt}`, ...named };
    const query = '{ notifications { totalCount } }';
    const sent = service.request('POST', '/graphql', { headers, body: { query } });
    expect(await data(sent)).toEqual({ notifications: { totalCount: 0 } });
  });
});

describe('the project', () => {
  test('users are created, updated, found, listed and deleted', async () => {
    const send = asProject();
    const save = `mutation ($input: UserInput!) {
      saveUser(input: $input) { id externalId email firstName customAttributes phoneNumbers }
    }`;
    const input = { externalId: 'grace', email: 'grace@example.com', customAttributes: { a_b: 1 } };
    const { saveUser: created } = await data(send(save, { input }));
    expect(created).toEqual({ id: expect.any(String), ...input, firstName: null, phoneNumbers: [] });
    const { saveUser: updated } = await data(
      send(save, { input: { externalId: 'grace', firstName: 'Grace' } }),
    );
    expect(updated).toEqual({ ...created, firstName: 'Grace' });
    const list = '{ users(query: "grace") { totalCount nodes { id } pageInfo { hasNextPage } } }';
    expect(await data(send(list))).toEqual({
      users: { totalCount: 1, nodes: [{ id: created.id }], pageInfo: { hasNextPage: false } },
    });
    const read = 'query ($id: ID!) { user(id: $id) { externalId } }';
    expect(await data(send(read, { id: created.id }))).toEqual({ user: { externalId: 'grace' } });
    const update = `mutation ($id: ID!, $input: UserUpdateInput!) {
      updateUser(id: $id, input: $input) { externalId email }
    }`;
    const renamed = { externalId: 'grace-2', email: null };
    expect(await data(send(update, { id: created.id, input: renamed }))).toEqual({ updateUser: renamed });
    expect(codes(await send(update, { id: newId(), input: renamed }))).toEqual(['not_found']);
    const remove = 'mutation ($id: ID!) { deleteUser(id: $id) }';
    expect(await data(send(remove, { id: created.id }))).toEqual({ deleteUser: created.id });
    expect(await data(send(read, { id: created.id }))).toEqual({ user: null });
    expect(codes(await send(remove, { id: created.id }))).toEqual(['not_found']);
    const { users } = await data(send('{ users(first: 2) { totalCount nodes { id } } }'));
    const { body } = await project.call('GET', '/users?limit=100');
    expect(users.totalCount).toBe(body.data.length);
  });

  test('categories are saved, found, listed and deleted', async () => {
    const send = asProject();
    const input = { key: 'orders/sent', channels: [{ channel: 'EMAIL', delay: 60 }] };
    const saved = await data(
      send(
        `mutation ($input: CategoryDeliveryConfigInput!) {
          saveCategory(input: $input) { key channels { channel delay if } }
        }`,
        { input },
      ),
    );
    expect(saved.saveCategory).toEqual({
      key: 'orders/sent',
      channels: [{ channel: 'EMAIL', delay: 60, if: null }],
    });
    expect(
      await data(send('{ categories { totalCount nodes { key } } category(key: "orders/sent") { key } }')),
    ).toEqual({
      categories: { totalCount: 1, nodes: [{ key: 'orders/sent' }] },
      category: { key: 'orders/sent' },
    });
    const conditional = { channel: 'IN_APP', if: 'user.custom_attributes.plan == "pro"' };
    await data(
      send('mutation ($input: CategoryDeliveryConfigInput!) { saveCategory(input: $input) { key } }', {
        input: { key: 'plans', channels: [conditional] },
      }),
    );
    const forUser = await data(asUser('reader')('{ categories { nodes { key channels { channel if } } } }'));
    expect(forUser.categories.nodes).toEqual([
      { key: 'plans', channels: [{ channel: 'IN_APP', if: null }] },
      { key: 'orders/sent', channels: [{ channel: 'EMAIL', if: null }] },
    ]);
    const shown = await data(send('{ category(key: "plans") { channels { channel if } } }'));
    expect(shown.category.channels).toEqual([conditional]);
    const remove = 'mutation { deleteCategory(key: "orders/sent") }';
    expect(await data(send(remove))).toEqual({ deleteCategory: 'orders/sent' });
    expect(codes(await send(remove))).toEqual(['not_found']);
  });

  test('a broadcast is sent, and listed with its deliveries', async () => {
    const other = await service.createProject('sender');
    await other.call('PUT', '/integrations/expo', integrationConfigs.expo.full);
    const send = asProject(other);
    const input = {
      title: 'Sent with GraphQL',
      customAttributes: { a_b: 1 },
      recipients: [{ externalId: 'one' }, { externalId: 'two', firstName: 'Two' }],
    };
    const { createBroadcast: created } = await data(
      send(
        `mutation ($input: BroadcastInput!) {
          createBroadcast(input: $input) {
            id title customAttributes recipients { externalId firstName } status { status }
          }
        }`,
        { input },
      ),
    );
    expect(created).toMatchObject({ title: input.title, customAttributes: { a_b: 1 } });
    expect(created.recipients).toEqual([
      { externalId: 'one', firstName: null },
      { externalId: 'two', firstName: 'Two' },
    ]);
    await processed(other.call, created.id);
    const { broadcasts, broadcast } = await data(
      send(
        `query ($id: ID!) {
          broadcasts(first: 20) { totalCount nodes { ...WithDeliveries } }
          broadcast(id: $id) { ...WithDeliveries }
        }
        fragment WithDeliveries on Broadcast {
          id status { status summary { total failures pending } errors { message } }
          deliveries(first: 3) {
            totalCount nodes { ...D } edges { cursor } pageInfo { hasNextPage endCursor }
          }
          inbox: deliveries(channel: IN_APP) { totalCount nodes { state } }
          failed: deliveries(state: FAILED) { totalCount }
        }
        fragment D on Delivery { id userId channel state code }`,
        { id: created.id },
      ),
    );
    expect(broadcasts).toEqual({ totalCount: 1, nodes: [broadcast] });
    expect(broadcast.status).toEqual({
      status: 'PROCESSED',
      summary: { total: 2, failures: 0, pending: 0 },
      errors: null,
    });
    expect(broadcast.inbox).toEqual({ totalCount: 2, nodes: [{ state: 'SENT' }, { state: 'SENT' }] });
    expect(broadcast.failed).toEqual({ totalCount: 0 });
    const listed = await other.call('GET', `/broadcasts/${created.id}/deliveries`);
    const expected = listed.body.data.map(
      ({ id, user_id: userId, channel, state, code }: Record<string, string>) => ({
        id,
        userId,
        channel: channel?.toUpperCase(),
        state: state?.toUpperCase(),
        code,
      }),
    );
    const { nodes, pageInfo, totalCount } = broadcast.deliveries;
    expect([nodes, pageInfo.hasNextPage, totalCount]).toEqual([expected.slice(0, 3), true, 4]);
    const rest = await data(
      send(
        `query ($id: ID!, $after: String) {
          broadcast(id: $id) {
            deliveries(after: $after) { totalCount nodes { id } pageInfo { hasNextPage } }
            skipped: deliveries(state: SKIPPED) { totalCount nodes { id } }
          }
        }`,
        { id: created.id, after: pageInfo.endCursor },
      ),
    );
    expect(rest.broadcast.deliveries).toEqual({
      totalCount: 4,
      nodes: [{ id: expected[3].id }],
      pageInfo: { hasNextPage: false },
    });
    expect(rest.broadcast.skipped).toEqual({
      totalCount: null,
      nodes: [{ id: expect.any(String) }, { id: expect.any(String) }],
    });
    const cancel = 'mutation ($id: ID!) { cancelBroadcast(id: $id) { id } }';
    expect(await data(send(cancel, { id: created.id }))).toEqual({ cancelBroadcast: { id: created.id } });
    expect(codes(await send(cancel, { id: newId() }))).toEqual(['not_found']);
    const later = { ...input, sendAt: new Date(Date.now() + 86_400_000).toISOString() };
    const scheduled = await data(
      send('mutation ($input: BroadcastInput!) { createBroadcast(input: $input) { id sendAt } }', {
        input: later,
      }),
    );
    expect(scheduled.createBroadcast.sendAt).toBe(later.sendAt);
    const waiting = '{ broadcasts(status: SCHEDULED) { totalCount nodes { id } } }';
    expect(await data(send(waiting))).toEqual({
      broadcasts: { totalCount: 1, nodes: [{ id: scheduled.createBroadcast.id }] },
    });
    const replay = 'mutation ($id: ID!) { replayBroadcastDeliveries(id: $id, input: {}) }';
    expect(await data(send(replay, { id: created.id }))).toEqual({ replayBroadcastDeliveries: 0 });
    expect(codes(await send(replay, { id: newId() }))).toEqual(['not_found']);
  });
});

describe('statements', () => {
  /** Sends a query to a server on the same database. Returns the names of the statements that it ran. */
  async function statementsOf(token: string, query: string): Promise<string[]> {
    const ran: string[] = [];
    const { context } = service.http;
    const counted = {
      ...context.db,
      query: (statement: Parameters<typeof context.db.query>[0], values?: readonly unknown[]) => {
        ran.push(statement.name);
        return context.db.query(statement, values);
      },
    } as typeof context.db;
    const server = await createServer({ ...context, db: counted }, {});
    try {
      for (let time = 0; time < 2; time += 1) {
        ran.length = 0; // the first time also authenticates
        const headers = { authorization: `Bearer ${token}` };
        const sent = await server.inject({ method: 'POST', url: '/graphql', headers, payload: { query } });
        expect(sent.json().errors).toBeUndefined();
      }
      return ran;
    } finally {
      await server.close();
    }
  }

  test('50 broadcasts with deliveries need as many as one', async () => {
    const other = await service.createProject('fifty');
    const recipients = [{ external_id: 'a' }, { external_id: 'b' }];
    const sent = await Promise.all(
      Array.from({ length: 50 }, (_, n) => other.call('POST', '/broadcasts', { title: `${n}`, recipients })),
    );
    for (const { body } of sent) await processed(other.call, body.id);
    const statements = (first: number, deliveries: string) =>
      statementsOf(other.jwt, `{ broadcasts(first: ${first}) { nodes { ${deliveries} } } }`);
    const selection = 'deliveries(first: 10) { nodes { id state } totalCount }';
    const one = await statements(1, selection);
    const fifty = await statements(50, selection);
    expect(fifty).toEqual(one);
    expect(fifty.filter((name) => name === 'list_first_broadcast_users')).toHaveLength(1);
    expect(fifty.filter((name) => name === 'count_planned_deliveries')).toHaveLength(1);
    const page = await statements(50, 'deliveries(first: 10) { nodes { id state } }');
    expect(page.toSorted()).toEqual(fifty.filter((name) => name !== 'count_planned_deliveries').toSorted());
    // Each combination of arguments is read for all broadcasts together.
    const counts = await statements(
      50,
      `a: deliveries { totalCount } b: deliveries(channel: EMAIL) { totalCount }
      c: deliveries(state: FAILED) { totalCount } d: deliveries(channel: EMAIL, first: 1) { totalCount }`,
    );
    expect(counts.filter((name) => name.startsWith('count')).toSorted()).toEqual([
      'count_failures_by_broadcast',
      'count_planned_deliveries',
      'count_planned_deliveries',
    ]);
  });

  test('totalCount and the page are read only if they are selected', async () => {
    await notify('counted');
    const token = project.userJwt({ user_external_id: 'counted' });
    const names = (selection: string) => statementsOf(token, `{ notifications { ${selection} } }`);
    expect(await names('nodes { id }')).toEqual(['list_notifications_live_newest']);
    expect(await names('totalCount')).toEqual(['list_numbered_unseen_seen_read']);
    expect(await names('__typename')).toEqual([]);
  });
});
