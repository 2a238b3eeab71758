import { AggregatorRegistry, Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from 'prom-client';

/** All metrics of `/metrics`. They describe the process, so there is one registry for it. */
export const registry = new Registry();

collectDefaultMetrics({ register: registry });

const registers = [registry];

export const broadcastsAccepted = new Counter({
  name: 'belfry_broadcasts_accepted_total',
  help: 'Broadcasts that were accepted.',
  registers,
});

export const notificationsCreated = new Counter({
  name: 'belfry_notifications_total',
  help: 'Notifications that were written.',
  registers,
});

export const deliveries = new Counter({
  name: 'belfry_deliveries_total',
  help: 'Delivery outcomes by channel.',
  labelNames: ['channel', 'outcome'] as const,
  registers,
});

export const webhookMessages = new Counter({
  name: 'belfry_webhook_messages_total',
  help: 'Outcomes of attempts to send events to webhooks (sent, retrying, failed).',
  labelNames: ['outcome'] as const,
  registers,
});

export const queueJobs = new Gauge({
  name: 'belfry_queue_jobs',
  help: 'Jobs in the queue of all nodes, by kind and state (ready, scheduled, leased). Counts end at 10,000.',
  labelNames: ['kind', 'state'] as const,
  registers,
});

export const queueAge = new Gauge({
  name: 'belfry_queue_oldest_ready_seconds',
  help: 'How long the oldest ready job of all nodes has been waiting, by kind; 0 if none waits.',
  labelNames: ['kind'] as const,
  registers,
});

export const workers = new Gauge({
  name: 'belfry_workers',
  help: 'Nodes of the database whose worker holds a lease.',
  registers,
});

export const shortestLease = new Gauge({
  name: 'belfry_worker_lease_shortest_seconds',
  help: 'The shortest time until the lease of a worker expires. Below 4, its renewals are late.',
  registers,
});

export const busConnected = new Gauge({
  name: 'belfry_bus_connected',
  help:
    'Whether the node receives messages of other nodes (1) or its connection to the bus is lost (0), ' +
    'by bus (postgres, nats).',
  labelNames: ['bus'] as const,
  aggregator: 'min',
  registers,
});

export const busSilence = new Gauge({
  name: 'belfry_bus_silent_seconds',
  help: 'The time since the database or NATS last responded on the connection of the bus, tested every 4 s.',
  labelNames: ['bus'] as const,
  aggregator: 'max',
  registers,
});

export const nodeReady = new Gauge({
  name: 'belfry_ready',
  help:
    'Whether the node can work (1): its database is reachable and writable, and its schema allows this ' +
    'release. Otherwise 0, and /readyz has the reason.',
  aggregator: 'min',
  registers,
});

export const cellsUnavailable = new Gauge({
  name: 'belfry_cells_unavailable',
  help: 'Cells that the node could not open, or whose database fails: their projects get a 503.',
  aggregator: 'max',
  registers,
});

export const integrationsPaused = new Gauge({
  name: 'belfry_integrations_paused',
  help: 'Integrations that are paused because their provider rejects them or does not respond, by provider.',
  labelNames: ['provider'] as const,
  registers,
});

export const sockets = new Gauge({
  name: 'belfry_realtime_connections',
  help: 'Open realtime connections (websocket, sse).',
  labelNames: ['transport'] as const,
  registers,
});

export const connectionsRefused = new Counter({
  name: 'belfry_http_connections_refused_total',
  help: 'Connections that were closed at once because MAX_CONNECTIONS were open.',
  registers,
});

export const databaseConnections = new Gauge({
  name: 'belfry_database_connections',
  help: 'Connections of the database pool, by state (active, idle), and callers that wait for one (waiting).',
  labelNames: ['state'] as const,
  registers,
});

export const httpSeconds = new Histogram({
  name: 'belfry_http_request_duration_seconds',
  help: 'Requests by operation and status, from the end of the request headers to the end of the response.',
  labelNames: ['operation', 'status'] as const,
  buckets: [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10],
  registers,
});

export const spansDropped = new Counter({
  name: 'belfry_trace_spans_dropped_total',
  help: 'Spans of traces that were not exported, by reason (queue_full, export_failed).',
  labelNames: ['reason'] as const,
  registers,
});

/** The metrics of one process of a node with several. */
export type MetricsOfProcess = Awaited<ReturnType<Registry['getMetricsAsJSON']>>;

// They describe the database. The process that responds to a request has measured them.
const OF_DATABASE = new Set([
  'belfry_queue_jobs',
  'belfry_queue_oldest_ready_seconds',
  'belfry_workers',
  'belfry_worker_lease_shortest_seconds',
  'belfry_integrations_paused',
]);

/** Returns the metrics of the other processes of a node. They get those of this one, as they are shown. */
export type MetricsOfOthers = (own: MetricsOfProcess) => Promise<readonly MetricsOfProcess[]>;

/** The metrics of this process, without those of the database. */
export async function metricsOfProcess(): Promise<MetricsOfProcess> {
  return withoutDatabase(await registry.getMetricsAsJSON());
}

/** The text for Prometheus: the metrics of this process and, in a node with several, of all. */
export async function metricsText(metricsOfOthers: MetricsOfOthers | undefined): Promise<string> {
  if (metricsOfOthers === undefined) return registry.metrics();
  const own = await registry.getMetricsAsJSON();
  const others = await metricsOfOthers(withoutDatabase(own));
  return AggregatorRegistry.aggregate([own, ...others]).metrics();
}

/** The sums of all counters and histograms. What they count stays true when a process ends. */
export async function sumOfCounters(metrics: readonly MetricsOfProcess[]): Promise<MetricsOfProcess> {
  const counters = metrics.map((some) => some.filter(({ type }) => COUNTER_TYPES.has(String(type))));
  return AggregatorRegistry.aggregate(counters).getMetricsAsJSON();
}

const COUNTER_TYPES: ReadonlySet<string> = new Set(['counter', 'histogram']);

function withoutDatabase(metrics: MetricsOfProcess): MetricsOfProcess {
  return metrics.filter(({ name }) => !OF_DATABASE.has(name));
}
