import { createHmac } from 'node:crypto';
import { afterAll, beforeAll, beforeEach, describe, expect, onTestFinished, test } from 'vitest';
import { startService } from '../../src/app.ts';
import { type Queryable, sql } from '../../src/db/client.ts';
import { purgeExpired } from '../../src/domain/after/erasure/retention.ts';
import { recordEvents } from '../../src/domain/ground/events/record.ts';
import { startTestService, type TestProject, type TestService, until } from '../support/service.ts';
import { ended, inState, runOf, STATE, type StepOfTest, startRun, stepsOf } from '../support/workflows.ts';

let service: TestService;
let project: TestProject;
let made = 0;

beforeAll(async () => {
  service = await startTestService({ pollMs: 50 });
});
afterAll(() => service?.stop());
beforeEach(async () => {
  made += 1;
  project = await service.createProject(`triggered ${made}`);
});

const ADA = { user: { external_id: 'ada' } };
const hello = { command: 'broadcast', input: { title: 'Hello' } };
const set = { command: 'set', input: { done: true } };
const waitFor = (event: string, input: object = {}) => ({
  command: 'wait_for',
  input: { event, timeout: 3_600, ...input },
});
const save = async (key: string, triggers: object[], steps: StepOfTest[] = [set]) => {
  const { status, messages } = await project.call('PUT', '/workflows', { key, triggers, steps });
  expect([status, messages]).toEqual([200, []]);
};
const runs = async (key: string): Promise<{ id: string; user_id?: string }[]> =>
  (await project.call('GET', `/workflows/${key}/runs?limit=100`)).body.data;
/** Waits until a workflow has so many runs, and returns them with their inputs, oldest first. */
const started = async (key: string, count: number) => {
  const found = await until(
    () => runs(key),
    ({ length }) => length >= count,
  );
  expect(found).toHaveLength(count);
  return Promise.all(found.toReversed().map(({ id }) => runOf(project, id)));
};
const putUser = async (name: string, members: object = {}) => {
  const { body } = await project.call('PUT', '/users', { external_id: name, ...members });
  return body.id;
};
const post = async (event: object) => (await project.call('POST', '/workflows/events', event)).body;
/** Waits until the reader has read all events so far. */
const readAll = () =>
  until(
    () =>
      service.rows(`select from workflow_feeds f join events e using (project_id)
          where (e.xact, e.id) > (f.feed_xact, f.feed_id)`),
    ({ length }) => length === 0,
  );
const inbox = async (user: string): Promise<{ id: string; title: string }[]> =>
  (await project.as(user)('GET', '/notifications')).body.data;
const titles = async (user: string) => (await inbox(user)).map(({ title }) => title);
const prevented = async () =>
  (await project.call('GET', '/events?type=workflow.run.prevented&limit=100')).body.data;

