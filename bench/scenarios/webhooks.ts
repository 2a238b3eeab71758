import { sql } from '../../server/src/db/client.ts';
import { recordEvents } from '../../server/src/domain/ground/events/record.ts';
import { createProject } from '../../server/src/domain/setup/projects/create.ts';
import { issueToken } from '../../server/src/domain/setup/projects/tokens.ts';
import { systemClock } from '../../server/src/lib/clock.ts';
import { createSealer, loadOrCreateKey } from '../../server/src/lib/seal.ts';
import { type Belfry, startBelfry, startSecondNode, until } from '../support/belfry.ts';
import { cpuOf, used } from '../support/processes.ts';
import type { Bench, Scenario } from '../support/scenario.ts';
import { startTask, type Task } from '../support/task.ts';

const AIM = { value: 5_000, better: 'more' as const };
const WEBHOOKS_PER_PROJECT = 50; // as many as a project can have
const DEAD = 10;

interface Project {
  id: string;
  jwt: string;
}

/**
 * (webhooks) Events sent to one webhook and to a hundred, from their commit until every outcome is written,
 * in a database with earlier events and messages; by one server, by two, and beside dead webhooks.
 */
export const measureWebhooks: Scenario = async (bench) => {
  const receiver = startTask('webhook-receiver.ts');
  const { address } = await receiver.request<{ address: string }>({});
  const belfry = await startBelfry(bench);
  try {
    const one = await newProject(belfry);
    const hundred = [await newProject(belfry), await newProject(belfry)];
    await saveWebhooks(belfry, one, [`${address}/one`]);
    for (const project of hundred)
      await saveWebhooks(
        belfry,
        project,
        Array.from({ length: WEBHOOKS_PER_PROJECT }, (_, index) => `${address}/${project.id}/${index}`),
      );
    const messages = bench.quick ? 2_000 : 30_000;
    const each = messages / (hundred.length * WEBHOOKS_PER_PROJECT);
    const measure = (name: string, projects: Project[], events: number) =>
      show(bench, { belfry, receiver }, { name, projects, events, messages });
    // Writes a history, and warms up the code.
    await send({ belfry, receiver }, { projects: [one], events: messages, messages });
    await measure('one webhook', [one], messages);
    await measure('a hundred webhooks', hundred, each);
    const dead = await newProject(belfry);
    await saveWebhooks(belfry, dead, [
      ...Array.from({ length: DEAD }, (_, index) => `${address}/hang/${index}`),
      ...Array.from({ length: DEAD }, (_, index) => `http://127.0.0.1:1/${index}`),
    ]);
    await record(belfry, dead, bench.quick ? 200 : 2_000);
    await measure(`one webhook beside ${2 * DEAD} dead ones`, [one], messages);
    await belfry.db.query(
      sql('bench_end_webhooks', 'update webhooks set disabled_at = now() where project_id = $1'),
      [dead.id],
    );
    await belfry.db.query(
      sql('bench_end_jobs', "delete from jobs where kind = 'send_webhook' and lease_id is null"),
    );
    const second = await startSecondNode(bench, belfry);
    try {
      await measure('one webhook, two servers', [one], messages);
      await measure('a hundred webhooks, two servers', hundred, each);
    } finally {
      await second.stop();
    }
  } finally {
    receiver.stop();
    await belfry.stop();
  }
};

interface Parties {
  belfry: Belfry;
  receiver: Task;
}

interface Load {
  projects: readonly Project[];
  /** Of each project. */
  events: number;
  /** Of all together. */
  messages: number;
}

async function show(bench: Bench, parties: Parties, load: Load & { name: string }): Promise<void> {
  const before = cpuOf(parties.belfry.pid);
  const seconds = await send(parties, load);
  const usage = used(before, cpuOf(parties.belfry.pid));
  const micros = (ms: number) => ((ms * 1000) / load.messages).toFixed(0);
  const [node, postgres] = [micros(usage.nodeCpuMs), micros(usage.postgresCpuMs)];
  bench.figure({
    name: load.name,
    value: load.messages / seconds,
    unit: 'messages/s',
    aim: AIM,
    note: `CPU of the first server each: node ${node} µs, postgres ${postgres} µs`,
  });
}

/** Returns the seconds from the commit of the events until every message has its outcome. */
async function send({ belfry, receiver }: Parties, { projects, events, messages }: Load): Promise<number> {
  const received = async () => (await receiver.request<{ received: number }>({})).received;
  const before = await received();
  for (const project of projects) await record(belfry, project, events);
  const startedMs = performance.now();
  await until('all messages arrived', async () => (await received()) >= before + messages);
  const ids = projects.map(({ id }) => id);
  await until('all outcomes are written', async () => (await pending(belfry, ids)) === 0);
  return (performance.now() - startedMs) / 1000;
}

async function pending({ db }: Belfry, projectIds: readonly string[]): Promise<number> {
  const [row] = await db.query<{ pending: number }>(
    sql(
      'bench_pending_messages',
      `select count(*)::int as pending
      from jobs
      where kind = 'send_webhook' and project_id = any ($1::uuid[])`,
    ),
    [projectIds],
  );
  return row?.pending ?? 0;
}

/** Records events with a row each, as single requests do. */
async function record({ db }: Belfry, { id: projectId }: Project, count: number): Promise<void> {
  await db.transaction(async (tx) => {
    for (let left = count; left > 0; left -= 1_000) {
      const context = { user_id: '0197a3c4-5b6e-7f01-8a2b-3c4d5e6f7081' };
      await recordEvents(
        tx,
        Array.from({ length: Math.min(left, 1_000) }, () => ({
          projectId,
          type: 'user.updated',
          details: { context },
        })),
      );
    }
  });
}

async function newProject({ db, dataDir }: Belfry): Promise<Project> {
  const sealer = createSealer([loadOrCreateKey(dataDir)]);
  projectsMade += 1;
  const project = await createProject({ db, sealer }, `webhooks ${Date.now()} ${projectsMade}`);
  const context = { db, sealer, clock: systemClock };
  const issued = await issueToken(context, { projectId: project?.id ?? '', name: 'bench' });
  if (project === undefined || issued === undefined) throw new Error('there is no project');
  return { id: project.id, jwt: issued.token };
}
let projectsMade = 0;

async function saveWebhooks({ call }: Belfry, { jwt }: Project, urls: readonly string[]): Promise<void> {
  for (const url of urls) {
    const { status, body } = await call('PUT', '/webhooks', { url, event_types: ['user.updated'] }, jwt);
    if (status !== 200) throw new Error(`saving a webhook returned ${status}: ${JSON.stringify(body)}`);
  }
}
