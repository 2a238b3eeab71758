import { expect, onTestFinished, test } from 'vitest';
import { startSpan } from '../../src/lib/tracing.ts';
import { spansDropped } from '../../src/metrics.ts';
import { type OtlpReceiver, startOtlpReceiver } from '../support/otlp-receiver.ts';
import { processed, startTestService, until } from '../support/service.ts';

const spansOf = (receiver: OtlpReceiver) => () => receiver.spans.length;
const broadcast = { title: 'Hello', recipients: [{ external_id: 'ada' }] };

test('metrics of /metrics and spans reach the collector, with the headers of the settings', async () => {
  const receiver = await startOtlpReceiver();
  onTestFinished(() => receiver.stop());
  const service = await startTestService({
    settings: {
      OTEL_EXPORTER_OTLP_ENDPOINT: `${receiver.address}/`,
      OTEL_EXPORTER_OTLP_HEADERS: 'x-tenant=shop%201,x-signal=any',
      OTEL_EXPORTER_OTLP_TRACES_HEADERS: 'x-signal=traces',
      OTEL_EXPORTER_OTLP_METRICS_HEADERS: 'x-signal=metrics',
      OTEL_METRIC_EXPORT_INTERVAL: '2000', // also the limit of an export
      OTEL_BSP_SCHEDULE_DELAY: '600000',
    },
  });
  const { text } = await service.request('GET', '/metrics');
  const names = [...text.matchAll(/^# TYPE (\S+)/gm)].map(([, name]) => name);
  await until(
    () => receiver.metrics.length,
    (count) => count > 0,
  );
  expect((await service.project.call('POST', '/broadcasts', broadcast)).status).toBe(201);
  expect((await service.project.call('GET', `/broadcasts/${crypto.randomUUID()}`)).status).toBe(404);
  expect(receiver.spans).toEqual([]);
  await service.stop(); // sends what is left
  await until(spansOf(receiver), (count) => count >= 2);
  expect([...(receiver.metrics.at(-1)?.names ?? [])].sort()).toEqual(names.sort());
  for (const signal of ['traces', 'metrics'])
    expect(receiver.headers(`/v1/${signal}`)).toMatchObject({ 'x-tenant': 'shop 1', 'x-signal': signal });
  const requests = receiver.spans.filter(({ kind }) => kind === 2);
  expect(requests.map(({ name, parentId }) => [name, parentId])).toEqual([
    ['POST /v2/broadcasts', ''],
    ['GET /v2/broadcasts/:broadcast_id', ''],
  ]);
});

test('a collector that refuses is logged once, without its headers', async () => {
  const receiver = await startOtlpReceiver();
  onTestFinished(() => receiver.stop());
  receiver.reply(401);
  const service = await startTestService({
    settings: {
      OTEL_EXPORTER_OTLP_ENDPOINT: receiver.address,
      OTEL_EXPORTER_OTLP_HEADERS: 'authorization=Bearer%20canary',
      OTEL_METRICS_EXPORTER: 'none',
      OTEL_BSP_SCHEDULE_DELAY: '1',
    },
    logLevel: 'warn',
  });
  for (let number = 1; number <= 3; number += 1) {
    startSpan('work', {})?.end();
    await until(spansOf(receiver), (count) => count === number);
  }
  await service.stop();
  const { values } = await spansDropped.get();
  expect(values.find(({ labels }) => labels.reason === 'export_failed')?.value).toBeGreaterThanOrEqual(3);
  const warnings = service.logged.map((line) => JSON.parse(line)).filter(({ msg }) => /telemetry/.test(msg));
  expect(warnings).toMatchObject([
    { msg: 'telemetry could not be exported', reason: expect.stringContaining('Unauthorized') },
  ]);
  expect(service.logged.join()).not.toContain('canary');
});

test('lines of the log name the trace of their request', async () => {
  const receiver = await startOtlpReceiver();
  onTestFinished(() => receiver.stop());
  const service = await startTestService({
    settings: {
      PUBLIC_URL: 'https://push.example.com',
      OTEL_TRACES_EXPORTER: 'otlp',
      OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: `${receiver.address}/v1/traces`,
      OTEL_BSP_SCHEDULE_DELAY: '1',
    },
    logLevel: 'debug',
  });
  await service.project.call('GET', '/broadcasts/unknown');
  await until(spansOf(receiver), (count) => count > 0);
  await service.stop();
  const lines = service.logged.map((line) => JSON.parse(line)).filter(({ msg }) => msg === 'request');
  const [span] = receiver.spans;
  expect(span?.attributes).toMatchObject({ 'url.scheme': 'https' });
  expect(lines[0]).toMatchObject({ trace_id: span?.traceId, span_id: span?.spanId });
  expect(receiver.metrics).toEqual([]);
});

test('a sampled part is recorded, and a caller decides for its own trace', async () => {
  const receiver = await startOtlpReceiver();
  onTestFinished(() => receiver.stop());
  const service = await startTestService({
    settings: {
      OTEL_EXPORTER_OTLP_ENDPOINT: receiver.address,
      OTEL_METRICS_EXPORTER: 'none',
      OTEL_BSP_SCHEDULE_DELAY: '1',
      OTEL_TRACES_SAMPLER: 'parentbased_traceidratio',
      OTEL_TRACES_SAMPLER_ARG: '0',
    },
  });
  const read = (traceparent: string) =>
    service.project.call('GET', '/broadcasts/unknown', undefined, { traceparent });
  await read('');
  await read('00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00');
  await read('00-1af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01');
  await read('00-zaf7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01');
  await until(spansOf(receiver), (count) => count > 0);
  await service.stop();
  expect(receiver.spans.map(({ traceId }) => traceId)).toEqual(['1af7651916cd43dd8448eb211c80319c']);
});

test('wrong settings are named, and an unknown protocol is refused', async () => {
  const start = (settings: Record<string, string>) => startTestService({ settings });
  await expect(start({ OTEL_EXPORTER_OTLP_PROTOCOL: 'grpc' })).rejects.toThrow(
    'must be one of http/protobuf',
  );
  await expect(start({ OTEL_TRACES_SAMPLER_ARG: '2' })).rejects.toThrow('must be a number from 0 to 1');
  await expect(start({ OTEL_EXPORTER_OTLP_HEADERS: 'secret' })).rejects.toThrow('must be pairs separated');
  await expect(start({ OTEL_EXPORTER_OTLP_HEADERS: 'a=%zz' })).rejects.not.toThrow('%zz');
});

// The numbers of the SDK.
const BATCH = 512;
const QUEUE = 2_048;

// No export ends within the time of the test, so it fails if anything waits for one.
const PATIENT = { OTEL_EXPORTER_OTLP_TIMEOUT: '600000', OTEL_METRIC_EXPORT_INTERVAL: '600000' };

test('spans beyond 2,048 are dropped and counted while a collector hangs', async () => {
  const receiver = await startOtlpReceiver();
  onTestFinished(() => receiver.stop());
  const respond = receiver.hang();
  const service = await startTestService({
    settings: {
      OTEL_EXPORTER_OTLP_ENDPOINT: receiver.address,
      OTEL_METRICS_EXPORTER: 'none',
      OTEL_BSP_SCHEDULE_DELAY: '1',
      ...PATIENT,
    },
  });
  const before = await droppedSpans();
  for (let number = 0; number < 20_000; number += 1) startSpan('work', {})?.end();
  const dropped = (await droppedSpans()) - before;
  expect(dropped).toBeGreaterThanOrEqual(20_000 - BATCH - QUEUE);
  respond();
  // No other is dropped: the queue gets shorter from now on.
  const works = () => receiver.spans.filter(({ name }) => name === 'work').length;
  await until(works, (count) => count >= 20_000 - dropped);
  await service.stop();
  expect(works()).toBeLessThanOrEqual(BATCH + QUEUE);
});

async function droppedSpans(): Promise<number> {
  const { values } = await spansDropped.get();
  return values.find(({ labels }) => labels.reason === 'queue_full')?.value ?? 0;
}

// Last, because the SDK still retries for seconds, and reports its failures to the newest service
// of this process.
test.each(['hangs', 'is away'])(
  'nothing waits for a collector that %s',
  async (how) => {
    const receiver = await startOtlpReceiver();
    onTestFinished(() => receiver.stop());
    if (how === 'hangs') receiver.hang();
    else await receiver.stop();
    const service = await startTestService({
      settings: { OTEL_EXPORTER_OTLP_ENDPOINT: receiver.address, ...PATIENT },
    });
    for (let number = 0; number < 1_000; number += 1) startSpan('work', {})?.end();
    const { status, body } = await service.project.call('POST', '/broadcasts', broadcast);
    expect(status).toBe(201);
    await processed(service.project.call, body.id);
    await service.stop();
  },
  120_000,
);