describe('an event of Belfry', () => {
  test('starts a run about its user, with the event as input', async () => {
    await save('welcome', [{ event: 'user.created' }], [hello]);
    const id = await putUser('ada');
    const [run] = await started('welcome', 1);
    expect(run).toMatchObject({
      user_id: id,
      input: { type: 'user.created', context: { user_id: id }, user: { id }, timestamp: expect.any(String) },
    });
    await expect.poll(() => titles('ada')).toEqual(['Hello']);
  });

  test('starts a run for each of its users, and each workflow with a trigger that accepts it', async () => {
    await save('all', [{ event: 'notification.created' }]);
    await save('urgent', [
      { event: 'notification.created', if: 'event.context.user_id == "none"' },
      { event: 'user.deleted' },
      { event: 'notification.created', if: 'event.type.startsWith("notification")' },
      { event: 'notification.created' },
    ]);
    await save('none', [{ event: 'notification.created', if: 'event.nothing > 1' }]);
    const recipients = Array.from({ length: 30 }, (_, n) => ({ external_id: `user-${n}` }));
    await project.call('POST', '/broadcasts', { title: 'Hi', recipients });
    const [all, urgent] = [await started('all', 30), await started('urgent', 30)];
    for (const list of [all, urgent])
      expect(new Set(list.map((run) => run.input.context.user_id)).size).toBe(30);
    expect(await runs('none')).toEqual([]);
  });

  test('starts nothing before the trigger is saved, while disabled, and after it is deleted', async () => {
    await putUser('early');
    await save('flow', [{ event: 'user.created' }]);
    const ids = [await putUser('first')];
    await started('flow', 1);
    await project.call('PUT', '/workflows', {
      key: 'flow',
      disabled: true,
      triggers: [{ event: 'user.created' }],
      steps: [set],
    });
    await putUser('second');
    await readAll();
    await save('flow', [{ event: 'user.created' }]);
    ids.push(await putUser('third'));
    await started('flow', 2);
    await project.call('DELETE', '/workflows/flow');
    await save('other', [{ event: 'user.created' }]);
    await putUser('fourth');
    await started('other', 1);
    expect((await started('flow', 2)).map((run) => run.input.user.id)).toEqual(ids);
  });

  test('of another project starts nothing', async () => {
    await save('flow', [{ event: 'user.created' }]);
    const other = await service.createProject(`other ${made}`);
    await other.call('PUT', '/users', { external_id: 'eve' });
    const id = await putUser('ada');
    const [run] = await started('flow', 1);
    expect(run.user_id).toBe(id);
  });

  test('starts runs of a project although those of another one cannot be read', async () => {
    const { db } = service.context;
    const both = [project, await service.createProject('beside a failing one')];
    const [failing, other] = both.toSorted((a, b) => (a.id < b.id ? -1 : 1)) as [TestProject, TestProject];
    // Each reading of the events of this project fails. The other one comes behind it.
    await db.query(
      sql('', "create function fail() returns trigger language plpgsql as $$begin raise 'broken'; end$$"),
    );
    await db.query(
      sql(
        '',
        `create trigger fail before update on workflow_feeds for each row
        when (old.project_id = '${failing.id}') execute function fail()`,
      ),
    );
    onTestFinished(async () => void (await db.query(sql('', 'drop function fail cascade'))));
    for (project of [failing, other]) {
      await save('flow', [{ event: 'user.created' }]);
      await putUser('ada');
    }
    await started('flow', 1);
    project = failing;
    await started('flow', 0);
  });

  test('starts each run once over two servers and a restart', async () => {
    await save('flow', [{ event: 'user.created' }], [hello]);
    const { config, log } = service.context;
    const second = await startService(config, { log, pollMs: 50 });
    onTestFinished(second.stop);
    const create = (from: number) =>
      Promise.all(Array.from({ length: 100 }, (_, n) => putUser(`user-${from + n}`)));
    await create(0);
    await service.restart();
    await create(100);
    const { db } = service.context;
    const rows = () =>
      db.query(sql('', 'select user_id from workflow_runs where project_id = $1'), [project.id]);
    await expect.poll(async () => (await rows()).length).toBe(200);
    await readAll();
    const counted = await db.query(
      sql(
        '',
        `select count(distinct user_id)::int as users, count(*)::int as runs
        from workflow_runs
        where project_id = $1`,
      ),
      [project.id],
    );
    expect(counted).toEqual([{ users: 200, runs: 200 }]);
  });

  test('is not read any more when no workflow needs it', async () => {
    const feeds = () => service.rows('select from workflow_feeds where project_id = $1', [project.id]);
    await putUser('ada');
    expect(await feeds()).toEqual([]);
    await save('flow', [{ event: 'user.created' }]);
    expect(await feeds()).toHaveLength(1);
    await save('flow', []);
    await putUser('bob');
    await expect.poll(feeds).toEqual([]);
  });
});

