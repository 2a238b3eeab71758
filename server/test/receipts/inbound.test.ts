import { createHmac, randomUUID } from 'node:crypto';
import { Webhook } from 'standardwebhooks';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Event } from '../../src/contract/event.ts';
import { newId } from '../../src/lib/ids.ts';
import { startTestService, type TestProject, type TestService, until } from '../support/service.ts';

const SECRET = 'canary-4c1e-signing';
// It stands still, so that a signature of the future stays one until it is checked.
const startedMs = Date.now();
const clock = { offsetMs: 0, now: () => startedMs + clock.offsetMs };
let service: TestService;

beforeAll(async () => {
  service = await startTestService({ clock });
});
afterAll(() => service?.stop());

async function setUp(provider: string): Promise<{ of: TestProject; id: string }> {
  const of = await service.createProject(`${provider} ${randomUUID()}`);
  await of.call('PUT', `/integrations/${provider}`, { webhook_signing_secret: SECRET });
  return { of, id: (await of.call('GET', `/integrations/${provider}`)).body.data[0].id };
}
const hmac = (text: string, secret = SECRET) => createHmac('sha256', secret).update(text).digest('hex');
const received = async (of: TestProject) =>
  (await of.call('GET', '/events?type=integration.received')).body.data as Event[];

async function post(path: string, body: string, headers: Record<string, string>) {
  const response = await fetch(`${service.address}/v2/integrations/${path}`, {
    method: 'POST',
    body,
    headers: { 'content-type': 'application/json', ...headers },
  });
  return { status: response.status, text: await response.text(), headers: response.headers };
}
const message = ({ text }: { text: string }) => JSON.parse(text).errors[0].message as string;

