import { Ajv, type ValidateFunction } from 'ajv';
import addFormats from 'ajv-formats';
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { isExternalId } from '../../src/lib/external-id.ts';
import { canonicalLocale } from '../../src/lib/locale.ts';
import { Explorer, examplesOf, type GeneratedRequest, send } from '../support/explorer.ts';
import { describedBy, type Operation, pathOf } from '../support/operations.ts';
import { newSeed } from '../support/random.ts';
import { rounds } from '../support/rounds.ts';
import { type ApiResponse, type Caller, startTestService, type TestService } from '../support/service.ts';

// Valid and invalid requests of every operation of v2 and v1, generated from the descriptions. No response is
// a 5xx, each matches its description, invalid requests are rejected, and accepted records can be read back.
// FAULT_SEED repeats a run.

// Requests of each kind for each operation.
const RUNS = rounds(5, 100);

const seed = newSeed();
let service: TestService;
let ajv: Ajv;

const VERSIONS = ['v2', 'v1'] as const;
type Version = (typeof VERSIONS)[number];
const explorers = {} as Record<Version, Explorer>;

beforeAll(async () => {
  console.info(`request fuzz: FAULT_SEED=${seed}`);
  service = await startTestService({ settings: { PUBLIC_URL: 'https://notify.example' } });
  const refuse = (problem: string) => {
    throw new Error(problem);
  };
  ajv = new Ajv({
    ...{ strict: false, allErrors: false, discriminator: false },
    logger: { log() {}, warn: refuse, error: refuse }, // it would ignore a format that it does not know
  });
  addFormats.default(ajv);
  for (const format of ['text', 'cursor', 'password']) ajv.addFormat(format, true);
  ajv.addFormat('external-id', isExternalId);
  ajv.addFormat('locale', (text: string) => canonicalLocale(text) !== undefined);
  for (const version of VERSIONS) {
    const published = await fetch(`${service.address}/${version}/openapi.json`);
    const described = describedBy((await published.json()) as Record<string, unknown>);
    explorers[version] = new Explorer(described);
    ajv.addSchema({ $id: version, ...described.document }, version);
  }
});
afterAll(() => service.stop());

const validators = new Map<unknown, ValidateFunction>();
function validator(version: Version, schema: object): ValidateFunction {
  const held = validators.get(schema);
  if (held !== undefined) return held;
  const text = JSON.stringify(schema).replaceAll('"#/', `"${version}#/`);
  const made = ajv.compile(JSON.parse(text) as object);
  validators.set(schema, made);
  return made;
}

function callerOf(version: Version, { caller }: Operation): Caller {
  const { project } = service;
  if (version === 'v1') return caller === 'project' ? project.v1 : project.v1As('fuzzed');
  return caller === 'project' ? project.call : project.as('fuzzed', { user_email: 'fuzzed@example.com' });
}

/** Checks a response against the description. */
function expectValid(
  version: Version,
  operation: Operation,
  request: GeneratedRequest,
  response: ApiResponse,
): void {
  const sent = JSON.stringify(request).slice(0, 800);
  const received = JSON.stringify(response.body)?.slice(0, 600);
  const context = `${operation.id} ${sent} → ${response.status} ${received}`;
  expect(response.status, context).toBeLessThan(500);
  const unrouted = response.status === 404 || response.status === 405; // the path of another operation
  if (!unrouted) expect([...operation.replies.keys()], context).toContain(response.status);
  const schema = operation.replies.get(response.status);
  if (schema !== undefined && response.body !== undefined) {
    const check = validator(version, schema);
    expect(check(response.body) ? [] : check.errors, context).toEqual([]);
  }
  if (response.status >= 400)
    expect(response.body?.errors?.[0]?.message, context).toEqual(expect.any(String));
}

const fuzzed = (operation: Operation) => operation.caller !== 'public' && !operation.streams;

