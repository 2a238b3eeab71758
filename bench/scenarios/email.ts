import { type Belfry, startBelfry } from '../support/belfry.ts';
import { broadcastBody } from '../support/broadcast-body.ts';
import type { LoadResult } from '../support/load.ts';
import { startMailSink } from '../support/mail-sink.ts';
import { cpuOf, used } from '../support/processes.ts';
import { queueEmpty } from '../support/queue.ts';
import type { Scenario } from '../support/scenario.ts';
import { median } from '../support/statistics.ts';
import { runTask, startTask, type Task } from '../support/task.ts';

const RECIPIENTS = 1_000;
const SINGLES_AT_ONCE = 16;

interface Sample {
  perSecond: number;
  ofNodemailer: number;
  nodeMicros: number;
  postgresMicros: number;
}

/**
 * E-mails to a mail server, from the request until every outcome is written; and nodemailer alone, in
 * turns. Then the same with a broadcast for each e-mail.
 */
export const measureEmail: Scenario = async (bench) => {
  const belfry = await startBelfry(bench);
  const sender = startTask('send.ts');
  const sink = await startMailSink();
  try {
    const saved = await belfry.call('PUT', '/integrations/smtp', {
      host: '127.0.0.1',
      port: sink.port,
      username: '',
      password: '',
      from: { email: 'shop@example.com', name: 'The Shop' },
      security: 'none',
    });
    if (saved.status !== 200)
      throw new Error(`saving the integration returned ${saved.status}: ${JSON.stringify(saved.body)}`);
    const broadcasts = bench.quick ? 2 : 10;
    const prefix = `e${Date.now()}-`;
    await endToEnd(belfry, sender, bodies(prefix, broadcasts)); // creates the users, and warms up the code
    const alone: { perSecond: number; cpuMicros: number }[] = [];
    const samples: Sample[] = [];
    for (let round = 1; round <= (bench.quick ? 1 : 3); round += 1) {
      const count = broadcasts * RECIPIENTS;
      const limit = await runTask<{ perSecond: number; cpuMicros: number }>('nodemailer.ts', {
        port: sink.port,
        count,
      });
      alone.push(limit);
      const before = cpuOf(belfry.pid);
      const seconds = await endToEnd(belfry, sender, bodies(prefix, broadcasts));
      const sample = sampleOf(count, seconds, used(before, cpuOf(belfry.pid)));
      samples.push({ ...sample, ofNodemailer: sample.perSecond / limit.perSecond });
    }
    const singles: Omit<Sample, 'ofNodemailer'>[] = [];
    for (let round = 1; round <= (bench.quick ? 1 : 3); round += 1) {
      const before = cpuOf(belfry.pid);
      const all = oneEach(prefix, (broadcasts * RECIPIENTS) / 2);
      const seconds = await endToEnd(belfry, sender, all, SINGLES_AT_ONCE);
      singles.push(sampleOf(all.length, seconds, used(before, cpuOf(belfry.pid))));
    }
    const middle = (member: keyof Sample) => median(samples.map((sample) => sample[member]));
    const [node, postgres] = [middle('nodeMicros').toFixed(0), middle('postgresMicros').toFixed(0)];
    bench.figure({
      name: 'limit: nodemailer alone',
      value: median(alone.map(({ perSecond }) => perSecond)),
      unit: 'e-mails/s',
      note: `CPU each: ${median(alone.map(({ cpuMicros }) => cpuMicros)).toFixed(0)} µs; to ${sink.name}`,
    });
    bench.figure({
      name: 'e-mails, from the request until the outcome is written',
      value: middle('perSecond'),
      unit: 'e-mails/s',
      note: `CPU each: node ${node} µs, postgres ${postgres} µs`,
    });
    bench.figure({
      name: 'share of nodemailer alone',
      value: 100 * middle('ofNodemailer'),
      unit: '%',
      aim: { value: 70, better: 'more' },
    });
    const each = (member: 'nodeMicros' | 'postgresMicros') =>
      median(singles.map((one) => one[member])).toFixed(0);
    bench.figure({
      name: `a broadcast for each e-mail, ${SINGLES_AT_ONCE} requests at a time`,
      value: median(singles.map(({ perSecond }) => perSecond)),
      unit: 'e-mails/s',
      note: `CPU each: node ${each('nodeMicros')} µs, postgres ${each('postgresMicros')} µs`,
    });
  } finally {
    sink.stop();
    sender.stop();
    await belfry.call('DELETE', '/integrations/smtp');
    await belfry.stop();
  }
};

function bodies(prefix: string, broadcasts: number): string[] {
  return Array.from({ length: broadcasts }, (_, broadcast) =>
    broadcastBody(
      Array.from({ length: RECIPIENTS }, (_, index) => `${prefix}${broadcast * RECIPIENTS + index}`),
      true,
    ),
  );
}

/** A broadcast to each of the users of `bodies`. */
function oneEach(prefix: string, users: number): string[] {
  return Array.from({ length: users }, (_, index) => broadcastBody([`${prefix}${index}`]));
}

function sampleOf(
  count: number,
  seconds: number,
  usage: { nodeCpuMs: number; postgresCpuMs: number },
): Omit<Sample, 'ofNodemailer'> {
  return {
    perSecond: count / seconds,
    nodeMicros: (usage.nodeCpuMs * 1000) / count,
    postgresMicros: (usage.postgresCpuMs * 1000) / count,
  };
}

async function endToEnd(belfry: Belfry, sender: Task, all: string[], connections = 4): Promise<number> {
  const startedMs = performance.now();
  const { address, projectJwt: jwt } = belfry;
  const sent = await sender.request<LoadResult>({ address, jwt, bodies: all, connections });
  if (sent.errors > 0) throw new Error(`${sent.errors} broadcasts were not accepted`);
  await queueEmpty(belfry);
  return (performance.now() - startedMs) / 1000;
}
