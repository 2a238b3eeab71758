import { setTimeout as delay } from 'node:timers/promises';
import { expect } from 'vitest';
import { sql } from '../../src/db/client.ts';
import { type TestProject, type TestService, until } from './service.ts';
import type { ReceivedEmail, SmtpStandIn } from './smtp-stand-in.ts';

/** The outcome of one request of a load. */
export interface LoadResponse {
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

/** Broadcasts that are sent continuously until `stop`, accepted or not. */
export interface Load {
  readonly responses: readonly LoadResponse[];
  /** Resolve when so many requests since the start had this outcome. */
  accepted(count: number): Promise<void>;
  refused(count: number): Promise<void>;
  /** Resolves when so many were refused or lost their connection. */
  refusedOrCut(count: number): Promise<void>;
  stop(): Promise<void>;
}

// The pause of a client after a response. After a refusal it is longer.
const PAUSE_MS = 10;
const PAUSE_REFUSED_MS = 50;

/** Sends broadcasts to 1, 10 and 200 recipients: new and known users, a quarter of them with an address. */
export function load(
  project: Pick<TestProject, 'call'>,
  { clients, content = null }: { clients: number; content?: string | null },
): Load {
  const responses: LoadResponse[] = [];
  const name = `load-${++loads}`;
  let stopped = false;
  let next = 0;
  const client = async () => {
    while (!stopped) {
      const number = next++;
      const response = await send(project, { name, number, content });
      responses.push(response);
      await delay(response.status === 201 ? PAUSE_MS : PAUSE_REFUSED_MS);
    }
  };
  const running = Promise.all(Array.from({ length: clients }, client));
  const counted = async (statuses: readonly number[], count: number) => {
    await until(
      () => responses.filter(({ status }) => statuses.includes(status)).length,
      (seen) => seen >= count,
    );
  };
  return {
    responses,
    accepted: (count) => counted([201], count),
    refused: (count) => counted([503], count),
    refusedOrCut: (count) => counted([0, 503], count),
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
): Promise<LoadResponse> {
  const tag = `${load}-${number}`;
  const count = number % 20 === 7 ? 200 : number % 4 === 0 ? 10 : 1;
  const recipients = Array.from({ length: count }, (_, index) => {
    const name = index % 2 === 0 ? `known-${index}` : `new-${tag}-${index}`;
    return index % 4 === 0 ? { external_id: name, email: `${name}@example.com` } : { external_id: name };
  });
  const startedAt = performance.now();
  const response = await project
    .call('POST', '/broadcasts', { title: tag, topic: tag, content, recipients })
    .catch(() => undefined);
  return {
    tag,
    status: response?.status ?? 0,
    id: response?.body.id,
    retryAfter: response?.headers.get('retry-after') ?? null,
    code: response?.body.errors?.[0].code,
    startedAt,
    ms: performance.now() - startedAt,
    recipients: count,
  };
}

/** Saves an SMTP integration with this mail server. */
export async function saveSmtp(
  project: Pick<TestProject, 'call'>,
  smtp: Pick<SmtpStandIn, 'host' | 'port'>,
): Promise<void> {
  const { status } = await project.call('PUT', '/integrations/smtp', {
    host: smtp.host,
    port: smtp.port,
    username: '',
    password: '',
    security: 'none',
    from: { email: 'belfry@example.com' },
  });
  expect(status).toBe(200);
}

/**
 * Waits until no jobs are left, except those that ask vendors for receipts much later. Expects that every
 * accepted broadcast is stored and processed, that its counts are right, and that each recipient has one
 * notification.
 */
export async function expectExactlyOnce(
  service: { context: Pick<TestService['context'], 'db'> },
  { responses }: Load,
): Promise<void> {
  const { db } = service.context;
  const rows = <Row>(text: string) => db.query<Row>(sql('', text));
  await until(
    async () =>
      (await rows<{ count: number }>("select count(*) from jobs where kind <> 'poll_receipts'"))[0]?.count,
    (left) => left === 0,
    { everyMs: 50 },
  );
  const stored = await rows<{
    id: string;
    topic: string;
    status: string;
    total: number;
    failures: number;
    pending: number;
    notifications: number;
    created: number;
    processed: number;
  }>(
    `with recorded as (
      select p.id, count(*) filter (where e.type = 'broadcast.created') as created,
        count(*) filter (where e.type = 'broadcast.processed') as processed
      from events e, unnest(coalesce(e.broadcast_ids, array[e.broadcast_id])) as p (id)
      where e.type in ('broadcast.created', 'broadcast.processed')
      group by 1
    ),
    inboxes as (select broadcast_id as id, count(*) as notifications from notifications group by 1)
    select b.id, b.topic, b.status, b.total, b.failures, b.pending,
      coalesce(notifications, 0) as notifications, coalesce(created, 0) as created,
      coalesce(processed, 0) as processed
    from broadcasts b
    left join recorded using (id)
    left join inboxes using (id)
    where b.topic like 'load-%'`,
  );
  const byTag = new Map(stored.map((row) => [row.topic, row]));
  expect(byTag.size).toBe(stored.length);
  for (const response of responses) {
    const row = byTag.get(response.tag);
    if (response.status === 201) expect(row?.id).toBe(response.id);
    if (row === undefined) continue;
    expect(row).toMatchObject({
      status: 'processed',
      total: response.recipients,
      failures: 0,
      pending: 0,
      notifications: response.recipients,
      created: 1,
      processed: 1,
    });
  }
}

/** Makes all jobs due, so that the test need not wait for retries. */
export async function dueNow({ context }: Pick<TestService, 'context'>): Promise<void> {
  await context.db.query(
    sql(
      '',
      `update jobs
      set due_at = now() - interval '1 hour'
      where id = any (array(select id from jobs where due_at is not null order by id for update))`,
    ),
  );
}

/** The notification of an e-mail, from its Message-ID. */
export function messageIdOf({ raw }: Pick<ReceivedEmail, 'raw'>): string {
  return /^Message-ID: <([^@>]+)@/im.exec(raw.toString('latin1'))?.[1] ?? 'none';
}

/** Waits until the queue of a server is empty. */
export async function settled({ address }: { address: string }): Promise<void> {
  const metrics = async () => (await fetch(`${address}/metrics`)).text();
  await until(metrics, (text) => !/^belfry_queue_jobs\{.*\} [^0]/m.test(text), {
    everyMs: 100,
  });
}
