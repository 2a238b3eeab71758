import { createSecretKey, type KeyObject } from 'node:crypto';
import { Type } from 'typebox';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { Id } from '../../src/contract/common.ts';
import { ProjectCache } from '../../src/domain/setup/projects/cache.ts';
import { createProject } from '../../src/domain/setup/projects/create.ts';
import { findProject, listProjects } from '../../src/domain/setup/projects/find.ts';
import { issueToken, listTokens, revokeToken } from '../../src/domain/setup/projects/tokens.ts';
import { createAuthenticator } from '../../src/http/auth.ts';
import { type App, projectRoute, userRoute } from '../../src/http/route.ts';
import { heapUsed } from '../support/garbage.ts';
import { hs256 } from '../support/jwt.ts';
import { startTestService, type TestService } from '../support/service.ts';
import { TestClock } from '../support/test-clock.ts';

const Who = Type.Object({ id: Id });

function whoRoutes(app: App): void {
  const common = {
    method: 'GET',
    summary: 'Who',
    description: 'For this test.',
    tags: ['Test'],
    reply: { 200: Who },
  } as const;
  projectRoute(app, {
    ...common,
    tags: ['Test'],
    url: '/test/project',
    operationId: 'p',
    handler: async ({ project }) => ({ id: project.id }),
  });
  userRoute(app, {
    ...common,
    tags: ['Test'],
    url: '/user',
    operationId: 'u',
    handler: async ({ user }) => ({ id: user.id }),
  });
}

const clock = new TestClock();
let it: TestService;
beforeAll(async () => {
  it = await startTestService({ clock, http: { routes: whoRoutes } });
});
afterAll(() => it.stop());

const asProject = (token: string) => it.request('GET', '/v2/test/project', { token });
const asUser = (token: string) => it.request('GET', '/v2/user', { token });
const header = async (authorization: string | undefined) => {
  const response = await it.request('GET', '/v2/test/project', {
    headers: authorization === undefined ? {} : { authorization },
  });
  return [response.status, ...response.codes];
};
const seconds = () => Math.floor(clock.now() / 1000);

/** Counts the statements of the cache while `work` runs. */
async function queriesDuring(work: () => Promise<unknown>): Promise<number> {
  const { context } = it;
  let count = 0;
  const counting = {
    ...context.db,
    query: <Row>(...args: Parameters<typeof context.db.query>) => {
      count += 1;
      return context.db.query<Row>(...args);
    },
  };
  const cache = new ProjectCache({ ...context, db: counting });
  caches.push(cache);
  current = cache;
  await work();
  return count;
}
let current: ProjectCache;
const caches: ProjectCache[] = [];
afterAll(() => {
  for (const cache of caches) cache.close();
});

describe('an Authorization header', () => {
  test('that is missing or not of the form Bearer <token> is invalid_jwt_format', async () => {
    for (const text of [
      undefined,
      '',
      'Bearer',
      'Bearer ',
      it.project.jwt,
      `Basic ${it.project.jwt}`,
      `Bearer a b`,
      `Bearer${it.project.jwt}`,
      'Token x',
    ]) {
      expect(await header(text), String(text)).toEqual([401, 'invalid_jwt_format']);
    }
  });

  test('without a JWT is unparsable_jwt_token', async () => {
    for (const text of ['x', 'a.b.c', `${it.project.jwt}.x`, 'é.é.é', `${'x'.repeat(9_000)}`]) {
      expect(await header(`Bearer ${encodeURI(text)}`), text).toEqual([401, 'unparsable_jwt_token']);
    }
  });

  test('may spell the scheme in any case', async () => {
    expect(
      (
        await it.request('GET', '/v2/test/project', {
          headers: { authorization: `bearer  ${it.project.jwt}` },
        })
      ).status,
    ).toBe(200);
  });
});

