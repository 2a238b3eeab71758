import { rm } from 'node:fs/promises';
import { setTimeout as delay } from 'node:timers/promises';
import { afterAll, beforeAll, expect, test } from 'vitest';
import {
  type AllChannelsLoad,
  type Completed,
  checkDeliveries,
  completedDeliveries,
  loadAllChannels,
  makeReachableUsers,
  type SentBroadcast,
  summaryLines,
} from '../support/all-channels-load.ts';
import { type BelfryProcess, startBelfry, withDatabaseOf } from '../support/belfry-process.ts';
import { newDataDir } from '../support/data-dir.ts';
import { newSeed, randomFrom } from '../support/random.ts';
import { rounds } from '../support/rounds.ts';
import { projectWith, type TestProject, until } from '../support/service.ts';
import { startVendors, type Vendors } from '../support/vendors.ts';

// Like kill.test.ts, with deliveries on every channel. A vendor may get a message twice if its outcome was
// not recorded yet; nothing else may happen. FAULT_ROUNDS sets the number of kills.

const ROUNDS = rounds(2, 20);
const USERS = 20;
const BURST = 6;

const seed = newSeed();
const random = randomFrom(seed);
const integer = (below: number) => Math.floor(random() * below);

let dataDir = '';
let vendors: Vendors;
let belfry: BelfryProcess | undefined;

beforeAll(async () => {
  dataDir = await newDataDir('kill-channels');
  vendors = await startVendors();
});
afterAll(async () => {
  await belfry?.killTree();
  await vendors.stop();
  await rm(dataDir, { recursive: true, force: true });
});

async function start(): Promise<{ server: BelfryProcess; project: TestProject }> {
  const server = await startBelfry(dataDir, vendors.settings);
  belfry = server;
  const { project_id: id, api_key: apiKey, api_secret: apiSecret, project_jwt: jwt } = server.credentials;
  return { server, project: projectWith(() => server.address, { id, apiKey, apiSecret, jwt }) };
}

/** Whether everything of a broadcast of this load was delivered. */
async function isDelivered({ call }: TestProject, { sent }: AllChannelsLoad): Promise<boolean> {
  const { body } = await call('GET', '/broadcasts?limit=100');
  return body.data.some(
    ({ id, status }: { id: string; status: { status: string; summary: { pending: number } } }) =>
      status.status === 'processed' && status.summary.pending === 0 && sent.some((one) => one.id === id),
  );
}

test.runIf(process.platform === 'linux')(
  `messages end once and arrive at least once despite ${ROUNDS} kills of every process (FAULT_SEED=${seed})`,
  { timeout: 300_000 + ROUNDS * 20_000 },
  async () => {
    const sent: SentBroadcast[] = [];
    const completed: Completed[] = [];
    let interrupted = 0;
    let { server, project } = await start();
    await vendors.setUp(project);
    const users = await makeReachableUsers(project, vendors, USERS);
    for (let round = 1; round <= ROUNDS; round += 1) {
      const running = loadAllChannels({ project, users, random }, round);
      if (round === ROUNDS) await until(() => isDelivered(project, running), Boolean);
      await delay(100 + integer(900));
      const stopped = running.stop();
      const burst = Array.from({ length: BURST }, running.one);
      await delay(integer(150));
      await server.killTree();
      const errors = server.output.filter((line) => line.includes('"level":"error"'));
      expect(errors.filter((line) => !line.includes('"msg":"request"'))).toEqual([]);
      await Promise.all([stopped, ...burst]);
      sent.push(...running.sent);
      // Not always: this reads with a command, which repairs the database before the server starts.
      if (round === ROUNDS)
        completed.push(
          await withDatabaseOf(dataDir, ({ db }) => completedDeliveries(db, { vendors, users })),
        );
      ({ server, project } = await start());
      const { body } = await project.call('GET', '/broadcasts?limit=100');
      interrupted += body.data.filter(
        ({ status }: { status: { status: string; summary: { pending: number } } }) =>
          status.status !== 'processed' || status.summary.pending > 0,
      ).length;
    }
    const account = await checkDeliveries({ project, vendors, users }, sent, completed);
    const lost = sent.filter(({ id }) => id === undefined).length;
    console.log(
      [
        `seed ${seed}: ${sent.length} broadcasts sent, ${lost} responses lost, ${interrupted} ` +
          `interrupted in flight`,
        ...summaryLines(account),
      ].join('\n'),
    );
    // The kills hit what they were meant to hit.
    expect(interrupted).toBeGreaterThan(0);
    expect(completed.flatMap(({ deliveries }) => deliveries).length).toBeGreaterThan(0);
    server.signal('SIGTERM');
    expect(await server.ended).toBe(0);
  },
);
