import { randomBytes, randomUUID } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { afterEach, beforeEach, expect, onTestFinished, test } from 'vitest';
import { openDatabase, sql } from '../../src/db/client.ts';
import { type EmbeddedPostgres, startEmbedded } from '../../src/db/embedded.ts';
import {
  type BelfryProcess,
  kill,
  postmasterOf,
  signalTree,
  startBelfry,
} from '../support/belfry-process.ts';
import { newDataDir } from '../support/data-dir.ts';
import { createDatabaseOn, type TestDatabase } from '../support/database.ts';
import { expectExactlyOnce, load, messageIdOf, saveSmtp } from '../support/faults.ts';
import { type HttpStandIn, startHttpStandIn } from '../support/http-stand-in.ts';
import { type LoadBalancer, startLoadBalancer } from '../support/load-balancer.ts';
import { hasNats, type NatsServer, startNatsServer } from '../support/nats-server.ts';
import { newSeed, randomFrom } from '../support/random.ts';
import { openStreamSocket, titles } from '../support/realtime.ts';
import { unlessThorough } from '../support/rounds.ts';
import { type Caller, projectWith, until } from '../support/service.ts';
import { type SmtpStandIn, startSmtpStandIn } from '../support/smtp-stand-in.ts';
import { QUEUED } from '../support/vendors.ts';

// Three nodes behind a load balancer, with a PostgreSQL and a NATS server of their own. All are killed in
// turns while clients send and listen; with THOROUGH=1 for ten minutes, in which nodes are also stopped for
// longer than their leases, and continue. Then everything is counted.

const NODES = 3;
const KILLS = 4; // each once
const THOROUGH_MS = unlessThorough(0, 600_000);
const STOPPED_MS = 20_000;
// What must be accepted between two kills.
const ACCEPTED = 20;
const PAUSE_MS = 30;
const ATTEMPTS = 600;
const LISTENERS = 4;
const ANNOUNCE_EVERY_MS = 400;
const TEXT_EVERY_MS = 400;
const TEXTS = 3;
const SECRET_KEY = randomBytes(32).toString('hex');

let folder: string;
let dataDir: string;
let postgres: EmbeddedPostgres;
let database: TestDatabase;
let nats: NatsServer | undefined;
let smtp: SmtpStandIn;
let twilio: HttpStandIn;
let balancer: LoadBalancer;
const nodes: BelfryProcess[] = [];
/** How often each text message came, by its recipient. */
const texts = new Map<string, number>();

// Before each attempt: CI repeats a failed test once.
beforeEach(async () => {
  texts.clear();
  folder = await mkdtemp(join(tmpdir(), 'belfry-three-nodes-'));
  dataDir = await newDataDir('three-nodes');
  postgres = await startEmbedded({ dataDir, role: 'server', log: () => {} });
  database = await createDatabaseOn(postgres.connection);
  nats = hasNats ? await startNatsServer() : undefined;
  smtp = await startSmtpStandIn();
  twilio = await startHttpStandIn(async (_request, body) => {
    const number = new URLSearchParams(body.toString()).get('To') ?? '';
    texts.set(number, (texts.get(number) ?? 0) + 1);
    return QUEUED;
  });
  balancer = await startLoadBalancer();
});
afterEach(async () => {
  for (const node of nodes.splice(0)) await node.killTree();
  await balancer?.close();
  await twilio?.stop();
  await smtp?.stop();
  await nats?.kill();
  await postgres?.stop();
  for (const path of [folder, dataDir]) await rm(path, { recursive: true, force: true });
});

/** Starts a node, or starts it again. */
async function start(index: number): Promise<void> {
  nodes[index] = await startBelfry(join(folder, `node-${index}`), {
    ...{ DATABASE_URL: database.url, SECRET_KEY, PROVIDER_TWILIO_BASE_URL: twilio.address },
    ...(nats === undefined ? {} : { NATS_URL: `nats://127.0.0.1:${nats.port}` }),
  });
}

const portOf = ({ address }: BelfryProcess) => Number(new URL(address).port);

/** Repeats a request that was not accepted, with the same idempotency key. */
function persistent(call: Caller): Caller {
  return async (method, path, body) => {
    const headers = { 'idempotency-key': randomUUID() };
    for (let attempt = 1; ; attempt += 1) {
      await delay(PAUSE_MS);
      const response = await call(method, path, body, headers).catch(() => undefined);
      if (response !== undefined && response.status !== 503) return response;
      if (attempt === ATTEMPTS) throw new Error(`${method} ${path} was not accepted`);
    }
  };
}

