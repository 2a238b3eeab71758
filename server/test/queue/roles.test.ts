import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { connect as connectTo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type Service, startService } from '../../src/app.ts';
import { type Role, readConfig } from '../../src/config.ts';
import { newId } from '../../src/lib/ids.ts';
import { createLogger } from '../../src/lib/log.ts';
import { belfry, Output, runCommand } from '../support/cli.ts';
import { saveSmtp } from '../support/faults.ts';
import { openSocket, openStream, openStreamSocket, Refused, titles } from '../support/realtime.ts';
import { processed, startTestService, type TestService, until } from '../support/service.ts';
import { type SmtpStandIn, startSmtpStandIn } from '../support/smtp-stand-in.ts';
import { startWebhookReceiver, type WebhookReceiver } from '../support/webhook-receiver.ts';
import { ended, inState, STATE, startRun } from '../support/workflows.ts';

// Three nodes on one database, each with one role. They poll so rarely that a test which needs a poll times
// out: everything here was announced by a message.
const NEVER_MS = 3_600_000;

let api: TestService;
let worker: Service;
let realtime: Service;
let smtp: SmtpStandIn;
let receiver: WebhookReceiver;

beforeAll(async () => {
  smtp = await startSmtpStandIn();
  receiver = await startWebhookReceiver();
  api = await startTestService({ settings: { ROLE: 'api' }, pollMs: NEVER_MS });
  const { config, log } = api.context;
  const start = (role: Role) => startService({ ...config, ROLE: [role] }, { log, pollMs: NEVER_MS });
  worker = await start('worker');
  realtime = await start('realtime');
});
afterAll(async () => {
  await Promise.all([worker?.stop(), realtime?.stop()]);
  await Promise.all([api?.stop(), smtp?.stop(), receiver?.stop()]);
});

async function send(title: string, name: string, more: object = {}): Promise<string> {
  const recipients = [{ external_id: name, email: `${name}@example.com` }];
  const { status, body } = await api.project.call('POST', '/broadcasts', { title, recipients, ...more });
  expect(status).toBe(201);
  return body.id;
}

/** Opens the three kinds of realtime connections of a user. */
async function connect(name: string) {
  const jwt = api.project.userJwt({ user_external_id: name });
  const token = randomUUID().repeat(2);
  await api.project.as(name)('PUT', '/channels/in_app/inbox/tokens', { token });
  const parameters = { api_key: api.project.apiKey, token };
  const address = `${realtime.address.replace('http', 'ws')}/?${new URLSearchParams(parameters)}`;
  const clients = [
    await openSocket(address),
    await openStreamSocket(realtime.address, { jwt }),
    await openStream(`${realtime.address}/v2/notifications/stream`, { jwt }),
  ];
  return {
    clients,
    close() {
      for (const client of clients) ('socket' in client ? client.socket : client.source).close();
    },
  };
}

test('a broadcast reaches connections to another node, for new and for known users', async () => {
  const { clients, close } = await connect('ada');
  await send('First', 'ada');
  for (const { frames } of clients) await expect.poll(() => titles(frames)).toEqual(['First']);
  await send('Second', 'ada');
  for (const { frames } of clients) await expect.poll(() => titles(frames)).toEqual(['First', 'Second']);
  close();
});

test('deliveries, their replay and webhooks are done by the worker at once', async () => {
  const { project } = api;
  await saveSmtp(project, smtp);
  await project.call('PUT', '/webhooks', {
    url: receiver.url,
    event_types: ['delivery.failed', 'broadcast.*'],
  });
  smtp.fail({ at: 'end', how: { reply: '554 5.7.1 Rejected as spam' }, times: 1 });
  const id = await send('By e-mail', 'bob');
  await until(
    async () => (await project.call('GET', `/broadcasts/${id}`)).body.status.summary.failures,
    (failures) => failures === 1,
  );
  const replayed = await project.call('POST', `/broadcasts/${id}/deliveries/replay`, {});
  expect(replayed.body).toEqual({ replayed: 1 });
  await smtp.waitFor(1);
  expect((await processed(project.call, id)).status.summary.failures).toBe(0);
  await expect
    .poll(() => receiver.received.map(({ body }) => body.type))
    .toEqual(expect.arrayContaining(['delivery.failed', 'broadcast.processed']));
  const { body } = await project.call('GET', '/webhooks');
  const webhookId = body.data[0].id;
  const eventId = receiver.received[0]?.id;
  await project.call('POST', `/webhooks/${webhookId}/replay`, { event_id: eventId });
  await expect.poll(() => receiver.received.filter(({ id }) => id === eventId)).toHaveLength(2);
});

test('a cancelled broadcast ends at once', async () => {
  const id = await send('Later', 'cleo', { send_at: new Date(Date.now() + 86_400_000).toISOString() });
  expect((await api.project.call('POST', `/broadcasts/${id}/cancel`)).status).toBe(200);
  expect((await processed(api.project.call, id)).status.summary.pending).toBe(0);
});

