import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { startService } from '../src/app.ts';
import { readConfig } from '../src/config.ts';
import { createLogger } from '../src/lib/log.ts';
import { createTestDatabase } from './support/database.ts';

/** Starts on this database, looks whether the credentials in the file work there, and stops. */
async function credentialsOn(dataDir: string, url: string) {
  const config = readConfig({ DATA_DIR: dataDir, DATABASE_URL: url, PORT: '0' });
  const service = await startService(config, { log: createLogger({ level: 'silent' }) });
  try {
    const file = JSON.parse(await readFile(join(dataDir, 'credentials.json'), 'utf8'));
    const headers = { authorization: `Bearer ${file.project_jwt}` };
    const { status } = await fetch(`${file.base_url}/broadcasts`, { headers });
    return { file, status };
  } finally {
    await service.stop();
  }
}

test('credentials of another database are made anew, those of this one are kept', async () => {
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
