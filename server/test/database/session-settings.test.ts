import { afterAll, beforeAll, expect, inject, test } from 'vitest';
import { openDatabase, sql } from '../../src/db/client.ts';
import { createTestDatabase, type TestDatabase } from '../support/database.ts';
import { processed, startTestService } from '../support/service.ts';
import { withClient } from '../support/with-client.ts';

// A user, a database or postgresql.conf can set these for every connection.
const SETTINGS = {
  datestyle: 'SQL, DMY',
  extra_float_digits: '-5',
  default_transaction_isolation: 'serializable',
  idle_session_timeout: '1s',
};
const NEEDED = {
  datestyle: expect.stringMatching(/^ISO/),
  extra_float_digits: '1',
  default_transaction_isolation: 'read committed',
  idle_session_timeout: '0',
};

let database: TestDatabase;
beforeAll(async () => {
  database = await createTestDatabase();
  const { database: name } = database.connection;
  await withClient(database.connection, async (client) => {
    for (const [setting, value] of Object.entries(SETTINGS))
      await client.query(`alter database ${name} set ${setting} = '${value}'`);
  });
});
afterAll(() => database.drop());

test('connections have the settings that statements rely on, whatever the database sets', async () => {
  const names = Object.keys(NEEDED);
  const shown = `select ${names.map((name) => `current_setting('${name}') as ${name}`).join(', ')}`;
  const db = openDatabase(database.connection, { size: 1, name: 'test' });
  const client = await db.connect();
  try {
    expect(await db.query(sql('', shown))).toEqual([NEEDED]);
    expect((await client.query(shown)).rows).toEqual([NEEDED]);
  } finally {
    await client.end();
    await db.close();
  }
});

const isPooled = inject('testPooler') !== undefined;

test.runIf(isPooled)('a server does not start there behind a pooler, and says why', async () => {
  await expect(startTestService({ settings: database.settings })).rejects.toThrow(
    /cannot be used: the DateStyle of its connections is SQL, DMY.*: run alter role/,
  );
});

test.skipIf(isPooled)('a server sends broadcasts there', async () => {
  const service = await startTestService({ settings: database.settings });
  try {
    const { call } = service.project;
    const sent = await call('POST', '/broadcasts', {
      title: 'Hello',
      recipients: [{ external_id: 'ada' }],
    });
    expect(sent.status).toBe(201);
    expect((await processed(call, sent.body.id)).status.summary.failures).toBe(0);
  } finally {
    await service.stop();
  }
});
