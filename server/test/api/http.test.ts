import { once } from 'node:events';
import { type IncomingMessage, request } from 'node:http';
import { connect } from 'node:net';
import { text } from 'node:stream/consumers';
import { gzipSync } from 'node:zlib';
import { Type } from 'typebox';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { FreeObject, Id, NoContent, nullable, oneOf, storedString } from '../../src/contract/common.ts';
import { problemsIn, validatorFor } from '../../src/contract/validation.ts';
import { ClientError } from '../../src/errors.ts';
import { type App, projectRoute, publicRoute, userRoute } from '../../src/http/route.ts';
import { rawExchange } from '../support/raw-exchange.ts';
import { startTestService, type TestService } from '../support/service.ts';

const Thing = Type.Object(
  {
    title: Type.String({ minLength: 1, maxLength: 5 }),
    note: Type.Optional(storedString({ maxLength: 2_000_000 })),
    color: Type.Optional(oneOf(['red', 'blue'])),
    amount: Type.Optional(nullable(Type.Integer({ minimum: 1 }))),
    mail: Type.Optional(Type.String({ format: 'email' })),
    link: Type.Optional(Type.String({ format: 'uri' })),
    free: Type.Optional(nullable(FreeObject)),
    people: Type.Optional(
      Type.Array(
        Type.Object(
          { id: Type.Optional(Type.String()), email: Type.Optional(Type.String()) },
          {
            additionalProperties: false,
            anyOf: [{ required: ['id'] }, { required: ['email'] }],
          },
        ),
        { minItems: 1, maxItems: 1000 },
      ),
    ),
    target: Type.Optional(
      Type.Union([
        Type.Object({ a: Type.String() }, { additionalProperties: false }),
        Type.String({ minLength: 3 }),
      ]),
    ),
  },
  { additionalProperties: false },
);

/** Routes like those of a resource. */
function testRoutes(app: App): void {
  const tags: [string] = ['Test'];
  projectRoute(app, {
    method: 'POST',
    url: '/things',
    operationId: 'createThing',
    summary: 'Echo',
    description: 'For this test.',
    tags,
    body: Thing,
    bodyLimit: 4 * 1024 * 1024,
    refuseUnknown: true,
    unwrap: 'thing',
    query: Type.Object({ known: Type.Optional(Type.String()) }),
    reply: { 201: Thing },
    handler: async ({ body }) => body,
  });
  projectRoute(app, {
    method: 'GET',
    url: '/things/:id',
    operationId: 'getThing',
    summary: 'Echo',
    description: 'For this test.',
    tags,
    params: Type.Object({ id: Id }),
    query: Type.Object({ size: Type.Optional(Type.Integer({ minimum: 1 })) }),
    reply: { 200: Type.Object({ id: Id, size: Type.Optional(Type.Integer()) }) },
    handler: async ({ params, query: { size } }) => ({ ...params, ...(size === undefined ? {} : { size }) }),
  });
  projectRoute(app, {
    method: 'DELETE',
    url: '/things/:id',
    operationId: 'deleteThing',
    summary: 'Fail on demand',
    description: 'For this test.',
    tags,
    params: Type.Object({ id: Type.String() }),
    reply: { 204: NoContent },
    async handler({ params }) {
      if (params.id === 'bug') throw new Error('the password is hunter2');
      if (params.id === 'down') throw Object.assign(new Error('gone'), { code: '57P01' });
      if (params.id === 'nul') throw Object.assign(new Error('bad byte'), { code: '22021' });
      if (params.id === 'missing') throw new ClientError('not_found');
    },
  });
  userRoute(app, {
    method: 'PUT',
    url: '/<brand>_me',
    operationId: 'me',
    summary: 'Who am I',
    description: 'For this test.',
    tags,
    reply: { 200: Type.Object({ user: Id, project: Id, client: nullable(Type.String()) }) },
    handler: async ({ user, project, clientId }) => ({
      user: user.id,
      project: project.id,
      client: clientId ?? null,
    }),
  });
  publicRoute(app, {
    method: 'GET',
    url: '/lies',
    operationId: 'lies',
    summary: 'Breaks its own schema',
    description: 'For this test.',
    tags,
    reply: { 200: Type.Object({ a: Type.Integer() }) },
    handler: async () => JSON.parse('{"a":"text"}') as { a: number },
  });
}

