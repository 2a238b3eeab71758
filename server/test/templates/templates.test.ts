import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { startTestService, type TestProject, type TestService } from '../support/service.ts';

const PUBLIC_URL = 'https://notify.example.com';

let service: TestService;
let project: TestProject;
let made = 0;

beforeAll(async () => {
  service = await startTestService({ settings: { PUBLIC_URL } });
});
afterAll(() => service?.stop());
beforeEach(async () => {
  made += 1;
  project = await service.createProject(`templates ${made}`);
});

const save = (key: string, body: unknown) => project.call('PUT', `/templates/${key}`, body);
const inEnglish = (texts: object, more: object = {}) => ({
  default_locale: 'en',
  locales: { en: texts },
  ...more,
});
const partial = (key: string, content: string) => saved(key, inEnglish({ content }, { kind: 'partial' }));
const layout = (key: string, content: string) => saved(key, inEnglish({ content }, { kind: 'layout' }));
const preview = (key: string, body: object) => project.call('POST', `/templates/${key}/preview`, body);

async function saved(key: string, body: unknown) {
  const { status, body: template, text } = await save(key, body);
  expect([status, text]).toEqual([200, expect.any(String)]);
  return template;
}

async function problems(key: string, body: unknown) {
  const { status, messages } = await save(key, body);
  expect(status).toBe(422);
  return messages;
}

/** What a template with these texts makes in the inbox. */
async function rendered(texts: object, more: object = {}) {
  await saved('rendered', inEnglish({ title: 'T', ...texts }));
  const { status, body } = await preview('rendered', { channel: 'in_app', ...more });
  expect(status).toBe(200);
  return body;
}

