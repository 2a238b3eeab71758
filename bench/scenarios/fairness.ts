import { setTimeout as delay } from 'node:timers/promises';
import { sql } from '../../server/src/db/client.ts';
import { createProject } from '../../server/src/domain/setup/projects/create.ts';
import { issueToken } from '../../server/src/domain/setup/projects/tokens.ts';
import { systemClock } from '../../server/src/lib/clock.ts';
import { createSealer, loadOrCreateKey } from '../../server/src/lib/seal.ts';
import { type Belfry, startBelfry, until } from '../support/belfry.ts';
import { broadcastBody } from '../support/broadcast-body.ts';
import { fcmAccount } from '../support/fcm-account.ts';
import type { LoadResult } from '../support/load.ts';
import { type Mailers, startMailers } from '../support/mailers.ts';
import { createPushUsers } from '../support/push-users.ts';
import { queueEmpty } from '../support/queue.ts';
import type { Bench, Scenario } from '../support/scenario.ts';
import { percentile } from '../support/statistics.ts';
import { runTask, startTask } from '../support/task.ts';

const RECIPIENTS = 1_000;
const CONNECTIONS = 8;
const EVERY_MS = 100;
const HANGING_PROJECTS = 12;
const AIM_MS = 1_000;

/** How long messages took to the mailer, from the request and from its response. */
interface Delays {
  fromRequestMs: number[];
  fromResponseMs: number[];
}

/** Sends single messages of a project while `goOn` returns true: some ten a second, or one after another. */
type Probe = (goOn: (sent: number) => boolean, oneByOne?: 'one by one') => Promise<Delays>;

/**
 * (fairness) How long a single message of one project takes, from the request until its mailer has it: on an
 * idle server, in a series of such messages, beside campaigns of another project (to 600,000 users in the
 * inbox and on a phone, then 600,000 notifications to inboxes alone), and beside campaigns of twelve projects
 * whose mailers hang. All but the last also on a node of two processes.
 */
export const measureFairness: Scenario = async (bench) => {
  const vendor = startTask('push-vendor.ts');
  const { http1, http2 } = await vendor.request<{ http1: string; http2: string }>({});
  const mailers = await startMailers();
  try {
    // One process last: the mailers that hang leave jobs in the queue.
    for (const processes of [2, 1]) {
      const settings = { PROVIDER_FCM_BASE_URL: http2, PROCESSES: String(processes) };
      const belfry = await startBelfry({ ...bench, settings });
      try {
        const figure: Bench['figure'] = (one) =>
          bench.figure({ ...one, name: `${processes === 1 ? 'one process' : 'two processes'}: ${one.name}` });
        await measure({ ...bench, figure }, belfry, mailers, { vendor: http1, hanging: processes === 1 });
      } finally {
        await belfry.stop();
      }
    }
  } finally {
    mailers.stop();
    vendor.stop();
  }
};

async function measure(
  bench: Bench,
  belfry: Belfry,
  mailers: Mailers,
  { vendor, hanging }: { vendor: string; hanging: boolean },
): Promise<void> {
  await saved(belfry.call('PUT', '/integrations/fcm', fcmAccount(`${vendor}/token`)));
  const jwt = await newProject(belfry, mailers.url);
  const probe = createProbe(belfry, mailers, jwt);
  const count = bench.quick ? 20 : 200;
  await probe((sent) => sent < count / 4); // cold code
  show(bench, 'with nothing else to do', await probe((sent) => sent < count));
  show(bench, 'one after another', await probe((sent) => sent < 2 * count, 'one by one'));
  await besideBulk(bench, belfry, probe, count);
  await besideInboxes(bench, belfry, probe);
  if (hanging) await besideHanging(bench, belfry, mailers, probe, count);
}

async function besideBulk(bench: Bench, belfry: Belfry, probe: Probe, count: number): Promise<void> {
  const thousands = bench.quick ? 20 : 600;
  const prefix = `fair${Date.now()}-`;
  await createPushUsers(belfry, prefix, thousands * RECIPIENTS);
  const { delays, perSecond } = await campaign(belfry, bodiesTo(prefix, thousands, thousands), probe);
  const atFirst = await left(belfry, 'deliver');
  const then = await probe((sent) => sent < count);
  const atLast = await left(belfry, 'deliver');
  show(bench, `while ${shown(thousands)} users are fanned out`, delays);
  bench.figure({
    name: 'the fan-out of these users beside the messages',
    value: perSecond,
    unit: 'users/s',
  });
  show(
    bench,
    'while the pushes to them go out',
    then,
    `${atFirst * 100} waited at first, ${atLast * 100} at last`,
  );
  // The rest is not measured.
  await belfry.db.query(sql('', 'delete from jobs where project_id = $1 and lease_id is null'), [
    belfry.projectId,
  ]);
  await queueEmpty(belfry);
}

async function besideInboxes(bench: Bench, belfry: Belfry, probe: Probe): Promise<void> {
  const thousands = bench.quick ? 20 : 600;
  const prefix = `inbox${Date.now()}-`;
  const users = thousands / 5;
  await campaign(belfry, bodiesTo(prefix, users, users), probe); // creates the users
  const { delays, perSecond } = await campaign(belfry, bodiesTo(prefix, users, thousands), probe);
  show(bench, `while ${shown(thousands)} notifications are written to inboxes alone`, delays);
  bench.figure({
    name: 'notifications to inboxes alone, beside the messages',
    value: perSecond,
    unit: 'notifications/s',
  });
}

const shown = (thousands: number) => (thousands * RECIPIENTS).toLocaleString('en-US');