let it: TestService;
beforeAll(async () => {
  it = await startTestService({ http: { routes: testRoutes }, settings: { BRAND: 'acme' } });
});
afterAll(() => it.stop());

const things = (body: unknown, headers?: Record<string, string>) =>
  it.request('POST', '/v2/things', { token: it.project.jwt, body, ...(headers ? { headers } : {}) });

describe('a body', () => {
  test('that is valid is passed to the route, in either form', async () => {
    expect((await things({ title: 'a' })).body).toEqual({ title: 'a' });
    expect((await things({ thing: { title: 'a' } })).body).toEqual({ title: 'a' });
  });

  test('gets all its errors at once, each with its field', async () => {
    const wrong = {
      note: 3,
      color: 'green',
      amount: 'x',
      mail: 'no',
      link: '/x',
      people: [{}, { id: 1, x: 1 }],
      extra: 1,
      free: [],
    };
    const response = await things(wrong);
    expect(response.status).toBe(422);
    expect(new Set(response.codes)).toEqual(new Set(['validation_failed']));
    expect(response.messages.sort()).toEqual([
      "Param '(root)' doesn't allow key: extra",
      "Param 'amount' must be an integer or null",
      "Param 'color' must be one of: red, blue",
      "Param 'free' must be an object or null",
      "Param 'link' must be an absolute URI",
      "Param 'mail' must be an e-mail address",
      "Param 'note' must be a string",
      "Param 'people.0' must have id or email",
      "Param 'people.1' doesn't allow key: x",
      "Param 'people.1.id' must be a string",
      "Param 'title' is missing",
    ]);
  });

  test('is validated by the branch of a union that it matches best', async () => {
    expect((await things({ title: 'a', target: 'ab' })).messages).toEqual([
      "Param 'target' must have at least 3 characters",
    ]);
    expect((await things({ title: 'a', target: { b: 1 } })).messages.sort()).toEqual([
      "Param 'target' doesn't allow key: b",
      "Param 'target.a' is missing",
    ]);
    expect((await things({ title: 'a', target: 3 })).messages).toEqual([
      "Param 'target' must be an object or a string",
    ]);
  });

  test('with a thousand errors gets a hundred of them', async () => {
    const response = await things({
      title: 'a',
      people: Array.from({ length: 1000 }, () => ({ id: 5, x: 1 })),
    });
    expect(response.messages).toHaveLength(101);
    expect(response.messages.at(-1)).toBe('… and 1900 more problems');
    expect(
      (await things({ title: 'a', people: Array.from({ length: 1001 }, () => ({ id: 'x' })) })).messages,
    ).toEqual(["Param 'people' must have at most 1000 items"]);
  });

  test('is measured in characters, not in bytes or UTF-16 units', async () => {
    expect((await things({ title: '😀😀😀😀😀' })).status).toBe(201);
    expect((await things({ title: '😀😀😀😀😀😀' })).messages).toEqual([
      "Param 'title' must have at most 5 characters",
    ]);
  });

  test('is measured the same whatever its length', () => {
    for (const [text, characters] of [
      ['', 0],
      ['a', 1],
      ['😀', 1],
      ['a😀b', 3],
      ['\ud83d', 1],
      ['\ude00\ud83d', 2],
      ['😀'.repeat(7), 7],
    ] as const) {
      for (let limit = 0; limit < 10; limit += 1) {
        expect(validatorFor('body', { type: 'string', maxLength: limit })(text), `${text} max ${limit}`).toBe(
          characters <= limit,
        );
        expect(validatorFor('body', { type: 'string', minLength: limit })(text), `${text} min ${limit}`).toBe(
          characters >= limit,
        );
      }
    }
  });

  test('that is not a JSON object is refused', async () => {
    for (const raw of [
      '{',
      '{"title":"a",}',
      '',
      'nul',
      '{"title":"\\uZZZZ"}',
      Buffer.from([0x7b, 0x22, 0xff, 0x22, 0x7d]),
    ]) {
      const response = await it.request('POST', '/v2/things', { token: it.project.jwt, raw });
      expect([response.status, response.codes[0]], String(raw)).toEqual(
        raw === '' ? [422, 'validation_failed'] : [400, 'invalid_json'],
      );
    }
    for (const body of [[], 'x', 3, null]) {
      expect((await things(body)).messages).toEqual(["Param '(root)' must be an object"]);
    }
  });

  test('may begin with a byte order mark', async () => {
    const raw = Buffer.from('\ufeff{"title":"a"}');
    const response = await it.request('POST', '/v2/things', { token: it.project.jwt, raw });
    expect([response.status, response.body]).toEqual([201, { title: 'a' }]);
    // Only one, and only at the beginning: elsewhere it is not JSON.
    for (const wrong of ['\ufeff\ufeff{"title":"a"}', '{"title":\ufeff"a"}']) {
      const refused = await it.request('POST', '/v2/things', {
        token: it.project.jwt,
        raw: Buffer.from(wrong),
      });
      expect([refused.status, refused.codes]).toEqual([400, ['invalid_json']]);
    }
  });

  test('may have members with the names of prototypes, which are plain data', async () => {
    const raw =
      '{"title":"a","free":{"__proto__":{"polluted":1},' +
      '"constructor":{"prototype":{"polluted":2}},"toString":null}}';
    const response = await it.request('POST', '/v2/things', { token: it.project.jwt, raw });
    expect([response.status, response.text]).toEqual([201, raw]);
    expect(({} as Record<string, unknown>).polluted).toBe(undefined);
    const outside = await it.request('POST', '/v2/things', {
      token: it.project.jwt,
      raw: '{"__proto__":{"title":"a"}}',
    });
    expect(outside.messages.sort()).toEqual([
      "Param '(root)' doesn't allow key: __proto__",
      "Param 'title' is missing",
    ]);
  });

  test('with characters that cannot be stored is refused by field; others are unchanged', async () => {
    const refused = "Param 'note' must not contain the character U+0000 or half of a surrogate pair";
    expect((await things({ title: 'a', note: 'x\0' })).messages).toEqual([refused]);
    expect(
      (
        await it.request('POST', '/v2/things', {
          token: it.project.jwt,
          raw: '{"title":"a","note":"\\ud800"}',
        })
      ).messages,
    ).toEqual([refused]);
    const note = 'é 😀 שלום مرحبا \u202e \u0001 \ufeff';
    expect((await things({ title: 'a', note })).body).toEqual({ title: 'a', note });
  });

  test('that is nested too deeply is a validation error', async () => {
    const deep = `{"title":"a","free":{"x":${'['.repeat(200_000)}${']'.repeat(200_000)}}}`;
    const response = await it.request('POST', '/v2/things', { token: it.project.jwt, raw: deep });
    expect([response.status, response.messages]).toEqual([
      422,
      ['The request is nested too deeply: at most 100 levels'],
    ]);
  });

  test('over the limit of its route is 413, with or without Content-Length', async () => {
    const big = JSON.stringify({ title: 'a', note: 'x'.repeat(4 * 1024 * 1024) });
    const response = await it.request('POST', '/v2/things', { token: it.project.jwt, raw: big });
    expect([response.status, response.codes]).toEqual([413, ['payload_too_large']]);
    const chunk = `100000\r\n${'x'.repeat(0x100000)}\r\n`;
    const head =
      'POST /v2/things HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Type: application/json\r\n' +
      `Authorization: Bearer ${it.project.jwt}\r\nTransfer-Encoding: chunked\r\n\r\n`;
    expect(await rawExchange(it.address, `${head}${chunk.repeat(6)}0\r\n\r\n`)).toContain(
      '413 Payload Too Large',
    );
    const fits = await it.request('POST', '/v2/things', {
      token: it.project.jwt,
      body: { title: 'a', note: 'x'.repeat(1_999_999) },
    });
    expect(fits.status).toBe(201);
  });

  test('of another type or encoding is 415', async () => {
    for (const headers of [
      { 'content-type': 'text/plain' },
      { 'content-type': 'application/x-www-form-urlencoded' },
      { 'content-type': 'application/xml' },
    ]) {
      const response = await it.request('POST', '/v2/things', {
        token: it.project.jwt,
        raw: '{"title":"a"}',
        headers,
      });
      expect([response.status, response.codes]).toEqual([415, ['unsupported_media_type']]);
    }
    const raw = gzipSync('{"title":"a"}');
    const packed = await it.request('POST', '/v2/things', {
      token: it.project.jwt,
      raw,
      headers: { 'content-encoding': 'gzip' },
    });
    expect([packed.status, packed.codes]).toEqual([415, ['unsupported_media_type']]);
    const charset = { 'content-type': 'application/json; charset=utf-8' };
    expect(
      (
        await it.request('POST', '/v2/things', {
          token: it.project.jwt,
          raw: '{"title":"a"}',
          headers: charset,
        })
      ).status,
    ).toBe(201);
  });

  test('that is empty may have any content type', async () => {
    const id = '0197a3c4-5b6e-7f01-8a2b-3c4d5e6f7081';
    for (const type of ['application/x-www-form-urlencoded', 'text/plain', 'application/json']) {
      const head =
        `Host: x\r\nAuthorization: Bearer ${it.project.jwt}\r\n` +
        `Content-Type: ${type}\r\nConnection: close\r\n`;
      for (const length of ['', 'Content-Length: 0\r\n']) {
        const response = await rawExchange(
          it.address,
          `DELETE /v2/things/${id} HTTP/1.1\r\n${head}${length}\r\n`,
        );
        expect(response).toMatch(/^HTTP\/1.1 204/);
      }
      const create = await rawExchange(
        it.address,
        `POST /v2/things HTTP/1.1\r\n${head}Content-Length: 0\r\n\r\n`,
      );
      expect(create).toMatch(/^HTTP\/1.1 422/);
    }
  });

  test('is not read from a caller without a token', async () => {
    const socket = connect(Number(new URL(it.address).port), '127.0.0.1');
    socket.write(
      'POST /v2/things HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n' +
        'Content-Length: 4000000\r\n\r\n{',
    );
    const [response] = (await once(socket, 'data')) as [Buffer];
    expect(response.toString()).toContain('401 Unauthorized');
    socket.destroy();
  });

  test('may be missing on GET and DELETE despite its content type, as v1 clients send', async () => {
    const headers = { 'content-type': 'application/json' };
    const id = '0197a3c4-5b6e-7f01-8a2b-3c4d5e6f7081';
    expect((await it.request('GET', `/v2/things/${id}`, { token: it.project.jwt, headers })).status).toBe(
      200,
    );
    expect((await it.request('DELETE', '/v2/things/x', { token: it.project.jwt, headers })).status).toBe(204);
  });
});

