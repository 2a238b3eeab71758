import { afterAll, beforeAll, expect, test } from 'vitest';
import { type Database, openDatabase, type Queryable, sql } from '../../src/db/client.ts';
import { discardChats } from '../../src/domain/after/receipts/discard-chats.ts';
import { recordReceipts } from '../../src/domain/after/receipts/record.ts';
import { createBus, type NodeBus } from '../../src/domain/ground/bus/bus.ts';
import { referenceOf } from '../../src/domain/ground/links/reference.ts';
import { AddressKeys } from '../../src/domain/ground/suppressions/address-keys.ts';
import { newId, notificationId } from '../../src/lib/ids.ts';
import { createLogger } from '../../src/lib/log.ts';
import { createSealer } from '../../src/lib/seal.ts';
import { createTestDatabase, type TestDatabase } from '../support/database.ts';
import { rowsRead } from '../support/rows-read.ts';

// The receipts concern few of these users.
const USERS = 20_000;
const projectId = newId();
const broadcastId = newId();
const userIds = Array.from({ length: USERS }, () => newId());

let database: TestDatabase;
let db: Database;
let bus: NodeBus;
const addressKeys = new AddressKeys({
  sealer: createSealer([Buffer.alloc(32, 7)]),
  log: createLogger({ level: 'silent' }),
});

beforeAll(async () => {
  database = await createTestDatabase();
  db = openDatabase(database.connection, { size: 1, name: 'receipt plans', isDistributed: false });
  bus = createBus({ db, log: createLogger({ level: 'silent' }), nodeId: newId(), shared: false });
  const ids = userIds.map((userId) => notificationId(broadcastId, userId));
  await db.query(
    sql(
      '',
      `insert into broadcasts (id, project_id, message, status, pending) values ($1, $2, '', 'processed', 1)`,
    ),
    [broadcastId, projectId],
  );
  await db.query(
    sql(
      '',
      `with made as (select * from unnest($1::uuid[], $2::uuid[]) as m (user_id, id)),
      noted as (
        insert into notifications (user_id, id, broadcast_id, sent_at) select user_id, id, $3, now() from made
      ),
      delivered as (
        insert into deliveries (
          user_id, notification_id, channel, broadcast_id, state, attempts, first_attempt_at, last_attempt_at
        )
        select user_id, id, 'email', $3, 'sent', 1, now(), now() from made
      ),
      keyed as (
        insert into user_keys (project_id, kind, value, user_id)
        select $4, 'email', user_id || '@x.example', user_id from made
      ),
      preferring as (
        insert into preferences (user_id, category, channel, enabled, updated_at)
        select user_id, '', 'email', true, 'epoch'::timestamptz from made
      ),
      known as (
        insert into users (id, project_id, created_at, updated_at) select user_id, $4, now(), now() from made
      ),
      installed as (
        insert into installations
          (project_id, provider, id, owner_id, installed_by, sealed_record, created_at, updated_at)
        select gen_random_uuid(), 'slackbot', 'A1-T' || row_number() over (), $3, $3, '', now(), now()
        from made
      )
      insert into tokens (user_id, id, project_id, channel, public_id, hash, sealed_data, created_at)
      select user_id, id, $4, 'slack', 'A1-T1-C' || row_number() over (), sha256(id::text::bytea), '', now()
      from made`,
    ),
    [userIds, ids, broadcastId, projectId],
  );
  await db.query(
    sql(
      '',
      'analyze broadcasts, notifications, deliveries, users, user_keys, preferences, installations, tokens',
    ),
  );
});
afterAll(async () => {
  await bus.close();
  await db.close();
  await database.drop();
});

test('receipts read only their own deliveries', async () => {
  const source = { projectId, integrationId: newId(), provider: 'sendgrid', channel: 'email' };
  for (const count of [1, 500]) {
    const receipts = userIds.slice(0, count).map((userId) => ({
      kind: 'delivered' as const,
      at: new Date(),
      reference: referenceOf({ broadcastId, userId }),
    }));
    const read = await rowsRead(db, (tx) => recordReceipts({ tx, bus, addressKeys }, source, receipts));
    expect(read).toBeGreaterThanOrEqual(count);
    expect(read).toBeLessThanOrEqual(3 * count + 1);
  }
});

test('receipts that suppress addresses read only their own users', async () => {
  const source = { projectId, integrationId: newId(), provider: 'sendgrid', channel: 'email' };
  // The key of the project is created before the measurement.
  await db.transaction((tx) => addressKeys.findOrCreate(tx, [projectId]));
  for (const count of [1, 500]) {
    const receipts = userIds.slice(-count).map((userId, number) => ({
      kind: 'bounced' as const,
      at: new Date(),
      // Every second receipt is for a message of another sender, so only its address is known.
      ...(number % 2 === 0 ? { reference: referenceOf({ broadcastId, userId }) } : {}),
      suppress: { address: `${userId}@x.example`, reason: 'bounced' as const },
    }));
    const read = await rowsRead(db, (tx) => recordReceipts({ tx, bus, addressKeys }, source, receipts));
    expect(read).toBeGreaterThanOrEqual(count);
    expect(read).toBeLessThanOrEqual(6 * count + 1);
  }
});

test('receipts that unsubscribe users read only their preferences', async () => {
  const source = { projectId, integrationId: newId(), provider: 'sendgrid', channel: 'email' };
  const count = 50;
  const receipts = userIds.slice(0, count).map((userId) => ({
    kind: 'unsubscribed' as const,
    at: new Date(),
    reference: referenceOf({ broadcastId, userId }),
  }));
  const read = await rowsRead(db, (tx) => recordReceipts({ tx, bus, addressKeys }, source, receipts));
  expect(read).toBeGreaterThanOrEqual(count);
  expect(read).toBeLessThanOrEqual(10 * count);
});

test('a discarded chat reads only its own tokens and installations', async () => {
  const discarder = { discard: async () => {} };
  const deps = { config: { BRAND: 'service' }, discarder };
  const gone = { code: 'channel_archive', reason: 'The channel was archived', goneAt: new Date() };
  const read = async (
    of: { projectId?: string; provider: 'slack' | 'slackbot' },
    chat: { installationId: string; channelId?: string },
  ) => {
    const within = (tx: Queryable): Database => ({
      ...db,
      query: (statement, values) => tx.query(statement, values),
      transaction: (work) => work(tx),
    });
    return rowsRead(db, (tx) => discardChats({ ...deps, db: within(tx) }, of, [{ ...gone, ...chat }]));
  };
  expect(await read({ projectId, provider: 'slack' }, { installationId: 'A1-T1', channelId: 'C7' })).toBe(1);
  expect(
    await read({ provider: 'slackbot' }, { installationId: 'A1-T9', channelId: 'C7' }),
  ).toBeLessThanOrEqual(2);
  expect(await read({ provider: 'slackbot' }, { installationId: 'A1-T9' })).toBeLessThanOrEqual(4);
});
