import { Ajv, type ValidateFunction } from 'ajv';
import addFormats from 'ajv-formats';
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { newId } from '../src/lib/ids.ts';
import { brokenValuesOf, valuesOf } from './support/arbitrary.ts';
import {
  type Description,
  describedBy,
  type Operation,
  type Parameter,
  pathOf,
} from './support/operations.ts';
import { newSeed } from './support/random.ts';
import { type Answer, type Caller, startTestService, type TestService } from './support/service.ts';

// Requests made from our own description, valid and broken, for every operation in it. Whatever comes: never a 5xx, every answer is
// what the description says, a broken request is refused, and what was accepted can be read back. FAULT_SEED repeats a run.

const VALID_RUNS = 25;
const BROKEN_RUNS = 25;

const seed = newSeed();
let service: TestService;
let described: Description;
let ajv: Ajv;
/** Ids that answers named, by the parameter that takes them: so that requests also meet what is there. */
const known = new Map<string, string[]>();

beforeAll(async () => {
  console.info(`request fuzz: FAULT_SEED=${seed}`);
  service = await startTestService();
  const published = await fetch(`${service.address}/v2/openapi.json`);
  described = describedBy((await published.json()) as Record<string, unknown>);
  ajv = new Ajv({ strict: false, allErrors: false, discriminator: false });
  addFormats.default(ajv);
  for (const format of ['text', 'cursor', 'password']) ajv.addFormat(format, true);
  ajv.addSchema({ $id: 'document', ...described.document }, 'document');
});
afterAll(() => service.stop());

const validators = new Map<unknown, ValidateFunction>();
function validator(schema: object): ValidateFunction {
  const held = validators.get(schema);
  if (held !== undefined) return held;
  const text = JSON.stringify(schema).replaceAll('"#/', '"document#/');
  const made = ajv.compile(JSON.parse(text) as object);
  validators.set(schema, made);
  return made;
}

/** A request with everything in it that the operation has a place for. */
interface Drawn {
  path: Record<string, string>;
  query: Record<string, unknown>;
  body: unknown;
}

function requestsOf(operation: Operation, broken: boolean): fc.Arbitrary<Drawn> {
  const { document } = described;
  const make = broken ? brokenValuesOf : valuesOf;
  const inPath = operation.parameters.filter((one) => one.in === 'path');
  const inQuery = operation.parameters.filter((one) => one.in === 'query');
  return fc.record({
    path: fc.record(Object.fromEntries(inPath.map((one) => [one.name, pathValues(operation, one, broken)]))),
    query: fc.record(
      Object.fromEntries(inQuery.map((one) => [one.name, make(document, one.schema)])),
      // Few at a time: nearly every filter together finds nothing.
      { requiredKeys: [] },
    ),
    body: operation.body === undefined ? fc.constant(undefined) : make(document, operation.body),
  }) as fc.Arbitrary<Drawn>;
}

function pathValues(
  operation: Operation,
  { name, schema }: Parameter,
  broken: boolean,
): fc.Arbitrary<string> {
  const unknown = broken
    ? fc
        .oneof(fc.string({ minLength: 1, maxLength: 50 }), fc.constantFrom('%', 'null', '0', '\0', 'é'))
        .filter(
          (text) => !/^\.\.?$/.test(text), // an address without it, to whoever makes the request
        )
    : (valuesOf(described.document, schema) as fc.Arbitrary<string>);
  const there = fc.nat().map((at) => {
    const ids = known.get(idName(operation, name)) ?? [];
    return ids[at % ids.length] ?? newId();
  });
  return fc.oneof({ arbitrary: there, weight: 3 }, unknown);
}

/** `token_id` is another thing in each collection, `user_id` the same everywhere. */
function idName(operation: Operation, name: string): string {
  return name === 'token_id'
    ? `${name} ${operation.path.replace(/^\/users\/\{user_id\}/, '').replace('/{token_id}', '')}`
    : name;
}

function learn(operation: Operation, answer: Answer): void {
  const records: unknown[] = Array.isArray(answer.body?.data) ? answer.body.data : [answer.body];
  const below = described.operations.filter(
    (other) =>
      other.path.startsWith(`${operation.path}/{`) &&
      other.path.split('/').length === operation.path.split('/').length + 1,
  );
  for (const other of below) {
    const name = /\{(\w+)\}$/.exec(other.path)?.[1];
    if (name === undefined) continue;
    const key = idName(other, name);
    for (const record of records as Record<string, unknown>[]) {
      const id = record?.id ?? record?.[name];
      if (typeof id === 'string') known.set(key, [...(known.get(key) ?? []).slice(-20), id]);
    }
  }
}