describe('a Project JWT', () => {
  test('is valid only for its project', async () => {
    const other = await it.createProject('other');
    expect((await asProject(it.project.jwt)).body).toEqual({ id: it.project.id });
    expect((await asProject(other.jwt)).body).toEqual({ id: other.id });
  });

  test('on a user endpoint is forbidden', async () => {
    expect((await asUser(it.project.jwt)).codes).toEqual(['forbidden']);
    expect((await asUser(it.project.jwt)).status).toBe(403);
  });

  test("signed with the API secret, or with another project's key, is refused", async () => {
    const claims = { iss: 'belfry', sub: it.project.id, jti: '1', role: 'project', iat: seconds() };
    const forged = hs256(claims, createSecretKey(Buffer.from(it.project.apiSecret)));
    expect((await asProject(forged)).codes).toEqual(['jwt_auth_failed']);
    const other = await it.createProject('another');
    const [head, , signature] = other.jwt.split('.');
    const moved = `${head}.${Buffer.from(JSON.stringify(claims)).toString('base64url')}.${signature}`;
    expect((await asProject(moved)).codes).toEqual(['jwt_auth_failed']);
  });

  test('of an unknown project gets the same error as a wrong signature', async () => {
    const key = createSecretKey(Buffer.from('x'));
    for (const sub of ['0197a3c4-5b6e-7f01-8a2b-3c4d5e6f7081', 'x', '', undefined, 5, null]) {
      const response = await asProject(hs256({ sub, role: 'project', jti: '1' }, key));
      expect([response.status, response.codes], String(sub)).toEqual([401, ['jwt_auth_failed']]);
    }
  });

  test('with an invalid claim is refused, and the claim is named', async () => {
    const project = await it.context.projects.byId(it.project.id);
    const claims = { iss: 'belfry', sub: it.project.id, jti: 'made', role: 'project', iat: seconds() };
    const refusals = async (changed: object) => {
      const response = await asProject(hs256({ ...claims, ...changed }, project?.signingKey as KeyObject));
      expect([response.status, response.codes[0]]).toEqual([401, 'jwt_auth_failed']);
      return response.messages;
    };
    for (const value of [null, 1, true, {}, '']) {
      expect(await refusals({ sub: value })).toEqual(["The claim 'sub' must be the id of the project"]);
      expect(await refusals({ jti: value })).toEqual(["The claim 'jti' must be a string that is not empty"]);
      expect(await refusals({ role: value })).toEqual(["The claim 'role' must be 'project'"]);
      expect(await refusals({ role: value, jti: value })).toHaveLength(2);
    }
    expect(await refusals({ sub: undefined })).toEqual([
      'The token has no project: a User JWT needs an api_key, a Project JWT a sub',
    ]);
  });

  test('expires', async () => {
    const expiresAt = new Date((seconds() + 60) * 1000);
    const issued = await issueToken(it.context, { projectId: it.project.id, name: 'short', expiresAt });
    const token = issued?.token ?? '';
    expect((await asProject(token)).status).toBe(200);
    clock.advance(61_000);
    expect((await asProject(token)).codes).toEqual(['jwt_auth_failed']);
  });

  test('is listed without its value, and refused as soon as it is revoked', async () => {
    const issued = await issueToken(it.context, { projectId: it.project.id, name: 'ci' });
    const { token = '', issued: record } = issued ?? {};
    const jti = record?.jti ?? '';
    expect((await asProject(token)).status).toBe(200);
    expect((await asProject(token)).status).toBe(200);
    const listed = await listTokens(it.context, it.project.id);
    expect(listed).toContainEqual(
      expect.objectContaining({ jti, name: 'ci', projectId: it.project.id, revokedAt: null }),
    );
    expect(JSON.stringify(listed)).not.toContain(token);
    expect(await revokeToken(it.context, jti)).toMatchObject({ jti, revokedAt: expect.any(Date) });
    expect((await asProject(token)).codes).toEqual(['jwt_auth_failed']);
    expect((await asProject(it.project.jwt)).status).toBe(200);
    expect(await revokeToken(it.context, 'nonsense')).toBe(undefined);
    expect(await revokeToken(it.context, '0197a3c4-5b6e-7f01-8a2b-3c4d5e6f7081')).toBe(undefined);
  });

  test('that another node revoked is refused within seconds, even if the message is lost', async () => {
    const issued = await issueToken(it.context, { projectId: it.project.id, name: 'lost' });
    const { token = '', issued: record } = issued ?? {};
    expect((await asProject(token)).status).toBe(200);
    await revokeToken(
      { ...it.context, bus: { publish: () => {}, subscribe: () => () => {} } },
      record?.jti ?? '',
    );
    expect((await asProject(token)).status).toBe(200); // the node does not know yet
    clock.advance(5_001);
    await asProject(token); // uses the cache, which then refreshes
    await expect.poll(async () => (await asProject(token)).status).toBe(401);
    clock.advance(60_000); // an entry this old is not used
    expect((await asProject(token)).status).toBe(401);
  });
});

