import { once } from 'node:events';
import { createServer, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, beforeAll, expect, test } from 'vitest';
import {
  processed,
  startTestService,
  type TestProject,
  type TestService,
  until,
} from '../support/service.ts';

// A message of one project competes with the bulk of another, or with hanging providers. These tests check
// the order, not the time, which `npm run bench -- --only fairness` measures.

const BULK_BROADCASTS = 10;
const BULK_RECIPIENTS = 1_000;
const SINGLES = 5;
// A provider hangs for longer than any test waits.
const REPLY_MS = 600_000;
// With four messages each, they take all slots, and more connections to one host than one project may have.
const HANGING_PROJECTS = 12;
const HANGING_BULKS = 3;
const HANGING_MESSAGES = 4;

/** One host with a mailer for each project, addressed by its name. */
interface Mailers {
  address: string;
  /** Requests so far, by name. */
  requests: Map<string, number>;
  hang(name: string): void;
  /** Responds to all waiting requests, and no longer hangs. */
  release(): void;
  stop(): Promise<void>;
}

let mailers: Mailers;
let service: TestService;

beforeAll(async () => {
  mailers = await startMailers();
  service = await startTestService({ pollMs: 50, timeouts: { replyMs: REPLY_MS } });
});
afterAll(async () => {
  mailers?.release();
  await service?.stop();
  await mailers?.stop();
});