describe('a template', () => {
  const content = inEnglish({ title: 'Hello {{ user.first_name }}' });

  test('is saved and read as it was sent', async () => {
    const template = await saved('my.welcome:1', content);
    expect(template).toEqual({
      id: expect.any(String),
      key: 'my.welcome:1',
      version: 1,
      created_at: expect.any(String),
      updated_at: expect.any(String),
      kind: 'message',
      layout: null,
      ...content,
    });
    expect((await project.call('GET', '/templates/my.welcome:1')).body).toEqual(template);
    const { id, key, kind, version, created_at, updated_at } = template;
    expect((await project.call('GET', '/templates')).body.data).toEqual([
      { id, key, kind, version, created_at, updated_at },
    ]);
    expect(await saved('my.welcome:1', { ...template, version: 7 })).toEqual(template);
  });

  test('is not found by an unknown key or one that cannot be', async () => {
    await saved('welcome', content);
    for (const key of ['*', 'other', 'welcom', '%00', 'a%20b', 'x'.repeat(300)])
      for (const [method, path, body] of [
        ['GET', ''],
        ['DELETE', ''],
        ['GET', '/versions'],
        ['GET', '/versions/1'],
        ['POST', '/versions/1/restore'],
        ['POST', '/preview', { channel: 'sms' }],
      ] as const)
        expect([key, path, (await project.call(method, `/templates/${key}${path}`, body)).status]).toEqual([
          key,
          path,
          404,
        ]);
  });

  test('of another project is not found', async () => {
    await saved('welcome', content);
    const other = await service.createProject(`templates ${made} of another`);
    for (const [method, path, body] of [
      ['GET', ''],
      ['DELETE', ''],
      ['GET', '/versions'],
      ['GET', '/versions/1'],
      ['POST', '/versions/1/restore'],
      ['POST', '/preview', { channel: 'sms' }],
    ] as const)
      expect((await other.call(method, `/templates/welcome${path}`, body)).status).toBe(404);
    const ofOther = await other.call(
      'PUT',
      '/templates/greeting',
      inEnglish({ title: 'T' }, { layout: 'welcome' }),
    );
    expect(ofOther.messages).toEqual(["Param 'layout' must be the key of a layout: welcome is none"]);
  });

  test('has a version for each change, which can be restored', async () => {
    await saved('welcome', content);
    expect((await saved('welcome', content)).version).toBe(1);
    expect((await saved('welcome', inEnglish({ title: 'Hi' }))).version).toBe(2);
    const restored = await project.call('POST', '/templates/welcome/versions/1/restore');
    expect([restored.status, restored.body]).toEqual([
      200,
      expect.objectContaining({ version: 3, ...content }),
    ]);
    for (const version of ['9', '0', 'x'])
      expect((await project.call('POST', `/templates/welcome/versions/${version}/restore`)).status).toBe(404);
    const { body } = await project.call('GET', '/templates/welcome/versions');
    expect(body.items.map(({ version }: { version: number }) => version)).toEqual([3, 2, 1]);
    expect((await project.call('GET', '/templates/welcome/versions/2')).body).toMatchObject({
      version: 2,
      ...inEnglish({ title: 'Hi' }),
    });
    expect((await project.call('DELETE', '/templates/welcome')).status).toBe(204);
    expect((await project.call('DELETE', '/templates/welcome')).status).toBe(404);
    expect((await project.call('POST', '/templates/welcome/versions/1/restore')).status).toBe(404);
    expect((await saved('welcome', content)).version).toBe(4);
    expect((await project.call('POST', '/templates/welcome/versions/2/restore')).body).toMatchObject({
      version: 5,
      ...inEnglish({ title: 'Hi' }),
    });
  });

  test('is not deleted while the newest version of a workflow names it', async () => {
    await saved('welcome', content);
    const send = (template: unknown) => ({ command: 'broadcast', input: { template } });
    const flow = (...steps: unknown[]) => project.call('PUT', '/workflows', { key: 'flow', steps });
    await flow({ command: 'branch', input: { branches: [{ steps: [send({ key: 'welcome' })] }] } });
    const refused = await project.call('DELETE', '/templates/welcome');
    expect([refused.status, refused.messages]).toEqual([
      422,
      ['The template welcome is used by the workflows flow'],
    ]);
    expect((await project.call('GET', '/templates/welcome')).status).toBe(200);
    await flow(send({ key: '{{ input.welcome }}' }), {
      command: 'set',
      input: { template: { key: 'welcome' } },
    });
    expect((await project.call('DELETE', '/templates/welcome')).status).toBe(204);
  });

  test('is not restored without what that version uses', async () => {
    await partial('footer', 'Bye');
    await saved('welcome', inEnglish({ title: 'Hi', content: "{% render 'footer' %}" }));
    await saved('welcome', content);
    await project.call('DELETE', '/templates/footer');
    const restored = await project.call('POST', '/templates/welcome/versions/1/restore');
    expect([restored.status, restored.messages]).toEqual([
      422,
      ["Param 'locales.en.content' renders footer, which is not a partial of the project"],
    ]);
    expect((await project.call('GET', '/templates/welcome')).body).toMatchObject({ version: 2, ...content });
  });

  test('is saved by many at once, each change as a version', async () => {
    const all = await Promise.all(
      Array.from({ length: 20 }, (_, at) => saved('welcome', inEnglish({ title: `Title ${at}` }))),
    );
    expect(all.map(({ version }) => version).toSorted((a, b) => a - b)).toEqual(
      Array.from({ length: 20 }, (_, at) => at + 1),
    );
  });

  test('is recorded in the events', async () => {
    await saved('welcome', content);
    await project.call('DELETE', '/templates/welcome');
    const { body } = await project.call('GET', '/events?type=template.*');
    expect(body.data).toMatchObject([
      { type: 'template.deleted', context: { template_key: 'welcome' } },
      { type: 'template.saved', context: { template_key: 'welcome' }, payload: { version: 1 } },
    ]);
  });
});

