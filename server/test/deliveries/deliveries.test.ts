import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import type { DeliveryOutcome } from '../../src/domain/line/deliver/delivery.ts';
import { writeOutcomes } from '../../src/domain/line/deliver/record.ts';
import { newId, notificationId } from '../../src/lib/ids.ts';
import { saveSmtp } from '../support/faults.ts';
import { listPages } from '../support/pages.ts';
import {
  type Caller,
  processed,
  startTestService,
  type TestProject,
  type TestService,
  until,
} from '../support/service.ts';
import { type SmtpStandIn, startSmtpStandIn } from '../support/smtp-stand-in.ts';

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
  project = await service.createProject(`deliveries ${made}`);
});

const withMail = () => saveSmtp(project, mail);
const configure = async (channels: object[]) => {
  expect((await project.call('PUT', '/channels', { key: 'orders', channels })).status).toBe(200);
};
const send = async (body: object): Promise<string> => {
  const sent = await project.call('POST', '/broadcasts', { title: 'Hello', category: 'orders', ...body });
  expect([sent.status, sent.body.errors]).toEqual([201, undefined]);
  return sent.body.id;
};
const person = (name: string) => ({ external_id: name, email: `${name}@example.com` });
const bringForward = () =>
  service.rows(
    "update jobs set due_at = now() - interval '1 second' where due_at is not null and project_id = $1",
    [project.id],
  );

test('jobs of a broadcast that was deleted end at the first attempt and store nothing', async () => {
  await withMail();
  await project.call('PUT', '/users', person('late'));
  const [user] = await service.rows<{ id: string }>('select id from users where project_id = $1', [
    project.id,
  ]);
  const broadcastId = newId();
  const about = { broadcast_id: broadcastId, user_ids: [user?.id], attempt: 0, first_attempt_ms: Date.now() };
  await service.rows(
    `insert into jobs (kind, project_id, payload)
    select 'deliver', $1, $2::jsonb || jsonb_build_object('channel', channel)
    from unnest(array['email', 'sms', 'in_app']) as c (channel)`,
    [project.id, JSON.stringify(about)],
  );
  const left = () =>
    service.rows<{ attempt: number }>('select attempt from jobs where project_id = $1', [project.id]);
  await until(left, (jobs) => jobs.length === 0 || jobs.some(({ attempt }) => attempt > 1));
  expect(await left()).toEqual([]);
  expect(await service.rows('select state from deliveries where broadcast_id = $1', [broadcastId])).toEqual(
    [],
  );
});

test('nothing is stored about deliveries in flight when their broadcast was deleted', async () => {
  const kept = await send({ recipients: [person('late')] });
  await processed(project.call, kept);
  await service.rows("update broadcasts set status = 'processing', pending = 2 where id = $1", [kept]);
  const [user] = await service.rows<{ id: string }>('select id from users where project_id = $1', [
    project.id,
  ]);
  const deleted = newId();
  const outcomes = [deleted, kept].map(
    (broadcastId): DeliveryOutcome => ({
      projectId: project.id,
      broadcastId,
      userId: user?.id ?? '',
      notificationId: notificationId(broadcastId, user?.id ?? ''),
      channel: 'email',
      state: 'sent',
      attempts: 1,
      ...{ integrationId: null, provider: 'smtp', providerId: null, code: null, reason: null },
      firstAttemptMs: Date.now(),
      durationMs: 1,
    }),
  );
  const { db, addressKeys } = service.context;
  const recorded = await db.transaction((tx) =>
    writeOutcomes({ tx, addressKeys, isRepeat: false }, outcomes, []),
  );
  expect(recorded.map(({ broadcastId }) => broadcastId)).toEqual([kept]);
  const written = 'select broadcast_id from deliveries where broadcast_id = any ($1::uuid[])';
  expect(await service.rows(written, [[deleted, kept]])).toEqual([{ broadcast_id: kept }]);
  const events =
    "select broadcast_id from events where type = 'delivery.sent' and broadcast_id = any ($1::uuid[]) " +
    "and details->'context'->>'channel' is distinct from 'in_app'";
  expect(await service.rows(events, [[deleted, kept]])).toEqual([{ broadcast_id: kept }]);
  expect(await service.rows('select pending from broadcasts where id = $1', [kept])).toEqual([
    { pending: 1 },
  ]);
});

