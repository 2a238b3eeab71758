import { createHmac, createSecretKey } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { sql } from '../../src/db/client.ts';
import { linksOf } from '../../src/domain/ground/links/links.ts';
import { readReceiptToken, receiptUrl, referenceOf } from '../../src/domain/ground/links/reference.ts';
import { unsubscribeToken } from '../../src/domain/ground/links/signed-links.ts';
import { ProjectCache } from '../../src/domain/setup/projects/cache.ts';
import { type KeyKind, validKeys } from '../../src/domain/setup/projects/keys.ts';
import { listKeys } from '../../src/domain/setup/projects/list-keys.ts';
import { removeKey } from '../../src/domain/setup/projects/remove-key.ts';
import { rollKey } from '../../src/domain/setup/projects/roll-key.ts';
import { issueToken, listTokens } from '../../src/domain/setup/projects/tokens.ts';
import { newId } from '../../src/lib/ids.ts';
import { verifyJwt } from '../../src/lib/jwt.ts';
import { createLogger } from '../../src/lib/log.ts';
import { createSealer } from '../../src/lib/seal.ts';
import { type Opened, open } from '../../src/open.ts';
import { hs256 } from '../support/jwt.ts';
import { startTestService, type TestService } from '../support/service.ts';
import { TestClock } from '../support/test-clock.ts';

const HOUR_MS = 3_600_000;

const clock = new TestClock();
let it: TestService;
/** Another process on the same database, such as the command line. */
let command: Opened;
let projects = 0;

beforeAll(async () => {
  it = await startTestService({ clock });
  const { config } = it.context;
  command = await open(config, { role: 'client', log: createLogger({ level: 'silent' }), clock });
  await command.bus.listening();
});
afterAll(async () => {
  await command?.close();
  await it?.stop();
});

async function aProject() {
  projects += 1;
  return it.createProject(`project ${projects}`);
}

type Project = Awaited<ReturnType<typeof aProject>>;

const userJwt = ({ apiKey }: Project, secret: string) =>
  hs256({ api_key: apiKey, user_external_id: 'ada' }, createSecretKey(Buffer.from(secret)));
const asUser = async (token: string) => (await it.request('GET', '/v2/notifications', { token })).status;
const asProject = async (token: string) => (await it.request('GET', '/v2/broadcasts', { token })).status;

async function roll(kind: KeyKind, projectId: string, overlapMs: number, by: Opened = command) {
  const rolled = await rollKey(by, { projectId, kind, overlapMs });
  if (rolled === undefined) throw new Error('the project is gone');
  return rolled;
}

async function rollSecret(projectId: string, overlapMs: number, by?: Opened): Promise<string> {
  const { apiSecret } = await roll('api_secret', projectId, overlapMs, by);
  return String(apiSecret);
}

async function newToken(projectId: string) {
  const issued = await issueToken(command, { projectId, name: 'new' });
  if (issued === undefined) throw new Error('the project is gone');
  return issued;
}

async function atTime<Result>(offsetMs: number, work: () => Promise<Result>): Promise<Result> {
  clock.advance(offsetMs);
  try {
    return await work();
  } finally {
    clock.advance(-offsetMs);
  }
}

