import { LegacyMetrics } from '../../contract/v1/metrics.ts';
import { countBroadcasts } from '../../domain/line/broadcasts/count.ts';
import { type App, projectRoute } from '../route.ts';

const RECENT =
  'Counts the broadcasts of the last 30 days, at most the newest 20,000, and the users that they addressed';

/** Registers `/metrics` for requests with an API key. Without one, it is for Prometheus. */
export function metricsRoutes(app: App): void {
  metricsRoute(app, 'day', {
    url: '/metrics',
    operationId: 'getMetricsV1',
    summary: 'Count broadcasts by day',
  });
  metricsRoute(app, 'category', {
    url: '/metrics/categories',
    operationId: 'getCategoryMetricsV1',
    summary: 'Count broadcasts by category',
  });
  metricsRoute(app, 'topic', {
    url: '/metrics/topics',
    operationId: 'getTopicMetricsV1',
    summary: 'Count broadcasts by topic',
  });
}

function metricsRoute(
  app: App,
  by: 'day' | 'category' | 'topic',
  route: { url: string; operationId: string; summary: string },
): void {
  projectRoute(app, {
    ...route,
    method: 'GET',
    description: `${RECENT}, for each ${by === 'day' ? 'day in UTC, the oldest first' : by}.`,
    tags: ['Metrics'],
    withApiKey: by === 'day',
    reply: { 200: LegacyMetrics },
    async handler({ project, context }) {
      const counts = await countBroadcasts(context, project.id, by);
      return {
        metrics: counts.map(({ broadcasts, recipients }) => [broadcasts, recipients]),
        labels: counts.map(({ label }) => label),
        schema: {
          metric: [
            { entity: 'broadcasts', operation: 'count' as const },
            { entity: 'recipients', operation: 'sum' as const },
          ],
          label: { name: by, type: by === 'day' ? ('timestamp' as const) : ('string' as const) },
        },
      };
    },
  });
}
