import { rm } from 'node:fs/promises';
import { setTimeout as delay } from 'node:timers/promises';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { Queryable } from '../../src/db/client.ts';
import { type BelfryProcess, startBelfry, withDatabaseOf } from '../support/belfry-process.ts';
import { newDataDir } from '../support/data-dir.ts';
import { messageIdOf, saveSmtp, settled } from '../support/faults.ts';
import { newSeed, randomFrom } from '../support/random.ts';
import { rounds } from '../support/rounds.ts';
import { rowsOf } from '../support/rows.ts';
import { type Caller, until } from '../support/service.ts';
import { type SmtpStandIn, startSmtpStandIn } from '../support/smtp-stand-in.ts';
import { STORED_EVENTS } from '../support/stored-events.ts';

const ROUNDS = rounds(2, 12);
const SUBSCRIBERS = 5_000;
// One of this many users has an address.
const MAILED = 10;
const NAMED = [{ external_id: 'user-7' }, { external_id: 'new user' }];

const seed = newSeed();
const random = randomFrom(seed);

let dataDir = '';
let smtp: SmtpStandIn;
let belfry: BelfryProcess;

beforeAll(async () => {
  dataDir = await newDataDir('topics');
  smtp = await startSmtpStandIn();
});
afterAll(async () => {
  await belfry?.killTree();
  await smtp.stop();
  await rm(dataDir, { recursive: true, force: true });
});

const call: Caller = (...request) => belfry.call(...request);

const withDatabase = <Result>(work: (db: Queryable) => Promise<Result>) =>
  withDatabaseOf(dataDir, ({ db }) => work(db));

async function subscribers(): Promise<void> {
  await withDatabase((db) =>
    rowsOf(
      db,
      `with made as (
        insert into users (id, project_id, external_id, email, created_at, updated_at)
        select gen_random_uuid(), p.id, 'user-' || n,
               case when n % $2 = 0 then 'user-' || n || '@example.com' end,
               now(), now()
        from projects p, generate_series(1, $1::int) n
        returning id, project_id, external_id
      ),
      keyed as (
        insert into user_keys (project_id, kind, value, user_id)
        select project_id, 'external_id', external_id, id from made
      )
      insert into subscriptions (user_id, topic, id, project_id, categories)
      select id, 'news', gen_random_uuid(), project_id, '{"*": {"status": "subscribed"}}' from made`,
      [SUBSCRIBERS, MAILED],
    ),
  );
}

async function sendToTopic(title: string): Promise<string> {
  const recipients = [{ topic: { subscribers: true } }, ...NAMED];
  const { status, body } = await call('POST', '/broadcasts', { title, topic: 'news', recipients });
  expect(status).toBe(201);
  return body.id;
}

async function sendToAll(title: string): Promise<string> {
  const { legacy_base_url, api_key, api_secret } = belfry.credentials;
  const response = await fetch(`${legacy_base_url}/notifications`, {
    method: 'POST',
    headers: {
      'content-type': 'application/json',
      'x-service-api-key': api_key,
      'x-service-api-secret': api_secret,
    },
    body: JSON.stringify({ notification: { title, recipients: [{ matches: '*' }, ...NAMED] } }),
  });
  expect(response.status).toBe(201);
  return ((await response.json()) as { notification: { id: string } }).notification.id;
}

interface Stored {
  external_id: string;
  count: number;
}

test.runIf(process.platform === 'linux')(
  `every subscriber and every user gets it once despite ${ROUNDS} kills between pages (FAULT_SEED=${seed})`,
  async () => {
    belfry = await startBelfry(dataDir);
    await saveSmtp({ call }, smtp);
    await subscribers();
    const sent: string[] = [];
    const lines: string[] = [];
    let interrupted = 0;
    for (let round = 1; round <= ROUNDS; round += 1) {
      // Every user is a subscriber. Only version 1 addresses all users.
      const id = round % 2 === 0 ? await sendToAll(`Round ${round}`) : await sendToTopic(`Round ${round}`);
      sent.push(id);
      const reached = Math.floor(random() * (SUBSCRIBERS - 500));
      await until(
        () => call('GET', `/broadcasts/${id}`),
        (response) => response.body.status.summary.total >= reached,
        { everyMs: 2 },
      );
      await delay(random() * 40);
      await belfry.killTree();
      expect(belfry.output.filter((line) => line.includes('"level":"error"'))).toEqual([]);
      belfry = await startBelfry(dataDir);
      const { body: after } = await call('GET', `/broadcasts/${id}`);
      const { total } = after.status.summary;
      if (after.status.status !== 'processed') interrupted += 1;
      lines.push(
        `round ${round}: killed at ${reached} or more; ready again with ${total}, ${after.status.status}`,
      );
    }
    await settled(belfry);
    const statuses = await Promise.all(
      sent.map(async (id) => (await call('GET', `/broadcasts/${id}`)).body.status),
    );
    belfry.signal('SIGTERM');
    expect(await belfry.ended).toBe(0);
    console.log([`seed ${seed}`, ...lines].join('\n'));
    expect(interrupted).toBeGreaterThan(0);

    for (const status of statuses)
      expect(status).toEqual({
        status: 'processed',
        summary: { total: SUBSCRIBERS + 1, failures: 0, pending: 0 },
        errors: null,
      });
    const { reached, addressed, events, mailed, jobs } = await withDatabase(readStored);
    // Each user has one notification of each broadcast, and is in one of its pages and one event.
    for (const found of [reached, addressed, events]) {
      expect(found).toHaveLength(SUBSCRIBERS + 1);
      expect(found.filter(({ count }) => count !== ROUNDS)).toEqual([]);
    }
    expect(jobs).toBe(0);
    const received = new Set(smtp.received.map(messageIdOf));
    expect(mailed.filter((id) => !received.has(id))).toEqual([]);
    expect(received.size).toBe((SUBSCRIBERS / MAILED) * ROUNDS);
  },
);

async function readStored(db: Queryable) {
  const perUser = (from: string) =>
    rowsOf<Stored>(
      db,
      `select external_id, count(*)::int as count from ${from} join users u on u.id = user_id
         group by external_id`,
    );
  const [left] = await rowsOf<{ count: number }>(db, 'select count(*)::int as count from jobs');
  const mailed = await rowsOf<{ id: string }>(
    db,
    'select n.id from notifications n join users u on u.id = n.user_id where u.email is not null',
  );
  return {
    reached: await perUser('notifications'),
    addressed: await perUser('(select unnest(user_ids) as user_id from broadcast_users) b'),
    events: await perUser(
      `(select unnest(user_ids) as user_id from ${STORED_EVENTS} where type = 'notification.created') e`,
    ),
    mailed: mailed.map(({ id }) => id),
    jobs: left?.count,
  };
}
