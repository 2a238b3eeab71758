import { setTimeout as delay } from 'node:timers/promises';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type Service, startService } from '../../src/app.ts';
import type { NewBroadcast } from '../../src/contract/broadcast.ts';
import type { DeliveryRecord } from '../../src/contract/delivery.ts';
import { sendBroadcast } from '../../src/domain/line/accept/send-broadcast.ts';
import { newId } from '../../src/lib/ids.ts';
import { bringForward } from '../support/all-channels.ts';
import { insertCrowd } from '../support/crowd.ts';
import { messageIdOf, saveSmtp } from '../support/faults.ts';
import { listAll } from '../support/pages.ts';
import { newSeed, randomFrom } from '../support/random.ts';
import { rounds } from '../support/rounds.ts';
import {
  type ApiResponse,
  projectWith,
  startTestService,
  type TestProject,
  type TestService,
  until,
} from '../support/service.ts';
import { type SmtpStandIn, startSmtpStandIn } from '../support/smtp-stand-in.ts';
import { STORED_EVENTS } from '../support/stored-events.ts';

const ROUNDS = rounds(10, 50);
const CROWD = 2_500;
// One of this many users of the crowd has an address.
const MAILED = 5;
// The messages that an SMTP integration has in flight on each of the two servers.
const IN_FLIGHT = 2 * 16;

const seed = newSeed();
const random = randomFrom(seed);
const below = (count: number) => Math.floor(random() * count);
const oneOf = <Value>(values: readonly Value[]): Value => values[below(values.length)] as Value;

let service: TestService;
let second: Service;
let mail: SmtpStandIn;
/** The project as a client of each server. */
let nodes: [TestProject, TestProject];
const crowd: string[] = [];

beforeAll(async () => {
  [service, mail] = await Promise.all([startTestService({ pollMs: 50 }), startSmtpStandIn()]);
  second = await startService(service.context.config, { log: service.context.log, pollMs: 50 });
  const { project } = service;
  nodes = [project, projectWith(() => second.address, project)];
  await saveSmtp(project, mail);
  for (const [key, channels] of Object.entries({
    later: [
      { channel: 'in_app', delay: 3_600 },
      { channel: 'email', delay: 86_400 },
    ],
    inbox: [{ channel: 'in_app' }],
  }))
    await project.call('PUT', '/channels', { key, channels });
  crowd.push(...(await insertCrowd(service, project, CROWD, { mailedEvery: MAILED })));
  // Some addresses fail for now, and some for good.
  mail.fail({ at: 'rcpt', how: { reply: '451 4.3.0 Later' }, when: ({ to }) => /7@/.test(to ?? '') });
  mail.fail({ at: 'rcpt', how: { reply: '550 5.1.1 No such user' }, when: ({ to }) => /3@/.test(to ?? '') });
});
afterAll(async () => {
  await second?.stop();
  await Promise.all([service?.stop(), mail?.stop()]);
});

const named = (count: number, name: string) =>
  Array.from({ length: count }, (_none, index) => ({
    external_id: `${name}-${index}`,
    email: `${name}-${index}@example.com`,
  }));
const BODIES: readonly ((round: number) => Partial<NewBroadcast>)[] = [
  () => ({ recipients: named(3, 'known') }),
  (round) => ({ recipients: named(120, `new-${round}`) }),
  () => ({ recipients: named(3, 'known').map(({ external_id }) => ({ external_id })), category: 'inbox' }),
  (round) => ({ recipients: named(20, `later-${round}`), category: 'later' }),
  () => ({ recipients: [{ topic: { subscribers: true } }], topic: 'news' }),
  () => ({ recipients: [{ matches: '*' }, ...named(2, 'known')] }),
  () => ({ recipients: named(20, 'known'), send_at: new Date(Date.now() + below(400)).toISOString() }),
];

/** Sends a broadcast, some of them twice at the same time by the same id or key. Returns its id. */
async function send(round: number): Promise<string> {
  const body = { title: `Round ${round}`, ...oneOf(BODIES)(round) } as NewBroadcast;
  if (random() < 0.3 || body.recipients?.some((one) => 'matches' in one)) {
    const options = { raw: {}, id: newId() };
    const sending = [1, 2].map(() => sendBroadcast(service.http.context, service.project, body, options));
    expect((await Promise.all(sending)).map(({ id }) => id)).toEqual([options.id, options.id]);
    return options.id;
  }
  const key = { 'idempotency-key': `round-${round}` };
  const responses = await Promise.all(
    (random() < 0.5 ? nodes : [oneOf(nodes)]).map((node) => node.call('POST', '/broadcasts', body, key)),
  );
  for (const { status, messages } of responses) expect([status, messages]).toEqual([201, []]);
  const ids = new Set(responses.map((response) => response.body.id as string));
  expect(ids.size).toBe(1);
  return [...ids][0] as string;
}

/** What happens at the same time as a cancellation. */
const ACTIONS: readonly ((id: string) => Promise<unknown>)[] = [
  (id) => oneOf(nodes).call('POST', `/broadcasts/${id}/deliveries/replay`, {}),
  () => oneOf(nodes).call('PUT', '/users', { external_id: `made ${below(1e9)}` }),
  () => oneOf(nodes).call('DELETE', `/users/${oneOf(crowd)}`),
  () => bringForward(service),
];

