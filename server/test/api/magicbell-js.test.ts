import { createECDH, generateKeyPairSync } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { Client as ProjectClient } from 'magicbell-js/project-client';
import { Client as UserClient } from 'magicbell-js/user-client';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { newId } from '../../src/lib/ids.ts';
import { processed, startTestService, type TestService, until } from '../support/service.ts';

// The published client of this API, with its validation of requests and responses. It must work with Belfry
// after a change of the base URL and BRAND. The test calls all its operations.

let service: TestService;
let slack: Server;
let project: ProjectClient;
let user: UserClient;
const called = new Set<string>();

beforeAll(async () => {
  slack = await startSlack();
  const { port } = slack.address() as AddressInfo;
  service = await startTestService({
    settings: {
      BRAND: 'magicbell',
      PROVIDER_SLACK_API_URL: `http://127.0.0.1:${port}/api`,
      SLACKBOT_APP_ID: 'A1',
      SLACKBOT_CLIENT_ID: '12.34',
      SLACKBOT_CLIENT_SECRET: 's'.repeat(32),
      SLACKBOT_SIGNING_SECRET: 'g'.repeat(32),
    },
  });
  const options = {
    baseUrl: `${service.address}/v2`,
    validation: { requestValidation: true, responseValidation: true },
    retry: { attempts: 1 },
  };
  project = watched(new ProjectClient({ ...options, token: service.project.jwt }), 'project');
  const token = service.project.userJwt({ user_external_id: 'ann', user_email: 'ann@example.com' });
  user = watched(new UserClient({ ...options, token }), 'user');
});
afterAll(async () => {
  await service.stop();
  slack.close();
});

