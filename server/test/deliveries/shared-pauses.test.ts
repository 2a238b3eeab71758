/** Integrations that are paused on all nodes of a database. */

import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { type Database, openDatabase } from '../../src/db/client.ts';
import { createBus, type NodeBus } from '../../src/domain/ground/bus/bus.ts';
import { Dispatcher } from '../../src/domain/line/sending/dispatcher.ts';
import { PauseFollower } from '../../src/domain/line/sending/pause-follower.ts';
import { PauseRecorder } from '../../src/domain/setup/integrations/pause-recorder.ts';
import { createEgressGuard } from '../../src/lib/egress.ts';
import { newId } from '../../src/lib/ids.ts';
import { createLogger } from '../../src/lib/log.ts';
import { createTransport } from '../../src/providers/shared/transport.ts';
import { createTestDatabase, type TestDatabase } from '../support/database.ts';
import { emailMessage } from '../support/email-message.ts';
import { rowsOf } from '../support/rows.ts';
import { startVendor, type VendorStandIn } from '../support/vendor-stand-in.ts';

interface Node {
  id: string;
  dispatcher: Dispatcher;
  bus: NodeBus;
  recorder: PauseRecorder;
  stop(): Promise<void>;
}

// Longer than a test: a change that the bus does not announce would not be seen.
const NEVER_MS = 3_600_000;

const logged: string[] = [];
const log = createLogger({ level: 'warn', stream: { write: (line) => void logged.push(line) } });
const [projectId, integrationId] = [newId(), newId()];
let database: TestDatabase;
let db: Database;
let vendor: VendorStandIn;
let nodes: [Node, Node, Node];
let nowMs = Date.now();
/** While true, no node reaches the database to claim a probe. */
let isAway = false;

beforeEach(async () => {
  [isAway, nowMs] = [false, Date.now()];
  database = await createTestDatabase();
  db = openDatabase(database.connection, { size: 4, name: 'shared pauses' });
  vendor = await startVendor();
  await rowsOf(db, `insert into projects values ($1, 'p', 'k', '\\x00', '\\x00')`, [projectId]);
  await rowsOf(
    db,
    `insert into integrations values ($1, $2, 'ping_email', '\\x00', '2026-01-01Z', '2026-01-01Z')`,
    [integrationId, projectId],
  );
  nodes = [await startNode(), await startNode(), await startNode()];
});
afterEach(async () => {
  await Promise.all(nodes.map((node) => node.stop()));
  await vendor.stop();
  await db.close();
  await database.drop();
});

async function startNode(): Promise<Node> {
  const [id, clock, egress] = [newId(), { now: () => nowMs }, createEgressGuard({ allow: '127.0.0.1/32' })];
  const bus = createBus({ db, log, nodeId: id, shared: true });
  const transport = createTransport({ egress, origins: {} });
  const recorder = new PauseRecorder({ db, clock, log, bus, nodeId: id });
  const dispatcher = new Dispatcher({
    egress,
    clock,
    transport,
    config: { BRAND: 'belfry' },
    pauses: {
      paused: (...pause) => recorder.paused(...pause),
      resumed: (...end) => recorder.resumed(...end),
      released: (key) => recorder.released(key),
      async claimProbe(key, version) {
        if (isAway) throw new Error('the database is away');
        return await recorder.claimProbe(key, version);
      },
    },
    discarder: { add() {} },
    recorder: { isBlocked: false },
    cancelled: { has: () => false },
  });
  const follower = new PauseFollower({
    ...{ db, log, bus, nodeId: id, dispatcher, recorder },
    readAllEveryMs: NEVER_MS,
  });
  await bus.listening();
  await follower.start();
  await rowsOf(db, `insert into leases (id, node, expires_at) values ($1, $2, now() + interval '1 hour')`, [
    id,
    id,
  ]);
  const stop = async () => {
    await dispatcher.close({ graceMs: 0 });
    await follower.close();
    await recorder.close();
    await bus.close();
    await transport.close();
  };
  return { id, dispatcher, bus, recorder, stop };
}

/** Sends a message. Returns `sent`, the kind of its failure, or `deferred`. */
async function send({ dispatcher }: Node): Promise<string> {
  const integration = {
    projectId,
    id: integrationId,
    provider: 'ping_email',
    channel: 'email' as const,
    version: '2026-01-01T00:00:00.000Z',
    config: { url: `${vendor.address}/mail` },
  };
  const result = await dispatcher.send({
    integrations: [integration],
    draft: { channel: 'email', render: () => emailMessage() },
    broadcastId: newId(),
    targetId: newId(),
    userId: newId(),
    weight: 1,
  });
  return result.kind === 'done' ? result.outcome.kind : 'deferred';
}

const paused = (node: Node) => node.dispatcher.health.pauses().length;
const events = async () =>
  (await rowsOf<{ type: string }>(db, 'select type from events order by id')).map(({ type }) => type);
const rows = () => rowsOf<{ until: Date; probed_by: string | null }>(db, 'select * from integration_pauses');