describe.each(VERSIONS)('generated requests of %s', (version) => {
  const all = () => explorers[version].described.operations;

  test('that are valid are accepted or get a reason, and accepted records can be read back', async () => {
    // Writes come first, so that the reads find records.
    const order = ['PUT', 'POST', 'GET', 'PATCH', 'DELETE'];
    const operations = all()
      .filter(fuzzed)
      .toSorted((a, b) => order.indexOf(a.method) - order.indexOf(b.method));
    let accepted = 0;
    for (const operation of operations) {
      await fc.assert(
        fc.asyncProperty(explorers[version].requestsOf(operation), async (request) => {
          const response = await send(callerOf(version, operation), operation, request);
          expectValid(version, operation, request, response);
          if (response.status >= 300) return;
          accepted += 1;
          explorers[version].learn(operation, response);
          await readBack(callerOf(version, operation), operation, request, response);
        }),
        { seed, numRuns: RUNS, examples: examplesOf(operation).map((one) => [one]), endOnFailure: true },
      );
    }
    expect(accepted).toBeGreaterThan((operations.length * RUNS) / 8);
  });

  test('that are invalid are rejected, and break nothing', async () => {
    let refused = 0;
    for (const operation of all().filter(fuzzed)) {
      await fc.assert(
        fc.asyncProperty(explorers[version].requestsOf(operation, { broken: true }), async (request) => {
          const response = await send(callerOf(version, operation), operation, request);
          expectValid(version, operation, request, response);
          if (operation.body === undefined || validator(version, operation.body)(request.body)) return;
          if (request.body === null && operation.bodyIsOptional) return;
          // An import with invalid users is accepted, and lists them: see user-import.test.ts.
          if (/^(importUsers|createImportV1)$/.test(operation.id) && response.status < 300) return;
          refused += 1;
          // A broken path may be the path of another operation.
          expect(
            response.status,
            `${operation.id} took ${JSON.stringify(request.body).slice(0, 500)}`,
          ).toBeGreaterThanOrEqual(400);
        }),
        { seed, numRuns: RUNS, endOnFailure: true },
      );
    }
    expect(refused).toBeGreaterThan(50);
  });

  test('every operation that saves records is read back', () => {
    const saving = all().filter((operation) => fuzzed(operation) && operation.method === 'PUT');
    expect(
      saving
        .filter((operation) => READ_BACK.every(([pattern]) => !pattern.test(operation.id)))
        .map(({ id }) => id),
    ).toEqual([]);
  });
});

test('they record events that match the webhooks of the description', async () => {
  const { webhooks } = explorers.v2.described.document as unknown as { webhooks: Webhooks };
  const types = new Set<string>();
  let link: string | null = `${service.address}/v2/events?limit=100`;
  while (link !== null) {
    const { pathname, search } = new URL(link);
    const { body } = await service.project.call('GET', `${pathname.slice('/v2'.length)}${search}`);
    for (const data of body.data) {
      const { type, timestamp } = data;
      const check = validator(
        'v2',
        webhooks[type]?.post.requestBody.content['application/json'].schema ?? {},
      );
      const problems = check({ type, timestamp, data }) ? [] : check.errors;
      expect(problems, JSON.stringify(data)).toEqual([]);
      if ('payload' in data) types.add(type);
    }
    link = body.links.next;
  }
  for (const type of ['preferences.updated', 'subscription.saved', 'category.saved', 'integration.saved'])
    expect(types).toContain(type);
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
    /^saveWorkflow$/,
    async (call, _operation, _drawn, { body }) => {
      expect((await call('GET', `/workflows/${body.key}`)).body).toEqual(body);
    },
  ],
  [
    /^saveTemplate$/,
    async (call, _operation, _drawn, { body }) => {
      expect((await call('GET', `/templates/${body.key}`)).body).toEqual(body);
    },
  ],
  [
    /^saveCategoryDeliveryConfig$/,
    async (call, _operation, _drawn, { body }) => {
      expect((await call('GET', `/channels/${encodeURIComponent(body.key)}`)).body).toEqual(body);
    },
  ],
  [
    /^save(UserPreferences|PreferencesOfUser)$/,
    async (call, operation, { path, body }) => {
      const { categories = [] } = body as {
        categories?: { key: string; channels?: { name: string; enabled: boolean }[] }[];
      };
      const { body: saved } = await call('GET', pathOf(operation, path));
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
    /^saveProject$/,
    async (call, { path }, _drawn, { body }) => {
      expect((await call('GET', path)).body).toMatchObject(body);
    },
  ],
  [
    /^savePreferencesV1$/,
    async (call, { path }, _drawn, { body }) => {
      expect((await call('GET', path)).body).toEqual(body);
    },
  ],
  [
    /^(create|update)UserV1$/,
    async (call, _operation, _drawn, { body: { user } }) => {
      expect((await call('GET', `/users/${user.id}`)).body).toEqual({ user });
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
  call: Caller,
  operation: Operation,
  request: GeneratedRequest,
  response: ApiResponse,
): Promise<void> {
  for (const [pattern, read] of READ_BACK)
    if (pattern.test(operation.id)) await read(call, operation, request, response);
}
