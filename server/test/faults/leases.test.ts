import { randomBytes } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { startService } from '../../src/app.ts';
import type { Database } from '../../src/db/client.ts';
import type { MessagesMissed, RealtimeMessage } from '../../src/domain/ground/bus/messages.ts';
import type { DeliveryOutcome } from '../../src/domain/line/deliver/delivery.ts';
import { createOutcomeRecorder } from '../../src/domain/line/deliver/record.ts';
import { fanOutHandler } from '../../src/domain/line/fan-out/fan-out.ts';
import { newId } from '../../src/lib/ids.ts';
import { createLogger } from '../../src/lib/log.ts';
import { LeaseLost } from '../../src/queue/complete.ts';
import type { NewJob } from '../../src/queue/jobs.ts';
import { dueNow, saveSmtp } from '../support/faults.ts';
import { processed, startTestService, type TestService, until } from '../support/service.ts';
import { type SmtpStandIn, startSmtpStandIn } from '../support/smtp-stand-in.ts';

/** Registers a cleanup to run after the test, in reverse order. */
type Undo = (step: () => Promise<void>) => void;

/** Waits for a response for longer than any test: what hangs does so until the test aborts it. */
const timeouts = { replyMs: 300_000 };
/** Fewer than a mail server may leave without a response before its circuit breaker opens. */
const HANGING = 3;

async function start(undo: Undo, settings: Record<string, string> = {}): Promise<TestService> {
  const service = await startTestService({ settings, timeouts, pollMs: 100 });
  undo(() => service.stop());
  return service;
}

async function withSmtp(undo: Undo, service: TestService): Promise<SmtpStandIn> {
  const smtp = await startSmtpStandIn();
  undo(() => smtp.stop());
  await saveSmtp(service.project, smtp);
  return smtp;
}

/** Sends a broadcast whose e-mails hang at the mail server; later ones to the same users do not. */
async function hangingBroadcast(service: TestService, smtp: SmtpStandIn): Promise<string> {
  smtp.fail({ at: 'mail', how: 'hang', times: HANGING });
  const { status, body } = await service.project.call('POST', '/broadcasts', {
    title: 'Hanging',
    recipients: Array.from({ length: HANGING }, (_, index) => ({ email: `hang-${index}@example.com` })),
  });
  expect(status).toBe(201);
  await until(
    () => smtp.connections().hanging,
    (now) => now === HANGING,
  );
  return body.id;
}

/** All figures are as if everything had happened once. */
async function expectOnce(
  service: TestService,
  id: string,
  { retried = 0, mayDefer = false }: { retried?: number; mayDefer?: boolean } = {},
): Promise<void> {
  const rows = service.rows;
  const count = HANGING;
  const { body } = await service.project.call('GET', `/broadcasts/${id}`);
  expect(body.status).toEqual({
    status: 'processed',
    summary: { total: count, failures: 0, pending: 0 },
    errors: null,
  });
  const [counted] = await rows('select pending, awaited from broadcasts where id = $1', [id]);
  // If the worker that took the job over defers its deliveries, that counts as their first attempt, and so do
  // the outcomes of the worker that lost its lease (finish.ts).
  const possible = [0, ...(mayDefer ? [-count] : [])];
  expect(possible.map((awaited) => ({ pending: 0, awaited }))).toContainEqual(counted);
  expect(
    await rows('select state, count(*) from deliveries where broadcast_id = $1 group by 1', [id]),
  ).toEqual([{ state: 'sent', count }]);
  const events = await rows<{ type: string; count: number }>(
    `select type, sum(coalesce(array_length(user_ids, 1), 1))::int as count
    from events
    where broadcast_id = $1 and type in ('delivery.sent', 'delivery.retried', 'broadcast.processed')
      and details->'context'->>'channel' is distinct from 'in_app'
    group by type
    order by type`,
    [id],
  );
  expect(events).toEqual([
    { type: 'broadcast.processed', count: 1 },
    ...(retried > 0 ? [{ type: 'delivery.retried', count: retried }] : []),
    { type: 'delivery.sent', count },
  ]);
  // The job ends a moment after its last outcome was stored.
  await until(
    () => rows('select id from jobs'),
    (left) => left.length === 0,
  );
}

// These tests mostly wait, for a lease or for a response that does not come. They run concurrently, each with
// its own service.

