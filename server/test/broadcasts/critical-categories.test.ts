import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { DeliveryRecord } from '../../src/contract/delivery.ts';
import { SUPPRESSION_REASONS } from '../../src/contract/suppression.ts';
import { unsubscribe } from '../../src/domain/after/receipts/unsubscribe.ts';
import { unsubscribeToken } from '../../src/domain/ground/links/signed-links.ts';
import { mailgun } from '../../src/providers/mailgun/index.ts';
import { pingEmail } from '../../src/providers/ping-email/index.ts';
import { sendgrid } from '../../src/providers/sendgrid/index.ts';
import { ses } from '../../src/providers/ses/index.ts';
import { emailMessage } from '../support/email-message.ts';
import { listAll } from '../support/pages.ts';
import { processed, startTestService, type TestProject, type TestService } from '../support/service.ts';
import { startVendors, type Vendors } from '../support/vendors.ts';

let service: TestService;
let vendors: Vendors;
let project: TestProject;

beforeAll(async () => {
  vendors = await startVendors();
  const settings = { ...vendors.settings, PUBLIC_URL: 'https://notify.example.com' };
  service = await startTestService({ settings, pollMs: 50 });
});
afterAll(async () => {
  await Promise.all([service?.stop(), vendors?.stop()]);
});

const CHANNELS = ['in_app', 'email', 'sms'] as const;
const channels = CHANNELS.map((channel) => ({ channel }));
const configure = async (key: string, critical: boolean) => {
  const saved = await project.call('PUT', '/channels', { key, channels, ...(critical ? { critical } : {}) });
  expect(saved.status).toBe(200);
};
const preferences = '/channels/user_preferences';
const entry = (key: string, enabled: boolean, more: object = {}) => ({
  key,
  label: null,
  ...more,
  channels: CHANNELS.map((name) => ({ name, enabled })),
});
const unsubscribeLink = async (userId: string, category: string) => {
  const known = await service.context.projects.byId(project.id);
  if (known === undefined) throw new Error('there is no such project');
  const token = unsubscribeToken(known.signingKey, {
    projectId: project.id,
    userId,
    channel: 'email',
    category,
  });
  return `${service.address}/unsubscribe/${token}`;
};
const oneClick = (url: string) =>
  fetch(url, { method: 'POST', body: new URLSearchParams({ 'List-Unsubscribe': 'One-Click' }) });
const send = async (body: object): Promise<string> => {
  const sent = await project.call('POST', '/broadcasts', { title: 'Hello', ...body });
  expect(sent.status).toBe(201);
  await processed(project.call, sent.body.id);
  return sent.body.id;
};

function deliveriesOf(id: string): Promise<DeliveryRecord[]> {
  return listAll(project.call, `/broadcasts/${id}/deliveries?limit=100`);
}

interface Person {
  name: string;
  /** Disabled in the preferences, on all channels. */
  preference: boolean;
  /** One-click unsubscribe from an e-mail. */
  oneClick: boolean;
  /** Reported by the e-mail provider. */
  byVendor: boolean;
  /** Why the address and the phone number are suppressed. */
  suppressed: (typeof SUPPRESSION_REASONS)[number] | undefined;
}

const BOOLEANS = [false, true];
const people: Person[] = BOOLEANS.flatMap((preference) =>
  BOOLEANS.flatMap((oneClick) =>
    BOOLEANS.flatMap((byVendor) =>
      [undefined, ...SUPPRESSION_REASONS].map((suppressed) => ({
        preference,
        oneClick,
        byVendor,
        suppressed,
      })),
    ),
  ),
).map((person, index) => ({ name: `u${index}`, ...person }));

/** The expected outcome, rule by rule. */
function oracle(critical: boolean, channel: string, person: Person): string {
  if (!critical) {
    if (person.preference) return 'switched_off';
    if (channel === 'email' && person.oneClick) return 'switched_off';
    if (channel === 'email' && person.byVendor) return 'switched_off';
  }
  if (channel === 'in_app' || person.suppressed === undefined) return 'sent';
  if (critical && channel === 'email' && person.suppressed === 'unsubscribed') return 'sent';
  return 'address_suppressed';
}

