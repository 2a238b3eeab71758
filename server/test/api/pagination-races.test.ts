import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { newId } from '../../src/lib/ids.ts';
import { type Description, describedBy, type Operation } from '../support/operations.ts';
import { listPages } from '../support/pages.ts';
import {
  type ApiResponse,
  type Caller,
  processed,
  startTestService,
  type TestService,
  until,
} from '../support/service.ts';

// Records are created and deleted while a client pages through a list. Every list returns each record that
// exists throughout exactly once, in both directions.

const RECORDS = 20;
const PAGE = 7;

let service: TestService;
let described: Description;
const user = (): Caller => service.project.as('reader', { user_email: 'reader@example.com' });
const project = (): Caller => service.project.call;

beforeAll(async () => {
  await once(receiver.listen(0, '127.0.0.1'), 'listening');
  service = await startTestService();
  const published = await fetch(`${service.address}/v2/openapi.json`);
  described = describedBy((await published.json()) as Record<string, unknown>);
});
afterAll(async () => {
  await service.stop();
  receiver.close();
});

/** Creates and deletes the records of a list. */
interface Source {
  /** Creates a record. The number is unique. */
  create(number: number): Promise<unknown>;
  /** Deletes a record, if the API can. */
  remove?(record: Shown): Promise<unknown>;
  /** The parameters in the path of the list. */
  path?: () => Promise<string>;
}

type Shown = Record<string, unknown> & { id?: string; key?: string; topic?: string };

const put = (path: string, body: unknown) => project()('PUT', path, body).then(expectDone);
const gone = (path: string) => project()('DELETE', path).then(expectDone);
const expectDone = (response: ApiResponse) => {
  expect(response.status, JSON.stringify(response.body)).toBeLessThan(300);
  return response;
};

async function broadcast(number: number): Promise<unknown> {
  const sent = await project()('POST', '/broadcasts', {
    title: `Number ${number}`,
    recipients: [{ external_id: 'reader' }],
  });
  return processed(project(), sent.body.id);
}

function tokens(collection: string, body: (number: number) => unknown): [RegExp, Source] {
  const path = `/channels/${collection}/tokens`;
  return [
    new RegExp(`^(/users/\\{user_id\\})?${path}$`),
    {
      create: async (number) => expectDone(await user()('PUT', path, body(number))),
      remove: async ({ id }) => expectDone(await user()('DELETE', `${path}/${id}`)),
    },
  ];
}

/** Receives the messages of webhooks. */
const receiver = createServer((request, response) => {
  request.resume().on('end', () => {
    response.writeHead(204).end();
  });
});
let awaited = 0;
const receiverUrl = () => `http://127.0.0.1:${(receiver.address() as AddressInfo).port}`;

let webhook: Promise<string> | undefined;
function ownWebhook(): Promise<string> {
  webhook ??= put('/webhooks', { url: `${receiverUrl()}/taken`, event_types: ['user.created'] }).then(
    ({ body }) => `/webhooks/${body.id}/deliveries`,
  );
  return webhook;
}

async function delivered(number: number): Promise<void> {
  const path = await ownWebhook();
  awaited += 1;
  const all = awaited;
  await put('/users', { external_id: `of a delivery ${number}` });
  await until(
    async () => (await listPages<Shown>(project(), `${path}?limit=100`, 'next')).flat().length,
    (shown) => shown >= all,
    { everyMs: 50 },
  );
}

let sent: Promise<string> | undefined;
function ownBroadcast(): Promise<string> {
  sent ??= project()('POST', '/broadcasts', { title: 'T', recipients: [{ external_id: 'reader' }] })
    .then(expectDone)
    .then(({ body }) => processed(project(), body.id))
    .then(({ id }) => id);
  return sent;
}

/** Writes another page of users of a broadcast, as the fan-out to a topic does. */
async function pageOfUsers(page: number): Promise<unknown> {
  return service.rows('insert into broadcast_users (broadcast_id, page, user_ids) values ($1, $2, $3)', [
    await ownBroadcast(),
    page + 1,
    [newId()],
  ]);
}

