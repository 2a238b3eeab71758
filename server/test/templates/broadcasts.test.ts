import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { GRACE_MS, purgeUsers } from '../../src/domain/after/erasure/purge-users.ts';
import { purgeExpired } from '../../src/domain/after/erasure/retention.ts';
import { renderInboxTexts } from '../../src/domain/line/fan-out/inbox-texts.ts';
import { type AddressedPage, withNotifications } from '../../src/domain/line/fan-out/write-fan-out.ts';
import { enqueue } from '../../src/queue/enqueue.ts';
import { deliveriesOf, reachEverywhere } from '../support/all-channels.ts';
import {
  type ApiResponse,
  processed,
  startTestService,
  type TestProject,
  type TestService,
} from '../support/service.ts';
import { startVendors, type Vendors } from '../support/vendors.ts';
import { ended, inState, STATE, startRun } from '../support/workflows.ts';

// Broadcasts with a template, through the whole service.

const DAY_MS = 24 * 3_600_000;
let service: TestService;
let vendors: Vendors;
let project: TestProject;
let made = 0;

beforeAll(async () => {
  vendors = await startVendors();
  service = await startTestService({ settings: vendors.settings, pollMs: 50 });
});
afterAll(async () => {
  await service?.stop();
  await vendors?.stop();
});
beforeEach(async () => {
  made += 1;
  project = await service.createProject(`broadcasts with templates ${made}`);
  vendors.reset();
});

const post = (body: object, headers?: Record<string, string>) =>
  project.call('POST', '/broadcasts', body, headers);
const to = (...names: string[]) => names.map((external_id) => ({ external_id }));
const inbox = async (name: string) => (await project.as(name)('GET', '/notifications')).body.data;
const titles = async (name: string) => (await inbox(name)).map(({ title }: { title: string }) => title);

async function save(key: string, locales: object, more: object = {}): Promise<void> {
  const [default_locale] = Object.keys(locales);
  const { status, text } = await project.call('PUT', `/templates/${key}`, {
    default_locale,
    locales,
    ...more,
  });
  expect([status, text]).toEqual([200, expect.any(String)]);
}

async function user(external_id: string, more: object = {}): Promise<string> {
  const { status, body } = await project.call('PUT', '/users', { external_id, ...more });
  expect([status, body]).toEqual([200, expect.anything()]);
  return body.id;
}

/** Sends a broadcast and waits until all its deliveries have ended. */
async function send(body: object): Promise<ApiResponse['body']> {
  const sent = await post(body);
  expect([sent.status, sent.body]).toEqual([201, expect.anything()]);
  return processed(project.call, sent.body.id);
}

const GREETINGS = {
  en: { title: 'Hello {{ user.first_name | default: "friend" }}', content: 'Plan {{ data.plan }}' },
  de: { title: 'Hallo {{ user.first_name | default: "du" }}', content: 'Tarif {{ data.plan }}' },
};