/** Returns an installation for every code, as Slack does. */
async function startSlack(): Promise<Server> {
  const server = createServer((request, response) => {
    request.setEncoding('utf8');
    let form = '';
    request.on('data', (chunk: string) => {
      form += chunk;
    });
    request.on('end', () => {
      const code = new URLSearchParams(form).get('code');
      response.setHeader('content-type', 'application/json');
      response.end(
        JSON.stringify({
          ok: true,
          access_token: `xoxb-${code}`,
          token_type: 'bot',
          scope: 'chat:write',
          bot_user_id: 'B1',
          app_id: 'A1',
          team: { id: 'T1', name: 'Team' },
          enterprise: null,
          authed_user: { id: 'U1' },
          is_enterprise_install: false,
        }),
      );
    });
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  return server;
}

const SERVICES = ['broadcasts', 'channels', 'events', 'integrations', 'notifications', 'users', 'workflows'];

/** Records which operations are called. */
function watched<Client extends object>(client: Client, kind: string): Client {
  for (const name of SERVICES) {
    const held = Reflect.get(client, name) as object | undefined;
    if (held === undefined) continue;
    const noting = new Proxy(held, {
      get(target, member) {
        const value: unknown = Reflect.get(target, member);
        if (typeof value !== 'function') return value;
        return (...args: unknown[]) => {
          called.add(`${kind}.${name}.${String(member)}`);
          return value.apply(target, args) as unknown;
        };
      },
    });
    Object.defineProperty(client, name, { value: noting });
  }
  return client;
}

/** All operations of both clients. */
function operations(): string[] {
  return [project, user].flatMap((client, index) =>
    SERVICES.flatMap((name) => {
      const held = Reflect.get(client, name) as object | undefined;
      if (held === undefined) return [];
      return Object.getOwnPropertyNames(Object.getPrototypeOf(held))
        .filter((member) => member !== 'constructor')
        .map((member) => `${index === 0 ? 'project' : 'user'}.${name}.${member}`);
    }),
  );
}

type ClientResult<Data = unknown> = { data?: Data | undefined };
/** The data that the client returns. It may not be missing. */
async function data<Data>(response: Promise<ClientResult<Data>>): Promise<Data> {
  const { data: found } = await response;
  if (found === undefined) throw new Error('the client returned no data');
  return found;
}

/** Expects that the client throws an error with this status. */
async function refused(response: Promise<unknown>, status: number): Promise<void> {
  await expect(response).rejects.toMatchObject({ metadata: { status } });
}

describe('broadcasts', () => {
  test('are created with every member, fetched and listed', async () => {
    const whole = await data(
      project.broadcasts.createBroadcast({
        title: 'Hello',
        content: '<b>World</b>',
        category: 'a/b:c.d-e_f',
        topic: 'news',
        actionUrl: 'https://example.com/1',
        customAttributes: { order: { id: 1 } },
        recipients: [
          {
            externalId: 'ann',
            email: 'ann@example.com',
            firstName: 'Ann',
            lastName: 'A.',
            customAttributes: { plan: 'pro' },
          },
        ],
        overrides: {
          channels: {
            inApp: { title: 'In app', content: 'x', actionUrl: 'https://example.com/2' },
            email: { title: 'E-mail' },
            mobilePush: { title: 'Push' },
            sms: { content: 'Text' },
          },
          providers: {
            sendgrid: { a: 1 },
            twilio: {},
            ses: {},
            fcm: {},
            slack: {},
            webPush: {},
            mailgun: {},
            expo: {},
            apns: {},
            teams: {},
          },
        },
      }),
    );
    expect(whole).toMatchObject({
      title: 'Hello',
      // It drops `pending`, which only Belfry has.
      status: { status: 'enqueued', summary: { total: 1, failures: 0 } },
    });
    const id = whole.id ?? '';
    await processed(service.project.call, id);
    expect(await data(project.broadcasts.fetchBroadcast(id))).toMatchObject({
      id,
      category: 'a/b:c.d-e_f',
      customAttributes: { order: { id: 1 } },
      overrides: { channels: { inApp: { title: 'In app' } } },
      status: { status: 'processed' },
    });
    const least = await data(
      project.broadcasts.createBroadcast({ title: 'x', recipients: [{ externalId: 'ann', email: null }] }),
    );
    const first = await data(project.broadcasts.listBroadcasts({ limit: 1 }));
    expect(first.data?.map((one) => one.id)).toEqual([least.id]);
    const second = await data(project.broadcasts.listBroadcasts({ limit: 1, startingAfter: least.id ?? '' }));
    expect(second.data?.map((one) => one.id)).toEqual([id]);
    const back = await data(project.broadcasts.listBroadcasts({ limit: 1, endingBefore: id }));
    expect(back.data?.map((one) => one.id)).toEqual([least.id]);
    await refused(project.broadcasts.fetchBroadcast(newId()), 404);
  });
});

describe('users', () => {
  test('are saved, listed and deleted', async () => {
    const saved = await data(
      project.users.saveUser({
        externalId: 'bob',
        email: 'bob@example.com',
        firstName: 'Bob',
        lastName: null,
        customAttributes: { a: { b: 1 } },
      }),
    );
    expect(saved).toMatchObject({ externalId: 'bob', email: 'bob@example.com', lastName: null });
    expect(await data(project.users.saveUser(saved))).toMatchObject({ externalId: 'bob' });
    const list = await data(project.users.listUsers({ limit: 2, query: 'bob' }));
    expect(list.data?.map((one) => one.externalId)).toEqual(['bob']);
    await project.users.deleteUser(saved.id ?? '');
    expect((await data(project.users.listUsers({ query: 'bob' }))).data).toEqual([]);
  });
});

describe('events', () => {
  test('are listed and fetched', async () => {
    await project.users.saveUser({ externalId: 'eve' });
    const { data: events } = await data(project.events.listEvents({ limit: 5 }));
    expect(events?.[0]).toMatchObject({ type: 'user.created' });
    expect(await data(project.events.fetchEvent(events?.[0]?.id ?? ''))).toMatchObject({
      type: 'user.created',
    });
  });
});

describe('categories and preferences', () => {
  test('are configured by the project and set by the user', async () => {
    const config = {
      key: 'billing/invoices',
      channels: [
        { channel: 'in_app' },
        { channel: 'email', delay: 900, if: "user.custom_attributes.plan == 'pro'" },
      ],
    } as Parameters<typeof project.channels.saveChannelsConfig>[0];
    expect(await data(project.channels.saveChannelsConfig(config))).toEqual(config);
    expect(await data(project.channels.fetchChannelsConfig(config.key))).toEqual(config);
    const before = await data(user.channels.fetchUserPreferences());
    const own = before.categories?.find(({ key }) => key === config.key);
    expect(own?.channels?.map(({ name, enabled }) => [name, enabled])).toEqual([
      ['in_app', true],
      ['email', true],
    ]);
    await user.channels.saveUserPreferences({
      categories: [{ key: config.key, channels: [{ name: 'email', enabled: false }] }],
    } as Parameters<typeof user.channels.saveUserPreferences>[0]);
    const after = await data(user.channels.fetchUserPreferences());
    const changed = after.categories?.find(({ key }) => key === config.key);
    expect(changed?.channels?.map(({ name, enabled }) => [name, enabled])).toEqual([
      ['in_app', true],
      ['email', false],
    ]);
  });
});

const P256DH = 'BNcRdreALRFXTkOOUHK1EtK2wtaz5Ry4YfYCA_0QTpQtUbVlUls0VJXg7A8u-Ts1XbjhazAkj7I99e8QcYP7DkM';
/** A token of each collection, by the name that the operations of the user client use. */
const TOKENS: [string, Record<string, unknown>][] = [
  ['Inbox', { token: 'x'.repeat(64), connectionId: 'c1' }],
  ['Apns', { deviceToken: 'a'.repeat(64), appId: 'com.example.app', installationId: 'development' }],
  ['Expo', { deviceToken: 'ExponentPushToken[xxxxxxxxxxxxxxxxxxxxxx]' }],
  ['Fcm', { deviceToken: 'f'.repeat(120) }],
  ['MagicbellSlackbot', { oauth: { channelId: 'C1', installationId: 'A1-T1', scope: 'chat:write' } }],
  ['Slack', { webhook: { url: 'https://hooks.slack.com/services/T1/B1/x' } }],
  ['Teams', { webhook: { url: 'https://example.webhook.office.com/webhookb2/1' } }],
  [
    'WebPush',
    {
      endpoint: 'https://updates.push.services.mozilla.com/1',
      keys: { auth: 'k8JV6sjdbhAi1n3_LDBLvA', p256dh: P256DH },
    },
  ],
];

type Operations = Record<string, (...args: unknown[]) => Promise<ClientResult<Record<string, unknown>>>>;
const call = (target: object, name: string, ...args: unknown[]) =>
  (target as Operations)[name]?.(...args) ?? fail(name);
const fail = (name: string): never => {
  throw new Error(`the client has no ${name}`);
};
type List = { data: Record<string, unknown>[] };

describe('tokens', () => {
  for (const [name, body] of TOKENS)
    test(`of ${name} are saved, listed, fetched and discarded, by the user and by the project`, async () => {
      expect(await data(call(user.channels, `save${name}Token`, body))).toEqual(
        expect.objectContaining(body),
      );
      const listed = (await data(call(user.channels, `list${name}Tokens`, { limit: 5 }))) as unknown as List;
      expect(listed.data).toHaveLength(1);
      const id = String(listed.data[0]?.id);
      expect(await data(call(user.channels, `fetch${name}Token`, id))).toMatchObject({ id, ...body });
      const ann = (await data(project.users.listUsers({ query: 'ann' }))).data?.[0]?.id ?? '';
      const seen = (await data(
        call(project.channels, `listUser${name}Tokens`, ann, { limit: 5 }),
      )) as unknown as List;
      expect(seen.data.map((one) => one.id)).toEqual([id]);
      expect(await data(call(project.channels, `fetchUser${name}Token`, ann, id))).toMatchObject({ id });
      const gone = await data(call(project.channels, `deleteUser${name}Token`, ann, id));
      expect(gone).toMatchObject({ id, discardedAt: expect.any(String) });
      await data(call(user.channels, `save${name}Token`, body));
      const again = (await data(call(user.channels, `list${name}Tokens`))) as unknown as List;
      const own = String(again.data[0]?.id);
      expect(await data(call(user.channels, `delete${name}Token`, own))).toMatchObject({ id: own });
      expect(((await data(call(user.channels, `list${name}Tokens`))) as unknown as List).data).toEqual([]);
    });
});

const { privateKey: EC_PEM } = generateKeyPairSync('ec', {
  namedCurve: 'P-256',
  publicKeyEncoding: { type: 'spki', format: 'pem' },
  privateKeyEncoding: { type: 'pkcs8', format: 'pem' },
});
const { privateKey: RSA_PEM } = generateKeyPairSync('rsa', {
  modulusLength: 2048,
  publicKeyEncoding: { type: 'spki', format: 'pem' },
  privateKeyEncoding: { type: 'pkcs8', format: 'pem' },
});
const vapid = createECDH('prime256v1');
vapid.generateKeys();

const INBOX = {
  images: { emptyInboxUrl: 'https://example.com/empty.png' },
  locale: 'en',
  theme: {
    banner: { backgroundColor: 'a', backgroundOpacity: 0.4, fontSize: '1', textColor: 'c' },
    notification: {
      default: {
        backgroundColor: 'a',
        borderRadius: '1',
        fontFamily: 'f',
        fontSize: '1',
        margin: '0',
        textColor: 'c',
        hover: { backgroundColor: 'h' },
        state: { color: 's' },
      },
      unread: {
        backgroundColor: 'a',
        textColor: 'b',
        hover: { backgroundColor: 'h' },
        state: { color: 's' },
      },
      unseen: {
        backgroundColor: 'a',
        textColor: 'b',
        hover: { backgroundColor: 'h' },
        state: { color: 's' },
      },
    },
  },
};
const SLACK_APP = {
  appId: 'A1',
  clientId: '12.34',
  clientSecret: 's'.repeat(32),
  signingSecret: 'g'.repeat(32),
};

/** A config of each integration, by the name that the operations of the project client use. */
const INTEGRATIONS: [string, Record<string, unknown>][] = [
  [
    'Apns',
    {
      appId: 'com.example.app',
      badge: 'unread',
      certificate: EC_PEM,
      keyId: 'ABCDE12345',
      teamId: 'TEAM123456',
      payloadVersion: '1',
    },
  ],
  ['Eventsource', { source: 'https://example.com' }],
  ['Expo', { accessToken: 'expo-token' }],
  [
    'Fcm',
    {
      type: 'service_account',
      projectId: 'app-1',
      privateKeyId: 'k1',
      privateKey: RSA_PEM,
      clientEmail: 'push@app-1.iam.gserviceaccount.com',
      clientId: '1',
      authUri: 'https://accounts.google.com/o/oauth2/auth',
      tokenUri: 'https://oauth2.googleapis.com/token',
      authProviderX509CertUrl: 'https://www.googleapis.com/oauth2/v1/certs',
      clientX509CertUrl: 'https://www.googleapis.com/robot/v1/metadata/x509/push',
      universeDomain: 'googleapis.com',
    },
  ],
  ['Github', { webhookSigningSecret: 'github-secret' }],
  ['Inbox', INBOX],
  ['MagicbellSlackbot', { enabled: true }],
  [
    'Mailgun',
    { apiKey: 'key', domain: 'mg.example.com', region: 'eu', from: { email: 'a@example.com', name: 'A' } },
  ],
  ['PingEmail', { url: 'https://example.com/mail' }],
  [
    'Sendgrid',
    { apiKey: 'SG.x', from: { email: 'a@example.com' }, replyTo: { email: 'b@example.com', name: null } },
  ],
  [
    'Ses',
    { keyId: 'AKIA1', secretKey: 'secret', region: 'eu-west-1', from: { email: 'a@example.com', name: 'A' } },
  ],
  ['Slack', SLACK_APP],
  [
    'Smtp',
    {
      host: 'mail.example.com',
      port: 587,
      username: 'u',
      password: 'p',
      from: { email: 'a@example.com', name: 'A' },
      replyTo: { email: 'r@example.com' },
      security: 'starttls',
    },
  ],
  ['Stripe', { webhookSigningSecret: 'whsec_x' }],
  ['Twilio', { accountSid: 'AC1', apiKey: 'SK1', apiSecret: 'secret', from: '+15005550006' }],
  ['WebPush', { publicKey: vapid.getPublicKey('base64url'), privateKey: vapid.getPrivateKey('base64url') }],
];

describe('integrations', () => {
  test('are all listed together', async () => {
    await data(call(project.integrations, 'saveExpoIntegration', { accessToken: 'x' }));
    const all = await data(project.integrations.listIntegrations({ limit: 10 }));
    expect(all.data).toEqual([{ id: expect.any(String), name: 'expo', config: { access_token: 'x' } }]);
    await project.integrations.deleteExpoIntegration();
  });

  for (const [name, config] of INTEGRATIONS)
    test(`of ${name} are saved, listed and deleted`, async () => {
      expect(await data(call(project.integrations, `save${name}Integration`, config))).toEqual(
        expect.objectContaining(config),
      );
      const list = (await data(call(project.integrations, `list${name}Integrations`))) as unknown as List;
      expect(list.data).toEqual([
        { id: expect.any(String), name: expect.any(String), config: expect.objectContaining(config) },
      ]);
      await call(project.integrations, `delete${name}Integration`, { id: list.data[0]?.id });
      expect(
        ((await data(call(project.integrations, `list${name}Integrations`))) as unknown as List).data,
      ).toEqual([]);
    });
});

const INSTALLATION = {
  id: 'A1-T1',
  accessToken: 'xoxb-1',
  appId: 'A1',
  authedUser: { id: 'U1' },
  botUserId: 'B1',
  scope: 'chat:write',
  team: { id: 'T1', name: 'Team' },
  tokenType: 'bot',
};

describe('installations', () => {
  test('of the inbox are started and saved', async () => {
    expect(await data(user.integrations.startInboxInstallation())).toEqual({
      images: null,
      locale: null,
      theme: null,
    });
    const saved = await data(call(user.integrations, 'saveInboxInstallation', INBOX));
    expect(saved).toMatchObject({ locale: 'en', images: INBOX.images });
  });

  test('of web push are started and saved', async () => {
    const started = await data(user.integrations.startWebPushInstallation());
    expect(started).toEqual({
      authToken: expect.any(String),
      publicKey: expect.stringMatching(/^[\w-]{87}$/),
    });
    const subscription = {
      endpoint: 'https://updates.push.services.mozilla.com/2',
      keys: { auth: 'k8JV6sjdbhAi1n3_LDBLvA', p256dh: P256DH },
    };
    expect(await data(user.integrations.saveWebPushInstallation(subscription))).toMatchObject(subscription);
    const { data: tokens } = await data(user.channels.listWebPushTokens());
    expect(tokens?.map((one) => one.endpoint)).toContain(subscription.endpoint);
  });

  for (const name of ['Slack', 'MagicbellSlackbot'])
    test(`of ${name} are started, finished and saved`, async () => {
      await data(
        call(
          project.integrations,
          `save${name}Integration`,
          name === 'Slack' ? SLACK_APP : { enabled: true },
        ),
      );
      const started = await data(
        call(user.integrations, `start${name}Installation`, {
          appId: 'A1',
          redirectUrl: 'https://example.com/back',
          extraScopes: ['channels:read'],
        }),
      );
      expect(started).toMatchObject({
        appId: 'A1',
        authUrl: expect.stringContaining('client_id=12.34'),
        scopes: expect.arrayContaining(['chat:write', 'channels:read']),
      });
      const finished = await data(
        call(user.integrations, `finish${name}Installation`, {
          appId: 'A1',
          code: 'good',
          redirectUrl: 'https://example.com/back',
        }),
      );
      expect(finished).toMatchObject({ id: 'A1-T1', accessToken: 'xoxb-good', team: { id: 'T1' } });
      expect(await data(call(user.integrations, `save${name}Installation`, INSTALLATION))).toMatchObject(
        INSTALLATION,
      );
    });
});

describe('notifications', () => {
  test('are listed, counted, fetched, and go through their states', async () => {
    await data(
      project.broadcasts.createBroadcast({
        title: 'Read me',
        category: 'states',
        topic: 'all',
        recipients: [{ externalId: 'ann' }],
      }),
    );
    // The inbox has it at once. The vendors of the other channels do not listen, so those take longer.
    const list = await until(
      () =>
        data(
          user.notifications.listNotifications({
            limit: 1,
            status: 'unread',
            category: 'states',
            topic: 'all',
          }),
        ),
      (page) => page.data?.length === 1,
    );
    const id = list.data?.[0]?.id ?? '';
    const { notifications } = user;
    expect(await data(notifications.fetchUnreadNotificationsCount({ category: 'states' }))).toEqual({
      count: 1,
    });
    const fetched = () => data(notifications.fetchNotification(id));
    expect(await fetched()).toMatchObject({ title: 'Read me', readAt: null, archivedAt: null });
    await notifications.markNotificationRead(id);
    expect(await fetched()).toMatchObject({ readAt: expect.any(String), seenAt: expect.any(String) });
    await notifications.markNotificationUnread(id);
    expect(await fetched()).toMatchObject({ readAt: null });
    await notifications.archiveNotification(id);
    expect(await fetched()).toMatchObject({ archivedAt: expect.any(String) });
    await notifications.unarchiveNotification(id);
    expect(await fetched()).toMatchObject({ archivedAt: null });
    await notifications.markAllNotificationsRead({ category: 'states' });
    expect(await data(notifications.fetchUnreadNotificationsCount({ category: 'states' }))).toEqual({
      count: 0,
    });
    await notifications.archiveAllNotifications({ topic: 'all' });
    const archived = await data(notifications.listNotifications({ status: 'archived' }));
    expect(archived.data?.map((one) => one.id)).toContain(id);
  });
});

describe('refusals', () => {
  test('are thrown as errors with their status and messages', async () => {
    await expect(user.channels.fetchInboxToken(newId())).rejects.toMatchObject({ metadata: { status: 404 } });
    const stranger = new ProjectClient({
      baseUrl: `${service.address}/v2`,
      token: 'unknown',
      retry: { attempts: 1 },
    });
    await refused(stranger.broadcasts.listBroadcasts(), 401);
    const wrong = new UserClient({
      baseUrl: `${service.address}/v2`,
      token: service.project.jwt,
      retry: { attempts: 1 },
    });
    await refused(wrong.notifications.listNotifications(), 403);
  });
});

describe('workflows', () => {
  const steps = [
    { command: 'broadcast', if: null, input: { title: 'Hi', recipients: [{ external_id: 'wendy' }] } },
    { command: 'teleport', if: "input.n == 'x'", input: null },
    { command: 'pause' },
  ];

  test('are saved, listed, started, fetched and their runs listed', async () => {
    const saved = await data(project.workflows.saveWorkflow({ key: 'flow', disabled: false, steps }));
    expect(saved).toMatchObject({ key: 'flow', steps });
    expect((await data(project.workflows.fetchWorkflows())).items).toMatchObject([{ key: 'flow', steps }]);
    // The client has no parameter for the key, and requests a literal `*`.
    await refused(project.workflows.fetchWorkflow(), 404);
    const { id = '' } = await data(project.workflows.createWorkflowRun({ key: 'flow', input: { n: 'y' } }));
    const run = await until(
      () => data(project.workflows.fetchWorkflowRun(id)),
      ({ status }) => status?.state === 2,
    );
    expect(run).toMatchObject({
      id,
      workflowKey: 'flow',
      createdAt: expect.any(String),
      status: { state: 2, nextStep: 2, startedAt: expect.any(String) },
      input: { n: 'y' },
    });
    const { data: runs } = await data(project.workflows.listWorkflowRuns('flow'));
    expect(runs).toMatchObject([{ id, workflowKey: 'flow' }]);
    await refused(project.workflows.createWorkflowRun({ key: 'unknown' }), 404);
  });
});

test('the tests called every operation of the clients', () => {
  const missing = operations().filter((name) => !called.has(name));
  expect(operations().length).toBeGreaterThan(120);
  expect(missing).toEqual([]);
});
