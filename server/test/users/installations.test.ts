import { createECDH } from 'node:crypto';
import { afterAll, beforeAll, beforeEach, describe, expect, test, vi } from 'vitest';
import { sql } from '../../src/db/client.ts';
import { decodeJwt } from '../../src/lib/jwt.ts';
import { untilNoTransactionIsOpen } from '../support/open-transactions.ts';
import {
  type ApiResponse,
  startTestService,
  type TestProject,
  type TestService,
} from '../support/service.ts';
import { type SlackStandIn, startSlackStandIn } from '../support/slack-stand-in.ts';

const SECRET = 'canary-client-secret-of-32-chars';
const APP = { app_id: 'A0TEST', client_id: '11.22', client_secret: SECRET, signing_secret: 's'.repeat(32) };
const BOT = { app_id: 'A0SERVER', client_id: '33.44', client_secret: 'canary-server-secret-of-32-chars' };
const REDIRECT = 'https://app.example.com/slack';
let now = 0;

let slack: SlackStandIn;
let service: TestService;
let project: TestProject;

beforeAll(async () => {
  slack = await startSlackStandIn();
  slack.apps.set(APP.client_id, APP.client_secret).set(BOT.client_id, BOT.client_secret);
  service = await startTestService({
    clock: { now: () => Date.now() + now },
    settings: {
      PROVIDER_SLACK_API_URL: slack.apiUrl,
      PROVIDER_SLACK_AUTHORIZE_URL: 'http://127.0.0.1:1/authorize',
      SLACKBOT_APP_ID: BOT.app_id,
      SLACKBOT_CLIENT_ID: BOT.client_id,
      SLACKBOT_CLIENT_SECRET: BOT.client_secret,
      SLACKBOT_SIGNING_SECRET: 'g'.repeat(32),
    },
  });
  project = service.project;
  await project.call('PUT', '/integrations/slack', APP);
  await project.call('PUT', '/integrations/service_slackbot', { enabled: true });
});
afterAll(async () => {
  await service?.stop();
  await slack?.close();
});
beforeEach(() => {
  now = 0;
  slack.tokenRequests.length = 0;
  slack.instead.length = 0;
  slack.rotate = undefined;
});

const messages = ({ body }: ApiResponse): string[] =>
  body.errors.map(({ message }: { message: string }) => message);
const start = (user: string, body: object, path = 'slack', of = project) =>
  of.as(user)('POST', `/integrations/${path}/installations/start`, body);
const finish = (user: string, body: object, headers = {}, path = 'slack', of = project) =>
  of.as(user)('POST', `/integrations/${path}/installations/finish`, body, headers);
const save = (user: string, body: object, path = 'slack', of = project) =>
  of.as(user)('PUT', `/integrations/${path}/installations`, body);
const stateOf = ({ body }: ApiResponse) => new URL(body.auth_url).searchParams.get('state') ?? '';
const rows = (projectId = project.id) =>
  service.context.db.query<{ id: string; owner_id: string; provider: string }>(
    sql('test_installations', 'select id, owner_id, provider from installations where project_id = $1'),
    [projectId],
  );

