import fc from 'fast-check';
import { getNamedType, isObjectType } from 'graphql';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { graphqlSchema } from '../../src/http/graphql/schema.ts';
import { Explorer, type GeneratedRequest, send } from '../support/explorer.ts';
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

// Two projects with two users each. The first user has records of every kind. For every operation, the others
// cannot read, change or detect them. FAULT_SEED repeats a run.

const seed = newSeed();
let service: TestService;
let explorer: Explorer;
let owner: TestProject;
let stranger: TestProject;

/** The callers that are not the owner, by kind of token. */
let others: Record<'project' | 'user', [string, Caller][]>;

beforeAll(async () => {
  console.info(`isolation: FAULT_SEED=${seed}`);
  service = await startTestService();
  const published = await fetch(`${service.address}/v2/openapi.json`);
  explorer = new Explorer(describedBy((await published.json()) as Record<string, unknown>));
  owner = service.project;
  stranger = await service.createProject('stranger');
  others = {
    project: [["another project's Project JWT", stranger.call]],
    user: [
      ['another user of the project', owner.as('second', { user_email: 'second@example.com' })],
      ["another project's user of the same name", stranger.as('first', { user_email: 'first@example.com' })],
      ["another project's other user", stranger.as('second')],
    ],
  };
  await fill();
});
afterAll(() => service.stop());

const first = (): Caller => owner.as('first', { user_email: 'first@example.com' });
const ownerOf = (operation: Operation): Caller => (operation.caller === 'project' ? owner.call : first());
const operations = (...methods: string[]) =>
  explorer.described.operations.filter(
    (operation) => operation.caller !== 'public' && !operation.streams && methods.includes(operation.method),
  );

/** Generated requests, and the example of the description, which is valid. */
function samples(operation: Operation, number: number): GeneratedRequest[] {
  const drawn = fc.sample(explorer.requestsOf(operation), { numRuns: number, seed });
  if (operation.example === undefined) return drawn;
  return [{ path: drawn[0]?.path ?? {}, query: {}, body: operation.example }, ...drawn];
}

/** Creates records of every kind for the owner. */
async function fill(): Promise<void> {
  const sent = await owner.call('POST', '/broadcasts', {
    title: 'Only for the first',
    category: 'private',
    topic: 'private',
    recipients: [{ external_id: 'first', email: 'first@example.com' }],
  });
  await processed(owner.call, sent.body.id);
  for (const operation of operations('PUT'))
    for (const drawn of samples(operation, 6)) await learnFrom(operation, drawn);
  // Learn ids from the lists, too, because not every response of a write has the id.
  for (const operation of operations('GET'))
    await learnFrom(operation, { path: ids(operation), query: {}, body: undefined });
  for (const operation of operations('POST').filter(({ body }) => body !== undefined))
    for (const drawn of samples(operation, 3)) await learnFrom(operation, { ...drawn, path: ids(operation) });
  await settled();
  for (const operation of operations('GET'))
    await learnFrom(operation, { path: ids(operation), query: {}, body: undefined });
}

/** Waits until nothing changes by itself. Deliveries that the providers reject are retried for a day. */
async function settled(): Promise<void> {
  await until(
    () => owner.call('GET', '/broadcasts?limit=100'),
    ({ body }) => body.data.every((one: { status: { status: string } }) => one.status.status !== 'enqueued'),
  );
  const reading = operations('GET').find(({ path }) => path === '/imports/{import_id}');
  if (reading === undefined) throw new Error('there is no operation that gets an import');
  for (const id of explorer.idsFor(reading, 'import_id'))
    await until(
      () => owner.call('GET', `/imports/${id}`),
      ({ body }) => body.status === 'processed',
    );
}

async function learnFrom(operation: Operation, drawn: GeneratedRequest): Promise<void> {
  const response = await send(ownerOf(operation), operation, drawn);
  if (response.status < 300) explorer.learn(operation, response);
}

