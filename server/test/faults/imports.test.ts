import { rm } from 'node:fs/promises';
import { setTimeout as delay } from 'node:timers/promises';
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest';
import { startService } from '../../src/app.ts';
import type { Queryable } from '../../src/db/client.ts';
import { type BelfryProcess, startBelfry, withDatabaseOf } from '../support/belfry-process.ts';
import { newDataDir } from '../support/data-dir.ts';
import { settled } from '../support/faults.ts';
import { newSeed, randomFrom } from '../support/random.ts';
import { rounds } from '../support/rounds.ts';
import { rowsOf } from '../support/rows.ts';
import { type Caller, startTestService, until } from '../support/service.ts';

const ROUNDS = rounds(2, 5);
const USERS = 6_000;
// Half of the users of an import are new, and half were in the one before.
const NEW = USERS / 2;
// Of every hundred users one has an invalid address, and one the address of another user.
const FAILING = 2;

const seed = newSeed();
const random = randomFrom(seed);

let dataDir = '';
let belfry: BelfryProcess;

beforeAll(async () => {
  dataDir = await newDataDir('imports');
});
afterAll(async () => {
  await belfry?.killTree();
  await rm(dataDir, { recursive: true, force: true });
});

const call: Caller = (...request) => belfry.call(...request);

/** The users of an import. */
function usersOf(round: number): object[] {
  return Array.from({ length: USERS }, (_, index) => {
    const name = `user-${round * NEW + index}`;
    const email = [`${name}@example.com`, 'x', 'owner@example.com'][Math.max(0, (index % 100) - 97)];
    return { external_id: name, email, first_name: `Round ${round}` };
  });
}

/** What is expected of an import that is processed. */
function resultOf(round: number) {
  const failed = (USERS / 100) * FAILING;
  const updated = round === 0 ? 0 : (NEW / 100) * (100 - FAILING);
  return {
    status: 'processed',
    total: USERS,
    done: USERS,
    created: USERS - failed - updated,
    updated,
    failed,
  };
}

async function sendImport(send: Caller, users: object[]): Promise<string> {
  const { status, body } = await send('POST', '/users/import', { users });
  expect(status).toBe(202);
  return body.id;
}

test.runIf(process.platform === 'linux')(
  `every user is imported once and counted once despite ${ROUNDS} kills between pages (FAULT_SEED=${seed})`,
  async () => {
    belfry = await startBelfry(dataDir);
    await call('PUT', '/users', { external_id: 'owner', email: 'owner@example.com' });
    const lines: string[] = [];
    const ids: string[] = [];
    let interrupted = 0;
    for (let round = 0; round < ROUNDS; round += 1) {
      const id = await sendImport(call, usersOf(round));
      ids.push(id);
      const reached = Math.floor(random() * USERS * 0.6);
      await until(
        () => call('GET', `/imports/${id}`),
        ({ body }) => body.done >= reached,
        { everyMs: 2 },
      );
      await delay(random() * 50);
      await belfry.killTree();
      expect(belfry.output.filter((line) => line.includes('"level":"error"'))).toEqual([]);
      const done = await withDatabaseOf(dataDir, ({ db }) => usersDone(db, id));
      if (done < USERS) interrupted += 1;
      lines.push(`round ${round}: killed when ${reached} were done, or more: ${done}`);
      belfry = await startBelfry(dataDir);
      await until(
        () => call('GET', `/imports/${id}`),
        ({ body }) => body.status === 'processed',
      );
    }
    await settled(belfry);
    console.log([`seed ${seed}`, ...lines].join('\n'));
    expect(interrupted).toBeGreaterThan(0);

    for (const [round, id] of ids.entries()) {
      const { body } = await call('GET', `/imports/${id}`);
      expect(body).toMatchObject(resultOf(round));
      expect(body.failures.map(({ row }: { row: number }) => row)).toEqual(
        Array.from({ length: USERS }, (_, index) => index + 1).filter((row) => (row - 1) % 100 >= 98),
      );
    }
    belfry.signal('SIGTERM');
    expect(await belfry.ended).toBe(0);
    const stored = await withDatabaseOf(dataDir, ({ db }) => readStored(db));
    const created = (((ROUNDS + 1) * NEW) / 100) * (100 - FAILING);
    expect(stored).toEqual({
      users: created + 1,
      identified: created + 1,
      latest: created,
      keys: 2 * (created + 1),
      createdEvents: created + 1,
      updatedEvents: (((ROUNDS - 1) * NEW) / 100) * (100 - FAILING),
      unprocessed: 0,
      jobs: 0,
    });
  },
);

async function usersDone(db: Queryable, id: string): Promise<number> {
  const [stored] = await rowsOf<{ done: number }>(db, 'select done from user_imports where id = $1', [id]);
  return stored?.done ?? 0;
}

async function readStored(db: Queryable) {
  const events = (type: string) =>
    `(select coalesce(sum(cardinality(user_ids)), 0)::int from events where type = '${type}')`;
  const [stored] = await rowsOf(
    db,
    `select (select count(*)::int from users) as users,
      (select count(distinct (external_id, email))::int from users) as identified,
      (
        select count(*)::int from users
        where first_name
          = 'Round ' || least(nullif(split_part(external_id, '-', 2), '')::int / ${NEW}, ${ROUNDS - 1})
      ) as latest,
      (
        select count(*)::int
        from user_keys k
        join users u on u.id = k.user_id and k.value in (u.external_id, u.email)
      ) as keys,
      ${events('user.created')} as "createdEvents",
      ${events('user.updated')} as "updatedEvents",
      (select count(*)::int from user_import_pages where rows is not null) as unprocessed,
      (select count(*)::int from jobs) as jobs`,
  );
  return stored;
}

test('imports of the same users by two servers create each user and count each change once', async () => {
  const first = await startTestService({ pollMs: 50 });
  onTestFinished(first.stop);
  const { config, log, db } = first.context;
  const second = await startService(config, { log, pollMs: 50 });
  onTestFinished(second.stop);
  const { call: send } = first.project;
  const users = Array.from({ length: 3_000 }, (_, index) => ({
    external_id: `user-${index}`,
    email: `user-${index}@example.com`,
  }));
  // In both orders, so that the imports meet.
  const ids = await Promise.all(
    [users, users.toReversed(), users, users.toReversed()].map((some) => sendImport(send, some)),
  );
  const results = await Promise.all(
    ids.map((id) =>
      until(
        async () => (await send('GET', `/imports/${id}`)).body,
        (body) => body.status === 'processed',
      ),
    ),
  );
  const sum = (of: (result: { created: number; updated: number }) => number) =>
    results.reduce((all, result) => all + of(result), 0);
  expect(results).toMatchObject(ids.map(() => ({ total: 3_000, done: 3_000, failed: 0 })));
  expect([sum(({ created }) => created), sum(({ updated }) => updated)]).toEqual([3_000, 0]);
  const [stored] = await rowsOf(
    db,
    `select count(*)::int as users, count(distinct external_id)::int as ids,
      count(distinct email)::int as emails
    from users
    where project_id = $1`,
    [first.project.id],
  );
  expect(stored).toEqual({ users: 3_000, ids: 3_000, emails: 3_000 });
});
