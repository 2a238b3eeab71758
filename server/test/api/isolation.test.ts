import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type Drawn, Explorer, send } from '../support/explorer.ts';
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

// Two projects with two users each, and something of every kind in the first. Nobody else sees it, changes
// it, or learns that it is there: for every operation of the description. FAULT_SEED repeats a run.

const seed = newSeed();
let service: TestService;
let explorer: Explorer;
let owner: TestProject;
let stranger: TestProject;

/** Who is not the owner, by whose token an operation takes. */
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
    (operation) => operation.caller !== 'anybody' && !operation.streams && methods.includes(operation.method),
  );

/** Requests as they may be, and the one that the description shows: that one is taken. */
function samples(operation: Operation, number: number): Drawn[] {
  const drawn = fc.sample(explorer.requestsOf(operation), { numRuns: number, seed });
  if (operation.example === undefined) return drawn;
  return [{ path: drawn[0]?.path ?? {}, query: {}, body: operation.example }, ...drawn];
}

/** Something of every kind, the owner's: whatever can be saved, and what comes of it. */
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
  // What was made shows in the lists, also where its making did not tell the id.
  for (const operation of operations('GET'))
    await learnFrom(operation, { path: ids(operation), query: {}, body: undefined });
  for (const operation of operations('POST').filter(({ body }) => body !== undefined))
    for (const drawn of samples(operation, 3)) await learnFrom(operation, { ...drawn, path: ids(operation) });
  await settled();
  for (const operation of operations('GET'))
    await learnFrom(operation, { path: ids(operation), query: {}, body: undefined });
}

/** Nothing changes any more by itself; what the saved providers do not take is tried for a day. */
async function settled(): Promise<void> {
  await until(
    () => owner.call('GET', '/broadcasts?limit=100'),
    ({ body }) => body.data.every((one: { status: { status: string } }) => one.status.status !== 'enqueued'),
  );
}

async function learnFrom(operation: Operation, drawn: Drawn): Promise<void> {
  const answer = await send(ownerOf(operation), operation, drawn);
  if (answer.status < 300) explorer.learn(operation, answer);
}

/** Ids of the owner for the parameters of an operation's path. */
function ids(operation: Operation): Record<string, string> {
  return Object.fromEntries(
    operation.parameters
      .filter((one) => one.in === 'path')
      .map(({ name }) => [name, explorer.idsFor(operation, name)[0] ?? 'none']),
  );
}

/** All that the owner can read. */
async function everything(): Promise<Record<string, unknown>> {
  const seen: Record<string, unknown> = {};
  for (const operation of operations('GET')) {
    // What happens meanwhile is recorded and sent: events and webhooks do not stand still, and who asks is
    // seen.
    if (/^\/(events|users)|\/deliveries$/.test(operation.path)) continue;
    const answer = await send(ownerOf(operation), operation, {
      path: ids(operation),
      query: {},
      body: undefined,
    });
    seen[operation.id] = [answer.status, standing(answer.body)];
  }
  return seen;
}

/** Without what changes by itself: the example's webhook reaches nobody. */
function standing(body: unknown): unknown {
  const text = JSON.stringify(body, (key, value) => (key === 'failing_since' ? undefined : value));
  return text === undefined ? undefined : JSON.parse(text);
}

const isId = (text: string) => /^[0-9a-f-]{36}$/.test(text);

describe("what is one's own", () => {
  test('there is something of every kind to be found', () => {
    const lacking = operations('GET', 'DELETE')
      .filter((operation) => operation.path.includes('{'))
      .filter((operation) => Object.values(ids(operation)).includes('none'));
    expect(lacking.map(({ id }) => id)).toEqual([]);
  });

  test('is not there for anybody else, whatever they ask, and stays as it is', async () => {
    const before = await everything();
    for (const operation of operations('GET', 'POST', 'PUT', 'PATCH', 'DELETE')) {
      if (!operation.path.includes('{')) continue;
      for (const [name, call] of others[operation.caller as 'project' | 'user']) {
        const path = ids(operation);
        const [drawn] = samples(operation, 1);
        const answer = await send(call, operation, { path, query: {}, body: drawn?.body });
        const said = `${operation.id} by ${name} → ${answer.status} ${JSON.stringify(answer.body)}`;
        // Keys that people choose may be the other's own, too; an id is nobody's but its owner's.
        if (Object.values(path).every(isId)) expect(answer.status, said).toBe(404);
        else expect([200, 204, 404], said).toContain(answer.status);
      }
    }
    expect(await everything()).toEqual(before);
  });

  test('is not found by an id in the query', async () => {
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
            const answer = await send(call, operation, {
              path: {},
              query: { [name]: id },
              body: drawn?.body,
            });
            expect(answer.status, `${operation.id}?${name}=${id}`).toBeLessThan(500);
          }
    }
    expect(await everything()).toEqual(before);
  });

  test('is in no list of anybody else', async () => {
    const own = new Set(
      explorer.described.operations.flatMap((operation) => Object.values(ids(operation))).filter(isId),
    );
    expect(own.size).toBeGreaterThan(3);
    for (const operation of operations('GET').filter(({ path }) => !path.includes('{')))
      for (const [name, call] of others[operation.caller as 'project' | 'user']) {
        const answer = await send(call, operation, { path: {}, query: { limit: 100 }, body: undefined });
        const shown = JSON.stringify(answer.body ?? '');
        for (const id of own)
          expect(shown.includes(id), `${operation.id} by ${name} shows ${id}`).toBe(false);
      }
  });
});

/** The id of an integration stands in its list only. */
async function integrationId(operation: Operation): Promise<string> {
  if (!operation.path.startsWith('/integrations/')) return '';
  const { body } = await owner.call('GET', operation.path);
  return body?.data?.[0]?.id ?? '';
}
