import pg from 'pg';
import { afterAll, beforeAll, beforeEach, describe, expect, inject, test } from 'vitest';
import { sql } from '../../src/db/client.ts';
import { GRACE_MS, purgeUsers } from '../../src/domain/after/erasure/purge-users.ts';
import { ALL_USERS, openRecord } from '../../src/domain/people/installations/record.ts';
import { installationToken } from '../../src/domain/people/installations/token.ts';
import { createLogger } from '../../src/lib/log.ts';
import { type Opened, open } from '../../src/open.ts';
import { untilNoTransactionIsOpen } from '../support/open-transactions.ts';
import { startTestService, type TestProject, type TestService, until } from '../support/service.ts';
import { type SlackStandIn, startSlackStandIn } from '../support/slack-stand-in.ts';

// The source of tokens for posts to Slack, with two nodes on one database and single-use refresh tokens.

const APP = {
  app_id: 'A0TEST',
  client_id: '11.22',
  client_secret: 'c'.repeat(32),
  signing_secret: 's'.repeat(32),
};
const HOUR = 60 * 60_000;
const LIFE_S = 12 * 60 * 60;

let now = 0;
const clock = { now: () => Date.now() + now };
let slack: SlackStandIn;
let service: TestService;
let other: Opened;
let project: TestProject;
let number = 0;
const logged: string[] = [];

beforeAll(async () => {
  slack = await startSlackStandIn();
  service = await startTestService({ clock, settings: { PROVIDER_SLACK_API_URL: slack.apiUrl } });
  const log = createLogger({ level: 'warn', stream: { write: (line) => void logged.push(line) } });
  other = await open(service.context.config, { role: 'client', log, clock });
});
afterAll(async () => {
  await other?.close();
  await service?.stop();
  await slack?.close();
});
beforeEach(async () => {
  now = 0;
  slack.apps.set(APP.client_id, APP.client_secret);
  slack.rotate = LIFE_S;
  slack.instead.length = 0;
  slack.loseResponses = 0;
  number += 1;
  project = await service.createProject(`installation tokens ${number}`);
  await project.call('PUT', '/integrations/slack', APP);
});

/** Installs the app as a user does, and clears the requests to Slack that this needed. */
async function install(user = 'admin'): Promise<{ id: string; access_token: string; refresh_token: string }> {
  const path = '/integrations/slack/installations/finish';
  const { status, body } = await project.as(user)('POST', path, { app_id: 'A0TEST', code: slack.code() });
  expect(status).toBe(200);
  slack.tokenRequests.length = 0;
  return body;
}

async function userIdOf(externalId: string): Promise<string> {
  await project.as(externalId)('GET', '/notifications');
  const { body } = await project.call('GET', `/users?query=${externalId}`);
  return body.data[0].id;
}

async function tokenOf(options: { user?: string; node?: Opened; expired?: string; id?: string } = {}) {
  const { user = 'admin', node = service.context, id = 'A0TEST-T0TEAM', expired } = options;
  const of = { projectId: project.id, userId: await userIdOf(user), provider: 'slack' as const, id };
  return installationToken(node, of, expired === undefined ? {} : { expired });
}

const usable = (token: string, { isShared = true } = {}) => ({ kind: 'token', token, isShared });
const broken = async () => (await project.call('GET', '/events?type=installation.broken')).body.data;

test('a token that does not expire is returned without a request to Slack', async () => {
  slack.rotate = undefined;
  const { access_token: token } = await install();
  now += 1_000 * HOUR;
  expect(await tokenOf()).toEqual(usable(token));
  expect(slack.tokenRequests).toEqual([]);
});