describe('the inbox shows', () => {
  test('each user the texts of the locale, with the values of the user', async () => {
    await save('welcome', GREETINGS);
    await user('ada', { first_name: 'Ada <3', locale: 'de-AT' });
    await user('bob', { first_name: 'Bob', locale: 'ja' });
    const sent = await send({
      template: { key: 'welcome', data: { plan: 'a & b' } },
      recipients: to('ada', 'bob', 'eve'),
      custom_attributes: { order: 1 },
      category: 'plans',
    });
    expect(sent).toMatchObject({
      title: 'Hello friend',
      content: '<p>Plan a &amp; b</p>',
      template: { key: 'welcome', version: 1, data: { plan: 'a & b' }, uses: {} },
      status: { summary: { total: 3, failures: 0 }, errors: null },
    });
    expect(await inbox('ada')).toMatchObject([
      {
        title: 'Hallo Ada <3',
        content: '<p>Tarif a &amp; b</p>',
        action_url: null,
        custom_attributes: { order: 1 },
        category: 'plans',
      },
    ]);
    expect(await titles('bob')).toEqual(['Hello Bob']);
    expect(await titles('eve')).toEqual(['Hello friend']);
  });

  test.each([
    [
      'an expression in a string',
      '{% assign own = data.items | where_exp: "i", "i.of == user.external_id" %}{{ own[0].name }}',
    ],
    ['a name that is computed', '{{ [data.name].external_id }}'],
    [
      'a variable that is assigned at times',
      '{% if data.no %}{% assign user = data.no %}{% endif %}{{ user.external_id }}',
    ],
    ['a partial that is rendered in two ways', "{% render 'who', user: data.no %}{% render 'who' %}"],
    ['the end of a range', '{% for n in (1..user.custom_attributes.age) %}{{ n }}{% endfor %}'],
  ])('each user their own texts by %s', async (_, content) => {
    await project.call('PUT', '/templates/who', {
      kind: 'partial',
      default_locale: 'en',
      locales: { en: { content: '{{ user.external_id }}' } },
    });
    await save('own', { en: { title: 'Yours', content } });
    await user('ada', { custom_attributes: { age: 1 } });
    await user('bob', { custom_attributes: { age: 2 } });
    const items = ['ada', 'bob'].map((name) => ({ of: name, name }));
    await send({ template: { key: 'own', data: { items, name: 'user' } }, recipients: to('ada', 'bob') });
    const contents = [(await inbox('ada'))[0].content, (await inbox('bob'))[0].content];
    expect([
      ['ada', 'bob'],
      ['1', '12'],
    ]).toContainEqual(contents);
  });

  test('the texts in every interface', async () => {
    await save('welcome', GREETINGS);
    const id = await user('ada', { first_name: 'Ada' });
    await send({ template: { key: 'welcome' }, recipients: to('ada') });
    const [{ id: notificationId }] = await inbox('ada');
    const shown = { title: 'Hello Ada', content: 'Plan ' };
    expect((await project.as('ada')('GET', `/notifications/${notificationId}`)).body).toMatchObject(shown);
    expect((await project.call('GET', `/users/${id}/notifications`)).body.data).toMatchObject([shown]);
    expect((await project.v1As('ada')('GET', '/notifications')).body.notifications).toMatchObject([shown]);
    const exported = await project.call('GET', `/users/${id}/export`);
    expect(exported.text).toContain('Hello Ada');
    const graphql = await service.request('POST', '/graphql', {
      token: project.userJwt({ user_external_id: 'ada' }),
      body: { query: '{ notifications { edges { node { title content } } } }' },
    });
    expect(graphql.body.data.notifications.edges).toMatchObject([{ node: shown }]);
    expect((await project.as('ada')('GET', '/notifications/unread_count')).status).not.toBe(500);
  });

  test('texts that do not differ by user once for each locale, those of users apart', async () => {
    await save('news', { en: { title: 'News {{ data.day }}' }, de: { title: 'Neues {{ data.day }}' } });
    await save('welcome', GREETINGS);
    for (const [name, locale] of Object.entries({ a: 'en', b: 'en', c: 'de', d: 'de' }))
      await user(name, { locale });
    const recipients = to('a', 'b', 'c', 'd');
    const readers = async (key: string) => {
      const { id } = await send({ template: { key, data: { day: 'today' } }, recipients });
      return service.rows<{ reader: string }>('select reader from broadcast_texts where broadcast_id = $1', [
        id,
      ]);
    };
    expect((await readers('news')).map(({ reader }) => reader).toSorted()).toEqual(['de', 'en']);
    expect(await readers('welcome')).toHaveLength(4);
    expect(await titles('c')).toEqual(['Hallo du', 'Neues today']);
  });

  test('the same after a fan-out that is repeated', async () => {
    await save('welcome', GREETINGS);
    await user('ada', { first_name: 'Ada' });
    const { id } = await send({ template: { key: 'welcome' }, recipients: to('ada') });
    await user('ada', { first_name: 'Augusta' });
    // As in a database that was restored from a backup of the time before.
    const payload = { broadcast_id: id };
    await enqueue(service.context.db, [
      { kind: 'fan_out', projectId: project.id, priority: 0, weight: 1, payload },
    ]);
    await expect.poll(() => service.rows('select from jobs')).toEqual([]);
    expect(await titles('ada')).toEqual(['Hello Augusta']);
    expect(await service.rows('select from broadcast_texts where broadcast_id = $1', [id])).toHaveLength(1);
  });

  test('long texts of templates', async () => {
    await save('long', { en: { title: 'T', content: '{{ data.text }}{{ user.first_name }}' } });
    await user('ada', { first_name: 'Ada' });
    const text = 'x'.repeat(200_000);
    await send({ template: { key: 'long', data: { text } }, recipients: to('ada') });
    const [{ content }] = await inbox('ada');
    expect(content === `${text}Ada`).toBe(true);
  });

  test('the version of the time at which the broadcast was accepted', async () => {
    await save('part', { en: { content: 'one' } }, { kind: 'partial' });
    await save('welcome', { en: { title: 'First', content: "{% render 'part' %}" } });
    const sendAt = new Date(Date.now() + 3_600_000).toISOString();
    const { body } = await post({ template: { key: 'welcome' }, recipients: to('ada'), send_at: sendAt });
    expect(body.template).toEqual({ key: 'welcome', version: 1, data: null, uses: { part: 1 } });
    await save('part', { en: { content: 'two' } }, { kind: 'partial' });
    await save('welcome', { en: { title: 'Second' } });
    for (const key of ['welcome', 'part'])
      expect((await project.call('DELETE', `/templates/${key}`)).status).toBe(204);
    await service.rows('update jobs set due_at = now() where payload ->> $1 = $2', ['broadcast_id', body.id]);
    await processed(project.call, body.id);
    expect(await inbox('ada')).toMatchObject([{ title: 'First', content: 'one' }]);
  });

  test('every page of the subscribers of a topic', async () => {
    await save('welcome', GREETINGS);
    const names = Array.from({ length: 1_100 }, (_, n) => `subscriber-${n}`);
    for (const part of [names.slice(0, 600), names.slice(600)]) {
      const { status } = await project.call('POST', '/topics/news/subscribers', {
        users: part.map((external_id) => ({ external_id })),
      });
      expect(status).toBe(200);
    }
    await user('subscriber-7', { first_name: 'Seven', locale: 'de' });
    const { status } = await send({
      template: { key: 'welcome' },
      topic: 'news',
      recipients: [{ topic: { subscribers: true } }],
    });
    expect(status.summary).toMatchObject({ total: 1_100, failures: 0 });
    expect(await titles('subscriber-7')).toEqual(['Hallo Seven']);
    const [counted] = await service.rows<{ count: number }>(
      `select count(*)::int as count from notifications n join broadcasts b on b.id = n.broadcast_id
      where b.project_id = $1 and n.texts = ''`,
      [project.id],
    );
    expect(counted?.count).toBe(1_100);
  });
});

