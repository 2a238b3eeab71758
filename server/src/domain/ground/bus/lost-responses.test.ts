import { afterEach, expect, inject, onTestFinished, test, vi } from 'vitest';
import { openDatabase, type Statement } from '../../../db/client.ts';
import { systemClock } from '../../../lib/clock.ts';
import { LostResponses } from './lost-responses.ts';
import type { RealtimeMessage } from './messages.ts';

afterEach(() => {
  vi.useRealTimers();
});

test('a database that was closed, as that of a removed cell, is not asked for ever', async () => {
  const database = openDatabase(inject('testServer'), { size: 1, name: 'test' });
  await database.close();
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
  let asked = 0;
  const db = {
    query<Row>(statement: Statement): Promise<Row[]> {
      asked += 1;
      return database.query<Row>(statement);
    },
  };
  const published: RealtimeMessage[] = [];
  const bus = { publish: (message: RealtimeMessage) => published.push(message) };
  const lost = new LostResponses({ db, bus, clock: systemClock });
  lost.note(new Error('Connection terminated unexpectedly'), 0);
  await vi.advanceTimersByTimeAsync(10_000);
  expect([asked, published]).toEqual([1, []]);
});

test('a response that is lost right before the database is asked is published once more', async () => {
  const database = openDatabase(inject('testServer'), { size: 1, name: 'test' });
  onTestFinished(() => database.close());
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
  let asked: Promise<unknown> = Promise.resolve();
  const db = {
    query<Row>(statement: Statement): Promise<Row[]> {
      const rows = database.query<Row>(statement);
      asked = rows;
      return rows;
    },
  };
  let nowMs = Date.now();
  const pass = async (ms: number) => {
    nowMs += ms;
    await vi.advanceTimersByTimeAsync(ms);
    await asked;
  };
  const published: RealtimeMessage[] = [];
  const bus = { publish: (message: RealtimeMessage) => published.push(message) };
  const lost = new LostResponses({ db, bus, clock: { now: () => nowMs } });
  const failure = new Error('Connection terminated unexpectedly');
  lost.note(failure, nowMs);
  await pass(490);
  lost.note(failure, nowMs); // its statement may still run when the database is asked
  await pass(10);
  expect(published).toHaveLength(1);
  await pass(500);
  expect(published).toHaveLength(2);
  await pass(5_000);
  expect(published).toHaveLength(2);
});
