import { readdirSync, readFileSync } from 'node:fs';
import Stripe from 'stripe';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { startTestService, type TestProject, type TestService, until } from '../support/service.ts';
import { type SmtpStandIn, startSmtpStandIn } from '../support/smtp-stand-in.ts';
import { startVendor, type VendorStandIn } from '../support/vendor-stand-in.ts';
import { QUEUED } from '../support/vendors.ts';
import { ended, inState, STATE, type StepOfTest, stepsOf } from '../support/workflows.ts';

// The recipes of docs/guides/workflows.md run.

const FOLDER = new URL('../../../docs/guides/recipes/', import.meta.url);
const HOUR = 3_600_000;
const DAY = 24 * HOUR;

let service: TestService;
let project: TestProject;
let phone: VendorStandIn;
let mail: SmtpStandIn;
let shop: VendorStandIn;
let laterMs = 0;
let made = 0;
/** The sender of this test's e-mails. Those of an earlier test may still arrive. */
const sender = () => `news${made}@example.com`;
const tested = new Set<string>();
const STRIPE_SECRET = 'whsec_recipes';

beforeAll(async () => {
  [phone, mail, shop] = await Promise.all([startVendor(), startSmtpStandIn(), startVendor()]);
  service = await startTestService({
    settings: { PROVIDER_TWILIO_BASE_URL: phone.address },
    clock: { now: () => Date.now() + laterMs },
    pollMs: 50,
  });
});
afterAll(async () => {
  await service?.stop();
  await Promise.all([phone, mail, shop].map((one) => one?.stop()));
});
beforeEach(async () => {
  made += 1;
  project = await service.createProject(`recipes ${made}`);
  phone.reply(QUEUED);
  const twilio = { account_sid: 'AC1', api_key: 'SK1', api_secret: 'secret', from: '+14155550100' };
  const smtp = {
    host: '127.0.0.1',
    port: mail.port,
    username: 'mailer',
    password: 'open sesame',
    from: { email: sender() },
    security: 'none',
  };
  for (const [path, body] of [
    ['/integrations/twilio', twilio],
    ['/integrations/smtp', smtp],
    ['/users', ADA],
  ] as const)
    expect([path, (await project.call('PUT', path, body)).status]).toEqual([path, 200]);
});
afterEach(() => {
  phone.reply(QUEUED);
});

const ADA = {
  external_id: 'ada',
  email: 'ada@example.com',
  first_name: 'Ada',
  phone_numbers: ['+15005550001'],
};
async function channels(key: string, ...names: string[]): Promise<void> {
  const body = { key, channels: names.map((channel) => ({ channel })) };
  expect((await project.call('PUT', '/channels', body)).status).toBe(200);
}
const inbox = async (): Promise<string[]> =>
  (await project.as('ada')('GET', '/notifications')).body.data.map(({ title }: { title: string }) => title);
const texts = () => phone.requests.map(({ body }) => new URLSearchParams(body).get('Body'));
const mails = () => mail.received.filter(({ from }) => from === sender()).length;

async function markSeen(): Promise<void> {
  const call = project.as('ada');
  const [notification] = (await call('GET', '/notifications')).body.data;
  expect((await call('POST', `/notifications/${notification.id}/seen`)).status).toBe(204);
}

/** Saves a recipe, and returns the key of its workflow. */
async function save(name: string): Promise<string> {
  tested.add(name);
  const text = readFileSync(new URL(`${name}.json`, FOLDER), 'utf8');
  const definition = JSON.parse(text.replaceAll('https://shop.example.com', shop.address)) as {
    key: string;
    steps: StepOfTest[];
  };
  const saved = await project.call('PUT', '/workflows', definition);
  if (saved.status !== 200) throw new Error(saved.text);
  return definition.key;
}

/** Saves a recipe and starts a run for Ada. */
async function start(name: string, input: object = {}): Promise<string> {
  const key = await save(name);
  const user = { external_id: 'ada' };
  const started = await project.call('POST', '/workflows/runs', { key, input: { user, ...input } });
  if (started.status !== 200) throw new Error(started.text);
  return started.body.id;
}

/** Waits until the run waits at a step, and lets the time pass. */
async function passes(id: string, place: string, ms: number): Promise<void> {
  await until(
    () => inState(project, id, STATE.waiting),
    (run) => run.steps.at(-1).place === place,
  );
  laterMs += ms;
}