test('a token is renewed once when less than an hour is left, and the new pair is used then', async () => {
  const first = await install();
  now += 11 * HOUR - 60_000;
  expect(await tokenOf()).toEqual(usable(first.access_token));
  expect(slack.tokenRequests).toEqual([]);
  now += 120_000;
  const renewed = await tokenOf();
  expect(renewed).toEqual(usable(expect.stringMatching(/^xoxe\.xoxb-/)));
  expect(renewed).not.toEqual(usable(first.access_token));
  expect(slack.tokenRequests).toMatchObject([
    {
      path: '/api/oauth.v2.access',
      authorization: `Basic ${Buffer.from(`11.22:${APP.client_secret}`).toString('base64')}`,
      form: { grant_type: 'refresh_token', refresh_token: first.refresh_token },
    },
  ]);
  expect(slack.isGood(first.refresh_token)).toBe(false);
  for (const node of [service.context, other]) expect(await tokenOf({ node })).toEqual(renewed);
  now += 12 * HOUR;
  expect(await tokenOf({ node: other })).toMatchObject({ kind: 'token' });
  expect(slack.tokenRequests).toHaveLength(2);
  expect(await broken()).toEqual([]);
});

test.each([
  ['about to expire', 11.5],
  ['run out', 13],
])('many callers on two nodes renew a token (%s) once', async (_what, hours) => {
  const first = await install();
  now += hours * HOUR;
  await userIdOf('admin');
  const responses = await Promise.all(
    Array.from({ length: 40 }, (_, at) => tokenOf({ node: at % 2 === 0 ? service.context : other })),
  );
  const renewed = await tokenOf();
  const good = hours > 12 ? [renewed] : [renewed, usable(first.access_token)];
  for (const response of responses) expect(good).toContainEqual(response);
  expect(slack.tokenRequests).toHaveLength(1);
  expect(await broken()).toEqual([]);
});

test('no transaction is open during a renewal; callers with a valid token do not wait', async () => {
  const first = await install();
  now += 11.5 * HOUR;
  using gate = slack.hold();
  const asking = tokenOf();
  await gate.reached;
  await untilNoTransactionIsOpen(other.db);
  expect(await tokenOf({ node: other })).toEqual(usable(first.access_token));
  gate.release();
  const renewed = await asking;
  expect(await tokenOf({ node: other })).toEqual(renewed);
});

test('a short-lived token is renewed after half of its life, not with every call', async () => {
  slack.rotate = 600;
  const first = await install();
  expect(await tokenOf()).toEqual(usable(first.access_token));
  now += 301_000;
  const renewed = await tokenOf();
  expect(await tokenOf()).toEqual(renewed);
  expect(slack.tokenRequests).toHaveLength(1);
});

describe('while Slack is unreachable', () => {
  test('the current token is used, and Slack gets no request before the time that it set', async () => {
    const first = await install();
    now += 11.5 * HOUR;
    slack.instead.push((response) => response.writeHead(429, { 'retry-after': '90' }).end());
    for (let count = 0; count < 3; count += 1) expect(await tokenOf()).toEqual(usable(first.access_token));
    expect(slack.tokenRequests).toHaveLength(1);
    now += 91_000;
    expect(await tokenOf()).not.toEqual(usable(first.access_token));
    expect(slack.tokenRequests).toHaveLength(2);
  });

  test('an expired token is a retry, with its time', async () => {
    await install();
    now += 13 * HOUR;
    slack.instead.push((response) => response.writeHead(503).end());
    expect(await tokenOf()).toEqual({
      kind: 'retry',
      reason: 'Slack responded with 503',
      retryAfterMs: 30_000,
    });
    const again = await tokenOf({ node: other });
    expect(again).toMatchObject({ kind: 'retry', reason: 'The token could not be renewed' });
    expect(slack.tokenRequests).toHaveLength(1);
    now += 30_000;
    expect(await tokenOf()).toMatchObject({ kind: 'token' });
  });
});