test('runs of workflows start, continue after an event and are resumed', async () => {
  const { project } = api;
  const id = await startRun(project, [
    { command: 'wait_for', input: { event: 'paid', timeout: 3_600 } },
    { command: 'pause' },
  ]);
  await inState(project, id, STATE.waiting);
  await project.call('POST', '/workflows/events', { name: 'paid' });
  await until(
    async () => (await project.call('POST', `/workflows/runs/${id}/resume`)).status,
    (status) => status === 200,
  );
  expect((await ended(project, id)).status.state).toBe(STATE.completed);
});

test('every node serves its state, and rejects what it has no role for', async () => {
  for (const { address } of [api, worker, realtime])
    for (const path of ['/healthz', '/readyz', '/metrics'])
      expect((await fetch(`${address}${path}`)).status).toBe(200);
  const headers = { authorization: `Bearer ${api.project.jwt}` };
  for (const { address } of [worker, realtime])
    for (const path of ['/v2/broadcasts', '/service-v1/broadcasts', '/docs', '/']) {
      const response = await fetch(`${address}${path}`, { headers });
      expect(response.status).toBe(404);
    }
  // What a node with the role does not have is another case.
  const unknown = await fetch(`${api.address}/v2/broadcasts/${newId()}`, { headers });
  expect([unknown.status, unknown.headers.get('missing-role')]).toEqual([404, null]);
  // Also with a method that the path does not have.
  for (const method of ['GET', 'PUT', 'OPTIONS']) {
    const rejected = await fetch(`${worker.address}/v2/broadcasts`, { method, headers });
    expect([rejected.status, rejected.headers.get('missing-role')]).toEqual([404, 'api']);
    expect(await rejected.json()).toMatchObject({
      errors: [{ message: 'This node does not have the role api; send this to one that has' }],
    });
  }
  for (const { address } of [api, worker]) {
    const jwt = api.project.userJwt({ user_external_id: 'ada' });
    const stream = await fetch(`${address}/v2/notifications/stream`, {
      headers: { authorization: `Bearer ${jwt}` },
    });
    expect([stream.status, stream.headers.get('missing-role')]).toEqual([404, 'realtime']);
    await expect(openStreamSocket(address, { jwt })).rejects.toEqual(new Refused(404));
    await expect(openSocket(`${address.replace('http', 'ws')}/`)).rejects.toEqual(new Refused(404));
  }
});

test('clients that break their connection during an upgrade do no harm', async () => {
  const { hostname, port } = new URL(worker.address);
  const request = 'GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n';
  for (let count = 0; count < 50; count += 1) {
    const socket = connectTo(Number(port), hostname);
    socket.write(request, () => socket.resetAndDestroy());
    await once(socket, 'close');
  }
  expect((await fetch(`${worker.address}/healthz`)).status).toBe(200);
});

test('only a node with the role api writes credentials', () => {
  expect([worker.credentials, realtime.credentials]).toEqual([undefined, undefined]);
});

test('unknown roles are all named, and the embedded database needs every role', async () => {
  expect(() => readConfig({ ROLE: 'apo,worker,socket' })).toThrow(
    "ROLE 'apo,worker,socket' has 'apo' and 'socket'",
  );
  expect(readConfig({ ROLE: 'realtime, api,api' }).ROLE).toEqual(['api', 'realtime']);
  expect(readConfig({ ROLE: 'worker' }, { ROLE: 'api' }).ROLE).toEqual(['api']);
  const config = readConfig({ ROLE: 'api,worker', DATA_DIR: `/tmp/belfry-${newId()}` });
  await expect(startService(config, { log: createLogger({ level: 'silent' }) })).rejects.toThrow(
    /^ROLE api,worker needs DATABASE_URL/,
  );
});

test('listen shows the stream of a node with the role realtime, and says where there is none', async () => {
  const jwt = api.project.userJwt({ user_external_id: 'lena' });
  const settings = { DATA_DIR: join(tmpdir(), `belfry-roles-${randomUUID()}`) };
  const refused = await runCommand(['listen', 'lena', '--url', api.address, '--jwt', jwt], settings);
  expect(refused).toEqual({
    code: 1,
    out: '',
    err:
      `belfry: the node at ${api.address} does not have the role realtime: use --url with the address of ` +
      'one that has, or of the proxy before all nodes\n',
  });
  const status = ['status', newId(), '--url', realtime.address, '--jwt', api.project.jwt];
  expect((await runCommand(status, settings)).err).toMatch(/does not have the role api: use --url/);
  const child = belfry(['listen', 'lena', '--url', realtime.address, '--jwt', jwt], settings);
  const [out, err] = [new Output(child, 'stdout'), new Output(child, 'stderr')];
  try {
    await err.until(/listening/);
    expect(err.text).toContain('this node does not have the role api');
    await send('Short', 'lena');
    await out.until(/ {2}Short\n/);
    await send('Long', 'lena', { content: 'x'.repeat(100_000) });
    await out.until(/ {2}[0-9a-f-]{36} \(too long for the stream\)\n/);
  } finally {
    const closed = once(child, 'close');
    child.kill('SIGINT');
    expect(await closed).toEqual([0, null]);
  }
});
