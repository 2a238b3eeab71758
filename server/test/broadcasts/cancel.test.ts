import { afterAll, beforeAll, beforeEach, describe, expect, onTestFinished, test } from 'vitest';
import type { DeliveryRecord } from '../../src/contract/delivery.ts';
import { namedStatements, sql } from '../../src/db/client.ts';
import { newId } from '../../src/lib/ids.ts';
import { bringForward } from '../support/all-channels.ts';
import { insertCrowd } from '../support/crowd.ts';
import { saveSmtp } from '../support/faults.ts';
import { listAll } from '../support/pages.ts';
import {
  processed,
  startTestService,
  type TestProject,
  type TestService,
  until,
} from '../support/service.ts';
import { type SmtpStandIn, startSmtpStandIn } from '../support/smtp-stand-in.ts';
import { STORED_EVENTS } from '../support/stored-events.ts';

let service: TestService;
let mail: SmtpStandIn;
let project: TestProject;
let made = 0;

beforeAll(async () => {
  [service, mail] = await Promise.all([startTestService({ pollMs: 50 }), startSmtpStandIn()]);
});
afterAll(async () => {
  await Promise.all([service?.stop(), mail?.stop()]);
});
beforeEach(async () => {
  made += 1;
  mail.heal();
  mail.received.length = 0;
  project = await service.createProject(`cancel ${made}`);
});

const people = (count: number) =>
  Array.from({ length: count }, (_none, index) => ({
    external_id: `u${index}`,
    email: `u${index}@example.com`,
  }));
const send = async (body: object): Promise<string> => {
  const sent = await project.call('POST', '/broadcasts', { title: 'Hello', ...body });
  expect([sent.status, sent.messages]).toEqual([201, []]);
  expect(sent.body.cancelled_at).toBeNull();
  return sent.body.id;
};
const get = async (id: string) => (await project.call('GET', `/broadcasts/${id}`)).body;
const cancel = (id: string) => project.call('POST', `/broadcasts/${id}/cancel`);
const cancelled = async (id: string) => {
  const { status, body } = await cancel(id);
  expect([status, body.id]).toEqual([200, id]);
  return body;
};
const eventsOf = async (id: string, type: string): Promise<{ context: Record<string, string> }[]> => {
  const { body } = await project.call('GET', `/events?limit=100&type=${type}`);
  return body.data.filter(
    (event: { context: { broadcast_id: string } }) => event.context.broadcast_id === id,
  );
};

function deliveriesOf(id: string): Promise<DeliveryRecord[]> {
  return listAll(project.call, `/broadcasts/${id}/deliveries?limit=100`);
}

/** Expects that the broadcast has ended, and that its summary, deliveries and notifications agree. */
async function expectEnded(
  id: string,
): Promise<{ total: number; byState: Record<string, DeliveryRecord[]> }> {
  const { status } = await processed(project.call, id);
  const [stored] = await service.rows<{ users: number; awaited: number }>(
    `select awaited, (select count(*)::int from notifications where broadcast_id = $1) as users
    from broadcasts
    where id = $1`,
    [id],
  );
  expect(stored).toEqual({ users: status.summary.total, awaited: 0 });
  const deliveries = await deliveriesOf(id);
  expect(new Set(deliveries.map(({ user_id }) => user_id)).size).toBe(status.summary.total);
  expect(await eventsOf(id, 'broadcast.processed')).toHaveLength(1);
  const events = await service.rows<{ type: string; users: number }>(
    `select type, sum(cardinality(user_ids))::int as users
    from ${STORED_EVENTS}
    where broadcast_id = $1 and type in ('delivery.sent', 'delivery.skipped')
    group by type
    order by type`,
    [id],
  );
  const ends = Map.groupBy(deliveries, ({ state }) => `delivery.${state}`);
  expect(events).toEqual([...ends].sort().map(([type, some]) => ({ type, users: some.length })));
  const byState = Object.groupBy(deliveries, ({ state }) => state) as Record<string, DeliveryRecord[]>;
  return { total: status.summary.total, byState };
}

