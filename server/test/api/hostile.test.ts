import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { chmod, mkdtemp, rm, stat, symlink, writeFile } from 'node:fs/promises';
import { type IncomingMessage, request } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { readConfig } from '../../src/config.ts';
import { NewBroadcastSchema } from '../../src/contract/broadcast.ts';
import { validatorFor } from '../../src/contract/validation.ts';
import { findIntegrations } from '../../src/domain/setup/integrations/find.ts';
import { saveIntegration } from '../../src/domain/setup/integrations/save.ts';
import { createProject } from '../../src/domain/setup/projects/create.ts';
import { createLogger } from '../../src/lib/log.ts';
import { open } from '../../src/open.ts';
import { createTestDatabase } from '../support/database.ts';
import { startTestService, type TestService } from '../support/service.ts';

// Attacks and misconfigurations. Each test is named after what went wrong.
let service: TestService;
beforeAll(async () => {
  service = await startTestService();
});
afterAll(() => service.stop());

const repeated = (text: string, times: number) => Array(times).fill(text).join(',');

describe('bodies that are small on the wire and large in memory', () => {
  test('a million wrong recipients made a million error objects, and took 10 s and 3 GB', () => {
    const validate = validatorFor('body', NewBroadcastSchema);
    expect(validate({ title: 'x', recipients: Array(200_000).fill(0) })).toBe(false);
    expect(validate.errors.length).toBeLessThan(6_000);
    expect(validate.errors[0]).toMatchObject({ keyword: 'maxItems', instancePath: '/recipients' });
    expect(validate({ title: 'x', recipients: [{ external_id: 'a' }] })).toBe(true);
    expect(validate.errors).toEqual([]);
  });

  test('ten million empty arrays became 3 GB when they were parsed', async () => {
    const raw = `{"title":"x","recipients":[${repeated('[]', 1_100_000)}]}`;
    const refused = await service.request('POST', '/v2/broadcasts', { token: service.project.jwt, raw });
    expect(refused.status).toBe(413);
    expect(refused.messages).toEqual(["Param 'recipients' has more than 50,000 keys and values"]);
  });

  test('a content of commas and brackets is one value', async () => {
    const body = { title: 'x', content: ',[{'.repeat(500_000), recipients: [{ external_id: 'a' }] };
    const taken = await service.request('POST', '/v2/broadcasts', { token: service.project.jwt, body });
    expect(taken.status).toBe(201);
  });
});

test('a request with Upgrade: h2c, as Java and curl --http2 send first, was refused', async () => {
  const upgrade = request(`${service.address}/v2/users`, {
    headers: {
      authorization: `Bearer ${service.project.jwt}`,
      connection: 'Upgrade, HTTP2-Settings',
      upgrade: 'h2c',
      'http2-settings': 'AAMAAABkAAQAoAAAAAIAAAAA',
    },
  }).end();
  const [response] = (await once(upgrade, 'response')) as [IncomingMessage];
  response.resume();
  expect(response.statusCode).toBe(200);
});

test('the token of an unsubscribe link was logged for another method', async () => {
  const talkative = await startTestService({ logLevel: 'debug' });
  try {
    for (const [method, path] of [
      ['PUT', '/unsubscribe/SECRET'],
      ['OPTIONS', '/unsubscribe/SECRET'],
      ['GET', '//unsubscribe/SECRET?a=b'],
      ['GET', '/unsubscribe/SECRET/'],
    ] as const)
      await talkative.request(method, path);
    const lines = talkative.logged.filter((line) => line.includes('unsubscribe'));
    expect(lines).toHaveLength(4);
    expect(lines.join()).not.toContain('SECRET');
    // As mail programs and filters that encode a link call it.
    const token = `${'Ab_-9'.repeat(14)}SECRET`;
    for (const path of ['/unsubscribe%2F', '/preferences%2f', '/t%2Fc%2Fe', '/%2570references/', '/u/'])
      await talkative.request('GET', `${path}${token}`);
    await talkative.request('PUT', `/%70references/${token}`);
    const statuses = talkative.logged.filter((line) => /"status":40[45]/.test(line));
    expect(statuses.length).toBeGreaterThanOrEqual(6);
    expect(talkative.logged.join()).not.toContain('SECRET');
  } finally {
    await talkative.stop();
  }
});

test('addresses and external ids of users, and tokens of devices, were logged with the path', async () => {
  const talkative = await startTestService({ logLevel: 'debug' });
  const { project } = talkative;
  const device = `SECRET_-42:${'APA91b'.repeat(20)}`;
  try {
    await project.call('PUT', '/users', { external_id: 'SECRET/42', email: 'SECRET@example.com' });
    for (const path of [
      '/users/email:SECRET@example.com',
      '/users/email%3ASECRET%40example.com/notifications',
      '/users/external_id:SECRET/42',
      '/users/external_id:SECRET%2F42/preferences',
      '/users/email:SECRET@example.org',
      '/users/Email:SECRET@example.org/unknown',
      '/%75sers/external_id%253ASECRET',
    ])
      await project.call('GET', path);
    await project.v1('GET', '/users/email:SECRET@example.org/notifications');
    for (const path of ['/push_subscriptions', '/channels/mobile_push/fcm/tokens'])
      await project.v1As('ada')('DELETE', `${path}/${device}`);
    await project.as('ada')('GET', `/channels/mobile_push/fcm/tokens/${device}`);
    const id = crypto.randomUUID();
    await project.as('ada')('GET', `/channels/mobile_push/fcm/tokens/${id}`);
    const lines = talkative.logged.filter((line) => line.includes('"msg":"request"'));
    expect(lines).toHaveLength(13);
    expect(lines.filter((line) => line.includes('SECRET'))).toEqual([]);
    expect(lines[1]).toContain('"path":"/v2/users/:user_id"');
    expect(lines[2]).toContain('"path":"/v2/users/:user_id/notifications"');
    expect(lines.at(-1)).toContain(id);
  } finally {
    await talkative.stop();
  }
});

