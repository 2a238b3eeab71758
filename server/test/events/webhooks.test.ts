import type { ServerResponse } from 'node:http';
import { Webhook as Verifier } from 'standardwebhooks';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import type { Event } from '../../src/contract/event.ts';
import { sql } from '../../src/db/client.ts';
import { recordEvents } from '../../src/domain/ground/events/record.ts';
import { newId } from '../../src/lib/ids.ts';
import { createSealer } from '../../src/lib/seal.ts';
import { startTestService, type TestProject, type TestService, until } from '../support/service.ts';
import {
  type ReceivedMessage,
  startWebhookReceiver,
  type WebhookReceiver,
} from '../support/webhook-receiver.ts';

const DAY_MS = 24 * 3_600_000;
const clock = {
  offsetMs: 0,
  now: () => Date.now() + clock.offsetMs,
};
let service: TestService;
const receivers: WebhookReceiver[] = [];

beforeAll(async () => {
  service = await startTestService({ clock, pollMs: 50, timeouts: { connectMs: 1_000, replyMs: 1_000 } });
});
afterEach(async () => {
  // Receivers check the time of a message with their own clock.
  clock.offsetMs = 0;
  await Promise.all(receivers.splice(0).map((receiver) => receiver.stop()));
});
afterAll(() => service?.stop());

/** A project with a webhook, and its receiver. */
async function setUp(
  name: string,
  members: Record<string, unknown> = { event_types: ['user.updated'] },
): Promise<{ of: TestProject; receiver: WebhookReceiver; id: string; secret: string }> {
  const of = await service.createProject(name);
  const receiver = await startWebhookReceiver();
  receivers.push(receiver);
  const saved = await of.call('PUT', '/webhooks', { url: receiver.url, ...members });
  expect([saved.status, saved.body.errors]).toEqual([200, undefined]);
  const { id } = saved.body;
  return { of, receiver, id, secret: (await of.call('GET', `/webhooks/${id}/secret`)).body.secret };
}

/** Records an event for this many users. */
const record = (of: { id: string }, size = 1, type: Event['type'] = 'user.updated') =>
  recordEvents(service.context.db, [
    { projectId: of.id, type, userIds: Array.from({ length: size }, newId) },
  ]);
const deliveries = async (of: TestProject, id: string, query = '') =>
  (await of.call('GET', `/webhooks/${id}/deliveries${query}`)).body.data as {
    id: string;
    status: string;
    attempts: number;
    response_status: number | null;
    reason: string | null;
    next_attempt_at: string | null;
  }[];
const events = async (of: TestProject, type: string) =>
  (await of.call('GET', `/events?limit=100&type=${type}`)).body.data as Event[];
/** Verifies a message with the library that receivers use. */
const verified = (secret: string, { raw, headers }: ReceivedMessage) =>
  new Verifier(secret).verify(raw.toString(), headers as Record<string, string>);
const pendingOf = async (id: string) =>
  (
    await service.context.db.query<{ pending: number }>(
      sql(
        'test_pending',
        'select coalesce(sum(weight), 0)::int as pending from jobs where partition_key = $1',
      ),
      [id],
    )
  )[0]?.pending;

test('every transition of a run is a message, also of runs that are recorded together', async () => {
  const { of, receiver } = await setUp('runs', { event_types: ['workflow.run.*'] });
  const steps = [
    { command: 'set', input: { a: 1 } },
    { command: 'abort', if: 'input.n == 0' },
  ];
  await of.call('PUT', '/workflows', { key: 'flow', steps });
  const runs = 20;
  const inputs = Array.from({ length: runs }, (_, n) => ({ n: n % 2, user: { external_id: `u${n % 7}` } }));
  const [bulk, ...single] = await Promise.all([
    of.call('POST', '/workflows/runs/bulk', { key: 'flow', inputs }),
    ...inputs.map((input) => of.call('POST', '/workflows/runs', { key: 'flow', input })),
  ]);
  const ids: string[] = [...bulk.body.ids, ...single.map(({ body }) => body.id)];
  const messages = await receiver.waitFor(2 * runs * 4);
  const seen = Map.groupBy(
    messages.map(({ body }) => body.data as Event),
    ({ context }) => (context as { run_id: string }).run_id,
  );
  for (const [at, id] of ids.entries()) {
    const ofRun = (seen.get(id) ?? []).toSorted((a, b) => (a.id < b.id ? -1 : 1));
    expect(ofRun.map(({ type, payload }) => [type, payload])).toEqual([
      ['workflow.run.started', undefined],
      ['workflow.run.step', { place: '0', command: 'set', state: 'completed' }],
      ['workflow.run.step', { place: '1', command: 'abort', state: at % 2 === 0 ? 'completed' : 'skipped' }],
      [at % 2 === 0 ? 'workflow.run.aborted' : 'workflow.run.completed', undefined],
    ]);
  }
  expect(new Set(messages.map(({ id }) => id)).size).toBe(2 * runs * 4);
});