const subscribers = [{ topic: { subscribers: true } }];

describe('deliveries that are not sent yet', () => {
  test('scheduled ones are skipped at once, and the inbox keeps what it shows', async () => {
    await saveSmtp(project, mail);
    const channels = [{ channel: 'in_app' }, { channel: 'email', delay: 86_400 }];
    await project.call('PUT', '/channels', { key: 'later', channels });
    const id = await send({ category: 'later', recipients: people(3) });
    await until(
      () => get(id),
      ({ status }) => status.summary.pending === 3,
    );
    const body = await cancelled(id);
    expect(body.cancelled_at).toMatch(/^\d{4}-\d\d-\d\dT.*Z$/);
    const { total, byState } = await expectEnded(id);
    expect([total, byState.sent?.map(({ channel }) => channel)]).toEqual([3, Array(3).fill('in_app')]);
    expect(byState.skipped).toEqual(
      Array(3).fill(
        expect.objectContaining({
          channel: 'email',
          code: 'cancelled',
          reason: 'the broadcast was cancelled',
          attempts: 0,
        }),
      ),
    );
    expect((await project.as('u0')('GET', '/notifications')).body.data).toHaveLength(1);
    expect(await eventsOf(id, 'broadcast.cancelled')).toHaveLength(1);
    const skips = await eventsOf(id, 'delivery.skipped');
    expect(skips.map(({ context }) => context.code)).toEqual(['cancelled', 'cancelled', 'cancelled']);
    expect(mail.received).toEqual([]);
  });

  test('a notification that the inbox does not show yet is never shown', async () => {
    const channels = [{ channel: 'in_app', delay: 3_600 }];
    await project.call('PUT', '/channels', { key: 'later', channels });
    const id = await send({ category: 'later', recipients: people(1) });
    await until(
      () => get(id),
      ({ status }) => status.summary.pending === 1,
    );
    await cancelled(id);
    const { byState } = await expectEnded(id);
    expect(byState.skipped?.map(({ code }) => code)).toEqual(['cancelled']);
    expect((await project.as('u0')('GET', '/notifications')).body.data).toEqual([]);
  });

  test('retried ones end at once', async () => {
    await saveSmtp(project, mail);
    mail.fail({ at: 'rcpt', how: { reply: '451 4.3.0 Later' } });
    const id = await send({ recipients: people(2) });
    await until(
      () => deliveriesOf(id),
      (all) => all.filter(({ state }) => state === 'retrying').length === 2,
    );
    await cancelled(id);
    const { byState } = await expectEnded(id);
    expect(byState.skipped?.map(({ code, attempts }) => [code, attempts >= 1])).toEqual([
      ['cancelled', true],
      ['cancelled', true],
    ]);
    expect(mail.received).toEqual([]);
  });

  test('messages that wait for a permit are not sent, and one in flight is finished', async () => {
    await saveSmtp(project, mail);
    const { body: config } = await project.call('GET', '/integrations/smtp');
    const limited = { ...config.data[0].config, max_per_second: 1 };
    expect((await project.call('PUT', '/integrations/smtp', limited)).status).toBe(200);
    const id = await send({ recipients: people(300) });
    await mail.waitFor(1);
    await cancelled(id);
    const before = mail.received.length;
    const { byState } = await expectEnded(id);
    const mails = (byState.sent ?? []).filter(({ channel }) => channel === 'email');
    expect(mails).toHaveLength(mail.received.length);
    expect(mail.received.length).toBeLessThanOrEqual(before + 1);
    expect(byState.skipped).toHaveLength(300 - mails.length);
  });

  test('a delivery to several targets is sent if one has accepted it', async () => {
    await saveSmtp(project, mail);
    const id = await send({ recipients: people(1) });
    await processed(project.call, id);
    const [delivery] = (await deliveriesOf(id)).filter(({ channel }) => channel === 'email');
    expect(delivery?.state).toBe('sent');
    await cancelled(id);
    expect((await deliveriesOf(id)).filter(({ channel }) => channel === 'email')).toEqual([delivery]);
  });
});

