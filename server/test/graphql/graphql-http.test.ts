import { createHmac } from 'node:crypto';
import { serverAudits } from 'graphql-http';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { newId } from '../../src/lib/ids.ts';
import { type ApiResponse, startTestService, type TestService } from '../support/service.ts';

let service: TestService;
let limited: TestService;
beforeAll(async () => {
  [service, limited] = await Promise.all([
    startTestService(),
    startTestService({
      settings: { RATE_LIMIT_V1_READS: '5', RATE_LIMIT_V1_WRITES: '3', RATE_LIMIT_IP: '4' },
    }),
  ]);
});
afterAll(() => Promise.all([service.stop(), limited.stop()]));

const userJwt = (of = service, name = 'ada') => of.project.userJwt({ user_external_id: name });
const post = (query: unknown, more: object = {}, headers: Record<string, string> = {}) =>
  service.request('POST', '/graphql', { token: userJwt(), headers, body: { query, ...more } });

/** The status of a response, and the codes and messages of its errors. */
const refusal = ({ status, body }: ApiResponse) => [
  status,
  ...body.errors.map(({ message, extensions }: { message: string; extensions: { code: string } }) => [
    extensions.code,
    message,
  ]),
];

// The audit suite of GraphQL over HTTP, with the credentials that it does not know.
const audits = serverAudits({
  url: () => `${service.address}/graphql`,
  fetchFn: (url: string, init: RequestInit = {}) =>
    fetch(url, { ...init, headers: { ...init.headers, authorization: `Bearer ${userJwt()}` } }),
});

describe('the specification of GraphQL over HTTP', () => {
  test.each(audits.map((audit) => [audit.name, audit] as const))('%s', async (_name, audit) => {
    const { status, ...rest } = await audit.fn();
    expect(status, JSON.stringify(rest)).toBe('ok');
  });
});

test.each(['application/json; charset="utf-8"', 'application/json; charset=utf8', 'application/json;'])(
  'the type of a body may have the parameters that it may have for REST: %s',
  async (type) => {
    const { status, body } = await post('{ __typename }', {}, { 'content-type': type });
    expect([status, body]).toEqual([200, { data: { __typename: 'Query' } }]);
  },
);

test('an empty name of the operation counts as none', async () => {
  const { body } = await post('query A { __typename }', { operationName: '' });
  expect(body).toEqual({ data: { __typename: 'Query' } });
  const mutation = await post('mutation A { readAllNotifications }', { operationName: '' });
  expect(mutation.body).toEqual({ data: { readAllNotifications: true } });
  const path = '/graphql?query=query+A{__typename}&operationName=';
  const read = await service.request('GET', path, { token: userJwt() });
  expect(read.body).toEqual({ data: { __typename: 'Query' } });
});