describe('stripe', () => {
  // As Stripe writes it, with whitespace that a parser would not keep.
  const invoice = (id = `evt_${randomUUID()}`) =>
    `{\n  "id": "${id}",\n  "object": "event",` +
    `\n  "type": "invoice.paid",\n  "data": { "object": { "amount": 12.50 } }\n}`;
  const sign = (body: string, { secret = SECRET, atMs = clock.now(), more = '' } = {}) => {
    const time = Math.floor(atMs / 1000);
    return { 'stripe-signature': `t=${time},v1=${hmac(`${time}.${body}`, secret)}${more}` };
  };
  const send = (id: string, body: string, headers: Record<string, string>) =>
    post(`stripe/webhooks/incoming/${id}`, body, headers);

  test('a signed webhook is recorded with its content, once, however often it is sent', async () => {
    const { of, id } = await setUp('stripe');
    const body = invoice('evt_1');
    expect(await send(id, body, sign(body))).toMatchObject({ status: 201, text: '{}' });
    expect((await send(id.toUpperCase(), body, sign(body))).status).toBe(201);
    // The response to the repeat contains the number of pending deliveries.
    const again = body.replace('"object": "event"', '"pending_webhooks": 1');
    expect((await send(id, again, sign(again))).status).toBe(201);
    const events = await received(of);
    expect(events).toHaveLength(1);
    expect(events[0]).toMatchObject({
      context: { provider: 'stripe', integration_id: id, event: 'invoice.paid', delivery_id: 'evt_1' },
      payload: { id: 'evt_1', type: 'invoice.paid', data: { object: { amount: 12.5 } } },
    });
    expect(JSON.stringify(events)).not.toContain(SECRET);
  });

  test('concurrent duplicates are recorded once', async () => {
    const { of, id } = await setUp('stripe');
    const body = invoice();
    const responses = await Promise.all(Array.from({ length: 8 }, () => send(id, body, sign(body))));
    expect(responses.map(({ status }) => status)).toEqual(responses.map(() => 201));
    expect(await received(of)).toHaveLength(1);
  });

  test('a signature with the former secret beside the new one is accepted', async () => {
    const { of, id } = await setUp('stripe');
    const body = invoice();
    const time = Math.floor(clock.now() / 1000);
    const header = `t=${time},v1=${hmac(`${time}.${body}`, 'other')},v1=${hmac(`${time}.${body}`)},v0=abc`;
    expect((await send(id, body, { 'stripe-signature': header })).status).toBe(201);
    expect(await received(of)).toHaveLength(1);
  });

  test('invalid requests and unknown integrations get one response, and record nothing', async () => {
    const { of, id } = await setUp('stripe');
    const { id: github } = await setUp('github');
    const body = invoice();
    const good = sign(body);
    const attempts: [string, string, Record<string, string>][] = [
      [id, body, {}],
      [id, body, { 'stripe-signature': '' }],
      [id, body, { 'stripe-signature': 'nonsense' }],
      [id, body, { 'stripe-signature': good['stripe-signature'].replace('v1', 'v0') }],
      [id, body, { 'stripe-signature': good['stripe-signature'].slice(0, -2) }],
      [id, body, { 'stripe-signature': good['stripe-signature'].replace(/t=\d+/, 't=1') }],
      [id, body, sign(body, { secret: 'other' })],
      [id, body, sign(body, { atMs: clock.now() - 5 * 60_000 - 2_000 })],
      [id, body, sign(body, { atMs: clock.now() + 5 * 60_000 + 2_000 })],
      [id, `${body} `, good],
      [newId(), body, good],
      [github, body, good],
    ];
    const responses = await Promise.all(attempts.map(([to, text, headers]) => send(to, text, headers)));
    for (const response of responses)
      expect([response.status, response.text]).toEqual([401, responses[0]?.text]);
    expect(JSON.parse(responses[0]?.text ?? '').errors[0].code).toBe('invalid_signature');
    expect(await received(of)).toEqual([]);
    expect((await send('nonsense', body, good)).status).toBe(400);
  });

  test('a signed webhook that is unreadable or too large is rejected', async () => {
    const { of, id } = await setUp('stripe');
    for (const body of [
      '',
      '[]',
      '{"id":1,"type":"x"}',
      '{',
      `{"id":"${'x'.repeat(300)}","type":"x"}`,
      '{"id":"\\u0000","type":"x"}',
    ]) {
      const response = await send(id, body, sign(body));
      expect([body.slice(0, 30), response.status]).toEqual([body.slice(0, 30), 422]);
      expect(message(response)).toBe('The webhook cannot be read');
    }
    const deep = `{"id":"deep","type":"x","data":${'['.repeat(100_000)}${']'.repeat(100_000)}}`;
    expect((await send(id, deep, sign(deep))).status).toBe(422);
    const large = `{"id":"large","type":"x","data":"${'x'.repeat(257 * 1024)}"}`;
    expect((await send(id, large, sign(large))).status).toBe(413);
    const strange = '{"id":"strange","type":"x","data":"\\u0000\\ud800"}';
    expect((await send(id, strange, sign(strange))).status).toBe(201);
    expect((await received(of)).map(({ context }) => context?.delivery_id)).toEqual(['strange']);
  });
});

