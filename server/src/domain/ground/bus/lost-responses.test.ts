import { afterEach, expect, inject, test, vi } from 'vitest';
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