describe('onboarding drip', () => {
  beforeEach(() => channels('onboarding', 'in_app', 'email'));

  test('reminds a user who has not seen the welcome, and offers help', async () => {
    const id = await start('onboarding-drip');
    await expect.poll(inbox).toEqual(['Welcome, Ada']);
    await expect.poll(mails).toBe(1);
    await passes(id, '1', DAY);
    await expect.poll(mails).toBe(2);
    await passes(id, '3', 3 * DAY);
    expect((await ended(project, id)).status.state).toBe(STATE.completed);
    await expect
      .poll(inbox)
      .toEqual(['Can we help you to start?', 'Your account is waiting for you', 'Welcome, Ada']);
    await expect.poll(mails).toBe(3);
  });

  test('sends nothing more to a user who has seen it and has started', async () => {
    const id = await start('onboarding-drip');
    await expect.poll(inbox).toHaveLength(1);
    await markSeen();
    await passes(id, '1', DAY);
    await project.call('PUT', '/users', { external_id: 'ada', custom_attributes: { activated: true } });
    await passes(id, '3', 3 * DAY);
    const run = await ended(project, id);
    expect(run.status).toMatchObject({ state: STATE.aborted, error: 'the user has started' });
    expect(stepsOf(run).at(2)).toBe('2 broadcast skipped');
    expect(await inbox()).toEqual(['Welcome, Ada']);
  });
});

describe('escalate if unseen', () => {
  beforeEach(async () => {
    await channels('alerts', 'in_app');
    await channels('alerts_by_text', 'sms');
  });

  test('sends a text message after an hour', async () => {
    const id = await start('escalate-if-unseen', { title: 'The pump is hot' });
    await expect.poll(inbox).toEqual(['The pump is hot']);
    await passes(id, '1', HOUR - 60_000);
    expect(texts()).toEqual([]);
    laterMs += 60_000;
    await ended(project, id);
    await expect.poll(texts).toEqual(['The pump is hot']);
  });

  test('sends none to a user who has seen the notification', async () => {
    const id = await start('escalate-if-unseen', { title: 'The pump is hot' });
    await expect.poll(inbox).toHaveLength(1);
    await markSeen();
    await passes(id, '1', HOUR);
    expect(stepsOf(await ended(project, id)).at(-1)).toBe('2 broadcast skipped');
    expect(texts()).toEqual([]);
  });
});

describe('comment digest', () => {
  test('sends one message for many comments', async () => {
    await channels('comments', 'in_app', 'email');
    const comment = (author: string, document = 'plan') => ({ author, text: `<${author}>`, document });
    const first = await start('comment-digest', comment('Bob'));
    await inState(project, first, STATE.waiting);
    const others = [
      await start('comment-digest', comment('Cleo')),
      await start('comment-digest', comment('Dora', 'budget')),
    ];
    expect(stepsOf(await ended(project, others[0] ?? ''))).toEqual(['0 digest completed']);
    await inState(project, others[1] ?? '', STATE.waiting);
    expect(await inbox()).toEqual([]);
    laterMs += HOUR;
    for (const id of [first, ...others])
      expect((await ended(project, id)).status.state).toBe(STATE.completed);
    await expect
      .poll(async () => (await inbox()).toSorted())
      .toEqual(['1 new comment on budget', '2 new comments on plan']);
    await expect.poll(mails).toBe(2);
    const [shown] = (await project.as('ada')('GET', '/notifications')).body.data.filter(
      ({ title }: { title: string }) => title.startsWith('2'),
    );
    expect(shown.content).toBe('<p>Bob: &lt;Bob&gt;</p><p>Cleo: &lt;Cleo&gt;</p>');
  });
});

describe('quiet hours', () => {
  /** Moves the clock to this hour of the next day. */
  const tomorrowAt = (hourUtc: number) => {
    const nowMs = Date.now() + laterMs;
    laterMs += DAY - (nowMs % DAY) + hourUtc * HOUR;
  };
  beforeEach(async () => {
    await channels('alerts', 'in_app');
    await channels('alerts_by_text', 'sms');
    const windows = { channels: [{ channel: 'sms', windows: [{ from: '09:00', to: '18:00' }] }] };
    expect((await project.call('PUT', '/channels/delivery_windows', windows)).status).toBe(200);
  });

  test('let a text message wait for the morning', async () => {
    tomorrowAt(2);
    const id = await start('quiet-hours', { title: 'The pump is hot' });
    await expect.poll(inbox).toEqual(['The pump is hot']);
    await passes(id, '1', 7 * HOUR);
    await ended(project, id);
    await expect.poll(texts).toEqual(['The pump is hot']);
  });

  test('send none if the alert was seen meanwhile', async () => {
    tomorrowAt(2);
    const id = await start('quiet-hours', { title: 'The pump is hot' });
    await expect.poll(inbox).toHaveLength(1);
    await markSeen();
    await passes(id, '1', 7 * HOUR);
    expect(stepsOf(await ended(project, id)).at(-1)).toBe('2 broadcast skipped');
    expect(texts()).toEqual([]);
  });
});

describe('re-engagement', () => {
  beforeEach(() => channels('re_engagement', 'email'));
  const lastSeen = async () => (await project.call('GET', '/users/external_id:ada')).body.last_seen_at;

  test('writes twice to a user who stays away', async () => {
    const id = await start('re-engagement');
    await passes(id, '0', 14 * DAY);
    await expect.poll(mails).toBe(1);
    await passes(id, '3', 14 * DAY);
    expect((await ended(project, id)).status.state).toBe(STATE.completed);
    await expect.poll(mails).toBe(2);
  });

  test('ends when the user is back', async () => {
    const id = await start('re-engagement');
    await passes(id, '0', 14 * DAY);
    await expect.poll(mails).toBe(1);
    await inbox();
    await expect.poll(lastSeen).not.toBeNull();
    await passes(id, '3', 14 * DAY);
    expect((await ended(project, id)).status).toMatchObject({
      state: STATE.aborted,
      error: 'the user was back within four weeks',
    });
    expect(mails()).toBe(1);
  });
});