async function startMailers(): Promise<Mailers> {
  const requests = new Map<string, number>();
  const hanging = new Set<string>();
  const waiting: ServerResponse[] = [];
  const server = createServer((request, response) => {
    const name = request.url?.slice(1) ?? '';
    request.resume().on('end', () => {
      requests.set(name, (requests.get(name) ?? 0) + 1);
      if (hanging.has(name)) waiting.push(response);
      else response.writeHead(202).end('{}');
    });
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    address: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    requests,
    hang: (name) => void hanging.add(name),
    release() {
      hanging.clear();
      for (const response of waiting.splice(0)) response.writeHead(202).end('{}');
    },
    async stop() {
      server.closeAllConnections();
      server.close();
      await once(server, 'close');
    },
  };
}

/** A project with its own mailer. */
async function projectNamed(name: string): Promise<TestProject> {
  const project = await service.createProject(name);
  const saved = await project.call('PUT', '/integrations/ping_email', { url: `${mailers.address}/${name}` });
  expect(saved.status).toBe(200);
  return project;
}

async function send(project: TestProject, recipients: number, prefix = ''): Promise<string> {
  const { status, body } = await project.call('POST', '/broadcasts', {
    title: 'Hello',
    recipients: Array.from({ length: recipients }, (_none, index) => ({
      external_id: `${prefix}${index}`,
      email: `${prefix}${index}@example.com`,
    })),
  });
  expect([status, body.errors]).toEqual([201, undefined]);
  return body.id;
}

const requestsOf = (name: string) => mailers.requests.get(name) ?? 0;
const arrived = (name: string, count: number) =>
  until(
    () => requestsOf(name),
    (requests) => requests >= count,
  );

/** The e-mails of a project that no worker has started to send. */
async function unbegun({ id }: TestProject): Promise<number> {
  const [row] = await service.rows<{ left: number }>(
    `select coalesce(sum(json_array_length(payload::json -> 'user_ids')), 0)::int as left
      from jobs
      where project_id = $1 and kind = 'deliver' and lease_id is null`,
    [id],
  );
  return row?.left ?? 0;
}

test('single messages overtake the bulk of another project and of their own', async () => {
  const [bulky, other] = await Promise.all([projectNamed('bulky'), projectNamed('other')]);
  const all = BULK_BROADCASTS * BULK_RECIPIENTS;
  await Promise.all(
    Array.from({ length: BULK_BROADCASTS }, (_none, turn) => send(bulky, BULK_RECIPIENTS, `bulk-${turn}-`)),
  );
  const idle = await projectNamed('idle');
  // The fan-out, too: a part of the bulk is still in it.
  await send(idle, 1);
  await arrived('idle', 1);
  await until(
    () => unbegun(bulky),
    (left) => left > all / 2,
  );
  const lefts: number[] = [];
  for (let turn = 1; turn <= SINGLES; turn += 1) {
    await send(other, 1);
    await arrived('other', turn);
    lefts.push(await unbegun(bulky));
  }
  const own = await send(bulky, 1, 'own-');
  expect((await processed(bulky.call, own)).status.summary).toEqual({ total: 1, failures: 0, pending: 0 });
  lefts.push(await unbegun(bulky));
  console.log(`of ${all} e-mails, not started when each single one had arrived: ${lefts.join(', ')}`);
  expect(lefts[0]).toBeGreaterThan(all / 2);
  expect(lefts.at(-1)).toBeGreaterThan(all / 10);
  await arrived('bulky', 1);
  await until(
    () => requestsOf('bulky'),
    (requests) => requests === all + 1,
  );
});

test('a message is sent while the providers of many other projects hang at the same host', async () => {
  const other = await projectNamed('unharmed');
  const names = Array.from({ length: HANGING_PROJECTS }, (_none, index) => `hanging-${index}`);
  for (const name of names) mailers.hang(name);
  const hanging = await Promise.all(names.map(projectNamed));
  const bulks = await Promise.all(
    hanging.slice(0, HANGING_BULKS).map((project) => send(project, BULK_RECIPIENTS, 'bulk-')),
  );
  // One after the other: each is a batch of its own that never ends.
  const singles = await Promise.all(
    hanging.slice(HANGING_BULKS).map(async (project, index) => {
      const ids: string[] = [];
      for (let turn = 1; turn <= HANGING_MESSAGES; turn += 1) {
        ids.push(await send(project, 1, `single-${turn}-`));
        await arrived(names[HANGING_BULKS + index] ?? '', turn);
      }
      return ids;
    }),
  );
  await Promise.all(names.slice(0, HANGING_BULKS).map((name) => arrived(name, 1)));
  for (let turn = 1; turn <= SINGLES; turn += 1) {
    await send(other, 1);
    await arrived('unharmed', turn);
  }
  const ended = await service.rows(
    "select channel from deliveries where broadcast_id = any ($1) and state <> 'retrying'",
    [[...bulks, ...singles.flat()]],
  );
  expect(ended).toEqual([]);
  mailers.release();
  for (const [index, ids] of singles.entries())
    for (const id of ids) {
      const project = hanging[HANGING_BULKS + index] as TestProject;
      expect((await processed(project.call, id)).status.summary.failures).toBe(0);
    }
});

test('a message is sent on one channel while those of its project hang on another', async () => {
  mailers.hang('half');
  const half = await projectNamed('half');
  const webhook = { url: `${mailers.address}/teams-of-half` };
  expect((await half.call('PUT', '/integrations/teams', {})).status).toBe(200);
  const saved = await half.as('teams-user')('PUT', '/channels/teams/tokens', { webhook });
  expect(saved.status).toBe(200);
  const ids: string[] = [];
  for (let turn = 1; turn <= 2 * HANGING_MESSAGES; turn += 1) {
    ids.push(await send(half, 1, `mail-${turn}-`));
    await arrived('half', turn);
  }
  const recipients = [{ external_id: 'teams-user' }];
  const { body } = await half.call('POST', '/broadcasts', { title: 'Hello', recipients });
  expect((await processed(half.call, body.id)).status.summary).toEqual({ total: 1, failures: 0, pending: 0 });
  expect(requestsOf('teams-of-half')).toBe(1);
  expect(requestsOf('half')).toBe(2 * HANGING_MESSAGES);
  mailers.release();
  for (const id of ids) expect((await processed(half.call, id)).status.summary.failures).toBe(0);
});