describe('a mistake is reported with its place:', () => {
  test('syntax and unknown variables', async () => {
    const texts = {
      title: '{{ user.frist_name }}',
      content: '{% if data.x %}',
      action_url: '{{ data.anything | nope }}',
      overrides: { channels: { sms: { title: '{{ dat.x }}' } } },
    };
    expect(await problems('welcome', inEnglish(texts))).toMatchInlineSnapshot(`
      [
        "Param 'locales.en.title' reads user.frist_name, which does not exist: did you mean user.first_name?",
        "Param 'locales.en.content' is not a template: tag {% if data.x %} not closed, line:1, col:1",
        "Param 'locales.en.action_url' is not a template: undefined filter: nope, line:1, col:1",
        "Param 'locales.en.overrides.channels.sms.title' reads dat, which does not exist: did you mean data?",
      ]
    `);
  });

  test('locales and the shape of each kind', async () => {
    expect(
      await problems('welcome', {
        default_locale: 'fr',
        locales: { pt_BR: { title: 'T' }, 'pt-br': { title: 'T' }, english: { content: 'C' }, de: {} },
      }),
    ).toMatchInlineSnapshot(`
      [
        "Param 'locales.pt_BR' must be a language tag, such as en or pt-BR",
        "Param 'locales.pt-br' must be pt-BR",
        "Param 'locales.english.title' is missing",
        "Param 'locales.de.title' is missing",
        "Param 'default_locale' must be one of the locales",
      ]
    `);
    expect(
      await problems('footer', inEnglish({ title: 'T', overrides: {} }, { kind: 'partial', layout: 'main' })),
    ).toMatchInlineSnapshot(`
      [
        "Param 'locales.en.content' is missing",
        "Param 'locales.en' doesn't allow key: title, which only a message has",
        "Param 'locales.en' doesn't allow key: overrides, which only a message has",
        "Param 'layout' is only for a message",
      ]
    `);
    expect(
      await problems('main', inEnglish({ content: '<p></p>' }, { kind: 'layout' })),
    ).toMatchInlineSnapshot(`
      [
        "Param 'locales.en.content' must have {{ content }}",
      ]
    `);
  });

  test('keys, limits and members that no template has', async () => {
    expect((await save('a b', inEnglish({ title: 'T' }))).status).toBe(422);
    expect((await save('x'.repeat(256), inEnglish({ title: 'T' }))).status).toBe(422);
    expect(
      await problems(
        'welcome',
        inEnglish({ title: '', body: 'x', content: 'x'.repeat(262_145) }, { kind: 'x' }),
      ),
    ).toMatchInlineSnapshot(`
      [
        "Param 'kind' must be one of: message, layout, partial",
        "Param 'locales.en' doesn't allow key: body",
        "Param 'locales.en.title' must have at least 1 character",
        "Param 'locales.en.content' must have at most 262144 characters",
        "Param 'locales.en' doesn't allow key: title, which only a message has",
      ]
    `);
    expect(await problems('welcome', { default_locale: 'en', locales: {} })).toMatchInlineSnapshot(`
      [
        "Param 'locales' must have at least 1 key",
        "Param 'default_locale' must be one of the locales",
      ]
    `);
  });

  test('partials and layouts that do not exist or are of another kind', async () => {
    await partial('footer', 'Bye');
    const using = (name: string, more: object = {}) =>
      inEnglish({ title: 'T', content: `{% render ${name} %}` }, more);
    expect(await problems('welcome', using("'header'", { layout: 'footer' }))).toMatchInlineSnapshot(`
      [
        "Param 'layout' must be the key of a layout: footer is none",
        "Param 'locales.en.content' renders header, which is not a partial of the project",
      ]
    `);
    expect(await problems('welcome', using('data.name'))).toMatchInlineSnapshot(`
      [
        "Param 'locales.en.content' is not a template: the name must be in quotes, line:1, col:1",
      ]
    `);
    for (const name of ["'../../etc/passwd'", "'__proto__'", "'welcome'"])
      expect([name, (await save('welcome', using(name))).status]).toEqual([name, 422]);
    await saved('welcome', using("'footer'"));
    expect(await problems('welcome', using("'footer'", { kind: 'layout' }))).not.toEqual([]);
    const deleted = await project.call('DELETE', '/templates/footer');
    expect([deleted.status, deleted.messages]).toEqual([422, ['The template footer is used by welcome']]);
  });

  test('unknown variables of partials', async () => {
    await partial('greeting', 'Hello {{ usr }} of {{ project.name }}, {{ user.first_name }}');
    expect(
      await problems('welcome', inEnglish({ title: 'T', content: "{% render 'greeting' %}" })),
    ).toMatchInlineSnapshot(`
      [
        "Param 'locales.en.content' reads usr, which does not exist: did you mean user?",
      ]
    `);
    await saved('welcome', inEnglish({ title: 'T', content: "{% render 'greeting', usr: data.who %}" }));
    expect(
      await problems('other', inEnglish({ content: '{{ user.last_nam }}' }, { kind: 'partial' })),
    ).toMatchInlineSnapshot(`
      [
        "Param 'locales.en.content' reads user.last_nam, which does not exist: did you mean user.last_name?",
      ]
    `);
  });

  test('partials that render each other, and too many levels', async () => {
    await partial('p0', 'end');
    for (let level = 1; level <= 5; level += 1) await partial(`p${level}`, `{% render 'p${level - 1}' %}`);
    expect(await problems('p6', inEnglish({ content: "{% render 'p5' %}" }, { kind: 'partial' }))).toEqual([
      "Param 'locales' renders partials that are nested in more than 5 levels",
    ]);
    // Neither by a partial that others use.
    await partial('deeper', 'end');
    expect(
      await problems('p0', inEnglish({ content: "{% render 'deeper' %}" }, { kind: 'partial' })),
    ).toEqual(["Param 'locales' renders partials that are nested in more than 5 levels"]);
    for (const name of ['p0', 'p3'])
      expect(
        await problems('p0', inEnglish({ content: `{% render '${name}' %}` }, { kind: 'partial' })),
      ).toEqual(["Param 'locales' renders p0 within itself"]);
    // At the same time, each is saved before the other uses it, or not at all.
    await partial('a', 'a');
    await partial('b', 'b');
    const both = await Promise.all([
      save('a', inEnglish({ content: "{% render 'b' %}" }, { kind: 'partial' })),
      save('b', inEnglish({ content: "{% render 'a' %}" }, { kind: 'partial' })),
    ]);
    expect(both.map(({ status }) => status).toSorted()).toEqual([200, 422]);
  });

  test('the kind of a template that exists', async () => {
    await partial('footer', 'Bye');
    expect(await problems('footer', inEnglish({ title: 'T' }))).toEqual(["Param 'kind' cannot be changed"]);
  });

  test('too many outputs in a text, alone or with its partials', async () => {
    const outputs = (count: number) => '{{ data.n }}'.repeat(count);
    const problem =
      "Param 'locales.en.content' is not a template: its outputs and tags have more than 32768 characters";
    expect(await problems('many', inEnglish({ title: 'T', content: outputs(3_500) }))).toEqual([problem]);
    await partial('many-1', outputs(2_000));
    await partial('many-2', outputs(1_500));
    const content = '{% render "many-1" %}{% render "many-2" %}';
    expect(await problems('many', inEnglish({ title: 'T', content }))).toEqual([problem]);
    expect((await save('many', inEnglish({ title: 'T', content: outputs(3_000) }))).status).toBe(200);
  });

  test('more than 16 MiB in all templates', async () => {
    const content = 'x'.repeat(250_000);
    const long = {
      default_locale: 'en',
      locales: { en: { title: 'T', content }, de: { title: 'T', content } },
    };
    const refused = [];
    for (let at = 0; at < 34; at += 1) refused.push((await save(`long-${at}`, long)).messages);
    expect(refused.flat().filter(Boolean)).toEqual([
      "Param 'locales' is too long: all templates of a project can have at most 16777216 characters",
    ]);
    expect((await save('long-0', { ...long, default_locale: 'de' })).status).toBe(200);
  });
});

