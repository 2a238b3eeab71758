import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { uuidArray } from '../../src/db/arrays.ts';
import type { Queryable } from '../../src/db/client.ts';
import { recordHits } from '../../src/domain/after/tracking/record.ts';
import type { DeliveryOutcome } from '../../src/domain/line/deliver/delivery.ts';
import { createOutcomeRecorder, writeOutcomes } from '../../src/domain/line/deliver/record.ts';
import { markTexts, removeMarks } from '../../src/domain/line/sending/text-marks.ts';
import { newId, notificationId } from '../../src/lib/ids.ts';
import { complete, completeHeld } from '../../src/queue/complete.ts';
import { Lease } from '../../src/queue/lease.ts';
import { release } from '../../src/queue/release.ts';
import { startTestService, type TestService, until } from '../support/service.ts';

// Transactions that lock the same rows do so in the order of their keys, whatever the order of the request.

let service: TestService;
let broadcastId: string;

beforeAll(async () => {
  service = await startTestService({ pollMs: 3_600_000 });
  const tracked = 'insert into tracking (project_id, opens, clicks) values ($1, true, true)';
  await service.rows(tracked, [service.project.id]);
  const { body } = await service.project.call('POST', '/broadcasts', {
    title: 'Hello',
    recipients: [{ external_id: 'ada' }],
  });
  broadcastId = body.id;
});
afterAll(() => service?.stop());
beforeEach(() => service.rows('delete from deliveries'));

const ROWS = 12;

interface Row {
  userId: string;
  notificationId: string;
}

/** Deliveries, in the order of their keys. */
async function addDeliveries(
  state = 'retrying',
  rest: Record<string, string> = {},
  count = ROWS,
): Promise<Row[]> {
  const userIds = (
    await service.rows<{ id: string }>(
      `insert into users (id, project_id, created_at, updated_at)
      select gen_random_uuid(), $1, now(), now() from generate_series(1, ${count})
      returning id`,
      [service.project.id],
    )
  ).map(({ id }) => id);
  const rows = userIds
    .sort()
    .map((userId) => ({ userId, notificationId: notificationId(broadcastId, userId) }));
  const columns = Object.keys(rest).map((name) => `, ${name}`);
  const values = Object.values(rest).map((value) => `, ${value}`);
  await service.rows(
    `insert into deliveries (
      user_id, notification_id, channel, broadcast_id, state, attempts, first_attempt_at, last_attempt_at
      ${columns.join('')}
    )
    select user_id, notification_id, 'email', $3, '${state}', 1, now(), now() ${values.join('')}
    from unnest($1::uuid[], $2::uuid[]) as d (user_id, notification_id)`,
    [uuidArray(rows.map((row) => row.userId)), uuidArray(rows.map((row) => row.notificationId)), broadcastId],
  );
  return rows;
}

async function addJobs(leaseId: string): Promise<number[]> {
  const rows = await service.rows<{ id: number }>(
    `insert into jobs (kind, project_id, lease_id, payload)
    select 'deliver', $1, $2, '{}' from generate_series(1, ${ROWS})
    returning id`,
    [service.project.id, leaseId],
  );
  return rows.map(({ id }) => Number(id)).sort((a, b) => a - b);
}

const reference = (row: Row) => ({ ...row, channel: 'email', projectId: service.project.id, broadcastId });

const outcome = (row: Row, changes: Partial<DeliveryOutcome> = {}): DeliveryOutcome => ({
  ...reference(row),
  state: 'sent',
  attempts: 2,
  ...{ integrationId: null, provider: null, providerId: null, code: null, reason: null },
  firstAttemptMs: Date.now(),
  durationMs: 1,
  ...changes,
});

/**
 * Returns the places of the rows that `work` has locked when it waits for the row in the middle, which
 * another transaction has locked.
 */
async function lockedBefore(
  { table, key, keys }: { table: string; key: string; keys: readonly (string | number)[] },
  work: (tx: Queryable) => Promise<unknown>,
): Promise<number[]> {
  const { db } = service.context;
  const [blocker, observer] = [await db.connect(), await db.connect()];
  try {
    await blocker.query('begin');
    await blocker.query(`select from ${table} where ${key} = $1 for update`, [keys[keys.length / 2]]);
    const working = db.transaction(work);
    await until(
      () =>
        service.rows(
          "select 1 from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'",
        ),
      (waiting) => waiting.length > 0,
      { withinMs: 20_000 },
    );
    const { rows } = await observer.query(
      `select ${key} as key from ${table} where ${key}::text = any ($1::text[]) for update skip locked`,
      [keys.map(String)],
    );
    await blocker.query('rollback');
    await working;
    const free = new Set(rows.map((row) => String(row.key)));
    return [...keys.keys()].filter((place) => !free.has(String(keys[place])));
  } finally {
    await Promise.all([blocker.end(), observer.end()]);
  }
}

const FIRST_HALF = Array.from({ length: ROWS / 2 + 1 }, (_, place) => place);
const ofDeliveries = (rows: readonly Row[]) => ({
  table: 'deliveries',
  key: 'user_id',
  keys: rows.map(({ userId }) => userId),
});
const ofJobs = (keys: readonly number[]) => ({ table: 'jobs', key: 'id', keys });