describe('a parameter', () => {
  test('that is unknown is refused by name, as are cookies and headers of the brand', async () => {
    const response = await it.request('POST', '/v2/things?known=1&foo=1&bar=2', {
      token: it.project.jwt,
      body: { title: 'a' },
      headers: {
        cookie: 'session=1; other=2',
        'x-acme-foo': '1',
        'x-service-bar': '1',
        'x-acme-api-key': 'k',
        'x-service-client-id': 'c',
        traceparent: 't',
        'x-forwarded-for': '1.1.1.1',
      },
    });
    expect(response.status).toBe(422);
    expect(response.messages).toEqual([
      "Query parameter 'foo' is not known",
      "Query parameter 'bar' is not known",
      "Cookie 'session' is not known",
      "Cookie 'other' is not known",
      "Header 'x-acme-foo' is not known",
      "Header 'x-service-bar' is not known",
    ]);
    const others = {
      accept: '*/*',
      traceparent: 't',
      'x-forwarded-for': '1.1.1.1',
      via: 'p',
      'x-acme-client-user-agent': 'u',
    };
    expect((await things({ title: 'a' }, others)).status).toBe(201);
  });

  test('that is unknown is refused together with the errors of the body', async () => {
    const response = await it.request('POST', '/v2/things?foo=1', {
      token: it.project.jwt,
      body: { title: '', extra: 1 },
      headers: { cookie: 'session=1' },
    });
    expect([response.status, response.messages]).toEqual([
      422,
      [
        "Query parameter 'foo' is not known",
        "Cookie 'session' is not known",
        "Param '(root)' doesn't allow key: extra",
        "Param 'title' must have at least 1 character",
      ],
    ]);
  });

  test('that is unknown is ignored by other routes', async () => {
    const path = '/v2/things/0197a3c4-5b6e-7f01-8a2b-3c4d5e6f7081?_=123&size=7';
    expect(
      (await it.request('GET', path, { token: it.project.jwt, headers: { cookie: 'a=1' } })).body,
    ).toEqual({
      id: '0197a3c4-5b6e-7f01-8a2b-3c4d5e6f7081',
      size: 7,
    });
  });

  test('that is wrong in the query is named', async () => {
    const path = '/v2/things/0197a3c4-5b6e-7f01-8a2b-3c4d5e6f7081';
    for (const [query, message] of [
      ['size=x', "Param 'size' must be an integer"],
      ['size=0', "Param 'size' must be 1 or more"],
      ['size=1&size=2', "Param 'size' must be an integer"],
      ...['1e1', '0x10', '%2010', '10%20', '+10', '1.0', '١٠', 'true', ''].map((size) => [
        `size=${size}`,
        "Param 'size' must be an integer",
      ]),
    ]) {
      const response = await it.request('GET', `${path}?${query}`, { token: it.project.jwt });
      expect([response.status, response.messages]).toEqual([422, [message]]);
    }
  });

  test('that is not a uuid in the path is 400', async () => {
    for (const id of [
      'x',
      '0197a3c4-5b6e-7f01-8a2b',
      '%00',
      'urn:uuid:0197a3c4-5b6e-7f01-8a2b-3c4d5e6f7081',
    ]) {
      const response = await it.request('GET', `/v2/things/${id}`, { token: it.project.jwt });
      expect([response.status, response.codes]).toEqual([400, ['invalid_id']]);
    }
  });
});

