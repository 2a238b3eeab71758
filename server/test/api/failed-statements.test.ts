import { randomBytes } from 'node:crypto';
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, inject, onTestFinished, test } from 'vitest';
import { newId } from '../../src/lib/ids.ts';
import { createTestDatabase } from '../support/database.ts';
import { Explorer, type GeneratedRequest, send } from '../support/explorer.ts';
import { describedBy, type Operation } from '../support/operations.ts';
import { newSeed, randomFrom } from '../support/random.ts';
import { openStream } from '../support/realtime.ts';
import { unlessThorough } from '../support/rounds.ts';
import { SentStatements } from '../support/sent-statements.ts';
import {
  type ApiResponse,
  type Caller,
  startTestService,
  type TestService,
  until,
} from '../support/service.ts';
import { startTcpProxy, type TcpProxy } from '../support/tcp-proxy.ts';

// An operation is requested while its first statement breaks the connection to the database, then its second
// one, and so on, until it has no more. The request gets a 503 or the response that it gets without the
// fault, and no promise rejects that nothing awaits: Node would end the server. With THOROUGH=1 these are all
// operations of v2 and v1, otherwise some of them, others in each run.

const VERSIONS = ['v2', 'v1'] as const;
type Version = (typeof VERSIONS)[number];
const MOST_STATEMENTS = 60;
/** The part of the requests that is repeated with faults. */
const SHARE = unlessThorough(0.3, 1);
const THOROUGH = unlessThorough(0, 1) === 1;

const seed = newSeed();
const random = randomFrom(seed);

let database: Awaited<ReturnType<typeof createTestDatabase>>;
let proxy: TcpProxy;
let service: TestService;
const explorers = {} as Record<Version, Explorer>;

/** Errors that nothing handled, with the request that was under way: the cause may be the one before it. */
const unhandled: string[] = [];
let underWay = '';
const note = (error: unknown) => unhandled.push(`${underWay}: ${error}`);

/** How many statements pass before one breaks its connection. */
let passing = Number.POSITIVE_INFINITY;
let hasBroken = false;
/** The name of the statement whose response is lost; it has its effect. */
let losing: string | undefined;

beforeAll(async () => {
  database = await createTestDatabase();
  const { host, port } = inject('testServer');
  proxy = await startTcpProxy({ path: `${host}/.s.PGSQL.${port}` });
  const connections = new WeakMap<object, SentStatements>();
  const losesNext = new WeakSet<object>();
  proxy.onRequest = (bytes, connection) => {
    const sent = connections.get(connection) ?? new SentStatements();
    connections.set(connection, sent);
    if (losing !== undefined && bytes.includes(losing)) {
      losing = undefined;
      losesNext.add(connection);
    }
    passing -= sent.add(bytes).length;
    if (hasBroken || passing >= 0) return true; // at most one for each request
    hasBroken = true;
    connection.destroy();
    return false;
  };
  proxy.onReply = (_bytes, connection) => {
    if (!losesNext.has(connection)) return true;
    connection.destroy();
    return false;
  };
  service = await startTestService({
    settings: {
      DATABASE_URL: `postgres://belfry@127.0.0.1:${proxy.port}/${database.connection.database}`,
      SECRET_KEY: randomBytes(32).toString('hex'),
      PUBLIC_URL: 'https://notify.example',
      ROLE: 'api,realtime', // the statements of a worker would come in between
    },
  });
  for (const version of VERSIONS) {
    const published = await fetch(`${service.address}/${version}/openapi.json`);
    explorers[version] = new Explorer(describedBy((await published.json()) as Record<string, unknown>));
  }
  process.on('unhandledRejection', note);
  process.on('uncaughtException', note);
});
afterAll(async () => {
  process.off('unhandledRejection', note);
  process.off('uncaughtException', note);
  await service.stop();
  await proxy.close();
  await database.drop();
});

function callerOf(version: Version, { caller }: Operation): Caller {
  const { project } = service;
  if (version === 'v1') return caller === 'project' ? project.v1 : project.v1As('ada');
  if (caller === 'public')
    return (method, path, body) => service.request(method, `/v2${path}`, { raw: String(body ?? '') });
  return caller === 'project' ? project.call : project.as('ada', { user_email: 'ada@example.com' });
}