describe('starting an installation of Slack', () => {
  test("returns the URL of Slack's consent page, with scopes, state and redirect", async () => {
    const response = await start('ann', {
      app_id: 'A0TEST',
      extra_scopes: ['channels:read', 'chat:write', 'channels:read'],
      redirect_url: REDIRECT,
    });
    expect([response.status, response.body]).toEqual([
      200,
      {
        app_id: 'A0TEST',
        auth_url: expect.stringContaining('http://127.0.0.1:1/authorize?'),
        scopes: ['chat:write', 'incoming-webhook', 'channels:read'],
      },
    ]);
    expect(Object.fromEntries(new URL(response.body.auth_url).searchParams)).toEqual({
      client_id: '11.22',
      scope: 'chat:write,incoming-webhook,channels:read',
      redirect_uri: REDIRECT,
      state: expect.any(String),
    });
    expect(response.body.auth_url).not.toContain('canary');
    expect(slack.tokenRequests).toEqual([]);
  });

  test('auth_url replaces that URL and keeps its own query', async () => {
    const { body } = await start('ann', {
      app_id: 'A0TEST',
      auth_url: 'https://consent.example.com/a?team=T1',
    });
    const url = new URL(body.auth_url);
    expect([url.origin, url.pathname, url.searchParams.get('team')]).toEqual([
      'https://consent.example.com',
      '/a',
      'T1',
    ]);
    expect([url.searchParams.get('client_id'), url.searchParams.has('redirect_uri')]).toEqual([
      '11.22',
      false,
    ]);
  });

  test('chooses the app among several integrations by its id', async () => {
    const other = await service.createProject('two apps');
    await other.call('PUT', '/integrations/slack', APP);
    const second = '0197a3c4-5b6e-7f01-8a2b-3c4d5e6f7081';
    await other.call('PUT', `/integrations/slack?id=${second}`, {
      ...APP,
      app_id: 'A0OTHER',
      client_id: '5.6',
    });
    const { body } = await start('ann', { app_id: 'A0OTHER' }, 'slack', other);
    expect(new URL(body.auth_url).searchParams.get('client_id')).toBe('5.6');
  });

  test('rejects a wrong body with all its problems', async () => {
    const wrong = await start('ann', { auth_url: 'ftp://x', extra_scopes: ['a,b'], redirect_url: 1, x: 1 });
    expect(wrong.status).toBe(422);
    expect(messages(wrong).toSorted()).toEqual([
      "Param '(root)' doesn't allow key: x",
      "Param 'app_id' is missing",
      "Param 'auth_url' must be an address that begins with https:// or http://",
      "Param 'extra_scopes.0' must be a scope of Slack, such as channels:read",
      "Param 'redirect_url' must be a string",
    ]);
  });

  test.each([
    ['slack', 'A0NONE', "Param 'app_id' is not the app of a slack integration of the project"],
    ['service_slackbot', 'A0TEST', "Param 'app_id' is not the Slack app of this server"],
  ])('%s rejects an unknown app, as finish and PUT do', async (path, app_id, message) => {
    const { access_token } = slack.pair();
    for (const response of [
      await start('ann', { app_id }, path),
      await finish('ann', { app_id, code: 'x' }, {}, path),
      await save('ann', { app_id, access_token, authed_user: { id: 'U1' }, team: { id: 'T1' } }, path),
    ])
      expect([response.status, messages(response)]).toEqual([422, [message]]);
    expect(slack.tokenRequests).toEqual([]);
  });

  test("the server's app must be enabled by the project", async () => {
    const other = await service.createProject('no slackbot');
    const refused = [422, ['The service_slackbot integration of the project is not enabled']];
    const before = await start('ann', { app_id: BOT.app_id }, 'service_slackbot', other);
    expect([before.status, messages(before)]).toEqual(refused);
    await other.call('PUT', '/integrations/service_slackbot', { enabled: false });
    const off = await start('ann', { app_id: BOT.app_id }, 'service_slackbot', other);
    expect([off.status, messages(off)]).toEqual(refused);
    await other.call('PUT', '/integrations/service_slackbot', { enabled: true });
    expect((await start('ann', { app_id: BOT.app_id }, 'service_slackbot', other)).status).toBe(200);
  });
});

