import { randomBytes, randomUUID } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { expect, onTestFinished, test } from 'vitest';
import { type BelfryProcess, startBelfry } from '../support/belfry-process.ts';
import { createTestDatabase } from '../support/database.ts';
import { hasNats, startNatsServer } from '../support/nats-server.ts';
import { openStreamSocket, titles } from '../support/realtime.ts';
import { unlessThorough } from '../support/rounds.ts';
import { type Caller, projectWith, until } from '../support/service.ts';

// Nodes with many sockets each, which exchange messages over NATS, are killed one after another under load.
// With THOROUGH=1 they are five with 2,000 sockets each.

const NODES = unlessThorough(2, 5);
const SOCKETS = NODES * unlessThorough(100, 2_000);
const OF_BROADCAST = SOCKETS / 10;
const BETWEEN_KILLS = unlessThorough(3, 10);
const SEND_EVERY_MS = unlessThorough(100, 500);
const OPEN_AT_ONCE = 50;
const WITHIN_MS = unlessThorough(120_000, 300_000);
const SECRET_KEY = randomBytes(32).toString('hex');

/** A user with an open inbox: what it has received, over all its connections. */
interface Follower {
  name: string;
  titles(): unknown[];
  resyncs: number;
}

test.runIf(hasNats)(
  `${SOCKETS} sockets of ${NODES} nodes that are killed in turns miss and repeat nothing`,
  { timeout: 3 * WITHIN_MS },
  async () => {
    const folder = await mkdtemp(join(tmpdir(), 'belfry-many-sockets-'));
    onTestFinished(() => rm(folder, { recursive: true, force: true }));
    const database = await createTestDatabase();
    onTestFinished(() => database.drop());
    const nats = await startNatsServer();
    onTestFinished(() => nats.kill());
    const nodes: BelfryProcess[] = [];
    let alive: BelfryProcess[] = [];
    const start = async (index: number) => {
      const settings = { DATABASE_URL: database.url, SECRET_KEY, NATS_URL: `nats://127.0.0.1:${nats.port}` };
      const node = await startBelfry(join(folder, `node-${index}`), settings);
      nodes[index] = node;
      alive = [...alive, node];
    };
    let isFollowing = true;
    onTestFinished(async () => {
      isFollowing = false;
      for (const node of nodes) await node.killTree();
    });
    for (let index = 0; index < NODES; index += 1) await start(index);
    const { project_id: id, api_key, api_secret, project_jwt: jwt } = nodes[0]?.credentials ?? {};
    const keys = { id, apiKey: api_key, apiSecret: api_secret, jwt } as Parameters<typeof projectWith>[1];
    const addressOf = (number: number) => alive[number % alive.length]?.address ?? '';
    let requests = 0;
    const project = projectWith(() => addressOf(requests++), keys);

    /** Repeats a request until a node accepts it, with the same idempotency key. */
    const call: Caller = async (method, path, body) => {
      const headers = { 'idempotency-key': randomUUID() };
      for (;;) {
        if (!isFollowing) throw new Error('the test is over');
        const response = await project.call(method, path, body, headers).catch(() => undefined);
        if (response !== undefined && response.status !== 503) return response;
        await delay(50);
      }
    };

    const opening: (() => void)[] = [];
    let open = 0;
    /** Opens few connections at a time, as a balancer lets through. */
    const inTurn = async <Result>(work: () => Promise<Result>): Promise<Result> => {
      if (open >= OPEN_AT_ONCE) await new Promise<void>((resolve) => opening.push(resolve));
      open += 1;
      try {
        return await work();
      } finally {
        open -= 1;
        opening.shift()?.();
      }
    };

    let connected = 0;
    const follow = (number: number): Follower => {
      const name = `follower-${number}`;
      const userJwt = project.userJwt({ user_external_id: name });
      const received: unknown[] = [];
      let current: Awaited<ReturnType<typeof openStreamSocket>> | undefined;
      const follower = { name, resyncs: 0, titles: () => [...received, ...titles(current?.frames ?? [])] };
      onTestFinished(() => current?.source.close());
      const connect = async () => {
        let lastEventId = '';
        for (let attempt = 0; isFollowing; attempt += 1) {
          const options = { jwt: userJwt, lastEventId };
          const opened = inTurn(() => openStreamSocket(addressOf(number + attempt), options));
          current = await opened.catch(() => undefined);
          if (current === undefined) {
            await delay(200);
            continue;
          }
          connected += 1;
          await current.closed;
          connected -= 1;
          received.push(...titles(current.frames));
          lastEventId = current.lastEventId();
          follower.resyncs += current.resyncs;
          current = undefined;
        }
      };
      void connect();
      return follower;
    };
    const followers = Array.from({ length: SOCKETS }, (_, number) => follow(number));
    const allConnected = () =>
      until(
        () => connected,
        (count) => count === SOCKETS,
        { withinMs: WITHIN_MS, everyMs: 50 },
      );
    await allConnected();

    const sent: { title: string; from: number }[] = [];
    let isSending = true;
    const sending = (async () => {
      for (; isSending; await delay(SEND_EVERY_MS)) {
        const title = `message ${sent.length}`;
        const from = (sent.length * OF_BROADCAST) % SOCKETS;
        const recipients = followers
          .slice(from, from + OF_BROADCAST)
          .map(({ name }) => ({ external_id: name }));
        expect((await call('POST', '/broadcasts', { title, recipients })).status).toBe(201);
        sent.push({ title, from });
      }
    })();
    sending.catch(() => {}); // awaited later
    const progress = () => {
      const wanted = sent.length + BETWEEN_KILLS;
      return until(
        () => sent.length,
        (count) => count >= wanted,
        { withinMs: WITHIN_MS, everyMs: 50 },
      );
    };
    for (let index = 0; index < NODES; index += 1) {
      await progress();
      const victim = nodes[index];
      alive = alive.filter((node) => node !== victim);
      await victim?.killTree();
      await progress();
      await start(index);
      await allConnected();
    }
    await progress();
    isSending = false;
    await sending;

    const wantedBy = (number: number) =>
      sent.filter(({ from }) => number >= from && number < from + OF_BROADCAST).map(({ title }) => title);
    await until(
      () =>
        followers.filter((one, number) => {
          const seen = new Set(one.titles());
          return one.resyncs === 0 && wantedBy(number).some((title) => !seen.has(title));
        }).length,
      (lacking) => lacking === 0,
      { withinMs: WITHIN_MS, everyMs: 1_000 },
    );
    const repeated = followers.filter((one) => one.titles().length !== new Set(one.titles()).size);
    expect(repeated.map(({ name }) => name)).toEqual([]);
    const resyncs = followers.reduce((sum, one) => sum + one.resyncs, 0);
    expect(resyncs).toBe(0);
    const frames = followers.reduce((sum, one) => sum + one.titles().length, 0);
    expect(frames).toBe(sent.length * OF_BROADCAST);
    console.log(`${sent.length} broadcasts, ${frames} frames to ${SOCKETS} sockets, ${NODES} kills`);
  },
);