describe('a message', () => {
  test('is the event, signed so that the library of the standard verifies its bytes', async () => {
    const { of, receiver, id, secret } = await setUp('message');
    await record(of);
    const [message] = await receiver.waitFor(1);
    const [event] = await events(of, 'user.updated');
    expect(message?.body).toEqual({ type: 'user.updated', timestamp: event?.timestamp, data: event });
    expect(message).toMatchObject({
      id: event?.id,
      path: '/hook',
      headers: { 'content-type': 'application/json', 'webhook-id': event?.id },
    });
    if (message === undefined) throw new Error('no message');
    expect(verified(secret, message)).toEqual(message.body);
    expect(() => verified(`whsec_${Buffer.alloc(32).toString('base64')}`, message)).toThrow();
    expect(() =>
      verified(secret, { ...message, raw: Buffer.concat([message.raw, Buffer.from(' ')]) }),
    ).toThrow();
    const sent = await until(
      () => deliveries(of, id),
      (list) => list.length === 1,
    );
    expect(sent[0]).toMatchObject({
      id: event?.id,
      status: 'sent',
      attempts: 1,
      response_status: 204,
      reason: null,
    });
    await until(
      () => pendingOf(id),
      (pending) => pending === 0,
    );
  });

  test('is sent once for each event of its types, even if one row stands for hundreds', async () => {
    const { of, receiver, id } = await setUp('many', { event_types: ['user.*', 'token.saved'] });
    await Promise.all([record(of, 250), record(of, 3, 'token.saved'), record(of, 40, 'token.discarded')]);
    await record(of);
    await receiver.waitFor(254);
    await until(
      () => pendingOf(id),
      (pending) => pending === 0,
    );
    const received = receiver.received.map((message) => message.id);
    expect(new Set(received).size).toBe(254);
    const listed = [...(await events(of, 'token.saved')), ...(await events(of, 'user.updated'))];
    expect(listed.every((event) => received.includes(event.id))).toBe(true);
    expect(receiver.received.every(({ body }) => body.type !== 'token.discarded')).toBe(true);
    expect(receiver.mostAtOnce()).toBeLessThanOrEqual(8);
  });

  test('of an event that was committed late is sent as well', async () => {
    const { of, receiver } = await setUp('late');
    const release = Promise.withResolvers<void>();
    const started = Promise.withResolvers<void>();
    const slow = service.context.db.transaction(async (tx) => {
      await recordEvents(tx, [{ projectId: of.id, type: 'user.updated' }]);
      started.resolve();
      await release.promise;
    });
    await started.promise;
    await record(of, 2);
    release.resolve();
    await slow;
    await receiver.waitFor(3);
    expect(new Set(receiver.received.map(({ id }) => id))).toEqual(
      new Set((await events(of, 'user.updated')).map(({ id }) => id)),
    );
  });
});

