import { Counter, Gauge, Histogram, Registry } from 'prom-client';
import { expect, test } from 'vitest';
import { toOtlp } from './metrics-producer.ts';

test('counters, gauges and histograms keep their names, labels and numbers', async () => {
  const registers = [new Registry()];
  new Counter({ name: 'sent_total', help: 'Sent.', labelNames: ['channel'], registers }).inc(
    { channel: 'sms' },
    3,
  );
  new Gauge({ name: 'open', help: 'Open.', registers }).set(-2);
  const seconds = new Histogram({
    name: 'seconds',
    help: 'S.',
    labelNames: ['of'],
    buckets: [1, 5],
    registers,
  });
  for (const value of [0.5, 2, 3, 60]) seconds.observe({ of: 'a' }, value);
  seconds.observe({ of: 'b' }, 1);
  const times = { startTime: [1, 0] as [number, number], endTime: [2, 0] as [number, number] };
  const metrics = (await registers[0]?.getMetricsAsJSON())?.map((metric) => toOtlp(metric, times));
  const pointsOf = (at: number) =>
    metrics?.[at]?.dataPoints.map(({ attributes, value }) => ({ ...attributes, value }));
  expect(metrics?.map((metric) => metric?.descriptor.name)).toEqual(['sent_total', 'open', 'seconds']);
  expect(metrics?.[0]).toMatchObject({ isMonotonic: true });
  expect(pointsOf(0)).toEqual([{ channel: 'sms', value: 3 }]);
  expect(pointsOf(1)).toEqual([{ value: -2 }]);
  expect(pointsOf(2)).toEqual([
    { of: 'a', value: { buckets: { boundaries: [1, 5], counts: [1, 2, 1] }, count: 4, sum: 65.5 } },
    { of: 'b', value: { buckets: { boundaries: [1, 5], counts: [1, 0, 0] }, count: 1, sum: 1 } },
  ]);
});