async function send(operation: Operation, { path, query, body }: Drawn): Promise<Answer> {
  const search = new URLSearchParams();
  for (const [name, value] of Object.entries(query))
    if (value !== null) search.append(name, typeof value === 'string' ? value : JSON.stringify(value));
  const call: Caller =
    operation.caller === 'project'
      ? service.project.call
      : service.project.as('fuzzed', { user_email: 'fuzzed@example.com' });
  const target = `${pathOf(operation, path)}${search.size > 0 ? `?${search}` : ''}`;
  return call(operation.method, target, body === undefined ? undefined : JSON.stringify(body));
}

/** What holds for every answer. */
function judge(operation: Operation, drawn: Drawn, answer: Answer): void {
  const said = `${operation.id} ${JSON.stringify(drawn).slice(0, 800)} → ${answer.status} ${JSON.stringify(answer.body)?.slice(0, 600)}`;
  expect(answer.status, said).toBeLessThan(500);
  const unrouted = answer.status === 404 || answer.status === 405; // a path that leads elsewhere
  if (!unrouted) expect([...operation.replies.keys()], said).toContain(answer.status);
  const schema = operation.replies.get(answer.status);
  if (schema !== undefined && answer.body !== undefined) {
    const check = validator(schema);
    expect(check(answer.body) ? [] : check.errors, said).toEqual([]);
  }
  if (answer.status >= 400) expect(answer.body?.errors?.[0]?.message, said).toEqual(expect.any(String));
}

const fuzzed = (operation: Operation) => operation.caller !== 'anybody' && !operation.streams;

describe('requests made from the description', () => {
  test('that are valid are taken or refused with a reason, and what was accepted can be read back', async () => {
    // Writes first: so the reads meet what they wrote.
    const order = ['PUT', 'POST', 'GET', 'PATCH', 'DELETE'];
    const operations = described.operations
      .filter(fuzzed)
      .toSorted((a, b) => order.indexOf(a.method) - order.indexOf(b.method));
    let accepted = 0;
    for (const operation of operations) {
      await fc.assert(
        fc.asyncProperty(requestsOf(operation, false), async (drawn) => {
          const answer = await send(operation, drawn);
          judge(operation, drawn, answer);
          if (answer.status >= 300) return;
          accepted += 1;
          learn(operation, answer);
          await readBack(operation, drawn, answer);
        }),
        { seed, numRuns: VALID_RUNS, endOnFailure: true },
      );
    }
    expect(accepted).toBeGreaterThan(operations.length * 3);
  }, 300_000);

  test('that are broken are refused where the description forbids them, and break nothing', async () => {
    let refused = 0;
    for (const operation of described.operations.filter(fuzzed)) {
      await fc.assert(
        fc.asyncProperty(requestsOf(operation, true), async (drawn) => {
          const answer = await send(operation, drawn);
          judge(operation, drawn, answer);
          if (operation.body === undefined || validator(operation.body)(drawn.body)) return;
          refused += 1;
          // Answers of another operation are possible where the path was broken, too.
          expect(
            answer.status,
            `${operation.id} took ${JSON.stringify(drawn.body).slice(0, 500)}`,
          ).toBeGreaterThanOrEqual(400);
        }),
        { seed, numRuns: BROKEN_RUNS, endOnFailure: true },
      );
    }
    expect(refused).toBeGreaterThan(50);
  }, 300_000);

  test('every operation that saves something is read back', () => {
    const saving = described.operations.filter(
      (operation) => fuzzed(operation) && operation.method === 'PUT',
    );
    expect(
      saving
        .filter((operation) => READ_BACK.every(([pattern]) => !pattern.test(operation.id)))
        .map(({ id }) => id),
    ).toEqual([]);
  });
});

type ReadBack = (call: Caller, operation: Operation, drawn: Drawn, answer: Answer) => Promise<void>;

/** How what an operation accepted is read again, by its name. */
const READ_BACK: [RegExp, ReadBack][] = [
  [
    /^createBroadcast$/,
    async (call, _operation, _drawn, { body }) => {
      const { status: _status, ...sent } = body;
      expect((await call('GET', `/broadcasts/${body.id}`)).body).toMatchObject(sent);
    },
  ],
  [
    /^saveUser$/,
    async (call, _operation, _drawn, { body }) => {
      const { last_notified_at: _notified, last_seen_at: _seen, ...user } = body;
      expect((await call('GET', `/users/${body.id}`)).body).toMatchObject(user);
    },
  ],
  [
    /^save\w+(Token|Integration)$/,
    async (call, operation, _drawn, { body }) => {
      const { body: list } = await call('GET', operation.path);
      const shown = list.data.map((record: { config?: unknown }) => record.config ?? record);
      expect(shown).toContainEqual(expect.objectContaining(body));
    },
  ],
];

async function readBack(operation: Operation, drawn: Drawn, answer: Answer): Promise<void> {
  const call: Caller = operation.caller === 'project' ? service.project.call : service.project.as('fuzzed');
  for (const [pattern, read] of READ_BACK)
    if (pattern.test(operation.id)) await read(call, operation, drawn, answer);
}