describe('a lost response after Slack has renewed the token', () => {
  test('breaks the installation with an event; a new installation repairs it', async () => {
    const first = await install();
    now += 11.5 * HOUR;
    slack.loseResponses = 1;
    expect(await tokenOf()).toEqual(usable(first.access_token));
    expect(await broken()).toEqual([]);
    now += 60_000;
    for (const node of [service.context, other])
      expect(await tokenOf({ node })).toEqual(usable(first.access_token));
    expect(slack.tokenRequests).toHaveLength(2);
    expect(await broken()).toMatchObject([
      {
        level: 'error',
        log: 'Slack does not renew the installation: invalid_refresh_token. Install it again.',
        context: { provider: 'slack', code: 'invalid_refresh_token' },
        payload: { id: 'A0TEST-T0TEAM', name: 'slack' },
      },
    ]);
    now += HOUR;
    expect(await tokenOf()).toMatchObject({ kind: 'gone', code: 'invalid_refresh_token' });
    expect(slack.tokenRequests).toHaveLength(2);
    const { access_token: token } = await install('another user');
    expect(await tokenOf()).toEqual(usable(token));
  });

  test('is not assumed when the database was down: the pair is stored when it is back', async () => {
    await install();
    now += 13 * HOUR;
    await userIdOf('admin');
    using gate = slack.hold();
    const asking = tokenOf({ node: other });
    await gate.reached;
    const admin = new pg.Client(inject('testServer'));
    await admin.connect();
    const [{ name } = { name: '' }] = await other.db.query<{ name: string }>(
      sql('test_database', 'select current_database() as name'),
    );
    const refused = async () =>
      (await admin.query('select 1 from pg_stat_activity where datname = $1', [name])).rowCount === 0;
    try {
      await admin.query(`alter database ${name} allow_connections false`);
      await until(
        async () => {
          await admin.query('select pg_terminate_backend(pid) from pg_stat_activity where datname = $1', [
            name,
          ]);
          return refused();
        },
        (gone) => gone,
      );
      gate.release();
      await until(
        () => logged.filter((line) => line.includes('could not be kept yet')).length,
        (attempts) => attempts >= 2,
      );
    } finally {
      await admin.query(`alter database ${name} allow_connections true`);
      await admin.end();
    }
    const renewed = await asking;
    expect(renewed).toMatchObject({ kind: 'token' });
    expect(
      await until(
        () => tokenOf({ node: other }),
        ({ kind }) => kind === 'token',
      ),
    ).toEqual(renewed);
    expect(slack.tokenRequests).toHaveLength(1);
  });
});

test.each(['token_revoked', 'account_inactive'])('%s also invalidates the current token', async (error) => {
  await install();
  now += 11.5 * HOUR;
  const refuse: SlackStandIn['instead'][number] = (response) =>
    response.end(JSON.stringify({ ok: false, error }));
  slack.instead.push(refuse, refuse);
  const gone = { kind: 'gone', code: error, reason: `Slack does not renew the installation: ${error}` };
  for (const node of [service.context, other]) expect(await tokenOf({ node })).toEqual(gone);
  expect(slack.tokenRequests).toHaveLength(1);
  expect(await broken()).toHaveLength(1);
});

describe('an app that Slack does not know', () => {
  test('is an error of the config, and keeps the installation', async () => {
    const first = await install();
    slack.apps.set(APP.client_id, 'renewed at Slack');
    now += 11.5 * HOUR;
    expect(await tokenOf()).toEqual(usable(first.access_token));
    now += 2 * HOUR;
    const reason = 'Slack does not accept the credentials of the app: bad_client_secret';
    expect(await tokenOf()).toEqual({ kind: 'config', code: 'bad_client_secret', reason });
    expect(await broken()).toEqual([]);
    slack.apps.set(APP.client_id, APP.client_secret);
    now += 5 * 60_000;
    expect(await tokenOf()).toMatchObject({ kind: 'token' });
  });

  test('is also one that the project has removed', async () => {
    await install();
    await project.call('DELETE', '/integrations/slack');
    now += 13 * HOUR;
    expect(await tokenOf()).toMatchObject({ kind: 'config', code: 'no_app' });
    expect(slack.tokenRequests).toEqual([]);
  });
});