test('every channel gets its texts, in the language of the user', async () => {
  await vendors.setUp(project);
  await save('footer', { en: { content: '<i>{{ project.name }}</i>' } }, { kind: 'partial' });
  await save(
    'main',
    {
      en: {
        content:
          '<html><body>{{ content }}{% render "footer" %}<a href="{{ unsubscribe_url }}">X</a></body></html>',
      },
    },
    { kind: 'layout' },
  );
  await save(
    'sent',
    {
      en: { title: 'Sent', content: 'English' },
      de: {
        title: 'Unterwegs, {{ user.first_name }}',
        content: '<p>Bestellung {{ data.order }}</p>',
        overrides: { channels: { sms: { content: 'SMS {{ data.order }}' }, teams: { title: 'Karte' } } },
      },
    },
    { layout: 'main' },
  );
  await reachEverywhere(project, vendors, 'ada');
  await user('ada', { first_name: 'Ada', locale: 'de' });
  const { id, status } = await send({
    template: { key: 'sent', data: { order: 42 } },
    recipients: to('ada'),
  });
  expect(status.summary).toMatchObject({ failures: 0, pending: 0 });
  const mail = await vendors.mail.received[0]?.parsed();
  expect(mail?.subject).toBe('Unterwegs, Ada');
  expect(mail?.html).toMatch(
    new RegExp(
      `^<html><body><p>Bestellung 42</p><i>broadcasts with templates ${made}</i>` +
        '<a href="https?://[^"]+/unsubscribe/[^"]+">X</a>' +
        '<p class="footer" lang="de" dir="ltr" style="[^"]+">' +
        '<a href="https?://[^"]+/preferences/[^"]+" style="color:inherit">' +
        'Benachrichtigungen einstellen</a></p>' +
        '</body></html>\\s*$',
    ),
  );
  const texts = vendors.phone.requests.map(({ body }) => new URLSearchParams(body).get('Body'));
  expect(texts).toEqual(['Unterwegs, Ada\nSMS 42']);
  expect(vendors.apple.pushes).toMatchObject([
    { payload: { aps: { alert: { title: 'Unterwegs, Ada', body: 'Bestellung 42' } } } },
  ]);
  const cards = vendors.teams.requests.map(({ body }) =>
    JSON.parse(body).attachments[0].content.body.map((block: { text: string }) => block.text),
  );
  expect(cards).toEqual([['Karte', 'Bestellung 42']]);
  expect((await deliveriesOf(service, id)).map(({ state }) => state)).toEqual(Array(6).fill('sent'));
});

