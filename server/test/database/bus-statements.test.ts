import { expect, onTestFinished, test } from 'vitest';
import { openDatabase } from '../../src/db/client.ts';
import { CHANNEL, postgresTransport } from '../../src/domain/ground/bus/postgres.ts';
import { createLogger } from '../../src/lib/log.ts';
import { createTestDatabase } from '../support/database.ts';

// In a process of its own, because the driver warns once in a process.

test('a channel sends its statements one after the other, also while the database is slow', async () => {
  const warnings: string[] = [];
  const onWarning = ({ message }: Error) => void warnings.push(message);
  process.on('warning', onWarning);
  const database = await createTestDatabase();
  const db = openDatabase(database.connection, { size: 4, name: 'test' });
  const received: string[] = [];
  const transport = postgresTransport({ db, log: createLogger({ level: 'silent' }), channel: CHANNEL });
  const channel = await transport.open((payload) => received.push(payload));
  onTestFinished(async () => {
    channel.drop();
    process.off('warning', onWarning);
    await db.close();
    await database.drop();
  });
  // As a link does when its heartbeats take longer than their interval, and messages arrive meanwhile.
  const sent = ['one', 'two', 'three'].map((text) => channel.send([text]));
  const [atMs] = await Promise.all([channel.probe(), ...sent]);
  expect(atMs).toBeGreaterThan(0);
  await channel.probe();
  expect(received).toEqual(['one', 'two', 'three']);
  // A failure is that of its own statement.
  const failed = channel.send(['\u0000']);
  const [outcome, next] = await Promise.allSettled([failed, channel.send(['four'])]);
  expect([outcome?.status, next?.status]).toEqual(['rejected', 'fulfilled']);
  // After the connection has ended, nothing waits for ever.
  channel.drop();
  await channel.ended;
  await expect(channel.send(['five'])).rejects.toThrow();
  await new Promise((resolve) => process.nextTick(resolve)); // when warnings are reported
  expect(warnings).toEqual([]);
});
