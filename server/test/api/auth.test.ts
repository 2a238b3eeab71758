import { createSecretKey, type KeyObject } from 'node:crypto';
import { Type } from 'typebox';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { Id } from '../../src/contract/common.ts';
import { ProjectCache } from '../../src/domain/setup/projects/cache.ts';
import { createProject } from '../../src/domain/setup/projects/create.ts';
import { findProject, listProjects } from '../../src/domain/setup/projects/find.ts';
import { issueToken, listTokens, revokeToken } from '../../src/domain/setup/projects/tokens.ts';
import { type App, projectRoute, userRoute } from '../../src/http/route.ts';
import { newProject, startTestServer, type TestServer } from '../support/http.ts';
import { hs256 } from '../support/jwt.ts';

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
    url: '/project',
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

let it: TestServer;
beforeAll(async () => {
  it = await startTestServer({ routes: whoRoutes });
});
afterAll(() => it.close());

const asProject = (token: string) => it.call('GET', '/v2/project', { token });
const asUser = (token: string) => it.call('GET', '/v2/user', { token });
const header = async (authorization: string | undefined) => {
  const answer = await it.call('GET', '/v2/project', {
    headers: authorization === undefined ? {} : { authorization },
  });
  return [answer.status, ...answer.codes];
};
const seconds = () => Math.floor(it.clock.now() / 1000);

/** Statements that the cache sends to the database while `work` runs. */
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

  test('with what is no JWT is unparsable_jwt_token', async () => {
    for (const text of ['x', 'a.b.c', `${it.project.jwt}.x`, 'é.é.é', `${'x'.repeat(9_000)}`]) {
      expect(await header(`Bearer ${encodeURI(text)}`), text).toEqual([401, 'unparsable_jwt_token']);
    }
  });

  test('may spell the scheme in any case', async () => {
    expect(
      (await it.call('GET', '/v2/project', { headers: { authorization: `bearer  ${it.project.jwt}` } }))
        .status,
    ).toBe(200);
  });
});

