import { setTimeout as delay } from 'node:timers/promises';
import { expect } from 'vitest';
import { sql } from '../../src/db/client.ts';
import { type TestProject, type TestService, until } from './service.ts';
import type { ReceivedEmail, SmtpStandIn } from './smtp-stand-in.ts';

/** What became of one request of a load. */
export interface LoadAnswer {
  tag: string;
  /** 0 when the connection broke. */
  status: number;
  id: string | undefined;
  retryAfter: string | null;
  code: string | undefined;
  startedAt: number;
  ms: number;
  recipients: number;
}

/** Broadcasts that go on being sent, whatever is answered. */
export interface Load {
  readonly answers: readonly LoadAnswer[];
  /** Resolves when so many were accepted, or refused, since the beginning. */
  accepted(count: number, withinMs?: number): Promise<void>;
  refused(count: number, withinMs?: number): Promise<void>;
  /** Resolves when so many were refused or not even heard. */
  refusedOrCut(count: number): Promise<void>;
  stop(): Promise<void>;
}

// A client's pause after an answer; after a refusal it waits longer, as it was told to.
const PAUSE_MS = 10;
const PAUSE_REFUSED_MS = 50;

/**
 * Sends broadcasts of 1, 10 and 200 recipients, new users and known ones, a quarter of them with an address.
 */
export function load(
  project: Pick<TestProject, 'call'>,
  { clients, content = null }: { clients: number; content?: string | null },
): Load {
  const answers: LoadAnswer[] = [];
  const name = `load-${++loads}`;
  let stopped = false;
  let turn = 0;
  const client = async () => {
    while (!stopped) {
      const number = turn++;
      const answer = await send(project, { name, number, content });
      answers.push(answer);
      await delay(answer.status === 201 ? PAUSE_MS : PAUSE_REFUSED_MS);
    }
  };
  const running = Promise.all(Array.from({ length: clients }, client));
  const counted = async (statuses: readonly number[], count: number, withinMs: number) => {
    await until(
      () => answers.filter((answer) => statuses.includes(answer.status)).length,
      (seen) => seen >= count,
      { withinMs },
    );
  };
  return {
    answers,
    accepted: (count, withinMs = 20_000) => counted([201], count, withinMs),
    refused: (count, withinMs = 20_000) => counted([503], count, withinMs),
    refusedOrCut: (count) => counted([0, 503], count, 20_000),
    async stop() {
      stopped = true;
      await running;
    },
  };
}

let loads = 0;

async function send(
  project: Pick<TestProject, 'call'>,
  { name: load, number, content }: { name: string; number: number; content: string | null },
): Promise<LoadAnswer> {
  const tag = `${load}-${number}`;
  const count = number % 20 === 7 ? 200 : number % 4 === 0 ? 10 : 1;
  const recipients = Array.from({ length: count }, (_, index) => {
    const name = index % 2 === 0 ? `known-${index}` : `new-${tag}-${index}`;
    return index % 4 === 0 ? { external_id: name, email: `${name}@example.com` } : { external_id: name };
  });
  const startedAt = performance.now();
  const answer = await project
    .call('POST', '/broadcasts', { title: tag, topic: tag, content, recipients })
    .catch(() => undefined);
  return {
    tag,
    status: answer?.status ?? 0,
    id: answer?.body.id,
    retryAfter: answer?.headers.get('retry-after') ?? null,
    code: answer?.body.errors?.[0].code,
    startedAt,
    ms: performance.now() - startedAt,
    recipients: count,
  };
}

/** Makes this mail server the project's. */
export async function saveSmtp(
  project: Pick<TestProject, 'call'>,
  smtp: Pick<SmtpStandIn, 'host' | 'port'>,
): Promise<void> {
  const answer = await project.call('PUT', '/integrations/smtp', {
    host: smtp.host,
    port: smtp.port,
    username: '',
    password: '',
    security: 'none',
    from: { email: 'belfry@example.com' },
  });
  expect(answer.status).toBe(200);
}

/**
 * Every accepted broadcast is stored and ends processed; each recipient has one notification, each job is
 * gone, all figures are true.
 */
export async function expectExactlyOnce(
  service: Pick<TestService, 'context'>,
  { answers }: Load,
): Promise<void> {
  const { db } = service.context;
  const rows = <Row>(text: string) => db.query<Row>(sql('', text));
  await until(
    async () => (await rows<{ count: number }>('select count(*) from jobs'))[0]?.count,
    (left) => left === 0,
    { withinMs: 30_000, everyMs: 50 },
  );
  const stored = await rows<{
    id: string;
    topic: string;
    status: string;
    total: number;
    failures: number;
    pending: number;
    notifications: number;
    events: number;
  }>(
    `select b.id, b.topic, b.status, b.total, b.failures, b.pending,
      (select count(*) from notifications n where n.broadcast_id = b.id) as notifications,
      (
        select count(*) from events e, unnest(coalesce(e.broadcast_ids, array[e.broadcast_id])) as told (id)
        where told.id = b.id and e.type = 'broadcast.processed'
      ) as events
    from broadcasts b
    where b.topic like 'load-%'`,
  );
  const byTag = new Map(stored.map((row) => [row.topic, row]));
  expect(byTag.size).toBe(stored.length);
  for (const answer of answers) {
    const row = byTag.get(answer.tag);
    if (answer.status === 201) expect(row?.id).toBe(answer.id);
    if (row === undefined) continue;
    expect(row).toMatchObject({
      status: 'processed',
      total: answer.recipients,
      failures: 0,
      pending: 0,
      notifications: answer.recipients,
      events: 1,
    });
  }
}

/** Brings every retry forward, so that nobody waits for it. */
export async function dueNow({ context }: Pick<TestService, 'context'>): Promise<void> {
  await context.db.query(
    sql('', "update jobs set due_at = now() - interval '1 hour' where due_at is not null"),
  );
}

/** The notification that an e-mail says it is, by its Message-ID. */
export function messageIdOf({ raw }: Pick<ReceivedEmail, 'raw'>): string {
  return /^Message-ID: <([^@>]+)@/im.exec(raw.toString('latin1'))?.[1] ?? 'none';
}

/** Waits until a server has nothing more to do. */
export async function settled({ address }: { address: string }): Promise<void> {
  const metrics = async () => (await fetch(`${address}/metrics`)).text();
  await until(metrics, (text) => !/^belfry_queue_jobs\{.*\} [^0]/m.test(text), {
    withinMs: 60_000,
    everyMs: 100,
  });
}