describe('finishing an installation of Slack', () => {
  test.each([
    ['slack', 'A0TEST', APP],
    ['service_slackbot', 'A0SERVER', BOT],
  ])('%s exchanges the code as Slack requires and returns the record', async (path, app_id, app) => {
    slack.rotate = 43_200;
    const incoming_webhook = {
      url: 'https://hooks.slack.com/services/T/B/x',
      channel: '#general',
      channel_id: 'C1',
      configuration_url: 'https://team.slack.com/services/B',
    };
    const code = slack.code({ app_id, incoming_webhook, unknown: 'of Slack' });
    const response = await finish('fin', { app_id, code, redirect_url: REDIRECT }, {}, path);
    expect([response.status, response.body]).toEqual([
      200,
      {
        id: `${app_id}-T0TEAM`,
        access_token: expect.stringMatching(/^xoxe\.xoxb-/),
        refresh_token: expect.stringMatching(/^xoxe-1-/),
        expires_in: 43_200,
        app_id,
        authed_user: { id: 'U0INSTALLER' },
        bot_user_id: 'U0BOT',
        incoming_webhook,
        is_enterprise_install: false,
        scope: 'chat:write,incoming-webhook',
        team: { id: 'T0TEAM', name: 'Team' },
        token_type: 'bot',
      },
    ]);
    expect(slack.tokenRequests).toEqual([
      {
        path: '/api/oauth.v2.access',
        authorization: `Basic ${Buffer.from(`${app.client_id}:${app.client_secret}`).toString('base64')}`,
        contentType: 'application/x-www-form-urlencoded',
        form: { code, redirect_uri: REDIRECT },
      },
    ]);
  });

  test('of a whole organisation uses the organisation as the team of the record', async () => {
    const enterprise = { id: 'E0ORG', name: 'Org' };
    const code = slack.code({ team: null, enterprise, is_enterprise_install: true });
    const { body } = await finish('org', { app_id: 'A0TEST', code });
    expect(body).toMatchObject({
      id: 'A0TEST-E0ORG',
      team: enterprise,
      enterprise,
      is_enterprise_install: true,
    });
  });

  test('accepts only the state of a start by this user, for this app, within the hour', async () => {
    const attempt = (state: string, user = 'cs', path = 'slack', of = project) =>
      finish(
        user,
        { app_id: path === 'slack' ? 'A0TEST' : 'A0SERVER', code: slack.code(), state },
        {},
        path,
        of,
      );
    const good = stateOf(await start('cs', { app_id: 'A0TEST' }));
    const other = await service.createProject('states');
    await other.call('PUT', '/integrations/slack', APP);
    const [head, claims, signature] = good.split('.');
    for (const refused of [
      await attempt(stateOf(await start('mallory', { app_id: 'A0TEST' }))),
      await attempt(stateOf(await start('cs', { app_id: 'A0SERVER' }, 'service_slackbot'))),
      await attempt(good, 'cs', 'slack', other),
      await attempt(good, 'cs', 'service_slackbot'),
      await attempt(''),
      await attempt(`${head}.${claims}.${signature?.slice(1)}A`),
      await attempt(`${head}.${Buffer.from('{}').toString('base64url')}.${signature}`),
      await attempt(project.jwt),
    ])
      expect([refused.status, messages(refused)]).toEqual([
        422,
        ["Param 'state' is not of an installation that this user has started within the hour"],
      ]);
    expect(slack.tokenRequests).toEqual([]);
    expect((await attempt(good)).status).toBe(200);
    now += 60 * 60_000;
    expect((await attempt(good)).status).toBe(422);
    now = 0;
  });

  test('a state does not authenticate API requests', async () => {
    const state = stateOf(await start('cs', { app_id: 'A0TEST' }));
    const response = await fetch(`${service.address}/v2/integrations`, {
      headers: { authorization: `Bearer ${state}` },
    });
    expect(response.status).toBe(401);
  });

  test.each([
    ['invalid_code', 'validation_failed', "Param 'code' is not accepted by Slack: invalid_code"],
    ['code_already_used', 'validation_failed', "Param 'code' is not accepted by Slack: code_already_used"],
    [
      'bad_redirect_uri',
      'validation_failed',
      "Param 'redirect_url' is not accepted by Slack: bad_redirect_uri",
    ],
    [
      'bad_client_secret',
      'verification_failed',
      'Slack does not accept the credentials of the app: bad_client_secret',
    ],
    [
      'invalid_client_id',
      'verification_failed',
      'Slack does not accept the credentials of the app: invalid_client_id',
    ],
    ['org_login_required', 'validation_failed', 'Slack refuses the installation: org_login_required'],
    ['<script>', 'validation_failed', 'Slack refuses the installation: unknown_error'],
  ])('a rejection by Slack with %s is reported, and nothing is saved', async (error, code, message) => {
    const before = await rows();
    slack.instead.push((response) => response.end(JSON.stringify({ ok: false, error })));
    const finished = await finish('refused', { app_id: 'A0TEST', code: 'canary-code' });
    expect([finished.status, finished.body.errors]).toEqual([422, [{ code, message }]]);
    expect(await rows()).toEqual(before);
  });

  test.each<[string, SlackStandIn['instead'][number], RegExp, string]>([
    ['503', (r) => r.writeHead(503).end('<html>'), /^Slack responded with 503\./, '30'],
    [
      '429',
      (r) => r.writeHead(429, { 'retry-after': '7' }).end('{"ok":false}'),
      /^Slack responded with 429\./,
      '7',
    ],
    ['no JSON', (r) => r.end('hello'), /^Slack responded with 200 without an error code\./, '30'],
    [
      'fatal_error',
      (r) => r.end('{"ok":false,"error":"fatal_error"}'),
      /^Slack responded with fatal_error\./,
      '30',
    ],
    ['nothing', (r) => r.destroy(), /^Slack did not respond: /, '30'],
  ])('%s from Slack is a 503 with a time for the next attempt', async (_what, fail, message, seconds) => {
    slack.instead.push(fail);
    const response = await finish('down', { app_id: 'A0TEST', code: 'canary-code' });
    expect([response.status, response.headers.get('retry-after')]).toEqual([503, seconds]);
    expect(messages(response)).toEqual([expect.stringMatching(message)]);
    expect(JSON.stringify(response.body)).not.toContain('canary');
  });

  test('a grant without a bot, or to another app, is rejected', async () => {
    const bare = await finish('odd', { app_id: 'A0TEST', code: slack.code({ access_token: null }) });
    expect([bare.status, messages(bare)]).toEqual([
      422,
      ['Slack has granted no bot token: the app has no bot scopes'],
    ]);
    const other = await finish('odd', { app_id: 'A0TEST', code: slack.code({ app_id: 'A0ELSE' }) });
    expect([other.status, messages(other)]).toEqual([
      422,
      ['Slack says that client_id and client_secret are those of the app A0ELSE, not of A0TEST'],
    ]);
  });

  test('rejects a wrong body with all its problems', async () => {
    const wrong = await finish('ann', { code: '', state: 1, x: 1 });
    expect([wrong.status, messages(wrong).toSorted()]).toEqual([
      422,
      [
        "Param '(root)' doesn't allow key: x",
        "Param 'app_id' is missing",
        "Param 'code' must have at least 1 character",
        "Param 'state' must be a string",
      ],
    ]);
  });

  test('concurrent requests with one code create one installation', async () => {
    const code = slack.code({ team: { id: 'T0TWICE' } });
    const responses = await Promise.all([1, 2].map(() => finish('twice', { app_id: 'A0TEST', code })));
    expect(responses.map(({ status }) => status).toSorted()).toEqual([200, 422]);
    expect((await rows()).filter(({ id }) => id === 'A0TEST-T0TWICE')).toHaveLength(1);
  });
});