describe('github', () => {
  const send = (id: string, body: string, headers: Record<string, string> = {}) =>
    post(`github/webhooks/incoming/${id}`, body, {
      'x-github-event': 'push',
      'x-github-delivery': randomUUID(),
      'x-hub-signature-256': `sha256=${hmac(body)}`,
      ...headers,
    });

  test('a signed webhook is recorded under the name of its event, also as a form', async () => {
    const { of, id } = await setUp('github');
    const json = '{"ref": "refs/heads/main", "commits": [] }';
    expect((await send(id, json, { 'x-github-delivery': 'd-1' })).status).toBe(201);
    const form = `payload=${encodeURIComponent(json)}`;
    const asForm = { 'x-github-delivery': 'd-2', 'content-type': 'application/x-www-form-urlencoded' };
    expect((await send(id, form, asForm)).status).toBe(201);
    expect((await send(id, form, asForm)).status).toBe(201);
    const events = await received(of);
    expect(events.map(({ context }) => context?.delivery_id)).toEqual(['d-2', 'd-1']);
    for (const event of events) {
      expect(event).toMatchObject({
        context: { provider: 'github', integration_id: id, event: 'push' },
        payload: { ref: 'refs/heads/main', commits: [] },
      });
    }
  });

  // GitHub lists up to 2,048 commits of a push.
  test('a body of megabytes starts a run, and its long lists are cut', async () => {
    const { of, id } = await setUp('github');
    const key = 'integration.github.push';
    expect((await of.call('PUT', '/workflows', { key, steps: [] })).status).toBe(200);
    const commit = (n: number) => ({
      ...{ id: `${n}`.padStart(40, '0'), tree_id: 'a'.repeat(40), distinct: true },
      ...{
        message: 'Fix a typo '.repeat(60),
        timestamp: '2026-02-03T04:05:06Z',
        url: 'https://github.example',
      },
      ...{ author: { name: 'Ada', email: 'ada@example.com', username: 'ada' } },
      ...{ committer: { name: 'Ada', email: 'ada@example.com', username: 'ada' } },
      ...{ added: ['a.ts', 'b.ts'], removed: [], modified: ['c.ts'] },
    });
    const commits = Array.from({ length: 2_048 }, (_, n) => commit(n));
    const body = JSON.stringify({ ref: 'refs/heads/main', commits, head_commit: commits[2_047] });
    expect(body.length).toBeGreaterThan(2_000_000);
    expect((await send(id, body)).status).toBe(201);
    const [event] = await received(of);
    const payload = { ref: 'refs/heads/main', commits: commits.slice(0, 200), head_commit: commits[2_047] };
    expect(event).toMatchObject({ level: 'warn', log: expect.stringContaining('are cut'), payload });
    const [run] = (await of.call('GET', `/workflows/${key}/runs`)).body.data;
    expect((await of.call('GET', `/workflows/runs/${run.id}`)).body.input).toEqual(payload);
  });

  test('a wrong or missing signature, or a missing event name, is rejected', async () => {
    const { of, id } = await setUp('github');
    const body = '{"zen": "Design for failure."}';
    expect((await send(id, body, { 'x-hub-signature-256': `sha256=${hmac(body, 'other')}` })).status).toBe(
      401,
    );
    expect((await send(id, body, { 'x-hub-signature-256': '' })).status).toBe(401);
    expect((await send(id, body, { 'x-hub-signature-256': hmac(body) })).status).toBe(401);
    expect((await send(newId(), body)).status).toBe(401);
    expect((await send(id, body, { 'x-github-event': '' })).status).toBe(422);
    expect((await send(id, body, { 'x-github-delivery': '' })).status).toBe(422);
    expect((await send(id, body, { 'content-encoding': 'gzip' })).status).toBe(415);
    expect(await received(of)).toEqual([]);
  });

  test('a request replayed under another delivery id or event name is recorded once', async () => {
    const { of, id } = await setUp('github');
    const body = '{"ref": "refs/heads/main"}';
    const signature = `sha256=${hmac(body)}`;
    const replays = [
      {},
      { 'x-github-event': 'deployment' },
      { 'x-hub-signature-256': signature.toUpperCase().replace('SHA', 'sha') },
    ];
    const responses = await Promise.all(
      [{ 'x-github-delivery': 'first' }, ...replays].map((headers) => send(id, body, headers)),
    );
    expect(responses.map(({ status, text }) => [status, text])).toEqual(responses.map(() => [201, '{}']));
    expect(await received(of)).toHaveLength(1);
    // The same id with another body was recorded once before; nothing is added.
    await send(id, '{"ref": "refs/heads/other"}', { 'x-github-delivery': 'second' });
    await send(id, '{"ref": "refs/heads/third"}', { 'x-github-delivery': 'second' });
    expect(await received(of)).toHaveLength(2);
    const { of: other, id: otherId } = await setUp('github');
    await send(otherId, body);
    expect(await received(other)).toHaveLength(1);
  });

  test('after a day the same delivery is recorded again', async () => {
    const { of, id } = await setUp('github');
    const headers = { 'x-github-delivery': 'same' };
    await send(id, '{}', headers);
    clock.offsetMs += 24 * 3_600_000 + 1_000;
    await send(id, '{}', headers);
    expect(await received(of)).toHaveLength(2);
  });
});

