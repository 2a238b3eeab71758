/** A load of broadcasts to users with addresses on every channel, and a check of what arrived. */
import { setTimeout as delay } from 'node:timers/promises';
import { expect } from 'vitest';
import type { DeliveryRecord } from '../../src/contract/delivery.ts';
import type { Event } from '../../src/contract/event.ts';
import type { Queryable } from '../../src/db/client.ts';
import { devices, reachEverywhere } from './all-channels.ts';
import { listAll } from './pages.ts';
import { rowsOf } from './rows.ts';
import { type TestProject, until } from './service.ts';
import type { Vendors } from './vendors.ts';
import type { BrowserSubscription } from './web-push-stand-in.ts';

export interface ReachableUser {
  name: string;
  phone: string;
  browser: BrowserSubscription;
  slackChannel: string;
}

/** A broadcast with its title. `id` is undefined if the response was lost. */
export interface SentBroadcast {
  tag: string;
  users: readonly string[];
  id: string | undefined;
}

const CHANNELS = ['in_app', 'email', 'sms', 'mobile_push', 'web_push', 'slack', 'teams'];
// Every message contains the title of its broadcast.
const TAG = /tag-\d+-\d+/;
const SETUPS_AT_A_TIME = 6;
const CLIENTS = 4;
const PAUSE_MS = 100;
const MAX_RECIPIENTS = 3;

/** Creates users `u0` … with an address and a token of every kind. */
export async function makeReachableUsers(
  project: TestProject,
  vendors: Vendors,
  count: number,
): Promise<ReachableUser[]> {
  const users: ReachableUser[] = [];
  const names = Array.from({ length: count }, (_none, index) => `u${index}`).values();
  const make = async () => {
    for (const name of names) {
      const { browser, channel } = await reachEverywhere(project, vendors, name);
      const phone = `+1415555${String(1000 + Number(name.slice(1)))}`;
      const saved = await project.call('PUT', '/users', {
        external_id: name,
        email: `${name}@example.com`,
        phone_numbers: [phone],
      });
      expect(saved.status).toBe(200);
      users.push({ name, phone, browser, slackChannel: channel });
    }
  };
  await Promise.all(Array.from({ length: SETUPS_AT_A_TIME }, make));
  return users;
}

/** Broadcasts that are sent continuously until `stop`. */
export interface AllChannelsLoad {
  /** All broadcasts, whether a response arrived or not. */
  sent: SentBroadcast[];
  /** Sends one more. */
  one(): Promise<void>;
  stop(): Promise<void>;
}

/** Sends broadcasts to a few users at a time. The titles contain the round. */
export function loadAllChannels(
  { project, users, random }: { project: TestProject; users: readonly ReachableUser[]; random: () => number },
  round: number,
): AllChannelsLoad {
  const sent: SentBroadcast[] = [];
  const integer = (below: number) => Math.floor(random() * below);
  let stopped = false;
  const one = async () => {
    const some = Array.from({ length: 1 + integer(MAX_RECIPIENTS) }, () => `u${integer(users.length)}`);
    const broadcast: SentBroadcast = {
      tag: `tag-${round}-${sent.length}`,
      users: [...new Set(some)],
      id: undefined,
    };
    sent.push(broadcast);
    const recipients = broadcast.users.map((external_id) => ({ external_id }));
    const response = await project
      .call('POST', '/broadcasts', { title: broadcast.tag, recipients })
      .catch(() => undefined); // the server was killed
    if (response?.status === 201) broadcast.id = response.body.id;
    else if (response !== undefined) expect(response.status).toBe(503);
  };
  const client = async () => {
    while (!stopped) {
      await one();
      await delay(random() * PAUSE_MS);
    }
  };
  const running = Promise.all(Array.from({ length: CLIENTS }, client));
  return {
    sent,
    one,
    async stop() {
      stopped = true;
      await running;
    },
  };
}

/** How often each message arrived, by kind of target, and then by user and broadcast. */
type Received = Map<string, Map<string, number>>;

