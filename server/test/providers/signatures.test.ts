/**
 * Signatures that we verify or create, compared with the code of the vendors that define them. Each side must
 * accept what the other signs.
 */
import { createHmac, createSecretKey } from 'node:crypto';
import * as octokit from '@octokit/webhooks-methods';
import { Stripe } from 'stripe';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { createEgressGuard } from '../../src/lib/egress.ts';
import { github } from '../../src/providers/github/index.ts';
import { pingEmail } from '../../src/providers/ping-email/index.ts';
import { createTransport } from '../../src/providers/shared/transport.ts';
import { stripe } from '../../src/providers/stripe/index.ts';
import { emailMessage } from '../support/email-message.ts';
import { startEmulator } from '../support/emulator.ts';
import { startTestService, type TestService } from '../support/service.ts';
import { startVendor } from '../support/vendor-stand-in.ts';

const SECRET = 'whsec_canary-4c1e';
const FORMER = 'sk_before-the-last-roll';
const OTHER = 'whsec_canary-other';
const NOW = 1_790_000_000_000;
const SECONDS = NOW / 1000;
const BODIES = ['{"id":"evt_1","type":"x"}', '{ "id": "evt_2",\r\n "name": "Grüße 😀" }\n', '{}'];
const hmac = (text: string, secret: string) => createHmac('sha256', secret).update(text).digest('hex');

describe('stripe', () => {
  const theirs = (payload: string, changes: object = {}) =>
    Stripe.webhooks.generateTestHeaderString({ payload, secret: SECRET, timestamp: SECONDS, ...changes });
  const theyTake = (body: string, header: string, nowMs = NOW): boolean => {
    try {
      const event = Stripe.webhooks.constructEvent(body, header, SECRET, 300, undefined, nowMs);
      expect(event).toEqual(JSON.parse(body));
      return true;
    } catch (error) {
      expect(error).toBeInstanceOf(Stripe.errors.StripeSignatureVerificationError);
      return false;
    }
  };
  const weTake = (body: string, header: string, nowMs = NOW) =>
    stripe.receives?.isSigned(
      { headers: { 'stripe-signature': header }, body: Buffer.from(body), nowMs },
      { webhook_signing_secret: SECRET },
    );

  test.each(BODIES)('%j signed by either side is accepted by both', (body) => {
    const ours = `t=${SECONDS},v1=${hmac(`${SECONDS}.${body}`, SECRET)}`;
    expect(theirs(body)).toBe(ours);
    expect([weTake(body, ours), theyTake(body, ours)]).toEqual([true, true]);
  });

  const [body = ''] = BODIES;
  const good = theirs(body);
  const rotated = theirs(body, { secret: OTHER });
  test.each<[string, string, string, boolean, number?]>([
    ['of another body', `${body} `, good, false],
    ['with another secret', body, rotated, false],
    ['beside one with another secret', body, `${rotated},${good.split(',')[1]}`, true],
    ['of the scheme for tests', body, theirs(body, { scheme: 'v0' }), false],
    ['cut short', body, good.slice(0, -2), false],
    ['of another time', body, good.replace(String(SECONDS), String(SECONDS + 1)), false],
    ['without its time', body, good.replace(/t=\d+,/, ''), false],
    ['of five minutes ago', body, good, true, NOW + 300_000],
    ['of more than five minutes ago', body, good, false, NOW + 301_000],
    ['that is invalid', body, 'nonsense', false],
    ['that is empty', body, '', false],
  ])('a signature %s gets the same verdict', (_, text, header, expected, nowMs = NOW) => {
    expect({ we: weTake(text, header, nowMs), they: theyTake(text, header, nowMs) }).toEqual({
      we: expected,
      they: expected,
    });
  });
});

describe('github', () => {
  const weTake = (body: string, signature: string) =>
    github.receives?.isSigned(
      { headers: { 'x-hub-signature-256': signature }, body: Buffer.from(body), nowMs: NOW },
      { webhook_signing_secret: SECRET },
    );

  test.each(BODIES)('%j signed by either side is accepted by both', async (body) => {
    const ours = `sha256=${hmac(body, SECRET)}`;
    expect(await octokit.sign(SECRET, body)).toBe(ours);
    expect([weTake(body, ours), await octokit.verify(SECRET, body, ours)]).toEqual([true, true]);
    for (const [text, signature] of [
      [`${body} `, ours],
      [body, await octokit.sign(OTHER, body)],
      [body, ours.slice(0, -2)],
      [body, ours.replace('sha256', 'sha1')],
    ] as const)
      expect([weTake(text, signature), await octokit.verify(SECRET, text, signature)]).toEqual([
        false,
        false,
      ]);
  });
});