describe('an Idempotency-Key of finish', () => {
  const key = (name: string) => ({ 'idempotency-key': name });
  const held = (name: string) =>
    service.context.db.query<{ status: number; body: string }>(
      sql('test_key', 'select status, body from idempotency_keys where key = $1'),
      [name],
    );

  test('returns the first response when repeated, without Slack, and stores it sealed', async () => {
    const body = { app_id: 'A0TEST', code: slack.code() };
    const first = await finish('key', body, key('f1'));
    const second = await finish('key', body, key('f1'));
    expect([first.status, second.status, second.headers.get('idempotency-replayed')]).toEqual([
      200,
      200,
      'true',
    ]);
    expect(second.body).toEqual(first.body);
    expect(slack.tokenRequests).toHaveLength(1);
    const [row] = await held('f1');
    expect([row?.status, row?.body.includes('xox'), row?.body.startsWith('{')]).toEqual([200, false, false]);
    expect((await finish('key', { ...body, code: 'other' }, key('f1'))).status).toBe(409);
  });

  test('stores a rejection, but not a failure', async () => {
    const refused = await finish('key', { app_id: 'A0TEST', code: 'none' }, key('f2'));
    const again = await finish('key', { app_id: 'A0TEST', code: 'none' }, key('f2'));
    expect([refused.status, again.status, again.headers.get('idempotency-replayed')]).toEqual([
      422,
      422,
      'true',
    ]);
    expect(again.body).toEqual(refused.body);
    expect(slack.tokenRequests).toHaveLength(1);
    const body = { app_id: 'A0TEST', code: slack.code() };
    slack.instead.push((response) => response.writeHead(500).end());
    expect((await finish('key', body, key('f3'))).status).toBe(503);
    expect(await held('f3')).toEqual([]);
    expect((await finish('key', body, key('f3'))).status).toBe(200);
  });

  test('holds no transaction during the exchange; another process waits for the result', async () => {
    using gate = slack.hold();
    const body = { app_id: 'A0TEST', code: slack.code() };
    const first = finish('key', body, key('f4'));
    await gate.reached;
    await untilNoTransactionIsOpen(service.context.db);
    expect(await held('f4')).toMatchObject([{ status: 0 }]);
    const twin = finish('key', body, key('f4'));
    gate.release();
    expect([(await first).status, (await twin).headers.get('idempotency-replayed')]).toEqual([200, 'true']);
    expect((await twin).body).toEqual((await first).body);
    expect(slack.tokenRequests).toHaveLength(1);
  });

  test("after a crash in between: 409 after a long wait, then Slack's error for used codes", async () => {
    const body = { app_id: 'A0TEST', code: slack.code() };
    await finish('key', body, key('f5'));
    // The state after such a crash: claimed, and no response stored.
    await service.context.db.query(
      sql('test_crash', "update idempotency_keys set status = 0, body = '' where key = 'f5'"),
    );
    const queries = vi.spyOn(service.context.db, 'query');
    const looks = () => queries.mock.calls.filter(([{ name }]) => name === 'select_idempotency_key').length;
    const waiting = finish('key', body, key('f5'));
    await expect.poll(looks).toBeGreaterThan(0);
    now += 60_000;
    const repeated = await waiting;
    queries.mockRestore();
    expect([repeated.status, repeated.headers.get('retry-after'), repeated.body.errors]).toEqual([
      409,
      '5',
      [
        {
          code: 'idempotency_conflict',
          message: 'The first request with this Idempotency-Key has not finished',
        },
      ],
    ]);
    now += 3 * 60_000;
    const later = await finish('key', body, key('f5'));
    expect([later.status, messages(later)]).toEqual([
      422,
      ["Param 'code' is not accepted by Slack: code_already_used"],
    ]);
    now = 0;
  });
});

