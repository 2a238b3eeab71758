import { Liquid } from 'liquidjs';
import { expect, test, vi } from 'vitest';
import { OpenTemplate } from './templates.ts';

test('a template is parsed once for each locale, however many users it is rendered for', async () => {
  const locales = ['en', 'de', 'fr', 'es', 'ja'];
  const texts = (locale: string) => ({
    title: `${locale}: {{ user.first_name | default: "you" }}`,
    content: "{% if data.isNew %}New{% endif %}{% render 'footer' %}",
    action_url: 'https://shop.example/{{ user.id }}',
  });
  const template = new OpenTemplate({
    message: {
      kind: 'message',
      default_locale: 'en',
      locales: Object.fromEntries(locales.map((locale) => [locale, texts(locale)])),
      layout: null,
    },
    parts: new Map(
      ['footer'].map((key) => [
        key,
        {
          key,
          kind: 'partial',
          content: {
            kind: 'partial',
            default_locale: 'en',
            locales: { en: { content: '{{ project.name }}' } },
            layout: null,
          },
        },
      ]),
    ),
  });
  const parse = vi.spyOn(Liquid.prototype, 'parse');
  const titles = new Set<string>();
  for (let number = 0; number < 1_000; number += 1) {
    const message = await template.forLocale(`${locales[number % 5]}-XX`, null);
    const rendered = message.render('in_app', {
      user: { id: number, first_name: `user ${number}` },
      data: { isNew: true },
      project: { id: 'p', name: 'Shop', logo_url: null },
      unsubscribe_url: '',
      preferences_url: '',
    });
    titles.add(rendered.title);
    expect(rendered.content).toBe('NewShop');
  }
  expect(titles.size).toBe(1_000);
  // Title, content and link of each; a partial is parsed by the engine.
  expect(parse.mock.calls.length).toBeLessThanOrEqual(3 * locales.length);
  parse.mockRestore();
});
