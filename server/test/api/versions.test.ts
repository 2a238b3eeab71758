import { Type } from 'typebox';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { ClientError } from '../../src/errors.ts';
import type { Api } from '../../src/http/api.ts';
import { type App, projectRoute, userRoute } from '../../src/http/route.ts';
import { startTestService, type TestService } from '../support/service.ts';

const EXPIRES = { expiresAtMs: Number.POSITIVE_INFINITY };

/** A second version of the API, which shares only the server with v2. */
function otherApi(app: App): Api {
  return {
    version: 'v1',
    prefix: '/other',
    headers: { 'x-other': 'yes' },
    async authenticate({ 'x-key': apiKey }) {
      const project = await app.context.projects.byApiKey(String(apiKey));
      if (project === undefined) throw new ClientError('invalid_jwt_format', ['The header x-key is wrong']);
      const credential = { ...EXPIRES, key: project.apiSecrets[0] };
      return { kind: 'project', project, tokenId: `key ${project.id}`, credential };
    },
    credentials: {
      project: { security: [{ ProjectJWT: [] }], name: 'the key of a project' },
      user: { security: [{ UserJWT: [] }], name: 'the key of a user' },
    },
    errorBody: ({ code, problems }) => ({ error: code, text: problems.map(({ message }) => message).join() }),
    limits: {
      requests: { reads: 3, writes: 0 },
      bodies: {
        project: { bytes: 100, keysAndValues: 10 },
        user: { bytes: 100, keysAndValues: 10 },
        anyone: { bytes: 100, keysAndValues: 10 },
      },
    },
  };
}

const operation = {
  hidden: true,
  description: 'For tests.',
  summary: 'For tests',
  tags: ['Tests'] as [string],
};
const Body = Type.Object({ text: Type.String() }, { additionalProperties: false });

function versionRoutes(app: App): void {
  const other = { ...app, api: otherApi(app) };
  for (const version of [app, other]) {
    const reply = { 200: Type.Object({ project: Type.String() }) };
    const name = version === app ? 'v2' : 'other';
    projectRoute(version, {
      ...operation,
      method: 'GET',
      url: '/versions',
      operationId: `${name}Read`,
      reply,
      handler: async ({ project }) => ({ project: project.id }),
    });
    projectRoute(version, {
      ...operation,
      method: 'PUT',
      url: '/versions',
      operationId: `${name}Write`,
      body: Body,
      reply,
      handler: async ({ project }) => ({ project: project.id }),
    });
    userRoute(version, {
      ...operation,
      method: 'PUT',
      url: '/versions/user',
      operationId: `${name}User`,
      reply,
      handler: async ({ project }) => ({ project: project.id }),
    });
  }
}

let it: TestService;
beforeAll(async () => {
  it = await startTestService({ http: { routes: versionRoutes } });
});
afterAll(() => it.stop());

const v2 = (method: string, body?: unknown) =>
  it.request(method, '/v2/versions', { token: it.project.jwt, ...(body === undefined ? {} : { body }) });
const other = (method: string, body?: unknown, path = '/other/versions') =>
  it.request(method, path, {
    headers: { 'x-key': it.project.apiKey },
    ...(body === undefined ? {} : { body }),
  });

test('each version of the API has its own paths and credentials', async () => {
  const project = { project: it.project.id };
  expect((await v2('PUT', { text: 'x' })).body).toEqual(project);
  expect((await other('PUT', { text: 'x' })).body).toEqual(project);
  expect((await it.request('GET', '/other/versions', { token: it.project.jwt })).status).toBe(401);
  expect((await it.request('GET', '/v2/versions', { headers: { 'x-key': it.project.apiKey } })).status).toBe(
    401,
  );
});

test('each version of the API has its own shape of errors', async () => {
  const unknown = await it.request('GET', '/other/versions');
  expect([unknown.status, unknown.body]).toEqual([
    401,
    { error: 'invalid_jwt_format', text: 'The header x-key is wrong' },
  ]);
  expect((await other('PUT', { text: 5 })).body).toEqual({
    error: 'validation_failed',
    text: "Param 'text' must be a string",
  });
  expect((await v2('PUT', { text: 5 })).body).toEqual({
    errors: [
      expect.objectContaining({ code: 'validation_failed', message: "Param 'text' must be a string" }),
    ],
  });
  expect((await other('PUT', {}, '/other/versions/user')).body).toEqual({
    error: 'forbidden',
    text: 'This operation needs the key of a user; the request has the key of a project',
  });
});

test('each version of the API has its own headers, also on errors', async () => {
  const responses = [
    await other('PUT', { text: 'x' }),
    await it.request('GET', '/other/versions'),
    await other('DELETE'),
  ];
  expect(responses.map(({ status, headers }) => [status, headers.get('x-other')])).toEqual([
    [200, 'yes'],
    [401, 'yes'],
    [405, 'yes'],
  ]);
  expect((await v2('GET')).headers.has('x-other')).toBe(false);
});

test('each version of the API has its own limits', async () => {
  const long = { text: 'x'.repeat(200) };
  expect((await v2('PUT', long)).status).toBe(200);
  expect((await other('PUT', long)).body).toMatchObject({ error: 'payload_too_large' });
  const reads = [];
  for (let count = 0; count < 4; count += 1) reads.push((await other('GET')).status);
  expect(reads).toEqual([200, 200, 200, 429]);
  expect((await v2('GET')).status).toBe(200);
});