test('a delivery that is deferred while its broadcast is cancelled ends, too', async () => {
  await saveSmtp(project, mail);
  const channels = [{ channel: 'email', delay: 86_400 }];
  await project.call('PUT', '/channels', { key: 'later', channels });
  const id = await send({ category: 'later', recipients: people(1) });
  await until(
    () => get(id),
    ({ status }) => status.summary.pending === 1,
  );
  // A worker writes the job of a deferred delivery, and commits it after the scheduled jobs were made due.
  await service.context.db.transaction(async (tx) => {
    await tx.query(
      sql(
        '',
        `with ended as (
          delete from jobs where kind = 'deliver' and payload ->> 'broadcast_id' = $1 returning *
        )
        insert into jobs (kind, project_id, priority, weight, due_at, payload)
        select kind, project_id, priority, weight, due_at, payload
        from ended`,
      ),
      [id],
    );
    await cancelled(id);
    await until(
      () => service.rows("select from jobs where kind = 'cancel' and due_at is null"),
      (first) => first.length === 0,
    );
  });
  const { byState } = await expectEnded(id);
  expect(byState.skipped?.find(({ channel }) => channel === 'email')?.code).toBe('cancelled');
});

describe('a fan-out', () => {
  test('stops between the pages of a topic, in the middle of the subscribers', async () => {
    await insertCrowd(service, project, 20_000);
    const id = await send({ topic: 'news', recipients: subscribers });
    await until(
      () => get(id),
      ({ status }) => status.summary.total > 0,
      { everyMs: 1 },
    );
    const body = await cancelled(id);
    const { total, byState } = await expectEnded(id);
    // The cancellation waits for a page that is being written, and no page follows it.
    expect(total).toBe(body.status.summary.total);
    expect(total).toBeLessThan(20_000);
    expect(byState.sent).toHaveLength(total);
  });

  test('writes nothing for a broadcast that is cancelled before it starts', async () => {
    await saveSmtp(project, mail);
    const ids = await Promise.all(
      Array.from({ length: 40 }, async (_none, index) => {
        const id = await send({ recipients: people(1 + (index % 3) * 150) });
        await cancelled(id);
        return id;
      }),
    );
    for (const id of ids) {
      const { total, byState } = await expectEnded(id);
      const { cancelled_at: at } = await get(id);
      const mails = (byState.sent ?? []).filter(({ channel }) => channel === 'email').length;
      if (at === null) expect(mails).toBe(total);
      else expect(mails + (byState.skipped ?? []).length).toBe(total);
    }
    const all = await Promise.all(ids.map(get));
    expect(all.some(({ cancelled_at: at, status }) => at !== null && status.summary.total === 0)).toBe(true);
    const sent = (await Promise.all(ids.map(deliveriesOf)))
      .flat()
      .filter(({ channel, state }) => channel === 'email' && state === 'sent');
    expect(mail.received).toHaveLength(sent.length);
  });
});