describe('deliveries are locked in the order of their keys', () => {
  const write = (outcomes: readonly DeliveryOutcome[], marks: readonly Row[] = []) => {
    const { addressKeys } = service.context;
    const unusedMarks = marks.map(reference);
    const finished = [{ jobId: 1, leaseId: newId(), retries: [], unusedMarks }];
    return (tx: Queryable) => writeOutcomes({ tx, addressKeys, isRepeat: false }, outcomes, finished);
  };

  test('by outcomes', async () => {
    const rows = await addDeliveries();
    const outcomes = rows.toReversed().map((row) => outcome(row));
    expect(await lockedBefore(ofDeliveries(rows), write(outcomes))).toEqual(FIRST_HALF);
  });

  test('by outcomes of further targets', async () => {
    const rows = await addDeliveries('sent', { progress: `'{"left":{}}'` });
    const outcomes = rows.toReversed().map((row) => outcome(row, { continues: true }));
    expect(await lockedBefore(ofDeliveries(rows), write(outcomes))).toEqual(FIRST_HALF);
  });

  test('by outcomes of both, and by marks that are removed with them', async () => {
    const rows = await addDeliveries('sent', { progress: `'{"left":{}}'` });
    const outcomes = rows
      .filter((_, place) => place % 3 > 0)
      .map((row, index) => outcome(row, { continues: index % 2 > 0 }));
    const marks = rows.filter((_, place) => place % 3 === 0);
    expect(await lockedBefore(ofDeliveries(rows), write(outcomes.toReversed(), marks.toReversed()))).toEqual(
      FIRST_HALF,
    );
  });

  test('by marks of text messages', async () => {
    const rows = await addDeliveries();
    const texts = rows
      .toReversed()
      .map((row) => ({ ...reference(row), attempt: 1, firstAttemptMs: Date.now() }));
    expect(await lockedBefore(ofDeliveries(rows), (tx) => markTexts(tx, texts))).toEqual(FIRST_HALF);
    expect(await lockedBefore(ofDeliveries(rows), (tx) => removeMarks(tx, texts))).toEqual(FIRST_HALF);
  });

  test('by opens', async () => {
    const rows = await addDeliveries();
    const hits = rows
      .toReversed()
      .map((row) => ({ ...reference(row), channel: 'email' as const, kind: 'open' as const, atMs: 1 }));
    expect(await lockedBefore(ofDeliveries(rows), (tx) => recordHits(tx, hits))).toEqual(FIRST_HALF);
  });
});

describe('jobs are locked in the order of their ids', () => {
  test('when they are completed or released', async () => {
    const leaseId = newId();
    const ids = await addJobs(leaseId);
    const jobIds = ids.toReversed();
    const undone = new Error('undone');
    const undo = (work: (tx: Queryable) => Promise<unknown>) => (tx: Queryable) =>
      service.context.db
        .transaction((inner) => work(inner).then(() => Promise.reject(undone)))
        .catch(() => tx);
    const held = jobIds.map((jobId) => ({ jobId, leaseId }));
    expect(
      await lockedBefore(
        ofJobs(ids),
        undo((tx) => complete(tx, leaseId, jobIds)),
      ),
    ).toEqual(FIRST_HALF);
    expect(
      await lockedBefore(
        ofJobs(ids),
        undo((tx) => completeHeld(tx, held)),
      ),
    ).toEqual(FIRST_HALF);
    expect(await lockedBefore(ofJobs(ids), (tx) => release(tx, { leaseId, jobIds }))).toEqual(FIRST_HALF);
  });

  test('when their worker stops', async () => {
    const { db } = service.context;
    const lease = new Lease({ db, node: 'stopping', onError: () => {} });
    await lease.start();
    const ids = await addJobs(lease.id);
    // So that the order of their rows is another one.
    for (const id of ids.toReversed())
      await service.rows('update jobs set attempt = attempt + 1 where id = $1', [id]);
    expect(await lockedBefore(ofJobs(ids), () => lease.stop())).toEqual(FIRST_HALF);
  });
});

test('writers of the same rows in all orders at the same time do not deadlock', async () => {
  const { db, addressKeys, log } = service.context;
  const rows = await addDeliveries('retrying', {}, 300);
  const leaseId = newId();
  const jobIds = await addJobs(leaseId);
  const recorders = [0, 1].map(() => createOutcomeRecorder({ db, addressKeys, log }));
  // The order differs by the round and the writer.
  const turned = <Item>(items: readonly Item[], by: number) => {
    const all = by % 2 === 0 ? items : items.toReversed();
    const start = (by * 37) % all.length;
    return [...all.slice(start), ...all.slice(0, start)];
  };
  const deadlocks = async () => {
    const [row] = await service.rows<{ deadlocks: string }>(
      'select deadlocks from pg_stat_database where datname = current_database()',
    );
    return row?.deadlocks;
  };
  const before = await deadlocks();
  for (let round = 0; round < 20; round += 1) {
    const writers = [
      ...recorders.map(
        (recorder, index) => () =>
          Promise.all([
            ...turned(rows, round + index).map((row) =>
              recorder.report({ outcome: outcome(row, { state: 'retrying', attempts: round + 2 }) }),
            ),
            recorder.report({
              finished: {
                jobId: -1,
                leaseId,
                retries: [],
                unusedMarks: turned(rows, round + index + 1).map(reference),
              },
            }),
          ]),
      ),
      () =>
        markTexts(
          db,
          turned(rows, round + 3).map((row) => ({ ...reference(row), attempt: 1, firstAttemptMs: 1 })),
        ),
      () => db.transaction((tx) => removeMarks(tx, turned(rows, round + 4).map(reference))),
      () =>
        db.transaction((tx) =>
          recordHits(
            tx,
            turned(rows, round + 5).map((row) => ({
              ...reference(row),
              channel: 'email',
              kind: 'open',
              atMs: 1,
            })),
          ),
        ),
      () => release(db, { leaseId: newId(), jobIds: turned(jobIds, round) }),
      () => release(db, { leaseId, jobIds: turned(jobIds, round + 1) }),
    ];
    await Promise.all(writers.map((write) => write()));
    await service.rows('update jobs set lease_id = $1', [leaseId]);
  }
  expect(await deadlocks()).toBe(before);
});