describe('a path', () => {
  test('that does not exist is 404, one with other methods is 405 with Allow', async () => {
    const missing = await it.request('GET', '/v2/nothing?token=secret');
    expect([missing.status, missing.codes, missing.text.includes('secret')]).toEqual([
      404,
      ['not_found'],
      false,
    ]);
    for (const type of ['application/json', 'text/plain']) {
      const wrong = { raw: '{', headers: { 'content-type': type } };
      expect((await it.request('POST', '/v2/nothing', wrong)).codes).toEqual(['not_found']);
    }
    const other = await it.request('PATCH', '/v2/things', { raw: '{' });
    expect([other.status, other.codes, other.headers.get('allow')]).toEqual([
      405,
      ['method_not_allowed'],
      'POST, OPTIONS',
    ]);
    expect((await it.request('POST', '/v2/things/x')).headers.get('allow')).toBe(
      'GET, HEAD, DELETE, OPTIONS',
    );
    expect((await it.request('PUT', '/v2/%74hings')).headers.get('allow')).toBe('POST, OPTIONS');
    const options = await it.request('OPTIONS', '/v2/things/x');
    expect([options.status, options.headers.get('allow')]).toEqual([204, 'GET, HEAD, DELETE, OPTIONS']);
  });

  test('with a method that no path has is 405 with Allow', async () => {
    const thing = '/v2/things/0197a3c4-5b6e-7f01-8a2b-3c4d5e6f7081';
    const statusOf = async (method: string, path: string) => {
      const response = await rawExchange(
        it.address,
        `${method} ${path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n`,
      );
      return [/^HTTP\/1.1 (\d+)/.exec(response)?.[1], /^allow: (.*)$/im.exec(response)?.[1]];
    };
    for (const method of ['TRACE', 'PROPFIND', 'PURGE']) {
      expect(await statusOf(method, '/v2/things')).toEqual(['405', 'POST, OPTIONS']);
      expect(await statusOf(method, `${thing}/?size=1`)).toEqual(['405', 'GET, HEAD, DELETE, OPTIONS']);
      expect(await statusOf(method, '/v2/nothing')).toEqual(['404', undefined]);
    }
  });

  test('may end with a slash, and HEAD is like GET', async () => {
    const path = '/v2/things/0197a3c4-5b6e-7f01-8a2b-3c4d5e6f7081';
    expect((await it.request('GET', `${path}/`, { token: it.project.jwt })).status).toBe(200);
    const head = await it.request('HEAD', path, { token: it.project.jwt });
    expect([head.status, head.text, Number(head.headers.get('content-length')) > 0]).toEqual([200, '', true]);
  });

  test('may be a whole URL', async () => {
    const { host } = new URL(it.address);
    const ask = async (path: string) => {
      const headers = { authorization: `Bearer ${it.project.jwt}` };
      const sent = request(it.address, { path, headers }).end();
      const [response] = (await once(sent, 'response')) as [IncomingMessage];
      return text(response);
    };
    const links = await ask('/v2/users?limit=1');
    expect(links).toContain(`"first":"http://${host}/v2/users?limit=1"`);
    for (const origin of [`http://${host}`, 'HTTPS://other.example:8443'])
      expect(await ask(`${origin}/v2/users?limit=1`)).toBe(links);
    expect(await ask(`http://${host}`)).toBe(await ask('/'));
  });

  test('that cannot be decoded is 400', async () => {
    const response = await it.request('GET', '/v2/things/%zz', { headers: { origin: 'https://a.example' } });
    expect([response.status, response.codes]).toEqual([400, ['bad_request']]);
    expect(response.headers.get('access-control-allow-origin')).toBe('*');
  });

  test('with the brand in it works in both spellings', async () => {
    const token = it.project.userJwt({ user_external_id: 'ann' });
    const [a, b] = await Promise.all(
      ['/v2/acme_me', '/v2/service_me'].map((path) =>
        it.request('PUT', path, { token, headers: { 'X-Service-Client-Id': 'c1' } }),
      ),
    );
    expect(a?.body).toEqual(b?.body);
    expect(a?.body).toMatchObject({ project: it.project.id, client: 'c1' });
  });
});

