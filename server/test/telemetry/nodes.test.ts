import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { type BelfryProcess, startBelfry } from '../support/belfry-process.ts';
import { createTestDatabase } from '../support/database.ts';
import { startOtlpReceiver } from '../support/otlp-receiver.ts';
import { startSendGridStandIn } from '../support/sendgrid-stand-in.ts';
import { processed, until } from '../support/service.ts';

const TRACE = '0af7651916cd43dd8448eb211c80319c';
const CALLER = 'b7ad6b7169203331';

test('one trace leads from a request at one node to the responses of a vendor at another', async () => {
  const receiver = await startOtlpReceiver();
  const from = { email: 'news@mg.example.com', name: 'News' };
  const vendor = await startSendGridStandIn({ apiKey: 'SG.canary', verified: [from.email] });
  const database = await createTestDatabase();
  const dataDir = await mkdtemp(join(tmpdir(), 'belfry-telemetry-'));
  onTestFinished(async () => {
    await Promise.all([receiver.stop(), vendor.stop(), database.drop()]);
    await rm(dataDir, { recursive: true, force: true });
  });
  const settings = {
    DATABASE_URL: database.url,
    PROVIDER_SENDGRID_BASE_URL: vendor.address,
    OTEL_EXPORTER_OTLP_ENDPOINT: receiver.address,
    OTEL_BSP_SCHEDULE_DELAY: '10',
    SHUTDOWN_GRACE_SECONDS: '60',
    OTEL_RESOURCE_ATTRIBUTES: 'deployment.environment.name=test%20site',
  };
  const api = await startBelfry(dataDir, { ...settings, ROLE: 'api,realtime' });
  onTestFinished(() => api.killTree());
  const worker = await startBelfry(dataDir, { ...settings, ROLE: 'worker', OTEL_SERVICE_NAME: 'sender' });
  onTestFinished(() => worker.killTree());
  const { call } = api;
  expect((await call('PUT', '/integrations/sendgrid', { api_key: 'SG.canary', from })).status).toBe(200);
  vendor.reply({ status: 429, headers: { 'retry-after': '1' }, body: {} });
  const broadcast = {
    title: 'Hello',
    recipients: [{ external_id: 'zoe-of-shop', email: 'zoe@example.com' }],
  };
  const sent = await call('POST', '/broadcasts', broadcast, { traceparent: `00-${TRACE}-${CALLER}-01` });
  expect(sent.status).toBe(201);
  await processed(call, sent.body.id);
  const ends = ['deliver email', 'deliver email', 'POST /v2/broadcasts'];
  await until(
    () => receiver.spans.filter(({ name, traceId }) => traceId === TRACE && ends.includes(name)).length,
    (count) => count === ends.length,
  );
  await Promise.all([api, worker].map(stopped));

  const spans = receiver.spans.filter(({ traceId }) => traceId === TRACE);
  const below = (parent: string, name: string) =>
    spans.filter((span) => span.name === name && span.parentId === parent);
  const [request] = below(CALLER, 'POST /v2/broadcasts');
  expect(request?.attributes).toMatchObject({
    'http.request.method': 'POST',
    'http.response.status_code': 201,
  });
  expect(request?.resource).toMatchObject({
    'service.name': 'belfry',
    'deployment.environment.name': 'test site',
  });
  const [accept] = below(request?.spanId ?? '', 'accept broadcast');
  const [fanOut] = below(accept?.spanId ?? '', 'fan out broadcast');
  expect(fanOut?.resource).toMatchObject({ 'service.name': 'sender' });
  expect(fanOut?.resource['service.instance.id']).not.toBe(accept?.resource['service.instance.id']);
  const attempts = below(fanOut?.spanId ?? '', 'deliver email').map((delivery) => {
    const [send] = below(delivery.spanId, 'send sendgrid');
    const [request] = below(send?.spanId ?? '', 'POST');
    return [delivery.attributes['belfry.attempt'], { ...send?.attributes, ...request?.attributes }];
  });
  expect(Object.fromEntries(attempts)).toMatchObject({
    1: { 'belfry.outcome': 'retry', 'http.response.status_code': 429, 'error.type': '429' },
    2: { 'belfry.outcome': 'sent', 'http.response.status_code': 202, 'server.address': '127.0.0.1' },
  });
  expect(JSON.stringify(receiver.spans)).not.toMatch(/zoe|canary|Hello/);
}, 400_000);

test('each process of a node exports on its own, and a collector that hangs does not keep them', async () => {
  const receiver = await startOtlpReceiver();
  const database = await createTestDatabase();
  const dataDir = await mkdtemp(join(tmpdir(), 'belfry-telemetry-'));
  onTestFinished(async () => {
    await Promise.all([receiver.stop(), database.drop()]);
    await rm(dataDir, { recursive: true, force: true });
  });
  const respond = receiver.hang();
  onTestFinished(respond);
  const node = await startBelfry(dataDir, {
    DATABASE_URL: database.url,
    PROCESSES: '2',
    SHUTDOWN_GRACE_SECONDS: '60',
    OTEL_EXPORTER_OTLP_ENDPOINT: receiver.address,
    OTEL_EXPORTER_OTLP_TIMEOUT: '600000',
    OTEL_METRIC_EXPORT_INTERVAL: '3000', // also the limit of an export
    OTEL_RESOURCE_ATTRIBUTES: 'service.instance.id=ours',
  });
  onTestFinished(() => node.killTree());
  const instances = () => new Set(receiver.metrics.map(({ resource }) => resource['service.instance.id']));
  await until(instances, ({ size }) => size === 2);
  await stopped(node);
  expect([...instances()]).not.toContain('ours');
  expect(instances().size).toBe(2);
}, 400_000);

async function stopped(node: BelfryProcess): Promise<void> {
  node.signal('SIGTERM');
  expect(await node.ended).toBe(0);
}