describe('every combination of opt-outs', () => {
  const users = new Map<string, Person>();

  beforeAll(async () => {
    project = await service.createProject('opt-outs');
    await vendors.setUp(project, ['smtp', 'twilio']);
    // Users opt out while neither category is critical.
    for (const key of ['news', 'auth/code']) await configure(key, false);
    await Promise.all(people.map(optOut));
    await configure('auth/code', true);
  });

  async function optOut(person: Person, index: number): Promise<void> {
    const { name, suppressed } = person;
    const [email, phone] = [`${name}@example.com`, `+1415555${1000 + index}`];
    const { body } = await project.call('PUT', '/users', {
      external_id: name,
      email,
      phone_numbers: [phone],
    });
    users.set(body.id, person);
    const categories = ['news', 'auth/code'].map((key) => entry(key, false));
    if (person.preference) await project.as(name)('PUT', preferences, { categories });
    for (const category of ['news', 'auth/code']) {
      if (person.oneClick)
        expect((await oneClick(await unsubscribeLink(body.id, category))).status).toBe(200);
      if (person.byVendor)
        await service.context.db.transaction((db) =>
          unsubscribe({ db, bus: service.context.bus }, { projectId: project.id, channel: 'email' }, [
            { userId: body.id, category, at: new Date() },
          ]),
        );
    }
    if (suppressed === undefined) return;
    for (const address of [{ email }, { phone_number: phone }])
      expect((await project.call('PUT', '/suppressions', { ...address, reason: suppressed })).status).toBe(
        200,
      );
  }

  test.each([
    ['news', false],
    ['auth/code', true],
  ])('deliveries of %s (critical: %s) follow the rules', async (category, critical) => {
    vendors.reset();
    const recipients = people.map(({ name }) => ({ external_id: name }));
    const listed = await deliveriesOf(await send({ category, recipients }));
    const became = listed.map(({ user_id, channel, state, code }) => {
      const person = users.get(user_id) as Person;
      return [{ ...person, channel }, code ?? state, oracle(critical, channel, person)] as const;
    });
    expect(became).toHaveLength(people.length * CHANNELS.length);
    expect(became.filter(([, is, expected]) => is !== expected)).toEqual([]);
    expect(vendors.mail.received.length).toBe(
      people.filter((person) => oracle(critical, 'email', person) === 'sent').length,
    );
    for (const mail of vendors.mail.received) {
      const raw = mail.raw.toString('latin1');
      expect(/^List-Unsubscribe/im.test(raw)).toBe(!critical);
      expect(raw.includes('Unsubscribe')).toBe(!critical);
    }
  });

  test('earlier opt-outs apply again when the category is no longer critical', async () => {
    const person = people.find(({ preference }) => preference) as Person;
    // A client saves the preferences as it read them.
    const call = project.as(person.name);
    const { body } = await call('GET', preferences);
    expect(body.categories).toEqual([entry('news', false), entry('auth/code', true, { required: true })]);
    expect((await call('PUT', preferences, body)).status).toBe(204);
    await configure('auth/code', false);
    const after = (await call('GET', preferences)).body.categories;
    await configure('auth/code', true);
    expect(after).toEqual([entry('news', false), entry('auth/code', false)]);
  });
});

