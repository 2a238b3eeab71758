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
import { startTestServer, type TestServer } from '../support/http.ts';
import { startTestService } from '../support/service.ts';

// What somebody tried who wished the service ill. Each test is named after what went wrong then.
let service: TestServer;
beforeAll(async () => {
  service = await startTestServer();
});
afterAll(() => service.close());

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
    const refused = await service.call('POST', '/v2/broadcasts', { token: service.project.jwt, raw });
    expect(refused.status).toBe(413);
    expect(refused.messages).toEqual(["Param 'recipients' has more than 50,000 keys and values"]);
  });

  test('a content of commas and brackets is one value', async () => {
    const body = { title: 'x', content: ',[{'.repeat(500_000), recipients: [{ external_id: 'a' }] };
    const taken = await service.call('POST', '/v2/broadcasts', { token: service.project.jwt, body });
    expect(taken.status).toBe(201);
  });
});

test('a request that also offers HTTP/2 (Upgrade: h2c), as the first one of Java and of curl --http2, was refused', async () => {
  const asked = request(`${service.base}/v2/users`, {
    headers: {
      authorization: `Bearer ${service.project.jwt}`,
      connection: 'Upgrade, HTTP2-Settings',
      upgrade: 'h2c',
      'http2-settings': 'AAMAAABkAAQAoAAAAAIAAAAA',
    },
  }).end();
  const [answer] = (await once(asked, 'response')) as [IncomingMessage];
  answer.resume();
  expect(answer.statusCode).toBe(200);
});

test('the token of an unsubscribe link stood in the log when it was asked for with another method', async () => {
  const talkative = await startTestServer({ logLevel: 'debug' });
  try {
    for (const [method, path] of [
      ['PUT', '/unsubscribe/SECRET'],
      ['OPTIONS', '/unsubscribe/SECRET'],
      ['GET', '//unsubscribe/SECRET?a=b'],
      ['GET', '/unsubscribe/SECRET/'],
    ] as const)
      await talkative.call(method, path);
    const lines = talkative.logged.filter((line) => line.includes('unsubscribe'));
    expect(lines).toHaveLength(4);
    expect(lines.join()).not.toContain('SECRET');
  } finally {
    await talkative.close();
  }
});

test('tokens could be guessed at the WebSocket without limit', async () => {
  const limited = await startTestService({ settings: { RATE_LIMIT_IP: '3' } });
  const guess = async () => {
    const asked = request(`${limited.address}/?api_key=${limited.project.apiKey}&token=${'x'.repeat(64)}`, {
      headers: { connection: 'Upgrade', upgrade: 'websocket' },
    }).end();
    const [answer] = (await once(asked, 'response')) as [IncomingMessage];
    answer.resume();
    return answer;
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

test('forty callers of /metrics, which anyone may call, held all connections of the database', async () => {
  const lock = await service.db.connect();
  try {
    await lock.query('begin; lock table jobs in access exclusive mode');
    const asked = Array.from({ length: 40 }, () => service.call('GET', '/metrics'));
    const answers = await Promise.all(asked); // each gives up waiting for the queue's figures
    expect(answers.every(({ status }) => status === 200)).toBe(true);
    const { rows } = await lock.query<{ waiting: number }>(
      "select count(*)::int as waiting from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()",
    );
    expect(rows).toEqual([{ waiting: 1 }]);
    expect((await service.call('GET', '/v2/users', { token: service.project.jwt })).status).toBe(200);
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

  test('with another SECRET_KEY the server said that it was ready, and failed every request', async () => {
    const first = await opened({ SECRET_KEY: old });
    const project = await createProject(first, 'one');
    const provider = 'smtp';
    await saveIntegration(first, { projectId: project?.id ?? '', provider, config: { password: 'p' } });
    await first.close();
    await expect(opened({ SECRET_KEY: other })).rejects.toThrow(
      /^the secrets in the database cannot be opened .*SECRET_KEY=<new>,<old>$/,
    );

    const rotated = await opened({ SECRET_KEY: `${other},${old}` });
    expect((await rotated.projects.byId(project?.id ?? ''))?.name).toBe('one');
    const [integration] = await findIntegrations(rotated, project?.id ?? '', provider);
    expect(integration?.config).toEqual({ password: 'p' });
    await createProject(rotated, 'two');
    await rotated.close();
    expect(logged).toEqual([]);

    // One of two keys is gone: the project sealed with the other still works.
    const half = await opened({ SECRET_KEY: other });
    await half.close();
    expect(logged.join()).toContain('Some projects cannot be used');
  });

  test.skipIf(process.platform === 'win32')(
    'a data directory made under umask 000 could be written by everybody',
    async () => {
      const dataDir = join(folder, 'made', 'here');
      const before = process.umask(0);
      const context = await opened({ DATA_DIR: dataDir }, 'client').finally(() => process.umask(before));
      await context.close();
      for (const path of [dataDir, join(folder, 'made')]) expect((await stat(path)).mode & 0o022).toBe(0);
      expect((await stat(join(dataDir, 'secret.key'))).mode & 0o777).toBe(0o600);
    },
  );

  test.skipIf(process.platform === 'win32')('nobody was told of a key that others can read', async () => {
    await writeFile(join(folder, 'secret.key'), `${old}\n`, { mode: 0o644 });
    await chmod(folder, 0o777);
    await (await opened({})).close();
    expect(logged.join('\n')).toContain(`${folder} can be changed by every user`);
    expect(logged.join('\n')).toContain('secret.key can be read by other users');
  });

  test('a secret.key that is a link to nothing was said to have vanished', async () => {
    await symlink(join(folder, 'nowhere'), join(folder, 'secret.key'));
    await expect(opened({})).rejects.toThrow('links to a file that does not exist');
  });
});