describe('a failure', () => {
  test('is retried under the same id until it is accepted', async () => {
    const { of, receiver, id, secret } = await setUp('retry');
    let failures = 2;
    receiver.reply((_message, response) => {
      failures -= 1;
      response.writeHead(failures >= 0 ? 500 : 200).end('no room\nat the inn');
    });
    await record(of);
    await receiver.waitFor(1);
    const [retrying] = await until(
      () => deliveries(of, id),
      (list) => list.length === 1,
    );
    expect(retrying).toMatchObject({
      status: 'retrying',
      response_status: 500,
      reason: 'responded with 500: no room at the inn',
    });
    expect(Date.parse(retrying?.next_attempt_at ?? '')).toBeGreaterThan(0);
    await receiver.waitFor(2);
    await until(
      () => deliveries(of, id),
      ([one]) => one?.attempts === 2,
    );
    clock.offsetMs += 5_000; // the longest delay of the second retry
    await receiver.waitFor(3);
    const [sent] = await until(
      () => deliveries(of, id),
      ([one]) => one?.status === 'sent',
    );
    expect(sent).toMatchObject({ attempts: 3, response_status: 200, next_attempt_at: null });
    expect(new Set(receiver.received.map((message) => message.id)).size).toBe(1);
    expect(new Set(receiver.received.map((message) => message.raw.toString())).size).toBe(1);
    for (const message of receiver.received) verified(secret, message);
    expect((await of.call('GET', `/webhooks/${id}`)).body.failing_since).toBeNull();
  });

  test.each([
    ['a redirect, which is not followed', 302],
    ['a refusal', 400],
    ['an unknown address', 404],
  ])('%s', async (name, status) => {
    const { of, receiver, id } = await setUp(name);
    const elsewhere = await startWebhookReceiver();
    receivers.push(elsewhere);
    receiver.reply((_message, response) => response.writeHead(status, { location: elsewhere.url }).end());
    await record(of);
    const [delivery] = await until(
      () => deliveries(of, id),
      (list) => list.length === 1,
    );
    expect(delivery).toMatchObject({ status: 'retrying', response_status: status });
    expect(elsewhere.received).toEqual([]);
  });

  test('a missing response ends in a timeout, and Retry-After is respected', async () => {
    const { of, receiver, id } = await setUp('silent');
    receiver.reply(() => {});
    await record(of);
    const [silent] = await until(
      () => deliveries(of, id),
      (list) => list.length === 1,
    );
    expect(silent).toMatchObject({ status: 'retrying', response_status: null });
    receiver.reply((_message, response) => response.writeHead(503, { 'retry-after': '1200' }).end());
    const [message] = await until(
      () => deliveries(of, id),
      ([one]) => one?.response_status === 503,
    );
    const inMs = Date.parse(message?.next_attempt_at ?? '') - clock.now();
    expect(inMs).toBeGreaterThan(1_190_000);
    expect(inMs).toBeLessThanOrEqual(1_200_000);
  });

  test('only the beginning of a long response is read', async () => {
    const { of, receiver, id } = await setUp('long responses');
    receiver.reply((_message, response) => {
      response.writeHead(200, { 'content-length': 1_000_000 }).write('x'.repeat(40_000)); // incomplete
    });
    await record(of);
    const [sent] = await until(
      () => deliveries(of, id),
      (list) => list.length === 1,
    );
    expect(sent).toMatchObject({ status: 'sent', response_status: 200, reason: null });
  });

  test('a slow webhook releases its slot, and gets the rest in its next turn', async () => {
    const { of, receiver, id } = await setUp('takes its time');
    const held: ServerResponse[] = [];
    receiver.reply((_message, response) => held.push(response));
    await record(of, 20);
    await receiver.waitFor(8);
    clock.offsetMs += 60_000;
    const recorded: number[] = [];
    receiver.reply(async (_message, response) => {
      recorded.push((await deliveries(of, id)).length);
      response.writeHead(204).end();
    });
    for (const response of held) response.writeHead(204).end();
    await receiver.waitFor(20);
    expect(recorded[0]).toBe(8);
    await until(
      () => pendingOf(id),
      (pending) => pending === 0,
    );
    expect(receiver.received).toHaveLength(20);
  });

  test('a private address is rejected when connecting, with the reason', async () => {
    // When the webhook was saved, its name resolved elsewhere, or its range was allowed.
    const { of, id } = await setUp('private');
    await service.rows("update webhooks set url = 'http://10.1.2.3/hook', updated_at = now() where id = $1", [
      id,
    ]);
    await record(of);
    const list = await until(
      () => deliveries(of, id, '?status=retrying'),
      (found) => found.length > 0,
    );
    expect(list[0]?.reason).toContain('10.1.2.3 is a private address');
  });

  test('expires after a day, and can be replayed', async () => {
    const { of, receiver, id } = await setUp('a day');
    receiver.reply(500);
    await record(of);
    await until(
      () => deliveries(of, id),
      (list) => list.length === 1,
    );
    clock.offsetMs += DAY_MS;
    const [failed] = await until(
      () => deliveries(of, id, '?status=failed'),
      (list) => list.length === 1,
    );
    expect(failed).toMatchObject({ response_status: 500, next_attempt_at: null });
    await until(
      () => pendingOf(id),
      (pending) => pending === 0,
    );
    receiver.reply(200);
    const before = receiver.received.length;
    const since = new Date(Date.now() - 3_600_000).toISOString();
    expect((await of.call('POST', `/webhooks/${id}/replay`, { since })).status).toBe(204);
    await receiver.waitFor(before + 1);
    await until(
      () => deliveries(of, id),
      ([one]) => one?.status === 'sent',
    );
    expect(await deliveries(of, id, '?status=failed')).toEqual([]);
  });

  test('a webhook that does not respond delays no other, even of its project', async () => {
    const { of, receiver, id } = await setUp('slow');
    const swift = await startWebhookReceiver();
    receivers.push(swift);
    await of.call('PUT', '/webhooks', { url: swift.url, event_types: ['user.updated'] });
    receiver.reply(() => {});
    await record(of, 400);
    // Sooner than a pause of the other one ends.
    await until(
      () => swift.received.length,
      (count) => count >= 400,
      { withinMs: 14_000 },
    );
    // Eight were tried, and the rest waits with them, so a test need not wait for four hundred timeouts.
    expect(receiver.received.length).toBeLessThan(50);
    receiver.reply(204);
    await until(
      () => pendingOf(id),
      (pending) => pending === 0,
    );
    expect(new Set(receiver.received.map((message) => message.id)).size).toBe(400);
  });
});

