import fc from 'fast-check';
import { getNamedType, isObjectType } from 'graphql';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { sql } from '../../src/db/client.ts';
import { graphqlSchema } from '../../src/http/graphql/schema.ts';
import { Explorer, examplesOf, type GeneratedRequest, send } from '../support/explorer.ts';
import { describedBy, type Operation } from '../support/operations.ts';
import { newSeed } from '../support/random.ts';
import {
  type Caller,
  processed,
  startTestService,
  type TestProject,
  type TestService,
  until,
} from '../support/service.ts';

// Two projects with two users each. The first user has records of every kind, made by both versions of the
// API. For every operation of both, the others cannot read, change or detect them. FAULT_SEED repeats a run.

const VERSIONS = ['v2', 'v1'] as const;
type Version = (typeof VERSIONS)[number];

const seed = newSeed();
let service: TestService;
let owner: TestProject;
let stranger: TestProject;
const explorers = {} as Record<Version, Explorer>;

beforeAll(async () => {
  console.info(`isolation: FAULT_SEED=${seed}`);
  service = await startTestService();
  owner = service.project;
  stranger = await service.createProject('stranger');
  for (const version of VERSIONS) {
    const published = await fetch(`${service.address}/${version}/openapi.json`);
    explorers[version] = new Explorer(describedBy((await published.json()) as Record<string, unknown>));
  }
  const sent = await owner.call('POST', '/broadcasts', {
    title: 'Only for the first',
    category: 'private',
    topic: 'private',
    recipients: [{ external_id: 'first', email: 'first@example.com' }],
  });
  await processed(owner.call, sent.body.id);
  for (const version of VERSIONS) await fill(version);
  await postponeJobs();
  // The list of users has the other one from now on.
  await owner.as('second', { user_email: 'second@example.com' })('GET', '/notifications');
});
afterAll(() => service.stop());

/** The owner, as the caller of an operation. */
function ownerOf(version: Version, { caller }: Operation): Caller {
  if (version === 'v1') return caller === 'project' ? owner.v1 : owner.v1As('first');
  return caller === 'project' ? owner.call : owner.as('first', { user_email: 'first@example.com' });
}

/** The callers of an operation that are not the owner. */
function othersOf(version: Version, { caller }: Operation): [string, Caller][] {
  const isV1 = version === 'v1';
  if (caller === 'project') return [['another project', isV1 ? stranger.v1 : stranger.call]];
  return [
    [
      'another user of the project',
      isV1 ? owner.v1As('second') : owner.as('second', { user_email: 'second@example.com' }),
    ],
    [
      "another project's user of the same name",
      isV1 ? stranger.v1As('first') : stranger.as('first', { user_email: 'first@example.com' }),
    ],
    ["another project's other user", isV1 ? stranger.v1As('second') : stranger.as('second')],
  ];
}

const operations = (version: Version, ...methods: string[]) =>
  explorers[version].described.operations.filter(
    (operation) => operation.caller !== 'public' && !operation.streams && methods.includes(operation.method),
  );

/** Generated requests, and the example of the description, which is valid. */
function samples(version: Version, operation: Operation, number: number): GeneratedRequest[] {
  const drawn = fc.sample(explorers[version].requestsOf(operation), { numRuns: number, seed });
  return [...examplesOf(operation), ...drawn];
}

/** Creates records of every kind for the owner. */
async function fill(version: Version): Promise<void> {
  const learn = async (operation: Operation, request: Partial<GeneratedRequest>) => {
    const drawn = { path: ids(version, operation), query: {}, body: undefined, ...request };
    const response = await send(ownerOf(version, operation), operation, drawn);
    if (response.status < 300) explorers[version].learn(operation, response);
  };
  const learnFromLists = async () => {
    for (const operation of operations(version, 'GET')) await learn(operation, {});
  };
  for (const operation of operations(version, 'PUT'))
    for (const drawn of samples(version, operation, 20)) await learn(operation, drawn);
  // Learn ids from the lists, too, because not every response of a write has the id.
  await learnFromLists();
  for (const operation of operations(version, 'POST').filter(({ body }) => body !== undefined))
    for (const { query, body } of samples(version, operation, 3)) await learn(operation, { query, body });
  await settled();
  await learnFromLists();
}

/** Waits until nothing changes by itself. Deliveries that the providers reject are retried for a day. */
async function settled(): Promise<void> {
  await until(
    () => owner.call('GET', '/broadcasts?limit=100'),
    ({ body }) => body.data.every((one: { status: { status: string } }) => one.status.status !== 'enqueued'),
  );
  const imports = VERSIONS.flatMap((version) => {
    const reading = operations(version, 'GET').find(({ path }) => path === '/imports/{import_id}');
    if (reading === undefined) throw new Error('there is no operation that gets an import');
    return explorers[version].idsFor(reading, 'import_id');
  });
  for (const id of imports)
    await until(
      () => owner.call('GET', `/imports/${id}`),
      ({ body }) => body.status === 'processed',
    );
}

