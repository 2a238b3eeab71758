import { afterAll, beforeAll, beforeEach, expect, onTestFinished, test } from 'vitest';
import { sql } from '../../src/db/client.ts';
import { traced } from '../../src/lib/tracing.ts';
import { startHttpStandIn } from '../support/http-stand-in.ts';
import { type OtlpReceiver, type ReceivedSpan, startOtlpReceiver } from '../support/otlp-receiver.ts';
import { processed, startTestService, type TestService, until } from '../support/service.ts';
import { startWebhookReceiver } from '../support/webhook-receiver.ts';
import { ended } from '../support/workflows.ts';

const CALLER = 'b7ad6b7169203331';
const HOUR_MS = 3_600_000;

let receiver: OtlpReceiver;
let service: TestService;
let traces = 0;
let trace = '';
let traceparent = '';

beforeAll(async () => {
  receiver = await startOtlpReceiver();
  service = await startTestService({
    settings: {
      OTEL_EXPORTER_OTLP_ENDPOINT: receiver.address,
      OTEL_METRICS_EXPORTER: 'none',
      OTEL_BSP_SCHEDULE_DELAY: '10',
    },
  });
});
afterAll(async () => {
  await service?.stop();
  await receiver?.stop();
});
beforeEach(() => {
  traces += 1;
  trace = String(traces).padStart(32, '0');
  traceparent = `00-${trace}-${CALLER}-01`;
});

const spansOfTrace = () => receiver.spans.filter(({ traceId }) => traceId === trace);

/** Waits until the trace of this test has a span with this name, and returns all its spans. */
async function withSpan(name: string): Promise<ReceivedSpan[]> {
  await until(
    () => spansOfTrace().some((span) => span.name === name),
    (isThere) => isThere,
  );
  return spansOfTrace();
}

/** Waits for a span and those above it, which end later. Returns their names, from the caller down. */
async function pathTo(name: string): Promise<string[]> {
  const above = (span: ReceivedSpan | undefined): string[] => {
    if (span === undefined) return ['missing'];
    const parent = spansOfTrace().find(({ spanId }) => spanId === span.parentId);
    return span.parentId === CALLER ? [span.name] : [...above(parent), span.name];
  };
  return until(
    () => above(spansOfTrace().find((span) => span.name === name)),
    (names) => !names.includes('missing'),
  );
}

test('a workflow run continues the trace of the request that started it, over turns', async () => {
  const { call } = service.project;
  const host = await startHttpStandIn(() => ({ status: 200 }));
  onTestFinished(() => host.stop());
  await call('PUT', '/workflows', {
    key: 'flow',
    steps: [
      { command: 'http', input: { url: `${host.address}/secret-path` } },
      { command: 'broadcast', input: { title: 'Hello' } },
    ],
  });
  const input = { user: { external_id: 'zoe-of-shop' } };
  const { body } = await call('POST', '/workflows/runs', { key: 'flow', input }, { traceparent });
  await ended(service.project, body.id);
  const request = ['POST /v2/workflows/runs', 'run workflow'];
  expect(await pathTo('accept broadcast')).toEqual([...request, 'accept broadcast']);
  expect(await pathTo('POST')).toEqual([...request, 'POST']);
  const spans = spansOfTrace();
  expect(spans.find(({ name }) => name === 'POST')).toMatchObject({
    kind: 3,
    failed: false,
    attributes: { 'server.address': '127.0.0.1', 'http.response.status_code': 200 },
  });
  expect(JSON.stringify(spans)).not.toMatch(/zoe|secret|Hello/);
});

test('each page of an import is below the request', async () => {
  const { call } = service.project;
  const users = Array.from({ length: 2_001 }, (_none, at) => ({ external_id: `zoe-${at}` }));
  const { status } = await call('POST', '/users/import', { users }, { traceparent });
  expect(status).toBe(202);
  const pages = await until(
    () => spansOfTrace().filter(({ name }) => name === 'import users'),
    ({ length }) => length > 1,
  );
  expect(await pathTo('import users')).toEqual(['POST /v2/users/import', 'import users']);
  expect(new Set(pages.map(({ parentId }) => parentId)).size).toBe(1);
  expect(pages.map(({ attributes }) => attributes['belfry.page']).sort()).toEqual(pages.map((_, at) => at));
  expect(pages[0]?.attributes).toMatchObject({ 'messaging.operation.type': 'process' });
});

test('an in-app broadcast to a thousand users has three spans', async () => {
  const recipients = Array.from({ length: 1_000 }, (_none, at) => ({ external_id: `u${at}` }));
  const { call } = service.project;
  const { body } = await call('POST', '/broadcasts', { title: 'Hello', recipients }, { traceparent });
  await processed(call, body.id);
  await withSpan('POST /v2/broadcasts');
  const spans = await withSpan('fan out broadcast');
  expect(spans.map(({ name }) => name).sort()).toEqual([
    'POST /v2/broadcasts',
    'accept broadcast',
    'fan out broadcast',
  ]);
});