interface Listed {
  id: string;
  user_id: string;
  channel: string;
  state: string;
  code: string | null;
}

/** The whole list, page by page, in the direction of its links. */
async function listed(
  id: string,
  query = 'limit=100',
  { call = project.call, direction = 'next' }: { call?: Caller; direction?: 'next' | 'prev' } = {},
): Promise<Listed[]> {
  const found = await listPages<Listed>(call, `/broadcasts/${id}/deliveries?${query}`, direction);
  return (direction === 'next' ? found : found.toReversed()).flat();
}

const namesOf = (list: readonly Listed[]) => list.map(({ id }) => id);

/** The external ids of a broadcast's users, by user id. */
async function namesByUser(): Promise<Map<string, string>> {
  const found = await service.rows<{ id: string; external_id: string }>(
    'select id, external_id from users where project_id = $1',
    [project.id],
  );
  return new Map(found.map((row) => [row.id, row.external_id]));
}

async function states(id: string, query?: string): Promise<string[]> {
  const names = await namesByUser();
  const list = await listed(id, query);
  return list
    .map(({ user_id, channel, state, code }) =>
      [names.get(user_id), channel, state, code].filter((part) => part !== null).join(' '),
    )
    .toSorted();
}

describe('the deliveries of a broadcast', () => {
  test('on the in-app channel alone are its notifications', async () => {
    const id = await send({ recipients: [person('ada'), person('bob')] });
    await processed(project.call, id);
    const [row] = await service.rows<{ sent_at: Date; user_id: string; id: string }>(
      'select sent_at, user_id, id from notifications where broadcast_id = $1 order by user_id limit 1',
      [id],
    );
    const { body } = await project.call('GET', `/broadcasts/${id}/deliveries`);
    expect(body.links).toEqual({
      first: expect.stringContaining(`/broadcasts/${id}/deliveries`),
      next: null,
      prev: null,
    });
    expect(body.data).toHaveLength(2);
    expect(body.data[0]).toEqual({
      id: `${row?.id}.in_app`,
      notification_id: row?.id,
      broadcast_id: id,
      user_id: row?.user_id,
      user: { external_id: 'ada', email: 'a***@example.com' },
      channel: 'in_app',
      state: 'sent',
      code: null,
      reason: null,
      provider: 'service',
      integration_id: null,
      provider_id: null,
      attempts: 1,
      replays: 0,
      targets: null,
      due_at: null,
      first_attempt_at: row?.sent_at.toISOString(),
      last_attempt_at: row?.sent_at.toISOString(),
      receipt: null,
      receipt_at: null,
      opened_at: null,
      opens: 0,
      clicked_at: null,
      clicks: 0,
    });
  });

  test('have the outcome of each channel, or the reason why it was skipped', async () => {
    await withMail();
    mail.fail({
      at: 'rcpt',
      how: { reply: '550 5.1.1 No such user' },
      when: ({ to }) => to === 'bob@example.com',
    });
    await project.as('eve')('PUT', '/channels/user_preferences', {
      categories: [{ key: 'orders', channels: [{ name: 'email', enabled: false }] }],
    });
    await project.as('joe')('PUT', '/channels/user_preferences', {
      categories: [{ key: 'orders', channels: [{ name: 'in_app', enabled: false }] }],
    });
    const id = await send({
      recipients: [person('ada'), person('bob'), person('eve'), person('joe'), { external_id: 'max' }],
    });
    await processed(project.call, id);
    const all = [
      'ada email sent',
      'ada in_app sent',
      expect.stringMatching(/^bob email failed/),
      'bob in_app sent',
      'eve email skipped switched_off',
      'eve in_app sent',
      'joe email sent',
      'joe in_app skipped switched_off',
      'max email skipped unreachable',
      'max in_app sent',
    ];
    expect(await states(id)).toEqual(all);
    expect(await states(id, 'state=skipped')).toEqual([all[4], all[7], all[8]]);
    expect(await states(id, 'state=failed')).toEqual([all[2]]);
    expect(await states(id, 'state=sent&channel=email')).toEqual([all[0], all[6]]);
    expect(await states(id, 'channel=in_app&state=skipped')).toEqual([all[7]]);
    expect(await states(id, 'channel=sms')).toEqual([]);
    const { data } = (await project.call('GET', `/broadcasts/${id}/deliveries?state=failed`)).body;
    expect(data[0]).toMatchObject({
      provider: 'smtp',
      attempts: 1,
      reason: expect.stringContaining('No such user'),
      first_attempt_at: expect.any(String),
      integration_id: expect.any(String),
    });
    const skipped = (await listed(id, 'state=skipped&channel=email')).map(({ code }) => code);
    expect(skipped.toSorted()).toEqual(['switched_off', 'unreachable']);
    const passedOver = (await project.call('GET', `/broadcasts/${id}/deliveries?state=skipped`)).body.data;
    for (const one of passedOver) expect(one).toMatchObject({ attempts: 0, first_attempt_at: null });
  });

  test('are scheduled while they wait, with the time when they are due', async () => {
    await withMail();
    await configure([
      { channel: 'in_app' },
      { channel: 'email', delay: 900, if: '{{notification.unseen}} == true' },
    ]);
    const id = await send({ recipients: [person('ada'), person('bob')] });
    await until(
      () => states(id),
      (list) => list.length === 4,
    );
    expect(await states(id)).toEqual([
      'ada email scheduled',
      'ada in_app sent',
      'bob email scheduled',
      'bob in_app sent',
    ]);
    const [waiting] = (await project.call('GET', `/broadcasts/${id}/deliveries?state=scheduled`)).body.data;
    const waitMs = Date.parse(waiting.due_at) - service.context.clock.now();
    expect(waitMs).toBeGreaterThan(880_000);
    expect(waitMs).toBeLessThanOrEqual(900_000);
    expect(waiting).toMatchObject({
      attempts: 0,
      first_attempt_at: null,
      last_attempt_at: null,
      provider: null,
    });
    await project.as('bob')('POST', '/notifications/seen');
    await bringForward();
    await processed(project.call, id);
    expect(await states(id, 'channel=email')).toEqual([
      'ada email sent',
      'bob email skipped condition_false',
    ]);
    expect(await states(id, 'state=scheduled')).toEqual([]);
    const [skipped] = (await project.call('GET', `/broadcasts/${id}/deliveries?state=skipped`)).body.data;
    expect(skipped).toMatchObject({
      attempts: 0,
      first_attempt_at: null,
      last_attempt_at: expect.any(String),
    });
  });

  test('count the attempts that were made, but not one that found a changed preference', async () => {
    await withMail();
    mail.fail({ at: 'rcpt', how: { reply: '451 4.3.0 Later' } });
    const suppress = async (email: string) =>
      expect((await project.call('PUT', '/suppressions', { email })).status).toBe(200);
    await suppress('eve@example.com');
    const id = await send({ recipients: [person('ada'), person('bob'), person('eve')] });
    await until(
      () => states(id, 'channel=email&state=retrying'),
      (list) => list.length === 2,
    );
    await project.as('ada')('PUT', '/channels/user_preferences', {
      categories: [{ key: 'orders', channels: [{ name: 'email', enabled: false }] }],
    });
    await suppress('bob@example.com');
    await bringForward();
    await processed(project.call, id);
    const names = await namesByUser();
    const { data } = (await project.call('GET', `/broadcasts/${id}/deliveries?channel=email`)).body;
    const retried = (await project.call('GET', '/events?type=delivery.retried&limit=100')).body.data;
    const triesOf = (userId: string) =>
      retried.filter(({ context }: { context: { user_id: string } }) => context.user_id === userId).length;
    for (const one of data)
      expect(one).toMatchObject({
        state: 'skipped',
        code: names.get(one.user_id) === 'ada' ? 'switched_off' : 'address_suppressed',
        attempts: triesOf(one.user_id),
        first_attempt_at: triesOf(one.user_id) === 0 ? null : expect.any(String),
        last_attempt_at: expect.any(String),
      });
    const tried = data.filter(({ attempts }: { attempts: number }) => attempts > 0);
    expect(tried.map((one: Listed) => names.get(one.user_id)).toSorted()).toEqual(['ada', 'bob']);
  });

  test('fail if the channel has no integration any more when they are tried again', async () => {
    await withMail();
    mail.fail({ at: 'rcpt', how: { reply: '451 4.3.0 Later' } });
    const id = await send({ recipients: [person('ada')] });
    await until(
      () => states(id, 'channel=email&state=retrying'),
      (list) => list.length === 1,
    );
    await project.call('DELETE', '/integrations/smtp');
    await bringForward();
    await until(
      () => states(id, 'channel=email'),
      ([state = '']) => !state.includes('retrying'),
    );
    expect(await states(id, 'channel=email')).toEqual(['ada email failed no_integration']);
  });

  test('that the inbox shows later are listed once', async () => {
    await configure([{ channel: 'in_app', delay: 60 }]);
    const id = await send({ recipients: [person('ada')] });
    await until(
      () => states(id),
      (list) => list.length > 0,
    );
    expect(await states(id)).toEqual(['ada in_app scheduled']);
    await bringForward();
    await processed(project.call, id);
    expect(await states(id)).toEqual(['ada in_app sent']);
  });

  test('are visible only to their project and under their own id', async () => {
    const id = await send({ recipients: [person('ada')] });
    await processed(project.call, id);
    const other = await service.createProject(`others ${made}`);
    expect((await other.call('GET', `/broadcasts/${id}/deliveries`)).status).toBe(404);
    expect((await project.call('GET', `/broadcasts/${newId()}/deliveries`)).status).toBe(404);
    expect((await project.as('ada')('GET', `/broadcasts/${id}/deliveries`)).status).toBe(403);
    const [delivery] = await listed(id);
    const path = `/notifications/${delivery?.id.replace('.in_app', '')}/deliveries`;
    expect((await other.call('GET', path)).status).toBe(404);
    expect((await project.as('ada')('GET', path)).status).toBe(403);
    expect((await project.call('GET', `/notifications/${newId()}/deliveries`)).status).toBe(404);
    expect(
      (await project.call('GET', `/notifications/${notificationId(id, newId())}/deliveries`)).status,
    ).toBe(404);
    expect((await project.call('GET', path)).body.data).toEqual([delivery]);
  });

  test('reject two cursors, also for a broadcast that is unknown', async () => {
    const known = await send({ recipients: [person('ada')] });
    // A server ends if a promise that nothing awaits rejects: here, the one that looks the broadcast up.
    for (const id of [known, newId()]) {
      const cursors = `starting_after=${newId()}.email&ending_before=${newId()}.email`;
      const response = await project.call('GET', `/broadcasts/${id}/deliveries?${cursors}`);
      expect([response.status, response.body.errors[0].message]).toEqual([
        422,
        "Param 'ending_before' cannot be combined with 'starting_after'",
      ]);
    }
  });

  test('reject a cursor that is an id, but not of this list', async () => {
    const id = await send({ recipients: [person('ada')] });
    await processed(project.call, id);
    const stranger = `${notificationId(id, newId())}.in_app`;
    for (const param of ['starting_after', 'ending_before']) {
      const refused = await project.call('GET', `/broadcasts/${id}/deliveries?${param}=${stranger}`);
      expect([refused.status, refused.body.errors[0].message]).toEqual([
        422,
        `Param '${param}' is not the id of a delivery of this broadcast`,
      ]);
    }
    for (const wrong of ['1', 'in_app', `${newId()}.`, `x-${newId()}.email`]) {
      const response = await project.call('GET', `/broadcasts/${id}/deliveries?ending_before=${wrong}`);
      expect([wrong, response.status, response.body.errors]).toMatchObject([
        wrong,
        422,
        [{ message: "Param 'ending_before' is not the id of a record" }],
      ]);
    }
  });
});

