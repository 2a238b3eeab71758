import { createHmac } from 'node:crypto';
import { Type } from 'typebox';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { SETTINGS } from '../../src/config.ts';
import { deleteUser } from '../../src/domain/after/erasure/delete-user.ts';
import { rollKey } from '../../src/domain/setup/projects/roll-key.ts';
import { type App, projectRoute, userRoute } from '../../src/http/route.ts';
import { v1Api } from '../../src/http/v1/api.ts';
import { type ApiResponse, startTestService, type TestService } from '../support/service.ts';
import { TestClock } from '../support/test-clock.ts';

let it: TestService;

function testRoutes(app: App): void {
  const v1 = { ...app, api: v1Api(app.context, app.api) };
  const operation = {
    hidden: true,
    method: 'GET' as const,
    description: 'For tests.',
    summary: 'For tests',
    tags: ['Tests'] as [string],
    reply: { 200: Type.Object({ id: Type.String() }) },
  };
  projectRoute(v1, {
    ...operation,
    url: '/test/project',
    operationId: 'testProject',
    handler: async ({ project }) => ({ id: project.id }),
  });
  userRoute(v1, {
    ...operation,
    url: '/test/user',
    operationId: 'testUser',
    handler: async ({ user }) => ({ id: user.id }),
  });
}

beforeAll(async () => {
  it = await startTestService({ http: { routes: testRoutes } });
});
afterAll(() => it.stop());

type Headers = Record<string, string>;

const key = (): Headers => ({ 'x-service-api-key': it.project.apiKey });
const secret = (): Headers => ({ 'x-service-api-secret': it.project.apiSecret });
const externalId = (value: string): Headers => ({ 'x-service-user-external-id': value });
const email = (value: string): Headers => ({ 'x-service-user-email': value });
const hmac = (value: string, by = it.project.apiSecret): Headers => ({
  'x-service-user-hmac': createHmac('sha256', by).update(value).digest('base64'),
});

const asProject = (headers: Headers) => it.request('GET', '/test/project', { headers });
const asUser = (headers: Headers) => it.request('GET', '/test/user', { headers });
const resultOf = ({ status, codes }: ApiResponse) => [status, ...codes];

/** The external id and the address of the identified user. */
async function userOf(headers: Headers): Promise<[string | null, string | null]> {
  const response = await asUser(headers);
  expect(resultOf(response)).toEqual([200]);
  const { body } = await it.project.call('GET', `/users/${response.body.id}`);
  return [body.external_id, body.email];
}

describe('operations of a project', () => {
  test('need the API key and the API secret', async () => {
    expect((await asProject({ ...key(), ...secret() })).body).toEqual({ id: it.project.id });
    expect(resultOf(await asProject({}))).toEqual([401, 'api_key_not_provided']);
    expect(resultOf(await asProject(secret()))).toEqual([401, 'api_key_not_provided']);
    const unknown = { 'x-service-api-key': `${it.project.apiKey.slice(0, -4)}AAAA` };
    expect(resultOf(await asProject({ ...unknown, ...secret() }))).toEqual([401, 'incorrect_api_key']);
    const malformed = { 'x-service-api-key': '' };
    expect(resultOf(await asProject({ ...malformed, ...secret() }))).toEqual([401, 'incorrect_api_key']);
    expect(resultOf(await asProject(key()))).toEqual([401, 'api_secret_not_provided']);
    const other = { 'x-service-api-secret': (await it.createProject('other secret')).apiSecret };
    expect(resultOf(await asProject({ ...key(), ...other }))).toEqual([401, 'api_secret_is_incorrect']);
  });

  test('are not open to a user with an HMAC', async () => {
    const ada = { ...key(), ...externalId('ada'), ...hmac('ada') };
    expect(resultOf(await asProject(ada))).toEqual([401, 'api_secret_not_provided']);
    expect((await asProject({ ...ada, ...secret() })).status).toBe(200);
  });

  test('accept a Project JWT, and refuse a User JWT with forbidden', async () => {
    const bearer = (token: string) => ({ authorization: `Bearer ${token}` });
    expect((await asProject(bearer(it.project.jwt))).body).toEqual({ id: it.project.id });
    const user = bearer(it.project.userJwt({ user_external_id: 'ada' }));
    const refused = await asProject(user);
    expect([...resultOf(refused), ...refused.messages]).toEqual([
      403,
      'forbidden',
      'This operation needs the API secret; the request has a user',
    ]);
  });
});