describe('a User JWT', () => {
  test('creates its user at its first use only', async () => {
    const first = await asUser(
      it.project.userJwt({ user_external_id: 'ann', user_email: 'Ann@example.com' }),
    );
    expect(first.status).toBe(200);
    expect((await asUser(it.project.userJwt({ user_external_id: 'ann', iat: seconds() }))).body).toEqual(
      first.body,
    );
    const rows = await it.context.db.query<{ external_id: string; email: string }>(
      { name: 'u', text: 'select external_id, email from users where id = $1' },
      [(first.body as { id: string }).id],
    );
    expect(rows[0]?.external_id).toBe('ann');
  });

  test('finds users by e-mail address in any case; the external id has precedence', async () => {
    const bob = (await asUser(it.project.userJwt({ user_email: 'bob@example.com' }))).body;
    expect((await asUser(it.project.userJwt({ user_email: 'BOB@example.com' }))).body).toEqual(bob);
    const carl = (await asUser(it.project.userJwt({ user_external_id: 'carl' }))).body;
    expect(
      (await asUser(it.project.userJwt({ user_email: 'bob@example.com', user_external_id: 'carl' }))).body,
    ).toEqual(carl);
    expect(carl).not.toEqual(bob);
  });

  test('of concurrent requests creates one user', async () => {
    const tokens = Array.from({ length: 20 }, (_, index) =>
      it.project.userJwt({ user_external_id: 'crowd', index }),
    );
    const ids = (await Promise.all(tokens.map(asUser))).map(({ text }) => text);
    expect(new Set(ids).size).toBe(1);
  });

  test('on a project endpoint is forbidden', async () => {
    const response = await asProject(it.project.userJwt({ user_external_id: 'ann' }));
    expect([response.status, response.codes]).toEqual([403, ['forbidden']]);
  });

  test('without a user, with an unknown API key or another secret is refused', async () => {
    const other = await it.createProject('third');
    const key = createSecretKey(Buffer.from(other.apiSecret));
    const refused = [
      it.project.userJwt({}),
      it.project.userJwt({ user_external_id: '' }),
      it.project.userJwt({ user_external_id: 'a\0' }),
      it.project.userJwt({ user_external_id: 'x'.repeat(256) }),
      it.project.userJwt({ api_key: 'pk_unknown_unknown', user_external_id: 'a' }),
      it.project.userJwt({ api_key: '', user_external_id: 'a' }),
      hs256({ api_key: it.project.apiKey, user_external_id: 'ann' }, key),
      it.project.userJwt({ user_external_id: 'ann', exp: seconds() - 1 }),
      it.project.userJwt({ user_external_id: 'ann', nbf: seconds() + 100 }),
    ];
    for (const token of refused) {
      const response = await asUser(token);
      expect([response.status, response.codes]).toEqual([401, ['jwt_auth_failed']]);
    }
  });

  test('with an invalid claim is refused, although the other claim is valid', async () => {
    const victim = { user_external_id: 'victim', user_email: 'victim@example.com' };
    expect((await asUser(it.project.userJwt(victim))).status).toBe(200);
    const refusals = async (claims: object, call = asUser) => {
      const response = await call(it.project.userJwt(claims as Record<string, unknown>));
      expect(response.status, JSON.stringify(claims).slice(0, 200)).toBe(401);
      expect(new Set(response.codes)).toEqual(new Set(['jwt_auth_failed']));
      return response.messages;
    };
    const notText = [null, true, false, {}, [], ['victim'], '', '   ', '\t\n', '\0', 'a\0', '\ud800'];
    const notNumbers = [1.5, -0.1, 2 ** 53, -(2 ** 53), 1e300];
    for (const value of [...notText, ...notNumbers, 'x'.repeat(256), '😀'.repeat(256)]) {
      const [message, ...others] = await refusals({ ...victim, user_external_id: value });
      expect(message).toMatch(/^The claim 'user_external_id' must be a whole number or a string/);
      expect(others).toEqual([]);
      await refusals({ user_external_id: value });
    }
    const long = `${'a'.repeat(60)}@${'b.'.repeat(98)}com`;
    for (const value of [...notText, ...notNumbers, 42, 'plain', 'a@b@c', ' victim@example.com', long]) {
      expect(await refusals({ ...victim, user_email: value })).toEqual([
        "The claim 'user_email' must be an e-mail address",
      ]);
      await refusals({ user_email: value });
    }
    // The lower case of the Kelvin sign is an ASCII k.
    expect((await asUser(it.project.userJwt({ user_email: 'kim@example.com' }))).status).toBe(200);
    await refusals({ user_email: '\u212aim@example.com' });
    expect(await refusals({ user_external_id: null, user_email: 1 })).toHaveLength(2);
    for (const value of [null, 5, true, {}, '']) {
      for (const call of [asUser, asProject]) {
        const claims = { ...victim, api_key: value, sub: it.project.id, role: 'project', jti: '1' };
        expect(await refusals(claims, call)).toEqual(["The claim 'api_key' must be the project's API key"]);
      }
    }
    for (const name of ['exp', 'nbf', 'iat']) {
      const response = await asUser(it.project.userJwt({ ...victim, [name]: 'tomorrow' }));
      expect([response.status, response.codes]).toEqual([401, ['unparsable_jwt_token']]);
      expect(response.messages).toEqual([`The claim '${name}' must be a number: seconds since 1970`]);
    }
  });

  test('with a safe integer as user_external_id names the user whose id is its decimal text', async () => {
    for (const [number, text] of [
      [42, '42'],
      [0, '0'],
      [-7, '-7'],
      [Number.MAX_SAFE_INTEGER, '9007199254740991'],
    ] as const) {
      const byText = await asUser(it.project.userJwt({ user_external_id: text }));
      expect(byText.status).toBe(200);
      expect((await asUser(it.project.userJwt({ user_external_id: number }))).body).toEqual(byText.body);
    }
    const other = await asUser(it.project.userJwt({ user_email: 'number@example.com' }));
    expect(
      (await asUser(it.project.userJwt({ user_external_id: 42, user_email: 'number@example.com' }))).body,
    ).not.toEqual(other.body);
  });

  test('with the role of a project is not a Project JWT', async () => {
    const token = it.project.userJwt({
      user_external_id: 'ann',
      role: 'project',
      sub: it.project.id,
      jti: '1',
    });
    expect((await asProject(token)).status).toBe(403);
  });

  test('updates last_seen_at of its user, about once a minute', async () => {
    const id = ((await asUser(it.project.userJwt({ user_external_id: 'seen' }))).body as { id: string }).id;
    const lastSeen = async () => {
      await it.http.context.lastSeen.flush();
      const rows = await it.context.db.query<{ last_seen_at: Date | null }>(
        { name: 's', text: 'select last_seen_at from users where id = $1' },
        [id],
      );
      return rows[0]?.last_seen_at?.getTime();
    };
    const first = await lastSeen();
    expect(Math.abs((first ?? 0) - clock.now())).toBeLessThan(10_000);
    clock.advance(30_000);
    await asUser(it.project.userJwt({ user_external_id: 'seen' }));
    expect(await lastSeen()).toBe(first);
    clock.advance(31_000);
    await asUser(it.project.userJwt({ user_external_id: 'seen' }));
    expect((await lastSeen()) ?? 0).toBeGreaterThan((first ?? 0) + 60_000);
  });
});