/** A request that finds a record if one is known, and others that are rejected after or during look-ups. */
function requestsOf(explorer: Explorer, operation: Operation): GeneratedRequest[] {
  const generated = fc.sample(explorer.requestsOf(operation), { seed, numRuns: 1 })[0];
  const body = operation.example ?? generated?.body;
  const inPath = operation.parameters.filter((one) => one.in === 'path');
  const path = (known: boolean) =>
    Object.fromEntries(
      inPath.map(({ name }) => [name, (known && explorer.idsFor(operation, name).at(-1)) || newId()]),
    );
  const cursors = operation.parameters.filter(({ name }) => /^(starting_after|ending_before)$/.test(name));
  const requests: GeneratedRequest[] = [{ path: path(true), query: {}, body }];
  // Two cursors cannot be combined, which a handler may find while it looks an unknown record up.
  if (inPath.length > 0 || cursors.length > 0)
    requests.push({
      path: path(false),
      query: Object.fromEntries(cursors.map(({ name }) => [name, newId()])),
      body,
    });
  return requests;
}

/** Sends the request while its statement with this number breaks. */
async function whileBreaking(
  number: number,
  request: () => Promise<ApiResponse>,
): Promise<{ response: ApiResponse | undefined; broke: boolean }> {
  // As after a while, nothing is in a cache. Takes twice as long.
  if (THOROUGH) service.context.bus.publish({ type: 'project_changed', projectId: service.project.id });
  [passing, hasBroken] = [number, false];
  try {
    // A stream that has begun can only be cut off.
    const response = await request().catch((error: unknown) => {
      if (!hasBroken || !/terminated/.test(String(error))) throw error;
      return undefined;
    });
    // A statement that nothing awaits may arrive after the response.
    if (!hasBroken) await fetch(`${service.address}/healthz`);
    return { response, broke: hasBroken };
  } finally {
    passing = Number.POSITIVE_INFINITY;
  }
}

describe.each(VERSIONS)('each operation of %s', (version) => {
  test('survives each of its statements that breaks', async () => {
    const explorer = explorers[version];
    const order = ['PUT', 'POST', 'GET', 'PATCH', 'DELETE'];
    const operations = explorer.described.operations
      .filter(({ streams }) => !streams)
      .toSorted((a, b) => order.indexOf(a.method) - order.indexOf(b.method));
    let broken = 0;
    for (const operation of operations)
      for (const request of requestsOf(explorer, operation))
        for (let number = random() < SHARE ? 0 : MOST_STATEMENTS; ; number += 1) {
          underWay = `${operation.id} ${JSON.stringify(request.query)}, statement ${number}`;
          expect(number, underWay).toBeLessThanOrEqual(MOST_STATEMENTS);
          const { response, broke } = await whileBreaking(number, () =>
            send(callerOf(version, operation), operation, request),
          );
          if (response?.status !== 503)
            expect(response?.status ?? 0, `${underWay}: ${response?.text}`).toBeLessThan(500);
          broken += broke ? 1 : 0;
          if (broke || response === undefined) continue;
          expect(response.status, underWay).not.toBe(503);
          explorer.learn(operation, response);
          break;
        }
    console.info(
      `${operations.length} operations of ${version}, ${broken} broken statements (FAULT_SEED=${seed})`,
    );
    expect(broken).toBeGreaterThan((SHARE * operations.length) / 2);
    expect(unhandled).toEqual([]);
  });
});

test('a change whose response is lost reaches the other tabs of the user', async () => {
  const { address } = service;
  const project = await service.createProject('of two tabs');
  const tab = project.as('tabs');
  const sent = { title: 'In two tabs', recipients: [{ external_id: 'tabs' }] };
  // Without a worker, only users get it that the node knows, and lost responses make it forget them.
  const { body } = await until(
    async () => {
      const { body: before } = await tab('GET', '/notifications');
      if (before.data.length === 0) await project.call('POST', '/broadcasts', sent);
      return tab('GET', '/notifications');
    },
    (listed) => listed.body.data.length > 0,
  );
  const [{ id }] = body.data;
  const jwt = project.userJwt({ user_external_id: 'tabs' });
  const stream = await openStream(`${address}/v2/notifications/stream`, { jwt });
  onTestFinished(() => stream.source.close());
  losing = 'read_notification';
  expect((await tab('POST', `/notifications/${id}/read`)).status).toBe(503);
  await expect
    .poll(() => stream.frames)
    .toContainEqual(expect.objectContaining({ name: 'notifications/read' }));
});