describe('an error below a route', () => {
  const failing = (id: string) => it.request('DELETE', `/v2/things/${id}`, { token: it.project.jwt });

  test('that is unexpected is 500 without details; the log has its stack and no secret', async () => {
    it.logged.length = 0;
    const response = await failing('bug');
    expect([response.status, response.messages]).toEqual([
      500,
      ['The server failed because of an internal error'],
    ]);
    const line = JSON.parse(it.logged.find((text) => text.includes('hunter2')) ?? '{}');
    expect(line).toMatchObject({
      level: 'error',
      status: 500,
      request_id: response.headers.get('x-request-id'),
      path: '/v2/things/bug',
    });
    expect(line.err.stack).toContain('http.test.ts');
    expect(it.logged.join('')).not.toContain(it.project.jwt);
  });

  test('that means the database is unavailable is 503 with Retry-After', async () => {
    const response = await failing('down');
    expect([response.status, response.codes, response.headers.get('retry-after')]).toEqual([
      503,
      ['service_unavailable'],
      '1',
    ]);
  });

  test('that means a character cannot be stored is 422; a ClientError has its own status', async () => {
    expect((await failing('nul')).status).toBe(422);
    expect((await failing('missing')).status).toBe(404);
  });

  test('of a response that breaks its schema is visible in tests', async () => {
    expect((await it.request('GET', '/v2/lies')).status).toBe(500);
  });
});