/** Pauses the integration on all nodes, and waits until its probe is due. */
async function pauseAll(status = 403): Promise<void> {
  vendor.reply({ status });
  const startedMs = performance.now();
  expect(await send(nodes[0])).toBe('rejected');
  for (const node of nodes) await expect.poll(() => paused(node), { interval: 5 }).toBe(1);
  const ms = Math.round(performance.now() - startedMs);
  console.info(`from the request that fails until the breaker is open on three nodes: ${ms} ms`);
}
const untilProbe = async () => {
  const [row] = await rows();
  nowMs = (row?.until.getTime() ?? 0) + 1;
};

test('a breaker that opens on one node is open on all, and closes on all', async () => {
  await pauseAll();
  vendor.reply({ status: 200 });
  expect(await Promise.all(nodes.map(send))).toEqual(['deferred', 'deferred', 'deferred']);
  expect(vendor.requests).toEqual([]);
  await untilProbe();
  expect(await send(nodes[1])).toBe('sent');
  for (const node of nodes) await expect.poll(() => paused(node)).toBe(0);
  expect(await Promise.all(nodes.map(send))).toEqual(['sent', 'sent', 'sent']);
  expect(await events()).toEqual(['integration.paused', 'integration.resumed']);
  expect(await rows()).toEqual([]);
});

test('the event of a pause is recorded with it, also if the database failed first', async () => {
  logged.length = 0;
  await rowsOf(db, 'alter table events rename to events_elsewhere');
  vendor.reply({ status: 403 });
  expect(await send(nodes[0])).toBe('rejected');
  await expect.poll(() => logged.join()).toContain('could not write the pauses of integrations');
  expect(await rows()).toEqual([]);
  await rowsOf(db, 'alter table events_elsewhere rename to events');
  await expect.poll(events).toEqual(['integration.paused']);
  expect(await rows()).toHaveLength(1);
});

test('all nodes together send one probe', async () => {
  await pauseAll();
  for (let round = 0; round < 3; round += 1) {
    vendor.reply({ status: 403 });
    await untilProbe();
    const ends = await Promise.all([...nodes, ...nodes].map(send));
    expect(ends.toSorted()).toEqual([...Array(5).fill('deferred'), 'rejected']);
    expect(vendor.requests).toHaveLength(1);
    // The longer pause reaches the nodes that did not probe.
    await expect.poll(async () => (await rows())[0]?.until.getTime()).toBeGreaterThan(nowMs);
    await Promise.all(nodes.map(({ recorder }) => expect.poll(() => recorder.isWriting(key)).toBe(false)));
  }
});
const key = { projectId, integrationId, host: '' };

describe('a node that probes', () => {
  /** The first node probes a vendor that does not respond. */
  async function startProbe(): Promise<void> {
    await pauseAll();
    vendor.reply('hang', { status: 200 });
    await untilProbe();
    void send(nodes[0]);
    await expect.poll(() => vendor.requests.length).toBe(1);
  }
  const secondsLater = async (node: Node) => {
    nowMs += 11_000;
    return await send(node);
  };

  test('is the only one for as long as it lives', async () => {
    await startProbe();
    for (let n = 0; n < 5; n += 1) expect(await secondsLater(nodes[1])).toBe('deferred');
    expect(vendor.requests).toHaveLength(1);
  });

  test('does not block others after its death', async () => {
    await startProbe();
    expect(await secondsLater(nodes[1])).toBe('deferred');
    await rowsOf(db, 'update leases set expires_at = now() where node = $1', [nodes[0].id]);
    expect(await secondsLater(nodes[1])).toBe('sent');
    await expect.poll(() => paused(nodes[2])).toBe(0);
  });

  test('lets others probe if it learns nothing', async () => {
    await pauseAll();
    vendor.reply({ status: 429 }, { status: 200 });
    await untilProbe();
    expect(await send(nodes[0])).toBe('retry');
    await expect.poll(async () => (await rows())[0]?.probed_by).toBe(null);
    expect(await send(nodes[1])).toBe('sent');
  });

  test('sends nothing while the database cannot be reached', async () => {
    await pauseAll();
    vendor.reply({ status: 200 });
    await untilProbe();
    isAway = true;
    expect(await Promise.all(nodes.map(send))).toEqual(['deferred', 'deferred', 'deferred']);
    isAway = false;
    nowMs += 11_000;
    expect(await send(nodes[2])).toBe('sent');
    expect(vendor.requests).toHaveLength(1);
  });
});

test('a pause that was written while the clock was a day ahead is probed at once', async () => {
  nowMs += 86_400_000;
  await pauseAll();
  nowMs -= 86_400_000;
  vendor.reply('hang', { status: 200 });
  void send(nodes[0]);
  await expect.poll(() => vendor.requests.length).toBe(1);
  const version = '2026-01-01T00:00:00.000Z';
  expect(await nodes[1].recorder.claimProbe(key, version)).toBe(nowMs);
  await rowsOf(db, 'update leases set expires_at = now() where node = $1', [nodes[0].id]);
  expect(await send(nodes[1])).toBe('sent');
});

test('a node that missed the end of a pause reads it when its bus is back', async () => {
  await pauseAll();
  await rowsOf(db, 'delete from integration_pauses');
  nodes[2].bus.publish({ type: 'missed', sinceMs: undefined });
  await expect.poll(() => paused(nodes[2])).toBe(0);
  vendor.reply({ status: 200 });
  expect(await send(nodes[2])).toBe('sent');
});
