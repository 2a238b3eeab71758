import { mkdtemp, rm } from 'node:fs/promises';
import { availableParallelism, loadavg, tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { readConfig } from '../../src/config.ts';
import { sql } from '../../src/db/client.ts';
import { createLogger } from '../../src/lib/log.ts';
import { open } from '../../src/open.ts';
import { type BelfryProcess, startBelfry } from '../support/belfry-process.ts';
import { messageIdOf, settled } from '../support/faults.ts';
import { newSeed, randomFrom } from '../support/random.ts';
import { type SmtpStandIn, startSmtpStandIn } from '../support/smtp-stand-in.ts';

const ROUNDS = 20;
const CLIENTS = 8;
// A client's pause after an answer: about a hundred broadcasts a second in all, so that two busy cores have them delivered in time.
const PAUSE_MS = 100;
const BURST = 10;
const BURST_MS = 20;
const KNOWN_USERS = 50;
const BULK_USERS = 1_000;
const BULK_ADDRESSES = 100; // of each bulk broadcast's recipients
const RESUME_WITHIN_MS = 5_000;

const seed = newSeed();
const random = randomFrom(seed);
const integer = (below: number) => Math.floor(random() * below);

let dataDir = '';
let smtp: SmtpStandIn;
let belfry: BelfryProcess | undefined;

beforeAll(async () => {
  dataDir = await mkdtemp(join(tmpdir(), 'belfry-kill-'));
  smtp = await startSmtpStandIn();
});
afterAll(async () => {
  await belfry?.killTree();
  await smtp.stop();
  await rm(dataDir, { recursive: true, force: true });
});

interface Sent {
  /** Names the broadcast in the database: it goes with it as its topic. */
  tag: string;
  key: string | undefined;
  recipients: object[];
  /** The id that was answered; undefined when the answer was lost. */
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

/** Broadcasts of one round; what was sent, with or without an answer, is in `sent`. */
class RoundLoad {
  readonly sent: Sent[] = [];
  readonly #server: BelfryProcess;
  readonly #round: number;
  #stopped = false;

  constructor(server: BelfryProcess, round: number) {
    this.#server = server;
    this.#round = round;
  }

  /** Sends, a client after the other, until it is told to stop. */
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
    const count = turn === 3 || turn === 40 ? BULK_USERS : random() < 0.25 ? 10 : 1;
    const one: Sent = {
      tag,
      key: random() < 0.4 ? `key-${tag}` : undefined,
      recipients: recipientsOf(count, tag),
      id: undefined,
    };
    this.sent.push(one);
    await send(this.#server, one).catch(() => {}); // the server was killed: there is no answer
  }

  stop(): void {
    this.#stopped = true;
  }
}

async function send(server: BelfryProcess, one: Sent): Promise<void> {
  const response = await fetch(`${server.credentials.base_url}/broadcasts`, {
    method: 'POST',
    headers: {
      authorization: `Bearer ${server.credentials.project_jwt}`,
      'content-type': 'application/json',
      ...(one.key === undefined ? {} : { 'idempotency-key': one.key }),
    },
    body: JSON.stringify({ title: one.tag, topic: one.tag, recipients: one.recipients }),
  });
  const body = (await response.json()) as { id: string };
  // While a database is being killed before its server is, a request may be refused; what is accepted is promised.
  if (response.status === 201) one.id = body.id;
  else expect(response.status).toBe(503);
}

async function get(server: BelfryProcess, path: string): Promise<unknown> {
  const response = await fetch(`${server.credentials.base_url}${path}`, {
    headers: { authorization: `Bearer ${server.credentials.project_jwt}` },
  });
  return response.json();
}

async function saveIntegration({ credentials }: BelfryProcess): Promise<void> {
  const response = await fetch(`${credentials.base_url}/integrations/smtp`, {
    method: 'PUT',
    headers: { authorization: `Bearer ${credentials.project_jwt}`, 'content-type': 'application/json' },
    body: JSON.stringify({
      host: smtp.host,
      port: smtp.port,
      username: '',
      password: '',
      security: 'none',
      from: { email: 'belfry@example.com' },
    }),
  });
  expect(response.status).toBe(200);
}

/** Starts it, and says what the kill had interrupted: what was accepted and not begun, and what was being delivered. */
async function resume(): Promise<{ server: BelfryProcess; unbegun: number; undelivered: number }> {
  const server = await startBelfry(dataDir);
  const page = (await get(server, '/broadcasts?limit=100')) as {
    data: { status: { status: string } }[];
  };
  const inState = (state: string) => page.data.filter(({ status }) => status.status === state).length;
  return { server, unbegun: inState('enqueued'), undelivered: inState('processing') };
}

test.runIf(process.platform === 'linux')(
  `nothing that was accepted is lost or doubled when every process is killed, ${ROUNDS} times (FAULT_SEED=${seed})`,
  { timeout: 300_000 },
  async () => {
    const sent: Sent[] = [];
    const figures = { lost: 0, replayed: 0, unbegun: 0, undelivered: 0 };
    const startsMs: number[] = [];
    const lines: string[] = [];
    let resumed = await resume();
    await saveIntegration(resumed.server);
    for (let round = 1; round <= ROUNDS; round += 1) {
      const { server } = resumed;
      belfry = server;
      const emailsBefore = smtp.received.length;
      const load = new RoundLoad(server, round);
      const loading = load.run();
      const killAfterMs = 20 + integer(1_480);
      await delay(killAfterMs);
      load.stop();
      // With requests at every stage: just sent, being accepted, being fanned out.
      const burst = Array.from({ length: BURST }, () => load.one());
      await delay(random() * BURST_MS);
      await server.killTree();
      expect(server.tree()).toEqual([]);
      // What the faults cause are warnings, and requests that met a database which was killed first; any other error is a defect.
      const errors = server.output.filter((line) => line.includes('"level":"error"'));
      expect(errors.filter((line) => !line.includes('"msg":"request"'))).toEqual([]);
      await Promise.all([loading, ...burst]);
      sent.push(...load.sent);
      const emails = smtp.received.length - emailsBefore;
      resumed = await resume();
      belfry = resumed.server;
      const lost = load.sent.filter(({ id }) => id === undefined);
      for (const one of lost) {
        if (one.key === undefined) continue;
        await send(resumed.server, one);
        figures.replayed += 1;
      }
      figures.lost += lost.length;
      figures.unbegun += resumed.unbegun;
      figures.undelivered += resumed.undelivered;
      startsMs.push(resumed.server.readyAfterMs);
      lines.push(
        `round ${round}: killed after ${killAfterMs} ms, ${load.sent.length} broadcasts, ${emails} e-mails, ${lost.length} answers lost, ` +
          `${resumed.unbegun} not begun, ${resumed.undelivered} in delivery, ready again in ${Math.round(resumed.server.readyAfterMs)} ms`,
      );
    }
    const { server } = resumed;
    await settled(server);
    const summaries = await summariesOf(server);
    server.signal('SIGTERM');
    expect(await server.ended).toBe(0);

    const stored = await readStored();
    const repeats = emailsDelivered(stored);
    console.log(
      [
        `seed ${seed}`,
        ...lines,
        `${sent.length} broadcasts sent, ${figures.lost} answers lost, ${figures.replayed} asked again by key`,
        `${stored.notifications.length} notifications, ${smtp.received.length} e-mails, ${repeats} of them repeated`,
        `ready again after ${Math.round(median(startsMs))} ms (median), ${Math.round(Math.max(...startsMs))} ms (slowest)`,
      ].join('\n'),
    );

    // What each moment was meant to hit was hit.
    expect(figures.lost).toBeGreaterThan(0);
    expect(figures.undelivered).toBeGreaterThan(0);
    // Where many others want the processors, a start tells more of them than of us.
    if ((loadavg()[0] ?? 0) <= 4 * availableParallelism())
      expect(median(startsMs)).toBeLessThan(RESUME_WITHIN_MS);

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
          summary: { total: named.length, failures: 0 },
          errors: null,
        });
      }
    }
    expect(stored.broadcasts.length).toBe([...byTag.keys()].length);
    expect({ jobs: stored.jobs, leases: stored.leases }).toEqual({ jobs: 0, leases: 0 });
  },
);

