import { describe, expect, test } from 'vitest';
import { TemplateSet, type TextForm } from './template-set.ts';

const partials = new Map([
  ['shout', '<b>{{ text }}</b>'],
  ['upper', '{{ text | upcase }}'],
]);

async function rendered(text: string, form: TextForm = 'html'): Promise<string> {
  const set = await TemplateSet.open(partials);
  const parsed = set.parse(text, form);
  if ('problem' in parsed) throw new Error(parsed.problem);
  return parsed.render({ name: '<i>', lines: '1 < 2\n3', html: set.html('<hr>') });
}

describe('in HTML, an output is escaped once', () => {
  test.each([
    ['{{ name }}', '&lt;i&gt;'],
    ['{{ name | escape }}', '&lt;i&gt;'],
    ['{{ name | xml_escape }}', '&lt;i&gt;'],
    ['{{ name | escape | escape }}', '&lt;i&gt;'],
    ['{{ "&lt;i>" | escape_once }}', '&lt;i&gt;'],
    ['{{ name | raw }}', '<i>'],
    ['{{ html }}{{ html | raw }}{{ html | escape }}', '<hr><hr><hr>'],
    ['{{ html | default: name }}{{ missing | default: name }}', '<hr>&lt;i&gt;'],
    ['{{ lines | newline_to_br }}', '1 &lt; 2<br />\n3'],
    ['{{ lines | escape | newline_to_br }}', '1 &lt; 2<br />\n3'],
    ['{% capture a %}<p>{{ name }}</p>{% endcapture %}{{ a }}', '<p>&lt;i&gt;</p>'],
    [
      '{% capture a %}<p>{{ name }}</p>{% endcapture %}{% assign b = a %}{{ b | default: 1 }}',
      '<p>&lt;i&gt;</p>',
    ],
    [
      '{% capture a %}<p>{{ name }}</p>{% endcapture %}{% render "shout", text: a %}',
      '<b><p>&lt;i&gt;</p></b>',
    ],
    ['{% render "shout", text: name %}', '<b>&lt;i&gt;</b>'],
  ])('%s', async (text, html) => {
    expect(await rendered(text)).toBe(html);
  });

  test.each([
    ['{% capture a %}<p>{% endcapture %}{{ a | append: name }}', '&lt;p&gt;&lt;i&gt;'],
    ['{{ html | append: name }}', '&lt;hr&gt;&lt;i&gt;'],
    ['{% render "upper", text: html %}', '&lt;HR&gt;'],
    ['{{ name | escape | upcase }}', '&amp;LT;I&amp;GT;'],
  ])('what other filters make of HTML is a text: %s', async (text, html) => {
    expect(await rendered(text)).toBe(html);
  });
});

test('what was captured is compared as a text', async () => {
  const captured = '{% capture a %}yes{% endcapture %}';
  const then = 'a{% else %}b{% endif %}';
  for (const [condition, expected] of [
    ['a == "yes"', 'a'],
    ['"yes" == a', 'a'],
    ['a contains "es"', 'a'],
    ['a != blank', 'a'],
    ['a == empty', 'b'],
    ['a.size == 3', 'a'],
    ['a > "xx"', 'a'],
  ])
    expect(await rendered(`${captured}{% if ${condition} %}${then}`), condition).toBe(expected);
  expect(await rendered(`${captured}{{ a | size }}{% case a %}{% when "yes" %}y{% endcase %}`)).toBe('3y');
});

test('texts are not escaped', async () => {
  expect(await rendered('{{ name }}{{ html }}{% capture a %}{{ name }}{% endcapture %}{{ a }}', 'text')).toBe(
    '<i><hr><i>',
  );
});