describe('cart reminder', () => {
  test('names the items that another system still has', async () => {
    shop.reply({ status: 200, body: { items: 3 } });
    const id = await start('cart-reminder', { cart: 'c1' });
    await passes(id, '0', 2 * HOUR);
    await ended(project, id);
    expect(shop.requests.map(({ method, path }) => [method, path])).toEqual([['GET', '/carts/c1']]);
    await expect.poll(inbox).toEqual(['3 items wait in your cart']);
  });

  test('ends if the cart is empty', async () => {
    shop.reply({ status: 200, body: { items: 0 } });
    const id = await start('cart-reminder', { cart: 'c2' });
    await passes(id, '0', 2 * HOUR);
    expect((await ended(project, id)).status).toMatchObject({
      state: STATE.aborted,
      error: 'the cart is empty',
    });
    expect(await inbox()).toEqual([]);
  });
});

describe('trial ends', () => {
  const attributes = async () => (await project.call('GET', '/users/external_id:ada')).body.custom_attributes;

  test('informs a paying user that the plan continues', async () => {
    await project.call('PUT', '/users', { external_id: 'ada', custom_attributes: { plan: 'premium' } });
    await ended(project, await start('trial-ends'));
    await expect.poll(inbox).toEqual(['Your plan continues']);
    expect(await attributes()).toEqual({ plan: 'premium' });
  });

  test('changes the plan of others after three days', async () => {
    const id = await start('trial-ends');
    await passes(id, '0.1.1', 3 * DAY);
    await ended(project, id);
    expect(await inbox()).toEqual(['Your trial ends in three days']);
    expect(await attributes()).toEqual({ plan: 'free' });
  });
});

describe('dunning', () => {
  let integration: string;
  let events = 0;
  beforeEach(async () => {
    await channels('billing', 'email');
    await project.call('PUT', '/integrations/stripe', { webhook_signing_secret: STRIPE_SECRET });
    const { data } = (await project.call('GET', '/integrations')).body;
    integration = data.find(({ name }: { name: string }) => name === 'stripe').id;
  });

  /** Stripe reports an event of Ada's invoice. */
  async function stripe(type: string): Promise<void> {
    events += 1;
    const invoice = {
      id: 'in_1',
      customer_email: ADA.email,
      hosted_invoice_url: 'https://invoice.stripe.com/i/1',
    };
    const payload = JSON.stringify({ id: `evt_${events}`, type, data: { object: invoice } });
    const timestamp = Math.floor((Date.now() + laterMs) / 1_000);
    const path = `/v2/integrations/stripe/webhooks/incoming/${integration}`;
    const signature = Stripe.webhooks.generateTestHeaderString({ payload, secret: STRIPE_SECRET, timestamp });
    const { status } = await service.request('POST', path, {
      raw: payload,
      headers: { 'content-type': 'application/json', 'stripe-signature': signature },
    });
    expect(status).toBe(201);
  }
  const runsOf = async (key: string) =>
    (await project.call('GET', `/workflows/${encodeURIComponent(key)}/runs`)).body.data;

  test('writes once for an invoice, and reminds after a week', async () => {
    const key = await save('dunning');
    await stripe('invoice.payment_failed');
    await expect.poll(mails).toBe(1);
    const [first] = await runsOf(key);
    await inState(project, first.id, STATE.waiting);
    await stripe('invoice.payment_failed');
    await expect
      .poll(async () => (await runsOf(key)).map((run: { status: { state: number } }) => run.status.state))
      .toEqual([STATE.aborted, STATE.waiting]);
    await passes(first.id, '2', 7 * DAY);
    expect((await ended(project, first.id)).status.state).toBe(STATE.completed);
    await expect.poll(mails).toBe(2);
  });

  test('ends when the invoice is paid', async () => {
    const key = await save('dunning');
    await stripe('invoice.payment_failed');
    await expect.poll(mails).toBe(1);
    const [run] = await runsOf(key);
    await passes(run.id, '2', DAY);
    await stripe('invoice.paid');
    expect((await ended(project, run.id)).status).toMatchObject({
      state: STATE.aborted,
      error: 'the invoice was paid',
    });
    expect(mails()).toBe(1);
  });
});

test('each recipe is tested, and is in the guide', () => {
  const names = readdirSync(FOLDER).map((file) => file.replace(/\.json$/, ''));
  expect([...tested].sort()).toEqual(names.sort());
  const guide = readFileSync(new URL('../workflows.md', FOLDER), 'utf8');
  for (const name of names) expect(guide).toContain(`(recipes/${name}.json)`);
});