describe('disabling', () => {
  test('after five days without a success it is disabled with an event, not a day earlier', async () => {
    const { of, receiver, id } = await setUp('five days');
    const watcher = await startWebhookReceiver();
    receivers.push(watcher);
    await of.call('PUT', '/webhooks', { url: watcher.url, event_types: ['webhook.disabled'] });
    receiver.reply(500);
    let recorded = 0;
    // Waits until the failure is stored, before the clock moves on.
    const failOnce = async () => {
      await record(of);
      recorded += 1;
      await until(
        async () => (await deliveries(of, id)).length,
        (count) => count === recorded,
      );
    };
    await failOnce();
    for (let day = 1; day <= 4; day += 1) {
      clock.offsetMs += DAY_MS;
      await failOnce();
      expect((await of.call('GET', `/webhooks/${id}`)).body.disabled).toBe(false);
    }
    // The message of the fourth day is retried once more.
    clock.offsetMs += DAY_MS;
    const { body } = await until(
      () => of.call('GET', `/webhooks/${id}`),
      (response) => response.body.disabled,
    );
    expect(body.disabled_reason).toBe('It has not accepted anything for 5 days');
    const [event] = await watcher.waitFor(1);
    expect(event?.body.data).toMatchObject({
      type: 'webhook.disabled',
      level: 'error',
      context: { webhook_id: id },
    });
    expect(await events(of, 'webhook.disabled')).toHaveLength(1);
    expect(JSON.stringify(await events(of, 'webhook.*'))).not.toContain('127.0.0.1');
    await until(
      () => pendingOf(id),
      (pending) => pending === 0,
    );
    // Enabled again, it gets the events from then on. Another webhook shows that one before it was passed on.
    const witness = await startWebhookReceiver();
    receivers.push(witness);
    await of.call('PUT', '/webhooks', { url: witness.url, event_types: ['user.updated'] });
    receiver.reply(200);
    const before = receiver.received.length;
    await record(of);
    await witness.waitFor(1);
    expect(
      (await of.call('POST', `/webhooks/${id}/replay`, { since: new Date(0).toISOString() })).status,
    ).toBe(422);
    const enabled = await of.call('PUT', '/webhooks', { id, url: receiver.url, disabled: false });
    expect(enabled.body).toMatchObject({ disabled: false, disabled_reason: null, failing_since: null });
    await record(of);
    await receiver.waitFor(before + 1);
    expect(receiver.received.at(-1)?.id).toBe((await events(of, 'user.updated'))[0]?.id);
  });

  test('a success in between restarts the five days, and so does a time without messages', async () => {
    const { of, receiver, id } = await setUp('in between');
    const failing = async () => (await of.call('GET', `/webhooks/${id}`)).body.failing_since as string | null;
    const attempt = async (status: number) => {
      receiver.reply(status);
      const before = receiver.received.length;
      await record(of);
      await receiver.waitFor(before + 1);
    };
    await attempt(500);
    const first = await until(failing, (since) => since !== null);
    await attempt(200);
    await until(failing, (since) => since === null);
    await attempt(500);
    const second = await until(failing, (since) => since !== null);
    expect(second).not.toBe(first);
    receiver.reply(200);
    await until(failing, (since) => since === null);
    await attempt(500);
    const third = await until(failing, (since) => since !== null);
    // All expire; then nothing happens for six days.
    await service.context.db.query(sql('test_drop_jobs', "delete from jobs where kind = 'send_webhook'"));
    clock.offsetMs += 6 * DAY_MS;
    await attempt(500);
    const fourth = await until(failing, (since) => since !== null && since !== third);
    expect(Date.parse(fourth ?? '') - Date.parse(third ?? '')).toBeGreaterThan(5 * DAY_MS);
    expect((await of.call('GET', `/webhooks/${id}`)).body.disabled).toBe(false);
  });

  test('410 Gone disables at once; pending messages fail', async () => {
    const { of, receiver, id } = await setUp('gone');
    receiver.reply(410);
    await record(of, 30);
    const { body } = await until(
      () => of.call('GET', `/webhooks/${id}`),
      (response) => response.body.disabled,
    );
    expect(body.disabled_reason).toBe('It responded with 410 Gone');
    await until(
      () => pendingOf(id),
      (pending) => pending === 0,
    );
    const list = await deliveries(of, id);
    expect(list).toHaveLength(30);
    expect(list.every(({ status }) => status === 'failed')).toBe(true);
    expect(new Set(list.map(({ reason }) => reason))).toContain('the webhook was disabled');
  });
});