describe('a Project JWT', () => {
  test('speaks for its project, and for no other', async () => {
    const other = await newProject(it.context, 'other');
    expect((await asProject(it.project.jwt)).json).toEqual({ id: it.project.id });
    expect((await asProject(other.jwt)).json).toEqual({ id: other.id });
  });

  test('on a user endpoint is forbidden', async () => {
    expect((await asUser(it.project.jwt)).codes).toEqual(['forbidden']);
    expect((await asUser(it.project.jwt)).status).toBe(403);
  });

  test("signed with the API secret, or with another project's key, is refused", async () => {
    const claims = { iss: 'belfry', sub: it.project.id, jti: '1', role: 'project', iat: seconds() };
    const forged = hs256(claims, createSecretKey(Buffer.from(it.project.apiSecret)));
    expect((await asProject(forged)).codes).toEqual(['jwt_auth_failed']);
    const other = await newProject(it.context, 'another');
    const [head, , signature] = other.jwt.split('.');
    const moved = `${head}.${Buffer.from(JSON.stringify(claims)).toString('base64url')}.${signature}`;
    expect((await asProject(moved)).codes).toEqual(['jwt_auth_failed']);
  });

  test('of an unknown project is answered like a wrong signature', async () => {
    const key = createSecretKey(Buffer.from('x'));
    for (const sub of ['0197a3c4-5b6e-7f01-8a2b-3c4d5e6f7081', 'x', '', undefined, 5, null]) {
      const answer = await asProject(hs256({ sub, role: 'project', jti: '1' }, key));
      expect([answer.status, answer.codes], String(sub)).toEqual([401, ['jwt_auth_failed']]);
    }
  });

  test('with a claim that cannot be used is refused by its name', async () => {
    const project = await it.context.projects.byId(it.project.id);
    const claims = { iss: 'belfry', sub: it.project.id, jti: 'made', role: 'project', iat: seconds() };
    const refusals = async (changed: object) => {
      const answer = await asProject(hs256({ ...claims, ...changed }, project?.signingKey as KeyObject));
      expect([answer.status, answer.codes[0]]).toEqual([401, 'jwt_auth_failed']);
      return answer.messages;
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
    it.clock.advance(61_000);
    expect((await asProject(token)).codes).toEqual(['jwt_auth_failed']);
  });

  test('is listed without itself, and refused at once when revoked, however often it was used', async () => {
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

  test('that was revoked elsewhere, its message lost, is refused within seconds', async () => {
    const issued = await issueToken(it.context, { projectId: it.project.id, name: 'lost' });
    const { token = '', issued: record } = issued ?? {};
    expect((await asProject(token)).status).toBe(200);
    await revokeToken(
      { ...it.context, bus: { publish: () => {}, subscribe: () => () => {} } },
      record?.jti ?? '',
    );
    expect((await asProject(token)).status).toBe(200); // not known here yet
    it.clock.advance(5_001);
    await asProject(token); // is answered from memory, and makes the cache look
    await expect.poll(async () => (await asProject(token)).status).toBe(401);
    it.clock.advance(60_000); // after a long silence nothing is answered from memory
    expect((await asProject(token)).status).toBe(401);
  });
});

describe('a User JWT', () => {
  test('makes its user at first use, the same one ever after', async () => {
    const first = await asUser(it.userJwt({ user_external_id: 'ann', user_email: 'Ann@example.com' }));
    expect(first.status).toBe(200);
    expect((await asUser(it.userJwt({ user_external_id: 'ann', iat: seconds() }))).json).toEqual(first.json);
    const rows = await it.db.query<{ external_id: string; email: string }>(
      { name: 'u', text: 'select external_id, email from users where id = $1' },
      [(first.json as { id: string }).id],
    );
    expect(rows[0]?.external_id).toBe('ann');
  });

  test('by e-mail address finds the user whatever the case; the external id wins over the address', async () => {
    const bob = (await asUser(it.userJwt({ user_email: 'bob@example.com' }))).json;
    expect((await asUser(it.userJwt({ user_email: 'BOB@example.com' }))).json).toEqual(bob);
    const carl = (await asUser(it.userJwt({ user_external_id: 'carl' }))).json;
    expect(
      (await asUser(it.userJwt({ user_email: 'bob@example.com', user_external_id: 'carl' }))).json,
    ).toEqual(carl);
    expect(carl).not.toEqual(bob);
  });

  test('of many requests at once makes one user', async () => {
    const tokens = Array.from({ length: 20 }, (_, index) => it.userJwt({ user_external_id: 'crowd', index }));
    const ids = (await Promise.all(tokens.map(asUser))).map(({ text }) => text);
    expect(new Set(ids).size).toBe(1);
  });

  test('on a project endpoint is forbidden', async () => {
    const answer = await asProject(it.userJwt({ user_external_id: 'ann' }));
    expect([answer.status, answer.codes]).toEqual([403, ['forbidden']]);
  });

  test('that names nobody, an unknown API key, or is signed with another secret is refused', async () => {
    const other = await newProject(it.context, 'third');
    const key = createSecretKey(Buffer.from(other.apiSecret));
    const refused = [
      it.userJwt({}),
      it.userJwt({ user_external_id: '' }),
      it.userJwt({ user_external_id: 'a\0' }),
      it.userJwt({ user_external_id: 'x'.repeat(256) }),
      it.userJwt({ api_key: 'pk_unknown_unknown', user_external_id: 'a' }),
      it.userJwt({ api_key: '', user_external_id: 'a' }),
      hs256({ api_key: it.project.apiKey, user_external_id: 'ann' }, key),
      it.userJwt({ user_external_id: 'ann', exp: seconds() - 1 }),
      it.userJwt({ user_external_id: 'ann', nbf: seconds() + 100 }),
    ];
    for (const token of refused) {
      const answer = await asUser(token);
      expect([answer.status, answer.codes]).toEqual([401, ['jwt_auth_failed']]);
    }
  });

  test('with a claim that cannot be used is refused by its name, and never falls back to the other', async () => {
    const victim = { user_external_id: 'victim', user_email: 'victim@example.com' };
    expect((await asUser(it.userJwt(victim))).status).toBe(200);
    const refusals = async (claims: object, ask = asUser) => {
      const answer = await ask(it.userJwt(claims as Record<string, unknown>));
      expect(answer.status, JSON.stringify(claims).slice(0, 200)).toBe(401);
      expect(new Set(answer.codes)).toEqual(new Set(['jwt_auth_failed']));
      return answer.messages;
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
    for (const value of [...notText, ...notNumbers, 42, 'nobody', 'a@b@c', ' victim@example.com', long]) {
      expect(await refusals({ ...victim, user_email: value })).toEqual([
        "The claim 'user_email' must be an e-mail address",
      ]);
      await refusals({ user_email: value });
    }
    // In lower case the Kelvin sign is an ASCII k.
    expect((await asUser(it.userJwt({ user_email: 'kim@example.com' }))).status).toBe(200);
    await refusals({ user_email: '\u212aim@example.com' });
    expect(await refusals({ user_external_id: null, user_email: 1 })).toHaveLength(2);
    for (const value of [null, 5, true, {}, '']) {
      for (const ask of [asUser, asProject]) {
        const claims = { ...victim, api_key: value, sub: it.project.id, role: 'project', jti: '1' };
        expect(await refusals(claims, ask)).toEqual(["The claim 'api_key' must be the project's API key"]);
      }
    }
    for (const name of ['exp', 'nbf', 'iat']) {
      const answer = await asUser(it.userJwt({ ...victim, [name]: 'tomorrow' }));
      expect([answer.status, answer.codes]).toEqual([401, ['unparsable_jwt_token']]);
      expect(answer.messages).toEqual([`The claim '${name}' must be a number: seconds since 1970`]);
    }
  });

  test('with a safe integer as user_external_id names the user whose id is its decimal text', async () => {
    for (const [number, text] of [
      [42, '42'],
      [0, '0'],
      [-7, '-7'],
      [Number.MAX_SAFE_INTEGER, '9007199254740991'],
    ] as const) {
      const byText = await asUser(it.userJwt({ user_external_id: text }));
      expect(byText.status).toBe(200);
      expect((await asUser(it.userJwt({ user_external_id: number }))).json).toEqual(byText.json);
    }
    const other = await asUser(it.userJwt({ user_email: 'number@example.com' }));
    expect(
      (await asUser(it.userJwt({ user_external_id: 42, user_email: 'number@example.com' }))).json,
    ).not.toEqual(other.json);
  });

  test('cannot pass for a project by claiming its role', async () => {
    const token = it.userJwt({ user_external_id: 'ann', role: 'project', sub: it.project.id, jti: '1' });
    expect((await asProject(token)).status).toBe(403);
  });

  test('marks its user as seen, about once a minute', async () => {
    const id = ((await asUser(it.userJwt({ user_external_id: 'seen' }))).json as { id: string }).id;
    const lastSeen = async () => {
      await it.context.lastSeen.flush();
      const rows = await it.db.query<{ last_seen_at: Date | null }>(
        { name: 's', text: 'select last_seen_at from users where id = $1' },
        [id],
      );
      return rows[0]?.last_seen_at?.getTime();
    };
    const first = await lastSeen();
    expect(Math.abs((first ?? 0) - it.clock.now())).toBeLessThan(10_000);
    it.clock.advance(30_000);
    await asUser(it.userJwt({ user_external_id: 'seen' }));
    expect(await lastSeen()).toBe(first);
    it.clock.advance(31_000);
    await asUser(it.userJwt({ user_external_id: 'seen' }));
    expect((await lastSeen()) ?? 0).toBeGreaterThan((first ?? 0) + 60_000);
  });
});

describe('the projects in memory', () => {
  test('are read once for any number of requests, and made-up keys ask the database at most once each', async () => {
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

  test('stay the same object while nothing changed, so that verified tokens stay valid', async () => {
    await queriesDuring(async () => {
      const before = await current.byId(it.project.id);
      it.clock.advance(31_000);
      expect(await current.byId(it.project.id)).toBe(before);
      it.context.bus.publish({ type: 'project_changed', projectId: it.project.id });
      expect(await current.byId(it.project.id)).not.toBe(before);
    });
  });

  test('know of a new project within seconds, though it was asked for before', async () => {
    await queriesDuring(async () => {
      const id = '0197a3c4-5b6e-7f01-8a2b-3c4d5e6f7000';
      expect(await current.byId(id)).toBe(undefined);
      const made = await createProject(it.context, 'late');
      await it.db.query({ name: 'move', text: 'update projects set id = $1 where id = $2' }, [id, made?.id]);
      it.clock.advance(5_001);
      // Its secrets were sealed for the id it had: a row that was moved does not open.
      await expect(Promise.resolve(current.byId(id))).rejects.toThrow('sealed for another purpose');
    });
  });
});

describe('projects', () => {
  test('have names of their own, and are found by name or id', async () => {
    expect(await createProject(it.context, 'default')).toBe(undefined);
    const found = await findProject(it.context, 'default');
    expect(found).toMatchObject({ id: it.project.id, apiKey: it.project.apiKey });
    expect(await findProject(it.context, it.project.id)).toEqual(found);
    expect(await findProject(it.context, 'nobody')).toBe(undefined);
    expect(await listProjects(it.context)).toContainEqual(found);
    expect(
      await issueToken(it.context, { projectId: '0197a3c4-5b6e-7f01-8a2b-3c4d5e6f7081', name: 'x' }),
    ).toBe(undefined);
  });

  test('keep their secrets sealed', async () => {
    const rows = await it.db.query<{ all: string }>({
      name: 'dump',
      text: "select string_agg(projects::text || encode(sealed_api_secret, 'escape'), '') as all from projects",
    });
    expect(it.project.apiSecret).toMatch(/^sk_/);
    expect(rows[0]?.all).toContain(it.project.apiKey);
    expect(rows[0]?.all).not.toContain(it.project.apiSecret);
  });
});
