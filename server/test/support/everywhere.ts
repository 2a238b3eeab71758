/**
 * Users who can be reached on every channel there is, what came to them, and whether that is what was to
 * come.
 */
import { setTimeout as delay } from 'node:timers/promises';
import { expect } from 'vitest';
import type { Delivery } from '../../src/contract/delivery.ts';
import type { Event } from '../../src/contract/event.ts';
import { devices, reachEverywhere } from './all-channels.ts';
import { type TestProject, until } from './service.ts';
import type { Vendors } from './vendors.ts';
import type { BrowserSubscription } from './web-push-stand-in.ts';

export interface ReachableUser {
  name: string;
  phone: string;
  browser: BrowserSubscription;
  slackChannel: string;
}

/** A broadcast, named by its title; `id` is what was answered, undefined where the answer was lost. */
export interface SentBroadcast {
  tag: string;
  users: readonly string[];
  id: string | undefined;
}

const CHANNELS = ['in_app', 'email', 'sms', 'mobile_push', 'web_push', 'slack', 'teams'];
// A message says somewhere which broadcast it is of.
const TAG = /tag-\d+-\d+/;
const SETUPS_AT_A_TIME = 6;
const CLIENTS = 4;
const PAUSE_MS = 100;
const MAX_RECIPIENTS = 3;

/** Users `u0` … with an address and a token of every kind. */
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

/**
 * Broadcasts that go on being sent until they are told to stop, with one more at any time; `sent` has them,
 * with and without an answer.
 */
export interface LoadEverywhere {
  sent: SentBroadcast[];
  one(): Promise<void>;
  stop(): Promise<void>;
}