test.concurrent('a job that loses its lease half-way and runs twice counts each e-mail once', async ({
  onTestFinished: undo,
}) => {
  const service = await start(undo);
  const smtp = await withSmtp(undo, service);
  const id = await hangingBroadcast(service, smtp);
  await service.rows("update jobs set lease_id = null where kind = 'deliver'");
  await processed(service.project.call, id);
  expect(smtp.connections().hanging).toBe(HANGING);
  smtp.cutHanging();
  // The first run ends before the service does, with its own outcomes of the e-mails.
  await service.restart();
  await expectOnce(service, id);
});

test.concurrent('a worker with an expired lease loses its job, and its later outcomes do not count', async ({
  onTestFinished: undo,
}) => {
  const SECRET_KEY = randomBytes(32).toString('hex');
  const first = await start(undo, { SECRET_KEY });
  const dataDir = await mkdtemp(join(tmpdir(), 'belfry-second-'));
  undo(() => rm(dataDir, { recursive: true, force: true }));
  const second = await startService(
    { ...first.context.config, DATA_DIR: dataDir },
    { log: createLogger({ level: 'silent' }), timeouts, pollMs: 100 },
  );
  undo(() => second.stop());
  const smtp = await withSmtp(undo, first);
  const id = await hangingBroadcast(first, smtp);
  const rows = first.rows;
  const holder = async () =>
    (await rows<{ lease_id: string | null }>("select lease_id from jobs where kind = 'deliver'"))[0]
      ?.lease_id;
  const before = await holder();
  expect(before).not.toBeNull();
  // It renews its lease every 2 s, sometimes before the other worker looks.
  await until(
    async () => {
      await rows("update leases set expires_at = '-infinity' where id = $1", [before]);
      return holder();
    },
    (now) => now !== before,
  );
  await processed(first.project.call, id);
  expect(smtp.connections().hanging).toBe(HANGING);
  smtp.cutHanging();
  await second.stop();
  await first.restart();
  await expectOnce(first, id, { mayDefer: true });
});

test.concurrent('a worker whose lease is gone takes a new one and continues', async ({
  onTestFinished: undo,
}) => {
  const service = await start(undo);
  const rows = service.rows;
  await rows('delete from leases');
  const leases = await until(
    () => rows('select id from leases'),
    (found) => found.length === 1,
  );
  const { body } = await service.project.call('POST', '/broadcasts', { title: 'x', recipients: null });
  await processed(service.project.call, body.id);
  expect(await rows('select id from leases')).toEqual(leases);
});

test.concurrent('a worker keeps its own jobs after a database pause longer than the lease', async ({
  onTestFinished: undo,
}) => {
  const service = await start(undo);
  const smtp = await withSmtp(undo, service);
  const id = await hangingBroadcast(service, smtp);
  const rows = service.rows;
  const [held] = await rows<{ lease_id: string }>("select lease_id from jobs where kind = 'deliver'");
  // Its own poll runs several times and releases expired leases, most often before its own is renewed.
  for (let poll = 0; poll < 5; poll += 1) {
    await rows(
      `with own as (update leases set expires_at = '-infinity')
        insert into leases (id, node, expires_at) values ($1, 'gone', '-infinity')`,
      [newId()],
    );
    await until(
      () => rows("select from leases where node = 'gone'"),
      (left) => left.length === 0,
    );
  }
  expect(await rows("select lease_id, attempt from jobs where kind = 'deliver'")).toEqual([
    { ...held, attempt: 1 },
  ]);
  smtp.cutHanging();
  await until(
    async () => {
      await dueNow(service);
      return (await service.project.call('GET', `/broadcasts/${id}`)).body.status.summary.pending;
    },
    (pending) => pending === 0,
  );
  expect(smtp.received).toHaveLength(HANGING);
  await expectOnce(service, id, { retried: HANGING });
});

function outcome(
  service: TestService,
  broadcastId: string,
  changes: Partial<DeliveryOutcome>,
): DeliveryOutcome {
  return {
    projectId: service.project.id,
    broadcastId,
    userId: newId(),
    notificationId: newId(),
    channel: 'email',
    state: 'sent',
    attempts: 1,
    integrationId: null,
    provider: 'smtp',
    providerId: null,
    code: null,
    reason: null,
    firstAttemptMs: Date.now(),
    durationMs: 1,
    ...changes,
  };
}