describe('replay', () => {
  test('one event of any type, and a range of time, all or failed ones', async () => {
    const { of, receiver, id } = await setUp('replay');
    await record(of, 60);
    await record(of, 2, 'token.saved');
    await receiver.waitFor(60);
    const [token] = await events(of, 'token.saved');
    expect(
      (await of.call('POST', `/webhooks/${id}/replay`, { event_id: token?.id.toUpperCase() })).status,
    ).toBe(204);
    await receiver.waitFor(61);
    expect(receiver.received[60]?.id).toBe(token?.id);
    const since = new Date(0).toISOString();
    expect((await of.call('POST', `/webhooks/${id}/replay`, { since, status: 'all' })).status).toBe(204);
    await receiver.waitFor(121);
    await until(
      () => pendingOf(id),
      (pending) => pending === 0,
    );
    const users = (await events(of, 'user.updated')).map((event) => event.id).sort();
    expect(
      receiver.received
        .slice(61)
        .map((message) => message.id)
        .sort(),
    ).toEqual(users);
    // Nothing failed, so there is nothing to replay, and future events are not in the range.
    await of.call('POST', `/webhooks/${id}/replay`, { since });
    await of.call('POST', `/webhooks/${id}/replay`, { since, until: since, status: 'all' });
    await until(
      () =>
        service.context.db.query<{ id: string }>(sql('test_replays', 'select id from webhook_replays'), []),
      (left) => left.length === 0,
    );
    expect(receiver.received).toHaveLength(121);
  });

  test('a failed replay is reported', async () => {
    const { of, receiver, id } = await setUp('failing replay');
    await record(of);
    await receiver.waitFor(1);
    await until(
      () => deliveries(of, id),
      ([one]) => one?.status === 'sent',
    );
    receiver.reply(500);
    const [event] = await events(of, 'user.updated');
    await of.call('POST', `/webhooks/${id}/replay`, { event_id: event?.id });
    await until(
      () => deliveries(of, id),
      ([one]) => one?.status === 'retrying',
    );
  });

  test('rejects invalid requests', async () => {
    const { of, id } = await setUp('refusals');
    const other = await service.createProject('other');
    await record(other);
    const [theirs] = await events(other, 'user.updated');
    const replay = (body: unknown, caller = of) => caller.call('POST', `/webhooks/${id}/replay`, body);
    expect((await replay({ event_id: newId() })).status).toBe(404);
    expect((await replay({ event_id: theirs?.id })).status).toBe(404);
    expect((await replay({ event_id: theirs?.id }, other)).status).toBe(404);
    expect((await replay({})).body.errors[0].message).toContain('needs an event_id or a since');
    expect((await replay({ since: 'yesterday' })).status).toBe(422);
    for (let times = 0; times < 12; times += 1) await replay({ since: new Date(0).toISOString() });
  });
});

