import { createHmac } from 'node:crypto';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { newId } from '../../src/lib/ids.ts';
import { describedBy, type Operation, pathOf } from '../support/operations.ts';
import { startTestService, type TestService } from '../support/service.ts';

// Every operation of v1 × every credential. The operations come from the description, so new ones are
// included.

let it: TestService;
let operations: Operation[];
let credentials: Record<string, Record<string, string>>;

beforeAll(async () => {
  it = await startTestService();
  operations = describedBy(it.http.fastify.swaggerV1() as unknown as Record<string, unknown>).operations;
  const { project } = it;
  const other = await it.createProject('other');
  const hmac = (secret: string) => createHmac('sha256', secret).update('ada').digest('base64');
  const key = { 'x-service-api-key': project.apiKey };
  const secret = { ...key, 'x-service-api-secret': project.apiSecret };
  const ada = { ...key, 'x-service-user-external-id': 'ada' };
  const bearer = (token: string) => ({ authorization: `Bearer ${token}` });
  credentials = {
    nothing: {},
    'the API secret alone': { 'x-service-api-secret': project.apiSecret },
    'an unknown API key': { ...secret, 'x-service-api-key': 'pk_unknown' },
    'the API key alone': key,
    "another project's API secret": { ...secret, 'x-service-api-secret': other.apiSecret },
    'a user without HMAC': ada,
    "a user with another project's HMAC": { ...ada, 'x-service-user-hmac': hmac(other.apiSecret) },
    'an invalid external id': { ...secret, 'x-service-user-external-id': 'x'.repeat(256) },
    'a malformed token': { authorization: 'Bearer' },
    'a forged token': bearer(other.userJwt({ user_external_id: 'ada', api_key: project.apiKey })),
    'the API secret': secret,
    'a user with HMAC': { ...ada, 'x-service-user-hmac': hmac(project.apiSecret) },
    'a user with the API secret': { ...ada, ...secret },
    'a User JWT': bearer(project.userJwt({ user_external_id: 'ada' })),
    'a Project JWT': bearer(project.jwt),
    'a user with a Project JWT': { ...bearer(project.jwt), 'x-service-user-external-id': 'ada' },
    'a user with a User JWT': {
      ...bearer(project.userJwt({ user_external_id: 'ada' })),
      'x-service-user-external-id': 'eve',
    },
  };
});
afterAll(() => it.stop());

type Expected = [status: number, code: string] | 'admitted';

/** What operations of a project and operations of a user respond. */
const EXPECTED: Record<string, { project: Expected; user: Expected }> = {
  nothing: both(401, 'api_key_not_provided'),
  'the API secret alone': both(401, 'api_key_not_provided'),
  'an unknown API key': both(401, 'incorrect_api_key'),
  'the API key alone': {
    project: [401, 'api_secret_not_provided'],
    user: [401, 'user_email_not_provided'],
  },
  "another project's API secret": both(401, 'api_secret_is_incorrect'),
  'a user without HMAC': {
    project: [401, 'api_secret_not_provided'],
    user: [401, 'neither_user_hmac_nor_api_secret_provided'],
  },
  "a user with another project's HMAC": {
    project: [401, 'api_secret_not_provided'],
    user: [401, 'hmac_not_a_match'],
  },
  'an invalid external id': { project: 'admitted', user: [401, 'user_email_not_provided'] },
  'a malformed token': both(401, 'invalid_jwt_format'),
  'a forged token': both(401, 'jwt_auth_failed'),
  'the API secret': { project: 'admitted', user: [401, 'user_email_not_provided'] },
  'a user with HMAC': { project: [401, 'api_secret_not_provided'], user: 'admitted' },
  'a user with the API secret': both('admitted'),
  'a User JWT': { project: [403, 'forbidden'], user: 'admitted' },
  'a Project JWT': { project: 'admitted', user: [403, 'forbidden'] },
  'a user with a Project JWT': both('admitted'),
  'a user with a User JWT': { project: [403, 'forbidden'], user: [401, 'api_key_not_provided'] },
};

function both(...expected: [number, string] | ['admitted']): { project: Expected; user: Expected } {
  const one = expected.length === 1 ? expected[0] : expected;
  return { project: one, user: one };
}

/** Sends a request with unknown ids. With a valid credential, it is a 404 or a validation error. */
async function send(operation: Operation, headers: Record<string, string>) {
  const values = Object.fromEntries(
    operation.parameters.filter((parameter) => parameter.in === 'path').map(({ name }) => [name, newId()]),
  );
  return it.request(operation.method, pathOf(operation, values), { headers });
}

test('every operation is one of a project or of a user', () => {
  expect(operations.length).toBeGreaterThan(25);
  expect(operations.filter(({ caller }) => caller === 'public').map(({ path }) => path)).toEqual([]);
});

test.each(Object.entries(EXPECTED))('%s', async (name, expected) => {
  for (const operation of operations) {
    const response = await send(operation, credentials[name] ?? {});
    if (operation.path === '/metrics' && !('x-service-api-key' in (credentials[name] ?? {}))) {
      // Another route at the same path, for Prometheus.
      expect(response.headers.get('content-type')).toContain('text/plain');
      continue;
    }
    const wanted = expected[operation.caller as 'project' | 'user'];
    const context = `${operation.id} with ${name}`;
    if (wanted === 'admitted')
      expect([200, 201, 204, 400, 404, 422], `${context}: ${response.text}`).toContain(response.status);
    else expect([response.status, ...response.codes], context).toEqual(wanted);
    expect(response.headers.get('deprecation'), context).toMatch(/^@\d+$/);
  }
});