interface Cancelled {
  id: string;
  /** The broadcast as its cancellation returned it; undefined if it was not cancelled. */
  response: ApiResponse['body'] | undefined;
  /** How many of its e-mails had arrived when both servers knew. */
  mailed: number;
}

const mailsOf = (ids: ReadonlySet<string>) => mail.received.map(messageIdOf).filter((id) => ids.has(id));
const notificationsOf = async (id: string) =>
  new Set(
    (await service.rows<{ id: string }>('select id from notifications where broadcast_id = $1', [id])).map(
      (row) => row.id,
    ),
  );

async function cancelAmid(id: string): Promise<Cancelled> {
  await delay(below(2) * below(120));
  const cancel = (node: TestProject) => node.call('POST', `/broadcasts/${id}/cancel`);
  const cancelling = Promise.all((random() < 0.5 ? nodes : [oneOf(nodes)]).map(cancel));
  await Promise.all([...Array(below(4))].map(() => oneOf(ACTIONS)(id)));
  const responses = await cancelling;
  expect(responses.map(({ status }) => status)).toEqual(responses.map(() => 200));
  const done = responses.map(({ body }) => body).filter((body) => body.cancelled_at !== null);
  expect(new Set(done.map((body) => body.cancelled_at)).size).toBeLessThanOrEqual(1);
  const [response] = done;
  if (response === undefined) return { id, response, mailed: 0 };
  await until(
    () => [service, second].every(({ context }) => context.cancelled.has(id)),
    (known) => known,
  );
  return { id, response, mailed: mailsOf(await notificationsOf(id)).length };
}

test(`a broadcast that is cancelled amid other changes is counted exactly (FAULT_SEED=${seed})`, async () => {
  const sent: Cancelled[] = [];
  for (let round = 1; round <= ROUNDS; round += 1) {
    const id = await send(round);
    sent.push(random() < 0.8 ? await cancelAmid(id) : { id, response: undefined, mailed: 0 });
  }
  mail.heal();
  await until(
    async () => {
      await bringForward(service);
      return service.rows('select kind, due_at, payload from jobs');
    },
    (jobs) => jobs.length === 0,
    { everyMs: 100 },
  );
  expect(sent.filter(({ response }) => response !== undefined).length).toBeGreaterThan(ROUNDS / 4);
  for (const one of sent) await expectExact(one);
});

async function expectExact({ id, response, mailed }: Cancelled): Promise<void> {
  const [stored] = await service.rows<{
    status: string;
    pending: number;
    awaited: number;
    waiting: boolean | null;
  }>('select status, pending, awaited, waiting from broadcasts where id = $1', [id]);
  const { cancelled_at: cancelledAt, status } = (await service.project.call('GET', `/broadcasts/${id}`)).body;
  const notifications = await notificationsOf(id);
  // If it reached no user, a purge may have to search its names.
  const isUnsent = cancelledAt !== null && notifications.size === 0;
  const waiting = isUnsent ? stored?.waiting : null;
  expect(stored).toEqual({ status: 'processed', pending: 0, awaited: 0, waiting });
  expect(status.summary.total).toBe(notifications.size);
  expect(cancelledAt).toBe(response?.cancelled_at ?? null);

  // Each delivery has one end, and one more for each replay.
  const deliveries = await listAll<DeliveryRecord>(
    service.project.call,
    `/broadcasts/${id}/deliveries?limit=100`,
  );
  const names = new Set(deliveries.map((one) => `${one.user_id} ${one.channel}`));
  expect(names.size).toBe(deliveries.length);
  const events = new Map(
    (
      await service.rows<{ type: string; size: number }>(
        `select type, sum(size)::int as size from ${STORED_EVENTS} where broadcast_id = $1 group by type`,
        [id],
      )
    ).map(({ type, size }) => [type, size]),
  );
  const count = (...types: string[]) => types.reduce((sum, type) => sum + (events.get(type) ?? 0), 0);
  const byState = Map.groupBy(deliveries, ({ state }) => state);
  expect([...byState.keys()].filter((state) => !['sent', 'failed', 'skipped'].includes(state))).toEqual([]);
  expect(count('broadcast.processed')).toBe(1);
  expect(count('broadcast.cancelled')).toBe(cancelledAt === null ? 0 : 1);
  const failed = new Set(byState.get('failed')?.map((one) => one.user_id));
  expect(status.summary).toEqual({ total: notifications.size, failures: failed.size, pending: 0 });
  expect(count('delivery.sent', 'delivery.failed', 'delivery.skipped')).toBe(
    deliveries.length + count('delivery.replayed'),
  );

  // Each e-mail that is recorded as sent has arrived once, and no other one.
  const mails = mailsOf(notifications);
  expect(new Set(mails).size).toBe(mails.length);
  const mailsSent = (byState.get('sent') ?? []).filter(({ channel }) => channel === 'email');
  expect(mails).toHaveLength(mailsSent.length);
  if (response === undefined) return;
  // No page is written after the cancellation, and no message begins to be sent.
  expect(status.summary.total).toBe(
    response.status.status === 'enqueued' ? 0 : response.status.summary.total,
  );
  expect(mails.length - mailed).toBeLessThanOrEqual(IN_FLIGHT);
}