describe('the projects in memory', () => {
  test('are read once for any number of requests, and unknown keys at most once each', async () => {
    const unknown = Array.from({ length: 300 }, (_, index) => `pk_madeup_key_${index}`);
    const queries = await queriesDuring(async () => {
      const all = await Promise.all(
        [...Array(100).fill(it.project.apiKey), ...unknown, 'nonsense', '', 'x'.repeat(10_000)].map((key) =>
          current.byApiKey(key),
        ),
      );
      expect(all.filter((project) => project?.id === it.project.id)).toHaveLength(100);
      expect(all.filter((project) => project !== undefined)).toHaveLength(100);
      for (const key of unknown) expect(current.byApiKey(key)).toBe(undefined);
      expect(current.byApiKey(it.project.apiKey)).toMatchObject({ id: it.project.id });
    });
    expect(queries).toBeLessThanOrEqual(2);
  });

  test('are the same objects until they change, so that verified tokens stay valid', async () => {
    await queriesDuring(async () => {
      const before = await current.byId(it.project.id);
      clock.advance(31_000);
      expect(await current.byId(it.project.id)).toBe(before);
      it.context.bus.publish({ type: 'project_changed', projectId: it.project.id });
      expect(await current.byId(it.project.id)).not.toBe(before);
    });
  });

  test('include a new project within seconds, even after a request with its key', async () => {
    await queriesDuring(async () => {
      const id = '0197a3c4-5b6e-7f01-8a2b-3c4d5e6f7000';
      expect(await current.byId(id)).toBe(undefined);
      const made = await createProject(it.context, 'late');
      await it.context.db.query({ name: 'move', text: 'update projects set id = $1 where id = $2' }, [
        id,
        made?.id,
      ]);
      clock.advance(5_001);
      // Its secrets were sealed for its former id, so they cannot be opened.
      await expect(Promise.resolve(current.byId(id))).rejects.toThrow('encrypted for another purpose');
    });
  });
});