/** Ids of the owner's records for the path of an operation. */
function ids(operation: Operation): Record<string, string> {
  return Object.fromEntries(
    operation.parameters
      .filter((one) => one.in === 'path')
      .map(({ name }) => [name, explorer.idsFor(operation, name)[0] ?? 'none']),
  );
}

/** Everything that the owner can read. */
async function everything(): Promise<Record<string, unknown>> {
  const seen: Record<string, unknown> = {};
  for (const operation of operations('GET')) {
    // Events and deliveries are recorded meanwhile, and the last_seen_at of users changes.
    if (/^\/(events|users)|\/deliveries$/.test(operation.path)) continue;
    const response = await send(ownerOf(operation), operation, {
      path: ids(operation),
      query: {},
      body: undefined,
    });
    seen[operation.id] = [response.status, stable(response.body)];
  }
  return seen;
}

/** Removes what changes by itself: the webhook of the example fails. */
function stable(body: unknown): unknown {
  const text = JSON.stringify(body, (key, value) => (key === 'failing_since' ? undefined : value));
  return text === undefined ? undefined : JSON.parse(text);
}

const isId = (text: string) => /^[0-9a-f-]{36}$/.test(text);

describe('records of the owner', () => {
  test('there are some of every kind', () => {
    const lacking = operations('GET', 'DELETE')
      .filter((operation) => operation.path.includes('{'))
      .filter((operation) => Object.values(ids(operation)).includes('none'));
    expect(lacking.map(({ id }) => id)).toEqual([]);
  });

  test('others can neither find nor change them, with any operation', async () => {
    const before = await everything();
    for (const operation of operations('GET', 'POST', 'PUT', 'PATCH', 'DELETE')) {
      if (!operation.path.includes('{')) continue;
      for (const [name, call] of others[operation.caller as 'project' | 'user']) {
        const path = ids(operation);
        const [drawn] = samples(operation, 1);
        const response = await send(call, operation, { path, query: {}, body: drawn?.body });
        const context = `${operation.id} by ${name} → ${response.status} ${JSON.stringify(response.body)}`;
        // Others may use the same keys and topics, because clients choose them, but not the same ids.
        if (Object.entries(path).every(([name, value]) => name !== 'topic' && isId(value)))
          expect(response.status, context).toBe(404);
        else expect([200, 204, 404], context).toContain(response.status);
      }
    }
    expect(await everything()).toEqual(before);
  });

  test('are not found by an id in the query', async () => {
    const before = await everything();
    for (const operation of operations('GET', 'PUT', 'POST', 'DELETE')) {
      const names = operation.parameters.filter(
        (one) => one.in === 'query' && /^(id|starting_after|ending_before)$/.test(one.name),
      );
      if (names.length === 0 || operation.path.includes('{')) continue;
      const known = explorer.described.operations
        .filter((other) => other.path.startsWith(`${operation.path}/{`) || other.path === operation.path)
        .flatMap((other) => Object.values(ids(other)));
      for (const [, call] of others[operation.caller as 'project' | 'user'])
        for (const { name } of names)
          for (const id of new Set([...known, await integrationId(operation)])) {
            if (!isId(id)) continue;
            const [drawn] = samples(operation, 1);
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
    const own = [...new Set(explorer.described.operations.flatMap((one) => Object.values(ids(one))))].filter(
      isId,
    );
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
          const more = field.args.some((one) => one.name === 'input') ? ', input: {}' : '';
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

  test('are in no list of others', async () => {
    const own = new Set(
      explorer.described.operations.flatMap((operation) => Object.values(ids(operation))).filter(isId),
    );
    expect(own.size).toBeGreaterThan(3);
    for (const operation of operations('GET').filter(({ path }) => !path.includes('{')))
      for (const [name, call] of others[operation.caller as 'project' | 'user']) {
        const response = await send(call, operation, { path: {}, query: { limit: 100 }, body: undefined });
        const shown = JSON.stringify(response.body ?? '');
        for (const id of own)
          expect(shown.includes(id), `${operation.id} by ${name} shows ${id}`).toBe(false);
      }
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