describe('saving an installation of Slack', () => {
  const record = {
    access_token: 'xoxb-stated',
    app_id: 'A0TEST',
    authed_user: { id: 'U1', scope: 'chat:write' },
    team: { id: 'T0STATED', name: 'Stated' },
  };

  test('returns the record, with an id if it had none, and with its flat keys', async () => {
    const whole = {
      ...record,
      id: 'A0TEST-T0WHOLE',
      authed_user: {
        id: 'U1',
        access_token: 'xoxp-1',
        refresh_token: 'xoxe-u',
        token_type: 'user',
        scope: 'x',
        expires_in: 5,
      },
      bot_user_id: 'B1',
      enterprise: { id: 'E1', name: 'Org' },
      expires_in: 43_200,
      incoming_webhook: { url: 'https://h.example/x', channel: '#a', configuration_url: 'https://c.example' },
      is_enterprise_install: false,
      refresh_token: 'xoxe-1',
      scope: 'chat:write',
      token_type: 'bot',
      team_id: 'T0WHOLE',
      team_name: 'Whole',
      enterprise_id: 'E1',
      enterprise_name: 'Org',
    };
    for (const path of ['slack', 'service_slackbot']) {
      const body = { ...whole, app_id: path === 'slack' ? 'A0TEST' : 'A0SERVER' };
      const response = await save('put', body, path);
      expect([response.status, response.body]).toEqual([200, body]);
    }
    const bare = await save('put', { ...record, enterprise_id: null });
    expect([bare.status, bare.body]).toEqual([200, { ...record, id: 'A0TEST-T0STATED' }]);
    const ofAll = { ...record, enterprise: { id: 'E1', name: 'Org' }, is_enterprise_install: true };
    expect((await save('put', ofAll)).body.id).toBe('A0TEST-E1');
    expect(slack.tokenRequests).toEqual([]);
  });

  test('rejects a wrong body with all its problems, and saves nothing', async () => {
    const before = await rows();
    const wrong = await save('put', {
      id: 'a-1',
      access_token: '',
      authed_user: {},
      team: { id: 'T', x: 1 },
      enterprise: null,
      expires_in: '1',
      incoming_webhook: { url: 'x' },
    });
    expect(wrong.status).toBe(422);
    const problems = messages(wrong).join('\n');
    for (const name of [
      'id',
      'access_token',
      'app_id',
      'authed_user.id',
      'x',
      'enterprise',
      'expires_in',
      'incoming_webhook.channel',
      'incoming_webhook.configuration_url',
    ])
      expect(problems).toContain(name);
    expect(await rows()).toEqual(before);
  });

  test('rejects the 101st of a user; saved ones can still be changed', async () => {
    const other = await service.createProject('stated');
    await other.call('PUT', '/integrations/slack', APP);
    const team = (number: number) => ({ ...record, team: { id: `T0${number}` } });
    await Promise.all(Array.from({ length: 100 }, (_, at) => save('collector', team(at), 'slack', other)));
    const refused = await save('collector', team(100), 'slack', other);
    expect([refused.status, messages(refused)]).toEqual([422, ['A user can save at most 100 installations']]);
    expect((await save('collector', team(99), 'slack', other)).status).toBe(200);
    expect((await save('another', team(100), 'slack', other)).status).toBe(200);
    expect(await rows(other.id)).toHaveLength(101);
  });

  test('does not affect what Slack granted to another user, nor other users', async () => {
    const other = await service.createProject('whose');
    await other.call('PUT', '/integrations/slack', APP);
    await finish('admin', { app_id: 'A0TEST', code: slack.code() }, {}, 'slack', other);
    const stated = { ...record, team: { id: 'T0TEAM' } };
    expect((await save('mallory', stated, 'slack', other)).status).toBe(200);
    expect((await rows(other.id)).map(({ id }) => id)).toEqual(['A0TEST-T0TEAM', 'A0TEST-T0TEAM']);
    // A later finish does not use what was saved before.
    await finish('mallory', { app_id: 'A0TEST', code: slack.code() }, {}, 'slack', other);
    expect(await rows(other.id)).toHaveLength(1);
  });

  test('with the record that finish returned creates no second one', async () => {
    const { body } = await finish('both', { app_id: 'A0TEST', code: slack.code({ team: { id: 'T0BOTH' } }) });
    const again = await save('both', body);
    expect([again.status, again.body]).toEqual([200, body]);
    expect((await rows()).filter(({ id }) => id === 'A0TEST-T0BOTH')).toHaveLength(1);
  });
});