describe('operations of a user', () => {
  test('identify the user by external id or address, with the HMAC of that value', async () => {
    expect(await userOf({ ...key(), ...externalId('grace'), ...hmac('grace') })).toEqual(['grace', null]);
    expect(await userOf({ ...key(), ...email('Alan@example.com'), ...hmac('Alan@example.com') })).toEqual([
      null,
      'Alan@example.com',
    ]);
    const padded = { 'x-service-user-hmac': ` ${hmac('grace')['x-service-user-hmac']} ` };
    expect(await userOf({ ...key(), ...externalId('grace'), ...padded })).toEqual(['grace', null]);
  });

  test('take the external id if both are given, and its HMAC', async () => {
    const both = { ...key(), ...externalId('joan'), ...email('joan@example.com') };
    expect(await userOf({ ...both, ...secret() })).toEqual(['joan', 'joan@example.com']);
    expect(await userOf({ ...both, ...hmac('joan') })).toEqual(['joan', 'joan@example.com']);
    expect(resultOf(await asUser({ ...both, ...hmac('joan@example.com') }))).toEqual([
      401,
      'hmac_not_a_match',
    ]);
  });

  test('the HMAC of an external id opens no user with the address beside it, nor claims it', async () => {
    const victim = await userOf({ ...key(), ...email('victim@example.com'), ...secret() });
    expect(victim).toEqual([null, 'victim@example.com']);
    for (const [id, address] of [
      ['mallory', 'victim@example.com'],
      ['mallory', 'unused@example.com'],
      ['unknown', 'unused@example.com'],
    ] as const)
      expect(await userOf({ ...key(), ...externalId(id), ...email(address), ...hmac(id) })).toEqual([
        id,
        null,
      ]);
    expect(await userOf({ ...key(), ...email('victim@example.com'), ...secret() })).toEqual(victim);
  });

  test('take external ids outside of ASCII as UTF-8', async () => {
    const bytes = Buffer.from('zoë-日本').toString('latin1');
    expect(await userOf({ ...key(), ...externalId(bytes), ...hmac('zoë-日本') })).toEqual(['zoë-日本', null]);
    // A browser sends what fits into Latin-1 as such.
    expect(await userOf({ ...key(), ...externalId('zoë'), ...hmac('zoë') })).toEqual(['zoë', null]);
  });

  test('take the external id beside an e-mail header that is not an address', async () => {
    for (const text of ['no address', '', ' ', 'a@b@c']) {
      const both = { ...key(), ...externalId('margaret'), ...email(text) };
      expect(await userOf({ ...both, ...secret() }), text).toEqual(['margaret', null]);
      expect(await userOf({ ...both, ...hmac('margaret') }), text).toEqual(['margaret', null]);
    }
    expect(resultOf(await asUser({ ...key(), ...secret(), ...email('no address') }))).toEqual([
      401,
      'user_email_not_provided',
    ]);
  });

  test('are refused without a user, and with an invalid external id beside an address', async () => {
    expect(resultOf(await asUser(key()))).toEqual([401, 'user_email_not_provided']);
    for (const invalid of [' ', 'x'.repeat(256)]) {
      const both = { ...externalId(invalid), ...email('victim@example.com') };
      const response = await asUser({ ...key(), ...secret(), ...both });
      expect(resultOf(response)).toEqual([401, 'user_email_not_provided']);
      expect(response.messages[0]).toContain('X-SERVICE-USER-EXTERNAL-ID');
    }
  });

  test('need an HMAC, or the API secret instead', async () => {
    const ada = { ...key(), ...externalId('ada') };
    expect(resultOf(await asUser(ada))).toEqual([401, 'neither_user_hmac_nor_api_secret_provided']);
    expect(await userOf({ ...ada, ...secret() })).toEqual(['ada', null]);
    const wrong = { 'x-service-api-secret': 'sk_wrong' };
    expect(resultOf(await asUser({ ...ada, ...hmac('ada'), ...wrong }))).toEqual([
      401,
      'api_secret_is_incorrect',
    ]);
    const other = await it.createProject('other hmac');
    for (const forged of [hmac('bob'), hmac('ada', other.apiSecret), { 'x-service-user-hmac': 'x' }])
      expect(resultOf(await asUser({ ...ada, ...forged }))).toEqual([401, 'hmac_not_a_match']);
  });

  test('accept a User JWT, of the project of the API key if there is one', async () => {
    const jwt = { authorization: `Bearer ${it.project.userJwt({ user_external_id: 'jean' })}` };
    expect(await userOf(jwt)).toEqual(['jean', null]);
    expect(await userOf({ ...jwt, ...key() })).toEqual(['jean', null]);
    const other = { 'x-service-api-key': (await it.createProject('other key')).apiKey };
    expect(resultOf(await asUser({ ...jwt, ...other }))).toEqual([401, 'incorrect_api_key']);
    expect(resultOf(await asUser({ authorization: `Bearer ${it.project.jwt}` }))).toEqual([403, 'forbidden']);
  });

  test('accept a Project JWT with a user in the headers, and no other JWT with one', async () => {
    const jwt = { authorization: `Bearer ${it.project.jwt}` };
    expect(await userOf({ ...jwt, ...externalId('kay') })).toEqual(['kay', null]);
    expect(await userOf({ ...jwt, ...email('kay@example.com') })).toEqual([null, 'kay@example.com']);
    expect(resultOf(await asUser({ ...jwt, ...externalId(' ') }))).toEqual([401, 'user_email_not_provided']);
    const user = { authorization: `Bearer ${it.project.userJwt({ user_external_id: 'jean' })}` };
    expect(resultOf(await asUser({ ...user, ...externalId('kay') }))).toEqual([401, 'api_key_not_provided']);
  });

  test('need no HMAC if the project does not require it, but refuse a wrong one', async () => {
    const project = await it.createProject('without hmac');
    const ada = { 'x-service-api-key': project.apiKey, ...externalId('ada') };
    expect(resultOf(await asUser(ada))).toEqual([401, 'neither_user_hmac_nor_api_secret_provided']);
    const settings = { display_name: null, logo_url: null, default_locale: null, hmac_required: false };
    expect((await project.call('PUT', '/project', { hmac_required: false })).body).toEqual(settings);
    expect((await asUser(ada)).status).toBe(200);
    expect(resultOf(await asUser({ ...ada, ...hmac('ada') }))).toEqual([401, 'hmac_not_a_match']);
    expect((await project.call('GET', '/project')).body).toEqual({
      id: project.id,
      name: 'without hmac',
      api_key: project.apiKey,
      ...settings,
    });
    const { body } = await project.call('GET', '/events?type=project.saved');
    expect(body.data).toMatchObject([{ payload: { hmac_required: false } }]);
  });

  test('restore a user that is deleted', async () => {
    const id = (await asUser({ ...key(), ...externalId('lost'), ...hmac('lost') })).body.id;
    await deleteUser(it.context, it.project.id, id);
    expect((await it.project.call('GET', `/users/${id}`)).status).toBe(404);
    expect((await asUser({ ...key(), ...externalId('lost'), ...hmac('lost') })).body).toEqual({ id });
    expect((await it.project.call('GET', `/users/${id}`)).status).toBe(200);
  });
});

