import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import type { DeliveryOutcome } from '../../src/domain/line/deliver/delivery.ts';
import { createOutcomeRecorder } from '../../src/domain/line/deliver/record.ts';
import { newId, notificationId } from '../../src/lib/ids.ts';
import { saveSmtp } from '../support/faults.ts';
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
  project = await service.createProject(`replays ${made}`);
  await saveSmtp(project, mail);
});

const person = (name: string) => ({ external_id: name, email: `${name}@example.com` });
const send = async (names: readonly string[], body: object = {}): Promise<string> => {
  const recipients = names.map(person);
  const sent = await project.call('POST', '/broadcasts', { title: 'Hello', recipients, ...body });
  expect(sent.status).toBe(201);
  return sent.body.id;
};
/**
 * The mail server rejects messages to these users as too large. That does not open the circuit breaker of the
 * integration.
 */
const refuse = (...names: string[]) =>
  mail.fail({
    at: 'rcpt',
    how: { reply: '552 5.3.4 Not today' },
    when: ({ to }) => names.some((name) => to === `${name}@example.com`),
  });
const replay = (id: string, body: object = {}, headers: Record<string, string> = {}) =>
  project.call('POST', `/broadcasts/${id}/deliveries/replay`, body, headers);
const list = async (id: string, query = '') =>
  (await project.call('GET', `/broadcasts/${id}/deliveries?limit=100&${query}`)).body.data as {
    user_id: string;
    channel: string;
    state: string;
    attempts: number;
    code: string | null;
  }[];
const userId = async (name: string): Promise<string> => {
  const [row] = await service.rows<{ id: string }>(
    'select id from users where project_id = $1 and external_id = $2',
    [project.id, name],
  );
  return row?.id ?? '';
};
/** How many delivery events of each type the broadcast has. */
const events = async (id: string): Promise<Record<string, number>> => {
  const found = await service.rows<{ type: string; events: number }>(
    `select type, sum(size)::int as events from ${STORED_EVENTS}
    where broadcast_id = $1 and type like 'delivery.%' or broadcast_id = $1 and type = 'broadcast.processed'
    group by type order by type`,
    [id],
  );
  return Object.fromEntries(found.map((row) => [row.type, row.events]));
};
const pendingOf = async (id: string) =>
  (await service.rows<{ pending: number }>('select pending from broadcasts where id = $1', [id]))[0]?.pending;