describe('projects', () => {
  test('have unique names, and are found by name or id', async () => {
    expect(await createProject(it.context, 'test')).toBe(undefined);
    const found = await findProject(it.context, 'test');
    expect(found).toMatchObject({ id: it.project.id, apiKey: it.project.apiKey });
    expect(await findProject(it.context, it.project.id)).toEqual(found);
    expect(await findProject(it.context, 'unknown')).toBe(undefined);
    expect(await listProjects(it.context)).toContainEqual(found);
    expect(
      await issueToken(it.context, { projectId: '0197a3c4-5b6e-7f01-8a2b-3c4d5e6f7081', name: 'x' }),
    ).toBe(undefined);
  });

  test('keep their secrets sealed', async () => {
    const rows = await it.context.db.query<{ all: string }>({
      name: 'dump',
      text: `select string_agg(projects::text || encode(sealed_api_secret, 'escape'), '') as all
        from projects`,
    });
    expect(it.project.apiSecret).toMatch(/^sk_/);
    expect(rows[0]?.all).toContain(it.project.apiKey);
    expect(rows[0]?.all).not.toContain(it.project.apiSecret);
  });
});

test('the cache of verified tokens has a limited size, however long they are', async () => {
  const authenticate = createAuthenticator(it.http.context);
  const use = async (number: number) => {
    const claims = { user_external_id: 'long', number, padding: 'x'.repeat(5_900) };
    await authenticate({ authorization: `Bearer ${it.project.userJwt(claims)}` });
  };
  await use(0);
  const before = heapUsed();
  for (let number = 1; number <= 6_000; number += 1) await use(number);
  expect(heapUsed() - before).toBeLessThan(30_000_000);
  await use(0);
});