describe('a token that Slack reports as expired early', () => {
  test('is renewed at once, whichever node noticed', async () => {
    const { access_token: expired } = await install();
    const responses = await Promise.all(
      [service.context, other, service.context].map((node) => tokenOf({ node, expired })),
    );
    const renewed = await tokenOf();
    expect(renewed).not.toEqual(usable(expired));
    for (const response of responses) expect(response).toEqual(renewed);
    expect(await tokenOf({ expired })).toEqual(renewed);
    expect(slack.tokenRequests).toHaveLength(1);
  });

  test('is gone if there is nothing to renew it with', async () => {
    slack.rotate = undefined;
    const { access_token: expired } = await install();
    expect(await tokenOf({ expired })).toMatchObject({ kind: 'gone', code: 'token_expired' });
  });
});

describe('saving', () => {
  const save = (user: string, body: object) =>
    project.as(user)('PUT', '/integrations/slack/installations', body);
  const stated = (tokens: object, team = 'T0TEAM') => ({
    app_id: 'A0TEST',
    authed_user: { id: 'U1' },
    team: { id: team },
    ...tokens,
  });

  test('the same tokens again do not replace renewed ones', async () => {
    const granted = await install();
    const own = slack.pair();
    await save('ann', stated(own, 'T0OWN'));
    now += 11.5 * HOUR;
    const renewed = [await tokenOf(), await tokenOf({ user: 'ann', id: 'A0TEST-T0OWN' })];
    for (const again of [
      await save('admin', granted),
      await save('ann', { ...stated(own, 'T0OWN'), scope: 'new' }),
    ])
      expect(again.status).toBe(200);
    expect([await tokenOf(), await tokenOf({ user: 'ann', id: 'A0TEST-T0OWN' })]).toEqual(renewed);
    now += 12 * HOUR;
    expect(await tokenOf({ user: 'ann', id: 'A0TEST-T0OWN' })).toMatchObject({ kind: 'token' });
    expect(await broken()).toEqual([]);
  });

  test('new tokens repair a broken installation', async () => {
    await save('ann', stated({ ...slack.pair(), refresh_token: 'xoxe-1-used' }));
    now += 11.5 * HOUR;
    await tokenOf({ user: 'ann' });
    expect(await broken()).toMatchObject([{ context: { user_id: await userIdOf('ann') } }]);
    const fresh = slack.pair();
    await save('ann', stated(fresh));
    expect(await tokenOf({ user: 'ann' })).toEqual(usable(fresh.access_token, { isShared: false }));
  });

  test('expired tokens are ignored if Slack has granted others for the same workspace', async () => {
    await save('ann', stated({ ...slack.pair(), refresh_token: 'xoxe-1-used' }));
    now += 11.5 * HOUR;
    await tokenOf({ user: 'ann' });
    expect(await broken()).toHaveLength(1);
    const { access_token: token } = await install();
    expect(await tokenOf({ user: 'ann' })).toEqual(usable(token));
  });

  test('tokens of a user serve that user alone; those that Slack granted serve the project', async () => {
    const { access_token: granted } = await install();
    await save('mallory', stated({ access_token: 'xoxb-mallory' }));
    for (const user of ['admin', 'ann']) expect(await tokenOf({ user })).toEqual(usable(granted));
    expect(await tokenOf({ user: 'mallory' })).toEqual(usable('xoxb-mallory', { isShared: false }));
    await save('mallory', stated({ access_token: 'xoxb-mallory' }, 'T0HERS'));
    expect(await tokenOf({ user: 'ann', id: 'A0TEST-T0HERS' })).toMatchObject({
      kind: 'gone',
      code: 'not_installed',
    });
    project = await service.createProject(`elsewhere ${number}`);
    expect(await tokenOf()).toMatchObject({ kind: 'gone', code: 'not_installed' });
  });

  test('rejected tokens of a user end the messages of that user; granted ones those of all', async () => {
    await install();
    for (const user of ['mallory', 'eve']) await save(user, stated({ access_token: `xoxb-${user}` }));
    for (const user of ['mallory', 'eve', 'ann', 'bob'])
      await project.as(user)('PUT', '/channels/slack/tokens', {
        oauth: { installation_id: 'A0TEST-T0TEAM', channel_id: `C0${user.toUpperCase()}` },
      });
    const chatsOf = async (user: string) =>
      (await project.as(user)('GET', '/channels/slack/tokens')).body.data.length;
    const endsWithoutChats = (user: string) =>
      until(
        () => chatsOf(user),
        (left) => left === 0,
      );
    const reject = async (user: string) => {
      slack.refusals.set(`C0${user.toUpperCase()}`, ['invalid_auth']);
      await project.call('POST', '/broadcasts', { title: 'Hello', recipients: [{ external_id: user }] });
      await endsWithoutChats(user);
    };
    await reject('mallory');
    await reject('eve'); // discarded after all that mallory's rejection discards
    expect([await chatsOf('ann'), await chatsOf('bob')]).toEqual([1, 1]);
    await reject('ann');
    await endsWithoutChats('bob');
  });

  test('an installation during a renewal keeps the new tokens', async () => {
    await install();
    now += 11.5 * HOUR;
    using gate = slack.hold();
    const renewing = tokenOf();
    await gate.reached;
    // Returns before the renewal, which is still waiting.
    const code = slack.code();
    const path = '/integrations/slack/installations/finish';
    const token = 'xoxe.xoxb-new';
    slack.instead.push((response) =>
      response.end(
        JSON.stringify({
          ok: true,
          app_id: 'A0TEST',
          access_token: token,
          refresh_token: 'xoxe-1-new',
          expires_in: LIFE_S,
          authed_user: { id: 'U1' },
          team: { id: 'T0TEAM' },
        }),
      ),
    );
    const { status } = await project.as('admin')('POST', path, { app_id: 'A0TEST', code });
    expect(status).toBe(200);
    gate.release();
    await renewing;
    expect(await tokenOf()).toEqual(usable(token));
    expect(await broken()).toEqual([]);
  });
});

