import { afterAll, beforeAll, expect, test } from 'vitest';
import { type Database, openDatabase, type Queryable, sql } from '../../src/db/client.ts';
import { eraseAddresses, erasePhoneNumbers } from '../../src/domain/after/erasure/erase-addresses.ts';
import { AddressKeys } from '../../src/domain/ground/suppressions/address-keys.ts';
import { listSuppressions, suppressionsOfUser } from '../../src/domain/ground/suppressions/list.ts';
import { suppressAddresses } from '../../src/domain/ground/suppressions/suppress.ts';
import { findSuppressed } from '../../src/domain/ground/suppressions/suppressed.ts';
import { NEWEST, OLDEST } from '../../src/lib/cursor.ts';
import { newId } from '../../src/lib/ids.ts';
import { createLogger } from '../../src/lib/log.ts';
import { createSealer } from '../../src/lib/seal.ts';
import { createTestDatabase, type TestDatabase } from '../support/database.ts';
import { rowsRead } from '../support/rows-read.ts';

// Nearly all of them bounced, as usual. Every thousandth is a rejected phone number.
const SUPPRESSIONS = 50_000;
const projectId = newId();

let database: TestDatabase;
let db: Database;
let addressKeys: AddressKeys;

beforeAll(async () => {
  database = await createTestDatabase();
  db = openDatabase(database.connection, { size: 1, name: 'suppression plans', isDistributed: false });
  addressKeys = new AddressKeys({
    sealer: createSealer([Buffer.alloc(32, 7)]),
    log: createLogger({ level: 'silent' }),
  });
  await db.query(
    sql(
      '',
      `insert into suppressions
        (project_id, id, kind, hash, address, reason, user_ids, created_at, updated_at)
      select $1, ('01900000-0000-7000-8000-' || lpad(i::text, 12, '0'))::uuid,
        case when i % 1000 = 0 then 'phone' else 'email' end,
        sha256(i::text::bytea), 'user-' || i || '@example.com',
        case when i % 1000 = 0 then 'rejected' else 'bounced' end, array[gen_random_uuid()], now(), now()
      from generate_series(1, ${SUPPRESSIONS}) i`,
    ),
    [projectId],
  );
  await db.query(
    sql(
      '',
      `insert into user_keys (project_id, kind, value, user_id)
      select $1, 'email', 'user-' || i || '@example.com', gen_random_uuid()
      from generate_series(1, ${SUPPRESSIONS}) i`,
    ),
    [projectId],
  );
  // Creates the key of all later hashes.
  await suppress('first@example.com');
  await db.query(sql('', 'analyze suppressions, user_keys'));
});
afterAll(async () => {
  await db.close();
  await database.drop();
});

function suppress(...addresses: string[]): Promise<void> {
  return db.transaction((tx) => write(tx, addresses));
}

function write(tx: Queryable, addresses: readonly string[]): Promise<void> {
  return suppressAddresses(
    { db: tx, addressKeys },
    addresses.map((address) => ({
      projectId,
      kind: 'email',
      address,
      reason: 'bounced',
      detail: null,
      provider: null,
    })),
  );
}

test.each([
  ['all', {}],
  ['a rare kind', { kind: 'phone' }],
  ['a rare reason', { reason: 'rejected' }],
  ['a reason that does not occur', { reason: 'complained' }],
  ['a kind and a reason that do not occur together', { kind: 'phone', reason: 'bounced' }],
  ['an address', { query: 'first@example.com' }],
] as const)('a page of %s reads few rows besides its own', async (_what, filter) => {
  for (const cursor of [
    { direction: 'older', id: NEWEST, limit: 51 },
    { direction: 'newer', id: OLDEST, limit: 51 },
  ] as const) {
    const read = await rowsRead(db, (tx) =>
      listSuppressions({ db: tx, addressKeys }, projectId, filter, cursor),
    );
    expect(read).toBeLessThanOrEqual(120);
  }
});

test('the suppressions of a user are read by the user and its addresses', async () => {
  const [owner] = await db.query<{ id: string }>(
    sql('', 'select user_ids[1] as id from suppressions where cardinality(user_ids) > 0 limit 1'),
  );
  const user = { id: owner?.id ?? '', email: 'first@example.com', phone_numbers: ['+15005550001'] };
  expect(await rowsRead(db, (tx) => suppressionsOfUser(tx, projectId, user))).toBeLessThanOrEqual(20);
});

test('finding, suppressing and erasing a hundred addresses reads a few rows for each', async () => {
  const addresses = Array.from({ length: 100 }, (_, number) => `new-${number}@example.com`);
  await suppress(...addresses);
  const searched = addresses.map((address) => ({ kind: 'email' as const, address }));
  expect(
    await rowsRead(db, (tx) => findSuppressed({ db: tx, addressKeys }, projectId, searched)),
  ).toBeLessThanOrEqual(200);
  expect(await rowsRead(db, (tx) => write(tx, addresses))).toBeLessThanOrEqual(200);
  const owners = await db.query<{ id: string }>(
    sql('', 'select user_ids[1] as id from suppressions where cardinality(user_ids) > 0 limit 100'),
  );
  const users = owners.map(({ id }) => id);
  expect(await rowsRead(db, (tx) => eraseAddresses(tx, users))).toBeLessThanOrEqual(700);
  const numbers = users.map((id) => ({ id, project_id: projectId, phone_numbers: ['+15005550001'] }));
  expect(await rowsRead(db, (tx) => erasePhoneNumbers(tx, numbers))).toBeLessThanOrEqual(500);
});
