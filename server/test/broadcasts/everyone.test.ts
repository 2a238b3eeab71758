import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import type { Recipient } from '../../src/contract/broadcast.ts';
import { sendBroadcast } from '../../src/domain/line/accept/send-broadcast.ts';
import { fanOutHandler } from '../../src/domain/line/fan-out/fan-out.ts';
import { insertCrowd } from '../support/crowd.ts';
import { processed, startTestService, type TestProject, type TestService } from '../support/service.ts';

const USERS = 2_300;

let service: TestService;
let project: TestProject;
let made = 0;

beforeAll(async () => {
  service = await startTestService({ pollMs: 50 });
});
afterAll(() => service?.stop());
beforeEach(async () => {
  made += 1;
  project = await service.createProject(`everyone ${made}`);
});

const everyone: Recipient = { matches: '*' };
const crowd = (of: TestProject, count: number) => insertCrowd(service, of, count, { categories: null });
/** Sends as version 1 of the API does, which validates by its own schema. */
const send = async (recipients: Recipient[], body: object = {}): Promise<string> =>
  (await sendBroadcast(service.http.context, project, { title: 'All', recipients, ...body }, { raw: {} })).id;
const reached = async (id: string) =>
  (
    await service.rows<{ external_id: string }>(
      'select external_id from notifications n join users u on u.id = n.user_id where n.broadcast_id = $1',
      [id],
    )
  ).map((row) => row.external_id);

test('every user of the project gets it once, with those that it creates, and no one else', async () => {
  await crowd(project, USERS);
  const other = await service.createProject(`other ${made}`);
  await crowd(other, 10);
  const named = [{ external_id: 'crowd-7' }, { external_id: 'new' }];
  for (const recipients of [[everyone], [everyone, ...named, everyone]]) {
    const id = await send(recipients);
    const total = recipients.length === 1 ? USERS : USERS + 1;
    const { status, recipients: shown } = await processed(project.call, id);
    expect(status).toEqual({
      status: 'processed',
      summary: { total, failures: 0, pending: 0 },
      errors: null,
    });
    expect(shown).toEqual(recipients);
    const users = await reached(id);
    expect([users.length, new Set(users).size]).toEqual([total, total]);
    const events = await project.call('GET', '/events?type=broadcast.processed&limit=1');
    expect(events.body.data[0].context.broadcast_id).toBe(id);
  }
});

test('deleted users are left out, and a project without users is processed at once', async () => {
  expect((await processed(project.call, await send([everyone]))).status.summary.total).toBe(0);
  await crowd(project, 3);
  const { body } = await project.call('GET', '/users');
  const [gone] = body.data;
  await project.call('DELETE', `/users/${gone.id}`);
  const id = await send([everyone]);
  await processed(project.call, id);
  expect(await reached(id)).toHaveLength(2);
  expect(await reached(id)).not.toContain(gone.external_id);
});

test('all users include the subscribers of the topic, whatever they chose', async () => {
  await crowd(project, 3);
  await project.as('crowd-1')('POST', '/subscriptions', { topic: 'news' });
  const id = await send([{ topic: { subscribers: true } }, everyone], { topic: 'news' });
  await processed(project.call, id);
  expect((await reached(id)).sort()).toEqual(['crowd-1', 'crowd-2', 'crowd-3']);
});

test('a broadcast without a topic is not processed while pages are left', async () => {
  await crowd(project, USERS);
  const id = await send([everyone]);
  // With a delivery that ends on the first page.
  const seen: string[] = [];
  for (let status = ''; status !== 'processed'; ) {
    const { body } = await project.call('GET', `/broadcasts/${id}`);
    status = body.status.status;
    seen.push(`${status} ${body.status.summary.total}`);
  }
  expect(seen.filter((one) => one.startsWith('processed'))).toEqual([`processed ${USERS}`]);
});

test('a page that fails because of a bug ends the broadcast, and reports the error', async () => {
  const id = await send([everyone]);
  await processed(project.call, id);
  await service.rows("update broadcasts set status = 'processing', awaited = 1 where id = $1", [id]);
  await service.rows(
    "insert into leases (id, node, expires_at) values ($1, 'test', now() + interval '1 hour')",
    [project.id],
  );
  const [job] = await service.rows<{ id: number }>(
    `insert into jobs (kind, project_id, lease_id, payload) values ('fan_out', $1, $1, '{}') returning id`,
    [project.id],
  );
  await fanOutHandler(service.context).discard(
    {
      id: job?.id ?? 0,
      kind: 'fan_out',
      projectId: project.id,
      partitionKey: project.id,
      priority: 2,
      weight: 1_000,
      attempt: 8,
      cutOffs: 0,
      payload: { broadcast_id: id, page: 1, everyone: true },
    },
    project.id,
    new Error('broken'),
  );
  expect((await project.call('GET', `/broadcasts/${id}`)).body.status.errors).toEqual([
    {
      message: expect.stringMatching(
        /^Not all users could be reached: internal error: the server failed in 8 attempts;/,
      ),
    },
  ]);
});

test('version 2 of the API rejects it', async () => {
  const { status, codes } = await project.call('POST', '/broadcasts', {
    title: 'All',
    recipients: [everyone],
  });
  expect([status, codes[0]]).toEqual([422, 'validation_failed']);
  const broadcast = { title: 'All', recipients: [everyone] };
  await expect(sendBroadcast(service.http.context, project, broadcast)).rejects.toThrow('recipients.0');
});
