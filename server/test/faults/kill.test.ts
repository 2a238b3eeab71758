import { rm } from 'node:fs/promises';
import { setTimeout as delay } from 'node:timers/promises';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { sql } from '../../src/db/client.ts';
import { createProject } from '../../src/domain/setup/projects/create.ts';
import { issueToken } from '../../src/domain/setup/projects/tokens.ts';
import { type BelfryProcess, startBelfry, withDatabaseOf } from '../support/belfry-process.ts';
import { newDataDir } from '../support/data-dir.ts';
import { dueNow, messageIdOf, saveSmtp, settled } from '../support/faults.ts';
import { newSeed, randomFrom } from '../support/random.ts';
import { rounds } from '../support/rounds.ts';
import { type SmtpStandIn, startSmtpStandIn } from '../support/smtp-stand-in.ts';

const ROUNDS = rounds(3, 20);
const MOST_ROUNDS = ROUNDS + 5; // until a response was lost, which half of the kills do
const CLIENTS = 8;
// A client's pause after a response. About a hundred broadcasts a second in all, so that two busy cores
// deliver them in time.
const PAUSE_MS = 100;
const BURST = 10;
const BURST_MS = 20;
const KNOWN_USERS = 50;
const BULK_USERS = 1_000;
const BULK_ADDRESSES = 100; // the recipients of each bulk broadcast
// A third of the broadcasts belong to a project with the in-app channel alone. They go to a few users who are
// soon known, so they are written together with their notifications.
const INBOX_SHARE = 0.33;
const INBOX_USERS = 10;
const INBOX_RECIPIENTS = 3;

const seed = newSeed();
const random = randomFrom(seed);
const integer = (below: number) => Math.floor(random() * below);

let dataDir = '';
let smtp: SmtpStandIn;
let belfry: BelfryProcess | undefined;
/** The project with the in-app channel alone. */
let inboxes: { id: string; jwt: string };

beforeAll(async () => {
  dataDir = await newDataDir('kill');
  smtp = await startSmtpStandIn();
});
afterAll(async () => {
  await belfry?.killTree();
  await smtp.stop();
  await rm(dataDir, { recursive: true, force: true });
});

interface Sent {
  /** Identifies the broadcast in the database: it is sent as its topic. */
  tag: string;
  key: string | undefined;
  toInboxes: boolean;
  recipients: object[];
  /** The id in the response; undefined when the response was lost. */
  id: string | undefined;
}

const person = (name: string) => ({ external_id: name, email: `${name}@example.com` });

/** New and known users; two in three with an address. */
function recipientsOf(count: number, tag: string): object[] {
  if (count === BULK_USERS)
    return Array.from({ length: count }, (_, index) =>
      index < BULK_ADDRESSES ? person(`bulk-${index}`) : { external_id: `bulk-${index}` },
    );
  return Array.from({ length: count }, (_, index) => {
    const name = random() < 0.5 ? `known-${index}-${integer(KNOWN_USERS)}` : `new-${tag}-${index}`;
    return name.length % 3 === 0 ? { external_id: name } : person(name);
  });
}

/** Some users with an inbox alone, each once; some are named by an address, too. */
function inboxRecipients(): object[] {
  const first = integer(INBOX_USERS);
  return Array.from({ length: 1 + integer(INBOX_RECIPIENTS) }, (_, index) => {
    const name = `inbox-${(first + index) % INBOX_USERS}`;
    return random() < 0.5 ? person(name) : { external_id: name };
  });
}

/** The broadcasts of one round. `sent` has those with and without a response. */
class RoundLoad {
  readonly sent: Sent[] = [];
  readonly #server: BelfryProcess;
  readonly #round: number;
  #stopped = false;

  constructor(server: BelfryProcess, round: number) {
    this.#server = server;
    this.#round = round;
  }

  /** Sends until it is stopped, each client one broadcast after the other. */
  async run(): Promise<void> {
    const client = async () => {
      while (!this.#stopped) {
        await this.one();
        await delay(random() * PAUSE_MS);
      }
    };
    await Promise.all(Array.from({ length: CLIENTS }, client));
  }

