import {
  createNoopMeter,
  diag,
  type MeterProvider as Meters,
  ROOT_CONTEXT,
  type SpanContext,
  SpanKind,
  SpanStatusCode,
  type Tracer,
  trace,
} from '@opentelemetry/api';
import { parseTraceParent, setGlobalErrorHandler } from '@opentelemetry/core';
import { OTLPMetricExporter } from '@opentelemetry/exporter-metrics-otlp-proto';
import { OTLPTraceExporter } from '@opentelemetry/exporter-trace-otlp-proto';
import { type Resource, resourceFromAttributes } from '@opentelemetry/resources';
import { MeterProvider, PeriodicExportingMetricReader } from '@opentelemetry/sdk-metrics';
import {
  AlwaysOffSampler,
  AlwaysOnSampler,
  BatchSpanProcessor,
  ParentBasedSampler,
  type Sampler,
  TraceIdRatioBasedSampler,
  TracerProvider,
} from '@opentelemetry/sdk-trace';
import { type Config, type OtlpTarget, telemetryOf } from '../config.ts';
import type { Logger } from '../lib/log.ts';
import { recordSpans, type Span, type StartSpan } from '../lib/tracing.ts';
import { VERSION } from '../lib/version.ts';
import { waitAtMost } from '../lib/wait.ts';
import { spansDropped } from '../metrics.ts';
import { metricsProducer } from './metrics-producer.ts';

// How long a stop waits for the last export.
const LAST_EXPORT_MS = 2_000;
// The SDK reports each export that fails: every few seconds while the collector is away.
const WARN_EVERY_MS = 60_000;

/** What a running service needs to export its own telemetry. */
export interface TelemetryDeps {
  config: Config;
  log: Logger;
  /** Identifies the process. */
  nodeId: string;
  /** Whether the node has several processes: then OTEL_RESOURCE_ATTRIBUTES cannot identify this one. */
  isOneOfSeveral: boolean;
  /** Measures what `/metrics` measures when it is read. */
  measure(): Promise<void>;
}

/**
 * Exports spans and metrics by OTLP until `stop`, which exports the last ones. If the collector does not take
 * them, they are dropped and a warning is logged.
 */
export function startTelemetry(deps: TelemetryDeps): { stop(): Promise<void> } {
  const { config, log } = deps;
  const { traces, metrics } = telemetryOf(config);
  reportProblems(log);
  const resource = resourceOf(deps);
  const stops = [
    ...(traces === undefined ? [] : [startTracing(config, traces, resource)]),
    ...(metrics === undefined ? [] : [startMetrics(deps, metrics, resource)]),
  ];
  const stop = async () => {
    await waitAtMost(LAST_EXPORT_MS, Promise.allSettled(stops.map((stop) => stop())), () => {});
    diag.disable();
  };
  return { stop };
}

function startTracing(config: Config, target: OtlpTarget, resource: Resource): () => Promise<void> {
  const exporter = new OTLPTraceExporter(target);
  const batches = new BatchSpanProcessor({
    exporter,
    scheduledDelayMillis: config.OTEL_BSP_SCHEDULE_DELAY,
    // A batch that is still being sent holds the next ones back.
    exportTimeoutMillis: target.timeoutMillis,
    selfObsMeterProvider: countDropped,
  });
  const provider = new TracerProvider({
    resource,
    sampler: samplerOf(config),
    spanProcessors: [batches],
  });
  const recorder = recorderOf(provider.getTracer('belfry', VERSION));
  recordSpans(recorder);
  return () => {
    recordSpans(undefined);
    return provider.shutdown();
  };
}

function startMetrics(
  { config, measure }: TelemetryDeps,
  target: OtlpTarget,
  resource: Resource,
): () => Promise<void> {
  const exporter = new OTLPMetricExporter(target);
  const interval = config.OTEL_METRIC_EXPORT_INTERVAL;
  let isStopping = false;
  // While the process stops, so does its database.
  const measureUntilStop = async () => (isStopping ? undefined : measure());
  const reader = new PeriodicExportingMetricReader({
    exporter,
    exportIntervalMillis: interval,
    exportTimeoutMillis: Math.min(interval, target.timeoutMillis),
    metricProducers: [metricsProducer(resource, measureUntilStop)],
  });
  const provider = new MeterProvider({ resource, readers: [reader] });
  return () => {
    isStopping = true;
    return provider.shutdown();
  };
}