describe("a user's own inbox", () => {
  const look = (user: string) => project.as(user)('POST', '/integrations/inbox/installations/start');
  const nothing = { images: null, locale: null, theme: null };

  test('uses the appearance of the user, else of the project, else the default', async () => {
    expect((await look('in')).body).toEqual(nothing);
    const images = { emptyInboxUrl: 'https://example.com/empty.png' };
    await project.call('PUT', '/integrations/inbox', { locale: 'de', images });
    const ofProject = { images, locale: 'de', theme: null };
    expect((await look('in')).body).toEqual(ofProject);
    const saved = await project.as('in')('PUT', '/integrations/inbox/installations', { locale: 'fr' });
    expect([saved.status, saved.body]).toEqual([200, { ...nothing, locale: 'fr' }]);
    const own = await look('in');
    expect([own.status, own.body]).toEqual([200, { ...nothing, locale: 'fr' }]);
    expect((await look('someone else')).body).toEqual(ofProject);
    await project.as('in')('PUT', '/integrations/inbox/installations', { images });
    expect((await look('in')).body).toEqual({ ...nothing, images });
    expect((await project.call('GET', '/integrations/inbox')).body.data[0].config).toEqual(ofProject);
    await project.call('DELETE', '/integrations/inbox');
    expect((await look('someone else')).body).toEqual(nothing);
  });

  test('is read with an Idempotency-Key as it is now: nothing is stored under the key', async () => {
    const headers = { 'idempotency-key': 'opens' };
    const read = () =>
      project.as('in3')('POST', '/integrations/inbox/installations/start', undefined, headers);
    expect((await read()).body).toEqual(nothing);
    await project.as('in3')('PUT', '/integrations/inbox/installations', { locale: 'fr' });
    const now = await read();
    expect([now.body, now.headers.get('idempotency-replayed')]).toEqual([{ ...nothing, locale: 'fr' }, null]);
  });

  test('rejects what the integration rejects', async () => {
    const wrong = await project.as('in2')('PUT', '/integrations/inbox/installations', {
      locale: 'x',
      theme: 1,
      y: 1,
    });
    expect([wrong.status, messages(wrong).toSorted()]).toEqual([
      422,
      [
        "Param '(root)' doesn't allow key: y",
        "Param 'locale' must have at least 2 characters",
        "Param 'theme' must be an object or null",
      ],
    ]);
    expect((await look('in2')).body).toEqual(nothing);
  });
});