const SUBSCRIBERS = '/topics/many/subscribers';
const changeSubscribers = (path: '' | '/remove', subscriber: object) =>
  project()('POST', `${SUBSCRIBERS}${path}`, { users: [subscriber] }).then(expectDone);

const SOURCES: [RegExp, Source][] = [
  [/^\/broadcasts$/, { create: broadcast }],
  [
    /^\/broadcasts\/\{broadcast_id\}\/deliveries$/,
    { create: pageOfUsers, path: async () => `/broadcasts/${await ownBroadcast()}/deliveries` },
  ],
  [
    /^(\/users\/\{user_id\})?\/notifications$/,
    {
      create: broadcast,
      remove: async ({ id }) => expectDone(await user()('DELETE', `/notifications/${id}`)),
    },
  ],
  [/^\/events$/, { create: (number) => put('/users', { external_id: `of an event ${number}` }) }],
  [
    /^\/channels$/,
    {
      create: (number) => put('/channels', { key: `category-${number}`, channels: [{ channel: 'in_app' }] }),
      remove: ({ key }) => gone(`/channels/${key}`),
    },
  ],
  [
    /^((\/users\/\{user_id\})?\/subscriptions|\/topics)$/,
    {
      create: async (number) =>
        expectDone(await user()('POST', '/subscriptions', { topic: `topic/${number}` })),
      remove: async ({ topic }) =>
        expectDone(await user()('DELETE', `/subscriptions/${encodeURIComponent(String(topic))}`)),
    },
  ],
  [
    /^\/topics\/\{topic\}\/subscribers$/,
    {
      create: (number) => changeSubscribers('', { external_id: `subscriber ${number}` }),
      remove: ({ id }) => changeSubscribers('/remove', { id }),
      path: async () => SUBSCRIBERS,
    },
  ],
  [
    /^\/webhooks$/,
    {
      create: (number) =>
        put('/webhooks', { url: `${receiverUrl()}/${number}`, event_types: ['token.discarded'] }),
      remove: ({ id }) => gone(`/webhooks/${id}`),
    },
  ],
  [/^\/webhooks\/\{webhook_id\}\/deliveries$/, { create: delivered, path: ownWebhook }],
  [
    /^\/suppressions$/,
    {
      create: (number) => put('/suppressions', { email: `suppressed-${number}@example.com` }),
      remove: ({ id }) => gone(`/suppressions/${id}`),
    },
  ],
  [
    /^\/workflows\/\{workflow_key\}\/runs$/,
    {
      create: async () => {
        await put('/workflows', { key: 'many', steps: [{ command: 'pause' }] });
        return expectDone(await project()('POST', '/workflows/runs', { key: 'many' }));
      },
      path: async () => '/workflows/many/runs',
    },
  ],
  [
    /^\/templates$/,
    {
      create: (number) =>
        put(`/templates/t-${number}`, { default_locale: 'en', locales: { en: { title: 'T' } } }),
      remove: ({ key }) => gone(`/templates/${key}`),
    },
  ],
  [/^\/users$/, { create: (number) => put('/users', { external_id: `user ${number}` }) }],
  tokens('in_app/inbox', (number) => ({ token: `${number}`.padStart(64, 'x') })),
  ...['apns', 'expo', 'fcm'].map((platform) =>
    tokens(`mobile_push/${platform}`, (number) => ({ device_token: `${number}`.padStart(64, 'x') })),
  ),
  // Every second one has an id that the client chose.
  ...['slack', 'slack/service_slackbot'].map((collection) =>
    tokens(collection, (number) =>
      number % 2
        ? { oauth: { installation_id: 'A0-T0', channel_id: `C${number}` } }
        : { webhook: { url: `https://hooks.example.com/${number}` } },
    ),
  ),
  tokens('teams', (number) => ({ webhook: { url: `https://hooks.example.com/${number}` } })),
  tokens('web_push', (number) => ({
    endpoint: `https://push.example.com/${number}`,
    keys: { auth: 'a', p256dh: 'p' },
  })),
];

let number = 0;