/** Everything that the vendors received. */
async function received(vendors: Vendors, users: readonly ReachableUser[]): Promise<Received> {
  const { mail, phone, apple, google, expo, browsers, slack, teams } = vendors;
  const counts: Received = new Map();
  const note = (
    target: string,
    nameOf: (user: ReachableUser) => string,
    arrived: (readonly [string, string])[],
  ) => {
    const owners = new Map(users.map((user) => [nameOf(user), user.name]));
    const ofTarget = new Map<string, number>();
    for (const [to, text] of arrived) {
      const owner = owners.get(to);
      if (owner === undefined) continue;
      const name = `${owner} ${TAG.exec(text)?.[0]}`;
      ofTarget.set(name, (ofTarget.get(name) ?? 0) + 1);
    }
    counts.set(target, ofTarget);
  };
  const json = JSON.stringify;
  note(
    'email',
    ({ name }) => `${name}@example.com`,
    mail.received.map(({ to, raw }) => [to, raw.toString('latin1')]),
  );
  const texts = phone.requests.map(({ body }) => new URLSearchParams(body));
  note(
    'sms',
    (user) => user.phone,
    texts.map((text) => [text.get('To') ?? '', text.get('Body') ?? '']),
  );
  note(
    'apns',
    ({ name }) => devices.apns(name),
    apple.pushes.map(({ deviceToken, payload }) => [deviceToken, json(payload)]),
  );
  note(
    'fcm',
    ({ name }) => devices.fcm(name),
    google.messages.map((one) => [String(one.token), json(one)]),
  );
  note(
    'expo',
    ({ name }) => devices.expo(name),
    expo.messages.map((one) => [String(one.to), json(one)]),
  );
  const pushed = await Promise.all(
    users.map(async ({ browser: { clientHash } }) =>
      (await browsers.notifications(clientHash)).map((text) => [clientHash, text] as const),
    ),
  );
  note('web_push', ({ browser }) => browser.clientHash, pushed.flat());
  const posted = slack.posted.map(({ to, body }) => [to, json(body)] as const);
  note('slack', ({ slackChannel }) => slackChannel, posted);
  note('slackbot', ({ slackChannel }) => `${slackChannel}BOT`, posted);
  note('slack_webhook', ({ name }) => `/services/${name}`, posted);
  note(
    'teams',
    ({ name }) => `/${name}`,
    teams.requests.map(({ path, body }) => [path, body]),
  );
  return counts;
}

const TARGETS: Record<string, readonly string[]> = {
  email: ['email'],
  sms: ['sms'],
  mobile_push: ['apns', 'fcm', 'expo'],
  web_push: ['web_push'],
  slack: ['slack', 'slackbot', 'slack_webhook'],
  teams: ['teams'],
};

/** The deliveries that were recorded as complete at some time, and what had arrived by then. */
export interface Completed {
  deliveries: readonly { broadcast_id: string; name: string; channel: string }[];
  arrived: Received;
}

/** Reads which deliveries are recorded as complete: nothing of them may be sent after this. */
export async function completedDeliveries(
  db: Queryable,
  { vendors, users }: { vendors: Vendors; users: readonly ReachableUser[] },
): Promise<Completed> {
  const deliveries = await rowsOf<Completed['deliveries'][number]>(
    db,
    `select d.broadcast_id, u.external_id as name, d.channel
    from deliveries d
    join users u on u.id = d.user_id
    where d.state = 'sent' and d.progress is null`,
  );
  return { deliveries, arrived: await received(vendors, users) };
}

/** Expects that nothing arrived of deliveries after they were recorded as complete. */
function expectNotRepeated(
  completed: readonly Completed[],
  counts: Received,
  titles: ReadonlyMap<string, string>,
): void {
  for (const { deliveries, arrived } of completed)
    for (const { broadcast_id: id, name, channel } of deliveries)
      for (const target of TARGETS[channel] ?? []) {
        const message = `${name} ${titles.get(id)}`;
        const times = (of: Received) => of.get(target)?.get(message) ?? 0;
        expect([target, message, times(counts)]).toEqual([target, message, times(arrived)]);
      }
}

/** What arrived, how much of it repeatedly, and which text messages ended as ambiguous. */
export interface DeliverySummary {
  broadcasts: number;
  deliveries: number;
  /** By kind of target: messages, how many arrived more than once, and the most arrivals of one message. */
  messages: Record<string, { count: number; repeated: number; most: number }>;
  /** Text messages that failed as ambiguous, and how many of these did not arrive. */
  ambiguous: number;
  lost: number;
}

/**
 * Waits until every stored broadcast is processed; each that was accepted must be stored. Expects one final
 * state for each user and channel, recorded by one event. Expects the message at every target of a user at
 * least once, text messages at most twice, and nothing of the completed deliveries once more.
 */