describe('web push', () => {
  const begin = (user: string, of = project, claims = {}) =>
    of.as(user, claims)('POST', '/integrations/web_push/installations/start');
  const configs = async (of: TestProject) => (await of.call('GET', '/integrations/web_push')).body.data;

  test('creates one VAPID key pair, however many concurrent requests there are', async () => {
    const other = await service.createProject('vapid');
    const responses = await Promise.all(Array.from({ length: 8 }, (_, number) => begin(`u${number}`, other)));
    expect(new Set(responses.map(({ status }) => status))).toEqual(new Set([200]));
    const [{ config }, ...more] = await configs(other);
    expect(more).toEqual([]);
    expect(new Set(responses.map(({ body }) => body.public_key))).toEqual(new Set([config.public_key]));
    const pair = createECDH('prime256v1');
    pair.setPrivateKey(config.private_key, 'base64url');
    expect(pair.getPublicKey('base64url')).toBe(config.public_key);
    expect(Buffer.from(config.private_key, 'base64url')).toHaveLength(32);
    expect(JSON.stringify(responses.map(({ body }) => body))).not.toContain(config.private_key);
  });

  test("returns the project's own keys if it has some", async () => {
    const other = await service.createProject('own keys');
    const keys = { public_key: 'public-key', private_key: 'private-key' };
    await other.call('PUT', '/integrations/web_push', keys);
    expect((await begin('u', other)).body.public_key).toBe('public-key');
    expect(await configs(other)).toMatchObject([{ config: keys }]);
  });

  test('its auth_token acts for the user, saves the subscription, and expires within the hour', async () => {
    const { body } = await begin('push', project, { user_email: 'push@example.com' });
    const subscription = { endpoint: 'https://push.example.com/1', keys: { auth: 'a', p256dh: 'p' } };
    const saved = await fetch(`${service.address}/v2/integrations/web_push/installations`, {
      method: 'PUT',
      headers: { authorization: `Bearer ${body.auth_token}`, 'content-type': 'application/json' },
      body: JSON.stringify(subscription),
    });
    expect([saved.status, await saved.json()]).toEqual([200, subscription]);
    const tokens = await project.as('push')('GET', '/channels/web_push/tokens');
    expect(tokens.body.data).toMatchObject([subscription]);
    now += 60 * 60_000;
    const late = await fetch(`${service.address}/v2/channels/web_push/tokens`, {
      headers: { authorization: `Bearer ${body.auth_token}` },
    });
    expect(late.status).toBe(401);
    now = 0;
  });

  test('its auth_token never outlives the JWT of the request', async () => {
    const exp = Math.floor(Date.now() / 1000) + 60;
    const { body } = await begin('short', project, { exp });
    expect(decodeJwt(body.auth_token)?.exp).toBe(exp);
  });

  test('rejects the same subscriptions as saving a token does', async () => {
    const wrong = await project.as('push')('PUT', '/integrations/web_push/installations', {
      endpoint: 'x',
      y: 1,
    });
    expect([wrong.status, messages(wrong)]).toEqual([
      422,
      messages(await project.as('push')('PUT', '/channels/web_push/tokens', { endpoint: 'x', y: 1 })),
    ]);
  });

  test('under an Idempotency-Key the auth_token is stored sealed', async () => {
    const call = project.as('keyed');
    const request = () =>
      call('POST', '/integrations/web_push/installations/start', undefined, { 'idempotency-key': 'wp1' });
    const first = await request();
    const second = await request();
    expect([second.headers.get('idempotency-replayed'), second.body]).toEqual(['true', first.body]);
    const [row] = await service.context.db.query<{ body: string }>(
      sql('test_kept', "select body from idempotency_keys where key = 'wp1'"),
    );
    expect(row?.body).not.toContain(first.body.auth_token.slice(-20));
  });

  test('under an Idempotency-Key the auth_token of one JWT is not replayed to another JWT', async () => {
    const request = (exp: number) =>
      project.as('rekeyed', { exp })('POST', '/integrations/web_push/installations/start', undefined, {
        'idempotency-key': 'wp2',
      });
    const seconds = Math.floor(Date.now() / 1000);
    const long = await request(seconds + 3000);
    const short = await request(seconds + 60);
    expect([long.status, short.status]).toEqual([200, 200]);
    expect(short.headers.get('idempotency-replayed')).toBeNull();
    expect(decodeJwt(short.body.auth_token)?.exp).toBe(seconds + 60);
    const again = await request(seconds + 60);
    expect(again.headers.get('idempotency-replayed')).toBe('true');
    expect(decodeJwt(again.body.auth_token)?.exp).toBe(seconds + 60);
    expect(short.body.public_key).toBe(long.body.public_key);
  });
});