describe('the list of a large broadcast', () => {
  const CHANNELS_OF_EACH = 2;
  const PAGES = 7;
  const USERS = 60;

  /**
   * Stores pages of users as a broadcast to a topic does: named users first, then subscribers. One in ten is
   * unreachable, and some deliveries failed.
   */
  async function topicBroadcast(): Promise<{ id: string; expected: string[]; users: string[] }> {
    const id = newId();
    await service.rows(
      `insert into broadcasts (id, project_id, message, status) values ($1, $2, $3, 'processed')`,
      [id, project.id, Buffer.from('\0{"title":"T"}')],
    );
    const users: string[] = [];
    const expected: string[] = [];
    for (let page = 0; page < PAGES; page += 1) {
      const some = Array.from({ length: page === 3 ? 1 : USERS }, () => newId()).sort();
      const plan = [
        { channel: 'in_app' },
        { channel: 'email', due: Date.now(), ...(page === 5 ? { skipped: { unreachable: true } } : {}) },
      ];
      await service.rows('insert into broadcast_users values ($1, $2, $3, $4)', [
        id,
        page,
        some,
        JSON.stringify(plan),
      ]);
      users.push(...some);
      for (const user of some)
        for (const { channel } of plan) expected.push(`${notificationId(id, user)}.${channel}`);
    }
    const failed = users.filter((_user, index) => index % 9 === 4);
    await service.rows(
      `insert into deliveries (user_id, notification_id, channel, broadcast_id, state, attempts,
                              first_attempt_at, last_attempt_at)
      select user_id, notification_id, 'email', $1, 'failed', 1, now(), now()
       from unnest($2::uuid[], $3::uuid[]) as f (user_id, notification_id)`,
      [id, failed, failed.map((user) => notificationId(id, user))],
    );
    return { id, expected, users };
  }

  test('shows each delivery once, in one order, for every page size and direction', async () => {
    const { id, expected } = await topicBroadcast();
    expect(expected).toHaveLength((USERS * (PAGES - 1) + 1) * CHANNELS_OF_EACH);
    for (const limit of [23, 100]) expect(namesOf(await listed(id, `limit=${limit}`))).toEqual(expected);
    const last = expected.at(-1);
    const back = await listed(id, `limit=37&ending_before=${last}`, { direction: 'prev' });
    expect(namesOf(back)).toEqual(expected.slice(0, -1));
    const end = '00000000-0000-0000-0000-000000000000';
    expect(namesOf(await listed(id, `limit=100&ending_before=${end}`, { direction: 'prev' }))).toEqual(
      expected,
    );
  });

  test('continues after and before any id, even one that no link contained', async () => {
    const { id, expected } = await topicBroadcast();
    for (const at of [0, 1, 119, 120, 360, 361, 362, expected.length - 1]) {
      const after = (
        await project.call('GET', `/broadcasts/${id}/deliveries?limit=5&starting_after=${expected[at]}`)
      ).body;
      expect(namesOf(after.data)).toEqual(expected.slice(at + 1, at + 6));
      const before = (
        await project.call('GET', `/broadcasts/${id}/deliveries?limit=5&ending_before=${expected[at]}`)
      ).body;
      expect(namesOf(before.data)).toEqual(expected.slice(Math.max(0, at - 5), at));
    }
  });

  test('can be filtered by states and channels, in both directions', async () => {
    const { id, expected } = await topicBroadcast();
    const all = await listed(id);
    expect(namesOf(all)).toEqual(expected);
    for (const state of [undefined, 'scheduled', 'sent', 'failed', 'skipped', 'retrying'])
      for (const channel of [undefined, 'email', 'in_app', 'teams']) {
        const parameter = (name: string, value?: string) => (value === undefined ? '' : `&${name}=${value}`);
        const query = `limit=40${parameter('state', state)}${parameter('channel', channel)}`;
        const wanted = all.filter(
          (one) => (state ?? one.state) === one.state && (channel ?? one.channel) === one.channel,
        );
        const found = await listed(id, query);
        // The list of failed deliveries is sorted by user id alone; page after page is sorted like that here,
        // too.
        expect([query, namesOf(found)]).toEqual([query, namesOf(wanted)]);
        const end = '00000000-0000-0000-0000-000000000000';
        const back = await listed(id, `${query}&ending_before=${end}`, { direction: 'prev' });
        expect([query, namesOf(back)]).toEqual([query, namesOf(wanted)]);
      }
  });
});