/** Broadcasts to the users `<prefix>0` …: a thousand each, in turn. */
function bodiesTo(prefix: string, thousands: number, broadcasts: number): string[] {
  return Array.from({ length: broadcasts }, (_, broadcast) =>
    broadcastBody(
      Array.from(
        { length: RECIPIENTS },
        (_none, index) => `${prefix}${(broadcast % thousands) * RECIPIENTS + index}`,
      ),
    ),
  );
}

/**
 * Sends these broadcasts beside single messages. Returns how many recipients were fanned out a second, from
 * the first request to the last fan-out.
 */
async function campaign(
  belfry: Belfry,
  bodies: string[],
  probe: Probe,
): Promise<{ delays: Delays; perSecond: number }> {
  const { address, projectJwt: jwt } = belfry;
  let hasEnded = false;
  const startedMs = performance.now();
  const sending = runTask<LoadResult>('send.ts', { address, jwt, bodies, connections: CONNECTIONS })
    .then(async ({ errors }) => {
      if (errors > 0) throw new Error(`${errors} broadcasts were not accepted`);
      await until('all fan-outs have ended', async () => (await left(belfry, 'fan_out')) === 0);
      return performance.now();
    })
    .finally(() => {
      hasEnded = true;
    });
  const [delays, endedMs] = await Promise.all([probe(() => !hasEnded), sending]);
  return { delays, perSecond: (bodies.length * RECIPIENTS) / ((endedMs - startedMs) / 1_000) };
}

async function besideHanging(
  bench: Bench,
  belfry: Belfry,
  mailers: Mailers,
  probe: Probe,
  count: number,
): Promise<void> {
  const projects = await Promise.all(
    Array.from({ length: HANGING_PROJECTS }, () => newProject(belfry, mailers.hangingUrl)),
  );
  const ids = Array.from({ length: RECIPIENTS }, (_none, index) => `hanging-${Date.now()}-${index}`);
  const body = JSON.parse(broadcastBody(ids, true)) as object;
  for (const jwt of projects) await saved(belfry.call('POST', '/broadcasts', body, jwt));
  const delays = await probe((sent) => sent < count || mailers.hanging < HANGING_PROJECTS);
  show(
    bench,
    `while the mailers of ${HANGING_PROJECTS} projects hang`,
    delays,
    `${mailers.hanging} e-mails without a response`,
  );
}

/** Creates a project with a mailer. Returns its token. */
async function newProject({ db, dataDir, call }: Belfry, url: string): Promise<string> {
  const sealer = createSealer([loadOrCreateKey(dataDir)]);
  projectsMade += 1;
  const project = await createProject({ db, sealer }, `fairness ${Date.now()} ${projectsMade}`);
  const context = { db, sealer, clock: systemClock };
  const issued = await issueToken(context, { projectId: project?.id ?? '', name: 'bench' });
  if (issued === undefined) throw new Error('there is no project');
  await saved(call('PUT', '/integrations/ping_email', { url }, issued.token));
  return issued.token;
}
let projectsMade = 0;

async function saved(response: ReturnType<Belfry['call']>): Promise<void> {
  const { status, body } = await response;
  if (status >= 300) throw new Error(`saving returned ${status}: ${JSON.stringify(body)}`);
}

function createProbe({ call }: Belfry, mailers: Mailers, jwt: string): Probe {
  let count = 0;
  const one = async () => {
    count += 1;
    const title = `single ${count}`;
    const arrival = mailers.arrival(title);
    const startedMs = performance.now();
    const name = `single-${count}`;
    const recipients = [{ external_id: name, email: `${name}@example.com` }];
    await saved(call('POST', '/broadcasts', { title, recipients }, jwt));
    const respondedMs = performance.now();
    const arrivedMs = await arrival;
    return { fromRequestMs: arrivedMs - startedMs, fromResponseMs: Math.max(0, arrivedMs - respondedMs) };
  };
  return async (goOn, oneByOne) => {
    const sent: ReturnType<typeof one>[] = [];
    while (goOn(sent.length)) {
      const message = one();
      sent.push(message);
      if (oneByOne) await message;
      else await delay(EVERY_MS * (0.5 + Math.random()));
    }
    const all = await Promise.all(sent);
    return {
      fromRequestMs: all.map(({ fromRequestMs }) => fromRequestMs),
      fromResponseMs: all.map(({ fromResponseMs }) => fromResponseMs),
    };
  };
}

/** How many jobs the project of the campaign has. */
async function left({ db, projectId }: Belfry, kind: string): Promise<number> {
  const [row] = await db.query<{ bench: number }>(
    sql('bench_jobs_left', 'select count(*)::int as bench from jobs where kind = $1 and project_id = $2'),
    [kind, projectId],
  );
  return row?.bench ?? 0;
}

function show(
  { figure }: Bench,
  when: string,
  { fromRequestMs, fromResponseMs }: Delays,
  note?: string,
): void {
  const count = `${fromRequestMs.length} messages${note === undefined ? '' : `; ${note}`}`;
  for (const percent of [50, 99])
    figure({
      name: `request → mailer, ${when}: p${percent}`,
      value: percentile(fromRequestMs, percent),
      unit: 'ms',
      ...(percent === 50 ? {} : { aim: { value: AIM_MS, better: 'less' as const } }),
      note:
        `from the 201 on: ${percentile(fromResponseMs, percent).toFixed(0)} ms; ` +
        (percent === 50 ? count : `the slowest: ${Math.max(...fromRequestMs).toFixed(0)} ms`),
    });
}