describe('a run that waits for an event of Belfry', () => {
  test('continues when its user sees the notification that it has sent', async () => {
    const steps = [
      hello,
      waitFor('notification.seen'),
      { command: 'set', input: { seen: '{{ notification.seen }}' } },
    ];
    const [id, other] = [
      await startRun(project, steps, ADA),
      await startRun(project, steps, { user: { external_id: 'bob' } }),
    ];
    await inState(project, id, STATE.waiting);
    await inState(project, other, STATE.waiting);
    // An event of another notification of the user.
    await project.call('POST', '/broadcasts', { title: 'Other', recipients: [{ external_id: 'ada' }] });
    await expect.poll(() => titles('ada')).toEqual(['Other', 'Hello']);
    const [second, first] = await inbox('ada');
    await project.as('ada')('POST', `/notifications/${second?.id}/seen`);
    await readAll();
    expect((await runOf(project, id)).status.state).toBe(STATE.waiting);
    await project.as('ada')('POST', `/notifications/${first?.id}/seen`);
    const run = await ended(project, id);
    expect(run.steps).toMatchObject([
      {},
      { output: { event: { type: 'notification.seen', context: { notification_id: first?.id } } } },
      { output: { seen: 'true' } },
    ]);
    expect((await runOf(project, other)).status.state).toBe(STATE.waiting);
  });

  test.each([
    ['reads', 'POST', (id: string) => `/notifications/${id}/read`, undefined],
    ['reads all', 'POST', () => '/notifications/read', undefined],
    ['snoozes', 'POST', (id: string) => `/notifications/${id}/snooze`, { until: '+1 day' }],
  ])('continues when its user %s an unseen notification', async (_, method, path, given) => {
    const id = await startRun(project, [hello, waitFor('notification.seen')], ADA);
    await inState(project, id, STATE.waiting);
    await expect.poll(() => titles('ada')).toEqual(['Hello']);
    const [notification] = await inbox('ada');
    const body = given && { until: new Date(Date.now() + 86_400_000).toISOString() };
    const seeing = () => project.as('ada')(method, path(notification?.id ?? ''), body);
    expect((await seeing()).status).toBeLessThan(300);
    const { steps } = await ended(project, id);
    expect(steps[1].output.event.type).toBe('notification.seen');
    await project.as('ada')('POST', `/notifications/${notification?.id}/unread`);
    await seeing();
    expect((await project.call('GET', '/events?type=notification.seen')).body.data).toHaveLength(1);
  });

  test('misses none that comes while it begins to wait', async () => {
    // The inbox has the notification before the run has recorded that it waits.
    await project.call('PUT', '/workflows', { key: 'flow', steps: [hello, waitFor('delivery.sent')] });
    for (let round = 0; round < 3; round += 1) {
      const inputs = Array.from({ length: 100 }, (_, n) => ({ user: { external_id: `user-${n}` } }));
      const { body } = await project.call('POST', '/workflows/runs/bulk', { key: 'flow', inputs });
      for (const id of body.ids.slice(0, 5)) await ended(project, id);
    }
    await expect
      .poll(async () => {
        const { body } = await project.call('GET', '/workflows/flow/runs?state=2');
        return body.data.length;
      })
      .toBe(0);
  });

  test('continues with an event that was written before it waits, and committed after', async () => {
    const ada = await putUser('ada');
    const id = await service.context.db.transaction(async (tx) => {
      await recordEvents(tx, [{ projectId: project.id, type: 'user.updated', userIds: [ada] }]);
      const run = await startRun(project, [waitFor('user.updated')], ADA);
      await inState(project, run, STATE.waiting);
      return run;
    });
    expect((await ended(project, id)).steps[0].output.event.type).toBe('user.updated');
  });

  test('does not continue with an event that was committed before it waits, and is read after', async () => {
    const ada = await putUser('ada');
    const update = (on: Queryable, code: string) =>
      recordEvents(on, [{ projectId: project.id, type: 'user.updated', userIds: [ada], details: { code } }]);
    // The feed is read from now on.
    await inState(project, await startRun(project, [waitFor('token.saved')], {}, 'other'), STATE.waiting);
    const id = await service.context.db.transaction(async (open) => {
      // Events of later transactions are not read before this one ends.
      await recordEvents(open, [{ projectId: project.id, type: 'user.created', userIds: [ada] }]);
      await update(service.context.db, 'before');
      const run = await startRun(project, [set, waitFor('user.updated')], ADA);
      await inState(project, run, STATE.waiting);
      return run;
    });
    await readAll();
    expect((await runOf(project, id)).status.state).toBe(STATE.waiting);
    await update(service.context.db, 'after');
    expect((await ended(project, id)).steps[1].output.event.context.code).toBe('after');
  });

  test('does not continue with an event of the turn in which it began to wait', async () => {
    const id = await startRun(project, [set, waitFor('workflow.run.step')], ADA);
    await inState(project, id, STATE.waiting);
    await readAll();
    expect((await runOf(project, id)).status.state).toBe(STATE.waiting);
    await startRun(project, [set], ADA, 'other');
    expect((await ended(project, id)).steps[1].output.event.payload.run_id).not.toBe(id);
  });

  test('continues at once if the event came shortly before', async () => {
    const steps = [hello, { command: 'pause' }, waitFor('notification.read')];
    const id = await startRun(project, steps, ADA);
    await inState(project, id, STATE.waiting);
    await expect.poll(() => titles('ada')).toEqual(['Hello']);
    const [notification] = await inbox('ada');
    await project.as('ada')('POST', `/notifications/${notification?.id}/read`);
    await project.call('POST', `/workflows/runs/${id}/resume`);
    expect(stepsOf(await ended(project, id)).at(-1)).toBe('2 wait_for completed');
  });

  test('continues with an event of its user that has no notification, after a restart', async () => {
    const id = await startRun(project, [waitFor('user.updated', { if: 'event.user.id == user.id' })], ADA);
    await inState(project, id, STATE.waiting);
    await service.restart();
    await putUser('bob', { first_name: 'Bob' });
    await putUser('bob', { first_name: 'Bobby' });
    await readAll();
    expect((await runOf(project, id)).status.state).toBe(STATE.waiting);
    await putUser('ada', { first_name: 'Ada' });
    expect((await ended(project, id)).steps[0].output.event.type).toBe('user.updated');
  });

  test('without a user continues with an event of any user', async () => {
    const id = await startRun(project, [waitFor('user.created', { if: 'event.context.user_id != null' })]);
    await inState(project, id, STATE.waiting);
    const ada = await putUser('ada');
    expect((await ended(project, id)).steps[0].output.event.context.user_id).toBe(ada);
  });
});

