import { expect, test } from 'vitest';
import { parseTemplate, TemplateError } from './template.ts';

const data = { user: { name: 'Ada', tags: ['a', 'b'], long: 'x'.repeat(1_000) } };

async function rendered(text: string): Promise<string> {
  const parsed = await parseTemplate(text);
  if ('problem' in parsed) throw new Error(`${text}: ${parsed.problem}`);
  return parsed.render(data);
}

test('a template is rendered with the data', async () => {
  expect(
    await rendered('Hello {{ user.name | upcase }}: {% for tag in user.tags %}{{ tag }};{% endfor %}'),
  ).toBe('Hello ADA: a;b;');
  expect(await rendered('{{ user.missing.at.all }}')).toBe('');
});

test.each([
  ['{% include "a" %}', 'tag "include" not found'],
  ['{% render "../../etc/passwd" %}', 'tag "render" not found'],
  ['{% layout "a" %}', 'tag "layout" not found'],
  ['{{ user.name | nope }}', 'undefined filter: nope'],
  ['{% if user.name %}', 'tag {% if user.name %} not closed'],
  ['{% if a %}'.repeat(30_000), ''],
])('%.40s is rejected when it is parsed', async (text, problem) => {
  const parsed = await parseTemplate(text);
  expect(parsed).toMatchObject({ problem: expect.stringContaining(problem) });
});

test('templates cannot access JavaScript', async () => {
  expect(
    await rendered('{{ user.constructor }}{{ user.tags.constructor.name }}{{ user["__proto__"].toString }}'),
  ).toBe('');
});

test.each([
  '{% for i in (1..100000000) %}{% endfor %}',
  `{% assign a = user.long %}${'{% assign a = a | append: a %}'.repeat(40)}{{ a }}`,
  '{{ "now" | date: "%9999999999d" }}',
  '{% for i in (1..2000) %}{% for j in (1..2000) %}{% for k in (1..2000) %}' +
    '{% endfor %}{% endfor %}{% endfor %}',
])('%.60s ends soon, with a TemplateError', async (text) => {
  const parsed = await parseTemplate(text);
  if ('problem' in parsed) throw new Error(parsed.problem);
  const before = process.cpuUsage();
  expect(() => parsed.render(data)).toThrow(TemplateError);
  expect(process.cpuUsage(before).user / 1_000).toBeLessThan(2_000);
});
