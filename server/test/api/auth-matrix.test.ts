import { createSecretKey } from 'node:crypto';
import { once } from 'node:events';
import { get, type IncomingMessage } from 'node:http';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { issueToken, revokeToken } from '../../src/domain/setup/projects/tokens.ts';
import { newId } from '../../src/lib/ids.ts';
import { decodeJwt } from '../../src/lib/jwt.ts';
import { hs256 } from '../support/jwt.ts';
import { type Description, describedBy, type Operation, pathOf } from '../support/operations.ts';
import { type ApiResponse, startTestService, type TestService } from '../support/service.ts';
import { TestClock } from '../support/test-clock.ts';

// Every operation × every credential. The operations come from the API description, so new ones are included.

const clock = new TestClock();
let it: TestService;
let described: Description;
let credentials: Record<string, string | undefined>;

beforeAll(async () => {
  it = await startTestService({ clock });
  described = describedBy(it.http.fastify.swagger() as unknown as Record<string, unknown>);
  const { context, project } = it;
  const other = await it.createProject('other');
  const seconds = Math.floor(clock.now() / 1000);
  const secretOf = (text: string) => createSecretKey(Buffer.from(text));
  const revoked = await issueToken(context, { projectId: project.id, name: 'revoked' });
  const expiring = await issueToken(context, {
    projectId: project.id,
    name: 'expired',
    expiresAt: new Date(clock.now() + 60_000),
  });
  if (revoked === undefined || expiring === undefined) throw new Error('no token was issued');
  await revokeToken(context, String(decodeJwt(revoked.token)?.jti));
  const user = { user_external_id: 'ada' };
  const userClaims = { api_key: project.apiKey, ...user };
  const projectClaims = { sub: project.id, jti: newId(), role: 'project', iat: seconds };
  const [secret, otherSecret] = [secretOf(project.apiSecret), secretOf(other.apiSecret)];
  credentials = {
    'no token': undefined,
    'a malformed header': 'Bearer',
    'another scheme': `Basic ${project.jwt}`,
    'a token that is not a JWT': 'Bearer a.b.c',
    'an expired Project JWT': `Bearer ${expiring.token}`,
    'a revoked Project JWT': `Bearer ${revoked.token}`,
    'an expired User JWT': `Bearer ${it.project.userJwt({ ...user, exp: seconds - 120 })}`,
    'a User JWT that is not valid yet': `Bearer ${it.project.userJwt({ ...user, nbf: seconds + 7200 })}`,
    "a User JWT signed with another project's secret": `Bearer ${hs256(userClaims, otherSecret)}`,
    'a User JWT without a user': `Bearer ${it.project.userJwt({})}`,
    'a Project JWT signed with the API secret': `Bearer ${hs256(projectClaims, secret)}`,
    'a User JWT': `Bearer ${it.project.userJwt(user)}`,
    'a Project JWT': `Bearer ${project.jwt}`,
    "another project's Project JWT": `Bearer ${other.jwt}`,
    "another project's User JWT": `Bearer ${hs256({ api_key: other.apiKey, ...user }, otherSecret)}`,
  };
  // Tokens that were valid when they were issued expire.
  clock.advance(120_000);
});
afterAll(() => it.stop());

/** The response of every operation to these credentials. */
const REFUSED: Record<string, [number, string]> = {
  'no token': [401, 'invalid_jwt_format'],
  'a malformed header': [401, 'invalid_jwt_format'],
  'another scheme': [401, 'invalid_jwt_format'],
  'a token that is not a JWT': [401, 'unparsable_jwt_token'],
  'an expired Project JWT': [401, 'jwt_auth_failed'],
  'a revoked Project JWT': [401, 'jwt_auth_failed'],
  'an expired User JWT': [401, 'jwt_auth_failed'],
  'a User JWT that is not valid yet': [401, 'jwt_auth_failed'],
  "a User JWT signed with another project's secret": [401, 'jwt_auth_failed'],
  'a User JWT without a user': [401, 'jwt_auth_failed'],
  'a Project JWT signed with the API secret': [401, 'jwt_auth_failed'],
};
const ADMITTED: Record<'project' | 'user', string[]> = {
  project: ['a Project JWT', "another project's Project JWT"],
  user: ['a User JWT', "another project's User JWT"],
};

