import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { checkDurability } from '../../src/cli/doctor/durability.ts';
import { readConfig } from '../../src/config.ts';
import { type Database, openDatabase, sql } from '../../src/db/client.ts';
import { type EmbeddedPostgres, startEmbedded } from '../../src/db/embedded.ts';
import { createLogger } from '../../src/lib/log.ts';
import { open } from '../../src/open.ts';
import { belfry, ended } from '../support/cli.ts';
import { createDatabaseOn, type TestDatabase } from '../support/database.ts';

let dataDir: string;
let server: EmbeddedPostgres; // its own, because the shared one has fsync off
let database: TestDatabase;
let admin: Database;
beforeAll(async () => {
  dataDir = await mkdtemp(join(tmpdir(), 'belfry-durability-'));
  server = await startEmbedded({ dataDir: join(dataDir, 'server'), role: 'server', log: () => {} });
});
afterAll(async () => {
  await server.stop();
  await rm(dataDir, { recursive: true, force: true });
});
beforeEach(async () => {
  database = await createDatabaseOn(server.connection);
  admin = openDatabase(database.connection, { size: 1, name: 'admin' });
});
afterEach(async () => {
  await admin.close();
  await database.drop();
});

const run = (text: string) => admin.query(sql('', text));
const setForDatabase = (setting: string) =>
  run(`do $$ begin execute format('alter database %I set ${setting}', current_database()); end $$`);

/** The value of a setting on the connections of a server. */
async function shown(url: string, setting: string): Promise<{ value: string; lines: string[] }> {
  const lines: string[] = [];
  const log = createLogger({ level: 'info', stream: { write: (line) => lines.push(line) } });
  const opened = await open(readConfig({ DATA_DIR: dataDir, DATABASE_URL: url }), { role: 'server', log });
  try {
    const [row] = await opened
      .pool('worker', 1)
      .query<{ value: string }>(sql('', `select current_setting('${setting}') as value`));
    return { value: row?.value ?? '', lines };
  } finally {
    await opened.close();
  }
}

describe('synchronous_commit of the server’s connections', () => {
  test.each([
    ['off', 'on'],
    ['local', 'local'],
    ['on', 'on'],
    ['remote_apply', 'remote_apply'],
  ])('where the database sets %s it is %s', async (set, expected) => {
    await setForDatabase(`synchronous_commit = ${set}`);
    const { value, lines } = await shown(database.url, 'synchronous_commit');
    expect(value).toBe(expected);
    expect(lines.join('\n')).toContain(`synchronous_commit ${expected}, fsync on, full_page_writes on`);
  });

  test('options in DATABASE_URL are applied, except for it', async () => {
    const options = encodeURIComponent('-c synchronous_commit=off -c work_mem=5MB');
    const url = `${database.url}${database.url.includes('?') ? '&' : '?'}options=${options}`;
    expect((await shown(url, 'synchronous_commit')).value).toBe('on');
    expect((await shown(url, 'work_mem')).value).toBe('5MB');
    expect((await shown(url, 'enable_seqscan')).value).toBe('off');
    expect((await shown(url, 'plan_cache_mode')).value).toBe('force_generic_plan');
  });

  test('a server that cannot raise it does not start, and doctor warns', async () => {
    await setForDatabase('synchronous_commit = off');
    // As with a pooler that drops the startup options, the connection has the setting of the database.
    await run(`
      create function drop_options() returns event_trigger language plpgsql
        as $$ begin perform set_config('synchronous_commit', 'off', false); end $$;
      create event trigger drop_options on login execute function drop_options();
      alter event trigger drop_options enable always`);
    await expect(shown(database.url, 'synchronous_commit')).rejects.toThrow(
      /^synchronous_commit is off: .* alter role .* synchronous_commit = on$/,
    );
    expect(await checkDurability(database.connection)).toEqual([
      expect.objectContaining({
        status: 'warning',
        message: expect.stringContaining('synchronous_commit is off'),
      }),
    ]);
  });

  test('doctor lists the settings, and those that override the database', async () => {
    await setForDatabase('synchronous_commit = off');
    const { out, code } = await ended(
      belfry(['doctor'], { DATABASE_URL: database.url, DATA_DIR: dataDir, PORT: '0' }),
    );
    expect(out).toMatch(
      /^✓ durability +synchronous_commit on, fsync on, full_page_writes on \(the database sets .* to off/m,
    );
    expect(code).toBe(0);
  });
});