test('a purged user leaves nothing except the workspace that serves the others', async () => {
  const { access_token: token } = await install();
  await project.as('admin')('PUT', '/integrations/inbox/installations', { locale: 'de' });
  await project.as('ann')('PUT', '/integrations/inbox/installations', { locale: 'fr' });
  const userId = await userIdOf('admin');
  expect((await project.call('DELETE', `/users/${userId}`)).status).toBe(204);
  const later = { now: () => Date.now() + 2 * GRACE_MS };
  while (await purgeUsers({ ...service.context, clock: later }));
  expect(await tokenOf({ user: 'ann' })).toEqual(usable(token));
  const rows = await service.context.db.query<{ line: string; sealed: Buffer; id: string; provider: string }>(
    sql(
      'test_forgotten',
      `select i::text as line, sealed_record as sealed, id, provider from installations i
        where project_id = $1`,
    ),
    [project.id],
  );
  expect(rows.map(({ provider }) => provider).toSorted()).toEqual(['inbox', 'slack']);
  expect(rows.filter(({ line }) => line.includes(userId))).toEqual([]);
  const [workspace] = rows.filter(({ provider }) => provider === 'slack');
  const key = { projectId: project.id, provider: 'slack', id: workspace?.id ?? '', ownerId: ALL_USERS };
  expect(openRecord(service.context.sealer, key, workspace?.sealed ?? Buffer.alloc(0))).toMatchObject({
    access_token: token,
    authed_user: { id: '' },
  });
  now += 13 * HOUR;
  expect(await tokenOf({ user: 'ann' })).toMatchObject({ kind: 'token' });
});

test('the lease of a dead holder is taken over when it expires', async () => {
  await install();
  now += 13 * HOUR;
  const lease = (until: string) =>
    service.context.db.query(
      sql(
        `test_lease_${until}`,
        `update installations set renewing_until = clock_timestamp() + interval '${until}'
          where project_id = $1`,
      ),
      [project.id],
    );
  await lease('1 second');
  const renewed = await tokenOf();
  expect(renewed).toMatchObject({ kind: 'token' });
  expect(slack.tokenRequests).toHaveLength(1);
});