describe('secrets', () => {
  test('after a rotation messages are signed with both for a day, then with the new one', async () => {
    const { of, receiver, id, secret } = await setUp('rotation');
    expect((await of.call('GET', `/webhooks/${id}/secret`)).body).toEqual({ secret });
    const rotated = await of.call('POST', `/webhooks/${id}/secret/rotate`);
    expect(rotated.status).toBe(200);
    expect(Date.parse(rotated.body.former_secret_until) - clock.now()).toBeGreaterThan(DAY_MS - 60_000);
    const { body } = await of.call('GET', `/webhooks/${id}/secret`);
    expect(body).toEqual({
      secret: expect.stringMatching(/^whsec_/),
      former_secret: secret,
      ...rotated.body,
    });
    expect(body.secret).not.toBe(secret);
    await record(of);
    const [both] = await receiver.waitFor(1);
    if (both === undefined) throw new Error('no message');
    expect(String(both.headers['webhook-signature']).split(' ')).toHaveLength(2);
    for (const one of [secret, body.secret]) expect(verified(one, both)).toEqual(both.body);
    clock.offsetMs += DAY_MS;
    await record(of);
    const message = (await receiver.waitFor(2))[1];
    if (message === undefined) throw new Error('no message');
    expect(String(message.headers['webhook-signature']).split(' ')).toHaveLength(1);
    expect((await of.call('GET', `/webhooks/${id}/secret`)).body).toEqual({ secret: body.secret });
  });

  test('are not in the database in plain text, nor in events or responses', async () => {
    const { of, id, secret } = await setUp('canary');
    await of.call('POST', `/webhooks/${id}/secret/rotate`, undefined, { 'idempotency-key': 'rotate' });
    const { body } = await of.call('GET', `/webhooks/${id}/secret`);
    const rows = await service.context.db.query<{ text: string }>(
      sql(
        'test_everything',
        `select w::text as text from webhooks w
        union all select e::text from events e
        union all select k::text from idempotency_keys k
        union all select j::text from jobs j`,
      ),
    );
    const responses = JSON.stringify([
      (await of.call('GET', '/webhooks')).body,
      (await of.call('GET', `/webhooks/${id}`)).body,
      (await of.call('GET', '/events')).body,
      (await of.call('PUT', '/webhooks', { id, url: 'https://example.com' })).body,
    ]);
    for (const one of [secret, body.secret]) {
      const hex = Buffer.from(one).toString('hex');
      expect(rows.some(({ text }) => text.includes(one) || text.includes(hex))).toBe(false);
      expect(responses).not.toContain(one);
    }
  });
});

