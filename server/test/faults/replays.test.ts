import { rm } from 'node:fs/promises';
import { setTimeout as delay } from 'node:timers/promises';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { Queryable } from '../../src/db/client.ts';
import { newId, notificationId } from '../../src/lib/ids.ts';
import { type BelfryProcess, startBelfry, withDatabaseOf } from '../support/belfry-process.ts';
import { newDataDir } from '../support/data-dir.ts';
import { newSeed, randomFrom } from '../support/random.ts';
import { rounds } from '../support/rounds.ts';
import { rowsOf } from '../support/rows.ts';
import { type Caller, until } from '../support/service.ts';
import { STORED_EVENTS } from '../support/stored-events.ts';

const ROUNDS = rounds(2, 8);
const PAGES = 9;
const USERS = PAGES * 1_000;
// During the request, or while the rest continues in the background.
const WHILE_ASKED_MS = 150;
const MEANWHILE_MS = 1_500;

const seed = newSeed();
const random = randomFrom(seed);

let dataDir = '';
let belfry: BelfryProcess;

beforeAll(async () => {
  dataDir = await newDataDir('replays');
});
afterAll(async () => {
  await belfry?.killTree();
  await rm(dataDir, { recursive: true, force: true });
});

const call: Caller = (...request) => belfry.call(...request);

const withDatabase = <Result>(work: (db: Queryable) => Promise<Result>) =>
  withDatabaseOf(dataDir, ({ db }) => work(db));

/** A broadcast that reached no inbox. */
async function failedBroadcast(db: Queryable): Promise<string> {
  const id = newId();
  await rowsOf(
    db,
    `insert into broadcasts (id, project_id, message, status, total, failed_users)
    select $1, id, $2, 'processed', $3, $3 from projects`,
    [id, Buffer.from('\0{"title":"T","content":null,"action_url":null,"custom_attributes":null}'), USERS],
  );
  for (let page = 0; page < PAGES; page += 1) {
    const users = Array.from({ length: 1_000 }, () => newId());
    const ids = [`{${users.join(',')}}`, `{${users.map((user) => notificationId(id, user)).join(',')}}`];
    await rowsOf(
      db,
      `with paged as (
        insert into broadcast_users values ($1, $2, $3::uuid[], '[{"channel":"in_app","due":1}]')
      ),
      made as (
        insert into users (id, project_id, created_at, updated_at)
        select u.id, p.id, now(), now() from unnest($3::uuid[]) as u (id), projects p
      ),
      notified as (
        insert into notifications (user_id, id, broadcast_id, sent_at, discarded_at)
        select user_id, id, $1, now(), 'infinity' from unnest($3::uuid[], $4::uuid[]) as n (user_id, id)
      )
      insert into deliveries (user_id, notification_id, channel, broadcast_id, state, attempts,
                                first_attempt_at, last_attempt_at)
      select user_id, id, 'in_app', $1, 'failed', 1, now(), now()
         from unnest($3::uuid[], $4::uuid[]) as f (user_id, id)`,
      [id, page, ...ids],
    );
  }
  return id;
}

test.runIf(process.platform === 'linux')(
  `replays resend each delivery once despite ${ROUNDS} kills of every process (FAULT_SEED=${seed})`,
  async () => {
    belfry = await startBelfry(dataDir);
    const lines: string[] = [];
    let interrupted = 0;
    for (let round = 1; round <= ROUNDS; round += 1) {
      const id = await withDatabase(failedBroadcast);
      const replay = () =>
        call('POST', `/broadcasts/${id}/deliveries/replay`, {}, { 'idempotency-key': `round-${round}` });
      const replaying = replay().then(
        ({ body }) => body.replayed as number,
        () => undefined,
      );
      if (round % 2 === 0) await replaying;
      await delay(random() * (round % 2 === 0 ? MEANWHILE_MS : WHILE_ASKED_MS));
      await belfry.killTree();
      const replayed = await replaying;
      belfry = await startBelfry(dataDir);
      const { status } = (await call('GET', `/broadcasts/${id}`)).body;
      const { failures, pending } = status.summary;
      if (pending > 0 || failures < USERS) interrupted += 1;
      lines.push(
        `round ${round}: response ${replayed ?? 'lost'}; ready again with ${failures} failed, ` +
          `${pending} pending`,
      );
      // A client without a response retries. With a response, it gets the same again.
      expect((await replay()).body).toEqual({ replayed: USERS });
      const done = await until(
        async () => (await call('GET', `/broadcasts/${id}`)).body,
        (body) => body.status.summary.pending + body.status.summary.failures === 0,
      );
      expect(done.status).toEqual({
        status: 'processed',
        summary: { total: USERS, failures: 0, pending: 0 },
        errors: null,
      });
      const [left] = await withDatabase(async (db) => {
        // A job ends a moment after its last delivery.
        await until(
          () => rowsOf(db, 'select from jobs'),
          (jobs) => jobs.length === 0,
        );
        return rowsOf(
          db,
          `select (select pending from broadcasts where id = $1) as pending,
            (select count(*)::int from deliveries where broadcast_id = $1
             and state = 'sent' and replays = 1) as sent,
            (select count(*)::int from notifications where broadcast_id = $1
             and discarded_at is null) as shown,
            (select sum(size)::int from events where broadcast_id = $1
             and type = 'delivery.replayed') as replayed,
            (select sum(size)::int from ${STORED_EVENTS} where broadcast_id = $1
             and type = 'delivery.sent') as sent_events,
            (select count(*)::int from events where broadcast_id = $1
             and type = 'broadcast.processed') as ends`,
          [id],
        );
      });
      expect(left).toEqual({
        pending: 0,
        sent: USERS,
        shown: USERS,
        replayed: USERS,
        sent_events: USERS,
        ends: 0, // a replay leaves the broadcast processed
      });
    }
    console.log([`seed ${seed}`, ...lines].join('\n'));
    expect(interrupted).toBeGreaterThan(0);
  },
);