test('tokens could be guessed over WebSockets without limit', async () => {
  const limited = await startTestService({ settings: { RATE_LIMIT_IP: '3' } });
  const guess = async () => {
    const query = new URLSearchParams({ api_key: limited.project.apiKey, token: 'x'.repeat(64) });
    const upgrade = request(`${limited.address}/?${query}`, {
      headers: { connection: 'Upgrade', upgrade: 'websocket' },
    }).end();
    const [response] = (await once(upgrade, 'response')) as [IncomingMessage];
    response.resume();
    return response;
  };
  try {
    for (let tried = 0; tried < 3; tried += 1) expect((await guess()).statusCode).toBe(401);
    const refused = await guess();
    expect(refused.statusCode).toBe(429);
    expect(Number(refused.headers['retry-after'])).toBeGreaterThan(0);
  } finally {
    await limited.stop();
  }
});

test('forty requests of /metrics, which is public, used all connections of the database', async () => {
  const lock = await service.context.db.connect();
  try {
    await lock.query('begin; lock table jobs in access exclusive mode');
    const requests = Array.from({ length: 40 }, () => service.request('GET', '/metrics'));
    const responses = await Promise.all(requests);
    expect(responses.every(({ status }) => status === 200)).toBe(true);
    const { rows } = await lock.query<{ waiting: number }>(
      `select count(*)::int as waiting
      from pg_stat_activity
      where wait_event_type = 'Lock' and datname = current_database()
        and application_name like 'belfry api (%)'`,
    );
    expect(rows).toEqual([{ waiting: 1 }]);
    expect((await service.request('GET', '/v2/users', { token: service.project.jwt })).status).toBe(200);
  } finally {
    await lock.end();
  }
});

describe('keys and files', () => {
  const key = () => randomBytes(32).toString('hex');
  const [old, other] = [key(), key()];
  let database: Awaited<ReturnType<typeof createTestDatabase>>;
  let folder: string;
  let logged: string[];
  beforeEach(async () => {
    database = await createTestDatabase();
    folder = await mkdtemp(join(tmpdir(), 'belfry-hostile-'));
    logged = [];
  });
  afterEach(async () => {
    await database.drop();
    await rm(folder, { recursive: true, force: true });
  });

  function opened(settings: Record<string, string>, role: 'server' | 'client' = 'server') {
    const config = readConfig({ DATABASE_URL: database.url, DATA_DIR: folder, ...settings });
    const write = (line: string) => {
      if (!line.includes('fsync is off')) logged.push(line); // it is, in the server of the tests
    };
    const log = createLogger({ level: 'warn', stream: { write } });
    return open(config, { role, log });
  }

  test('with another SECRET_KEY, the server was ready, and failed every request', async () => {
    const first = await opened({ SECRET_KEY: old });
    const project = await createProject(first, 'one');
    const provider = 'smtp';
    await saveIntegration(first, { projectId: project?.id ?? '', provider, config: { password: 'p' } });
    await first.close();
    await expect(opened({ SECRET_KEY: other })).rejects.toThrow(
      /^the secrets in the database cannot be decrypted .*SECRET_KEY=<new>,<old>$/,
    );

    const rotated = await opened({ SECRET_KEY: `${other},${old}` });
    expect((await rotated.projects.byId(project?.id ?? ''))?.name).toBe('one');
    const [integration] = await findIntegrations(rotated, project?.id ?? '', provider);
    expect(integration?.config).toEqual({ password: 'p' });
    await createProject(rotated, 'two');
    await rotated.close();
    expect(logged).toEqual([]);

    // One of two keys is missing. The project that is sealed with the other one works.
    const half = await opened({ SECRET_KEY: other });
    await half.close();
    expect(logged.join()).toContain('Some projects cannot be used');
  });

  test.skipIf(process.platform === 'win32')(
    'a data directory made under umask 000 was writable by all users',
    async () => {
      const dataDir = join(folder, 'made', 'here');
      const before = process.umask(0);
      const context = await opened({ DATA_DIR: dataDir }, 'client').finally(() => process.umask(before));
      await context.close();
      for (const path of [dataDir, join(folder, 'made')]) expect((await stat(path)).mode & 0o022).toBe(0);
      expect((await stat(join(dataDir, 'secret.key'))).mode & 0o777).toBe(0o600);
    },
  );

  test.skipIf(process.platform === 'win32')('a key that others can read was not reported', async () => {
    await writeFile(join(folder, 'secret.key'), `${old}\n`, { mode: 0o644 });
    await chmod(folder, 0o777);
    await (await opened({})).close();
    expect(logged.join('\n')).toContain(`${folder} can be changed by every user`);
    expect(logged.join('\n')).toContain('secret.key can be read by other users');
  });

  test('a secret.key that is a broken link was reported as deleted', async () => {
    await symlink(join(folder, 'nowhere'), join(folder, 'secret.key'));
    await expect(opened({})).rejects.toThrow('links to a file that does not exist');
  });
});