describe('eventsource', () => {
  const KEY = `whsec_${Buffer.from(SECRET.padEnd(32, '.')).toString('base64')}`;
  const body = '{"type": "order.placed", "timestamp": "2026-01-31T12:00:00Z", "data": {"amount": 12.50} }';
  /** Signs as a sender with the Standard Webhooks library does. */
  const sign = (text: string, { key = KEY, id = `msg_${randomUUID()}`, atMs = clock.now() } = {}) => ({
    'webhook-id': id,
    'webhook-timestamp': String(Math.floor(atMs / 1000)),
    'webhook-signature': new Webhook(key).sign(id, new Date(atMs), text),
  });
  const send = (id: string, text: string, headers: Record<string, string>) =>
    post(`eventsource/webhooks/incoming/${id}`, text, headers);
  async function source(config: object): Promise<{ of: TestProject; id: string }> {
    const of = await service.createProject(`eventsource ${randomUUID()}`);
    const saved = await of.call('PUT', '/integrations/eventsource', { source: 'shop', ...config });
    expect(saved.status).toBe(200);
    return { of, id: (await of.call('GET', '/integrations/eventsource')).body.data[0].id };
  }

  test('a webhook signed by Standard Webhooks is recorded once, however often it is sent', async () => {
    const { of, id } = await source({ webhook_signing_secret: KEY });
    const headers = sign(body, { id: 'msg_1' });
    expect(await send(id, body, headers)).toMatchObject({ status: 201, text: '{}' });
    expect((await send(id, body, headers)).status).toBe(201);
    expect((await send(id, body, sign(body, { id: 'msg_1', atMs: clock.now() + 1_000 }))).status).toBe(201);
    const events = await received(of);
    expect(events).toHaveLength(1);
    expect(events[0]).toMatchObject({
      context: {
        provider: 'eventsource',
        integration_id: id,
        event: 'order.placed',
        delivery_id: 'msg_1',
      },
      payload: { type: 'order.placed', data: { amount: 12.5 } },
    });
    expect(JSON.stringify(events)).not.toContain(KEY.slice('whsec_'.length));
  });

  test('the secret needs no prefix, and one valid signature of several is enough', async () => {
    const { of, id } = await source({ webhook_signing_secret: KEY.slice('whsec_'.length) });
    const former = sign(body, { key: `whsec_${'A'.repeat(32)}`, id: 'msg_2' })['webhook-signature'];
    const headers = sign(body, { id: 'msg_2' });
    const both = `${former} v1a,AAAA ${headers['webhook-signature']}`;
    expect((await send(id, body, { ...headers, 'webhook-signature': both })).status).toBe(201);
    expect(await received(of)).toHaveLength(1);
  });

  test('invalid requests get the same response as without a secret, and nothing is recorded', async () => {
    const { of, id } = await source({ webhook_signing_secret: KEY });
    const { of: open, id: without } = await source({});
    const good = sign(body);
    const { 'webhook-signature': signature } = good;
    const attempts: [string, string, Record<string, string>][] = [
      [id, body, {}],
      [id, body, { ...good, 'webhook-signature': '' }],
      [id, body, { ...good, 'webhook-signature': signature.replace('v1,', 'v2,') }],
      [id, body, { ...good, 'webhook-signature': signature.replace('v1,', '') }],
      [id, body, { ...good, 'webhook-signature': signature.slice(0, -6) }],
      [id, body, { ...good, 'webhook-signature': `${'v1,x '.repeat(8)}${signature}` }],
      [id, body, { ...good, 'webhook-id': 'another' }],
      [id, body, { ...good, 'webhook-timestamp': `${good['webhook-timestamp']}.0` }],
      [id, body, sign(body, { key: `whsec_${'A'.repeat(32)}` })],
      [id, body, sign(body, { atMs: clock.now() - 5 * 60_000 - 2_000 })],
      [id, body, sign(body, { atMs: clock.now() + 5 * 60_000 + 2_000 })],
      [id, `${body} `, good],
      [newId(), body, good],
      [without, body, good],
    ];
    const responses = await Promise.all(attempts.map(([to, text, headers]) => send(to, text, headers)));
    for (const [index, response] of responses.entries())
      expect([index, response.status, response.text]).toEqual([index, 401, responses[0]?.text]);
    for (const text of ['', '[]', '{"data": 1}', '{"type": 1}', `{"type": "${'x'.repeat(300)}"}`])
      expect([text, (await send(id, text, sign(text))).status]).toEqual([text, 422]);
    expect([await received(of), await received(open)]).toEqual([[], []]);
  });

  test('a secret that cannot sign is rejected when it is saved', async () => {
    for (const secret of [
      '',
      'short',
      `whsec_${'A'.repeat(30)}`,
      `whsec_${'é'.repeat(32)}`,
      'A'.repeat(101),
    ]) {
      const config = { source: 'shop', webhook_signing_secret: secret };
      expect((await service.project.call('PUT', '/integrations/eventsource', config)).status).toBe(422);
    }
  });
});

