import { randomBytes } from 'node:crypto';
import { existsSync, readFileSync, rmSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { startService } from '../src/app.ts';
import { type Config, readConfig } from '../src/config.ts';
import { type Database, openDatabase, sql } from '../src/db/client.ts';
import { claimSealingKey, keyFit } from '../src/domain/sealing-key.ts';
import { createLogger } from '../src/lib/log.ts';
import { createSealer } from '../src/lib/seal.ts';
import { open } from '../src/open.ts';
import { createTestDatabase, type TestDatabase } from './support/database.ts';

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

/** The settings of a node with a data directory of its own. */
function node(name: string, settings: Record<string, string> = {}): Config {
  return readConfig({ DATA_DIR: join(root, name), DATABASE_URL: database.url, PORT: '0', ...settings });
}
const keyFile = ({ DATA_DIR }: Config) => join(DATA_DIR, 'secret.key');

async function started(config: Config, log = silent): Promise<void> {
  const service = await startService(config, { log });
  await service.stop();
}

describe('a start without the key', () => {
  test('of a database with secrets is refused in one line, and makes no key', async () => {
    const config = node('lost');
    await started(config);
    const before = readFileSync(keyFile(config), 'utf8');
    rmSync(keyFile(config));
    await expect(started(config)).rejects.toThrow(
      /^\S*secret\.key is missing, and the secrets in the database were sealed with the key [0-9a-f]{8}: put your copy .*, or set SECRET_KEY$/,
    );
    expect(existsSync(keyFile(config))).toBe(false);
    // It starts again with the key that was lost, wherever it is given.
    await started(node('lost', { SECRET_KEY: before.trim() }));
  });

  test('is refused although there is no project, once another server has set the database up', async () => {
    await claimSealingKey({ db, sealer: createSealer([randomBytes(32)]) });
    const config = node('second');
    await expect(started(config)).rejects.toThrow(/secret\.key is missing/);
    expect(existsSync(keyFile(config))).toBe(false);
  });

  test('is no hindrance to a command that needs no secret; one that does reports it', async () => {
    const config = node('commands');
    await started(config);
    rmSync(keyFile(config));
    const opened = await open(config, { role: 'client', log: silent });
    expect(() => opened.sealer.seal('x', 'y')).toThrow(/secret\.key is missing/);
    await opened.close();
    expect(existsSync(keyFile(config))).toBe(false);
  });
});

test('two servers with keys of their own on an empty database: one starts, the other says what to do', async () => {
  const configs = [node('one'), node('other')];
  const results = await Promise.allSettled(configs.map((config) => started(config)));
  const refused = results.flatMap((result) => (result.status === 'rejected' ? [result.reason.message] : []));
  expect(refused).toHaveLength(1);
  expect(refused[0]).not.toContain('\n');
  expect(refused[0]).toMatch(/secret\.key/);
});

test('of sealers with different keys one claims the database', async () => {
  const sealers = Array.from({ length: 8 }, () => createSealer([randomBytes(32)]));
  const fits = await Promise.all(sealers.map((sealer) => claimSealingKey({ db, sealer })));
  expect(fits.filter(({ kind }) => kind === 'fits')).toHaveLength(1);
  expect(fits.filter(({ kind }) => kind === 'claimed')).toHaveLength(7);
  const winner = sealers[fits.findIndex(({ kind }) => kind === 'fits')];
  expect(winner && (await claimSealingKey({ db, sealer: winner }))).toMatchObject({ kind: 'fits' });
});

test('a key that was replaced is no longer needed, once nothing is sealed with it', async () => {
  const [old, fresh] = [randomBytes(32), randomBytes(32)];
  await started(node('rotated', { SECRET_KEY: old.toString('hex') }));
  const both = `${fresh.toString('hex')},${old.toString('hex')}`;
  await started(node('rotated', { SECRET_KEY: both }));
  const sealer = createSealer([fresh]);
  await expect(keyFit({ db, sealer })).resolves.toMatchObject({ kind: 'closed' });
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