/** Repeats some work while this holds. */
async function repeatedly(
  pauseMs: number,
  isWanted: () => boolean,
  work: () => Promise<void>,
): Promise<void> {
  for (; isWanted(); await delay(pauseMs)) await work();
}

/** What a user's inbox has shown. */
class Listener {
  readonly frames: unknown[] = [];
  readonly listed = new Set<unknown>();
  resyncs = 0;
  readonly #jwt: string;
  readonly #list: () => ReturnType<Caller>;
  #lastEventId = '';

  constructor(jwt: string, list: () => ReturnType<Caller>) {
    this.#jwt = jwt;
    this.#list = list;
  }

  has(title: string): boolean {
    return this.frames.includes(title) || this.listed.has(title);
  }

  /** Listens while this holds, and resumes whenever the stream breaks. */
  async follow(isWanted: () => boolean): Promise<void> {
    while (isWanted()) {
      const options = { jwt: this.#jwt, lastEventId: this.#lastEventId };
      const stream = await openStreamSocket(balancer.address, options).catch(() => undefined);
      if (stream === undefined) {
        await delay(PAUSE_MS);
        continue;
      }
      let taken = 0;
      let resyncs = 0;
      const take = async () => {
        this.frames.push(...titles(stream.frames.slice(taken)));
        taken = stream.frames.length;
        if (stream.resyncs === resyncs) return;
        // The stream continues after what is in the list now.
        resyncs = stream.resyncs;
        for (const { title } of (await this.#list()).body.data) this.listed.add(title);
      };
      let isOpen = true;
      void stream.closed.then(() => {
        isOpen = false;
      });
      for (; isOpen && isWanted(); await delay(PAUSE_MS)) await take();
      this.#lastEventId = stream.lastEventId();
      await take();
      this.resyncs += resyncs;
      stream.source.close();
    }
  }
}

test.runIf(process.platform === 'linux')(
  'three nodes, PostgreSQL and NATS are killed in turns, and everything happens once',
  { timeout: THOROUGH_MS + 240_000 },
  async () => {
    const seed = newSeed();
    const random = randomFrom(seed);
    let isSending = true;
    let isListening = true;
    onTestFinished(() => {
      isSending = false;
      isListening = false;
    });
    for (let index = 0; index < NODES; index += 1) await start(index);
    const [first] = nodes;
    const {
      project_id: id,
      api_key: apiKey,
      api_secret: apiSecret,
      project_jwt: jwt,
    } = first?.credentials ?? {};
    balancer.targets = nodes.map(portOf);
    const keys = { id, apiKey, apiSecret, jwt } as Parameters<typeof projectWith>[1];
    const project = projectWith(() => balancer.address, keys);
    const call = persistent(project.call);
    await saveSmtp({ call }, smtp);
    const config = { account_sid: 'AC1', api_key: 'SK1', api_secret: 'secret', from: '+14155550100' };
    expect((await call('PUT', '/integrations/twilio', config)).status).toBe(200);

    const announced: string[] = [];
    const statuses: number[] = [];
    const names = Array.from({ length: LISTENERS }, (_, index) => `listener-${index}`);
    const listeners = names.map((name) => {
      const list = persistent(project.as(name));
      const userJwt = project.userJwt({ user_external_id: name });
      return new Listener(userJwt, () => list('GET', '/notifications?limit=100'));
    });
    const following = listeners.map((one) => one.follow(() => isListening));
    const announcing = repeatedly(
      ANNOUNCE_EVERY_MS,
      () => isSending,
      async () => {
        const title = `announcement-${announced.length}`;
        announced.push(title);
        const recipients = names.map((name) => ({ external_id: name }));
        statuses.push((await call('POST', '/broadcasts', { title, topic: title, recipients })).status);
      },
    );
    let number = 1_000_000;
    const texting = repeatedly(
      TEXT_EVERY_MS,
      () => isSending,
      async () => {
        const recipients = Array.from({ length: TEXTS }, () => {
          number += 1;
          return { external_id: `phone-${number}`, phone_numbers: [`+1415${number}`] };
        });
        statuses.push((await call('POST', '/broadcasts', { title: 'code', recipients })).status);
      },
    );
    for (const one of [announcing, texting, ...following]) one.catch(() => {}); // awaited later
    const running = load({ call }, { clients: 3 });
    const progress = () =>
      running.accepted(running.responses.filter(({ status }) => status === 201).length + ACCEPTED);
    await progress();

    let stops = 0;
    const stopNode = async () => {
      const node = nodes[stops % NODES] as BelfryProcess;
      balancer.targets = nodes.filter((one) => one !== node).map(portOf);
      signalTree(node, 'SIGSTOP');
      await delay(STOPPED_MS);
      signalTree(node, 'SIGCONT');
      balancer.targets = nodes.map(portOf);
      stops += 1;
    };
    const victims = [
      ...Array.from({ length: NODES }, (_, index) => async () => {
        await nodes[index]?.killTree();
        await progress(); // the others continue
        await start(index);
        balancer.targets = nodes.map(portOf);
      }),
      async () => kill(postmasterOf(dataDir), 'SIGKILL'),
      async () => {
        await nats?.kill();
        await progress();
        await nats?.start();
      },
      ...(THOROUGH_MS === 0 ? [] : [stopNode]),
    ];
    const endsMs = Date.now() + THOROUGH_MS;
    let kills = 0;
    for (let turn = Math.floor(random() * victims.length); kills < KILLS || Date.now() < endsMs; turn += 1) {
      await victims[turn % victims.length]?.();
      kills += 1;
      // Other nodes take new connections first.
      balancer.targets = [...balancer.targets.slice(1), ...balancer.targets.slice(0, 1)];
      await progress();
    }
    isSending = false;
    await Promise.all([announcing, texting, running.stop()]);
    expect(new Set(statuses)).toEqual(new Set([201]));
    // It is printed if the time is over: messages may be lost, or a fan-out may wait.
    await until(
      async () => {
        const { body } = await call('GET', '/broadcasts?limit=100');
        const states = new Map(body.data.map((one: Announcement) => [one.topic, one.status.status]));
        return listeners.map((one) => {
          const lacking = announced.filter((title) => !one.has(title));
          return { resyncs: one.resyncs, lacking: lacking.map((title) => [title, states.get(title)]) };
        });
      },
      (all) => all.every(({ lacking }) => lacking.length === 0),
    );
    isListening = false;
    await Promise.all(following);

    const db = openDatabase(database.connection, { size: 2, name: 'test' });
    const rows = <Row>(text: string) => db.query<Row>(sql('', text));
    try {
      await until(
        async () => {
          // Retries are due now.
          await rows('update jobs set due_at = now() where due_at is not null');
          return rows("select kind from jobs where kind <> 'poll_receipts'");
        },
        (left) => left.length === 0,
        { everyMs: 500 },
      );
      await expectExactlyOnce({ context: { db } }, running);
      const inboxes = await rows<{ name: string; titles: string[] }>(
        `select u.external_id as name, array_agg(b.topic order by n.id) as titles
        from users u
        join notifications n on n.user_id = u.id
        join broadcasts b on b.id = n.broadcast_id
        where u.external_id like 'listener-%'
        group by 1 order by 1`,
      );
      expect(inboxes.map(({ name }) => name)).toEqual(names);
      for (const inbox of inboxes) expect(inbox.titles.toSorted()).toEqual(announced.toSorted());
      for (const { frames } of listeners) expect(new Set(frames).size).toBe(frames.length);

      // Each text message once, or twice if its node was killed before it knew the vendor's response.
      const sms = await rows<{ state: string; count: number }>(
        "select state, count(*) from deliveries where channel = 'sms' group by 1",
      );
      const total = sms.reduce((sum, { count }) => sum + count, 0);
      expect(total).toBe(number - 1_000_000);
      expect([...texts.values()].filter((count) => count > 2)).toEqual([]);
      const sent = sms.find(({ state }) => state === 'sent')?.count ?? 0;
      expect(texts.size).toBeGreaterThanOrEqual(sent);

      const emails = await rows<{ id: string }>(
        `select n.id from notifications n
        join users u on u.id = n.user_id
        where u.email is not null`,
      );
      const received = new Set(smtp.received.map(messageIdOf));
      expect(emails.filter(({ id: notification }) => !received.has(notification))).toEqual([]);
      console.log(
        `seed ${seed}: ${kills - stops} kills, ${stops} stops of a node; ` +
          `${running.responses.length + announced.length} broadcasts, ` +
          `${total - sent} of ${total} texts not sent, ` +
          `${[...texts.values()].filter((count) => count > 1).length} twice; ` +
          `${smtp.received.length - received.size} of ${emails.length} e-mails twice; ` +
          `${listeners.reduce((sum, { resyncs }) => sum + resyncs, 0)} resyncs`,
      );
    } finally {
      await db.close();
    }
  },
);

interface Announcement {
  topic: string;
  status: { status: string };
}
