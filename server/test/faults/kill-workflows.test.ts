import { rm } from 'node:fs/promises';
import { setTimeout as delay } from 'node:timers/promises';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { sql } from '../../src/db/client.ts';
import { unpackJson } from '../../src/lib/packed-json.ts';
import { type BelfryProcess, startBelfry, withDatabaseOf } from '../support/belfry-process.ts';
import { newDataDir } from '../support/data-dir.ts';
import { settled } from '../support/faults.ts';
import { newSeed, randomFrom } from '../support/random.ts';
import { rounds, unlessThorough } from '../support/rounds.ts';
import { startVendor, type VendorStandIn } from '../support/vendor-stand-in.ts';

// More rounds take longer.
const ROUNDS = rounds(2, 20);
// Of each of three workflows: runs of the second collect their names in digests, those of the third are
// started one by one. Both are for so many users.
const RUNS_PER_ROUND = unlessThorough(100, 334);
const GROUPS = 5;
const KILL_WITHIN_MS = 600;

const seed = newSeed();
const random = randomFrom(seed);
let dataDir = '';
let host: VendorStandIn;
let belfry: BelfryProcess | undefined;

beforeAll(async () => {
  dataDir = await newDataDir('kill-workflows');
  host = await startVendor();
  host.reply({ status: 200, body: { ok: true } });
});
afterAll(async () => {
  await belfry?.killTree();
  await host.stop();
  await rm(dataDir, { recursive: true, force: true });
});

const start = () => startBelfry(dataDir, { EGRESS_ALLOW: '127.0.0.0/8', RATE_LIMIT_WRITES: '0' });
const usersOf = (round: number) => Array.from({ length: RUNS_PER_ROUND }, (_, at) => `user-${round}-${at}`);

const titleOf = (message: Buffer): string => JSON.parse(unpackJson(message)).title;
const namesIn = (message: Buffer): string[] => JSON.parse(unpackJson(message)).content.trim().split(' ');

/** Starts the runs of a round; returns whether the response arrived. A key makes it safe to send again. */
async function startRuns({ call }: BelfryProcess, round: number): Promise<boolean> {
  const inputs = usersOf(round).map((name) => ({ user: { external_id: name }, name }));
  const headers = { 'idempotency-key': `round-${round}` };
  const ofGroups = {
    key: 'digested',
    inputs: usersOf(round).map((name, at) => ({ user: { external_id: `group-${at % GROUPS}` }, name })),
  };
  const alone = usersOf(round).map((name, at) => ({
    key: 'alone',
    input: { user: { external_id: `alone-${at % GROUPS}` }, name },
  }));
  const started = await Promise.all([
    call('POST', '/workflows/runs/bulk', { key: 'flow', inputs }, headers),
    call('POST', '/workflows/runs/bulk', ofGroups, { 'idempotency-key': `digested-${round}` }),
    ...alone.map((run) =>
      call('POST', '/workflows/runs', run, { 'idempotency-key': `alone-${run.input.name}` }),
    ),
  ]).catch(() => []);
  return started.length > 0 && started.every(({ status }) => status === 200);
}

test.runIf(process.platform === 'linux')(
  `runs send each broadcast and each digest once over ${ROUNDS} kills of every process (FAULT_SEED=${seed})`,
  { timeout: 600_000 },
  async () => {
    belfry = await start();
    const { call } = belfry;
    const steps = [
      { command: 'broadcast', input: { title: 'first' } },
      { command: 'set', input: { mark: '{{ input.name }}' } },
      { command: 'http', input: { url: `${host.address}/{{ run.data.mark }}`, retries: 10 } },
      { command: 'wait', input: { duration: 1 } },
      { command: 'broadcast', if: 'steps[2].output.body.ok', input: { title: 'second' } },
      { command: 'broadcast', if: 'input.name != run.data.mark', input: { title: 'never' } },
      { command: 'update_user', input: { first_name: '{{ run.data.mark }}' } },
      { command: 'broadcast', input: { title: 'third' } },
    ];
    const saved = await call('PUT', '/workflows', { key: 'flow', steps });
    expect([saved.status, saved.messages]).toEqual([200, []]);
    const digested = [
      { command: 'digest', input: { window: 1 } },
      {
        command: 'broadcast',
        input: {
          title: 'digest',
          content: '{% for item in steps[0].output.items %}{{ item.name }} {% endfor %}',
        },
      },
    ];
    await call('PUT', '/workflows', { key: 'digested', steps: digested });
    await call('PUT', '/workflows', {
      key: 'alone',
      steps: [{ command: 'broadcast', input: { title: '{{ input.name }}' } }],
    });
    for (let at = 0; at < GROUPS; at += 1) await call('PUT', '/users', { external_id: `alone-${at}` });
    let lost = 0;
    let unfinished = 0;
    for (let round = 0; round < ROUNDS; round += 1) {
      const starting = startRuns(belfry, round);
      await delay(random() * KILL_WITHIN_MS);
      await belfry.killTree();
      const errors = belfry.output.filter((line) => line.includes('"level":"error"'));
      expect(errors.filter((line) => !line.includes('"msg":"request"'))).toEqual([]);
      const arrived = await starting;
      belfry = await start();
      if (!arrived) {
        lost += 1;
        expect(await startRuns(belfry, round)).toBe(true);
      }
      const { body } = await belfry.call('GET', '/workflows/flow/runs?limit=100');
      unfinished += body.data.filter((run: { status: { state: number } }) => run.status.state < 3).length;
    }
    await settled(belfry);
    belfry.signal('SIGTERM');
    expect(await belfry.ended).toBe(0);

    const { runs, inboxes, jobs, digests } = await withDatabaseOf(dataDir, async ({ db }) => ({
      runs: await db.query(sql('', 'select state, count(*)::int as count from workflow_runs group by state')),
      inboxes: await db.query<{ external_id: string; first_name: string; messages: Buffer[] }>(
        sql(
          '',
          `select u.external_id, u.first_name, array_agg(b.message order by n.id) as messages
          from users u
          join notifications n on n.user_id = u.id
          join broadcasts b on b.id = n.broadcast_id
          group by u.id, u.external_id, u.first_name
          order by u.external_id`,
        ),
      ),
      jobs: await db.query(sql('', 'select kind from jobs')),
      digests: await db.query(sql('', 'select from workflow_digests')),
    }));
    console.log(`seed ${seed}: ${lost} responses lost, ${unfinished} runs unfinished at a restart`);
    const total = ROUNDS * RUNS_PER_ROUND;
    expect(unfinished).toBeGreaterThan(0);
    expect([runs, jobs, digests]).toEqual([[{ state: 3, count: 3 * total }], [], []]);
    // In the order of their names.
    const [alone, groups] = [inboxes.slice(0, GROUPS), inboxes.slice(GROUPS, 2 * GROUPS)];
    const users = inboxes.slice(2 * GROUPS);
    expect(users).toHaveLength(total);
    for (const { external_id: name, first_name, messages } of users)
      expect([name, first_name, messages.map(titleOf)]).toEqual([name, name, ['first', 'second', 'third']]);
    // Each name is in one digest, which was sent once.
    const names = groups.flatMap(({ messages }) => messages.flatMap(namesIn));
    expect(names.toSorted()).toEqual(users.map(({ external_id }) => external_id).toSorted());
    const titles = alone.flatMap(({ messages }) => messages.map(titleOf));
    expect(titles.toSorted()).toEqual(users.map(({ external_id }) => external_id).toSorted());
    expect(new Set(host.requests.map(({ path }) => path)).size).toBe(total);
  },
);
