import { Ajv, type ValidateFunction } from 'ajv';
import addFormats from 'ajv-formats';
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { Explorer, type GeneratedRequest, send } from '../support/explorer.ts';
import { type Description, describedBy, type Operation } from '../support/operations.ts';
import { newSeed } from '../support/random.ts';
import { type ApiResponse, type Caller, startTestService, type TestService } from '../support/service.ts';

// Valid and invalid requests of every operation, generated from our API description. No response is a 5xx,
// each matches the description, invalid requests are rejected, and accepted records can be read back.
// FAULT_SEED repeats a run.

const VALID_RUNS = 25;
const BROKEN_RUNS = 25;

const seed = newSeed();
let service: TestService;
let described: Description;
let ajv: Ajv;
let explorer: Explorer;

beforeAll(async () => {
  console.info(`request fuzz: FAULT_SEED=${seed}`);
  service = await startTestService({ settings: { PUBLIC_URL: 'https://notify.example' } });
  const published = await fetch(`${service.address}/v2/openapi.json`);
  described = describedBy((await published.json()) as Record<string, unknown>);
  explorer = new Explorer(described);
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

function callerOf(operation: Operation): Caller {
  return operation.caller === 'project'
    ? service.project.call
    : service.project.as('fuzzed', { user_email: 'fuzzed@example.com' });
}

/** Checks a response against the description. */
function expectValid(operation: Operation, request: GeneratedRequest, response: ApiResponse): void {
  const sent = JSON.stringify(request).slice(0, 800);
  const received = JSON.stringify(response.body)?.slice(0, 600);
  const context = `${operation.id} ${sent} → ${response.status} ${received}`;
  expect(response.status, context).toBeLessThan(500);
  const unrouted = response.status === 404 || response.status === 405; // the path of another operation
  if (!unrouted) expect([...operation.replies.keys()], context).toContain(response.status);
  const schema = operation.replies.get(response.status);
  if (schema !== undefined && response.body !== undefined) {
    const check = validator(schema);
    expect(check(response.body) ? [] : check.errors, context).toEqual([]);
  }
  if (response.status >= 400)
    expect(response.body?.errors?.[0]?.message, context).toEqual(expect.any(String));
}

const fuzzed = (operation: Operation) => operation.caller !== 'public' && !operation.streams;

describe('generated requests', () => {
  test('that are valid are accepted or get a reason, and accepted records can be read back', async () => {
    // Writes come first, so that the reads find records.
    const order = ['PUT', 'POST', 'GET', 'PATCH', 'DELETE'];
    const operations = described.operations
      .filter(fuzzed)
      .toSorted((a, b) => order.indexOf(a.method) - order.indexOf(b.method));
    let accepted = 0;
    for (const operation of operations) {
      await fc.assert(
        fc.asyncProperty(explorer.requestsOf(operation), async (request) => {
          const response = await send(callerOf(operation), operation, request);
          expectValid(operation, request, response);
          if (response.status >= 300) return;
          accepted += 1;
          explorer.learn(operation, response);
          await readBack(operation, request, response);
        }),
        { seed, numRuns: VALID_RUNS, endOnFailure: true },
      );
    }
    expect(accepted).toBeGreaterThan(operations.length * 3);
  }, 300_000);

  test('that are invalid are rejected, and break nothing', async () => {
    let refused = 0;
    for (const operation of described.operations.filter(fuzzed)) {
      await fc.assert(
        fc.asyncProperty(explorer.requestsOf(operation, { broken: true }), async (request) => {
          const response = await send(callerOf(operation), operation, request);
          expectValid(operation, request, response);
          if (operation.body === undefined || validator(operation.body)(request.body)) return;
          // An import with invalid users is accepted, and lists them: see user-import.test.ts.
          if (operation.id === 'importUsers' && response.status === 202) return;
          refused += 1;
          // A broken path may be the path of another operation.
          expect(
            response.status,
            `${operation.id} took ${JSON.stringify(request.body).slice(0, 500)}`,
          ).toBeGreaterThanOrEqual(400);
        }),
        { seed, numRuns: BROKEN_RUNS, endOnFailure: true },
      );
    }
    expect(refused).toBeGreaterThan(50);
  }, 300_000);

  test('record events that match the webhooks of the description', async () => {
    const { webhooks } = described.document as { webhooks: Webhooks };
    const types = new Set<string>();
    let link: string | null = `${service.address}/v2/events?limit=100`;
    while (link !== null) {
      const { pathname, search } = new URL(link);
      const { body } = await service.project.call('GET', `${pathname.slice('/v2'.length)}${search}`);
      for (const data of body.data) {
        const { type, timestamp } = data;
        const check = validator(webhooks[type]?.post.requestBody.content['application/json'].schema ?? {});
        const problems = check({ type, timestamp, data }) ? [] : check.errors;
        expect(problems, JSON.stringify(data)).toEqual([]);
        if ('payload' in data) types.add(type);
      }
      link = body.links.next;
    }
    for (const type of ['preferences.updated', 'subscription.saved', 'category.saved', 'integration.saved'])
      expect(types).toContain(type);
  });

  test('every operation that saves records is read back', () => {
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

type Webhooks = Record<
  string,
  { post: { requestBody: { content: Record<'application/json', { schema: object }> } } }
>;

type ReadBack = (
  call: Caller,
  operation: Operation,
  request: GeneratedRequest,
  response: ApiResponse,
) => Promise<void>;

/** Reads back what an operation has saved, by its name. */
const READ_BACK: [RegExp, ReadBack][] = [
  [
    /^saveCategoryDeliveryConfig$/,
    async (call, _operation, _drawn, { body }) => {
      expect((await call('GET', `/channels/${encodeURIComponent(body.key)}`)).body).toEqual(body);
    },
  ],
  [
    /^saveUserPreferences$/,
    async (call, _operation, { body }) => {
      const { categories = [] } = body as {
        categories?: { key: string; channels?: { name: string; enabled: boolean }[] }[];
      };
      const { body: saved } = await call('GET', '/channels/user_preferences');
      for (const { key, channels = [] } of categories)
        for (const channel of channels)
          expect(saved.categories.find((one: { key: string }) => one.key === key)?.channels).toContainEqual(
            channel,
          );
    },
  ],
  [
    /^save((User)?DeliveryWindows|Tracking)$/,
    async (call, { path }, _drawn, { body }) => {
      expect((await call('GET', path)).body).toEqual(body);
    },
  ],
  [
    /^saveSubscription$/,
    async (call, _operation, _drawn, { body }) => {
      const read = await call('GET', '/subscriptions?limit=100');
      expect(read.body.data).toContainEqual(body);
    },
  ],
  [
    /^saveWebhook$/,
    async (call, _operation, _drawn, { body }) => {
      expect((await call('GET', `/webhooks/${body.id}`)).body).toEqual(body);
    },
  ],
  [
    /^saveSuppression$/,
    async (call, _operation, _drawn, { body }) => {
      expect((await call('GET', `/suppressions/${body.id}`)).body).toEqual(body);
      const address = encodeURIComponent(body.email ?? body.phone_number);
      expect((await call('GET', `/suppressions?query=${address}`)).body.data).toEqual([body]);
    },
  ],
  [
    /^saveInboxInstallation$/,
    async (call, _operation, _drawn, { body }) => {
      expect((await call('POST', '/integrations/inbox/installations/start')).body).toEqual(body);
    },
  ],
  [
    /^saveWebPushInstallation$/,
    async (call, _operation, _drawn, { body }) => {
      const { body: list } = await call('GET', '/channels/web_push/tokens?limit=100');
      expect(list.data).toContainEqual(expect.objectContaining(body));
    },
  ],
  [
    // No response contains the tokens, so only the existence of the record can be checked.
    /^saveSlack(bot)?Installation$/,
    async (_call, _operation, _drawn, { body }) => {
      const { body: list } = await service.project.call('GET', '/events?type=installation.saved&limit=100');
      expect(list.data.map((event: { payload: { id?: string } }) => event.payload.id)).toContain(body.id);
    },
  ],
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

async function readBack(
  operation: Operation,
  request: GeneratedRequest,
  response: ApiResponse,
): Promise<void> {
  for (const [pattern, read] of READ_BACK)
    if (pattern.test(operation.id)) await read(callerOf(operation), operation, request, response);
}