describe('a request that is refused has the code of REST', () => {
  test('without a valid credential', async () => {
    const body = { query: '{ notifications { totalCount } }' };
    const none = await service.request('POST', '/graphql', { body });
    expect(refusal(none)).toEqual([401, ['api_key_not_provided', 'The API key is missing']]);
    const unreadable = await service.request('POST', '/graphql', { token: 'x', body });
    expect(refusal(unreadable)[1]?.[0]).toBe('unparsable_jwt_token');
    const stranger = await service.request('POST', '/graphql', {
      token: userJwt(limited),
      body,
    });
    expect([stranger.status, refusal(stranger)[1]?.[0]]).toEqual([401, 'jwt_auth_failed']);
  });

  test('without a valid credential of v1', async () => {
    const { apiKey, apiSecret } = service.project;
    const send = async (headers: Record<string, string>) => {
      const query = '{ unreadCount }';
      const given = { 'x-service-api-key': apiKey, ...headers };
      const response = await service.request('POST', '/graphql', { body: { query }, headers: given });
      return response.body.errors === undefined ? response.body.data : refusal(response)[1]?.[0];
    };
    const user = { 'x-service-user-external-id': 'ada' };
    const hmac = createHmac('sha256', apiSecret).update('ada').digest('base64');
    expect(await send({ 'x-service-api-key': 'pk_unknown', ...user })).toBe('incorrect_api_key');
    expect(await send({})).toBe('api_secret_not_provided');
    expect(await send({ 'x-service-api-secret': 'x', ...user })).toBe('api_secret_is_incorrect');
    expect(await send(user)).toBe('neither_user_hmac_nor_api_secret_provided');
    expect(await send({ ...user, 'x-service-user-hmac': 'x' })).toBe('hmac_not_a_match');
    expect(await send({ 'x-service-user-email': 'x' })).toBe('user_email_not_provided');
    expect(await send({ ...user, 'x-service-user-hmac': hmac })).toEqual({ unreadCount: 0 });
    expect(await send({ ...user, 'x-service-api-secret': apiSecret })).toEqual({ unreadCount: 0 });
    expect(await send({ 'x-service-api-secret': apiSecret })).toBe('forbidden');
  });

  test('with the credential of the wrong kind', async () => {
    expect(refusal(await post('{ users { totalCount } }'))).toEqual([
      200,
      ['forbidden', 'This field needs the API secret; the request has a user'],
    ]);
    const { jwt: token } = service.project;
    const body = { query: 'mutation { readAllNotifications }' };
    expect(refusal(await service.request('POST', '/graphql', { token, body }))).toEqual([
      200,
      ['forbidden', 'This field needs a user; the request has the API secret'],
    ]);
  });

  test('with a body that cannot be read', async () => {
    const send = (raw: string, headers = {}) =>
      service.request('POST', '/graphql', { token: userJwt(), raw, headers });
    expect(refusal(await send('{'))[1]?.[0]).toBe('invalid_json');
    expect(refusal(await send('{}', { 'content-type': 'text/plain' }))).toEqual([
      415,
      ['unsupported_media_type', 'The request body must be JSON'],
    ]);
    const ofBytes = (bytes: number) => {
      const body = { query: '{ __typename }', variables: { a: '' } };
      body.variables.a = 'x'.repeat(bytes - JSON.stringify(body).length);
      return JSON.stringify(body);
    };
    const tooLong = [413, ['payload_too_large', 'The request body is too large']];
    expect((await send(ofBytes(64 * 1024))).body.data).toEqual({ __typename: 'Query' });
    expect(refusal(await send(ofBytes(64 * 1024 + 1)))).toEqual(tooLong);
    const sendAsProject = (raw: string) =>
      service.request('POST', '/graphql', { token: service.project.jwt, raw });
    expect((await sendAsProject(ofBytes(1024 * 1024))).body.data).toEqual({ __typename: 'Query' });
    expect(refusal(await sendAsProject(ofBytes(1024 * 1024 + 1)))).toEqual(tooLong);
    const many = JSON.stringify({ query: '{ __typename }', variables: { a: Array(10_001).fill(1) } });
    expect(refusal(await send(many))[1]?.[0]).toBe('payload_too_large');
    expect(refusal(await send('[{"query":"{ __typename }"}]'))).toEqual([
      400,
      ['bad_request', 'Send one operation per request: batches are not supported'],
    ]);
  });

  test('with an Accept header that names no JSON', async () => {
    const accept = { accept: 'text/event-stream' };
    expect(refusal(await post('{ __typename }', {}, accept))).toEqual([
      406,
      ['not_acceptable', 'The Accept header names no type that this path has; send application/json'],
    ]);
  });

  test('with a query that is not valid', async () => {
    expect(refusal(await post('{'))[1]?.[0]).toBe('validation_failed');
    expect(refusal(await post('{ unknown }'))).toEqual([
      200,
      ['validation_failed', 'Cannot query field "unknown" on type "Query".'],
    ]);
    expect(refusal(await post(undefined))).toEqual([400, ['bad_request', 'Missing query']]);
    const strict = { accept: 'application/graphql-response+json' };
    expect((await post('{ unknown }', {}, strict)).status).toBe(400);
  });

  test('with arguments that are not valid, all problems at once', async () => {
    const { body } = await post('{ notifications(first: 101, categories: ["\\u0000"]) { totalCount } }');
    const [{ extensions, path }] = body.errors;
    expect(path).toEqual(['notifications']);
    expect(extensions.code).toBe('validation_failed');
    expect(extensions.problems.map(({ message }: { message: string }) => message)).toEqual([
      expect.stringMatching(/^Param 'categories.0' /),
      expect.stringMatching(/^Param 'first' /),
    ]);
  });

  test.each([
    ['first: 1, last: 1', "Param 'last' cannot be combined with 'first'"],
    [`before: "${newId()}"`, "Param 'before' needs 'last'"],
    [`last: 1, after: "${newId()}"`, "Param 'after' cannot be combined with 'last'"],
    ['after: "x"', "Param 'after' is not a cursor of this list"],
    ['last: 1, before: "x"', "Param 'before' is not a cursor of this list"],
  ])('with a page of (%s)', async (args, message) => {
    expect(refusal(await post(`{ notifications(${args}) { nodes { id } } }`))).toEqual([
      200,
      ['validation_failed', message],
    ]);
  });

  test('names the arguments of a mutation as GraphQL does', async () => {
    const { jwt: token } = service.project;
    const query = 'mutation ($input: UserInput!) { saveUser(input: $input) { id } }';
    const variables = { input: { externalId: 'a', firstName: 'x'.repeat(256) } };
    const response = await service.request('POST', '/graphql', { token, body: { query, variables } });
    expect(refusal(response)[1]?.[1]).toMatch(/^Param 'input.firstName' /);
  });

  test('with another method', async () => {
    const query = new URLSearchParams({ query: 'mutation { readAllNotifications }' });
    const read = await service.request('GET', `/graphql?${query}`, { token: userJwt() });
    expect(refusal(read)).toEqual([405, ['method_not_allowed', 'A mutation needs POST']]);
    expect(read.headers.get('allow')).toBe('POST');
  });

  test('above the rate limit: queries are reads, and each field of a mutation is a write', async () => {
    const send = (query: string) =>
      limited.request('POST', '/graphql', { token: userJwt(limited), body: { query } });
    for (let sent = 0; sent < 5; sent += 1) expect((await send('{ unreadCount }')).status).toBe(200);
    const refused = await send('{ unreadCount }');
    expect(refusal(refused)[0]).toBe(429);
    expect(refusal(refused)[1]?.[0]).toBe('rate_limit_exceeded');
    expect(refused.headers.get('retry-after')).toMatch(/^\d+$/);
    const two = 'mutation { a: readAllNotifications b: seenAllNotifications }';
    expect((await send(two)).status).toBe(200);
    expect((await send(two)).status).toBe(429);
    const hidden = `mutation { ...A }
      fragment A on Mutation { ... on Mutation { a: readAllNotifications ...B } }
      fragment B on Mutation { b: seenAllNotifications }`;
    const sendHidden = (name: string) =>
      limited.request('POST', '/graphql', { token: userJwt(limited, name), body: { query: hidden } });
    expect((await sendHidden('grace')).status).toBe(200);
    expect((await sendHidden('grace')).status).toBe(429);
    const query = '{ unreadCount }';
    const statuses = [];
    for (let sent = 0; sent < 5; sent += 1)
      statuses.push((await limited.request('POST', '/graphql', { body: { query } })).status);
    expect(statuses).toEqual([401, 401, 401, 401, 429]);
  });

  test('while the database does not work, without its reason', async () => {
    const { context } = service.http;
    const query = context.db.query;
    const token = userJwt(service, 'outage');
    await service.request('POST', '/graphql', { token, body: { query: '{ unreadCount }' } });
    context.db.query = () => Promise.reject(Object.assign(new Error('secret'), { code: 'XX000' }));
    try {
      const failed = await service.request('POST', '/graphql', { token, body: { query: '{ unreadCount }' } });
      expect(refusal(failed)).toEqual([
        200,
        ['internal_error', 'The server failed because of an internal error'],
      ]);
    } finally {
      context.db.query = query;
    }
    expect(service.logged.some((line) => line.includes('secret'))).toBe(true);
  });
});

