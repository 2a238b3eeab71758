import { expect, test, vi } from 'vitest';
import { collectGarbage } from '../../../../test/support/garbage.ts';
import { PATIENCE_MS } from '../../../../test/support/patience.ts';
import { templateBytes } from './template-bytes.ts';
import { OpenTemplate } from './templates.ts';

const COPIES = 30;
const LOCALES = ['en', 'de', 'fr', 'es', 'ja'];
const DATA = {
  user: null,
  data: {},
  project: { id: 'p', name: 'Shop', logo_url: null },
  unsubscribe_url: '',
  preferences_url: '',
};

function heapUsed(): number {
  collectGarbage();
  return process.memoryUsage().heapUsed;
}

test.each([
  ['short texts', 'Hi {{ data.name }}', 5, '<b>{{ content }}</b>'],
  ['many outputs', '{{1}}'.repeat(4_000), 1, ''],
  ['a long layout', 'Hi', 5, `{{ content }}${'{{1}}'.repeat(2_000)}`],
])('the estimate of its memory covers a template of %s', async (_name, content, languages, layout) => {
  const names = LOCALES.slice(0, languages);
  const message = {
    kind: 'message' as const,
    default_locale: 'en',
    locales: Object.fromEntries(names.map((locale) => [locale, { title: locale, content }])),
    layout: layout === '' ? null : 'frame',
  };
  const frame = {
    kind: 'layout' as const,
    default_locale: 'en',
    locales: { en: { content: layout } },
    layout: null,
  };
  const parts = message.layout === null ? [] : [frame];
  const opened = async () => {
    const template = new OpenTemplate({
      message,
      parts: new Map(parts.map((part) => ['frame', { key: 'frame', kind: part.kind, content: part }])),
    });
    for (const locale of names) {
      const texts = await template.forLocale(locale, null);
      // On a busy machine, other processes may use up the time of a rendering several times in a row.
      await vi.waitFor(() => texts.render('email', DATA), { interval: 1, timeout: PATIENCE_MS });
    }
    return template;
  };
  await opened();
  const kept: OpenTemplate[] = [];
  const before = heapUsed();
  while (kept.length < COPIES) kept.push(await opened());
  const grown = (heapUsed() - before) / kept.length;
  const estimate = templateBytes(
    JSON.stringify(message),
    parts.map((part) => JSON.stringify(part)),
    names.length,
  );
  expect(estimate).toBeGreaterThan(grown);
  expect(kept).toHaveLength(COPIES);
});