/** A retry that is not due during a test. */
function laterRetry({ project }: TestService): NewJob<'deliver'> {
  return {
    kind: 'deliver',
    projectId: project.id,
    priority: 0,
    weight: 1,
    dueAtMs: Date.now() + 3_600_000,
    payload: { broadcast_id: newId(), channel: 'email', user_ids: [], attempt: 1, first_attempt_ms: 0 },
  };
}

async function broadcastWithPending(service: TestService, pending: number): Promise<string> {
  const { body } = await service.project.call('POST', '/broadcasts', { title: 'x', recipients: null });
  await processed(service.project.call, body.id);
  await service.rows("update broadcasts set status = 'processing', pending = $2 where id = $1", [
    body.id,
    pending,
  ]);
  return body.id;
}

test.each([
  ['before', ['retrying', 'sent']],
  ['after', ['sent', 'retrying']],
] as const)(
  'a retry that is recorded %s the end of the same delivery, in one batch, does not undo it',
  async (_, states) => {
    const undo = onTestFinished;
    const service = await start(undo);
    const id = await broadcastWithPending(service, 1);
    const recorder = createOutcomeRecorder(service.context);
    const [userId, notificationId] = [newId(), newId()];
    await Promise.all(
      states.map((state) =>
        recorder.report({ outcome: outcome(service, id, { userId, notificationId, state }) }),
      ),
    );
    expect(await service.rows('select state from deliveries where broadcast_id = $1', [id])).toEqual([
      { state: 'sent' },
    ]);
    await processed(service.project.call, id);
  },
);

test('the final state of a delivery remains, whatever a previous worker records later', async () => {
  const service = await start(onTestFinished);
  const reports = [
    ['sent', 'failed'],
    ['sent', 'retrying'],
    ['failed', 'sent'],
    ['failed', 'retrying'],
    ['skipped', 'sent'],
  ] as const;
  const id = await broadcastWithPending(service, 2 * reports.length);
  const recorder = createOutcomeRecorder(service.context);
  const rows = service.rows;
  for (const states of reports) {
    const [userId, notificationId] = [newId(), newId()];
    for (const [index, state] of states.entries())
      await recorder.report({
        outcome: outcome(service, id, { userId, notificationId, state, attempts: index + 1 }),
      });
    expect(
      await rows('select state, attempts from deliveries where notification_id = $1', [notificationId]),
    ).toEqual([{ state: states[0], attempts: 1 }]);
    expect(
      await rows("select type from events where user_ids[1] = $1 and type like 'delivery.%'", [userId]),
    ).toEqual([{ type: `delivery.${states[0]}` }]);
  }
  expect(await rows('select pending from broadcasts where id = $1', [id])).toEqual([
    { pending: reports.length },
  ]);
});

test('an outcome that the database rejects does not fail those that are stored with it', async ({
  onTestFinished: undo,
}) => {
  const service = await start(undo);
  const id = await broadcastWithPending(service, 2);
  const recorder = createOutcomeRecorder(service.context);
  const results = await Promise.allSettled(
    [{}, { reason: 'a character that cannot be stored: \0' }, {}].map((changes) =>
      recorder.report({ outcome: outcome(service, id, changes) }),
    ),
  );
  expect(results.map(({ status }) => status)).toEqual(['fulfilled', 'rejected', 'fulfilled']);
  await processed(service.project.call, id);
});

test('a job that is ended by two runs in one batch ends once: as by the first', async ({
  onTestFinished: undo,
}) => {
  const service = await start(undo);
  const rows = service.rows;
  const id = await broadcastWithPending(service, 1);
  const leaseId = newId();
  await rows(
    "insert into leases (id, node, expires_at) values ($1, 'another node', now() + interval '1 hour')",
    [leaseId],
  );
  const [job] = await rows<{ id: number }>(
    `insert into jobs (kind, project_id, lease_id, attempt, payload)
    values ('deliver', $1, $2, 1, '{}') returning id`,
    [service.project.id, leaseId],
  );
  const recorder = createOutcomeRecorder(service.context);
  const end = { jobId: job?.id ?? 0, leaseId };
  const deferred = { broadcastId: id, deliveries: 1 };
  await Promise.all([
    recorder.report({ finished: { ...end, retries: [] } }),
    recorder.report({ finished: { ...end, retries: [laterRetry(service)], deferred } }),
  ]);
  expect(await rows('select awaited from broadcasts where id = $1', [id])).toEqual([{ awaited: 0 }]);
  expect(await rows('select id from jobs')).toEqual([]);
});