describe('a posted event', () => {
  test('starts runs with the event as input, and creates its user', async () => {
    await save('signup', [{ event: 'user.signed_up', if: 'event.data.plan == "pro"' }], [hello]);
    expect(await post({ name: 'user.signed_up', ...ADA, data: { plan: 'free' } })).toEqual({
      continued: 0,
      started: 0,
    });
    const event = { name: 'user.signed_up', ...ADA, data: { plan: 'pro' } };
    expect(await post(event)).toEqual({ continued: 0, started: 1 });
    const [run] = await started('signup', 1);
    expect(run.input).toEqual(event);
    await expect.poll(() => titles('ada')).toEqual(['Hello']);
  });

  test('starts runs whatever the names of its members are', async () => {
    await save('plan', [{ event: 'user.upgraded', if: "event.data.plan == 'pro'" }]);
    const data = { plan: 'pro', constructor: { constructor: null } };
    expect(await post({ name: 'user.upgraded', data })).toMatchObject({ started: 1 });
  });

  test('continues runs that wait, and does not continue those that it starts', async () => {
    await save('flow', [{ event: 'ping' }], [waitFor('ping'), set]);
    expect(await post({ name: 'ping', ...ADA })).toEqual({ continued: 0, started: 1 });
    const [run] = await started('flow', 1);
    await inState(project, run.id, STATE.waiting);
    expect(await post({ name: 'ping', ...ADA })).toEqual({ continued: 1, started: 1 });
    await ended(project, run.id);
  });
});