describe('saving', () => {
  test('present members are replaced, absent ones stay', async () => {
    const of = await service.createProject('saving');
    const created = await of.call('PUT', '/webhooks', {
      url: 'https://example.com/a',
      description: 'First',
      event_types: ['delivery.*'],
    });
    const webhook = created.body;
    const { secret } = (await of.call('GET', `/webhooks/${webhook.id}/secret`)).body;
    expect(secret).toMatch(/^whsec_[A-Za-z0-9+/=]{44}$/);
    expect(webhook).toMatchObject({
      url: 'https://example.com/a',
      description: 'First',
      event_types: ['delivery.*'],
      disabled: false,
      disabled_reason: null,
      failing_since: null,
    });
    expect((await of.call('GET', `/webhooks/${webhook.id}`)).body).toEqual(webhook);
    const moved = await of.call('PUT', '/webhooks', {
      id: webhook.id.toUpperCase(),
      url: 'https://example.com/b',
    });
    expect(moved.body).toEqual({
      ...webhook,
      url: 'https://example.com/b',
      updated_at: moved.body.updated_at,
    });
    const cleared = await of.call('PUT', '/webhooks', {
      id: webhook.id,
      url: 'https://example.com/b',
      description: null,
      event_types: [],
      disabled: true,
    });
    expect(cleared.body).toMatchObject({ description: null, event_types: [], disabled: true });
    expect((await events(of, 'webhook.*')).map(({ type }) => type)).toEqual([
      'webhook.saved',
      'webhook.saved',
      'webhook.saved',
    ]);
  });

  test('saving what was read changes nothing, and does not end a failure', async () => {
    const { of, receiver, id } = await setUp('read and saved');
    receiver.reply(500);
    await record(of);
    const read = await until(
      async () => (await of.call('GET', `/webhooks/${id}`)).body,
      ({ failing_since }) => failing_since !== null,
    );
    const { status, body: saved } = await of.call('PUT', '/webhooks', {
      ...read,
      disabled_reason: 'read-only',
      created_at: '2020-01-01T00:00:00Z',
    });
    expect([status, saved]).toEqual([200, { ...read, updated_at: expect.any(String) }]);
  });

  test('rejects invalid URLs with every problem, and stores nothing', async () => {
    const of = await service.createProject('refused');
    const problems = async (body: unknown) => {
      const response = await of.call('PUT', '/webhooks', body);
      expect(response.status).toBe(422);
      return response.body.errors.map((error: { message: string }) => error.message).join('\n');
    };
    for (const url of [
      'ftp://example.com',
      'example.com',
      'https://user:secret@example.com/x',
      '',
      'http://',
      'file:///etc/passwd',
      `https://example.com/${'x'.repeat(3000)}`,
    ])
      expect(await problems({ url })).toContain("Param 'url'");
    expect(await problems({})).toBe("Param 'url' is missing");
    const all = await problems({
      url: 1,
      event_types: ['user.gone'],
      disabled: 'no',
      more: 1,
      description: 5,
    });
    for (const name of ['url', 'event_types', 'disabled', 'more', 'description']) expect(all).toContain(name);
    expect((await of.call('GET', '/webhooks')).body.data).toEqual([]);
    expect((await of.call('PUT', '/webhooks', { id: newId(), url: 'https://example.com' })).status).toBe(404);
    expect(await events(of, 'webhook.*')).toEqual([]);
  });

  test('fifty and no more, even if they are created concurrently', async () => {
    const of = await service.createProject('fifty');
    const responses = await Promise.all(
      Array.from({ length: 55 }, () =>
        of.call('PUT', '/webhooks', { url: 'https://example.com', disabled: true }),
      ),
    );
    expect(responses.filter(({ status }) => status === 200)).toHaveLength(50);
    expect((await of.call('GET', '/webhooks?limit=100')).body.data).toHaveLength(50);
  });

  test('deleting ends it: nothing more is sent, and nothing remains', async () => {
    const { of, receiver, id } = await setUp('deleted');
    // None of them is retried before it is deleted.
    receiver.reply((_message, response) => response.writeHead(503, { 'retry-after': '600' }).end());
    await record(of, 3);
    await receiver.waitFor(3);
    expect((await of.call('DELETE', `/webhooks/${id}`)).status).toBe(204);
    expect((await of.call('DELETE', `/webhooks/${id}`)).status).toBe(404);
    for (const path of ['', '/secret', '/deliveries'])
      expect((await of.call('GET', `/webhooks/${id}${path}`)).status).toBe(404);
    expect((await of.call('GET', '/webhooks')).body.data).toEqual([]);
    expect((await events(of, 'webhook.deleted'))[0]?.context).toEqual({ webhook_id: id });
    receiver.reply(200);
    clock.offsetMs += 600_000;
    await until(
      () =>
        service.context.db.query<{ id: number }>(
          sql('test_jobs_of_webhook', 'select id from jobs where partition_key = $1'),
          [id],
        ),
      (jobs) => jobs.length === 0,
    );
    expect(receiver.received.length).toBe(3);
  });

  test("another project's webhook is not found by any operation", async () => {
    const { id, of } = await setUp('mine');
    const other = await service.createProject('not mine');
    const url = 'https://example.com';
    const responses = await Promise.all([
      other.call('GET', `/webhooks/${id}`),
      other.call('PUT', '/webhooks', { id, url }),
      other.call('DELETE', `/webhooks/${id}`),
      other.call('GET', `/webhooks/${id}/secret`),
      other.call('POST', `/webhooks/${id}/secret/rotate`),
      other.call('GET', `/webhooks/${id}/deliveries`),
      other.call('POST', `/webhooks/${id}/replay`, { since: new Date(0).toISOString() }),
    ]);
    expect(responses.map(({ status }) => status)).toEqual(responses.map(() => 404));
    expect((await other.call('GET', '/webhooks')).body.data).toEqual([]);
    expect((await of.call('GET', `/webhooks/${id}`)).body.url).not.toBe(url);
  });
});