test('every installation endpoint needs a User JWT', async () => {
  for (const path of ['slack', 'service_slackbot', 'inbox', 'web_push']) {
    expect((await project.call('PUT', `/integrations/${path}/installations`, {})).status).toBe(403);
    expect((await project.call('POST', `/integrations/${path}/installations/start`, {})).status).toBe(403);
  }
  expect((await project.call('POST', '/integrations/slack/installations/finish', {})).status).toBe(403);
});

test('no table, event or error contains tokens or secrets', async () => {
  slack.rotate = 43_200;
  const headers = { 'idempotency-key': 'dump' };
  const { body } = await finish(
    'dump',
    { app_id: 'A0TEST', code: slack.code({ team: { id: 'T0DUMP' } }) },
    headers,
  );
  await save('dump', {
    ...body,
    id: 'A0TEST-T0DUMP2',
    access_token: 'canary-token',
    refresh_token: 'canary-refresh',
  });
  const dump = await service.context.db.query<{ text: string }>(
    sql(
      'test_dump_installations',
      `select i::text as text from installations i
      union all select encode(sealed_record, 'escape') from installations
      union all select k::text from idempotency_keys k
      union all select e::text from events e`,
    ),
  );
  expect(dump.some(({ text }) => text.includes('installation.saved'))).toBe(true);
  for (const secret of ['canary', body.access_token, body.refresh_token])
    expect(dump.filter(({ text }) => text.includes(secret))).toEqual([]);
  const events = await project.call('GET', '/events?type=installation.saved&limit=1');
  expect(events.body.data).toMatchObject([
    {
      type: 'installation.saved',
      context: { provider: 'slack' },
      payload: { id: 'A0TEST-T0DUMP2', name: 'slack' },
    },
  ]);
});
