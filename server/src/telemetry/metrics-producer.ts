import { type Attributes, type HrTime, ValueType } from '@opentelemetry/api';
import { millisToHrTime } from '@opentelemetry/core';
import type { Resource } from '@opentelemetry/resources';
import {
  AggregationTemporality,
  DataPointType,
  type MetricData,
  type MetricProducer,
} from '@opentelemetry/sdk-metrics';
import { type MetricsOfProcess, registry } from '../metrics.ts';

/**
 * The metrics of `/metrics` for an OTLP exporter, with the same names, so that dashboards serve both.
 * `measure` is called before each collection; what it cannot measure keeps its last value.
 */
export function metricsProducer(resource: Resource, measure: () => Promise<void>): MetricProducer {
  const startTime = millisToHrTime(performance.timeOrigin);
  return {
    async collect() {
      await measure();
      const times = { startTime, endTime: millisToHrTime(Date.now()) };
      const metrics = (await registry.getMetricsAsJSON()).flatMap((metric) => toOtlp(metric, times) ?? []);
      return {
        resourceMetrics: { resource, scopeMetrics: [{ scope: { name: 'belfry' }, metrics }] },
        errors: [],
      };
    },
  };
}

interface Times {
  startTime: HrTime;
  endTime: HrTime;
}

type Metric = MetricsOfProcess[number];
/** What a histogram has further: the name of the series, which ends in _bucket, _sum or _count. */
type Value = Metric['values'][number] & { metricName?: string };

/** Exported for tests. Summaries have no counterpart, and there are none. */
export function toOtlp(metric: Metric, times: Times): MetricData | undefined {
  const { name, help, values } = metric;
  const type = String(metric.type);
  const common = {
    descriptor: { name, description: help, unit: '', valueType: ValueType.DOUBLE },
    aggregationTemporality: AggregationTemporality.CUMULATIVE,
  };
  const points = () =>
    values.map(({ labels, value }) => ({ ...times, attributes: labels as Attributes, value }));
  switch (type) {
    case 'counter':
      return { ...common, dataPointType: DataPointType.SUM, isMonotonic: true, dataPoints: points() };
    case 'gauge':
      return { ...common, dataPointType: DataPointType.GAUGE, dataPoints: points() };
    case 'histogram':
      return { ...common, dataPointType: DataPointType.HISTOGRAM, dataPoints: histograms(values, times) };
    default:
      return undefined;
  }
}

/** One point for each set of labels. Prometheus counts in a bucket what is in those below it, too. */
function histograms(values: readonly Value[], times: Times) {
  const series = Map.groupBy(values, ({ labels }) => JSON.stringify(withoutBound(labels)));
  return [...series.values()].map((all) => {
    const buckets = all.filter(({ metricName }) => metricName?.endsWith('_bucket'));
    const counts = buckets.map(({ value }, at) => value - (buckets[at - 1]?.value ?? 0));
    const bounds = buckets.map(({ labels }) => Number(labels.le)).filter(Number.isFinite);
    const valueWith = (suffix: string) =>
      all.find(({ metricName }) => metricName?.endsWith(suffix))?.value ?? 0;
    return {
      ...times,
      attributes: withoutBound(all[0]?.labels ?? {}) as Attributes,
      value: { buckets: { boundaries: bounds, counts }, count: valueWith('_count'), sum: valueWith('_sum') },
    };
  });
}

function withoutBound({ le: _bound, ...labels }: Value['labels']): Value['labels'] {
  return labels;
}