  async one(): Promise<void> {
    const turn = this.sent.length;
    const tag = `r${this.#round}-${turn}`;
    const isBulk = turn === 3 || turn === 40;
    const toInboxes = !isBulk && random() < INBOX_SHARE;
    const count = isBulk ? BULK_USERS : random() < 0.25 ? 10 : 1;
    const one: Sent = {
      tag,
      key: random() < 0.4 ? `key-${tag}` : undefined,
      toInboxes,
      recipients: toInboxes ? inboxRecipients() : recipientsOf(count, tag),
      id: undefined,
    };
    this.sent.push(one);
    await send(this.#server, one).catch(() => {}); // the server was killed and cannot respond
  }

  stop(): void {
    this.#stopped = true;
  }
}

async function send(server: BelfryProcess, one: Sent): Promise<void> {
  const jwt = one.toInboxes ? inboxes.jwt : server.credentials.project_jwt;
  const response = await fetch(`${server.credentials.base_url}/broadcasts`, {
    method: 'POST',
    headers: {
      authorization: `Bearer ${jwt}`,
      'content-type': 'application/json',
      ...(one.key === undefined ? {} : { 'idempotency-key': one.key }),
    },
    body: JSON.stringify({ title: one.tag, topic: one.tag, recipients: one.recipients }),
  });
  const body = (await response.json()) as { id: string };
  // If the database is killed before its server, a request may be rejected. An accepted one must be kept.
  if (response.status === 201) one.id = body.id;
  else expect(response.status).toBe(503);
}

async function get(
  { credentials }: BelfryProcess,
  path: string,
  jwt = credentials.project_jwt,
): Promise<unknown> {
  const response = await fetch(`${credentials.base_url}${path}`, {
    headers: { authorization: `Bearer ${jwt}` },
  });
  return response.json();
}

/** E-mail for users with an address, and another project without e-mail. */
async function setUp(server: BelfryProcess): Promise<void> {
  await saveSmtp(server, smtp);
  inboxes = await withDatabaseOf(dataDir, async (context) => {
    const project = await createProject(context, 'inboxes');
    const issued = project && (await issueToken(context, { projectId: project.id, name: 'test' }));
    if (issued === undefined) throw new Error('no project');
    return { id: project?.id ?? '', jwt: issued.token };
  });
}

/**
 * Starts the server and returns what the kill had interrupted: broadcasts that were accepted and not started,
 * and deliveries in flight.
 */
async function resume(): Promise<{ server: BelfryProcess; notStarted: number; undelivered: number }> {
  const server = await startBelfry(dataDir);
  const page = (await get(server, '/broadcasts?limit=100')) as {
    data: { status: { status: string; summary: { pending: number } } }[];
  };
  const notStarted = page.data.filter(({ status }) => status.status === 'enqueued').length;
  const undelivered = page.data.filter(({ status }) => status.summary.pending > 0).length;
  return { server, notStarted, undelivered };
}

test.runIf(process.platform === 'linux')(
  `no accepted broadcast is lost or doubled by ${ROUNDS} or more kills of every process (FAULT_SEED=${seed})`,
  async () => {
    const sent: Sent[] = [];
    const figures = { lost: 0, replayed: 0, notStarted: 0, undelivered: 0 };
    const startsMs: number[] = [];
    const lines: string[] = [];
    /** How often each e-mail had arrived at the first kill that found it recorded as sent. */
    const recorded = new Map<string, number>();
    let resumed = await resume();
    await setUp(resumed.server);
    const hasHit = async () =>
      recorded.size > 0 && figures.lost > 0 && figures.undelivered > 0 && (await readStored()).atOnce > 0;
    for (let round = 1; round <= ROUNDS || (round <= MOST_ROUNDS && !(await hasHit())); round += 1) {
      const { server } = resumed;
      belfry = server;
      const emailsBefore = smtp.received.length;
      const load = new RoundLoad(server, round);
      const loading = load.run();
      const killAfterMs = 20 + integer(1_480);
      await delay(killAfterMs);
      load.stop();
      // With requests in every state: just sent, being accepted, being fanned out.
      const burst = Array.from({ length: BURST }, () => load.one());
      await delay(random() * BURST_MS);
      await server.killTree();
      expect(server.tree()).toEqual([]);
      // Faults cause warnings, and errors of requests whose database was killed first. Any other error is a
      // defect.
      const errors = server.output.filter((line) => line.includes('"level":"error"'));
      expect(errors.filter((line) => !line.includes('"msg":"request"'))).toEqual([]);
      await Promise.all([loading, ...burst]);
      sent.push(...load.sent);
      const emails = smtp.received.length - emailsBefore;
      // Not always: this reads with a command, which repairs the database before the server starts.
      if (round % 2 === 0) {
        const arrived = timesReceived();
        for (const id of await recordedAsSent())
          if (!recorded.has(id)) recorded.set(id, arrived.get(id) ?? 0);
      }
      resumed = await resume();
      belfry = resumed.server;
      const lost = load.sent.filter(({ id }) => id === undefined);
      for (const one of lost) {
        if (one.key === undefined) continue;
        await send(resumed.server, one);
        figures.replayed += 1;
      }
      figures.lost += lost.length;
      figures.notStarted += resumed.notStarted;
      figures.undelivered += resumed.undelivered;
      startsMs.push(resumed.server.readyAfterMs);
      lines.push(
        `round ${round}: killed after ${killAfterMs} ms, ` +
          `${load.sent.length} broadcasts, ${emails} e-mails, ` +
          `${lost.length} responses lost, ` +
          `${resumed.notStarted} not started, ${resumed.undelivered} in delivery, ` +
          `ready again in ${Math.round(resumed.server.readyAfterMs)} ms`,
      );
    }
    const { server } = resumed;
    // Jobs that were cut off by several kills wait for up to an hour, so that the others complete.
    const delayed = await withDatabaseOf(dataDir, async (context) => {
      const waiting = await context.db.query(sql('', 'select id from jobs where due_at > now()'));
      await dueNow({ context });
      return waiting.length;
    });
    await settled(server);
    const summaries = new Map([
      ...(await summariesOf(server, server.credentials.project_jwt)),
      ...(await summariesOf(server, inboxes.jwt)),
    ]);
    server.signal('SIGTERM');
    expect(await server.ended).toBe(0);

    const stored = await readStored();
    const repeats = emailsDelivered(stored);
    console.log(
      [
        `seed ${seed}`,
        ...lines,
        `${sent.length} broadcasts sent, ${figures.lost} responses lost, ${figures.replayed} replayed by key`,
        `${stored.atOnce} broadcasts with a key that were written with their notifications`,
        `${delayed} jobs waited, because several kills had cut them off`,
        `${stored.notifications.length} notifications, ${smtp.received.length} e-mails, ${repeats} of ` +
          `them duplicates`,
        `ready again after ${Math.round(median(startsMs))} ms (median), ` +
          `${Math.round(Math.max(...startsMs))} ms (slowest)`,
      ].join('\n'),
    );

    // Each kill hit what it was meant to hit.
    expect(recorded.size).toBeGreaterThan(0);
    expect(figures.lost).toBeGreaterThan(0);
    expect(figures.undelivered).toBeGreaterThan(0);
    expect(stored.atOnce).toBeGreaterThan(0);

    // A kill repeats only what was not recorded yet.
    const times = timesReceived();
    expect([...recorded].filter(([id, before]) => times.get(id) !== before)).toEqual([]);

    const byTag = Map.groupBy(stored.broadcasts, ({ topic }) => topic);
    const users = Map.groupBy(stored.notifications, (row) => row.broadcast_id);
    for (const one of sent) {
      const found = byTag.get(one.tag) ?? [];
      if (one.id !== undefined) expect(found.map(({ id }) => id)).toEqual([one.id]);
      else expect(found.length).toBeLessThanOrEqual(1);
      if (one.key !== undefined) expect(found).toHaveLength(1);
      for (const { id } of found) {
        const addressed = (users.get(id) ?? []).map((row) => row.external_id);
        const named = one.recipients.map((recipient) => (recipient as { external_id: string }).external_id);
        expect(addressed.sort()).toEqual([...new Set(named)].sort());
        expect(summaries.get(id)).toEqual({
          status: 'processed',
          summary: { total: named.length, failures: 0, pending: 0 },
          errors: null,
        });
      }
    }
    expect(stored.broadcasts.length).toBe([...byTag.keys()].length);
    expect({ jobs: stored.jobs, leases: stored.leases }).toEqual({ jobs: 0, leases: 0 });
  },
);

// One start may coincide with other work of the machine.
const median = (values: readonly number[]) => [...values].sort((a, b) => a - b)[values.length >> 1] ?? 0;

/** The status of every broadcast of a project, as the API returns it. */
async function summariesOf(server: BelfryProcess, jwt: string): Promise<Map<string, unknown>> {
  const summaries = new Map<string, unknown>();
  let path: string | null = `${server.credentials.base_url}/broadcasts?limit=100`;
  while (path !== null) {
    const page = (await get(server, path.slice(server.credentials.base_url.length), jwt)) as {
      data: { id: string; status: unknown }[];
      links: { next: string | null };
    };
    for (const { id, status } of page.data) summaries.set(id, status);
    path = page.links.next;
  }
  return summaries;
}

type Stored = Awaited<ReturnType<typeof readStored>>;

async function readStored() {
  return withDatabaseOf(dataDir, async ({ db }) => {
    const rows = <Row>(text: string) => db.query<Row>(sql('', text));
    const count = async (from: string) =>
      (await rows<{ count: number }>(`select count(*)::int from ${from}`))[0]?.count ?? 0;
    return {
      broadcasts: await rows<{ id: string; topic: string; project_id: string }>(
        'select id, topic, project_id from broadcasts',
      ),
      notifications: await rows<{
        id: string;
        broadcast_id: string;
        external_id: string;
        email: string | null;
      }>(
        `select n.id, n.broadcast_id, u.external_id, u.email from notifications n
          join users u on u.id = n.user_id`,
      ),
      // Counts those that were processed by the transaction that claimed their keys. Nothing shows this for
      // the others.
      atOnce: await count(
        `events e, unnest(coalesce(e.broadcast_ids, array[e.broadcast_id])) as event (id)
        join broadcasts b on b.id = event.id
        join idempotency_keys k on k.project_id = b.project_id and k.key = 'key-' || b.topic
        where e.type = 'broadcast.processed' and e.xact::text = k.xmin::text`,
      ),
      jobs: await count('jobs'),
      leases: await count('leases'),
    };
  });
}

/** The notifications whose e-mail is recorded as sent. The server does not run. */
async function recordedAsSent(): Promise<string[]> {
  const rows = await withDatabaseOf(dataDir, ({ db }) =>
    db.query<{ id: string }>(
      sql('', "select notification_id as id from deliveries where channel = 'email' and state = 'sent'"),
    ),
  );
  return rows.map(({ id }) => id);
}

/** How often the e-mail of each notification arrived. */
function timesReceived(): Map<string, number> {
  const received = new Map<string, number>();
  for (const email of smtp.received) {
    const id = messageIdOf(email);
    received.set(id, (received.get(id) ?? 0) + 1);
  }
  return received;
}

/**
 * Every notification of a user with an address was sent as an e-mail, and none of the in-app project was.
 * Returns the number of those that were sent more than once.
 */
function emailsDelivered(stored: Stored): number {
  const received = timesReceived();
  const toInboxes = new Set(
    stored.broadcasts.flatMap(({ id, project_id }) => (project_id === inboxes.id ? [id] : [])),
  );
  const wanted = stored.notifications
    .filter(({ email, broadcast_id }) => email !== null && !toInboxes.has(broadcast_id))
    .map(({ id }) => id);
  expect(wanted.filter((id) => !received.has(id))).toEqual([]);
  expect(received.size).toBe(wanted.length);
  return smtp.received.length - received.size;
}
