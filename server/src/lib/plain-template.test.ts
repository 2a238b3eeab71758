import fc from 'fast-check';
import { expect, test } from 'vitest';
import { loadLiquid } from './liquid.ts';
import { plainRendering } from './plain-template.ts';
import { TemplateSet, type TextForm } from './template-set.ts';

const FORMS: readonly TextForm[] = ['html', 'text'];

async function plain(text: string, form: TextForm) {
  const library = await loadLiquid();
  const engine = new library.Liquid(form === 'html' ? { outputEscape: 'escape' } : {});
  return plainRendering(library, engine.parse(text), form);
}

test.each([
  'Hi {{ user.first_name }}!',
  '{{a}}{{ a.b.c }} {{- a -}} x',
  'a text',
  '{{ user.custom_attributes.plan }}',
])('%s needs no interpreter', async (text) => {
  for (const form of FORMS) expect(await plain(text, form)).toBeDefined();
});

test.each([
  '{{ a | upcase }}',
  '{{ a | raw }}',
  '{{ a[0] }}',
  '{{ a["b"] }}',
  '{{ a[b] }}',
  '{{ a.size }}',
  '{{ a.b.first }}',
  '{{ constructor }}',
  '{{ a.__proto__ }}',
  '{{ "text" }}',
  '{{ 7 }}',
  '{{ true }}',
  '{{ a == b }}',
  '{{ (1..3) }}',
  '{% if a %}{% endif %}',
  '{% assign a = 1 %}{{ a }}',
  '{% raw %}{{ a }}{% endraw %}',
])('%s is left to the library', async (text) => {
  // Of `raw`, HTML alone differs.
  expect(await plain(text, 'html')).toBeUndefined();
});

const NAMES = ['a', 'b', 'user', 'size', 'constructor', '__proto__', 'toString', 'length', 'first-name'];
const value = fc.letrec((tie) => ({
  value: fc.oneof(
    { maxDepth: 4, withCrossShrink: true },
    fc.constantFrom(null, undefined, true, false, 0, -1.5, 1e21, Number.NaN, '', `<b>"it's" & </b>`, '𝒳'),
    fc.string({ unit: 'grapheme' }),
    fc.array(tie('value'), { maxLength: 3 }),
    fc.dictionary(fc.constantFrom(...NAMES), tie('value'), { maxKeys: 4 }),
    fc.constantFrom(new Date(0), () => 'made', Object.create(null)),
  ),
})).value;
const data = fc.dictionary(fc.constantFrom(...NAMES), value, { maxKeys: 5 });
const path = fc
  .array(fc.constantFrom(...NAMES), { minLength: 1, maxLength: 4 })
  .map((names) => names.join('.'));
const template = fc
  .array(
    fc.oneof(
      fc.constantFrom('text ', '<p class="x">', '\n', '{'),
      path.map((names) => `{{ ${names} }}`),
      path.map((names) => `{{- ${names} -}}`),
    ),
    { maxLength: 5 },
  )
  .map((parts) => parts.join(''));

test('renders as the library does', async () => {
  const set = await TemplateSet.open(new Map());
  const library = await loadLiquid();
  const engines = {
    html: new library.Liquid({ ownPropertyOnly: true, outputEscape: 'escape' }),
    text: new library.Liquid({ ownPropertyOnly: true }),
  };
  let compared = 0;
  fc.assert(
    fc.property(template, data, fc.constantFrom(...FORMS), (text, given, form) => {
      const parsed = set.parse(text, form);
      if ('problem' in parsed) return;
      const engine = engines[form];
      const nodes = engine.parse(text);
      const fast = plainRendering(library, nodes, form)?.(given);
      if (fast === undefined) return;
      compared += 1;
      expect(fast).toBe(engine.renderSync(nodes, {}, { globals: given }));
      expect(parsed.render(given)).toBe(fast);
    }),
    { numRuns: 2_000 },
  );
  expect(compared).toBeGreaterThan(500);
});

test('a member that cannot be read is a problem of the template', async () => {
  const set = await TemplateSet.open(new Map());
  const parsed = set.parse('Hi\n{{ user.tags }}', 'text');
  if ('problem' in parsed) throw new Error(parsed.problem);
  const user = {
    get tags(): string {
      throw new Error('too large');
    },
  };
  expect(() => parsed.render({ user })).toThrow('too large, line:2, col:4');
});