describe('a replay', () => {
  test('resends failed deliveries and nothing else; the summary then has their new outcome', async () => {
    refuse('bob', 'eve');
    const id = await send(['ada', 'bob', 'eve']);
    const before = await processed(project.call, id);
    expect(before.status.summary).toEqual({ total: 3, failures: 2, pending: 0 });
    expect(before.status.errors).toHaveLength(2);
    mail.heal();
    refuse('eve');
    const response = await replay(id);
    expect([response.status, response.body]).toEqual([202, { replayed: 2 }]);
    const after = await processed(project.call, id);
    expect(after.status.summary).toEqual({ total: 3, failures: 1, pending: 0 });
    expect(after.status.errors).toEqual([
      {
        message: expect.stringContaining(
          `email to user ${await userId('eve')} (eve, e***@example.com) failed`,
        ),
      },
    ]);
    expect(mail.received.map(({ to }) => to).toSorted()).toEqual(['ada@example.com', 'bob@example.com']);
    const mailed = await list(id, 'channel=email');
    expect(mailed.map(({ state, attempts }) => [state, attempts]).toSorted()).toEqual([
      ['failed', 1],
      ['sent', 1],
      ['sent', 1],
    ]);
    expect(await events(id)).toEqual({
      'broadcast.processed': 1,
      'delivery.failed': 3,
      'delivery.replayed': 2,
      'delivery.sent': 5, // two by e-mail, three in the inbox
    });
    expect(await pendingOf(id)).toBe(0);
    expect((await replay(id)).body).toEqual({ replayed: 1 });
    expect((await processed(project.call, id)).status.summary).toEqual({ total: 3, failures: 1, pending: 0 });
  });

  test('is limited to the users and the channel in the request', async () => {
    refuse('ada', 'bob', 'eve');
    const id = await send(['ada', 'bob', 'eve']);
    await processed(project.call, id);
    mail.heal();
    expect((await replay(id, { channel: 'in_app' })).body).toEqual({ replayed: 0 });
    expect((await replay(id, { user_ids: [newId()] })).body).toEqual({ replayed: 0 });
    expect((await replay(id, { user_ids: [await userId('bob')], channel: 'sms' })).body).toEqual({
      replayed: 0,
    });
    const named = (await userId('bob')).toUpperCase();
    expect((await replay(id, { user_ids: [named, named] })).body).toEqual({ replayed: 1 });
    await processed(project.call, id);
    expect(mail.received.map(({ to }) => to)).toEqual(['bob@example.com']);
    expect((await replay(id, { channel: 'email' })).body).toEqual({ replayed: 2 });
    expect((await processed(project.call, id)).status.summary).toEqual({ total: 3, failures: 0, pending: 0 });
  });

  test('in many concurrent requests resends each delivery once', async () => {
    const names = Array.from({ length: 30 }, (_none, index) => `u${index}`);
    refuse(...names);
    const id = await send(names);
    await processed(project.call, id);
    mail.heal();
    const responses = await Promise.all([
      ...Array.from({ length: 6 }, () => replay(id)),
      ...names.slice(0, 3).map(async (name) => replay(id, { user_ids: [await userId(name)] })),
    ]);
    expect(responses.reduce((sum, { body }) => sum + body.replayed, 0)).toBe(30);
    expect((await processed(project.call, id)).status.summary).toEqual({
      total: 30,
      failures: 0,
      pending: 0,
    });
    expect(mail.received).toHaveLength(30);
    expect((await events(id))['delivery.replayed']).toBe(30);
    expect(await pendingOf(id)).toBe(0);
  });

  test('under an Idempotency-Key is done once and returns the same response', async () => {
    refuse('ada', 'bob');
    const id = await send(['ada', 'bob']);
    await processed(project.call, id);
    const headers = { 'idempotency-key': 'again' };
    const first = await replay(id, {}, headers);
    await processed(project.call, id);
    const second = await replay(id, {}, headers);
    expect([first.body, second.body]).toEqual([{ replayed: 2 }, { replayed: 2 }]);
    expect([second.status, second.headers.get('idempotency-replayed')]).toEqual([202, 'true']);
    expect((await events(id))['delivery.replayed']).toBe(2);
    expect((await replay(id, { channel: 'email' }, headers)).status).toBe(409);
  });

  test('of a broadcast that is still in flight is counted with the rest', async () => {
    const delay = () =>
      mail.fail({
        at: 'end',
        how: { reply: '451 4.3.0 Later' },
        when: ({ to }) => to === 'slow@example.com',
      });
    delay();
    refuse('bob');
    const id = await send(['slow', 'bob']);
    await until(
      () => list(id, 'channel=email'),
      (all) => ['failed', 'retrying'].every((state) => all.some((one) => one.state === state)),
    );
    mail.heal();
    delay();
    expect((await replay(id)).body).toEqual({ replayed: 1 });
    await until(
      () => list(id, 'channel=email&state=sent'),
      (all) => all.length === 1,
    );
    expect((await project.call('GET', `/broadcasts/${id}`)).body.status).toMatchObject({
      status: 'processed',
      summary: { total: 2, failures: 0, pending: 1 },
    });
    mail.heal();
    await service.rows(
      "update jobs set due_at = now() - interval '1 second' where due_at is not null and project_id = $1",
      [project.id],
    );
    expect((await processed(project.call, id)).status.summary).toEqual({ total: 2, failures: 0, pending: 0 });
    expect((await events(id))['broadcast.processed']).toBe(1);
    expect(await pendingOf(id)).toBe(0);
  });

  test('plans skipped deliveries again if the request names users', async () => {
    const off = (enabled: boolean) =>
      project.as('eve')('PUT', '/channels/user_preferences', {
        categories: [
          {
            key: 'orders',
            channels: [
              { name: 'in_app', enabled },
              { name: 'email', enabled },
            ],
          },
        ],
      });
    await off(false);
    const recipients = [person('ada'), { external_id: 'eve' }, person('joe')];
    const id = await send([], { recipients, category: 'orders' });
    await processed(project.call, id);
    const [ada, eve] = [await userId('ada'), await userId('eve')];
    expect((await list(id, 'state=skipped')).map(({ user_id, code }) => [user_id, code])).toEqual([
      [eve, 'switched_off'],
      [eve, 'switched_off'],
    ]);
    const refused = await replay(id, { state: 'skipped' });
    expect([refused.status, refused.body.errors[0].message]).toEqual([
      422,
      "Param 'user_ids' is missing: it is required with state skipped",
    ]);
    const wrongBesides = await replay(id, { state: 'skipped', channel: 'fax' });
    expect(wrongBesides.body.errors.map(({ message }: { message: string }) => message)).toEqual([
      expect.stringContaining("Param 'channel' must be one of"),
      "Param 'user_ids' is missing: it is required with state skipped",
    ]);
    expect((await replay(id, { state: 'skipped', user_ids: [ada] })).body).toEqual({ replayed: 0 });
    // The reason still applies.
    expect((await replay(id, { state: 'skipped', user_ids: [ada, eve] })).body).toEqual({ replayed: 2 });
    await processed(project.call, id);
    expect((await list(id, 'state=skipped')).map(({ code }) => code)).toEqual([
      'switched_off',
      'switched_off',
    ]);
    await off(true);
    expect((await project.as('eve')('GET', '/notifications')).body.data).toEqual([]);
    await Promise.all([
      replay(id, { state: 'skipped', user_ids: [eve], channel: 'in_app' }),
      replay(id, { state: 'skipped', user_ids: [eve], channel: 'in_app' }),
    ]);
    await processed(project.call, id);
    expect((await project.as('eve')('GET', '/notifications')).body.data).toHaveLength(1);
    expect((await list(id, 'channel=in_app')).map(({ state }) => state)).toEqual(['sent', 'sent', 'sent']);
    expect(await pendingOf(id)).toBe(0);
  });

  test('ignores attempts of the delivery from before the replay', async () => {
    refuse('ada');
    const id = await send(['ada']);
    await processed(project.call, id);
    mail.heal();
    // The replay has started and its job is pending. A worker that lost the previous job runs that once more.
    await service.rows(
      "update deliveries set state = 'retrying', attempts = 0, replays = 1 where broadcast_id = $1",
      [id],
    );
    await service.rows("update broadcasts set status = 'processing', pending = 1 where id = $1", [id]);
    const user = await userId('ada');
    const payload = {
      broadcast_id: id,
      channel: 'email',
      user_ids: [user],
      attempt: 0,
      first_attempt_ms: Date.now(),
    };
    await service.rows(
      "insert into jobs (kind, project_id, attempt, payload) values ('deliver', $1, 1, $2)",
      [project.id, JSON.stringify(payload)],
    );
    await until(
      () => service.rows('select id from jobs where project_id = $1', [project.id]),
      ({ length }) => length === 0,
    );
    expect(mail.received).toEqual([]);
    const recorder = createOutcomeRecorder(service.context);
    const outcome = (replay: number): DeliveryOutcome => ({
      projectId: project.id,
      broadcastId: id,
      userId: user,
      notificationId: notificationId(id, user),
      channel: 'email',
      replay,
      state: 'failed',
      attempts: 1,
      ...{ integrationId: null, provider: null, providerId: null, code: null, reason: 'outdated' },
      firstAttemptMs: Date.now(),
      durationMs: 1,
    });
    await recorder.report({ outcome: outcome(0) });
    expect([await pendingOf(id), await list(id, 'channel=email')]).toMatchObject([
      1,
      [{ state: 'retrying' }],
    ]);
    await Promise.all([0, 1].map((replay) => recorder.report({ outcome: outcome(replay) })));
    expect([await pendingOf(id), await list(id, 'channel=email')]).toMatchObject([0, [{ state: 'failed' }]]);
  });

  test('needs the project of the broadcast and accepts no other member', async () => {
    const id = await send(['ada']);
    await processed(project.call, id);
    const other = await service.createProject(`others ${made}`);
    expect((await other.call('POST', `/broadcasts/${id}/deliveries/replay`, {})).status).toBe(404);
    expect((await project.as('ada')('POST', `/broadcasts/${id}/deliveries/replay`, {})).status).toBe(403);
    for (const body of [{ state: 'sent' }, { user_ids: [] }, { user_ids: ['ada'] }, { all: true }])
      expect([body, (await replay(id, body)).status]).toEqual([body, 422]);
  });
});