test('the end of a job that another worker holds is not stored, and neither are its retries', async ({
  onTestFinished: undo,
}) => {
  const service = await start(undo);
  const rows = service.rows;
  const [leaseId] = (await rows<{ id: string }>('select id from leases')).map(({ id }) => id);
  // Not due for an hour, so that no worker starts it.
  const [job] = await rows<{ id: number }>(
    `insert into jobs (kind, project_id, due_at, payload)
    values ('deliver', $1, now() + interval '1 hour', '{}') returning id`,
    [service.project.id],
  );
  const recorder = createOutcomeRecorder(service.context);
  await recorder.report({
    finished: {
      jobId: job?.id ?? 0,
      leaseId: leaseId ?? '',
      retries: [laterRetry(service)],
    },
  });
  expect(await rows('select id from jobs')).toEqual([job]);
});

test('a fan-out that another worker has done meanwhile records, enqueues and sends nothing', async ({
  onTestFinished: undo,
}) => {
  const service = await start(undo);
  const smtp = await withSmtp(undo, service);
  const { context, project, rows } = service;
  const { body } = await project.call('POST', '/broadcasts', {
    title: 'Once',
    recipients: Array.from({ length: 3 }, (_, index) => ({ email: `once-${index}@example.com` })),
  });
  await processed(project.call, body.id);
  await until(
    () => rows('select id from jobs'),
    (left) => left.length === 0,
  );
  const written = () =>
    rows(
      `select (select count(*) from notifications) as notifications,
        (select count(*) from events) as events,
        (select count(*) from broadcast_users) as pages,
        (select json_agg(b) from broadcasts b) as broadcasts`,
    );
  const before = await written();
  const job = {
    ...{ id: 1, kind: 'fan_out' as const, projectId: project.id, partitionKey: project.id },
    ...{ priority: 0, weight: 3, attempt: 1, cutOffs: 0, payload: { broadcast_id: body.id } },
  };
  await expect(fanOutHandler(context).run([job], newId(), () => {})).rejects.toThrow(LeaseLost);
  expect(await written()).toEqual(before);
  expect(await rows('select id from jobs')).toEqual([]);
  expect(smtp.received).toHaveLength(3);
});

test('connected clients refresh if the response to the commit of a fan-out is lost', async ({
  onTestFinished: undo,
}) => {
  const service = await start(undo);
  const { context, project } = service;
  const rows = service.rows;
  const { body } = await project.call('POST', '/broadcasts', {
    title: 'x',
    recipients: [{ external_id: 'connected' }],
  });
  await processed(project.call, body.id);
  await rows('delete from notifications');
  const leaseId = newId();
  await rows("insert into leases (id, node, expires_at) values ($1, 'test', 'infinity')", [leaseId]);
  const [job] = await rows<{ id: number }>(
    `insert into jobs (kind, project_id, lease_id, payload)
    values ('fan_out', $1, $2, json_build_object('broadcast_id', $3::uuid)) returning id`,
    [project.id, leaseId, body.id],
  );
  const db: Database = {
    ...context.db,
    async transaction(work) {
      await context.db.transaction(work);
      throw Object.assign(new Error('read ECONNRESET'), { code: 'ECONNRESET' });
    },
  };
  const published: RealtimeMessage[] = [];
  const unsubscribe = context.bus.subscribe((message) => void published.push(message));
  const handler = fanOutHandler({ ...context, db });
  const work = handler.run(
    [
      {
        id: job?.id ?? 0,
        kind: 'fan_out',
        projectId: project.id,
        partitionKey: project.id,
        priority: 0,
        weight: 1,
        attempt: 1,
        cutOffs: 0,
        payload: { broadcast_id: body.id },
      },
    ],
    leaseId,
    () => {},
  );
  await expect(work).rejects.toThrow('ECONNRESET');
  const [stored] = await rows<{ sent_at: Date }>('select sent_at from notifications');
  const sentAtMs = stored?.sent_at.getTime() ?? 0;
  const bounds = { sinceMs: expect.any(Number), untilMs: expect.any(Number) };
  await expect.poll(() => published).toEqual([{ type: 'missed', ...bounds }]);
  unsubscribe();
  const [missed] = published as [MessagesMissed];
  expect(missed.sinceMs).toBeLessThan(sentAtMs);
  expect(missed.untilMs).toBeGreaterThan(sentAtMs);
});