describe('an operation that fails has the code and the words of REST', () => {
  const id = newId();
  type Case = [
    name: string,
    rest: [method: string, path: string, body?: object],
    query: string,
    input: object,
  ];

  const project: Case[] = [
    [
      'a broadcast without a title',
      ['POST', '/broadcasts', { title: '', recipients: [{ external_id: 'a' }] }],
      'mutation ($input: BroadcastInput!) { createBroadcast(input: $input) { id } }',
      { title: '', recipients: [{ externalId: 'a' }] },
    ],
    [
      'a broadcast with characters that are not text',
      ['POST', '/broadcasts', { title: 'a\0', content: '\ud800', recipients: [{ external_id: 'a' }] }],
      'mutation ($input: BroadcastInput!) { createBroadcast(input: $input) { id } }',
      { title: 'a\0', content: '\ud800', recipients: [{ externalId: 'a' }] },
    ],
    [
      'a broadcast that is scheduled too late',
      [
        'POST',
        '/broadcasts',
        { title: 'x', recipients: [{ external_id: 'a' }], send_at: '2100-01-01T00:00:00Z' },
      ],
      'mutation ($input: BroadcastInput!) { createBroadcast(input: $input) { id } }',
      { title: 'x', recipients: [{ externalId: 'a' }], sendAt: '2100-01-01T00:00:00Z' },
    ],
    [
      'a broadcast with problems that a schema finds, and others',
      [
        'POST',
        '/broadcasts',
        { title: '', recipients: [{ topic: { subscribers: true } }], send_at: '2100-01-01T00:00:00Z' },
      ],
      'mutation ($input: BroadcastInput!) { createBroadcast(input: $input) { id } }',
      { title: '', recipients: [{ topic: { subscribers: true } }], sendAt: '2100-01-01T00:00:00Z' },
    ],
    [
      'an unknown broadcast to cancel',
      ['POST', `/broadcasts/${id}/cancel`],
      `mutation { cancelBroadcast(id: "${id}") { id } }`,
      {},
    ],
    [
      'an unknown broadcast to replay',
      ['POST', `/broadcasts/${id}/deliveries/replay`, {}],
      `mutation { replayBroadcastDeliveries(id: "${id}", input: {}) }`,
      {},
    ],
    [
      'a replay of skipped deliveries without users',
      ['POST', `/broadcasts/${id}/deliveries/replay`, { state: 'skipped' }],
      `mutation { replayBroadcastDeliveries(id: "${id}", input: { state: SKIPPED }) }`,
      {},
    ],
    [
      'a user without an identity',
      ['PUT', '/users', { first_name: 'A' }],
      'mutation ($input: UserInput!) { saveUser(input: $input) { id } }',
      { firstName: 'A' },
    ],
    [
      'a user with a name that is too long',
      ['PUT', '/users', { external_id: 'a', first_name: 'x'.repeat(256) }],
      'mutation ($input: UserInput!) { saveUser(input: $input) { id } }',
      { externalId: 'a', firstName: 'x'.repeat(256) },
    ],
    ['an unknown user', ['DELETE', `/users/${id}`], `mutation { deleteUser(id: "${id}") }`, {}],
    [
      'a category with a wrong condition',
      ['PUT', '/channels', { key: 'promos', channels: [{ channel: 'email', if: 'user.' }] }],
      'mutation ($input: CategoryDeliveryConfigInput!) { saveCategory(input: $input) { key } }',
      { key: 'promos', channels: [{ channel: 'EMAIL', if: 'user.' }] },
    ],
    [
      'a category with a wrong condition and a wrong delay',
      ['PUT', '/channels', { key: 'promos', channels: [{ channel: 'email', if: 'user.', delay: -1 }] }],
      'mutation ($input: CategoryDeliveryConfigInput!) { saveCategory(input: $input) { key } }',
      { key: 'promos', channels: [{ channel: 'EMAIL', if: 'user.', delay: -1 }] },
    ],
    [
      'an unknown category',
      ['DELETE', '/channels/unknown'],
      'mutation { deleteCategory(key: "unknown") }',
      {},
    ],
  ];
  const user: Case[] = [
    [
      'an unknown notification',
      ['POST', `/notifications/${id}/read`],
      `mutation { readNotification(id: "${id}") { id } }`,
      {},
    ],
    [
      'a subscription to a topic with a wrong name',
      ['POST', '/subscriptions', { topic: 'a b' }],
      'mutation ($input: SubscriptionInput!) { saveSubscription(input: $input) { topic } }',
      { topic: 'a b' },
    ],
    [
      'a subscription with a wrong name and a repeated category',
      ['POST', '/subscriptions', { topic: 'a b', categories: [{ slug: 'x' }, { slug: 'x' }] }],
      'mutation ($input: SubscriptionInput!) { saveSubscription(input: $input) { topic } }',
      { topic: 'a b', categories: [{ slug: 'x' }, { slug: 'x' }] },
    ],
    [
      'a preference with a wrong key and a contradiction',
      [
        'PUT',
        '/channels/user_preferences',
        {
          categories: [
            {
              key: '',
              channels: [
                { name: 'email', enabled: true },
                { name: 'email', enabled: false },
              ],
            },
          ],
        },
      ],
      'mutation ($input: UserPreferencesInput!) { savePreferences(input: $input) { key } }',
      {
        categories: [
          {
            key: '',
            channels: [
              { name: 'EMAIL', enabled: true },
              { name: 'EMAIL', enabled: false },
            ],
          },
        ],
      },
    ],
    [
      'an unknown subscription',
      ['DELETE', '/subscriptions/unknown'],
      'mutation { deleteSubscription(topic: "unknown") { topic } }',
      {},
    ],
    [
      'a token at a private host',
      ['PUT', '/channels/teams/tokens', { webhook: { url: 'http://10.0.0.1/x' } }],
      'mutation ($input: TeamsTokenInput!) { saveTeamsToken(input: $input) { __typename } }',
      { webhook: { url: 'http://10.0.0.1/x' } },
    ],
  ];

  const cases: [string, 'project' | 'user', Case][] = [
    ...project.map((one) => [one[0], 'project', one] as [string, 'project', Case]),
    ...user.map((one) => [one[0], 'user', one] as [string, 'user', Case]),
  ];
  test.each(cases)('%s', async (_name, kind, [, [method, path, body], query, input]) => {
    const token = kind === 'project' ? service.project.jwt : userJwt();
    const rest = await service.request(method, `/v2${path}`, { token, body });
    const sent = await service.request('POST', '/graphql', { token, body: { query, variables: { input } } });
    const { errors } = sent.body;
    const problems = errors.flatMap(
      ({ message, extensions: { code, problems: all = [{ code, message }] } }: Result) => all,
    );
    expect(rest.codes.length).toBeGreaterThan(0);
    expect(problems.map(({ code }: Result) => code)).toEqual(rest.codes);
    const camel = (text: string) => text.replace(/_(.)/g, (_all, letter) => letter.toUpperCase());
    expect(problems.map(({ message }: Result) => message)).toEqual(
      rest.messages.map((text) =>
        text.replace(/^Param '([^']*)'/, (_all, param) =>
          param === '(root)' ? "Param 'input'" : `Param 'input.${camel(param)}'`,
        ),
      ),
    );
  });
});

