import { copyFile, mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { startService } from '../../src/app.ts';
import { readConfig } from '../../src/config.ts';
import { issueToken } from '../../src/domain/setup/projects/tokens.ts';
import { createLogger } from '../../src/lib/log.ts';
import { createTestDatabase } from '../support/database.ts';

/** Starts on this database, tries the token of the file and the given ones, and stops. */
async function credentialsOn(dataDir: string, url: string, others: readonly string[] = []) {
  const config = readConfig({ DATA_DIR: dataDir, DATABASE_URL: url, PORT: '0' });
  const service = await startService(config, { log: createLogger({ level: 'silent' }) });
  try {
    const file = JSON.parse(await readFile(join(dataDir, 'credentials.json'), 'utf8'));
    const statusOf = async (jwt: string) =>
      (await fetch(`${file.base_url}/broadcasts`, { headers: { authorization: `Bearer ${jwt}` } })).status;
    const statuses = await Promise.all(others.map(statusOf));
    return { file, status: await statusOf(file.project_jwt), statuses };
  } finally {
    await service.stop();
  }
}

test('credentials of another database are replaced, those of this one are kept', async () => {
  const dataDir = await mkdtemp(join(tmpdir(), 'belfry-credentials-'));
  const databases = await Promise.all([createTestDatabase(), createTestDatabase()]);
  onTestFinished(async () => {
    await Promise.all(databases.map((database) => database.drop()));
    await rm(dataDir, { recursive: true, force: true });
  });
  const [one, other] = databases.map((database) => database.url) as [string, string];

  const first = await credentialsOn(dataDir, one);
  const again = await credentialsOn(dataDir, one);
  const moved = await credentialsOn(dataDir, other);

  expect([first.status, again.status, moved.status]).toEqual([200, 200, 200]);
  expect(again.file.project_jwt).toBe(first.file.project_jwt);
  expect(moved.file.project_id).not.toBe(first.file.project_id);
});

test('a start without the file issues another token, and revokes the lost one and no other', async () => {
  const dataDirs = await Promise.all(
    ['one', 'two'].map((name) => mkdtemp(join(tmpdir(), `belfry-${name}-`))),
  );
  const [one = '', two = ''] = dataDirs;
  const database = await createTestDatabase();
  onTestFinished(async () => {
    await database.drop();
    await Promise.all(dataDirs.map((dir) => rm(dir, { recursive: true, force: true })));
  });
  const first = await credentialsOn(one, database.url);
  await copyFile(join(one, 'secret.key'), join(two, 'secret.key'));
  // Another server of the same database has a separate file.
  const neighbour = await credentialsOn(two, database.url);
  const config = readConfig({ DATA_DIR: one, DATABASE_URL: database.url, PORT: '0' });
  const service = await startService(config, { log: createLogger({ level: 'silent' }) });
  const customers = await issueToken(service.context, {
    projectId: first.file.project_id,
    name: 'credentials.json',
  });
  await service.stop();
  await rm(join(one, 'credentials.json'));

  const { file, statuses } = await credentialsOn(one, database.url, [
    first.file.project_jwt,
    neighbour.file.project_jwt,
    customers?.token ?? '',
  ]);
  expect(file.project_jwt).not.toBe(first.file.project_jwt);
  expect(file.api_key).toBe(first.file.api_key);
  expect(statuses).toEqual([401, 200, 200]);
});