test('a restart loses nothing and resends no accepted message', async () => {
  const { of, receiver } = await setUp('restart');
  for (let round = 0; round < 4; round += 1) {
    await record(of, 60);
    await receiver.waitFor(receiver.received.length + 5);
    await service.restart();
  }
  await until(
    () => new Set(receiver.received.map(({ id }) => id)).size,
    (size) => size === 240,
  );
  expect(receiver.received).toHaveLength(240);
});

describe('a webhook whose secret is sealed with a key that the server does not have', () => {
  test('reports this, delays no other, and gets its messages when the secret is rotated', async () => {
    const { of, receiver, id } = await setUp('lost secret');
    const other = await setUp('found secret');
    const lost = createSealer([Buffer.alloc(32, 1)]);
    await service.context.db.query(
      sql('test_lose_secret', 'update webhooks set sealed_secret = $2 where id = $1'),
      [id, lost.seal('whsec_eA==', `webhook:${id}:secret`)],
    );
    const message =
      `The secret was encrypted with the key ${lost.keyIds[0]}, which this server does not have: ` +
      'add it to SECRET_KEY, or rotate the secret';
    await Promise.all([record(of), record({ id: other.of.id })]);
    await other.receiver.waitFor(1);
    await expect.poll(async () => (await deliveries(of, id)).length).toBe(1);
    expect((await deliveries(of, id))[0]).toMatchObject({ status: 'retrying', reason: message });
    const error = { code: 'secret_unreadable', message };
    const shown = (await of.call('GET', `/webhooks/${id}`)).body;
    expect(shown.error).toEqual(error);
    expect((await of.call('GET', '/webhooks')).body.data).toMatchObject([{ id, error }]);
    // Clients save what they have read.
    expect((await of.call('PUT', '/webhooks', shown)).body).toMatchObject({ id, error });
    const secret = await of.call('GET', `/webhooks/${id}/secret`);
    expect([secret.status, secret.body.errors[0].message]).toEqual([503, message]);
    expect(receiver.received).toEqual([]);

    expect((await of.call('POST', `/webhooks/${id}/secret/rotate`)).status).toBe(200);
    clock.offsetMs += 60_000;
    const [sent] = await receiver.waitFor(1);
    clock.offsetMs = 0;
    expect(sent?.id).toBe((await deliveries(of, id))[0]?.id);
    expect((await of.call('GET', `/webhooks/${id}`)).body.error).toBeUndefined();
    expect((await of.call('GET', `/webhooks/${id}/secret`)).body.secret).toMatch(/^whsec_/);
  });
});