test('the links differ by channel, locale and user', async () => {
  await vendors.setUp(project);
  const link = (path: string) => `https://shop.example/${path}/{{ user.external_id }}`;
  const texts = (title: string, path: string) => ({
    title,
    content: 'Read <a href="{{ unsubscribe_url }}">A</a> <a href="{{ preferences_url }}">B</a>',
    action_url: link(path),
    overrides: { channels: { mobile_push: { action_url: link(`${path}-push`) } } },
  });
  await save('sent', { en: texts('Sent', 'en'), de: texts('Unterwegs', 'de') });
  const locales: Record<string, string> = { ada: 'en', ben: 'de' };
  for (const [name, locale] of Object.entries(locales)) {
    await reachEverywhere(project, vendors, name);
    await user(name, { locale, email: `${name}@example.com` });
  }
  await send({ template: { key: 'sent' }, recipients: to('ada', 'ben') });
  const links = new Set<string>();
  for (const [name, locale] of Object.entries(locales)) {
    expect(await inbox(name)).toMatchObject([{ action_url: `https://shop.example/${locale}/${name}` }]);
    const received = vendors.mail.received.find((one) => one.to.includes(`${name}@example.com`));
    const html = String((await received?.parsed())?.html);
    expect(html).toContain(`href="https://shop.example/${locale}/${name}"`);
    for (const kind of ['unsubscribe', 'preferences']) {
      const [, url = ''] = new RegExp(`href="[^"]+(/${kind}/[^"]+)"`).exec(html) ?? [];
      links.add(url);
      const page = await fetch(`${service.address}${url}`, { headers: { Accept: 'text/html' } });
      expect([kind, page.status]).toEqual([kind, 200]);
    }
  }
  expect(links.size).toBe(4);
  expect(vendors.apple.pushes.map(({ payload }) => JSON.stringify(payload))).toEqual(
    expect.arrayContaining([
      expect.stringContaining('https://shop.example/de-push/ben'),
      expect.stringContaining('https://shop.example/en-push/ada'),
    ]),
  );
});