describe('a webhook of a vendor', () => {
  const SECRET = 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw';
  let delivered = 0;

  const integration = async () => {
    const { status, body } = await project.call('PUT', '/integrations/eventsource', {
      source: 'shop',
      webhook_signing_secret: SECRET,
    });
    expect(status).toBe(200);
    const { body: list } = await project.call('GET', '/integrations');
    return body.id ?? list.data[0].id;
  };
  const deliver = async (id: string, payload: object, delivery = `msg_${made}_${delivered}`) => {
    delivered += 1;
    const body = JSON.stringify(payload);
    const time = String(Math.floor(Date.now() / 1_000));
    const key = Buffer.from(SECRET.replace('whsec_', ''), 'base64');
    const signature = createHmac('sha256', key).update(`${delivery}.${time}.${body}`).digest('base64');
    const { status } = await service.request('POST', `/v2/integrations/eventsource/webhooks/incoming/${id}`, {
      raw: body,
      headers: {
        'content-type': 'application/json',
        'webhook-id': delivery,
        'webhook-timestamp': time,
        'webhook-signature': `v1,${signature}`,
      },
    });
    expect(status).toBe(201);
  };

  test('starts the workflow of its name once, however often it is delivered', async () => {
    const id = await integration();
    await save('integration.eventsource.order_paid_1', [], [hello]);
    const payload = { type: 'order/paid 1', ...ADA, data: { order: 7 } };
    await Promise.all([1, 2, 3].map(() => deliver(id, payload, 'msg_once')));
    await deliver(id, { type: 'order/sent', ...ADA });
    const [run] = await started('integration.eventsource.order_paid_1', 1);
    expect(run.input).toEqual(payload);
    await expect.poll(() => titles('ada')).toEqual(['Hello']);
  });

  test('of GitHub starts the workflow of its event', async () => {
    const secret = 'a-secret-of-github';
    const saved = await project.call('PUT', '/integrations/github', { webhook_signing_secret: secret });
    expect(saved.status).toBe(200);
    const { body: list } = await project.call('GET', '/integrations/github');
    await save('integration.github.push', [], [hello]);
    const payload = { ref: 'refs/heads/main', ...ADA };
    const body = JSON.stringify(payload);
    const { status } = await service.request(
      'POST',
      `/v2/integrations/github/webhooks/incoming/${list.data[0].id}`,
      {
        raw: body,
        headers: {
          'content-type': 'application/json',
          'x-github-event': 'push',
          'x-github-delivery': `github-${made}`,
          'x-hub-signature-256': `sha256=${createHmac('sha256', secret).update(body).digest('hex')}`,
        },
      },
    );
    expect(status).toBe(201);
    const [run] = await started('integration.github.push', 1);
    expect(run.input).toEqual(payload);
  });

  const startedEvents = async () =>
    (await project.call('GET', '/events?type=workflow.run.started')).body.data;

  test('starts a run of the user of its external id, which can be a number', async () => {
    const webhook = await integration();
    const ada = await putUser('42', { email: 'ada@example.com' });
    const bob = await putUser('bob', { email: 'bob@example.com' });
    await save('integration.eventsource.paid', []);
    const users = [
      { external_id: 42 },
      { external_id: 42, email: 'bob@example.com' },
      { id: null, external_id: '42', email: 'no address' },
      { id: bob, external_id: 42 },
      { external_id: null, email: 'bob@example.com' },
      { external_id: 43, email: 'new@example.com' },
    ];
    for (const user of users) await deliver(webhook, { type: 'paid', user });
    const ids = (await runs('integration.eventsource.paid')).map(({ user_id: id }) => id).toReversed();
    const { body: created } = await project.call('GET', '/users/external_id:43');
    expect(ids).toEqual([ada, ada, ada, bob, bob, created.id]);
    expect(created.email).toBe('new@example.com');
    for (const { log } of await startedEvents()) expect(log).toBeUndefined();
  });

  test.each([
    ['external_id', 'must be a whole number', { external_id: 4.5 }],
    ['external_id', 'must be a whole number', { external_id: 2 ** 53 }],
    ['external_id', 'must be a whole number', { external_id: '' }],
    ['external_id', 'must be a whole number', { external_id: 'x'.repeat(256) }],
    ['external_id', 'must be a whole number', { external_id: 'a\u0000' }],
    ['external_id', 'must be a whole number', { external_id: ['42'] }],
    ['id', 'must be a UUID', { id: 42, external_id: 'bob' }],
    ['id', 'must be a UUID', { id: 'cus_1' }],
    ['id', 'names no user', { id: '00000000-0000-4000-8000-000000000000', external_id: 'bob' }],
    ['email', 'must be an e-mail address', { email: 'bob' }],
  ])(
    'starts a run without a user if the first identity is not valid: its %s %s, %j',
    async (member, problem, user) => {
      const webhook = await integration();
      await putUser('bob', { email: 'bob@example.com' });
      const change = { command: 'update_user', input: { first_name: 'Changed' } };
      await save('integration.eventsource.paid', [], [change]);
      await deliver(webhook, { type: 'paid', user: { email: 'bob@example.com', ...user } });
      const [{ id } = { id: '' }] = await runs('integration.eventsource.paid');
      const run = await ended(project, id);
      expect(run.user_id).toBeUndefined();
      expect(run.status.state).toBe(STATE.failed);
      expect((await project.call('GET', '/users/external_id:bob')).body.first_name).toBeNull();
      const log = `The run has no user: Param 'user.${member}' ${problem}`;
      expect(await startedEvents()).toMatchObject([{ level: 'warn', log: expect.stringContaining(log) }]);
    },
  );

  test('starts nothing if the workflow is disabled, and is recorded', async () => {
    const id = await integration();
    const key = 'integration.eventsource.paid';
    await project.call('PUT', '/workflows', { key, disabled: true, steps: [set] });
    await deliver(id, { type: 'paid' });
    await deliver(id, { type: 'x'.repeat(250) });
    expect(await runs(key)).toEqual([]);
    const { body } = await project.call('GET', '/events?type=integration.received');
    expect(body.data).toHaveLength(2);
  });

  test('continues runs that wait for it, and starts those with a trigger', async () => {
    const id = await integration();
    const name = 'integration.eventsource.invoice.paid';
    await save('thanks', [{ event: name }]);
    const waiting = await startRun(
      project,
      [waitFor(name, { if: 'event.payload.customer == input.customer' })],
      {
        ...ADA,
        customer: 'c1',
      },
    );
    await inState(project, waiting, STATE.waiting);
    await deliver(id, { type: 'invoice.paid', customer: 'c2' });
    await started('thanks', 1);
    expect((await runOf(project, waiting)).status.state).toBe(STATE.waiting);
    await deliver(id, { type: 'invoice.paid', customer: 'c1' });
    const run = await ended(project, waiting);
    expect(run.steps[0].output.event).toMatchObject({
      type: 'integration.received',
      payload: { customer: 'c1' },
    });
    await started('thanks', 2);
  });
});