describe('the request', () => {
  test('is idempotent, and records one event', async () => {
    const channels = [{ channel: 'in_app', delay: 3_600 }];
    await project.call('PUT', '/channels', { key: 'later', channels });
    const id = await send({ category: 'later', recipients: people(1) });
    const responses = await Promise.all([cancel(id), cancel(id), cancel(id.toUpperCase())]);
    const times = new Set(responses.map(({ body }) => body.cancelled_at));
    expect([responses.map(({ status }) => status), times.size]).toEqual([[200, 200, 200], 1]);
    await expectEnded(id);
    expect((await cancelled(id)).cancelled_at).toBe([...times][0]);
    expect(await eventsOf(id, 'broadcast.cancelled')).toHaveLength(1);
    const listed = (await project.call('GET', '/broadcasts')).body.data;
    expect(listed.map((one: { cancelled_at: string }) => one.cancelled_at)).toEqual([...times]);
  });

  test('changes nothing when the broadcast has ended', async () => {
    const id = await send({ recipients: people(1) });
    const before = await processed(project.call, id);
    expect(await cancelled(id)).toEqual(before);
    expect(await get(id)).toEqual(before);
    expect(await eventsOf(id, 'broadcast.cancelled')).toEqual([]);
  });

  test('with an Idempotency-Key is made once, and stops messages after its commit', async () => {
    const channels = [{ channel: 'in_app', delay: 3_600 }];
    await project.call('PUT', '/channels', { key: 'later', channels });
    const id = await send({ category: 'later', recipients: people(1) });
    const key = { 'idempotency-key': 'once' };
    const first = await project.call('POST', `/broadcasts/${id}/cancel`, undefined, key);
    expect([first.status, service.context.cancelled.has(id)]).toEqual([200, true]);
    await expectEnded(id);
    const second = await project.call('POST', `/broadcasts/${id}/cancel`, undefined, key);
    expect([second.body, second.headers.get('idempotency-replayed')]).toEqual([first.body, 'true']);
  });

  test('is a 404 for an unknown broadcast and for that of another project, and a 400 for no id', async () => {
    const id = await send({ recipients: people(1) });
    const stranger = await service.createProject(`stranger ${made}`);
    expect((await cancel(newId())).status).toBe(404);
    expect((await stranger.call('POST', `/broadcasts/${id}/cancel`)).status).toBe(404);
    expect((await cancel('mine')).codes).toEqual(['invalid_id']);
  });

  test('ends replays, and refuses further ones', async () => {
    await saveSmtp(project, mail);
    mail.fail({ at: 'rcpt', how: { reply: '550 5.1.1 No such user' } });
    const id = await send({ recipients: people(2) });
    await processed(project.call, id);
    for (const { id: suppressed } of (await project.call('GET', '/suppressions')).body.data)
      await project.call('DELETE', `/suppressions/${suppressed}`);
    mail.heal();
    mail.fail({ at: 'rcpt', how: { reply: '451 4.3.0 Later' } });
    const replay = () => project.call('POST', `/broadcasts/${id}/deliveries/replay`, {});
    expect((await replay()).body).toEqual({ replayed: 2 });
    await cancelled(id);
    const { byState } = await expectEnded(id);
    expect(byState.skipped?.map(({ code, replays }) => [code, replays])).toEqual([
      ['cancelled', 1],
      ['cancelled', 1],
    ]);
    expect((await get(id)).status.summary).toEqual({ total: 2, failures: 0, pending: 0 });
    const refused = await replay();
    expect([refused.status, refused.messages]).toEqual([
      422,
      ['The broadcast was cancelled, so nothing of it is replayed: send a new broadcast'],
    ]);
  });
});

test('a server that missed the message finds out from the database', async () => {
  const channels = [{ channel: 'in_app', delay: 3_600 }];
  await project.call('PUT', '/channels', { key: 'later', channels });
  const id = await send({ category: 'later', recipients: people(1) });
  const sinceMs = Date.now() - 60_000;
  await service.rows('update broadcasts set cancelled_at = now() where id = $1', [id]);
  expect(service.context.cancelled.has(id)).toBe(false);
  service.context.bus.publish({ type: 'missed', sinceMs });
  await until(
    () => service.context.cancelled.has(id),
    (has) => has,
  );
  // Its jobs find out when they are due, too.
  await bringForward(service);
  await expectEnded(id);
});

test('what was scheduled waits in the queue from its cancellation on', async () => {
  const api = await startTestService({ settings: { ROLE: 'api' } });
  onTestFinished(() => api.stop());
  const { db } = api.context;
  const send_at = new Date(Date.now() + 30 * 86_400_000).toISOString();
  const body = { title: 'Later', recipients: people(1), send_at };
  const { id } = (await api.project.call('POST', '/broadcasts', body)).body;
  await db.query(sql('', "update jobs set enqueued_at = now() - interval '20 days'"));
  await db.query(sql('', namedStatements.get('end_scheduled_jobs') ?? ''), [id, 10]);
  const waiting = await db.query(
    sql(
      '',
      "select due_at, now() - enqueued_at < interval '1 hour' as is_new from jobs where kind = 'fan_out'",
    ),
  );
  expect(waiting).toEqual([{ due_at: null, is_new: true }]);
});