test('a message of a critical category has no link to unsubscribe', async () => {
  await vendors.setUp(project);
  for (const [key, critical] of Object.entries({ 'auth/code': true, news: false })) {
    const channels = ['in_app', 'email', 'sms'].map((channel) => ({ channel }));
    expect((await project.call('PUT', '/channels', { key, critical, channels })).status).toBe(200);
  }
  const content =
    '<p>C {% if unsubscribe_url %}<a href="{{ unsubscribe_url }}">Off</a>{% else %}Kept{% endif %} ' +
    '<a href="{{ preferences_url }}">Settings</a></p>';
  const sms = { title: 'T', content: 'Off: {{ unsubscribe_url }}' };
  await save('main', { en: { content: '{{ content }}<i>{{ unsubscribe_url }}</i>' } }, { kind: 'layout' });
  await save('off', { en: { title: 'T', content, overrides: { channels: { sms } } } }, { layout: 'main' });
  await user('ada', { email: 'ada@example.com', phone_numbers: ['+15005550001'] });

  const sendOf = async (category: string) => {
    vendors.reset();
    const { id } = await send({ template: { key: 'off' }, recipients: to('ada'), category });
    expect((await deliveriesOf(service, id)).map(({ state }) => state)).toEqual(['sent', 'sent']);
    const mail = await vendors.mail.received[0]?.parsed();
    const [phone] = vendors.phone.requests;
    return {
      html: String(mail?.html),
      text: String(mail?.text),
      inbox: String((await inbox('ada'))[0].content),
      sms: new URLSearchParams(phone?.body).get('Body'),
    };
  };
  const news = await sendOf('news');
  for (const text of Object.values(news)) expect(text).toContain('/unsubscribe/');
  const code = await sendOf('auth/code');
  for (const text of Object.values(code)) expect(text).not.toContain('/unsubscribe/');
  for (const text of [code.html, code.text, code.inbox]) {
    expect(text).toContain('C Kept');
    expect(text).toContain('/preferences/');
  }
  expect(code.html).toContain('<i></i>');
  expect(code.sms).toBe('T\nOff:');
});

describe('texts that take long, which a thread renders', () => {
  // More work than the event loop may do, and less than a text may do.
  const LONG = '{{ data.text | upcase | size }}';
  const data = { text: 'x'.repeat(200_000), plan: '<b>' };

  test('are those of the user and the locale on every channel', async () => {
    await vendors.setUp(project);
    await save('main', { en: { content: `<p>{{ content }}</p><i>${LONG}</i>` } }, { kind: 'layout' });
    const texts = (hello: string) => ({
      title: `${hello} {{ user.first_name }} ${LONG}`,
      content: `${LONG} {{ data.plan }} {{ user.custom_attributes.order }}`,
      action_url: `https://shop.example/{{ user.external_id }}/${LONG}`,
    });
    await save('long', { en: texts('Hello'), de: texts('Hallo') }, { layout: 'main' });
    const plan = { template: { key: 'long', data }, recipients: to('ada', 'ben') };
    for (const [name, first_name, locale] of [
      ['ada', 'Ada', 'en'],
      ['ben', 'Ben', 'de'],
    ] as const) {
      const custom_attributes = { order: `${name}'s` };
      await user(name, { first_name, locale, custom_attributes, email: `${name}@example.com` });
    }
    const { title, content, action_url } = await send(plan);
    expect({ title, content, action_url }).toEqual({
      title: 'Hello 200000',
      content: '<p>200000 &lt;b&gt;</p>',
      action_url: 'https://shop.example//200000',
    });
    for (const [name, title] of [
      ['ada', 'Hello Ada 200000'],
      ['ben', 'Hallo Ben 200000'],
    ] as const) {
      const action_url = `https://shop.example/${name}/200000`;
      const text = `<p>200000 &lt;b&gt; ${name}&#39;s</p>`;
      expect(await inbox(name)).toMatchObject([{ title, content: text, action_url }]);
      const mail = await vendors.mail.received
        .find((one) => one.to.includes(`${name}@example.com`))
        ?.parsed();
      expect(mail?.subject).toBe(title);
      expect(mail?.html).toContain(`${text}</p><i>200000</i>`);
      expect(mail?.html).toContain(`href="${action_url}"`);
    }
  });

  test('are rendered once for all users if they do not read the user', async () => {
    const content = '{{ data.text | upcase | size }} {{ "now" | date: "%s%L" }}';
    await save('long', { en: { title: '{{ user.first_name }}', content } });
    for (const name of ['ada', 'ben', 'cid']) await user(name, { first_name: name });
    await send({ template: { key: 'long', data }, recipients: to('ada', 'ben', 'cid') });
    const all = await Promise.all(['ada', 'ben', 'cid'].map(inbox));
    expect(all.map(([{ title }]) => title)).toEqual(['ada', 'ben', 'cid']);
    expect(new Set(all.map(([{ content: text }]) => text)).size).toBe(1);
  });

  test('fail with the reason if they take longer than a text may', async () => {
    await save('long', { en: { title: '{{ user.id }}', content: LONG.repeat(20) } });
    const ada = await user('ada');
    const sent = await send({ template: { key: 'long', data }, recipients: to('ada') });
    expect(sent).toMatchObject({
      title: 'long',
      status: { errors: [{ message: expect.stringMatching(`^user ${ada}: .* works on more than 2097152`) }] },
    });
  });
});

