import { randomBytes } from 'node:crypto';
import { existsSync, readFileSync, rmSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { startService } from '../../src/app.ts';
import { checkProjects } from '../../src/cli/doctor/projects.ts';
import { type Config, readConfig } from '../../src/config.ts';
import { type Database, openDatabase, sql } from '../../src/db/client.ts';
import { sealedFor } from '../../src/domain/setup/integrations/cache.ts';
import { claimSealingKey, keyFit } from '../../src/domain/setup/projects/sealing-key.ts';
import { createLogger } from '../../src/lib/log.ts';
import { createSealer } from '../../src/lib/seal.ts';
import { open } from '../../src/open.ts';
import { createTestDatabase, type TestDatabase } from '../support/database.ts';

const silent = createLogger({ level: 'silent' });
let root: string;
let database: TestDatabase;
let db: Database;
beforeAll(async () => {
  root = await mkdtemp(join(tmpdir(), 'belfry-keys-'));
});
afterAll(() => rm(root, { recursive: true, force: true }));
beforeEach(async () => {
  database = await createTestDatabase();
  db = openDatabase(database.connection, { size: 2, name: 'test' });
});
afterEach(async () => {
  await db.close();
  await database.drop();
});

/** The settings of a node with a separate data directory. */
function node(name: string, settings: Record<string, string> = {}): Config {
  return readConfig({ DATA_DIR: join(root, name), DATABASE_URL: database.url, PORT: '0', ...settings });
}
const keyFile = ({ DATA_DIR }: Config) => join(DATA_DIR, 'secret.key');

async function started(config: Config, log = silent): Promise<void> {
  const service = await startService(config, { log });
  await service.stop();
}

/** The log lines at the level of an error while a server starts with these settings. */
async function errorsOf(config: Config): Promise<string> {
  const lines: string[] = [];
  await started(config, createLogger({ level: 'error', stream: { write: (line) => lines.push(line) } }));
  return lines.join('\n');
}

describe('a start without the key', () => {
  test('on a database with secrets fails with one line, and creates no key', async () => {
    const config = node('lost');
    await started(config);
    const before = readFileSync(keyFile(config), 'utf8');
    rmSync(keyFile(config));
    const refused = await started(config).then(
      () => undefined,
      (error: Error) => error,
    );
    expect(existsSync(keyFile(config))).toBe(false);
    expect(refused?.message).toMatch(
      new RegExp(
        String.raw`^\S*secret\.key is missing, and the secrets in the database were encrypted with the key ` +
          `[0-9a-f]{8}: restore .*, or set SECRET_KEY$`,
      ),
    );
    // It starts with the lost key, wherever that is set.
    await started(node('lost', { SECRET_KEY: before.trim() }));
  });

  test('fails even without a project, once another server has set the database up', async () => {
    await started(node('first'));
    await db.query(sql('', 'truncate projects cascade'));
    const config = node('second');
    await expect(started(config)).rejects.toThrow(/secret\.key is missing/);
    expect(existsSync(keyFile(config))).toBe(false);
    const other = node('second', { SECRET_KEY: randomBytes(32).toString('hex') });
    await expect(started(other)).rejects.toThrow(/SECRET_KEY/);
    await started(node('first'));
  });

  test('does not affect a command that needs no secret; another reports the problem', async () => {
    const config = node('commands');
    await started(config);
    rmSync(keyFile(config));
    const opened = await open(config, { role: 'client', log: silent });
    expect(() => opened.sealer.seal('x', 'y')).toThrow(/secret\.key is missing/);
    await opened.close();
    expect(existsSync(keyFile(config))).toBe(false);
  });
});

test('of two servers with separate keys on an empty database one starts, the other explains', async () => {
  const configs = [node('one'), node('other')];
  const results = await Promise.allSettled(configs.map((config) => started(config)));
  const refused = results.flatMap((result) => (result.status === 'rejected' ? [result.reason.message] : []));
  expect(refused).toHaveLength(1);
  expect(refused[0]).not.toContain('\n');
  expect(refused[0]).toMatch(/secret\.key/);
});

test('one of several sealers with different keys claims the database', async () => {
  const sealers = Array.from({ length: 8 }, () => createSealer([randomBytes(32)]));
  const fits = await Promise.all(sealers.map((sealer) => claimSealingKey({ db, sealer })));
  expect(fits.filter(({ kind }) => kind === 'fits')).toHaveLength(1);
  expect(fits.filter(({ kind }) => kind === 'claimed')).toHaveLength(7);
  const winner = sealers[fits.findIndex(({ kind }) => kind === 'fits')];
  expect(winner && (await claimSealingKey({ db, sealer: winner }))).toMatchObject({ kind: 'fits' });
});

test('a replaced key is not needed once no secret is sealed with it', async () => {
  const [old, fresh] = [randomBytes(32), randomBytes(32)];
  await started(node('rotated', { SECRET_KEY: old.toString('hex') }));
  const both = `${fresh.toString('hex')},${old.toString('hex')}`;
  await started(node('rotated', { SECRET_KEY: both }));
  const sealer = createSealer([fresh]);
  await expect(keyFit({ db, sealer })).resolves.toMatchObject({ kind: 'other_keys' });
  const [project] = await db.query<{ id: string; api: Buffer; signing: Buffer }>(
    sql('', 'select id, sealed_api_secret as api, sealed_signing_key as signing from projects'),
  );
  if (project === undefined) throw new Error('no project');
  const reseal = (value: Buffer, field: string) => {
    const purpose = `project:${project.id}:${field}`;
    return sealer.seal(createSealer([old]).open(value, purpose), purpose);
  };
  await db.query(sql('', 'update projects set sealed_api_secret = $1, sealed_signing_key = $2'), [
    reseal(project.api, 'api_secret'),
    reseal(project.signing, 'signing_key'),
  ]);
  await started(node('rotated', { SECRET_KEY: fresh.toString('hex') }));
});

test('an integration whose key is missing is reported at the start, by doctor and in lists', async () => {
  const config = node('integrations');
  const service = await startService(config, { log: silent });
  const headers = {
    authorization: `Bearer ${service.credentials?.project_jwt}`,
    'content-type': 'application/json',
  };
  const lost = createSealer([randomBytes(32)]);
  const keyId = lost.keyIds[0];
  const id = '0197a3c4-5b6e-7f01-8a2b-3c4d5e6f7081';
  const projectId = service.credentials?.project_id ?? '';
  try {
    const url = `${service.address}/v2/integrations`;
    await fetch(`${url}/inbox`, { method: 'PUT', headers, body: '{}' });
    await db.query(
      sql(
        '',
        `insert into integrations (id, project_id, provider, sealed_config, created_at, updated_at)
        values ($1, $2, 'github', $3, now(), now())`,
      ),
      [id, projectId, lost.seal('{"webhook_signing_secret":"canary-77"}', sealedFor(projectId, id))],
    );
    for (const path of ['/github', '']) {
      const { data } = (await (await fetch(`${url}${path}`, { headers })).json()) as {
        data: { name: string }[];
      };
      expect(data.find(({ name }) => name === 'github')).toEqual({
        name: 'github',
        id,
        config: null,
        error: { code: 'config_unreadable', message: expect.stringContaining(`the key ${keyId}`) },
      });
    }
  } finally {
    await service.stop();
  }
  const line =
    `1 integration encrypted with the key ${keyId}, which this server does not have: github of project ` +
    `default (${id})`;
  expect(await errorsOf(config)).toContain(line);
  const { findings } = await checkProjects(config, db);
  expect(findings).toContainEqual(
    expect.objectContaining({ check: 'integrations', status: 'problem', message: line }),
  );
  expect(JSON.stringify(findings)).not.toContain('canary-77');
});

test('other secrets whose key is missing are counted by doctor', async () => {
  const config = node('others');
  await started(config);
  const lost = createSealer([randomBytes(32)]);
  const sealed = lost.seal('canary-78', 'any');
  const key = `insert into suppression_keys (project_id, sealed_key, created_at)
    select id, $1, now() from projects
    on conflict (project_id) do update set sealed_key = excluded.sealed_key`;
  const token = `insert into tokens (user_id, id, project_id, channel, hash, sealed_data, created_at)
    select gen_random_uuid(), gen_random_uuid(), id, 'mobile_push', '', $1, now() from projects`;
  for (const statement of [key, token]) await db.query(sql('', statement), [sealed]);
  const { findings } = await checkProjects(config, db);
  expect(findings).toContainEqual({
    check: 'secrets',
    status: 'problem',
    message:
      `encrypted with the key ${lost.keyIds[0]}, which this server does not have: ` +
      'keys of suppressions: 1, tokens: 1',
    advice: expect.stringContaining('SECRET_KEY'),
  });
  expect(JSON.stringify(findings)).not.toContain('canary');
});

test('doctor lists the Project JWTs without exp', async () => {
  const config = node('tokens');
  await started(config);
  const tokens = async () =>
    (await checkProjects(config, db)).findings.filter(({ check }) => check === 'tokens');
  expect(await tokens()).toEqual([
    {
      check: 'tokens',
      status: 'ok',
      message: expect.stringMatching(/^1 Project JWT without exp: credentials/),
    },
  ]);
  await db.query(
    sql(
      '',
      `insert into project_tokens (jti, project_id, name, issued_at, expires_at, revoked_at, key_ends_at)
      select gen_random_uuid(), id, kind, now(),
        case kind when 'ending' then now() + interval '1 day' end, case kind when 'revoked' then now() end,
        case kind when 'of a former key' then now() end
      from projects, unnest(array['endless', 'ending', 'revoked', 'of a former key']) as kind`,
    ),
  );
  // Not the one that the command line uses: who revokes it cannot send by it any more.
  expect(await tokens()).toEqual([
    {
      check: 'tokens',
      status: 'warning',
      message: expect.stringMatching(/^1 Project JWT without exp: endless of project default \([^,]*\)$/),
      advice: expect.stringContaining('--expires'),
    },
    expect.objectContaining({ status: 'ok', message: expect.stringContaining('credentials.json') }),
  ]);
});