describe('request ids', () => {
  test('are those of the request if they are valid, else new ones', async () => {
    const given = async (id?: string) =>
      (
        await it.request('GET', '/v2/nothing', { headers: id === undefined ? {} : { 'x-request-id': id } })
      ).headers.get('x-request-id');
    expect(await given('abc-123')).toBe('abc-123');
    for (const id of [undefined, 'x'.repeat(129), 'a b', '<script>'])
      expect(await given(id)).toMatch(/^[0-9a-f-]{36}$/);
  });
});

describe('browsers of other origins', () => {
  test('get preflight responses without token or limit, with every header by name', async () => {
    const response = await it.request('OPTIONS', '/v2/things', {
      headers: {
        origin: 'https://shop.example',
        'access-control-request-method': 'POST',
        'access-control-request-headers': 'authorization',
      },
    });
    expect(response.status).toBe(204);
    expect(response.headers.get('access-control-allow-origin')).toBe('*');
    const allowed = response.headers.get('access-control-allow-headers')?.split(', ');
    for (const name of [
      'authorization',
      'content-type',
      'accept',
      'idempotency-key',
      'accept-version',
      'x-acme-api-key',
      'x-service-user-hmac',
    ]) {
      expect(allowed).toContain(name);
    }
    for (const method of ['GET', 'POST', 'PUT', 'PATCH', 'DELETE'])
      expect(response.headers.get('access-control-allow-methods')).toContain(method);
    expect(Number(response.headers.get('access-control-max-age'))).toBeGreaterThan(0);
  });

  test('may read every response, errors too, with the important headers', async () => {
    const headers = { origin: 'https://shop.example' };
    for (const [method, path] of [
      ['POST', '/v2/things'],
      ['GET', '/v2/nothing'],
      ['PATCH', '/v2/things'],
    ] as const) {
      const response = await it.request(method, path, { headers });
      expect(response.headers.get('access-control-allow-origin')).toBe('*');
      for (const name of ['RateLimit-Limit', 'Retry-After', 'Idempotency-Replayed', 'X-Request-Id']) {
        expect(response.headers.get('access-control-expose-headers')).toContain(name);
      }
    }
  });
});