export async function checkDeliveries(
  { project, vendors, users }: { project: TestProject; vendors: Vendors; users: readonly ReachableUser[] },
  sent: readonly SentBroadcast[],
  completed: readonly Completed[] = [],
): Promise<DeliverySummary> {
  const stored = await until(
    () => listAll<Stored>(project.call, '/broadcasts?limit=100'),
    (all) => all.every(({ status }) => status.status === 'processed' && status.summary.pending === 0),
    { everyMs: 200 },
  );
  const byTag = Map.groupBy(stored, ({ title }) => title);
  const names = new Map(
    (await listAll<{ id: string; external_id: string }>(project.call, '/users?limit=100')).map((user) => [
      user.id,
      user.external_id,
    ]),
  );
  const ends = await finalEvents(project);
  let counts = await received(vendors, users);
  let [deliveries, ambiguous, lost] = [0, 0, 0];
  for (const { tag, id, users: addressed } of sent) {
    const [found, ...others] = byTag.get(tag) ?? [];
    expect([tag, others]).toEqual([tag, []]);
    if (id !== undefined) expect([tag, found?.id]).toEqual([tag, id]);
    if (found === undefined) continue;
    const list = await listAll<DeliveryRecord>(project.call, `/broadcasts/${found.id}/deliveries?limit=100`);
    expect(list.map(({ user_id, channel }) => `${names.get(user_id)} ${channel}`).toSorted()).toEqual(
      addressed.flatMap((name) => CHANNELS.map((channel) => `${name} ${channel}`)).toSorted(),
    );
    const ambiguousUsers = new Set<string>();
    for (const delivery of list) {
      const { channel, state, code } = delivery;
      // An ambiguous text message is retried once.
      const isAmbiguous = channel === 'sms' && state === 'failed' && code === 'ambiguous';
      if (isAmbiguous) ambiguousUsers.add(names.get(delivery.user_id) ?? '');
      expect([delivery.id, isAmbiguous ? 'sent' : state]).toEqual([delivery.id, 'sent']);
      expect([delivery.id, ends.get(delivery.id)]).toEqual([delivery.id, [state]]);
    }
    deliveries += list.length;
    ambiguous += ambiguousUsers.size;
    expect([tag, found.status.summary]).toEqual([
      tag,
      { total: addressed.length, failures: ambiguousUsers.size, pending: 0 },
    ]);
    const isExcused = ({ target, name }: { target: string; name: string }) =>
      target === 'sms' && ambiguousUsers.has(name);
    const missingIn = (messages: typeof counts) =>
      [...messages].flatMap(([target, arrived]) =>
        addressed.filter((name) => !arrived.has(`${name} ${tag}`)).map((name) => ({ target, name })),
      );
    // A delivery is sent when the first device accepts it; the others may follow.
    let missing = missingIn(counts);
    if (!missing.every(isExcused))
      missing = await until(
        async () => {
          counts = await received(vendors, users);
          return missingIn(counts);
        },
        (all) => all.every(isExcused),
        { everyMs: 200 },
      );
    lost += missing.length;
  }
  expectNotRepeated(completed, counts, new Map(stored.map(({ id, title }) => [id, title])));
  const messages = Object.fromEntries(
    [...counts].map(([target, arrived]) => [target, figuresOf([...arrived.values()])]),
  );
  expect(messages.sms?.most).toBeLessThanOrEqual(2);
  return { broadcasts: stored.length, deliveries, messages, ambiguous, lost };
}

interface Stored {
  id: string;
  title: string;
  status: { status: string; summary: { total: number; failures: number; pending: number } };
}

/** The final states of each delivery, from its events. */
async function finalEvents(project: TestProject): Promise<Map<string, string[]>> {
  const events = await listAll<Event & { context: Record<string, string> }>(
    project.call,
    '/events?limit=100&type=delivery.sent,delivery.failed,delivery.skipped',
  );
  const ends = new Map<string, string[]>();
  for (const { type, context } of events) {
    const id = context.delivery_id ?? '';
    ends.set(id, [...(ends.get(id) ?? []), type.replace('delivery.', '')]);
  }
  return ends;
}

function figuresOf(counts: readonly number[]): DeliverySummary['messages'][string] {
  return {
    count: counts.reduce((sum, one) => sum + one, 0),
    repeated: counts.filter((one) => one > 1).length,
    most: Math.max(0, ...counts),
  };
}

/** A summary as lines of text. */
export function summaryLines(summary: DeliverySummary): string[] {
  const { broadcasts, deliveries, messages, ambiguous, lost } = summary;
  return [
    `${broadcasts} broadcasts, ${deliveries} deliveries`,
    `${ambiguous} text messages failed as ambiguous, ${lost} of them did not arrive`,
    ...Object.entries(messages).map(
      ([target, { count, repeated, most }]) =>
        `${target.padEnd(14)}${count} messages, ${repeated} arrived again, at most ${most} times`,
    ),
  ];
}