describe('a template that cannot be rendered', () => {
  test('for one user fails for that user alone', async () => {
    await save('welcome', { en: { title: '{{ user.first_name }}' } });
    await user('ada', { first_name: 'Ada' });
    const bob = await user('bob');
    const sent = await send({ template: { key: 'welcome' }, recipients: to('ada', 'bob') });
    expect(sent).toMatchObject({
      title: 'welcome',
      status: {
        summary: { total: 2, failures: 1 },
        errors: [{ message: `user ${bob}: The template cannot be rendered: the title is empty` }],
      },
    });
    expect(await titles('ada')).toEqual(['Ada']);
    expect(await titles('bob')).toEqual([]);
    const { body } = await project.call('GET', '/events?type=delivery.failed');
    expect(body.data).toMatchObject([
      {
        log: 'The template cannot be rendered: the title is empty',
        context: { user_id: bob, broadcast_id: sent.id, channel: 'in_app', code: 'template_failed' },
      },
    ]);
  });

  test('because a partial has grown fails for all users at once', async () => {
    const content = `{% render 'part' %}${'{{ data.a }}'.repeat(300)}`;
    await save('part', { en: { content: 'short' } }, { kind: 'partial' });
    await save('long', { en: { title: 'T', content }, de: { title: 'T {{ user.id }}', content } });
    await save('part', { en: { content: '{{ data.b }}'.repeat(3_000) } }, { kind: 'partial' });
    const users = [await user('ada'), await user('bob'), await user('eva', { locale: 'de' })];
    const sent = await send({ template: { key: 'long' }, recipients: to('ada', 'bob', 'eva') });
    const reason = 'The template cannot be rendered: its outputs and tags have more than 32768 characters';
    expect(sent.status).toMatchObject({ summary: { total: 3, failures: 3 } });
    const messages = sent.status.errors.map(({ message }: { message: string }) => message);
    expect(messages.toSorted()).toEqual(users.map((id) => `user ${id}: ${reason}`).toSorted());
    const { body } = await project.call('GET', '/events?type=delivery.failed');
    expect(body.data.map(({ log }: { log: string }) => log)).toEqual([reason, reason, reason]);
  });

  test('on one channel fails the delivery on that channel alone', async () => {
    await vendors.setUp(project);
    await reachEverywhere(project, vendors, 'ada');
    await save('welcome', {
      en: {
        title: 'T',
        overrides: { channels: { sms: { content: '{% for i in (1..100000000) %}{% endfor %}' } } },
      },
    });
    const { id } = await send({ template: { key: 'welcome' }, recipients: to('ada') });
    const failed = (await deliveriesOf(service, id)).filter(({ state }) => state === 'failed');
    expect(failed).toMatchObject([
      { channel: 'sms', code: 'template_failed', reason: expect.stringContaining('cannot be rendered') },
    ]);
    expect(vendors.phone.requests).toEqual([]);
    expect(vendors.mail.received).toHaveLength(1);
  });
});