describe('a connection', () => {
  test('that does not use HTTP gets an error and is closed', async () => {
    expect(await rawExchange(it.address, 'hello\r\n\r\n')).toMatch(
      /^HTTP\/1.1 400 Bad Request\r\n[\s\S]*"bad_request"/,
    );
  });

  test('with a head of 20 kB gets an error and is closed', async () => {
    expect(
      await rawExchange(it.address, `GET / HTTP/1.1\r\nHost: x\r\nX-A: ${'a'.repeat(20_000)}\r\n\r\n`),
    ).toMatch(/^HTTP\/1.1 431 /);
  });
});

describe('operations', () => {
  test('healthz and readyz need no token', async () => {
    expect((await it.request('GET', '/healthz')).body).toEqual({ status: 'ok' });
    expect((await it.request('GET', '/readyz')).body).toEqual({ status: 'ok' });
  });

  test('metrics cover the queue, the pool, the process and the requests by operation', async () => {
    await it.context.db.query(
      { name: 'job', text: "insert into jobs (kind, project_id, payload) values ('fan_out', $1, '{}')" },
      [it.project.id],
    );
    await things({ title: 'a' });
    const { text } = await it.request('GET', '/metrics');
    expect(text).toMatch(/^belfry_queue_jobs\{kind="fan_out",state="ready"\} 1$/m);
    expect(text).toMatch(/^belfry_queue_oldest_ready_seconds\{kind="fan_out"\} [0-9.]+$/m);
    expect(text).toMatch(
      /^belfry_http_request_duration_seconds_count\{operation="createThing",status="201"\} [1-9]/m,
    );
    for (const name of [
      'belfry_database_connections{state="idle"}',
      'nodejs_eventloop_lag_seconds',
      'process_resident_memory_bytes',
      'belfry_broadcasts_accepted_total',
    ]) {
      expect(text).toContain(name);
    }
  });
});

describe('the API description', () => {
  test('is OpenAPI 3.1 of the routes, with their errors', async () => {
    const { body } = await it.request('GET', '/v2/openapi.json');
    const document = body as {
      openapi: string;
      jsonSchemaDialect: string;
      servers: unknown;
      paths: Record<string, Record<string, { responses: object; security: unknown; parameters: object[] }>>;
    };
    expect([document.openapi, document.servers]).toEqual(['3.1.0', [{ url: '/v2' }]]);
    expect(document.jsonSchemaDialect).toBe('http://json-schema.org/draft-07/schema#');
    const create = document.paths['/things']?.post;
    expect(Object.keys(create?.responses ?? {})).toEqual([
      '201',
      '400',
      '401',
      '403',
      '409',
      '413',
      '415',
      '422',
      '429',
      '500',
      '503',
    ]);
    expect(create?.security).toEqual([{ ProjectJWT: [] }]);
    expect(create?.parameters).toContainEqual(
      expect.objectContaining({ in: 'header', name: 'Idempotency-Key' }),
    );
    expect(Object.keys(document.paths)).toContain('/acme_me');
    expect(Object.keys(document.paths)).not.toContain('/service_me');
    expect(Object.keys(document.paths['/things'] ?? {})).toEqual(['post']);
  });

  test('has examples that their schemas accept, and a 404 for a missing integration', async () => {
    const { text } = await it.request('GET', '/v2/openapi.json');
    const { paths, components } = JSON.parse(text.replaceAll('#/components/schemas/', '#/definitions/')) as {
      paths: Record<string, Record<string, { responses: Record<string, object> }>>;
      components: { schemas: Record<string, { required?: string[] }> };
    };
    const found: { schema: object; example: unknown }[] = [];
    const collect = (value: unknown): void => {
      if (typeof value !== 'object' || value === null) return;
      const { type, examples, schema, example } = value as Record<string, unknown>;
      if (typeof schema === 'object' && schema !== null && example !== undefined)
        found.push({ schema, example });
      if (type === 'object' && Array.isArray(examples))
        for (const example of examples) found.push({ schema: value, example });
      for (const member of Object.values(value)) collect(member);
    };
    collect(paths);
    collect(components);
    expect(found.length).toBeGreaterThan(50);
    // One schema for all of them, because each that is compiled compiles those that it refers to.
    const problems = problemsIn({
      definitions: components.schemas,
      type: 'array',
      items: found.map(({ schema }) => schema),
      minItems: found.length,
      additionalItems: false,
    })(found.map(({ example }) => example));
    expect(problems).toEqual([]);
    const { put, get, delete: remove } = paths['/integrations/smtp'] ?? {};
    expect([put, get, remove].map((operation) => '404' in (operation?.responses ?? {}))).toEqual([
      true,
      false,
      true,
    ]);
    expect(paths['/integrations/inbox']?.put?.responses['200']).toMatchObject({
      content: { 'application/json': { schema: { $ref: '#/definitions/InboxIntegrationConfig' } } },
    });
    expect(components.schemas.InboxIntegrationConfig?.required).toEqual(['images', 'locale', 'theme']);
  });

  test('is sent compressed to clients that accept it', async () => {
    const get = (encoding: string) =>
      fetch(`${it.address}/v2/openapi.json`, { headers: { 'accept-encoding': encoding } });
    const [plain, compressed] = await Promise.all([get('identity, gzip;q=0'), get('gzip')]);
    expect(plain.headers.get('content-encoding')).toBeNull();
    expect(compressed.headers.get('content-encoding')).toBe('gzip');
    expect(await compressed.text()).toBe(await plain.text());
    expect(plain.headers.get('vary')).toContain('accept-encoding');
  });
});