describe('a critical category', () => {
  beforeAll(async () => {
    project = await service.createProject('critical');
    await configure('auth/code', true);
    await configure('news', false);
  });

  test('cannot be disabled: the whole request is a 422 that names it', async () => {
    const call = project.as('ada');
    const { status, body } = await call('PUT', preferences, {
      categories: [entry('news', false), entry('auth/code', false)],
    });
    expect(status).toBe(422);
    expect(body.errors.map(({ message }: { message: string }) => message)).toEqual(
      [0, 1, 2].map(
        (index) =>
          `Param 'categories.1.channels.${index}.enabled' must be true: auth/code is required and ` +
          `cannot be switched off`,
      ),
    );
    expect((await call('GET', preferences)).body.categories).toEqual(
      [entry('auth/code', true, { required: true }), entry('news', true)].toSorted(
        (a, b) => (a.key === 'news' ? 1 : -1) - (b.key === 'news' ? 1 : -1),
      ),
    );
  });

  test('the link of an old e-mail does not disable it, and the page explains this', async () => {
    const { body } = await project.call('PUT', '/users', { external_id: 'ada' });
    const url = await unsubscribeLink(body.id, 'auth/code');
    const shown = await fetch(url);
    expect(shown.status).toBe(200);
    const page = await shown.text();
    expect(page).toContain('cannot be switched off');
    expect(page).not.toContain('<button');
    const clicked = await oneClick(url);
    expect([clicked.status, await clicked.text()]).toEqual([422, page]);
    expect((await project.as('ada')('GET', preferences)).body.categories).toContainEqual(
      entry('auth/code', true, { required: true }),
    );
    expect((await oneClick(await unsubscribeLink(body.id, 'news'))).status).toBe(200);
  });

  test('the link of an old e-mail does not enable it either: the earlier opt-out remains', async () => {
    const { body } = await project.call('PUT', '/users', { external_id: 'dan' });
    const url = await unsubscribeLink(body.id, 'auth/code');
    await configure('auth/code', false);
    expect((await oneClick(url)).status).toBe(200);
    await configure('auth/code', true);
    const clicked = await fetch(url, { method: 'POST', body: new URLSearchParams({ again: 'yes' }) });
    await configure('auth/code', false);
    const after = (await project.as('dan')('GET', preferences)).body.categories;
    await configure('auth/code', true);
    expect([clicked.status, await clicked.text()]).toEqual([
      422,
      expect.stringContaining('cannot be switched off'),
    ]);
    const [{ channels }] = after.filter(({ key }: { key: string }) => key === 'auth/code');
    expect(channels).toContainEqual({ name: 'email', enabled: false });
  });

  test('reaches topic subscribers who left the category, but not users who left the topic', async () => {
    const subscriptions = {
      everything: [['*', 'subscribed']],
      'without the category': [
        ['*', 'subscribed'],
        ['auth/code', 'unsubscribed'],
        ['news', 'unsubscribed'],
      ],
      'the category alone': [
        ['auth/code', 'subscribed'],
        ['news', 'subscribed'],
      ],
      'the other category alone': [
        ['auth/code', 'unsubscribed'],
        ['news', 'subscribed'],
      ],
      nothing: [['*', 'unsubscribed']],
    };
    for (const [name, categories] of Object.entries(subscriptions)) {
      const saved = await project.as(name)('POST', '/subscriptions', {
        topic: 'acme',
        categories: categories.map(([slug, status]) => ({ slug, status })),
      });
      expect(saved.status).toBe(200);
    }
    for (const [category, reached] of [
      ['news', ['everything', 'the category alone', 'the other category alone']],
      ['auth/code', ['everything', 'the category alone', 'the other category alone', 'without the category']],
    ] as const) {
      await send({
        title: `of ${category}`,
        category,
        topic: 'acme',
        recipients: [{ topic: { subscribers: true } }],
      });
      const got = await Promise.all(
        Object.keys(subscriptions).map(async (name) => {
          const { body } = await project.as(name)(
            'GET',
            `/notifications?category=${encodeURIComponent(category)}`,
          );
          return body.data.length === 1 ? [name] : [];
        }),
      );
      expect([category, got.flat().toSorted()]).toEqual([category, reached]);
    }
  });
});

describe('the e-mail of a critical category', () => {
  const message = emailMessage({ critical: true, headers: { 'Auto-Submitted': 'auto-generated' } });

  test('has no unsubscribe link at any provider', () => {
    const from = { email: 'hello@example.com' };
    const requests = [
      mailgun.build(message, { api_key: 'k', domain: 'example.com', region: 'eu', from }),
      ses.build(message, { access_key: 'a', secret_key: 's', region: 'eu-west-1', from } as never),
      pingEmail.build(message, { url: 'https://mailer.example.com' }),
    ];
    for (const request of requests) {
      const { body } = request as { body: string };
      const decoded = body.replace(/[A-Za-z0-9+/]{200,}={0,2}/g, (raw) =>
        Buffer.from(raw, 'base64').toString(),
      );
      expect(decoded).toContain('Hello');
      expect(decoded).not.toMatch(/unsubscribe/i);
    }
  });

  test('SendGrid adds no link of its own and ignores its unsubscribe list', () => {
    const config = { api_key: 'SG.x', from: { email: 'hello@example.com' } };
    const settings = (email: ReturnType<typeof emailMessage>) => {
      const { tracking_settings, mail_settings } = JSON.parse(
        (sendgrid.build(email, config) as { body: string }).body,
      );
      return { tracking_settings, mail_settings };
    };
    expect(settings(message)).toEqual({
      tracking_settings: { subscription_tracking: { enable: false } },
      mail_settings: { bypass_unsubscribe_management: { enable: true } },
    });
    expect(settings(emailMessage())).toEqual({ tracking_settings: undefined, mail_settings: undefined });
  });
});