describe('a preview', () => {
  test('chooses the texts of the locale, of a more general one, or of the default', async () => {
    await saved('welcome', {
      default_locale: 'en',
      locales: { en: { title: 'Hello' }, pt: { title: 'Olá' }, 'pt-BR': { title: 'Oi' } },
    });
    const titles: Record<string, unknown> = {};
    for (const locale of [null, 'en', 'pt', 'pt-BR', 'pt-PT', 'pt-BR-x-a', 'pt-br', 'de']) {
      const { body } = await preview('welcome', { channel: 'in_app', locale });
      titles[String(locale)] = [body.locale, body.title];
    }
    expect(titles).toEqual({
      null: ['en', 'Hello'],
      en: ['en', 'Hello'],
      pt: ['pt', 'Olá'],
      'pt-BR': ['pt-BR', 'Oi'],
      'pt-PT': ['pt', 'Olá'],
      'pt-BR-x-a': ['pt-BR', 'Oi'],
      'pt-br': ['pt-BR', 'Oi'],
      de: ['en', 'Hello'],
    });
    const user = { locale: 'pt-br' };
    expect((await preview('welcome', { channel: 'in_app', user })).body.locale).toBe('pt-BR');
    expect((await preview('welcome', { channel: 'in_app', user, locale: 'en' })).body.locale).toBe('en');
  });

  test('is in one language: that of the project for users whose own has no texts', async () => {
    await saved('welcome', {
      default_locale: 'en',
      locales: { en: { title: 'Hello' }, de: { title: 'Hallo' } },
    });
    expect((await project.call('PUT', '/project', { default_locale: 'de-AT' })).status).toBe(200);
    const seen: Record<string, unknown> = {};
    for (const locale of [null, 'en', 'fr']) {
      const { body } = await preview('welcome', { channel: 'email', locale });
      seen[String(locale)] = [body.title, /<html[^>]* lang="(\w+)"/.exec(body.content)?.[1]];
    }
    expect(seen).toEqual({ null: ['Hallo', 'de'], en: ['Hello', 'en'], fr: ['Hallo', 'de'] });
  });

  test('has the texts of the channel', async () => {
    await saved(
      'welcome',
      inEnglish({
        title: 'Plan {{ data.plan }}',
        content: '<p>Your plan is <b>{{ data.plan }}</b>.</p>',
        action_url: 'https://shop.example/{{ data.plan | url_encode }}',
        overrides: { channels: { sms: { content: 'Plan: {{ data.plan }}', action_url: null } } },
      }),
    );
    const data = { plan: 'a & b' };
    expect((await preview('welcome', { channel: 'in_app', data })).body).toEqual({
      locale: 'en',
      title: 'Plan a & b',
      content: '<p>Your plan is <b>a &amp; b</b>.</p>',
      action_url: 'https://shop.example/a+%26+b',
      bytes: 75,
      max_bytes: null,
    });
    expect((await preview('welcome', { channel: 'mobile_push', data })).body).toMatchObject({
      content: 'Your plan is a & b.',
      max_bytes: 4096,
    });
    const text = { title: 'Plan a & b', content: 'Your plan is a & b.', bytes: 57 };
    for (const [channel, more] of [
      ['web_push', { max_bytes: 4_096 }],
      ['teams', { max_bytes: 28_672 }],
      ['slack', { max_bytes: null }],
    ] as const)
      expect([channel, (await preview('welcome', { channel, data })).body]).toMatchObject([
        channel,
        { ...text, ...more, action_url: 'https://shop.example/a+%26+b' },
      ]);
    expect((await preview('welcome', { channel: 'sms', data })).body).toMatchObject({
      title: 'Plan a & b',
      content: 'Plan: a & b',
      action_url: null,
    });
    const { body } = await preview('welcome', { channel: 'email', data });
    expect(body).toMatchObject({ title: 'Plan a & b', max_bytes: 102_400 });
    expect(body.content).toContain('<b>a &amp; b</b>');
    expect(body.bytes).toBe(Buffer.byteLength(body.content));
    expect(body.content).toContain('/unsubscribe/preview');
    expect(body.content).toContain('/preferences/preview');
    expect(body.text).toContain('Your plan is a & b.\n\nhttps://shop.example/a+%26+b');
  });

  test('puts e-mails into their layout, which can have the links itself', async () => {
    await partial('footer', '<i>{{ project.name }}, {{ year }}</i>');
    await layout(
      'main',
      '<html><body><h1>{{ title }}</h1>{{ content }}<a href="{{ action_url }}">Go</a>' +
        '{% render \'footer\', year: data.year %}<a href="{{ unsubscribe_url }}">No more</a>' +
        '<a href="{{ preferences_url }}">Choose</a></body></html>',
    );
    await saved(
      'welcome',
      inEnglish(
        { title: 'A & B', content: 'First\n\n{{ data.text }}', action_url: 'https://a.example' },
        { layout: 'main' },
      ),
    );
    const { body } = await preview('welcome', { channel: 'email', data: { year: 2026, text: '<script>' } });
    expect(body.content).toBe(
      '<html><body><h1>A &amp; B</h1><p>First</p>\n<p>&lt;script&gt;</p>' +
        `<a href="https://a.example">Go</a><i>templates ${made}, 2026</i>` +
        `<a href="${PUBLIC_URL}/unsubscribe/preview">No more</a>` +
        `<a href="${PUBLIC_URL}/preferences/preview">Choose</a></body></html>`,
    );
    expect((await preview('main', { channel: 'email' })).status).toBe(404);
  });

  test('has layout, partials and logo in the language of the texts', async () => {
    const logo_url = 'https://shop.example/logo.png';
    await project.call('PUT', '/project', { logo_url, display_name: 'The Shop' });
    await saved('footer', {
      kind: 'partial',
      default_locale: 'fr',
      locales: { fr: { content: 'Salut' }, de: { content: 'Tschüss' } },
    });
    const page = (word: string) => ({
      content: `<i>${word}</i><img src="{{ project.logo_url }}">{{ project.name }}: {{ content }}`,
    });
    await saved('main', {
      kind: 'layout',
      default_locale: 'en',
      locales: { en: page('Dear'), 'de-AT': page('Servus') },
    });
    const texts = { title: 'T', content: "{% render 'footer' %}" };
    await saved('welcome', {
      default_locale: 'en',
      layout: 'main',
      locales: { en: texts, de: texts, 'de-AT': texts, es: texts },
    });
    const begins: Record<string, string> = {};
    for (const locale of ['en', 'de-AT', 'de-DE', 'es'])
      begins[locale] = (await preview('welcome', { channel: 'email', locale })).body.content.split(
        '<hr',
        1,
      )[0];
    const shown = (word: string, footer: string) =>
      expect.stringContaining(`<i>${word}</i><img src="${logo_url}">The Shop: <p>${footer}</p>`);
    expect(begins).toEqual({
      en: shown('Dear', 'Salut'),
      'de-AT': shown('Servus', 'Tschüss'),
      'de-DE': shown('Dear', 'Tschüss'),
      es: shown('Dear', 'Salut'),
    });
  });

  test('puts the content into a layout that outputs it as raw, too', async () => {
    await layout('main', '<html><body>{{ content | raw }}</body></html>');
    await saved('welcome', inEnglish({ title: 'A', content: '<b>B</b>' }, { layout: 'main' }));
    const { body } = await preview('welcome', { channel: 'email' });
    expect(body.content).toMatch(/^<html><body><b>B<\/b></);
  });

  test.each(['javascript:alert(1)', '/relative'])('leaves the link %s out of a layout', async (url) => {
    await layout('main', '<html><body>{{ content }}<a href="{{ action_url }}">Go</a></body></html>');
    await saved('welcome', inEnglish({ title: 'A', content: 'B', action_url: url }, { layout: 'main' }));
    const { body } = await preview('welcome', { channel: 'email' });
    expect(body.content).toContain('<a href="">Go</a>');
  });

  test('escapes what it outputs in HTML, unless it is raw', async () => {
    const data = { data: { html: '<b>x</b>' }, user: { first_name: '<img src=x onerror=alert(1)>' } };
    expect(
      await rendered({ title: '{{ data.html }}', content: '{{ data.html }}{{ data.html | raw }}' }, data),
    ).toMatchObject({ title: '<b>x</b>', content: '&lt;b&gt;x&lt;/b&gt;<b>x</b>' });
    expect((await rendered({ content: 'Hi {{ user.first_name }},\nbye' }, data)).content).toBe(
      '<p>Hi &lt;img src=x onerror=alert(1)&gt;,<br>bye</p>',
    );
    expect(
      (await rendered({ content: 'Hi {{ user.first_name }},\nbye' }, { user: { first_name: 'Ada' } }))
        .content,
    ).toBe('Hi Ada,\nbye');
  });

  test('writes dates in the language of the texts', async () => {
    await saved('welcome', {
      default_locale: 'en',
      locales: { en: { title: '{{ data.day | date: "%B" }}' }, de: { title: '{{ data.day | date: "%B" }}' } },
    });
    const data = { day: '2026-03-01T00:00:00Z' };
    expect((await preview('welcome', { channel: 'sms', locale: 'de', data })).body.title).toBe('März');
    expect((await preview('welcome', { channel: 'sms', data })).body.title).toBe('March');
  });

  test('cuts long titles, and reports texts that cannot be sent', async () => {
    expect((await rendered({ title: '{{ data.long }}' }, { data: { long: 'x'.repeat(300) } })).title).toBe(
      `${'x'.repeat(254)}…`,
    );
    for (const [texts, problem] of [
      [{ title: '{{ data.none }}' }, 'the title is empty'],
      [
        { action_url: '{{ data.long }}{{ data.long }}{{ data.long }}' },
        'the action_url has more than 2048 characters',
      ],
      [{ content: '{% for i in (1..100000000) %}{% endfor %}' }, 'memory alloc limit exceeded'],
    ] as const) {
      await saved('rendered', inEnglish({ title: 'T', ...texts }));
      const { status, messages } = await preview('rendered', {
        channel: 'in_app',
        data: { long: 'x'.repeat(1_000) },
      });
      expect([status, messages]).toEqual([
        422,
        [expect.stringContaining(`The template rendered cannot be rendered: ${problem}`)],
      ]);
    }
  });

  test('rejects channels and locales that do not exist', async () => {
    await saved('welcome', inEnglish({ title: 'T' }));
    for (const body of [
      {},
      { channel: 'fax' },
      { channel: 'sms', locale: 'x'.repeat(100) },
      { channel: 'sms', locale: 'constructor' },
      { channel: 'sms', to: 'x' },
    ])
      expect((await preview('welcome', body)).status).toBe(422);
  });
});