// The SDK counts what becomes of each span. Those that were not exported are counted in the metrics.
const countDropped: Meters = {
  getMeter: () =>
    Object.assign(Object.create(createNoopMeter()), {
      createCounter: () => ({
        add(count: number, attributes: Record<string, string>) {
          const error = attributes['error.type'];
          if (error === undefined) return;
          spansDropped.inc({ reason: error === 'queue_full' ? 'queue_full' : 'export_failed' }, count);
        },
      }),
    }),
};

function resourceOf({ config, nodeId, isOneOfSeveral }: TelemetryDeps): Resource {
  const given = config.OTEL_RESOURCE_ATTRIBUTES;
  return resourceFromAttributes({
    'service.version': VERSION,
    'service.instance.id': nodeId,
    ...given,
    ...(isOneOfSeveral ? { 'service.instance.id': nodeId } : {}),
    'service.name': config.OTEL_SERVICE_NAME ?? given['service.name'] ?? 'belfry',
  });
}

function samplerOf({ OTEL_TRACES_SAMPLER: name, OTEL_TRACES_SAMPLER_ARG: ratio }: Config): Sampler {
  const root = name.endsWith('always_off')
    ? new AlwaysOffSampler()
    : name.endsWith('traceidratio')
      ? new TraceIdRatioBasedSampler(ratio)
      : new AlwaysOnSampler();
  return name.startsWith('parentbased_') ? new ParentBasedSampler({ root }) : root;
}

// `queue` is the type of operation of spans that write or run jobs, by the conventions for messaging.
const KINDS = {
  server: { kind: SpanKind.SERVER },
  client: { kind: SpanKind.CLIENT },
  producer: { kind: SpanKind.PRODUCER, queue: 'send' },
  consumer: { kind: SpanKind.CONSUMER, queue: 'process' },
  internal: { kind: SpanKind.INTERNAL },
} as const;

function recorderOf(tracer: Tracer): StartSpan {
  return (name, { kind = 'internal', parent, attributes = {} }) => {
    const context = parent === undefined ? undefined : parseTraceParent(parent);
    const known = KINDS[kind];
    const messaging =
      'queue' in known
        ? {
            'messaging.system': 'belfry',
            'messaging.operation.name': name,
            'messaging.operation.type': known.queue,
          }
        : {};
    const span = tracer.startSpan(
      name,
      { kind: known.kind, attributes: { ...messaging, ...attributes } },
      context ? trace.setSpanContext(ROOT_CONTEXT, { ...context, isRemote: true }) : ROOT_CONTEXT,
    );
    return spanOf(span, span.spanContext());
  };
}

function spanOf(span: ReturnType<Tracer['startSpan']>, { traceId, spanId, traceFlags }: SpanContext): Span {
  return {
    traceId,
    spanId,
    traceparent: `00-${traceId}-${spanId}-${traceFlags.toString(16).padStart(2, '0')}`,
    set: (attributes) => void span.setAttributes(attributes),
    fail(type) {
      span.setAttribute('error.type', type);
      span.setStatus({ code: SpanStatusCode.ERROR });
    },
    end: () => span.end(),
  };
}

/** Logs what the SDK reports: once a minute, and without a stack. */
function reportProblems(log: Logger): void {
  let warnedMs = Number.NEGATIVE_INFINITY;
  const warn = (problem: unknown) => {
    if (performance.now() < warnedMs + WARN_EVERY_MS) return;
    warnedMs = performance.now();
    const reason = problem instanceof Error ? problem.message : String(problem);
    log.warn({ reason: reason.slice(0, 300) }, 'telemetry could not be exported');
  };
  const ignore = () => {};
  diag.setLogger({ error: warn, warn, info: ignore, debug: ignore, verbose: ignore });
  setGlobalErrorHandler(warn);
}
