import { describe, expect, test } from 'vitest';
import { parseOutput, parseTemplate, renderQuickly, SlowRendering, TemplateError } from './template.ts';

const address = { city: 'Łódź' };
const data = {
  user: {
    name: 'Ada',
    tags: ['a', 'b'],
    long: 'x'.repeat(1_000),
    address,
    all: ['a', address],
    longs: { of: 'x'.repeat(1_000) },
  },
};

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

test('an object within a text is JSON', async () => {
  const json = JSON.stringify(address);
  expect(await rendered('to {{ user.address }}')).toBe(`to ${json}`);
  expect(await rendered('to {{ user.address | default: "-" }}, {{ user.address.city }}')).toBe(
    `to ${json}, Łódź`,
  );
  expect(await rendered('{% if true %}{{ user.all }}{% endif %}: {{ user.tags }}')).toBe(`["a",${json}]: ab`);
  expect(await rendered('{{ user.address | json }} {{ user.name | raw }} {{ user.name | size }}')).toBe(
    `${json} Ada 3`,
  );
  await expect(
    rendered('{% for a in (1..60000) %}{{ user.address }}{{ user.longs }}{% endfor %}'),
  ).rejects.toThrow(TemplateError);
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

test.each([
  ['outputs', '{{a}}'.repeat(5_000), '{{a}}'.repeat(5_001)],
  ['tags', '{%#%}'.repeat(5_000), '{%#%}'.repeat(5_001)],
  ['lines of a tag', `{% liquid\n${'#\n'.repeat(4_998)} %}`, `{% liquid\n${'#\n'.repeat(5_000)} %}`],
  ['unclosed outputs', 'text', '{{'.repeat(5_001)],
  ['arguments', `{{ a | append: b${',b'.repeat(16_000)} }}`, `{{ a | append: b${',b'.repeat(20_000)} }}`],
  ['steps of a path', `{{ a${'.a'.repeat(16_000)} }}`, `{{ a${'.a'.repeat(20_000)} }}`],
])('a text with too many %s is rejected', async (_, allowed, rejected) => {
  expect(await parseTemplate(allowed)).not.toHaveProperty('problem');
  expect(await parseTemplate(rejected)).toMatchObject({
    problem: expect.stringMatching(/^it has more than|^its outputs and tags have more than/),
  });
});

test('the variables of a long text are found without reading the text for each of them', async () => {
  const parsed = await parseTemplate(`${'a text '.repeat(35_000)}${'{{a}}'.repeat(5_000)}`);
  if ('problem' in parsed) throw new Error(parsed.problem);
  const before = process.cpuUsage();
  expect(parsed.variables()).toHaveLength(5_000);
  // Reading it took 1.5 s and more.
  expect(process.cpuUsage(before).user / 1_000).toBeLessThan(1_000);
});

test.each([
  ['first', '{{ a |', 'line:1, col:1'],
  ['second', 'a\n {% if %}', 'line:2, col:7'],
  ['fourth', '\n\n\n{% nope %}\n', 'line:4, col:1'],
])('a problem in the %s line names it', async (_, text, place) => {
  expect(await parseTemplate(text)).toMatchObject({ problem: expect.stringContaining(place) });
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
  '{% assign a = (1..8000000) %}',
  '{{ (1..65000) | where_exp: "i", "i > 0 and i > 0 and i > 0 and i > 0 and i > 0 and i > 0" }}',
  '{{ (1..65000) | where: "a" | where: "a" | has: "a" | map: "a" | group_by: "a" | map: "a" }}',
  '{{ (1..60000) | sort | reverse | sort }}',
  '{% assign a = user.long %}{% for i in (1..9) %}{% assign a = a | append: a %}' +
    '{% endfor %}{{ a | replace: user.long, "" }}',
  '{% assign a = user.long %}{% for i in (1..9) %}{% assign a = a | append: a %}{% endfor %}{{ a | sample }}',
])('%.60s ends soon, with a TemplateError', async (text) => {
  const parsed = await parseTemplate(text);
  if ('problem' in parsed) throw new Error(parsed.problem);
  const before = process.threadCpuUsage();
  expect(() => parsed.render(data)).toThrow(TemplateError);
  // They take 100 ms at most; some took seconds.
  expect(process.threadCpuUsage(before).user / 1_000).toBeLessThan(400);
});

test('a rendering that takes too long once, such as beside a garbage collection, is repeated', async () => {
  const parsed = await parseTemplate('{% if slow %}{{ slow }}{% endif %}');
  if ('problem' in parsed) throw new Error(parsed.problem);
  let slowTimes = 0;
  const given = {
    get slow() {
      if (slowTimes === 0) return 'x';
      slowTimes -= 1;
      const before = process.threadCpuUsage();
      while (process.threadCpuUsage(before).user < 120_000);
      return 'x';
    },
  };
  for (const [slow, outcome] of [
    [1, 'x'],
    [1, 'x'],
    [2, undefined],
    [1, undefined], // it was too slow the last time
    [0, 'x'],
    [1, 'x'],
  ] as const) {
    slowTimes = slow;
    if (outcome === undefined) expect(() => parsed.render(given)).toThrow('render limit exceeded');
    else expect(parsed.render(given)).toBe(outcome);
  }
});

test.each([
  ['text', '{{ value | escape | size }}', { value: 'a <b> '.repeat(25_000) }, '300000'],
  [
    'list',
    '{{ list | where_exp: "i", "i.at > 10" | map: "at" | sort | join | size }}',
    { list: Array.from({ length: 1_000 }, (_, at) => ({ at })) },
    '3866',
  ],
])('a long %s is output', async (_type, text, given, output) => {
  const parsed = await parseTemplate(text);
  if ('problem' in parsed) throw new Error(parsed.problem);
  expect(parsed.render(given)).toBe(output);
});

describe('renderQuickly', () => {
  const text = 'x'.repeat(100_000);
  const parse = async (source: string) => {
    const parsed = await parseTemplate(source);
    if ('problem' in parsed) throw new Error(parsed.problem);
    return parsed;
  };

  test('ends what takes longer than its part of the event loop, and nothing else', async () => {
    const short = await parse('{{ text | size }} {{ text | slice: 0 | upcase }}');
    expect(renderQuickly(() => short.render({ text }))).toBe('100000 X');
    const long = await parse('{{ text | upcase | downcase | size }}');
    expect(() => renderQuickly(() => long.render({ text }))).toThrow(SlowRendering);
    expect(long.render({ text })).toBe('100000');
    const loop = '{% for a in (1..200) %}{% for b in (1..200) %}{% assign c = b %}{% endfor %}{% endfor %}';
    const slow = await parse(loop.repeat(20));
    expect(() => renderQuickly(() => slow.render({}))).toThrow(SlowRendering);
  });

  test('counts all texts together, also plain ones and single outputs', async () => {
    const plain = await parse('{{ text }}!');
    expect(renderQuickly(() => [1, 2].map(() => plain.render({ text }).length))).toEqual([100_001, 100_001]);
    expect(() => renderQuickly(() => [1, 2, 3].map(() => plain.render({ text })))).toThrow(SlowRendering);
    const output = await parseOutput('text | upcase | downcase | size');
    if ('problem' in output) throw new Error(output.problem);
    expect(renderQuickly(() => output.value({ text }))).toBe(100_000);
    expect(() => renderQuickly(() => [1, 2].map(() => output.value({ text })))).toThrow(SlowRendering);
    expect([1, 2, 3].map(() => output.value({ text }))).toEqual([100_000, 100_000, 100_000]);
  });

  test('reports what cannot be rendered at all', async () => {
    const wrong = await parse(
      '{{ text | date: text | divided_by: 0 }}{% for a in (1..10000000) %}{% endfor %}',
    );
    expect(() => renderQuickly(() => wrong.render({ text: 'x' }))).toThrow();
    await expect(async () => wrong.render({ text: 'x' })).rejects.toThrow(TemplateError);
  });
});