describe('runs that cause each other', () => {
  test('by the events of their broadcasts end after five', async () => {
    await save('loop', [{ event: 'delivery.sent' }], [hello]);
    await project.call('POST', '/broadcasts', { title: 'First', recipients: [{ external_id: 'ada' }] });
    await expect.poll(prevented).toMatchObject([
      {
        level: 'error',
        log: 'the event was caused by a chain of 5 runs',
        context: { workflow_key: 'loop', event: 'delivery.sent' },
      },
    ]);
    expect(await titles('ada')).toHaveLength(6);
    expect(await runs('loop')).toHaveLength(5);
  });

  test('by changing their user end after five', async () => {
    const change = { command: 'update_user', input: { first_name: '{{ run.id }}' } };
    await save('loop', [{ event: 'user.updated' }], [change]);
    await putUser('ada');
    await putUser('ada', { first_name: 'Ada' });
    await expect.poll(prevented).toHaveLength(1);
    expect(await runs('loop')).toHaveLength(5);
    const { body } = await project.call('GET', '/events?type=user.updated');
    expect(body.data[0].context).toMatchObject({ run_id: expect.any(String) });
  });

  test.each([
    ['creating', 'user.created', { external_id: '{{ run.id }}' }],
    ['changing', 'user.updated', { external_id: 'ada', first_name: '{{ run.id }}' }],
  ])('by %s users with their broadcasts end after five', async (_, event, recipient) => {
    const next = { command: 'broadcast', input: { title: 'Hello', recipients: [recipient] } };
    await save('loop', [{ event }], [next]);
    await putUser('ada');
    await putUser('ada', { first_name: 'Ada' });
    await expect
      .poll(prevented)
      .toMatchObject([
        { log: 'the event was caused by a chain of 5 runs', context: { workflow_key: 'loop', event } },
      ]);
    expect(await runs('loop')).toHaveLength(5);
    const { body } = await project.call('GET', `/events?type=${event}`);
    expect(body.data[0].context).toMatchObject({ broadcast_id: expect.any(String) });
  });

  test('for a user are at most a hundred in an hour', async () => {
    await save('flow', [{ event: 'ping' }]);
    const ping = () => post({ name: 'ping', ...ADA });
    for (let at = 0; at < 100; at += 1) expect((await ping()).started).toBe(1);
    expect(await ping()).toEqual({ continued: 0, started: 0 });
    expect(await post({ name: 'ping', user: { external_id: 'bob' } })).toEqual({ continued: 0, started: 1 });
    expect(await prevented()).toMatchObject([
      { log: 'the workflow has had 100 runs for the user within an hour', user: { external_id: 'ada' } },
    ]);
  });

  test('are followed by what is stored for a month', async () => {
    await save('loop', [{ event: 'user.created' }], [hello]);
    await putUser('ada');
    await expect.poll(() => titles('ada')).toEqual(['Hello']);
    const causes = async () => (await service.rows('select from workflow_broadcasts')).length;
    expect(await causes()).toBeGreaterThan(0);
    const clock = { now: () => Date.now() + 31 * 86_400_000 };
    await purgeExpired({ ...service.context, clock }, new AbortController().signal);
    expect(await causes()).toBe(0);
  });
});