test.each([
  ['of the previous release', '{}'],
  ['with a broken one', '{"traceparent": "broken"}'],
])('a job without a trace context, %s, starts a trace', async (_of, replaced) => {
  const { call } = service.project;
  const { db } = service.context;
  const recipients = [{ external_id: 'zoe-of-shop' }];
  const send_at = new Date(Date.now() + HOUR_MS).toISOString();
  const { body } = await call(
    'POST',
    '/broadcasts',
    { title: 'Hello', recipients, send_at },
    { traceparent },
  );
  const changed = await db.query(
    sql(
      '',
      `update jobs set due_at = now(), payload = (payload::jsonb - 'traceparent' || $2::jsonb)::json
      where payload ->> 'broadcast_id' = $1 and payload ->> 'traceparent' like $3 returning id`,
    ),
    [body.id, replaced, `00-${trace}-%-01`],
  );
  expect(changed).toHaveLength(1);
  await processed(call, body.id);
  const isIt = ({ name, attributes }: ReceivedSpan) =>
    name === 'fan out broadcast' && attributes['belfry.broadcast.id'] === body.id;
  const span = await until(
    () => receiver.spans.find(isIt),
    (one) => one !== undefined,
  );
  expect(span?.parentId).toBe('');
  expect(span?.traceId).not.toBe(trace);
});

test('each request of one piece of work has a span, and those without a trace have none', async () => {
  const { transport } = service.context;
  const [ok, busy] = await Promise.all([200, 503].map((status) => startHttpStandIn(() => ({ status }))));
  onTestFinished(async () => void (await Promise.all([ok?.stop(), busy?.stop()])));
  const get = (address: string | undefined) =>
    transport.at(address ?? '').request({ method: 'GET', path: '/zoe?token=canary' });
  const parent = traceparent;
  await get(ok?.address);
  await traced('work', { parent }, async () => {
    await Promise.all([get(ok?.address), get(busy?.address), get('http://127.0.0.1:1')]);
  });
  const spans = await withSpan('work');
  const requests = spans.filter(({ name }) => name === 'GET');
  const portOf = (address = '') => Number(new URL(address).port);
  const results = requests.map(({ attributes: { 'server.port': port, ...attributes }, failed }) => [
    port,
    { status: attributes['http.response.status_code'], error: attributes['error.type'], failed },
  ]);
  expect(Object.fromEntries(results)).toEqual({
    [portOf(ok?.address)]: { status: 200, failed: false },
    [portOf(busy?.address)]: { status: 503, error: '503', failed: true },
    1: { error: 'ECONNREFUSED', failed: true },
  });
  expect(receiver.spans.filter(({ name }) => name === 'GET')).toHaveLength(requests.length);
  expect(JSON.stringify(spans)).not.toMatch(/zoe|canary/);
});

test('a message to a webhook is a trace with the response', async () => {
  const webhook = await startWebhookReceiver();
  onTestFinished(() => webhook.stop());
  webhook.reply(500);
  const project = await service.createProject('hooked');
  await project.call('PUT', '/webhooks', { url: webhook.url, event_types: ['user.updated'] });
  await project.call('PUT', '/users', { external_id: 'zoe-of-shop' });
  await project.call('PUT', '/users', { external_id: 'zoe-of-shop', email: 'zoe@example.com' });
  // Transactions of other tests delay webhooks: their events are read in the order of transactions.
  const [message] = await webhook.waitFor(1);
  const send = await until(
    () => receiver.spans.find(({ attributes }) => attributes['belfry.event.id'] === message?.id),
    (span) => span !== undefined,
  );
  expect(send).toMatchObject({
    name: 'send webhook',
    parentId: '',
    failed: true,
    attributes: { 'belfry.event.type': 'user.updated', 'error.type': '500' },
  });
  const below = await until(
    () => receiver.spans.filter(({ parentId }) => parentId === send?.spanId),
    (spans) => spans.length > 0,
  );
  expect(below.map(({ attributes }) => attributes['http.response.status_code'])).toEqual([500]);
});

test('a request whose client went away has a span that failed', async () => {
  const controller = new AbortController();
  const unfinished = new ReadableStream({
    start(stream) {
      stream.enqueue(Buffer.from('{"title":'));
    },
  });
  const { jwt } = service.project;
  const request = fetch(`${service.address}/v2/broadcasts`, {
    method: 'POST',
    headers: { authorization: `Bearer ${jwt}`, 'content-type': 'application/json', traceparent },
    body: unfinished,
    duplex: 'half',
    signal: controller.signal,
  } as RequestInit);
  await new Promise((resolve) => service.http.fastify.server.once('request', resolve));
  controller.abort();
  await expect(request).rejects.toThrow('aborted');
  const [span] = await withSpan('POST /v2/broadcasts');
  expect(span).toMatchObject({ failed: true, attributes: { 'error.type': 'aborted' } });
});