// One start may fall into a moment in which the machine does something else.
const median = (values: readonly number[]) => [...values].sort((a, b) => a - b)[values.length >> 1] ?? 0;

/** The status of every broadcast, as the API answers it. */
async function summariesOf(server: BelfryProcess): Promise<Map<string, unknown>> {
  const summaries = new Map<string, unknown>();
  let path: string | null = `${server.credentials.base_url}/broadcasts?limit=100`;
  while (path !== null) {
    const page = (await get(server, path.slice(server.credentials.base_url.length))) as {
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
  const opened = await open(readConfig({ DATA_DIR: dataDir }), {
    role: 'client',
    log: createLogger({ level: 'silent' }),
  });
  try {
    const rows = <Row>(text: string) => opened.db.query<Row>(sql('', text));
    const count = async (table: string) =>
      (await rows<{ count: number }>(`select count(*) from ${table}`))[0]?.count;
    return {
      broadcasts: await rows<{ id: string; topic: string }>('select id, topic from broadcasts'),
      notifications: await rows<{
        id: string;
        broadcast_id: string;
        external_id: string;
        email: string | null;
      }>(
        'select n.id, n.broadcast_id, u.external_id, u.email from notifications n join users u on u.id = n.user_id',
      ),
      jobs: await count('jobs'),
      leases: await count('leases'),
    };
  } finally {
    await opened.close();
  }
}

/** Every notification of a user with an address went out as an e-mail; answers how many went out more than once. */
function emailsDelivered(stored: Stored): number {
  const received = new Map<string, number>();
  for (const email of smtp.received) {
    const id = messageIdOf(email);
    received.set(id, (received.get(id) ?? 0) + 1);
  }
  const wanted = stored.notifications.filter(({ email }) => email !== null).map(({ id }) => id);
  expect(wanted.filter((id) => !received.has(id))).toEqual([]);
  expect(received.size).toBe(wanted.length);
  return smtp.received.length - received.size;
}