describe('lists that change while they are read', () => {
  test('every operation with pages has a source of records', () => {
    const lists = listing();
    expect(lists.length).toBeGreaterThan(5);
    const without = lists.filter((operation) => sourceOf(operation) === undefined);
    expect(without.map(({ path }) => path)).toEqual([]);
  });

  test('return each record that exists throughout exactly once, in both directions', async () => {
    for (const operation of listing()) {
      const source = sourceOf(operation);
      if (source === undefined) continue;
      await Promise.all(Array.from({ length: RECORDS }, () => source.create(number++)));
      const path = await listPath(operation);
      const call = operation.caller === 'project' ? project() : user();
      const atFirst = (await listPages<Shown>(call, `${path}?limit=100`, 'next')).flat();
      const doomed = source.remove === undefined ? [] : atFirst.filter((_record, index) => index % 4 === 1);
      const lasting = atFirst.filter((record) => !doomed.includes(record)).map(nameOf);
      for (const direction of ['next', 'prev'] as const) {
        const half = doomed.splice(0, Math.ceil(doomed.length / (direction === 'next' ? 2 : 1)));
        const [seen] = await Promise.all([
          listPages<Shown>(call, await startOf(call, path, direction, lasting), direction),
          change(source, half),
        ]);
        // Backwards, each page is newest first, and the oldest page comes first.
        const shown = (direction === 'next' ? seen : seen.toReversed()).flat().map(nameOf);
        expect(new Set(shown).size, `${operation.path} ${direction}: something twice`).toBe(shown.length);
        const there = new Set(lasting);
        const expected = direction === 'next' ? lasting : lasting.slice(0, -1);
        expect(
          shown.filter((name) => there.has(name)),
          `${operation.path} ${direction}`,
        ).toEqual(expected);
      }
    }
  });
});

function sourceOf({ path }: Operation): Source | undefined {
  if (path === '/integrations') return integrations('/integrations/expo');
  if (path.startsWith('/integrations/')) return integrations(path);
  return SOURCES.find(([pattern]) => pattern.test(path))?.[1];
}

/** An integration of any provider, with the config of its example. */
function integrations(path: string): Source {
  const paths = described.document.paths as Record<string, { put?: { requestBody: { content: Content } } }>;
  const config = paths[path]?.put?.requestBody.content['application/json']?.example;
  return {
    create: () => put(`${path}?id=${newId()}`, config),
    remove: ({ id }) => gone(`${path}?id=${id}`),
  };
}

type Content = Record<string, { example?: unknown }>;

/** The operations with pages. */
function listing(): Operation[] {
  return described.operations.filter(({ parameters }) =>
    parameters.some(({ name }) => name === 'starting_after'),
  );
}

async function listPath(operation: Operation): Promise<string> {
  const { path } = operation;
  const own = sourceOf(operation)?.path;
  if (own !== undefined) return own();
  if (!path.includes('{user_id}')) return path;
  const { body } = await project()('PUT', '/users', { external_id: 'reader' });
  return path.replace('{user_id}', body.id);
}

/** Reads forwards from the newest, or backwards from the oldest, which is then not included. */
async function startOf(
  call: Caller,
  path: string,
  direction: 'next' | 'prev',
  lasting: readonly string[],
): Promise<string> {
  if (direction === 'next') return `${path}?limit=${PAGE}`;
  const all = (await listPages<Shown>(call, `${path}?limit=100`, 'next')).flat();
  const oldest = all.findLast((record) => nameOf(record) === lasting.at(-1));
  return `${path}?limit=${PAGE}&ending_before=${encodeURIComponent(String(oldest?.id ?? lasting.at(-1)))}`;
}

/** Creates and deletes records, a few at a time, during the reads. */
async function change(source: Source, doomed: readonly Shown[]): Promise<void> {
  for (const record of doomed) {
    await source.create(number++);
    await source.remove?.(record);
  }
  for (let more = 0; more < 3; more += 1) await source.create(number++);
}

function nameOf({ id, key, topic }: Shown): string {
  return String(id ?? key ?? topic);
}