test("a custom mailer can verify requests with Stripe's library, whose rules we follow", async () => {
  const mailer = await startVendor();
  const egress = createEgressGuard({ allow: '127.0.0.0/8' });
  const transport = createTransport({ egress });
  const sender = pingEmail.connect({ url: mailer.address }, { egress, transport, clock: { now: () => NOW } });
  mailer.reply({ status: 204 });
  const signing = {
    header: 'X-BELFRY-SIGNATURE',
    keys: [SECRET, FORMER].map((secret) => createSecretKey(Buffer.from(secret))),
  };
  expect(await sender.send(emailMessage({ signing, subject: 'Grüße' }))).toEqual({ kind: 'sent' });
  const { body = '', headers } = mailer.requests[0] ?? {};
  const header = String(headers?.['x-belfry-signature']);
  const { signature } = Stripe.webhooks;
  // While the former secret of the project is valid, a mailer with either secret can verify the request.
  expect(signature?.verifyHeader(body, header, SECRET, 300, undefined, NOW)).toBe(true);
  expect(signature?.verifyHeader(body, header, FORMER, 300, undefined, NOW)).toBe(true);
  for (const [text, secret] of [
    [`${body} `, SECRET],
    [body, OTHER],
  ] as const)
    expect(() => signature?.verifyHeader(text, header, secret, 300, undefined, NOW)).toThrow();
  await sender.close();
  await transport.close();
  await mailer.stop();
});

describe('requests from', () => {
  let service: TestService;
  beforeAll(async () => {
    service = await startTestService();
  });
  afterAll(() => service?.stop());

  async function setUp(provider: string): Promise<string> {
    const config = { webhook_signing_secret: SECRET };
    expect((await service.project.call('PUT', `/integrations/${provider}`, config)).status).toBe(200);
    const { id } = (await service.project.call('GET', `/integrations/${provider}`)).body.data[0];
    return `${service.address}/v2/integrations/${provider}/webhooks/incoming/${id}`;
  }
  const recorded = async () =>
    (await service.project.call('GET', '/events?type=integration.received')).body.data;

  test('a GitHub emulator are recorded', async () => {
    const { emulator, address } = await startEmulator('github', {
      users: [{ login: 'admin' }],
      repos: [{ owner: 'admin', name: 'shop' }],
    });
    const hooks = async (path: string, body: object = {}) => {
      const response = await fetch(`${address}/repos/admin/shop/hooks${path}`, {
        method: 'POST',
        headers: { authorization: 'Bearer test_token_admin', 'content-type': 'application/json' },
        body: JSON.stringify(body),
      });
      return { status: response.status, text: await response.text() };
    };
    const url = await setUp('github');
    const hook = (secret: string) =>
      hooks('', { events: ['push'], config: { url, secret, content_type: 'json' } });
    const made = await hook(SECRET);
    expect(made.status).toBe(201);
    const { id } = JSON.parse(made.text);
    expect((await hooks(`/${id}/pings`)).status).toBe(204);
    expect((await hooks(`/${id}/tests`)).status).toBe(204);
    const events = await recorded();
    expect(events.map(({ context }: { context: object }) => context)).toMatchObject([
      { provider: 'github', event: 'push' },
      { provider: 'github', event: 'ping' },
    ]);
    expect(events[0].payload).toMatchObject({
      ref: 'refs/heads/main',
      repository: { full_name: 'admin/shop' },
    });
    await emulator.close();
  });

  test('Stripe, signed by its library, are recorded', async () => {
    const url = await setUp('stripe');
    const body = '{\n  "id": "evt_1",\n  "type": "invoice.paid"\n}';
    const send = (secret: string) =>
      fetch(url, {
        method: 'POST',
        body,
        headers: {
          'content-type': 'application/json',
          'stripe-signature': Stripe.webhooks.generateTestHeaderString({ payload: body, secret }),
        },
      });
    expect((await send(OTHER)).status).toBe(401);
    expect((await send(SECRET)).status).toBe(201);
    expect((await recorded())[0]).toMatchObject({
      context: { provider: 'stripe', event: 'invoice.paid', delivery_id: 'evt_1' },
      payload: { id: 'evt_1', type: 'invoice.paid' },
    });
  });
});