describe('a request', () => {
  test('is rejected with a template that does not exist, or with texts of its own', async () => {
    await save('part', { en: { content: 'C' } }, { kind: 'partial' });
    const other = await service.createProject(`another ${made}`);
    await other.call('PUT', '/templates/of-other', { default_locale: 'en', locales: { en: { title: 'T' } } });
    for (const key of ['none', 'part', 'of-other'])
      expect(await post({ template: { key }, recipients: to('ada') })).toMatchObject({
        status: 422,
        messages: [`Param 'template.key' must be the key of a message template: the project has no ${key}`],
      });
    const both = {
      template: { key: 'x' },
      title: 'T',
      content: 'C',
      action_url: 'https://a.example',
      overrides: { channels: { sms: { title: 'S' } } },
      recipients: to('ada'),
    };
    expect((await post(both)).messages).toEqual(
      ['title', 'content', 'action_url', 'overrides.channels'].map(
        (name) => `Param '${name}' is not allowed with a template`,
      ),
    );
    for (const template of [
      {},
      { key: '' },
      { key: 'a b' },
      { key: 'x', more: 1 },
      { key: 'x', data: [] },
      'x',
    ])
      expect([template, (await post({ template, recipients: to('ada') })).status]).toEqual([template, 422]);
    const data = { text: 'x'.repeat(256 * 1024) };
    expect((await post({ template: { key: 'x', data }, recipients: to('ada') })).messages).toEqual([
      "Param 'template.data' must have at most 262144 characters as JSON",
    ]);
    expect((await post({ recipients: to('ada') })).messages).toEqual(["Param 'title' is missing"]);
  });

  test('with an Idempotency-Key is accepted once, whatever happens to the template', async () => {
    await save('welcome', { en: { title: 'One' } });
    const body = { template: { key: 'welcome' }, recipients: to('ada') };
    const headers = { 'idempotency-key': 'once' };
    const first = await post(body, headers);
    expect(first.status).toBe(201);
    await save('welcome', { en: { title: 'Two' } });
    const second = await post(body, headers);
    expect([second.status, second.body]).toEqual([201, first.body]);
    await project.call('DELETE', '/templates/welcome');
    const third = await post(body, headers);
    expect([third.status, third.headers.get('idempotency-replayed'), third.body]).toEqual([
      201,
      'true',
      first.body,
    ]);
    expect((await post(body)).status).toBe(422);
    await processed(project.call, first.body.id);
    expect(await titles('ada')).toEqual(['One']);
  });

  test('can repeat what a response has', async () => {
    await save('welcome', { en: { title: 'One' } });
    const { id } = await send({ template: { key: 'welcome' }, recipients: to('ada') });
    const { template } = (await project.call('GET', `/broadcasts/${id}`)).body;
    expect((await post({ template, recipients: to('ada') })).status).toBe(201);
    expect((await project.call('GET', '/broadcasts')).body.data[1]).toMatchObject({ title: 'One', template });
  });
});

test('conditions and workflows see the texts of the user', async () => {
  await save('welcome', GREETINGS);
  await user('ada', { first_name: 'Ada' });
  const steps = [
    { command: 'broadcast', input: { template: { key: 'welcome', data: { plan: '{{ input.plan }}' } } } },
    { command: 'pause' },
    { command: 'set', input: { seen: '{{ notification.title }}: {{ notification.content }}' } },
  ];
  const id = await startRun(project, steps, { user: { external_id: 'ada' }, plan: 'pro' });
  const paused = await inState(project, id, STATE.waiting);
  await processed(project.call, paused.steps[0].output.id);
  expect((await project.call('POST', `/workflows/runs/${id}/resume`)).status).toBe(200);
  expect((await ended(project, id)).steps[2].output).toEqual({ seen: 'Hello Ada: Plan pro' });
});

