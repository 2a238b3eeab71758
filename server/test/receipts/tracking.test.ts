import { createECDH, createSecretKey, randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import pg from 'pg';
import { afterAll, beforeAll, beforeEach, describe, expect, inject, onTestFinished, test } from 'vitest';
import { GRACE_MS, purgeUsers } from '../../src/domain/after/erasure/purge-users.ts';
import { linksOf } from '../../src/domain/ground/links/links.ts';
import { newId } from '../../src/lib/ids.ts';
import { createVapidKeys } from '../../src/providers/web-push/vapid.ts';
import { createTestDatabase } from '../support/database.ts';
import { saveSmtp } from '../support/faults.ts';
import { decryptPush } from '../support/http-ece.ts';
import {
  processed,
  startTestService,
  type TestProject,
  type TestService,
  until,
} from '../support/service.ts';
import { type SmtpStandIn, startSmtpStandIn } from '../support/smtp-stand-in.ts';
import { startTcpProxy } from '../support/tcp-proxy.ts';

const PUBLIC_URL = 'https://notify.example.com';
const ONE_PIXEL = Buffer.from('GIF89a\x01\0\x01\0', 'latin1');
const SHOP = 'https://shop.example/orders?id=1&ref=mail';
const CONTENT =
  `<p>See <a href="${SHOP.replace('&', '&amp;')}">your order</a>` +
  ` or <a href="mailto:help@shop.example">write</a>.</p>`;

let service: TestService;
let mail: SmtpStandIn;
let project: TestProject;
let made = 0;
let probes = 0;
let laterMs = 0;
const clock = { now: () => Date.now() + laterMs };

beforeAll(async () => {
  [service, mail] = await Promise.all([
    startTestService({ settings: { PUBLIC_URL }, clock, pollMs: 50 }),
    startSmtpStandIn(),
  ]);
});
afterAll(async () => {
  await Promise.all([service?.stop(), mail?.stop()]);
});
beforeEach(async () => {
  made += 1;
  mail.received.length = 0;
  project = await service.createProject(`tracking ${made}`);
  await saveSmtp(project, mail);
});

const track = (opens: boolean, clicks: boolean, of = project) =>
  of.call('PUT', '/tracking', { opens, clicks });

interface Mailed {
  broadcastId: string;
  html: string;
  /** The URLs of all links. */
  links: string[];
  /** The links that lead through the server, with this server's address. */
  tracked: string[];
  picture: string | undefined;
}

/** Sends an e-mail and returns what arrived. */
/** The links at the end of every e-mail. */
const FOOTER = ['/unsubscribe/', '/preferences/'].map((path) => expect.stringContaining(path));

async function mailed(body: object = {}, of = project): Promise<Mailed> {
  const before = mail.received.length;
  const sent = await of.call('POST', '/broadcasts', {
    title: 'Shipped',
    content: CONTENT,
    recipients: [{ external_id: 'ada', email: 'ada@example.com' }],
    ...body,
  });
  expect(sent.status).toBe(201);
  await processed(of.call, sent.body.id);
  const html = (await (await mail.waitFor(before + 1))[before]?.parsed())?.html ?? '';
  const links = [...html.matchAll(/href="([^"]*)"/g)].map(([, href = '']) => href.replaceAll('&amp;', '&'));
  const here = (url: string) => url.replace(PUBLIC_URL, service.address);
  return {
    broadcastId: sent.body.id,
    html,
    links,
    tracked: links.filter((link) => link.startsWith(`${PUBLIC_URL}/t/c/`)).map(here),
    picture: [...html.matchAll(/<img src="([^"]*)"/g)].map(([, src = '']) => here(src))[0],
  };
}

const follow = (url: string, init: RequestInit = {}) => fetch(url, { redirect: 'manual', ...init });
const eventsOf = async (type: string, of = project) =>
  (await of.call('GET', `/events?type=${type}&limit=100`)).body.data.toReversed();
const deliveryOf = async (broadcastId: string, channel: string, of = project) =>
  (await of.call('GET', `/broadcasts/${broadcastId}/deliveries?channel=${channel}`)).body.data[0];
/** Resolves when all hits so far are stored, so that later ones have a later time. */
async function settled(): Promise<void> {
  probes += 1;
  const probe = await service.createProject(`probe ${probes}`);
  await saveSmtp(probe, mail);
  await track(false, true, probe);
  const { tracked } = await mailed({}, probe);
  await follow(tracked[0] ?? '');
  await until(
    () => eventsOf('delivery.clicked', probe),
    (events) => events.length === 1,
  );
}

describe('the setting', () => {
  test('is off by default, is saved, and its change is recorded once', async () => {
    expect((await project.call('GET', '/tracking')).body).toEqual({ opens: false, clicks: false });
    expect(await track(false, true)).toMatchObject({ status: 200, body: { opens: false, clicks: true } });
    await track(false, true);
    expect((await project.call('GET', '/tracking')).body).toEqual({ opens: false, clicks: true });
    expect(await eventsOf('tracking.saved')).toMatchObject([{ payload: { opens: false, clicks: true } }]);
  });

  test('needs a public address of the server, and names the setting for it', async () => {
    const bare = await startTestService();
    onTestFinished(() => bare.stop());
    const refused = await track(true, true, bare.project);
    expect(refused.status).toBe(422);
    expect(refused.body.errors.map(({ message }: { message: string }) => message)).toEqual(
      ['opens', 'clicks'].map(
        (member) => `Param '${member}' needs the public address of this server: set its PUBLIC_URL`,
      ),
    );
    expect((await bare.project.call('GET', '/tracking')).body).toEqual({ opens: false, clicks: false });
    expect((await track(false, false, bare.project)).status).toBe(200);
    const twice = await bare.project.call('PUT', '/tracking', { opens: 'x', clicks: true });
    expect(twice.body.errors).toHaveLength(2);
  });
});

describe('an e-mail', () => {
  test('is not tracked by default', async () => {
    const { links, picture } = await mailed();
    expect(links).toEqual([SHOP, 'mailto:help@shop.example', ...FOOTER]);
    expect(picture).toBeUndefined();
  });

  test('has tracked links and a picture, if the project enables them', async () => {
    await track(true, true);
    const { links, picture, html } = await mailed({ action_url: 'https://shop.example/' });
    const at = expect.stringMatching(/^https:\/\/notify\.example\.com\/t\/c\/e[\w-]{87}\?u=https%3A/);
    expect(links).toEqual([at, 'mailto:help@shop.example', at, ...FOOTER]);
    expect(picture).toMatch(/\/t\/o\/e[\w-]{87}\.gif$/);
    expect(html).toContain(`${encodeURIComponent(SHOP)}">your order</a>`);
    const { text } = (await mail.received[0]?.parsed()) ?? {};
    expect(text).toContain(SHOP);
    expect(text).not.toContain('/t/c/');
  });

  test('has one of them if only one is enabled', async () => {
    await track(true, false);
    expect(await mailed()).toMatchObject({ tracked: [], picture: expect.any(String) });
    await track(false, true);
    expect(await mailed()).toMatchObject({ tracked: [expect.any(String)], picture: undefined });
  });
});

test('a click redirects at once, and is an event with the URL', async () => {
  await track(false, true);
  const { tracked, broadcastId } = await mailed();
  const response = await follow(tracked[0] ?? '');
  expect(response.status).toBe(302);
  expect(Object.fromEntries(response.headers)).toMatchObject({
    location: SHOP,
    'referrer-policy': 'no-referrer',
    'cache-control': 'no-store',
  });
  expect(response.headers.get('set-cookie')).toBeNull();
  await follow(tracked[0] ?? '');
  const events = await until(
    () => eventsOf('delivery.clicked'),
    (all) => all.length === 2,
  );
  const delivery = await deliveryOf(broadcastId, 'email');
  for (const event of events)
    expect(event).toMatchObject({
      type: 'delivery.clicked',
      level: 'info',
      context: {
        channel: 'email',
        provider: 'smtp',
        broadcast_id: broadcastId,
        user_id: delivery.user_id,
        notification_id: delivery.notification_id,
        delivery_id: delivery.id,
      },
      payload: { url: SHOP },
    });
  expect(delivery).toMatchObject({ state: 'sent', clicks: 2, opens: 0, opened_at: null });
  expect(Math.abs(Date.parse(delivery.clicked_at) - Date.now())).toBeLessThan(60_000);
});

test('only the first open is an event; all are counted', async () => {
  await track(true, false);
  const { picture, broadcastId } = await mailed();
  for (let count = 0; count < 3; count += 1) {
    const response = await follow(picture ?? '');
    expect(response.status).toBe(200);
    expect(response.headers.get('content-type')).toBe('image/gif');
    expect(response.headers.get('cache-control')).toBe('no-store');
    expect(Buffer.from(await response.arrayBuffer()).subarray(0, 10)).toEqual(ONE_PIXEL);
  }
  await until(
    () => deliveryOf(broadcastId, 'email'),
    ({ opens }) => opens === 3,
  );
  await follow(picture ?? '');
  const { opened_at } = await until(
    () => deliveryOf(broadcastId, 'email'),
    ({ opens }) => opens === 4,
  );
  expect(await eventsOf('delivery.opened')).toMatchObject([
    { context: { channel: 'email', provider: 'smtp', broadcast_id: broadcastId } },
  ]);
  expect(opened_at).toEqual(expect.any(String));
});

test('a hundred of very many clicks are events, and all are counted', async () => {
  await track(false, true);
  const { tracked, broadcastId } = await mailed();
  const url = tracked[0] ?? '';
  for (let round = 0; round < 3; round += 1)
    await Promise.all(Array.from({ length: 45 }, async () => (await follow(url)).body?.cancel()));
  await until(
    () => deliveryOf(broadcastId, 'email'),
    ({ clicks }) => clicks === 135,
  );
  const [{ count } = { count: -1 }] = await service.rows<{ count: number }>(
    "select count(*)::int as count from events where project_id = $1 and type = 'delivery.clicked'",
    [project.id],
  );
  expect(count).toBe(100);
});

test('HEAD requests and prefetches are redirected and not counted', async () => {
  await track(true, true);
  const { tracked, picture, broadcastId } = await mailed();
  const [link = ''] = tracked;
  const head = await follow(link, { method: 'HEAD' });
  expect([head.status, head.headers.get('location')]).toEqual([302, SHOP]);
  for (const headers of [
    { 'sec-purpose': 'prefetch;prerender' },
    { purpose: 'prefetch' },
    { 'x-moz': 'prefetch' },
  ]) {
    expect((await follow(link, { headers })).status).toBe(302);
    expect((await follow(picture ?? '', { headers })).status).toBe(200);
  }
  expect((await follow(picture ?? '', { method: 'HEAD' })).status).toBe(200);
  await settled();
  expect(await deliveryOf(broadcastId, 'email')).toMatchObject({ clicks: 0, opens: 0 });
});

test('when tracking is disabled, old links still redirect, and nothing is recorded', async () => {
  await track(true, true);
  const { tracked, picture, broadcastId } = await mailed();
  await track(false, false);
  expect((await follow(tracked[0] ?? '')).headers.get('location')).toBe(SHOP);
  expect((await follow(picture ?? '')).status).toBe(200);
  await settled();
  expect(await deliveryOf(broadcastId, 'email')).toMatchObject({ clicks: 0, opens: 0 });
  expect(await eventsOf('delivery.clicked')).toEqual([]);
});

describe('no other redirects', () => {
  const HOSTILE = [
    'https://evil.example/',
    'javascript:alert(1)',
    '//evil.example',
    '/\\evil.example',
    'https://shop.example@evil.example/',
    `${SHOP}@evil.example`,
    `${SHOP}\r\nSet-Cookie: a=b`,
    `${SHOP}\u0000`,
    'https://ѕhop.example/orders?id=1&ref=mail',
    encodeURIComponent(SHOP),
    SHOP.toUpperCase(),
    'data:text/html,x',
    '',
  ];

  test.each(HOSTILE.map((target) => [target]))('to %j', async (target) => {
    await track(false, true);
    const { tracked } = await mailed();
    const [link = ''] = tracked;
    const [path] = link.split('?');
    for (const query of [
      `u=${encodeURIComponent(target)}`,
      `u=${encodeURIComponent(SHOP)}&u=${encodeURIComponent(target)}`,
    ]) {
      const response = await follow(`${path}?${query}`);
      expect(response.status).toBe(404);
      expect(response.headers.get('location')).toBeNull();
      expect(response.headers.get('content-security-policy')).toContain("default-src 'none'");
      expect(await response.text()).toContain('This link does not work');
    }
  });

  test('for a changed link, or a part of one', async () => {
    await track(false, true);
    const { tracked } = await mailed();
    const [link = ''] = tracked;
    const [path = '', query] = link.split('?');
    const token = path.slice(path.lastIndexOf('/') + 1);
    const base = path.slice(0, -token.length);
    for (const other of [
      token.slice(0, -1),
      `${token}A`,
      `w${token.slice(1)}`,
      `x${token.slice(1)}`,
      token.slice(0, -22) + 'A'.repeat(22),
      token.replace(/.(.{30})$/, (all) => (all.startsWith('A') ? 'B' : 'A') + all.slice(1)),
      'x',
    ])
      expect((await follow(`${base}${other}?${query}`)).status).toBe(404);
    expect((await follow(path)).status).toBe(404);
    expect((await follow(link.replace('/t/c/', '/t/o/'))).headers.get('content-type')).toBe('image/gif');
    expect((await follow(link)).status).toBe(302);
  });

  test('for links that another project has signed', async () => {
    await track(true, true);
    const { broadcastId } = await mailed();
    const { user_id: userId } = await deliveryOf(broadcastId, 'email');
    const other = await service.createProject(`other ${made}`);
    await track(true, true, other);
    const [mine, theirs] = await Promise.all(
      [project, other].map(async ({ id }) => service.context.projects.byId(id)),
    );
    if (mine === undefined || theirs === undefined) throw new Error('no project');
    const about = { broadcastId, userId, channel: 'email' as const };
    const link = { target: SHOP, encoded: encodeURIComponent(SHOP) };
    const here = { PUBLIC_URL: service.address };
    const both = { opens: true, clicks: true };
    // In this project's name with the other's key: no valid link.
    const forged = linksOf(here, { id: mine.id, signingKey: theirs.signingKey }, both, about)?.clickUrl?.(
      link,
    );
    expect((await follow(forged ?? '')).status).toBe(404);
    // In its own name, about another project's delivery: it redirects and records nothing.
    const own = linksOf(here, theirs, both, about)?.clickUrl?.(link);
    expect((await follow(own ?? '')).status).toBe(302);
    await settled();
    expect(await deliveryOf(broadcastId, 'email')).toMatchObject({ clicks: 0, opens: 0 });
    for (const of of [project, other]) expect(await eventsOf('delivery.clicked', of)).toEqual([]);
  });
});

test('above the limit of an address, no key is read for its forged links', async () => {
  const database = await createTestDatabase();
  onTestFinished(() => database.drop());
  const { host, port } = inject('testServer');
  const proxy = await startTcpProxy({ path: `${host}/.s.PGSQL.${port}` });
  onTestFinished(() => proxy.close());
  const DATABASE_URL = `postgres://belfry@127.0.0.1:${proxy.port}/${database.connection.database}`;
  const SECRET_KEY = randomBytes(32).toString('hex');
  const limited = await startTestService({ settings: { DATABASE_URL, SECRET_KEY, RATE_LIMIT_IP: '1' } });
  onTestFinished(() => limited.stop());
  let reads = 0;
  proxy.onRequest = (bytes) => {
    if (bytes.includes('read_projects')) reads += 1;
  };
  const forged = async () => {
    const keys = { id: newId(), signingKey: createSecretKey(randomBytes(32)) };
    const about = { broadcastId: newId(), userId: newId(), channel: 'email' as const };
    const links = linksOf({ PUBLIC_URL: limited.address }, keys, { opens: true, clicks: true }, about);
    return (await follow(links?.clickUrl?.({ target: SHOP, encoded: encodeURIComponent(SHOP) }) ?? ''))
      .status;
  };
  expect([await forged(), await forged()]).toEqual([404, 429]);
  expect(reads).toBe(2);
  expect(await forged()).toBe(429);
  await limited.context.projects.byId(newId()); // reads are one after the other: this is the last one
  expect(reads).toBe(3);
});

test('the picture is the same for every request', async () => {
  for (const token of ['x', 'e'.repeat(88), `e${'A'.repeat(87)}`, '%00']) {
    const response = await follow(`${service.address}/t/o/${token}.gif`);
    expect([response.status, response.headers.get('content-type')]).toEqual([200, 'image/gif']);
  }
});

test('no part of a link is in the log, in any spelling of its path', async () => {
  const server = await startTestService({ logLevel: 'debug' });
  onTestFinished(() => server.stop());
  const token = `e${'A'.repeat(87)}`;
  for (const path of ['/t/c/', '/t/o/', '/T/C/', '//t/c/', '/t/c/x/'])
    await fetch(`${server.address}${path}${token}?u=https%3A%2F%2Fprivate.example`);
  await fetch(`${server.address}/t/c/${token}`, { method: 'DELETE' });
  await until(
    () => server.logged.filter((line) => line.includes('"path"')).length,
    (requests) => requests >= 6,
  );
  expect(server.logged.join('')).not.toMatch(/AAAA|private\.example/);
});

test('requests of one office are not limited, guesses of links are', async () => {
  const limited = await startTestService({ settings: { PUBLIC_URL, RATE_LIMIT_IP: '3' } });
  onTestFinished(() => limited.stop());
  await saveSmtp(limited.project, mail);
  await track(false, true, limited.project);
  const { tracked } = await mailed({}, limited.project);
  const link = (tracked[0] ?? '').replace(service.address, limited.address);
  for (let count = 0; count < 10; count += 1) expect((await follow(link)).status).toBe(302);
  const statuses: number[] = [];
  for (let count = 0; count < 5; count += 1) statuses.push((await follow(`${link}x`)).status);
  expect(statuses).toEqual([404, 404, 404, 429, 429]);
  expect((await follow(link)).status).toBe(302);
  expect((await follow(`${limited.address}/t/o/${newId()}.gif`)).status).toBe(200);
});

describe('without the database', () => {
  test('links redirect, the picture loads, and hits are recorded when it is back', async () => {
    await track(true, true);
    const { tracked, picture, broadcastId } = await mailed();
    const [link = ''] = tracked;
    expect((await follow(link)).status).toBe(302); // the key is cached
    await until(
      () => deliveryOf(broadcastId, 'email'),
      ({ clicks }) => clicks === 1,
    );
    const back = await takeDatabaseAway();
    try {
      laterMs += 3_600_000; // the cached projects have expired by now
      const started = performance.now();
      expect((await follow(link)).headers.get('location')).toBe(SHOP);
      expect((await follow(picture ?? '')).status).toBe(200);
      expect(performance.now() - started).toBeLessThan(5_000);
      const unknown = `${service.address}/t/c/e${'A'.repeat(87)}?u=${encodeURIComponent(SHOP)}`;
      const refused = await follow(unknown);
      expect(refused.status).toBe(503);
      expect(Number(refused.headers.get('retry-after'))).toBeGreaterThanOrEqual(1);
      expect((await follow(unknown.replace('/t/c/', '/t/o/'))).status).toBe(200);
    } finally {
      await back();
    }
    await until(
      () => deliveryOf(broadcastId, 'email').catch(() => undefined),
      (delivery) => delivery?.clicks === 2 && delivery?.opens === 1,
    );
  });
});

/** Renames the service's database and cuts all connections. Returns a function that restores it. */
async function takeDatabaseAway(): Promise<() => Promise<void>> {
  const [{ name } = { name: '' }] = await service.rows<{ name: string }>('select current_database() as name');
  const admin = new pg.Client({ ...inject('testServer'), database: 'postgres' });
  await admin.connect();
  await admin.query(`alter database ${name} allow_connections false`);
  await admin.query('select pg_terminate_backend(pid, 5000) from pg_stat_activity where datname = $1', [
    name,
  ]);
  await admin.query(`alter database ${name} rename to ${name}_away`);
  return async () => {
    await admin.query(`alter database ${name}_away rename to ${name}`);
    await admin.query(`alter database ${name} allow_connections true`);
    await admin.end();
  };
}

describe('a click in a client', () => {
  const click = async (as: TestProject, user: string, id: string, body: object = {}) =>
    (await as.as(user)('POST', `/notifications/${id}/click`, body)).status;
  const notificationOf = async (user: string) =>
    (await project.as(user)('GET', '/notifications')).body.data[0].id as string;
  async function sent(user: string): Promise<{ broadcastId: string; id: string }> {
    const { body } = await project.call('POST', '/broadcasts', {
      title: 'T',
      recipients: [{ external_id: user }],
    });
    await processed(project.call, body.id);
    return { broadcastId: body.id, id: await notificationOf(user) };
  }

  test('in the inbox is an event, and is shown with the delivery', async () => {
    await track(false, true);
    const { broadcastId, id } = await sent('bob');
    expect([await click(project, 'bob', id), await click(project, 'bob', id, { channel: 'in_app' })]).toEqual(
      [204, 204],
    );
    const delivery = await deliveryOf(broadcastId, 'in_app');
    expect(delivery).toMatchObject({ state: 'sent', clicks: 2, clicked_at: expect.any(String), opens: 0 });
    expect(await eventsOf('delivery.clicked')).toMatchObject(
      Array(2).fill({
        context: { channel: 'in_app', delivery_id: `${id}.in_app`, user_id: delivery.user_id },
      }),
    );
    const { body } = await project.as('bob')('GET', `/notifications/${id}`);
    expect(body.read_at).toBeNull();
  });

  test('needs no body, and describes a wrong one', async () => {
    await track(false, true);
    const { broadcastId, id } = await sent('bob');
    const call = (body?: unknown, headers?: Record<string, string>) =>
      project.as('bob')('POST', `/notifications/${id}/click`, body, headers);
    expect((await call()).status).toBe(204);
    expect((await call(undefined, { 'content-type': 'application/json' })).status).toBe(204);
    expect((await call(undefined, { 'idempotency-key': newId() })).status).toBe(204);
    expect((await deliveryOf(broadcastId, 'in_app')).clicks).toBe(3);
    const refused = await call([]);
    expect([refused.status, refused.body.errors[0].message]).toEqual([
      422,
      "Param '(root)' must be an object or null",
    ]);
    const { body: description } = await project.call('GET', '/openapi.json');
    expect(description.paths['/notifications/{notification_id}/click'].post.requestBody).toMatchObject({
      required: false,
      content: { 'application/json': { schema: { $ref: '#/components/schemas/ClickInput' } } },
    });
    expect(description.components.schemas.ClickInput).toMatchObject({ type: 'object' });
  });

  test('is not recorded if the project does not track clicks', async () => {
    const { broadcastId, id } = await sent('bob');
    expect(await click(project, 'bob', id)).toBe(204);
    expect(await deliveryOf(broadcastId, 'in_app')).toMatchObject({ clicks: 0, clicked_at: null });
    expect(await eventsOf('delivery.clicked')).toEqual([]);
  });

  test('is a 404 for a notification that the user does not have, or not on that channel', async () => {
    await track(false, true);
    const { id } = await sent('bob');
    expect(await click(project, 'ann', id)).toBe(404);
    expect(await click(project, 'bob', newId())).toBe(404);
    expect(await click(project, 'bob', id, { channel: 'mobile_push' })).toBe(404);
    expect(await click(project, 'bob', id, { channel: 'email' })).toBe(422);
    const other = await service.createProject(`theirs ${made}`);
    await track(false, true, other);
    expect(await click(other, 'bob', id)).toBe(404);
    await project.as('bob')('DELETE', `/notifications/${id}`);
    expect(await click(project, 'bob', id)).toBe(404);
    expect(await eventsOf('delivery.clicked')).toEqual([]);
  });

  test('is an event a hundred times at most, and always counted', async () => {
    await track(false, true);
    const { broadcastId, id } = await sent('bob');
    const responses = await Promise.all(Array.from({ length: 120 }, () => click(project, 'bob', id)));
    expect(new Set(responses)).toEqual(new Set([204]));
    expect((await deliveryOf(broadcastId, 'in_app')).clicks).toBe(120);
    const [{ count } = { count: -1 }] = await service.rows<{ count: number }>(
      "select count(*)::int as count from events where project_id = $1 and type = 'delivery.clicked'",
      [project.id],
    );
    expect(count).toBe(100);
  });

  test('repeated under an Idempotency-Key counts once', async () => {
    await track(false, true);
    const { broadcastId, id } = await sent('bob');
    for (let count = 0; count < 2; count += 1) {
      const response = await project.as('bob')(
        'POST',
        `/notifications/${id}/click`,
        {},
        { 'idempotency-key': 'k1' },
      );
      expect(response.status).toBe(204);
    }
    expect((await deliveryOf(broadcastId, 'in_app')).clicks).toBe(1);
  });
});

describe('a web push', () => {
  /** A push service, and a browser that decrypts its messages. */
  async function browser(): Promise<{ pushes: unknown[]; token: object }> {
    const pair = createECDH('prime256v1');
    const keys = { p256dh: pair.generateKeys('base64url'), auth: Buffer.alloc(16, 7).toString('base64url') };
    const pushes: unknown[] = [];
    const server = createServer((request, response) => {
      const parts: Buffer[] = [];
      request.on('data', (part: Buffer) => parts.push(part));
      request.on('end', () => {
        pushes.push(JSON.parse(decryptPush(Buffer.concat(parts), { privateKey: pair, auth: keys.auth })));
        response.writeHead(201).end();
      });
    });
    await once(server.listen(0, '127.0.0.1'), 'listening');
    onTestFinished(() => void server.close());
    const { port } = server.address() as AddressInfo;
    return { pushes, token: { endpoint: `http://127.0.0.1:${port}/send/1`, keys } };
  }

  test('has a click URL if clicks are tracked, and none if not', async () => {
    const { pushes, token } = await browser();
    await project.call('PUT', '/integrations/web_push', createVapidKeys());
    const user = project.as('carl');
    expect((await user('PUT', '/channels/web_push/tokens', token)).status).toBe(200);
    const send = async () => {
      const { body } = await project.call('POST', '/broadcasts', {
        title: 'T',
        recipients: [{ external_id: 'carl' }],
      });
      await processed(project.call, body.id);
      return body.id as string;
    };
    await send();
    expect(pushes).toHaveLength(1);
    expect(pushes[0]).not.toHaveProperty('tracking_url');
    await track(false, true);
    const broadcastId = await send();
    const { tracking_url } = pushes[1] as { tracking_url: string };
    expect(tracking_url).toMatch(/^https:\/\/notify\.example\.com\/t\/c\/w[\w-]{87}$/);
    const here = tracking_url.replace(PUBLIC_URL, service.address);
    expect((await follow(here)).status).toBe(404); // it has no target
    const posted = await follow(here, { method: 'POST', headers: { origin: 'https://shop.example' } });
    expect([posted.status, posted.headers.get('access-control-allow-origin')]).toEqual([204, '*']);
    expect((await follow(`${here.slice(0, -2)}AA`, { method: 'POST', body: 'x' })).status).toBe(404);
    const delivery = await until(
      () => deliveryOf(broadcastId, 'web_push'),
      ({ clicks }) => clicks === 1,
    );
    const [event] = await eventsOf('delivery.clicked');
    expect(event.context).toMatchObject({
      channel: 'web_push',
      delivery_id: delivery.id,
      provider: 'web_push',
    });
    expect(event).not.toHaveProperty('payload');
    const id = delivery.notification_id;
    expect((await user('POST', `/notifications/${id}/click`, { channel: 'web_push' })).status).toBe(204);
    expect((await deliveryOf(broadcastId, 'web_push')).clicks).toBe(2);
  });
});

test('links of a deleted user redirect, and nothing is recorded', async () => {
  await track(true, true);
  const { tracked, picture, broadcastId } = await mailed();
  const { user_id: userId } = await deliveryOf(broadcastId, 'email');
  expect((await project.call('DELETE', `/users/${userId}`)).status).toBe(204);
  expect((await follow(tracked[0] ?? '')).headers.get('location')).toBe(SHOP);
  expect((await follow(picture ?? '')).status).toBe(200);
  await settled();
  expect(await deliveryOf(broadcastId, 'email')).toMatchObject({ clicks: 0, opens: 0 });
  for (const type of ['delivery.clicked', 'delivery.opened']) expect(await eventsOf(type)).toEqual([]);
});

test('clicks of an erased user are deleted', async () => {
  await track(true, true);
  const { tracked, picture, broadcastId } = await mailed();
  await Promise.all([follow(tracked[0] ?? ''), follow(picture ?? '')]);
  const delivery = await until(
    () => deliveryOf(broadcastId, 'email'),
    ({ clicks, opens }) => clicks === 1 && opens === 1,
  );
  expect((await project.call('DELETE', `/users/${delivery.user_id}`)).status).toBe(204);
  const later = { now: () => clock.now() + GRACE_MS };
  while (await purgeUsers({ ...service.context, clock: later }));
  const [event] = await eventsOf('delivery.clicked');
  expect(event.context).toMatchObject({ channel: 'email', user_id: delivery.user_id });
  expect(event).not.toHaveProperty('payload');
  // Links redirect, and there is no user to record them for.
  expect((await follow(tracked[0] ?? '')).status).toBe(302);
  await settled();
  expect(await eventsOf('delivery.clicked')).toHaveLength(1);
});

test('pending hits are stored when the service stops', async () => {
  await track(false, true);
  const { tracked, broadcastId } = await mailed();
  const [link = ''] = tracked;
  await Promise.all(Array.from({ length: 5 }, () => follow(link)));
  await service.restart();
  expect((await deliveryOf(broadcastId, 'email')).clicks).toBe(5);
});