/** Sends a request with unknown ids. With a valid credential, it is a 404 or a validation error. */
async function send(operation: Operation, authorization: string | undefined): Promise<ApiResponse | number> {
  const values = Object.fromEntries(
    operation.parameters.filter((parameter) => parameter.in === 'path').map(({ name }) => [name, newId()]),
  );
  const path = `/v2${pathOf(operation, values)}`;
  const headers = authorization === undefined ? {} : { authorization };
  if (!operation.streams) return it.request(operation.method, path, { headers });
  // An open stream does not end, so only its status is read.
  const { statusCode = 0 } = await statusOf(`${it.address}${path}`, headers);
  return statusCode === 200 ? 200 : it.request(operation.method, path, { headers });
}

/** Reads the head of a response and breaks the connection. `fetch` would open another one, unused. */
async function statusOf(url: string, headers: Record<string, string>): Promise<IncomingMessage> {
  const request = get(url, { headers, agent: false });
  const [response] = (await once(request, 'response')) as [IncomingMessage];
  response.destroy();
  return response;
}

const AT_ONCE = 8;

async function severalAtOnce<Item>(items: readonly Item[], work: (item: Item) => Promise<void>) {
  const waiting = [...items];
  const worker = async () => {
    for (let item = waiting.shift(); item !== undefined; item = waiting.shift()) await work(item);
  };
  await Promise.all(Array.from({ length: AT_ONCE }, worker));
}

const resultOf = (response: ApiResponse | number) =>
  typeof response === 'number' ? [response] : [response.status, ...response.codes];

describe('every operation', () => {
  test('is described with who may call it', () => {
    expect(described.operations.length).toBeGreaterThan(20);
    const open = described.operations.filter((operation) => operation.caller === 'public');
    const incoming = /^\/integrations\/[a-z_]+\/webhooks\/incoming(\/\{id\})?$/;
    expect(open.map(({ path }) => path).filter((path) => !incoming.test(path))).toEqual([]);
  });

  // A test for each credential, with concurrent requests, because there are a thousand of them.
  test.each(Object.entries(REFUSED))('rejects %s before it looks at the request', async (name, expected) => {
    const operations = described.operations.filter(({ caller }) => caller !== 'public');
    await severalAtOnce(operations, async (operation) => {
      const response = await send(operation, credentials[name]);
      expect(resultOf(response), `${operation.id} with ${name}`).toEqual(expected);
    });
  });

  test('refuses a valid token of the wrong kind with 403, and names the right kind', async () => {
    await severalAtOnce(described.operations, async (operation) => {
      if (operation.caller === 'public') return;
      const [wrong, needed] =
        operation.caller === 'project' ? ['a User JWT', 'a Project JWT'] : ['a Project JWT', 'a User JWT'];
      const response = await send(operation, credentials[wrong]);
      expect(resultOf(response), operation.id).toEqual([403, 'forbidden']);
      expect((response as ApiResponse).messages, operation.id).toEqual([
        `This operation needs ${needed}; the request has ${wrong}`,
      ]);
    });
  });

  test('admits valid tokens of its kind', async () => {
    for (const operation of described.operations) {
      if (operation.caller === 'public') continue;
      for (const name of ADMITTED[operation.caller]) {
        const response = await send(operation, credentials[name]);
        const status = typeof response === 'number' ? response : response.status;
        expect([200, 204, 400, 404, 422], `${operation.id} with ${name}: ${status}`).toContain(status);
      }
    }
  });
});