test('a rolled API secret and its HMACs are accepted until the overlap ends', async () => {
  const project = await it.createProject('rolled');
  const headers = { 'x-service-api-key': project.apiKey };
  const former = { ...headers, 'x-service-api-secret': project.apiSecret };
  const rolled = await rollKey(it.context, { projectId: project.id, kind: 'api_secret', overlapMs: 60_000 });
  const apiSecret = rolled?.apiSecret ?? '';
  expect((await asProject(former)).status).toBe(200);
  expect((await asProject({ ...headers, 'x-service-api-secret': apiSecret })).status).toBe(200);
  for (const by of [project.apiSecret, apiSecret])
    expect((await asUser({ ...headers, ...externalId('ada'), ...hmac('ada', by) })).status).toBe(200);
  await rollKey(it.context, { projectId: project.id, kind: 'api_secret', overlapMs: 0 });
  expect(resultOf(await asProject(former))).toEqual([401, 'api_secret_is_incorrect']);
  const ada = { ...headers, ...externalId('ada'), ...hmac('ada', project.apiSecret) };
  expect(resultOf(await asUser(ada))).toEqual([401, 'hmac_not_a_match']);
});

test('the brand word of the server and the word service are accepted', async () => {
  const branded = await startTestService({
    settings: { BRAND: 'magicbell' },
    http: { routes: testRoutes },
  });
  try {
    for (const word of ['magicbell', 'service']) {
      const { status } = await branded.request('GET', '/test/project', {
        headers: {
          [`x-${word}-api-key`]: branded.project.apiKey,
          [`x-${word}-api-secret`]: branded.project.apiSecret,
        },
      });
      expect([word, status]).toEqual([word, 200]);
    }
  } finally {
    await branded.stop();
  }
});