/** Makes all jobs of the owner due tomorrow, so that retries, expiries and runs change nothing meanwhile. */
async function postponeJobs(): Promise<void> {
  const run = (text: string) => service.context.db.query(sql('', text), [owner.id]);
  const early = "project_id = $1 and (lease_id is not null or due_at is null or due_at < now() + '1 hour')";
  await until(
    async () => {
      await run(`update jobs set due_at = now() + '1 day' where ${early} and lease_id is null`);
      return run(`select from jobs where ${early}`);
    },
    (jobs) => jobs.length === 0,
  );
}

/** Ids of the owner's records for the path of an operation. */
function ids(version: Version, operation: Operation): Record<string, string> {
  return Object.fromEntries(
    operation.parameters
      .filter((one) => one.in === 'path')
      .map(({ name }) => [name, explorers[version].idsFor(operation, name)[0] ?? 'none']),
  );
}

/** Everything that the owner can read, with both versions. */
async function everything(): Promise<Record<string, unknown>> {
  const seen: Record<string, unknown> = {};
  for (const version of VERSIONS)
    for (const operation of operations(version, 'GET')) {
      // Events and deliveries of webhooks are recorded meanwhile, and the last_seen_at of users changes.
      if (version === 'v2' && /^\/(events|users|webhooks\/.*deliveries$)/.test(operation.path)) continue;
      const response = await send(ownerOf(version, operation), operation, {
        path: ids(version, operation),
        query: {},
        body: undefined,
      });
      seen[operation.id] = [response.status, stable(response.body)];
    }
  return seen;
}

// The webhook of the example fails, deliveries are retried, failing integrations are paused, users are seen,
// and the page on which a browser subscribes has a new token.
const UNSTABLE = ['failing_since', 'deliveries', 'state', 'subscribe_url', 'last_seen_at'];

/** Removes what changes by itself. */
function stable(body: unknown): unknown {
  const text = JSON.stringify(body, (key, value) => (UNSTABLE.includes(key) ? undefined : value));
  return text === undefined ? undefined : JSON.parse(text);
}

const isId = (text: string) => /^[0-9a-f-]{36}$/.test(text);
// Parameters whose values clients choose.
const CHOSEN = ['topic', 'template_key'];
const isPrivate = (name: string, value: string) =>
  !CHOSEN.includes(name) && (isId(value) || name === 'device_token');

/** The ids of the owner's records. */
const ownIds = (...versions: Version[]) =>
  new Set(
    versions
      .flatMap((version) =>
        explorers[version].described.operations.flatMap((one) => Object.entries(ids(version, one))),
      )
      .filter(([name, value]) => isPrivate(name, value) && isId(value))
      .map(([, value]) => value),
  );

describe.each(VERSIONS)('records of the owner, with %s', (version) => {
  test('there are some of every kind', () => {
    const lacking = operations(version, 'GET', 'DELETE')
      .filter((operation) => operation.path.includes('{'))
      .filter((operation) => Object.values(ids(version, operation)).includes('none'));
    expect(lacking.map(({ id }) => id)).toEqual([]);
  });

  test('others can neither find nor change them, with any operation', async () => {
    const before = await everything();
    for (const operation of operations(version, 'GET', 'POST', 'PUT', 'PATCH', 'DELETE')) {
      if (!operation.path.includes('{')) continue;
      for (const [name, call] of othersOf(version, operation)) {
        const path = ids(version, operation);
        const [drawn] = samples(version, operation, 1);
        const response = await send(call, operation, { path, query: {}, body: drawn?.body });
        const context = `${operation.id} by ${name} → ${response.status} ${JSON.stringify(response.body)}`;
        // Others may use the same keys and topics, because clients choose them, but not the same ids.
        if (Object.entries(path).every(([name, value]) => isPrivate(name, value)))
          expect(response.status, context).toBe(404);
        else expect([200, 204, 404], context).toContain(response.status);
      }
    }
    expect(await everything()).toEqual(before);
  });

  test('a user of the same name in another project is another user', async () => {
    const before = await everything();
    const own = ownIds('v2', 'v1');
    for (const operation of operations(version, 'GET', 'POST', 'PUT', 'PATCH', 'DELETE')) {
      if (operation.caller !== 'project' || !operation.path.startsWith('/users/{user_id}')) continue;
      for (const user of ['external_id:first', 'email:first@example.com']) {
        const path = { ...ids(version, operation), user_id: user };
        const [drawn] = samples(version, operation, 1);
        const [[, call] = []] = othersOf(version, operation);
        if (call === undefined) throw new Error(`${operation.id} has no other caller`);
        const response = await send(call, operation, { path, query: {}, body: drawn?.body });
        const context = `${operation.id} of ${user} → ${response.status} ${response.text}`;
        expect(response.status, context).toBeLessThan(500);
        for (const id of own) expect(response.text.includes(id), context).toBe(false);
      }
    }
    expect(await everything()).toEqual(before);
  });

  test('are in no list of others', async () => {
    const own = ownIds(version);
    expect(own.size).toBeGreaterThan(3);
    const query = version === 'v1' ? { per_page: 100 } : { limit: 100 };
    for (const operation of operations(version, 'GET').filter(({ path }) => !path.includes('{')))
      for (const [name, call] of othersOf(version, operation)) {
        const response = await send(call, operation, { path: {}, query, body: undefined });
        const shown = JSON.stringify(response.body ?? '');
        for (const id of own)
          expect(shown.includes(id), `${operation.id} by ${name} shows ${id}`).toBe(false);
      }
  });
});