/** Sends broadcasts to a few users at a time. Those of a round are told from others by their titles. */
export function loadEverywhere(
  { project, users, random }: { project: TestProject; users: readonly ReachableUser[]; random: () => number },
  round: number,
): LoadEverywhere {
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
    const answer = await project
      .call('POST', '/broadcasts', { title: broadcast.tag, recipients })
      .catch(() => undefined); // who answers was killed
    if (answer?.status === 201) broadcast.id = answer.body.id;
    else if (answer !== undefined) expect(answer.status).toBe(503);
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

/** How often each message came, by kind of target and then by user and broadcast. */
type Received = Map<string, Map<string, number>>;

/** Everything that came to the vendors. */
async function received(vendors: Vendors, users: readonly ReachableUser[]): Promise<Received> {
  const { mail, phone, apple, google, expo, browsers, slack, teams } = vendors;
  const counts: Received = new Map();
  const note = (
    target: string,
    nameOf: (user: ReachableUser) => string,
    came: (readonly [string, string])[],
  ) => {
    const owners = new Map(users.map((user) => [nameOf(user), user.name]));
    const ofTarget = new Map<string, number>();
    for (const [to, text] of came) {
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

/** What came, what of that was repeated, and what was given up because nobody knows whether it came. */
export interface Account {
  broadcasts: number;
  deliveries: number;
  /** By kind of target: messages, how many came more than once, and how often the worst of them. */
  messages: Record<string, { count: number; repeated: number; most: number }>;
  /** Text messages, and how many of these never came: who may not ask a third time cannot know. */
  givenUp: number;
  never: number;
}

/**
 * Waits until every broadcast is processed. Then expects of each that is there, and all are whose answers
 * came: one final state for every user on every channel, told by one event; at every target of a user its
 * message once at least, and text messages twice at most.
 */
export async function takeAccount(
  { project, vendors, users }: { project: TestProject; vendors: Vendors; users: readonly ReachableUser[] },
  sent: readonly SentBroadcast[],
  { withinMs }: { withinMs: number },
): Promise<Account> {
  const stored = await until(
    () => everyPage<Stored>(project, '/broadcasts?limit=100'),
    (all) => all.every(({ status }) => status.status === 'processed' && status.summary.pending === 0),
    { withinMs, everyMs: 200 },
  );
  const byTag = Map.groupBy(stored, ({ title }) => title);
  const names = new Map(
    (await everyPage<{ id: string; external_id: string }>(project, '/users?limit=100')).map((user) => [
      user.id,
      user.external_id,
    ]),
  );
  const ends = await finalEvents(project);
  const counts = await received(vendors, users);
  let [deliveries, givenUp, never] = [0, 0, 0];
  for (const { tag, id, users: addressed } of sent) {
    const [found, ...others] = byTag.get(tag) ?? [];
    expect([tag, others]).toEqual([tag, []]);
    if (id !== undefined) expect([tag, found?.id]).toEqual([tag, id]);
    if (found === undefined) continue;
    const list = await everyPage<Delivery>(project, `/broadcasts/${found.id}/deliveries?limit=100`);
    expect(list.map(({ user_id, channel }) => `${names.get(user_id)} ${channel}`).toSorted()).toEqual(
      addressed.flatMap((name) => CHANNELS.map((channel) => `${name} ${channel}`)).toSorted(),
    );
    const unsure = new Set<string>();
    for (const delivery of list) {
      const { channel, state, code } = delivery;
      // A text message whose fate nobody knows is repeated once, and then given up.
      const isUnsure = channel === 'sms' && state === 'failed' && code === 'ambiguous';
      if (isUnsure) unsure.add(names.get(delivery.user_id) ?? '');
      expect([delivery.id, isUnsure ? 'sent' : state]).toEqual([delivery.id, 'sent']);
      expect([delivery.id, ends.get(delivery.id)]).toEqual([delivery.id, [state]]);
    }
    deliveries += list.length;
    givenUp += unsure.size;
    expect([tag, found.status.summary]).toEqual([
      tag,
      { total: addressed.length, failures: unsure.size, pending: 0 },
    ]);
    const missing = [...counts].flatMap(([target, came]) =>
      addressed.filter((name) => !came.has(`${name} ${tag}`)).map((name) => ({ target, name })),
    );
    const isExcused = ({ target, name }: { target: string; name: string }) =>
      target === 'sms' && unsure.has(name);
    expect([tag, missing.filter((one) => !isExcused(one))]).toEqual([tag, []]);
    never += missing.length;
  }
  const messages = Object.fromEntries(
    [...counts].map(([target, came]) => [target, figuresOf([...came.values()])]),
  );
  expect(messages.sms?.most).toBeLessThanOrEqual(2);
  return { broadcasts: stored.length, deliveries, messages, givenUp, never };
}

interface Stored {
  id: string;
  title: string;
  status: { status: string; summary: { total: number; failures: number; pending: number } };
}

/** The final states that were told of each delivery. */
async function finalEvents(project: TestProject): Promise<Map<string, string[]>> {
  const events = await everyPage<Event & { context: Record<string, string> }>(
    project,
    '/events?limit=100&type=delivery.sent,delivery.failed,delivery.skipped',
  );
  const ends = new Map<string, string[]>();
  for (const { type, context } of events) {
    const id = context.delivery_id ?? '';
    ends.set(id, [...(ends.get(id) ?? []), type.replace('delivery.', '')]);
  }
  return ends;
}

function figuresOf(counts: readonly number[]): Account['messages'][string] {
  return {
    count: counts.reduce((sum, one) => sum + one, 0),
    repeated: counts.filter((one) => one > 1).length,
    most: Math.max(0, ...counts),
  };
}

/** An account in lines to be read. */
export function accountLines({ broadcasts, deliveries, messages, givenUp, never }: Account): string[] {
  return [
    `${broadcasts} broadcasts, ${deliveries} deliveries, ${givenUp} text messages given up as ambiguous, of which ${never} never came`,
    ...Object.entries(messages).map(
      ([target, { count, repeated, most }]) =>
        `${target.padEnd(14)}${count} messages, ${repeated} of them came again, the worst ${most} times`,
    ),
  ];
}

async function everyPage<Item>(project: TestProject, path: string): Promise<Item[]> {
  const found: Item[] = [];
  for (let next: string | undefined = path; next !== undefined; ) {
    const { status, body } = await project.call('GET', next);
    expect([status, body.errors]).toEqual([200, undefined]);
    found.push(...body.data);
    const link: string | null = body.links.next;
    next = link === null ? undefined : link.slice(link.indexOf('/v2') + 3);
  }
  return found;
}
