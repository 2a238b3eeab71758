import { createSecretKey } from 'node:crypto';
import { once } from 'node:events';
import { get, type IncomingMessage } from 'node:http';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { issueToken, revokeToken } from '../../src/domain/setup/projects/tokens.ts';
import { newId } from '../../src/lib/ids.ts';
import { decodeJwt } from '../../src/lib/jwt.ts';
import { type Answer, newProject, startTestServer, type TestServer } from '../support/http.ts';
import { hs256 } from '../support/jwt.ts';
import { type Description, describedBy, type Operation, pathOf } from '../support/operations.ts';

// Every operation × every credential, from the description itself: an operation that is added is in here
// without a word.

let it: TestServer;
let described: Description;
let credentials: Record<string, string | undefined>;

beforeAll(async () => {
  it = await startTestServer();
  described = describedBy(it.server.swagger() as unknown as Record<string, unknown>);
  const { context, project } = it;
  const other = await newProject(context, 'other');
  const seconds = Math.floor(it.clock.now() / 1000);
  const secretOf = (text: string) => createSecretKey(Buffer.from(text));
  const revoked = await issueToken(context, { projectId: project.id, name: 'revoked' });
  const expiring = await issueToken(context, {
    projectId: project.id,
    name: 'expired',
    expiresAt: new Date(it.clock.now() + 60_000),
  });
  if (revoked === undefined || expiring === undefined) throw new Error('no token was issued');
  await revokeToken(context, String(decodeJwt(revoked.token)?.jti));
  const user = { user_external_id: 'somebody' };
  credentials = {
    'no token': undefined,
    'a malformed header': 'Bearer',
    'another scheme': `Basic ${project.jwt}`,
    'what is no JWT': 'Bearer a.b.c',
    'an expired Project JWT': `Bearer ${expiring.token}`,
    'a revoked Project JWT': `Bearer ${revoked.token}`,
    'an expired User JWT': `Bearer ${it.userJwt({ ...user, exp: seconds - 120 })}`,
    'a User JWT that is not valid yet': `Bearer ${it.userJwt({ ...user, nbf: seconds + 7200 })}`,
    "a User JWT signed with another project's secret": `Bearer ${hs256({ api_key: project.apiKey, ...user }, secretOf(other.apiSecret))}`,
    'a User JWT that names nobody': `Bearer ${it.userJwt({})}`,
    'a Project JWT signed with the API secret': `Bearer ${hs256({ sub: project.id, jti: newId(), role: 'project', iat: seconds }, secretOf(project.apiSecret))}`,
    'a User JWT': `Bearer ${it.userJwt(user)}`,
    'a Project JWT': `Bearer ${project.jwt}`,
    "another project's Project JWT": `Bearer ${other.jwt}`,
    "another project's User JWT": `Bearer ${hs256({ api_key: other.apiKey, ...user }, secretOf(other.apiSecret))}`,
  };
  // The clock of the server moves on, so that a token that was issued as valid has run out.
  it.clock.advance(120_000);
});
afterAll(() => it.close());

/** What everybody with this credential is told, whatever the operation. */
const REFUSED: Record<string, [number, string]> = {
  'no token': [401, 'invalid_jwt_format'],
  'a malformed header': [401, 'invalid_jwt_format'],
  'another scheme': [401, 'invalid_jwt_format'],
  'what is no JWT': [401, 'unparsable_jwt_token'],
  'an expired Project JWT': [401, 'jwt_auth_failed'],
  'a revoked Project JWT': [401, 'jwt_auth_failed'],
  'an expired User JWT': [401, 'jwt_auth_failed'],
  'a User JWT that is not valid yet': [401, 'jwt_auth_failed'],
  "a User JWT signed with another project's secret": [401, 'jwt_auth_failed'],
  'a User JWT that names nobody': [401, 'jwt_auth_failed'],
  'a Project JWT signed with the API secret': [401, 'jwt_auth_failed'],
};
const ADMITTED: Record<'project' | 'user', string[]> = {
  project: ['a Project JWT', "another project's Project JWT"],
  user: ['a User JWT', "another project's User JWT"],
};

/**
 * Asks with ids that nobody has: whoever is admitted finds nothing, or is told what is wrong with the
 * request.
 */
async function ask(operation: Operation, authorization: string | undefined): Promise<Answer | number> {
  const values = Object.fromEntries(
    operation.parameters.filter((parameter) => parameter.in === 'path').map(({ name }) => [name, newId()]),
  );
  const path = `/v2${pathOf(operation, values)}`;
  const headers = authorization === undefined ? {} : { authorization };
  if (!operation.streams) return it.call(operation.method, path, { headers });
  // A stream that is admitted goes on for ever: its status is all there is to see.
  const { statusCode = 0 } = await statusOf(`${it.base}${path}`, headers);
  return statusCode === 200 ? 200 : it.call(operation.method, path, { headers });
}

/**
 * The head of an answer; the rest is broken off. Not by `fetch`, which then opens a connection that it does
 * not use.
 */
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

const tell = (answer: Answer | number) =>
  typeof answer === 'number' ? [answer] : [answer.status, ...answer.codes];

describe('every operation', () => {
  test('is described with who may call it', () => {
    expect(described.operations.length).toBeGreaterThan(20);
    const anybody = described.operations.filter((operation) => operation.caller === 'anybody');
    const incoming = /^\/integrations\/[a-z_]+\/webhooks\/incoming(\/\{id\})?$/;
    expect(anybody.map(({ path }) => path).filter((path) => !incoming.test(path))).toEqual([]);
  });

  // A test for each, and several requests at once: all of them one after the other are a thousand round
  // trips.
  test.each(Object.entries(REFUSED))('rejects %s before it looks at the request', async (name, expected) => {
    const operations = described.operations.filter(({ caller }) => caller !== 'anybody');
    await severalAtOnce(operations, async (operation) => {
      const answer = await ask(operation, credentials[name]);
      expect(tell(answer), `${operation.id} with ${name}`).toEqual(expected);
    });
  });

  test('refuses a valid token of the wrong kind with 403, and names the kind', async () => {
    await severalAtOnce(described.operations, async (operation) => {
      if (operation.caller === 'anybody') return;
      const [wrong, needed] =
        operation.caller === 'project' ? ['a User JWT', 'a Project JWT'] : ['a Project JWT', 'a User JWT'];
      const answer = await ask(operation, credentials[wrong]);
      expect(tell(answer), operation.id).toEqual([403, 'forbidden']);
      expect((answer as Answer).messages, operation.id).toEqual([
        `This operation needs ${needed}; the request has ${wrong}`,
      ]);
    });
  });

  test('admits valid tokens of its kind', async () => {
    for (const operation of described.operations) {
      if (operation.caller === 'anybody') continue;
      for (const name of ADMITTED[operation.caller]) {
        const answer = await ask(operation, credentials[name]);
        const status = typeof answer === 'number' ? answer : answer.status;
        expect([200, 204, 400, 404, 422], `${operation.id} with ${name}: ${status}`).toContain(status);
      }
    }
  });
});
