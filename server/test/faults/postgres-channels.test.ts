import { rm } from 'node:fs/promises';
import { setTimeout as delay } from 'node:timers/promises';
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import {
  type AllChannelsLoad,
  checkDeliveries,
  loadAllChannels,
  makeReachableUsers,
  type ReachableUser,
  summaryLines,
} from '../support/all-channels-load.ts';
import { kill, postmasterOf } from '../support/belfry-process.ts';
import { newDataDir } from '../support/data-dir.ts';
import { newSeed, randomFrom } from '../support/random.ts';
import { startTestService, type TestService, until } from '../support/service.ts';
import { startVendors, type Vendors } from '../support/vendors.ts';

// Faults of PostgreSQL while every channel delivers.

const USERS = 20;
const CUTS = 40;
const KILLS = 3;

const seed = newSeed();
const random = randomFrom(seed);

let dataDir = '';
let vendors: Vendors;
let service: TestService;
let users: ReachableUser[];
let round = 0;

beforeAll(async () => {
  dataDir = await newDataDir('postgres-channels');
  vendors = await startVendors();
  const settings = { ...vendors.settings, DATA_DIR: dataDir, DATABASE_URL: '' };
  service = await startTestService({ settings, pollMs: 100 });
  await vendors.setUp(service.project);
  users = await makeReachableUsers(service.project, vendors, USERS);
});
afterAll(async () => {
  await service?.stop();
  await vendors?.stop();
  await rm(dataDir, { recursive: true, force: true });
});
beforeEach(() => {
  round += 1;
});

/** Everything that was sent so far: both tests use one service. */
const sentBefore: AllChannelsLoad['sent'] = [];

async function account(what: string, running: AllChannelsLoad): Promise<void> {
  await running.stop();
  sentBefore.push(...running.sent);
  const refused = running.sent.filter(({ id }) => id === undefined).length;
  const taken = await checkDeliveries({ project: service.project, vendors, users }, sentBefore);
  console.log(
    [
      `seed ${seed}: ${what}; ${running.sent.length} broadcasts sent, ${refused} rejected or without a ` +
        `response`,
      ...summaryLines(taken),
    ].join('\n'),
  );
}

async function accepted(running: AllChannelsLoad, count: number): Promise<void> {
  await until(
    () => running.sent.filter(({ id }) => id !== undefined).length,
    (seen) => seen >= count,
  );
}

test(`broken connections while every channel delivers lose nothing (FAULT_SEED=${seed})`, async () => {
  const running = loadAllChannels({ project: service.project, users, random }, round);
  const surgeon = await service.context.db.connect();
  let cut = 0;
  for (let turn = 0; turn < CUTS; turn += 1) {
    await delay(random() * 60);
    const { rows } = await surgeon.query(
      `select pg_terminate_backend(pid) from pg_stat_activity
        where application_name like 'belfry %' and pid <> pg_backend_pid()
          and (state <> 'idle' or random() < 0.2)`,
    );
    cut += rows.length;
  }
  await surgeon.end();
  expect(cut).toBeGreaterThan(10);
  await account(`${cut} connections cut`, running);
});

test.runIf(process.platform === 'linux')(
  `${KILLS} kills of PostgreSQL while every channel delivers lose nothing (FAULT_SEED=${seed})`,
  async () => {
    const running = loadAllChannels({ project: service.project, users, random }, round);
    for (let turn = 1; turn <= KILLS; turn += 1) {
      await accepted(running, 10 * turn);
      kill(postmasterOf(dataDir), 'SIGKILL');
      await until(
        () => service.project.call('GET', '/broadcasts?limit=1').catch(() => ({ status: 0 })),
        ({ status }) => status === 200,
      );
    }
    await accepted(running, 10 * (KILLS + 1));
    await account(`PostgreSQL killed ${KILLS} times`, running);
  },
);
