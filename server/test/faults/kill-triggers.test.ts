import { rm } from 'node:fs/promises';
import { setTimeout as delay } from 'node:timers/promises';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { sql } from '../../src/db/client.ts';
import { unpackJson } from '../../src/lib/packed-json.ts';
import { type BelfryProcess, startBelfry, withDatabaseOf } from '../support/belfry-process.ts';
import { newDataDir } from '../support/data-dir.ts';
import { listAll } from '../support/pages.ts';
import { newSeed, randomFrom } from '../support/random.ts';
import { rounds } from '../support/rounds.ts';

// More rounds take longer.
const ROUNDS = rounds(2, 20);
const USERS_PER_ROUND = 100;
const KILL_WITHIN_MS = 900;

const seed = newSeed();
const random = randomFrom(seed);
let dataDir = '';
let belfry: BelfryProcess | undefined;

beforeAll(async () => {
  dataDir = await newDataDir('kill-triggers');
});
afterAll(async () => {
  await belfry?.killTree();
  await rm(dataDir, { recursive: true, force: true });
});

/** Sends a broadcast to new users; returns whether the response arrived. A key makes repeating it safe. */
async function createUsers(server: BelfryProcess, round: number): Promise<boolean> {
  const recipients = Array.from({ length: USERS_PER_ROUND }, (_, at) => ({
    external_id: `user-${round}-${at}`,
  }));
  const headers = { 'idempotency-key': `round-${round}` };
  const sent = await server
    .call('POST', '/broadcasts', { title: 'first', recipients }, headers)
    .catch(() => undefined);
  return sent?.status === 201;
}

const titleOf = (message: Buffer): string => JSON.parse(unpackJson(message)).title;

test.runIf(process.platform === 'linux')(
  `events start and continue each run once over ${ROUNDS} kills of every process (FAULT_SEED=${seed})`,
  async () => {
    belfry = await startBelfry(dataDir);
    const saved = await belfry.call('PUT', '/workflows', {
      key: 'flow',
      triggers: [{ event: 'user.created' }],
      steps: [
        { command: 'broadcast', input: { title: 'second' } },
        { command: 'wait_for', input: { event: 'delivery.sent', timeout: 86_400 } },
        { command: 'broadcast', input: { title: 'third' } },
      ],
    });
    expect([saved.status, saved.messages]).toEqual([200, []]);
    for (let round = 0; round < ROUNDS; round += 1) {
      const creating = createUsers(belfry, round);
      await delay(random() * KILL_WITHIN_MS);
      await belfry.killTree();
      const arrived = await creating;
      belfry = await startBelfry(dataDir);
      if (!arrived) expect(await createUsers(belfry, round)).toBe(true);
    }
    const total = ROUNDS * USERS_PER_ROUND;
    const { call } = belfry;
    await expect
      .poll(async () => (await listAll(call, '/workflows/flow/runs?limit=100&state=3')).length)
      .toBe(total);
    belfry.signal('SIGTERM');
    expect(await belfry.ended).toBe(0);

    const { runs, inboxes } = await withDatabaseOf(dataDir, async ({ db }) => ({
      runs: await db.query(sql('', 'select state, count(*)::int as count from workflow_runs group by state')),
      inboxes: await db.query<{ messages: Buffer[] }>(
        sql(
          '',
          `select array_agg(b.message order by n.id) as messages
          from notifications n
          join broadcasts b on b.id = n.broadcast_id
          group by n.user_id`,
        ),
      ),
    }));
    expect(runs).toEqual([{ state: 3, count: total }]);
    expect(inboxes).toHaveLength(total);
    for (const { messages } of inboxes) expect(messages.map(titleOf)).toEqual(['first', 'second', 'third']);
  },
);