describe('the triggers of a workflow', () => {
  const flow = { key: 'flow', steps: [set] };

  test('are shown, replaced and kept by a restored version', async () => {
    const triggers = [{ event: 'user.created' }, { event: 'order_paid', if: 'event.data.order > 1' }];
    const { body } = await project.call('PUT', '/workflows', { ...flow, triggers });
    expect(body).toMatchObject({ version: 1, triggers });
    expect((await project.call('GET', '/workflows')).body.items).toEqual([body]);
    const changed = await project.call('PUT', '/workflows', { ...flow, triggers: triggers.slice(1) });
    expect(changed.body).toMatchObject({ version: 1, triggers: [triggers[1]] });
    await project.call('PUT', '/workflows', { ...flow, steps: [], triggers });
    const restored = await project.call('POST', '/workflows/flow/versions/1/restore');
    expect(restored.body).toMatchObject({ version: 3, steps: [set], triggers });
    expect((await project.call('PUT', '/workflows', flow)).body).not.toHaveProperty('triggers');
  });

  test.each([
    ["Param 'triggers.0' needs either an event (and if) or a schedule", [{}]],
    ["Param 'triggers.0' needs either an event (and if) or a schedule", [{ event: 'a', schedule: '@daily' }]],
    ["Param 'triggers.0' needs either an event (and if) or a schedule", [{ schedule: '@daily', if: 'true' }]],
    ["Param 'triggers.0.event' must match", [{ event: 'a b' }]],
    ["Param 'triggers.0.event' must not be an event of workflows", [{ event: 'workflow.run.failed' }]],
    ["Param 'triggers.1.if' is not a condition", [{ event: 'a' }, { event: 'b', if: 'user.id == 1' }]],
    ["Param 'triggers.0' doesn't allow key: iff", [{ event: 'a', iff: 'x' }]],
    ["Param 'triggers'", Array.from({ length: 21 }, () => ({ event: 'a' }))],
  ])('are rejected: %s', async (message, triggers) => {
    const { status, messages } = await project.call('PUT', '/workflows', { ...flow, triggers });
    expect([status, messages]).toEqual([422, [expect.stringContaining(message)]]);
  });
});
