import { type Belfry, startBelfry } from '../support/belfry.ts';
import { broadcastBody, randomIds } from '../support/broadcast-body.ts';
import type { LoadResult } from '../support/load.ts';
import {
  copyPlainly,
  createPlainTables,
  insertPlainly,
  insertUsersPlainly,
  type Rows,
  rowsSince,
} from '../support/plain-rows.ts';
import { cpuOf, used } from '../support/processes.ts';
import { holdFanOut, queueEmpty } from '../support/queue.ts';
import type { Bench, Scenario } from '../support/scenario.ts';
import { median } from '../support/statistics.ts';
import { startTask, type Task } from '../support/task.ts';

const RECIPIENTS = 1_000;
const CONNECTIONS = 8;

/** The result of one round, for one kind of broadcast. */
interface Sample {
  perSecond: number;
  /** The share of the rate of a plain insert of the same rows, in the same round. */
  ofPlain: number;
  nodeMicros: number;
  postgresMicros: number;
}

/**
 * Broadcasts to a thousand users, from the request until every notification is written, and the fan-out
 * alone from a full queue; each followed by the plain insert of the same rows. Rounds take turns, so that
 * other load on the machine affects all alike.
 */
export const measureFanOut: Scenario = async (bench) => {
  const belfry = await startBelfry(bench);
  const sender = startTask('send.ts');
  try {
    await createPlainTables(belfry.db);
    const samples = new Map<string, Sample[]>();
    const limits: Limits = { unnest: [], copy: [] };
    const take = async (name: string, bodies: string[], how: typeof endToEnd) => {
      const sinceMs = Date.now();
      const before = cpuOf(belfry.pid);
      const { seconds, since } = await how(belfry, sender, bodies);
      const usage = used(since ?? before, cpuOf(belfry.pid));
      const rows = await rowsSince(belfry.db, sinceMs);
      const count = rows.reduce((sum, one) => sum + one.userIds.length, 0);
      if (count !== bodies.length * RECIPIENTS)
        throw new Error(`${count} notifications for ${bodies.length} broadcasts`);
      const limit = await plain(belfry, rows, limits, name.includes('new'));
      const list = samples.get(name) ?? [];
      samples.set(name, list);
      list.push({
        perSecond: count / seconds,
        ofPlain: count / seconds / limit,
        nodeMicros: (usage.nodeCpuMs * 1000) / count,
        postgresMicros: (usage.postgresCpuMs * 1000) / count,
      });
    };
    const rounds = bench.quick ? 1 : 3;
    const broadcasts = bench.quick ? 20 : 100;
    // The first batches run cold code, and are not measured.
    await endToEnd(belfry, sender, newUsers(`warm${Date.now()}-`, 10));
    for (let round = 1; round <= rounds; round += 1) {
      const prefix = `a${Date.now()}-`;
      const known = () =>
        Array.from({ length: broadcasts }, () =>
          broadcastBody(randomIds(prefix, broadcasts * RECIPIENTS, RECIPIENTS)),
        );
      await take('new users, from the request on', newUsers(prefix, broadcasts), endToEnd);
      await take('known users, from the request on', known(), endToEnd);
      await take('new users, fan-out of a full queue', newUsers(`b${prefix}`, broadcasts), fanOutAlone);
      await take('known users, fan-out of a full queue', known(), fanOutAlone);
    }
    show(bench, samples, limits);
  } finally {
    sender.stop();
    await belfry.stop();
  }
};

function newUsers(prefix: string, broadcasts: number): string[] {
  return Array.from({ length: broadcasts }, (_, broadcast) =>
    broadcastBody(
      Array.from({ length: RECIPIENTS }, (_, index) => `${prefix}${broadcast * RECIPIENTS + index}`),
    ),
  );
}

async function post(belfry: Belfry, sender: Task, bodies: string[]): Promise<LoadResult> {
  const sent = await sender.request<LoadResult>({
    address: belfry.address,
    jwt: belfry.projectJwt,
    bodies,
    connections: CONNECTIONS,
  });
  if (sent.errors > 0) throw new Error(`${sent.errors} broadcasts were not accepted`);
  return sent;
}

type Measured = { seconds: number; since?: ReturnType<typeof cpuOf> };

async function endToEnd(belfry: Belfry, sender: Task, bodies: string[]): Promise<Measured> {
  const startedMs = performance.now();
  await post(belfry, sender, bodies);
  await queueEmpty(belfry);
  return { seconds: (performance.now() - startedMs) / 1000 };
}

async function fanOutAlone(belfry: Belfry, sender: Task, bodies: string[]): Promise<Measured> {
  const hold = await holdFanOut(belfry);
  // Notifications to known users are written when they are accepted, of one broadcast at a time: while the
  // first waits, the others go into the queue.
  const [first = '', ...others] = bodies;
  const accepted = belfry.call('POST', '/broadcasts', JSON.parse(first));
  await hold.reached();
  await post(belfry, sender, others);
  const since = cpuOf(belfry.pid);
  const startedMs = await hold.release();
  if ((await accepted).status !== 201) throw new Error('the first broadcast was not accepted');
  await queueEmpty(belfry);
  return { seconds: (performance.now() - startedMs) / 1000, since };
}

/** Writes the same rows plainly. Returns the rows per second of the faster way. */
async function plain(
  belfry: Belfry,
  rows: readonly Rows[],
  limits: Limits,
  withUsers: boolean,
): Promise<number> {
  const count = rows.length * RECIPIENTS;
  const unnest = await insertPlainly(belfry, rows);
  const copy = await copyPlainly(belfry, rows);
  const users = withUsers ? await insertUsersPlainly(belfry, rows) : undefined;
  for (const [list, cost] of [
    [limits.unnest, unnest],
    [limits.copy, copy],
  ] as const)
    list.push({ perSecond: count / cost.seconds, postgresMicros: (cost.postgresCpuMs * 1000) / count });
  return count / (Math.min(unnest.seconds, copy.seconds) + (users?.seconds ?? 0));
}

type Limit = { perSecond: number; postgresMicros: number };
type Limits = { unnest: Limit[]; copy: Limit[] };

function show({ figure }: Bench, samples: ReadonlyMap<string, readonly Sample[]>, limits: Limits): void {
  for (const [name, list] of [
    ['limit: plain insert by unnest, 1000 rows a commit', limits.unnest],
    ['limit: COPY, 1000 rows a commit', limits.copy],
  ] as const) {
    const cpu = median(list.map(({ postgresMicros }) => postgresMicros));
    figure({
      name,
      value: median(list.map(({ perSecond }) => perSecond)),
      unit: 'rows/s',
      note: `CPU each: postgres ${cpu.toFixed(1)} µs`,
    });
  }
  for (const [name, list] of samples) {
    const middle = (member: keyof Sample) => median(list.map((sample) => sample[member]));
    const [node, postgres] = [middle('nodeMicros').toFixed(1), middle('postgresMicros').toFixed(1)];
    figure({
      name,
      value: middle('perSecond'),
      unit: 'notifications/s',
      note: `CPU each: node ${node} µs, postgres ${postgres} µs`,
    });
    figure({
      name: `${name}: share of the limit`,
      value: 100 * middle('ofPlain'),
      unit: '%',
      aim: { value: 50, better: 'more' },
      ...(name.includes('new') ? { note: 'the limit writes users and their keys, too' } : {}),
    });
  }
}