test('every response of v1 says that it is deprecated, and links to a guide', async () => {
  const responses = [
    await asProject({ ...key(), ...secret() }),
    await asProject({}),
    await it.request('DELETE', '/test/project'),
    await it.request('OPTIONS', '/test/project'),
  ];
  expect(responses.map(({ status }) => status)).toEqual([200, 401, 405, 204]);
  for (const { headers } of responses) {
    expect(headers.get('deprecation')).toMatch(/^@\d+$/);
    expect(headers.get('link')).toBe('</docs/from-v1>; rel="deprecation"; type="text/html"');
  }
  expect((await it.project.call('GET', '/users')).headers.has('deprecation')).toBe(false);
});

test('GET /metrics is that of v1 with an API key, and that of Prometheus without', async () => {
  const ofV1 = await it.request('GET', '/metrics', { headers: { ...key(), ...secret() } });
  expect(ofV1.body).toHaveProperty('metrics');
  expect(resultOf(await it.request('GET', '/metrics', { headers: key() }))).toEqual([
    401,
    'api_secret_not_provided',
  ]);
  expect((await it.request('GET', '/metrics')).text).toContain('belfry_');
});

test('v1 has its own description, and its page', async () => {
  const { body, status } = await it.request('GET', '/v1/openapi.json');
  expect([status, body.info.version]).toEqual([200, '1.0.0']);
  expect((await it.request('GET', '/docs/v1')).text).toContain('/v1/openapi.json');
  expect((await it.request('GET', '/docs/api')).text).toContain('/v2/openapi.json');
});

test('requests to v1 have limits and counters of their own', async () => {
  const { RATE_LIMIT_V1_READS, RATE_LIMIT_V1_WRITES } = SETTINGS;
  const clock = new TestClock();
  const limited = await startTestService({
    clock,
    settings: {
      RATE_LIMIT_V1_READS: RATE_LIMIT_V1_READS?.default ?? '',
      RATE_LIMIT_V1_WRITES: RATE_LIMIT_V1_WRITES?.default ?? '',
      RATE_LIMIT_READS: '1',
    },
  });
  clock.stop(); // limits count by the second
  try {
    const { call, v1 } = limited.project;
    expect([await call('GET', '/broadcasts'), await call('GET', '/broadcasts')]).toMatchObject([
      { status: 200 },
      { status: 429 },
    ]);
    const reads = await Promise.all(Array.from({ length: 101 }, () => v1('GET', '/broadcasts')));
    expect(reads.filter(({ status }) => status === 200)).toHaveLength(100);
    const refused = reads.find(({ status }) => status === 429);
    expect([refused?.codes, refused?.headers.get('ratelimit-limit')]).toEqual([
      ['rate_limit_exceeded'],
      '100',
    ]);
    const writes = await Promise.all(
      Array.from({ length: 61 }, () => v1('DELETE', '/users/email:x@x.example')),
    );
    expect(
      writes.filter(({ status }) => status === 429).map(({ headers }) => headers.get('ratelimit-limit')),
    ).toEqual(['60']);
  } finally {
    await limited.stop();
  }
});
