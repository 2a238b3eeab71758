import { randomBytes } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { type Database, openDatabase, sql } from '../../src/db/client.ts';
import { type BelfryProcess, startBelfry } from '../support/belfry-process.ts';
import { newDataDir } from '../support/data-dir.ts';
import { urlOf } from '../support/database.ts';
import { expectExactlyOnce, load, messageIdOf, saveSmtp } from '../support/faults.ts';
import { projectWith, until } from '../support/service.ts';
import { startSmtpStandIn } from '../support/smtp-stand-in.ts';
import {
  hasSystemClocks,
  type SystemClock,
  startPostgresWith,
  systemClockIn,
} from '../support/system-clock.ts';

const SECRET_KEY = randomBytes(32).toString('hex');

/** A PostgreSQL and servers on it, all with one clock that can be set. */
async function start(): Promise<{
  clock: SystemClock;
  db: Database;
  startNode(name: string): Promise<BelfryProcess>;
}> {
  const folder = await mkdtemp(join(tmpdir(), 'belfry-system-clock-'));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  const clock = await systemClockIn(folder);
  const dataDir = await newDataDir('system-clock');
  onTestFinished(() => rm(dataDir, { recursive: true, force: true }));
  const postgres = await startPostgresWith(clock, dataDir);
  onTestFinished(() => postgres.stop());
  const db = openDatabase(postgres.connection, { size: 2, name: 'test' });
  onTestFinished(() => db.close());
  const settings = { ...clock.env, DATABASE_URL: urlOf(postgres.connection), SECRET_KEY };
  const startNode = async (name: string) => {
    const node = await startBelfry(join(folder, name), settings);
    onTestFinished(() => node.killTree());
    return node;
  };
  return { clock, db, startNode };
}

test.skipIf(!hasSystemClocks)('a system clock that jumps by an hour loses and repeats nothing', async () => {
  const { clock, db, startNode } = await start();
  const first = await startNode('first');
  const second = await startNode('second');
  const smtp = await startSmtpStandIn();
  onTestFinished(() => smtp.stop());
  const { project_id: id, api_key: apiKey, api_secret: apiSecret, project_jwt: jwt } = second.credentials;
  const project = projectWith(() => second.address, { id, apiKey, apiSecret, jwt });
  await saveSmtp(project, smtp);
  const running = load(project, { clients: 2 });
  const accepted = () => running.responses.filter(({ status }) => status === 201);
  const more = () => running.accepted(accepted().length + 30);
  for (const hours of [1, 0, -1, 1]) {
    await clock.set(hours);
    await more();
  }
  const repeated = () => smtp.received.length - new Set(smtp.received.map(messageIdOf)).size;
  expect(repeated()).toBe(0);
  // The clock goes back while a server is dead: the other one takes over its work.
  await first.killTree();
  await clock.set(-1);
  await more();
  await clock.set(0);
  await more();
  await running.stop();
  await expectExactlyOnce({ context: { db } }, running);
  const span = 'select extract(epoch from max(sent_at) - min(sent_at))::float / 3600 as hours';
  const [row] = await db.query<{ hours: number }>(sql('', `${span} from notifications`));
  expect(row?.hours).toBeGreaterThan(1.9); // they had the changed clock
  const addresses = accepted().reduce((sum, { recipients }) => sum + Math.ceil(recipients / 4), 0);
  expect(new Set(smtp.received.map(messageIdOf)).size).toBeGreaterThanOrEqual(addresses);
});

test.skipIf(!hasSystemClocks)('a year in which the clock was wrong is in no id after it', async () => {
  const { clock, startNode } = await start();
  const { call } = await startNode('node');
  const createdAt = async () => {
    const recipients = [{ external_id: 'ada' }];
    const { body } = await call('POST', '/broadcasts', { title: 'Hello', recipients });
    return Date.parse(body.created_at);
  };
  const isYearAhead = (ms: number) => ms > Date.now() + 300 * 86_400_000;
  await clock.set(365 * 24);
  await until(createdAt, isYearAhead);
  await clock.set(0);
  const ms = await until(createdAt, (at) => !isYearAhead(at));
  expect(Math.abs(ms - Date.now())).toBeLessThan(3_600_000);
});