describe('the API secret', () => {
  test('a rolled secret and the new one are both valid until the overlap ends', async () => {
    const project = await aProject();
    const before = userJwt(project, project.apiSecret);
    expect(await asUser(before)).toBe(200);
    const after = userJwt(project, await rollSecret(project.id, HOUR_MS));
    expect([await asUser(before), await asUser(after)]).toEqual([200, 200]);
    expect(await atTime(HOUR_MS - 60_000, () => asUser(before))).toBe(200);
    expect(await atTime(HOUR_MS + 1_000, () => asUser(before))).toBe(401);
    expect(await atTime(HOUR_MS + 1_000, () => asUser(after))).toBe(200);
  });

  test('ends at once without an overlap, even if the clock of a node is behind', async () => {
    const project = await aProject();
    const before = userJwt(project, project.apiSecret);
    expect(await atTime(-HOUR_MS, () => asUser(before))).toBe(200);
    const after = userJwt(project, await rollSecret(project.id, 0));
    await expect.poll(() => atTime(-HOUR_MS, () => asUser(before))).toBe(401);
    expect(await asUser(after)).toBe(200);
  });

  test('rolled twice, it ends no later than the shorter overlap', async () => {
    const project = await aProject();
    const first = userJwt(project, project.apiSecret);
    const second = userJwt(project, await rollSecret(project.id, 24 * HOUR_MS));
    const third = userJwt(project, await rollSecret(project.id, HOUR_MS));
    expect([await asUser(first), await asUser(second), await asUser(third)]).toEqual([200, 200, 200]);
    const later = () => atTime(HOUR_MS + 1_000, async () => [await asUser(first), await asUser(second)]);
    expect(await later()).toEqual([401, 401]);
  });

  test('is not accepted for another project', async () => {
    const [one, other] = [await aProject(), await aProject()];
    const secret = await rollSecret(one.id, HOUR_MS);
    expect(await asUser(userJwt(other, secret))).toBe(401);
    expect(await asUser(userJwt(other, one.apiSecret))).toBe(401);
  });

  test('signs requests to a custom mailer, together with the former one while that is valid', async () => {
    const project = await aProject();
    const secret = await rollSecret(project.id, HOUR_MS);
    const keysAt = async (nowMs: number) => {
      const found = await command.projects.byId(project.id);
      return validKeys(found?.apiSecrets ?? [], nowMs).map((key) => key.export().toString());
    };
    expect(await keysAt(clock.now())).toEqual([secret, project.apiSecret]);
    expect(await keysAt(clock.now() + 2 * HOUR_MS)).toEqual([secret]);
  });
});

describe('the signing key', () => {
  test('a rolled key ends with its overlap, and the list of tokens shows which end with it', async () => {
    const project = await aProject();
    const { formerValidUntil, tokensEnding } = await roll('signing_key', project.id, HOUR_MS);
    const { token } = await newToken(project.id);
    expect(tokensEnding).toBe(1);
    expect([await asProject(project.jwt), await asProject(token)]).toEqual([200, 200]);
    const listed = await listTokens(command, project.id);
    expect(new Map(listed.map(({ name, keyEndsAt }) => [name, keyEndsAt]))).toEqual(
      new Map([
        ['test', formerValidUntil],
        ['new', null],
      ]),
    );
    expect(await atTime(HOUR_MS + 1_000, () => asProject(project.jwt))).toBe(401);
    expect(await atTime(HOUR_MS + 1_000, () => asProject(token))).toBe(200);
  });

  test('a token that is issued during a roll has the key that the list shows', async () => {
    const project = await aProject();
    const issuing = Array.from({ length: 20 }, () => newToken(project.id));
    await Promise.all([1, 2, 3].map(() => roll('signing_key', project.id, HOUR_MS)));
    const tokens = await Promise.all(issuing);
    const listed = new Map((await listTokens(command, project.id)).map((one) => [one.jti, one.keyEndsAt]));
    const current = (await command.projects.byId(project.id))?.signingKey;
    if (current === undefined) throw new Error('the project is gone');
    for (const { token, issued } of tokens) {
      const isCurrent = (await verifyJwt(token, current, clock.now())).ok;
      expect(isCurrent ? null : expect.any(Date)).toEqual(listed.get(issued.jti));
    }
    expect([...listed.values()]).toContainEqual(expect.any(Date));
  });

  test('links in messages are valid after their key has ended, until it is removed', async () => {
    const project = await aProject();
    const known = await command.projects.byId(project.id);
    if (known === undefined) throw new Error('the project is gone');
    const { body } = await it.request('PUT', '/v2/users', { token: project.jwt, body: { external_id: 'u' } });
    const userId: string = body.id;
    const what = { projectId: project.id, userId, channel: 'email', category: 'news' };
    const unsubscribe = `/unsubscribe/${unsubscribeToken(known.signingKey, what)}`;
    const about = { broadcastId: newId(), userId, channel: 'email' as const };
    const target = `${it.address}/healthz`;
    const links = linksOf({ PUBLIC_URL: it.address }, known, { opens: true, clicks: true }, about);
    const tracked = String(links?.clickUrl?.({ target, encoded: encodeURIComponent(target) })).slice(
      it.address.length,
    );
    const integration = { id: newId(), provider: 'twilio' };
    const reference = referenceOf(about);
    const receipt = receiptUrl({ PUBLIC_URL: it.address }, known, integration, reference);
    const token = new URL(String(receipt)).searchParams.get('token') ?? '';

    const [former] = await listKeys(command, project.id).then((keys) =>
      keys.filter(({ kind }) => kind === 'signing_key'),
    );
    await roll('signing_key', project.id, 0);
    await expect.poll(() => asProject(project.jwt)).toBe(401);
    const statuses = async () => [
      (await it.request('GET', unsubscribe)).status,
      (await it.request('GET', tracked)).status,
    ];
    const reported = async () =>
      readReceiptToken((await command.projects.byId(project.id))?.signingKeys ?? [], integration.id, token);
    expect([await statuses(), await reported()]).toEqual([[200, 200], reference]);

    expect(await removeKey(command, project.id, String(former?.id))).toBe('removed');
    await expect.poll(statuses).not.toContain(200);
    expect(await reported()).toBeUndefined();
  });

  test('is removed neither while it is valid nor while it is the current one', async () => {
    const project = await aProject();
    await roll('signing_key', project.id, HOUR_MS);
    const keys = (await listKeys(command, project.id)).filter(({ kind }) => kind === 'signing_key');
    expect(keys.map(({ state }) => state)).toEqual(['current', 'valid']);
    const removals = keys.map(({ id }) => removeKey(command, project.id, id));
    expect(await Promise.all(removals)).toEqual(['unknown', 'valid']);
  });
});