describe('texts are deleted', () => {
  const readers = async (id: string) =>
    (
      await service.rows<{ reader: string }>('select reader from broadcast_texts where broadcast_id = $1', [
        id,
      ])
    ).map(({ reader }) => reader);

  test('with their user, and with the last of the users', async () => {
    await save('welcome', GREETINGS);
    await save('news', { en: { title: 'News' } });
    const [ada, bob] = [await user('ada', { first_name: 'canary' }), await user('bob')];
    const own = await send({
      template: { key: 'welcome', data: { plan: 'pro' } },
      recipients: to('ada', 'bob'),
    });
    const common = await send({ template: { key: 'news' }, recipients: to('ada', 'bob') });
    const erase = async (id: string) => {
      expect((await project.call('DELETE', `/users/${id}`)).status).toBe(204);
      const clock = { now: () => Date.now() + GRACE_MS + DAY_MS };
      while (await purgeUsers({ ...service.context, clock }));
    };
    await erase(ada);
    expect([await readers(own.id), await readers(common.id)]).toEqual([[bob], ['en']]);
    await erase(bob);
    expect([await readers(own.id), await readers(common.id)]).toEqual([[], []]);
    const { body } = await project.call('GET', `/broadcasts/${own.id}`);
    expect(body).toMatchObject({ title: '[erased]' });
    expect(body.template).toBeUndefined();
  });

  test('with expired notifications', async () => {
    await save('welcome', GREETINGS);
    await save('news', { en: { title: 'News' } });
    const ids = [];
    for (const key of ['welcome', 'news'])
      ids.push((await send({ template: { key }, recipients: to('ada') })).id);
    await purgeExpired(
      {
        ...service.context,
        clock: { now: () => Date.now() + 2 * DAY_MS },
        config: { ...service.context.config, EVENTS_RETENTION_DAYS: 0, NOTIFICATIONS_RETENTION_DAYS: 1 },
      },
      new AbortController().signal,
    );
    for (const id of ids)
      expect([(await project.call('GET', `/broadcasts/${id}`)).status, await readers(id)]).toEqual([404, []]);
  });
});

test('pages that take too long together are rendered one by one, and each as far as it can', async () => {
  await save('welcome', GREETINGS);
  const users = await Promise.all(['ada', 'bob'].map((name) => user(name)));
  const sent = [1, 2].map(() => send({ template: { key: 'welcome' }, recipients: to('ada', 'bob') }));
  const ids = (await Promise.all(sent)).map(({ id }) => id);
  const stored = await service.rows<{ id: string; template: Buffer }>(
    'select id, template from broadcasts where id = any ($1)',
    [ids],
  );
  const pages = stored.map(
    ({ id, template }): AddressedPage => ({
      id,
      template,
      projectId: project.id,
      category: null,
      topic: null,
      people: [],
      positions: [],
      erased: [],
      unsent: [],
      page: 0,
      cancelled: false,
      scheduled: false,
      lacksCreated: false,
      content: undefined,
      textWeight: 0,
      traceparent: undefined,
      group: undefined,
      unusable: 0,
      errors: [],
      next: undefined,
      ...withNotifications(id, users),
    }),
  );
  const render = (some: AddressedPage[]) =>
    service.context.db.transaction((tx) => renderInboxTexts(service.context, tx, some, 'careful', 0));
  await expect(render(pages)).rejects.toThrow('one by one');
  const alone = await render(pages.slice(0, 1));
  expect(alone.pages).toMatchObject([
    {
      userIds: [users.toSorted()[0]],
      unusable: 1,
      errors: [expect.stringContaining('takes too long for all users')],
    },
  ]);
});
