import { randomBytes, randomUUID } from 'node:crypto';
import { PassThrough } from 'node:stream';
import { expect, inject, onTestFinished, test } from 'vitest';
import { backup } from '../../src/db/backup.ts';
import { restore } from '../../src/db/restore.ts';
import { createDatabaseOn, createTestDatabase } from '../support/database.ts';
import { databaseContents } from '../support/database-contents.ts';
import { withClient } from '../support/with-client.ts';

test('large databases are copied in constant memory', async () => {
  const large = await createTestDatabase();
  onTestFinished(() => large.drop());
  const target = await createDatabaseOn(inject('testServer'));
  onTestFinished(() => target.drop());
  // 80 MB of text, half of it one value that is larger than any buffer
  await withClient(large.connection, async (client) => {
    const row = 'insert into broadcasts (id, project_id, message) values ($1, $1, $2)';
    for (let index = 0; index < 6; index += 1)
      await client.query(row, [randomUUID(), randomBytes(8_000_000)]);
    await client.query(row, [randomUUID(), randomBytes(20_000_000)]);
  });
  const through = new PassThrough();
  let peak = 0;
  const watch = setInterval(() => {
    peak = Math.max(peak, process.memoryUsage().rss);
  }, 5);
  const before = process.memoryUsage().rss;
  await Promise.all([backup(large, through), restore(target, through)]);
  clearInterval(watch);
  expect(peak - before).toBeLessThan(50_000_000);
  expect(await withClient(target.connection, databaseContents)).toEqual(
    await withClient(large.connection, databaseContents),
  );
});
