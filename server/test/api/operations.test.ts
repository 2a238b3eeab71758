/** What operators and load balancers see of a node. */
import { afterEach, expect, test } from 'vitest';
import { sql } from '../../src/db/client.ts';
import { MAX_COUNTED } from '../../src/queue/measure.ts';
import { promote } from '../../src/queue/promote.ts';
import { startTestService, type TestService, type TestServiceOptions } from '../support/service.ts';

let service: TestService | undefined;
afterEach(() => service?.stop());

async function start(options: TestServiceOptions = {}): Promise<TestService> {
  service = await startTestService(options);
  return service;
}

const metric = (text: string, name: string) =>
  Number(
    text
      .split('\n')
      .find((line) => line.startsWith(`${name} `))
      ?.slice(name.length),
  );

test('metrics and readyz show the bus, the workers and the age of jobs', async () => {
  const { context, project, request } = await start({ settings: { ROLE: 'api' } });
  const insert = (values: string) =>
    context.db.query(
      sql(
        '',
        `insert into jobs (kind, project_id, payload, enqueued_at, due_at)
        select 'cancel', $1, '{}', ${values}`,
      ),
      [project.id],
    );
  await insert(`now() - interval '100 seconds', null from generate_series(1, ${MAX_COUNTED + 5})`);
  // Scheduled an hour ago, and due for ten seconds: it has waited for ten seconds.
  await insert("now() - interval '1 hour', now() - interval '10 seconds'");
  await insert("now() - interval '1 hour', now() + interval '1 hour'");
  await promote(context.db, Date.now());
  await context.db.query(
    sql(
      '',
      `insert into leases (id, node, expires_at)
      values (gen_random_uuid(), 'live', now() + interval '90 seconds'),
        (gen_random_uuid(), 'dead', now() - interval '1 second')`,
    ),
  );
  const { text } = await request('GET', '/metrics');
  expect(metric(text, 'belfry_queue_jobs{kind="cancel",state="ready"}')).toBe(MAX_COUNTED);
  expect(metric(text, 'belfry_queue_jobs{kind="cancel",state="scheduled"}')).toBe(1);
  expect(metric(text, 'belfry_queue_jobs{kind="deliver",state="ready"}')).toBe(0);
  const age = metric(text, 'belfry_queue_oldest_ready_seconds{kind="cancel"}');
  expect([age >= 100, age < 3_600]).toEqual([true, true]);
  expect(metric(text, 'belfry_workers')).toBe(1);
  expect(metric(text, 'belfry_worker_lease_shortest_seconds')).toBeGreaterThan(8);
  expect(metric(text, 'belfry_ready')).toBe(1);
  expect(metric(text, 'belfry_bus_connected{bus="postgres"}')).toBe(1);
  expect(metric(text, 'belfry_bus_silent_seconds{bus="postgres"}')).toBeGreaterThanOrEqual(0);
  expect((await request('GET', '/readyz?verbose')).body).toEqual({
    status: 'ok',
    bus: { postgres: { connected: true, silent_seconds: expect.any(Number) } },
    workers: { live: 1, shortest_lease_seconds: expect.any(Number) },
    queue: { oldest_ready_seconds: expect.any(Number) },
  });
});

test('after SIGTERM a node is not ready, and serves until load balancers have noticed', async () => {
  const { request, project, stop } = await start({ settings: { SHUTDOWN_DELAY_SECONDS: '4' } });
  service = undefined;
  const stopped = stop();
  const response = await request('GET', '/readyz');
  expect([response.status, response.body]).toEqual([
    503,
    { status: 'unavailable', reason: 'the server is stopping' },
  ]);
  expect((await request('GET', '/healthz')).status).toBe(200);
  const sent = await project.call('POST', '/broadcasts', {
    title: 'Late',
    recipients: [{ external_id: 'ada' }],
  });
  expect(sent.status).toBe(201);
  await stopped;
  await expect(request('GET', '/readyz')).rejects.toThrow('fetch failed');
});