test('the API description lists each of these statuses, and no other', async () => {
  const description = (await service.project.call('GET', '/openapi.json')).body;
  for (const vendor of ['eventsource', 'github', 'stripe']) {
    const { responses } = description.paths[`/integrations/${vendor}/webhooks/incoming/{id}`].post;
    expect(Object.keys(responses).join()).toBe('201,400,401,413,415,422,429,500,503');
  }
  expect(JSON.stringify(description)).not.toContain('x-errors');

  const { id } = await setUp('github');
  const statusOf = async (path: string, body = '{}', headers: Record<string, string> = {}) =>
    (await post(`github/webhooks/incoming/${path}`, body, headers)).status;
  const signed = { 'x-hub-signature-256': `sha256=${hmac('{}')}` };
  expect(await statusOf('x')).toBe(400);
  expect(await statusOf(id)).toBe(401);
  expect(await statusOf(randomUUID())).toBe(401);
  expect(await statusOf(id, 'x'.repeat(5 * 1024 * 1024 + 1))).toBe(413);
  const { id: stripe } = await setUp('stripe');
  expect((await post(`stripe/webhooks/incoming/${stripe}`, 'x'.repeat(256 * 1024 + 1), {})).status).toBe(413);
  expect(await statusOf(id, '{}', { ...signed, 'content-encoding': 'gzip' })).toBe(415);
  expect(await statusOf(id, '{}', signed)).toBe(422);
});

test('failed signatures are rate limited, valid ones are not', async () => {
  const limited = await startTestService({ settings: { RATE_LIMIT_IP: '5' } });
  try {
    const { project } = limited;
    await project.call('PUT', '/integrations/github', { webhook_signing_secret: SECRET });
    const { id } = (await project.call('GET', '/integrations/github')).body.data[0];
    const send = async (secret: string) =>
      (
        await fetch(`${limited.address}/v2/integrations/github/webhooks/incoming/${id}`, {
          method: 'POST',
          body: '{}',
          headers: {
            'x-github-event': 'push',
            'x-github-delivery': randomUUID(),
            'x-hub-signature-256': `sha256=${hmac('{}', secret)}`,
          },
        })
      ).status;
    for (let times = 0; times < 10; times += 1) expect(await send(SECRET)).toBe(201);
    const guesses = [];
    for (let times = 0; times < 7; times += 1) guesses.push(await send('guess'));
    expect(guesses).toEqual([401, 401, 401, 401, 401, 429, 429]);
    // For a moment, every request from the address of these failures is rejected.
    await until(
      async () => {
        await send('guess');
        return send(SECRET);
      },
      (status) => status === 429,
    );
  } finally {
    await limited.stop();
  }
});

test('unsigned webhooks of up to twenty integrations do not limit others of the same vendor', async () => {
  const limited = await startTestService({ settings: { RATE_LIMIT_IP: '3' } });
  try {
    const { project } = limited;
    await project.call('PUT', '/integrations/github', { webhook_signing_secret: SECRET });
    const { id } = (await project.call('GET', '/integrations/github')).body.data[0];
    const send = async (to: string) =>
      (
        await fetch(`${limited.address}/v2/integrations/github/webhooks/incoming/${to}`, {
          method: 'POST',
          body: '{}',
          headers: {
            'x-github-event': 'push',
            'x-github-delivery': randomUUID(),
            'x-hub-signature-256': `sha256=${hmac('{}', SECRET)}`,
          },
        })
      ).status;
    const deleted = randomUUID();
    const responses = [];
    for (let times = 0; times < 5; times += 1) responses.push(await send(deleted), await send(id));
    expect(responses).toEqual([401, 201, 401, 201, 401, 201, 429, 201, 429, 201]);
    // Guesses of ids are limited nevertheless.
    await until(
      async () => {
        await send(randomUUID());
        return send(id);
      },
      (status) => status === 429,
    );
  } finally {
    await limited.stop();
  }
});