test('a slow request is cut off, its head sooner than its body', async () => {
  const other = await startTestService({
    http: { timeouts: { headMs: 150, requestMs: 1_000, checkEveryMs: 20 } },
  });
  const start = `POST /v2/broadcasts HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${other.project.jwt}\r\n`;
  const body = `${start}Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{`;
  const responses = await Promise.all([trickle(other.address, start), trickle(other.address, body)]);
  for (const { text } of responses) expect(text).toMatch(/^HTTP\/1.1 408 Request Timeout/);
  expect(responses[0]?.ms).toBeLessThan(responses[1]?.ms ?? 0);
  await other.stop();
});

/** Sends `text` and then nothing. Returns what the server sends until it closes, and when that is. */
async function trickle(base: string, text: string): Promise<{ text: string; ms: number }> {
  const started = performance.now();
  const socket = connect(Number(new URL(base).port), '127.0.0.1');
  socket.write(text);
  let response = '';
  socket.setEncoding('utf8').on('data', (chunk: string) => {
    response += chunk;
  });
  await once(socket, 'close');
  return { text: response, ms: performance.now() - started };
}

test('a server that stops completes open requests and closes idle connections', async () => {
  const entered = Promise.withResolvers<void>();
  const released = Promise.withResolvers<void>();
  const slow = (app: App) =>
    publicRoute(app, {
      method: 'GET',
      url: '/slow',
      operationId: 'slow',
      summary: 'Waits',
      description: 'For this test.',
      tags: ['Test'],
      reply: { 200: Type.Object({}) },
      async handler() {
        entered.resolve();
        await released.promise;
        return {};
      },
    });
  const other = await startTestService({ http: { routes: slow } });
  const port = Number(new URL(other.address).port);
  const idle = connect(port, '127.0.0.1');
  idle.write('GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n');
  const [response] = (await once(idle, 'data')) as [Buffer];
  expect(response.toString()).toContain('200 OK');
  const idleEnded = once(idle, 'close');
  const busy = connect(port, '127.0.0.1');
  busy.write('GET /v2/slow HTTP/1.1\r\nHost: x\r\n\r\n');
  await entered.promise;
  const closed = other.stop();
  await idleEnded;
  released.resolve();
  const [last] = (await once(busy, 'data')) as [Buffer];
  expect(last.toString()).toMatch(/^HTTP\/1.1 200 OK\r\n[\s\S]*connection: close\r\n/i);
  await closed;
});