test('a key that cannot be opened can be rolled, and is then listed and removed as usual', async () => {
  const project = await aProject();
  const lost = createSealer([Buffer.alloc(32, 1)]);
  await command.db.query(
    sql('', 'update projects set sealed_api_secret = $2, sealed_signing_key = $3 where id = $1'),
    [project.id, lost.seal('sk_lost', 'lost'), lost.seal('lost', 'lost')],
  );
  const secret = await rollSecret(project.id, 0);
  await roll('signing_key', project.id, 0);
  const { token } = await newToken(project.id);
  await expect.poll(() => asProject(token)).toBe(200);
  expect(await asUser(userJwt(project, secret))).toBe(200);
  const former = (await listKeys(command, project.id)).filter(({ state }) => state === 'ended');
  expect(former.map(({ kind }) => kind)).toEqual(['api_secret', 'signing_key']);
  for (const { id } of former) expect(await removeKey(command, project.id, id)).toBe('removed');
  expect(await listKeys(command, project.id)).toHaveLength(2);
});

test('the list of keys shows which are in use', async () => {
  const project = await aProject();
  const secret = await rollSecret(project.id, HOUR_MS);
  expect(await asUser(userJwt(project, secret))).toBe(200);
  expect(await asProject(project.jwt)).toBe(200);
  await it.http.context.keyUses.flush();
  const keys = await listKeys(command, project.id);
  expect(keys.map(({ kind, state, lastUsedAt }) => [kind, state, lastUsedAt !== null])).toEqual([
    ['api_secret', 'current', true],
    ['api_secret', 'valid', false],
    ['signing_key', 'current', true],
  ]);
  // Requests within a minute cause one write.
  expect(await asUser(userJwt(project, project.apiSecret))).toBe(200);
  await it.http.context.keyUses.flush();
  expect((await listKeys(command, project.id))[1]?.lastUsedAt).toBeInstanceOf(Date);
});

test('many rolls under load reject no token of a valid key, with and without bus messages', async () => {
  const project = await aProject();
  // A process whose messages get lost.
  const mute: Opened = { ...command, bus: Object.assign(Object.create(command.bus), { publish() {} }) };
  const users = [userJwt(project, project.apiSecret)];
  const tokens = [project.jwt];
  const refused: string[] = [];
  let requests = 0;
  const rolling = new AbortController();
  const load = async () => {
    while (!rolling.signal.aborted) {
      for (const token of users) if ((await asUser(token)) !== 200) refused.push(token);
      for (const token of tokens) if ((await asProject(token)) !== 200) refused.push(token);
      requests += users.length + tokens.length;
    }
  };
  const clients = [load(), load(), load()];
  for (let round = 0; round < 6; round += 1) {
    const by = round % 2 === 0 ? command : mute;
    users.push(userJwt(project, await rollSecret(project.id, HOUR_MS, by)));
    // The first requests with a new key arrive at once, from several clients, on a node that may not know it.
    const fresh = String(users.at(-1));
    refused.push(
      ...(await Promise.all([1, 2, 3].map(() => asUser(fresh))))
        .filter((status) => status !== 200)
        .map(String),
    );
    await roll('signing_key', project.id, HOUR_MS, by);
    tokens.push((await newToken(project.id)).token);
    const seen = requests;
    await expect.poll(() => requests).toBeGreaterThan(seen);
  }
  rolling.abort();
  await Promise.all(clients);
  expect(refused).toEqual([]);
});

