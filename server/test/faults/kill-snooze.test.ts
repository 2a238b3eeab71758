import { createSecretKey } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { sql } from '../../src/db/client.ts';
import { type BelfryProcess, startBelfry, withDatabaseOf } from '../support/belfry-process.ts';
import { hs256 } from '../support/jwt.ts';
import { newSeed, randomFrom } from '../support/random.ts';
import { caller } from '../support/service.ts';

// More rounds take longer.
const ROUNDS = Number(process.env.FAULT_ROUNDS ?? 2);
const NOTIFICATIONS = 40;
// They come due one after the other within this time, from the moment of the last request.
const DUE_WITHIN_MS = 1_000;
// A busy machine takes seconds for the requests, and a time that has passed is refused.
const SNOOZED_WITHIN_MS = 5_000;

const seed = newSeed();
const random = randomFrom(seed);
let dataDir = '';
let belfry: BelfryProcess | undefined;

beforeAll(async () => {
  dataDir = await mkdtemp(join(tmpdir(), 'belfry-kill-snooze-'));
});
afterAll(async () => {
  await belfry?.killTree();
  await rm(dataDir, { recursive: true, force: true });
});

function asUser({ address, credentials }: BelfryProcess) {
  const claims = { api_key: credentials.api_key, user_external_id: 'ada' };
  return caller(() => address, hs256(claims, createSecretKey(Buffer.from(credentials.api_secret))));
}

async function inbox(server: BelfryProcess): Promise<{ id: string; status: string }[]> {
  return (await asUser(server)('GET', '/notifications?limit=100')).body.data;
}

test.runIf(process.platform === 'linux')(
  `snoozed notifications return once each over ${ROUNDS} kills of every process (FAULT_SEED=${seed})`,
  async () => {
    belfry = await startBelfry(dataDir);
    for (let number = 0; number < NOTIFICATIONS; number += 1) {
      const body = { title: `${number}`, recipients: [{ external_id: 'ada' }] };
      expect((await belfry.call('POST', '/broadcasts', body)).status).toBe(201);
    }
    for (let round = 0; round < ROUNDS; round += 1) {
      const server = belfry;
      await expect.poll(async () => (await inbox(server)).length).toBe(NOTIFICATIONS);
      const dueFromMs = Date.now() + SNOOZED_WITHIN_MS;
      const snoozes = (await inbox(server)).map(async ({ id }, index) => {
        const until = new Date(dueFromMs + (index / NOTIFICATIONS) * DUE_WITHIN_MS).toISOString();
        return (await asUser(server)('POST', `/notifications/${id}/snooze`, { until })).status;
      });
      expect(new Set(await Promise.all(snoozes))).toEqual(new Set([204]));
      await delay(dueFromMs - Date.now() + random() * DUE_WITHIN_MS);
      await server.killTree();
      const restarted = await startBelfry(dataDir);
      belfry = restarted;
      const returned = async () => (await inbox(restarted)).filter(({ status }) => status === 'unseen');
      await expect.poll(async () => (await returned()).length).toBe(NOTIFICATIONS);
    }
    belfry.signal('SIGTERM');
    expect(await belfry.ended).toBe(0);
    const returns = await withDatabaseOf(dataDir, ({ db }) =>
      db.query(
        sql(
          '',
          `select broadcast_id, count(*)::int as count
          from events
          where type = 'notification.unsnoozed'
          group by broadcast_id
          having count(*) <> $1
          union all
          select null, count(distinct broadcast_id)::int
          from events
          where type = 'notification.unsnoozed'`,
        ),
        [ROUNDS],
      ),
    );
    expect(returns).toEqual([{ broadcast_id: null, count: NOTIFICATIONS }]);
  },
);