// biome-ignore lint/suspicious/noExplicitAny: a test reads what it expects, and fails if it is missing
type Result = any;

describe('an Idempotency-Key', () => {
  test('makes a mutation run once', async () => {
    const { jwt: token, call } = service.project;
    const query = 'mutation ($input: BroadcastInput!) { createBroadcast(input: $input) { id } }';
    const send = (title: string) =>
      service.request('POST', '/graphql', {
        token,
        headers: { 'idempotency-key': 'once' },
        body: { query, variables: { input: { title, recipients: [{ externalId: 'once' }] } } },
      });
    const [first, second] = [await send('Once'), await send('Once')];
    expect(second.body).toEqual(first.body);
    expect([first, second].map(({ headers }) => headers.get('idempotency-replayed'))).toEqual([null, 'true']);
    expect((await call('GET', '/broadcasts')).body.data).toHaveLength(1);
    const other = await send('Another');
    expect(refusal(other)[0]).toBe(409);
    expect(refusal(other)[1]?.[0]).toBe('idempotency_conflict');
  });

  test('may be used for a corrected request', async () => {
    const headers = { 'idempotency-key': 'corrected' };
    expect(refusal(await post('mutation { unknown }', {}, headers))[1]?.[0]).toBe('validation_failed');
    const corrected = await post('mutation { readAllNotifications }', {}, headers);
    expect(corrected.body).toEqual({ data: { readAllNotifications: true } });
  });

  test.each([
    ['a variable of the wrong type', { input: 5 }],
    ['a member that is not valid', { input: { externalId: 'corrected', email: 'x' } }],
    ['no identity', { input: { firstName: 'Ada' } }],
  ])('may be used for a request that is corrected after %s', async (name, variables) => {
    const query = 'mutation ($input: UserInput!) { saveUser(input: $input) { externalId } }';
    const send = (given: object) =>
      service.request('POST', '/graphql', {
        token: service.project.jwt,
        headers: { 'idempotency-key': name.replaceAll(' ', '-') },
        body: { query, variables: given },
      });
    expect(refusal(await send(variables))[1]?.[0]).toBe('validation_failed');
    const { body } = await send({ input: { externalId: 'corrected' } });
    expect(body).toEqual({ data: { saveUser: { externalId: 'corrected' } } });
  });

  test('keeps a response of which only one field was refused', async () => {
    const query = 'mutation { readAllNotifications snoozeNotification(id: "x", until: null) { id } }';
    const headers = { 'idempotency-key': 'one-refused' };
    const [first, second] = [await post(query, {}, headers), await post(query, {}, headers)];
    expect(refusal(first)[1]?.[0]).toBe('validation_failed');
    expect(second.body).toEqual(first.body);
    expect(second.headers.get('idempotency-replayed')).toBe('true');
  });
});