test('wrong tokens cause a statement or two a second, not one each', async () => {
  const project = await aProject();
  let statements = 0;
  const { context } = it;
  const counting: typeof context.db = {
    ...context.db,
    query: (statement, values) => {
      statements += 1;
      return context.db.query(statement, values);
    },
  };
  let now = Date.now();
  const cache = new ProjectCache({ ...context, db: counting, clock: { now: () => now } });
  try {
    const known = await cache.byId(project.id);
    if (known === undefined) throw new Error('the project is gone');
    const wrong = async () => {
      const found = await Promise.all(Array.from({ length: 50 }, () => cache.newerThan(known)));
      expect(new Set(found)).toEqual(new Set([known]));
      return statements;
    };
    const first = await wrong();
    expect(first).toBeLessThanOrEqual(3); // including the one that found the project
    expect(await wrong()).toBe(first);
    now += 1_000;
    const second = await wrong();
    expect(second).toBeGreaterThan(first);
    now -= 3_600_000; // the clock is set back
    expect(await wrong()).toBeGreaterThan(second);
  } finally {
    cache.close();
  }
});

test('changes of other projects during each look-up do not make it repeat', async () => {
  const [project, other] = [await aProject(), await aProject()];
  const { context } = it;
  let statements = 0;
  const changing: typeof context.db = {
    ...context.db,
    query: (statement, values) => {
      statements += 1;
      if (statements < 100) context.bus.publish({ type: 'project_changed', projectId: other.id });
      return context.db.query(statement, values);
    },
  };
  const cache = new ProjectCache({ ...context, db: changing });
  try {
    const found = await cache.byId(project.id);
    expect(found).toMatchObject({ id: project.id });
    expect(statements).toBe(1);
    // What was read during a change is not kept.
    expect(await cache.byApiKey(found?.apiKey ?? '')).toBe(found);
    expect(statements).toBe(2);
    statements = 100;
    await cache.byId(project.id);
    expect(cache.byId(project.id)).toBe(found);
  } finally {
    cache.close();
  }
});

describe('with a whole service', () => {
  let service: TestService;
  beforeAll(async () => {
    service = await startTestService();
  });
  afterAll(() => service?.stop());

  test('an event stream ends with the key of its token', async () => {
    const { project, address, context } = service;
    const response = await fetch(`${address}/v2/events/stream`, {
      headers: { authorization: `Bearer ${project.jwt}` },
    });
    expect(response.status).toBe(200);
    const ended = response.text();
    await rollKey(context, { projectId: project.id, kind: 'signing_key', overlapMs: 0 });
    expect(await ended).toMatch(/^retry: /);
  });

  test('an auth_token that was requested with the former secret ends with it', async () => {
    const { address, context } = service;
    const project = await service.createProject('web push');
    const start = async () => {
      const started = await project.as('ada')('POST', '/integrations/web_push/installations/start');
      return String(started.body.auth_token);
    };
    await rollKey(context, { projectId: project.id, kind: 'api_secret', overlapMs: HOUR_MS });
    const [head = '', claims = '', signature] = (await start()).split('.');
    const mac = createHmac('sha256', project.apiSecret).update(`${head}.${claims}`).digest('base64url');
    expect(signature).toBe(mac);
    await rollKey(context, { projectId: project.id, kind: 'api_secret', overlapMs: 0 });
    const response = await fetch(`${address}/v2/channels/web_push/tokens`, {
      headers: { authorization: `Bearer ${head}.${claims}.${signature}` },
    });
    expect(response.status).toBe(401);
  });
});