describe('records of the owner', () => {
  test('are not found by an id in the query', async () => {
    const before = await everything();
    for (const operation of operations('v2', 'GET', 'PUT', 'POST', 'DELETE')) {
      const names = operation.parameters.filter(
        (one) => one.in === 'query' && /^(id|starting_after|ending_before)$/.test(one.name),
      );
      if (names.length === 0 || operation.path.includes('{')) continue;
      const known = explorers.v2.described.operations
        .filter((other) => other.path.startsWith(`${operation.path}/{`) || other.path === operation.path)
        .flatMap((other) => Object.values(ids('v2', other)));
      for (const [, call] of othersOf('v2', operation))
        for (const { name } of names)
          for (const id of new Set([...known, await integrationId(operation)])) {
            if (!isId(id)) continue;
            const [drawn] = samples('v2', operation, 1);
            const response = await send(call, operation, {
              path: {},
              query: { [name]: id },
              body: drawn?.body,
            });
            expect(response.status, `${operation.id}?${name}=${id}`).toBeLessThan(500);
          }
    }
    expect(await everything()).toEqual(before);
  });

  test('others can neither find, list nor change them with GraphQL', async () => {
    const before = await everything();
    const own = ownIds('v2', 'v1');
    const schema = graphqlSchema();
    const roots = { query: schema.getQueryType(), mutation: schema.getMutationType() };
    for (const [operation, type] of Object.entries(roots))
      for (const field of Object.values(type?.getFields() ?? {})) {
        const kind = field.description?.endsWith('of the project.') ? 'project' : 'user';
        const node = isObjectType(getNamedType(field.type)) ? '{ __typename }' : '';
        for (const [name, token] of strangers(kind)) {
          const run = async (selection: string) =>
            (await graphql(token, `${operation} { ${selection} }`)).text as string;
          const context = `${field.name} by ${name}`;
          if (field.args.some((one) => one.name === 'first')) {
            const key = ['categories', 'preferences'].includes(field.name) ? 'key' : 'id';
            const text = await run(`${field.name}(first: 100) { nodes { ${key} } totalCount }`);
            expect(text, context).toContain('"data":{');
            for (const id of own) expect(text.includes(id), context).toBe(false);
          }
          if (!field.args.some((one) => one.name === 'id')) continue;
          const required = { input: '{}', until: 'null' };
          const more = Object.entries(required)
            .filter(([name]) => field.args.some((one) => one.name === name))
            .map(([name, value]) => `, ${name}: ${value}`)
            .join('');
          for (const id of own) {
            const { body } = await graphql(
              token,
              `${operation} { ${field.name}(id: "${id}"${more}) ${node} }`,
            );
            expect(body.data?.[field.name] ?? null, context).toBeNull();
            if (operation === 'mutation') expect(body.errors[0].extensions.code, context).toBe('not_found');
          }
        }
      }
    expect(await everything()).toEqual(before);
  });
});

/** The tokens of callers that are not the owner. */
function strangers(kind: 'project' | 'user'): [string, string][] {
  if (kind === 'project') return [["another project's Project JWT", stranger.jwt]];
  return [
    ['another user of the project', owner.userJwt({ user_external_id: 'second' })],
    ["another project's user of the same name", stranger.userJwt({ user_external_id: 'first' })],
  ];
}

const graphql = (token: string, query: string) =>
  service.request('POST', '/graphql', { token, body: { query } });

/** Only the list of integrations has their ids. */
async function integrationId(operation: Operation): Promise<string> {
  if (!operation.path.startsWith('/integrations/')) return '';
  const { body } = await owner.call('GET', operation.path);
  return body?.data?.[0]?.id ?? '';
}