describe('a replay of more than one batch', () => {
  const PAGES = 3;
  const ALL = PAGES * 1_000;

  /** A broadcast that reached no user on a channel. */
  async function failedBroadcast(channel: 'email' | 'in_app'): Promise<string> {
    const id = newId();
    await service.rows(
      `insert into broadcasts (id, project_id, message, status, total, failed_users)
        values ($1, $2, $3, 'processed', $4, $4)`,
      [
        id,
        project.id,
        Buffer.from('\0{"title":"T","content":null,"action_url":null,"custom_attributes":null}'),
        ALL,
      ],
    );
    for (let page = 0; page < PAGES; page += 1) {
      const users = Array.from({ length: 1_000 }, () => newId());
      await service.rows('insert into broadcast_users values ($1, $2, $3::uuid[], $4)', [
        id,
        page,
        `{${users.join(',')}}`,
        JSON.stringify([{ channel, due: 1 }]),
      ]);
      await service.rows(
        `with made as (
          insert into users (id, project_id, email, created_at, updated_at)
          select id, $1, id || '@example.com', now(), now() from unnest($3::uuid[]) as u (id)
        ),
        notified as (
          insert into notifications (user_id, id, broadcast_id, sent_at, discarded_at)
          select user_id, id, $2, now(), 'infinity' from unnest($3::uuid[], $4::uuid[]) as n (user_id, id)
        )
        insert into deliveries (user_id, notification_id, channel, broadcast_id, state, attempts, reason,
                                first_attempt_at, last_attempt_at)
        select user_id, id, $5, $2, 'failed', 1, 'was so', now(), now()
         from unnest($3::uuid[], $4::uuid[]) as f (user_id, id)`,
        [
          project.id,
          id,
          `{${users.join(',')}}`,
          `{${users.map((user) => notificationId(id, user)).join(',')}}`,
          channel,
        ],
      );
    }
    return id;
  }

  /** Each batch of a replay is a job that the one before it creates. */
  const noJobLeft = () =>
    until(
      () => service.rows('select id from jobs where project_id = $1 limit 1', [project.id]),
      (jobs) => jobs.length === 0,
    );
  const states = async (id: string) =>
    service.rows<{ state: string; count: number }>(
      'select state, count(*)::int as count from deliveries where broadcast_id = $1 group by state',
      [id],
    );

  test('continues in batches in the background, even if two are requested and all fail again', async () => {
    // There is no e-mail integration.
    const { body } = await project.call('GET', '/integrations/smtp');
    await project.call('DELETE', `/integrations/smtp?id=${body.data[0].id}`);
    const id = await failedBroadcast('email');
    const responses = await Promise.all([replay(id), replay(id, { channel: 'email' })]);
    expect(responses.map(({ status }) => status)).toEqual([202, 202]);
    expect(Math.max(...responses.map((response) => response.body.replayed))).toBe(ALL);
    await noJobLeft();
    const { status } = await processed(project.call, id);
    expect(status.summary).toEqual({ total: ALL, failures: ALL, pending: 0 });
    expect(status.errors).toHaveLength(1_001); // a thousand, and that there are more
    expect(await states(id)).toEqual([{ state: 'failed', count: ALL }]);
    // Each was replayed once and ended once.
    expect(await events(id)).toEqual({ 'delivery.failed': ALL, 'delivery.replayed': ALL });
    expect(await pendingOf(id)).toBe(0);
  });

  test('continues after a restart', async () => {
    const id = await failedBroadcast('in_app');
    expect((await replay(id)).body).toEqual({ replayed: ALL });
    await service.restart();
    await noJobLeft();
    const { status } = await processed(project.call, id);
    expect(status).toEqual({
      status: 'processed',
      summary: { total: ALL, failures: 0, pending: 0 },
      errors: null,
    });
    expect(await states(id)).toEqual([{ state: 'sent', count: ALL }]);
    expect(await events(id)).toEqual({ 'delivery.replayed': ALL, 'delivery.sent': ALL });
    expect(await pendingOf(id)).toBe(0);
  });
});