describe('limits', () => {
  const message = async (query: string, variables: object = {}) =>
    refusal(await post(query, { variables }))[1]?.[1];
  const nested = (levels: number) => `{ ${'a { '.repeat(levels)} b ${'} '.repeat(levels)} }`;

  test('a query for 100,000 nested nodes is refused before it runs', async () => {
    const { jwt: token } = service.project;
    const query =
      '{ broadcasts(first: 100) { nodes { deliveries(first: 100) { nodes { id state userId } } } } }';
    const before = service.http.context.db.stats();
    const response = await service.request('POST', '/graphql', { token, body: { query } });
    expect(refusal(response)).toEqual([
      200,
      [
        'validation_failed',
        'The query can return 40,201 values, and at most 10,000 are allowed: select fewer fields, or ' +
          "smaller pages with 'first'",
      ],
    ]);
    expect(service.http.context.db.stats()).toEqual(before);
  });

  test('sizes of pages in variables count, and those that are left out count as 50', async () => {
    const inner = 'nodes { id state userId channel code reason }';
    const query = `query ($first: Int = 100) {
      broadcasts(first: $first) { nodes { deliveries { ${inner} } } }
    }`;
    expect(await message(query)).toMatch(/^The query can return 35,201 values/);
    expect(await message(query, { first: 60 })).toMatch(/^The query can return 21,121 values/);
    expect(await message(query, { first: 20 })).toMatch(/^This field needs/);
    expect(await message(query, { first: 'all' })).toMatch(/^The query can return 35,201 values/);
    expect(await message(query, { first: -1 })).toMatch(/^This field needs/);
  });

  test('searches for deliveries in many broadcasts are refused', async () => {
    const query = (selection: string) =>
      `{ broadcasts { nodes { deliveries(state: FAILED) { ${selection} } } } }`;
    expect(await message(query('nodes { id }'))).toMatch(/^The query can return 105,101 values/);
    expect(await message(query('totalCount ... on DeliveryConnection { nodes { id } }'))).toMatch(
      /107,601 values/,
    );
    expect(await message(query('totalCount'))).toMatch(/^This field needs/);
  });

  test('a page of a size below 1 does not make others cheaper', async () => {
    const nested = 'broadcasts(first: 100) { nodes { deliveries(first: 100) { nodes { id } } } }';
    const wrong = (first: string) => `notifications(first: ${first}) { nodes { id title } }`;
    const expected = /^The query can return 20,20\d values/;
    expect(await message(`{ ${wrong('-1000000')} ${nested} }`)).toMatch(expected);
    const query = `query ($first: Int) { ${wrong('$first')} ${nested} }`;
    expect(await message(query, { first: -1_000_000 })).toMatch(expected);
  });

  test('null in a variable is the default size of a page, not the default of the variable', async () => {
    const query = `query ($first: Int = 1) {
      broadcasts(first: $first) { nodes { deliveries(first: 100) { nodes { id state } } } }
    }`;
    expect(await message(query)).toMatch(/^This field needs/);
    expect(await message(query, { first: null })).toMatch(/^The query can return 15,101 values/);
  });

  test('lists that are no pages count', async () => {
    const query =
      '{ broadcasts { nodes { recipients { externalId email } status { errors { message } } } } }';
    expect(await message(query)).toMatch(/^The query can return 15,201 values/);
  });

  test('aliases in fragments count where they are used', async () => {
    const aliases = Array.from({ length: 16 }, (_, n) => `a${n}: id`).join(' ');
    const page = 'notifications(first: 1) { nodes { ...A } }';
    const query = `{ ${page} b: ${page} } fragment A on Notification { ${aliases} }`;
    expect(await message(query)).toBe('The query has too many aliases: at most 30');
    const inline = `{ ${page.replace('...A', `... on Notification { ${aliases} }`)} }`;
    expect((await post(inline)).body.errors).toBeUndefined();
  });

  test('fragments count where they are used', async () => {
    const query = `{ broadcasts { nodes { ...A } } }
      fragment A on Broadcast { a: deliveries { ...B } b: deliveries { ...B } }
      fragment B on DeliveryConnection { nodes { id state userId channel } edges { cursor } }`;
    expect(await message(query)).toMatch(/^The query can return 35,151 values/);
  });

  test.each([
    ['levels', nested(16), 'The query is nested too deeply: at most 16 levels'],
    [
      'aliases',
      `{ ${Array.from({ length: 31 }, (_, n) => `a${n}: unreadCount`).join(' ')} }`,
      'The query has too many aliases: at most 30',
    ],
    [
      'tokens',
      `{ ${'unreadCount '.repeat(1_500)} }`,
      'Syntax Error: Document contains more that 1500 tokens. Parsing aborted.',
    ],
    [
      'characters',
      `{ unreadCount } # ${'x'.repeat(32 * 1024)}`,
      'The query is too long: at most 32,768 characters',
    ],
    [
      'circular fragments',
      '{ ...A } fragment A on Query { ...B } fragment B on Query { ...A }',
      'Cannot spread fragment "A" within itself via "B".',
    ],
  ])('too many %s', async (_name, query, expected) => {
    expect(await message(query)).toBe(expected);
  });

  test.each([
    ['repeated', '{ __schema { a: types { ...T } b: types { ...T } c: types { ...T } } }'],
    ['nested', '{ __schema { types { fields { type { fields { args { type { ...T } } } } } } } }'],
  ])('introspection that is %s is refused', async (_name, query) => {
    const leaves = 'kind name description specifiedByURL isOneOf';
    const nestedTypes = Array.from<string>({ length: 4 }).reduce(
      (inner) => `${leaves} ofType { ${inner} }`,
      leaves,
    );
    const fragment = `fragment T on __Type { fields { name args { type { ${nestedTypes} } } } }`;
    expect(await message(`${query} ${fragment}`)).toMatch(/^The query can return /);
  });

  test('the introspection of GraphiQL is within them', async () => {
    const { getIntrospectionQuery } = await import('graphql');
    const { body } = await post(getIntrospectionQuery({ inputValueDeprecation: true, oneOf: true }));
    expect(body.errors).toBeUndefined();
    expect(body.data.__schema.queryType.name).toBe('Query');
  });

  test('a query that was sent often returns the same', async () => {
    const query = 'query ($first: Int) { notifications(first: $first) { nodes { id } totalCount } }';
    const texts = new Set<string>();
    for (let sent = 0; sent < 6; sent += 1) texts.add((await post(query, { variables: { first: 2 } })).text);
    expect(texts.size).toBe(1);
    const wrong = new Set<string>();
    for (let sent = 0; sent < 6; sent += 1)
      wrong.add((await post(query, { variables: { first: 101 } })).text);
    expect(wrong.size).toBe(1);
  });
});

test('a response has the headers of v1', async () => {
  const { headers } = await post('{ unreadCount }');
  expect(headers.get('deprecation')).toMatch(/^@\d+$/);
  expect(headers.get('link')).toContain('rel="deprecation"');
  expect((await service.request('PUT', '/graphql')).headers.get('allow')).toBe('GET, HEAD, POST, OPTIONS');
});

test('browsers of every origin may call it', async () => {
  const preflight = await fetch(`${service.address}/graphql`, {
    method: 'OPTIONS',
    headers: { origin: 'https://shop.example', 'access-control-request-method': 'POST' },
  });
  expect(preflight.status).toBe(204);
  expect(preflight.headers.get('access-control-allow-origin')).toBe('*');
});
