import { describe, expect, test } from 'vitest';
import { LANGUAGES } from '../../ground/catalogues/languages.ts';
import { emailHeaders, finishEmail, prepareEmail } from './email.ts';

const render = (input: Partial<Parameters<typeof prepareEmail>[0]>, unsubscribeUrl?: string) =>
  finishEmail(
    prepareEmail({ title: 'Title', content: null, actionUrl: null, ...input }),
    unsubscribeUrl === undefined ? {} : { unsubscribeUrl },
  );

describe('content', () => {
  test('HTML is kept as it was written, and is readable in the text part', () => {
    const content =
      '<p>Hello <b>world</b>, <a href="https://x.example/a?b=1&amp;c=2">look</a></p><h2>More</h2>';
    const { html, text } = render({ content });
    expect(html).toContain(content);
    expect(text).toBe('Hello world, look [https://x.example/a?b=1&c=2]\n\n\nMore');
  });

  test.each([
    ['a < b && c > d', 'a &lt; b &amp;&amp; c &gt; d'],
    ['Bob <bob@example.com> wrote', 'Bob &lt;bob@example.com&gt; wrote'],
    ['x <y but z> w', 'x &lt;y but z&gt; w'],
    ['<alert>', '&lt;alert&gt;'],
  ])('text that is no HTML is escaped: %s', (content, escaped) => {
    const { html, text } = render({ content });
    expect(html).toContain(`<p>${escaped}</p>`);
    expect(text).toBe(content);
  });

  test('line breaks of plain text are kept', () => {
    const { html } = render({ content: 'one\ntwo\r\n\r\nthree\n \nfour' });
    expect(html).toContain('<p>one<br>two</p>\n<p>three</p>\n<p>four</p>');
  });

  test('a character reference alone makes it HTML', () => {
    expect(render({ content: 'Tom &amp; Jerry' })).toMatchObject({
      html: expect.stringContaining('\nTom &amp; Jerry\n'),
      text: 'Tom & Jerry',
    });
  });

  test('a whole document keeps its design and gets button and footer before its end', () => {
    const content =
      '<!DOCTYPE html><html><head><style>p{color:red}</style></head><body><p>Hi</p></BODY></html>';
    const { html, text } = render({ content, actionUrl: 'https://x.example/' }, 'https://u.example/1');
    expect(html).toMatch(
      /^<!DOCTYPE html><html><head>.*<p>Hi<\/p><p class="action".*<p class="footer".*<\/BODY><\/html>$/s,
    );
    expect(html).not.toContain('<h1');
    expect(text).toBe('Hi\n\nhttps://x.example/\n\n-- \nUnsubscribe: https://u.example/1\n');
  });

  test('without content it is the title and the button alone', () => {
    const { html, text, subject } = render({ title: 'Ping', actionUrl: 'https://x.example/' });
    expect(subject).toBe('Ping');
    expect(html).toContain('>Ping</h1>');
    expect(text).toBe('https://x.example/');
  });

  test('right-to-left text finds its own direction', () => {
    const { html, subject } = render({ title: 'שלום עולם', content: 'مرحبا' });
    expect(subject).toBe('שלום עולם');
    expect(html).toContain('<h1 dir="auto"');
    expect(html).toContain('<div dir="auto">\n<p>مرحبا</p>');
  });

  test('emoji stay whole, half characters and control characters go', () => {
    const { html, text, subject } = render({
      title: '👩‍👩‍👧 \ud83d\u0000',
      content: 'a\u0000b\u0007c 🎉 \udc00 \u009b\td',
    });
    expect(subject).toBe('👩‍👩‍👧 \ufffd');
    expect(text).toBe('abc 🎉 \ufffd \td');
    expect(html.isWellFormed()).toBe(true);
    expect(html).toContain('<p>abc 🎉 \ufffd \td</p>');
  });

  test('the preview of an inbox is the content, cut between characters', () => {
    const { html } = render({ content: `${'x'.repeat(139)}🎉🎉` });
    expect(html).toContain(`aria-hidden="true">${'x'.repeat(139)}</div>`);
  });

  test('a table keeps a line for each row in the text part, and its cells apart', () => {
    const row = (...cells: string[]) => `<tr>${cells.map((cell) => `<td>${cell}</td>`).join('')}</tr>`;
    const rows = row('Tea', '<b>3</b> €') + row('', 'Total', '3 €');
    const { text } = render({
      content: `<p>Order</p><table><tr><th>Item</th><th>Price</th></tr>${rows}</table>`,
    });
    expect(text).toBe('Order\n\nItem Price\nTea 3 €\nTotal 3 €');
  });

  test('the preview omits the targets of links, the text part has them', () => {
    const { html, text } = render({ content: '<p>See <a href="https://x.example/1">the order</a></p>' });
    expect(html).toContain('aria-hidden="true">See the order</div>');
    expect(text).toContain('See the order [https://x.example/1]');
  });
});

describe('the subject', () => {
  test('is one line, so that it cannot add headers', () => {
    expect(render({ title: 'Hi\r\nBcc: victim@example.com\tx' }).subject).toBe(
      'Hi Bcc: victim@example.com x',
    );
  });

  test('is escaped in the HTML', () => {
    const { html } = render({ title: '<script>"x"</script>' });
    expect(html).not.toContain('<script>');
    expect(html).toContain('&lt;script&gt;&quot;x&quot;&lt;/script&gt;');
  });
});

describe('the action link', () => {
  test.each([
    [
      'https://x.example/a?b=1&c="d"',
      'https://x.example/a?b=1&c=%22d%22',
      'https://x.example/a?b=1&amp;c=%22d%22',
    ],
    ['http://x.example', 'http://x.example/', 'http://x.example/'],
    ['mailto:a@b.example', 'mailto:a@b.example', 'mailto:a@b.example'],
    ['myapp://orders/1', 'myapp://orders/1', 'myapp://orders/1'],
  ])('%s is in both parts', (actionUrl, inText, inHtml) => {
    const { html, text } = render({ content: 'x', actionUrl });
    expect(text).toBe(`x\n\n${inText}`);
    expect(html).toContain(`href="${inHtml}"`);
  });

  test.each([
    'javascript:alert(1)',
    ' java\nscript:alert(1)',
    'JAVASCRIPT:alert(1)',
    '\u0001javascript:alert(1)',
    'data:text/html,<script>alert(1)</script>',
    'vbscript:x',
    'file:///etc/passwd',
    '/orders/1',
    'orders',
    '',
  ])('%j is not in either part', (actionUrl) => {
    const { html, text } = render({ content: 'x', actionUrl });
    expect(text).toBe('x');
    expect(html).not.toContain('href=');
  });

  test('cannot leave its attribute', () => {
    const { html } = render({ actionUrl: 'myapp:"><script>alert(1)</script>' });
    expect(html).not.toContain('<script>');
  });
});

describe('unsubscribing', () => {
  test('is the only difference between recipients', () => {
    const prepared = prepareEmail({ title: 'T', content: 'C', actionUrl: null });
    const one = finishEmail(prepared, { unsubscribeUrl: 'https://u.example/?t=1&s=2' });
    const other = finishEmail(prepared, { unsubscribeUrl: 'https://u.example/?t=3&s=2' });
    expect(one.html).toContain('href="https://u.example/?t=1&amp;s=2"');
    expect(one.html.replace('t=1', 't=3')).toBe(other.html);
    expect(one.text).toBe('C\n\n-- \nUnsubscribe: https://u.example/?t=1&s=2\n');
  });

  test('is missing if there is nothing to unsubscribe from', () => {
    expect(render({ content: 'C' }).html).not.toContain('Unsubscribe');
  });
});

describe('the link to the preferences', () => {
  const prepared = prepareEmail({ title: 'T', content: 'C', actionUrl: null });
  const [unsubscribeUrl, preferencesUrl] = ['https://u.example/1', 'https://u.example/?p=1&s=2'];

  test('stands beside the one to unsubscribe', () => {
    const { html, text } = finishEmail(prepared, { unsubscribeUrl, preferencesUrl });
    const [, footer = ''] = /<p class="footer"[^>]*>(.*?)<\/p>/.exec(html) ?? [];
    expect(footer.replaceAll(' style="color:inherit"', '')).toBe(
      `<a href="${unsubscribeUrl}">Unsubscribe</a> · ` +
        '<a href="https://u.example/?p=1&amp;s=2">Notification settings</a>',
    );
    expect(text).toBe(`C\n\n-- \nUnsubscribe: ${unsubscribeUrl}\nNotification settings: ${preferencesUrl}\n`);
  });

  test('stands alone if the category cannot be switched off', () => {
    const { html, text } = finishEmail(prepared, { preferencesUrl });
    expect(html).not.toContain('Unsubscribe');
    expect(html).toContain('>Notification settings</a></p>');
    expect(text).toBe(`C\n\n-- \nNotification settings: ${preferencesUrl}\n`);
  });
});

describe('the language', () => {
  const unsubscribeUrl = 'https://u.example/1';
  const prepared = prepareEmail({ title: 'T', content: 'C', actionUrl: 'https://x.example/' });

  test.each([...LANGUAGES.values()])('$lang is that of button and footer', (language) => {
    const preferencesUrl = 'https://u.example/2';
    const { html, text } = finishEmail(prepared, { language, unsubscribeUrl, preferencesUrl });
    const { open, unsubscribe, preferences } = language.texts;
    expect(html).toContain(`<html lang="${language.lang}" dir="${language.dir === 'rtl' ? 'rtl' : 'auto'}">`);
    expect(html).toContain(`>${open}</a>`);
    expect(html).toContain(`>${unsubscribe}</a>`);
    expect(html).toContain(`>${preferences}</a>`);
    expect(text).toMatch(
      new RegExp(
        `^C\n\nhttps://x.example/\n\n-- \n${unsubscribe}.*: ${unsubscribeUrl}\n` +
          `${preferences}.*: ${preferencesUrl}\n$`,
      ),
    );
  });

  test('of one recipient does not change the e-mail of another', () => {
    const [english, german] = ['en', 'de'].map((lang) => LANGUAGES.get(lang));
    const first = finishEmail(prepared, { language: english ?? never(), unsubscribeUrl });
    finishEmail(prepared, { language: german ?? never(), unsubscribeUrl });
    expect(finishEmail(prepared, { language: english ?? never(), unsubscribeUrl })).toEqual(first);
  });

  test('is marked in a document of the sender, which may have another', () => {
    const language = LANGUAGES.get('ar') ?? never();
    const document = prepareEmail({
      title: 'T',
      content: '<html lang="en"><p>C</p></html>',
      actionUrl: null,
    });
    const { html } = finishEmail(document, { language, unsubscribeUrl });
    expect(html).toContain('<html lang="en"><p>C</p><p class="footer" lang="ar" dir="rtl"');
  });
});

describe('the sender', () => {
  const show = (sender: { name: string | null; logoUrl: string | null }, content = 'C') =>
    finishEmail(prepareEmail({ title: 'T', content, actionUrl: null }), { sender }).html;

  test('is shown by its name, or else not at all', () => {
    expect(show({ name: 'A & "B"', logoUrl: null })).toMatch(
      /<p class="sender"[^>]*><bdi>A &amp; &quot;B&quot;<\/bdi><\/p>\n<h1/,
    );
    expect(show({ name: null, logoUrl: null })).not.toContain('class="sender"');
  });

  test('is shown by its logo, whose text is the name', () => {
    const html = show({ name: '"A"', logoUrl: 'https://x.example/a?b="&c' });
    expect(html).toContain('<img src="https://x.example/a?b=&quot;&amp;c" alt="&quot;A&quot;"');
    expect(html).not.toContain('>"A"<');
    expect(show({ name: null, logoUrl: 'https://x.example/' })).toContain('alt=""');
  });

  test('is not added to a document of its own', () => {
    const html = show({ name: 'A', logoUrl: 'https://x.example/' }, '<html><p>C</p></html>');
    expect(html).toBe('<html><p>C</p></html>');
  });
});

function never(): never {
  throw new Error('there is no such language');
}

test('the headers name the notification and offer one-click unsubscribing', () => {
  expect(
    emailHeaders({ notificationId: 'n1', brand: 'service', unsubscribeUrl: 'https://u.example/1' }),
  ).toEqual({
    'Auto-Submitted': 'auto-generated',
    'X-Entity-Ref-ID': 'n1',
    'X-SERVICE-Notification-Id': 'n1',
    'List-Unsubscribe': '<https://u.example/1>',
    'List-Unsubscribe-Post': 'List-Unsubscribe=One-Click',
  });
  for (const unsubscribeUrl of [undefined, 'http://127.0.0.1:3000/unsubscribe/x'])
    expect(Object.keys(emailHeaders({ notificationId: 'n1', brand: 'service', unsubscribeUrl }))).toEqual([
      'Auto-Submitted',
      'X-Entity-Ref-ID',
      'X-SERVICE-Notification-Id',
    ]);
});

const MEBI = 1024 * 1024;
const filled = (unit: string, length = 10 * MEBI): string =>
  unit.repeat(Math.ceil(length / unit.length)).slice(0, length);

// The worst takes 2.5 s; a quadratic step would take hours. Counted is the time of the processor, which other
// tests share.
describe('10 MiB of content is rendered in time', () => {
  test.each([
    ['paragraphs', '<p>Hello <b>world</b></p>\n'],
    ['plain text', 'lorem ipsum '],
    ['line breaks', '\n'],
    ['blank lines', ' \r\n'],
    ['open brackets', '<'],
    ['open tags', '<a '],
    ['nested elements', '<div>'],
    ['nested lists', '<ul><li>'],
    ['nested tables', '<table><tr><td>'],
    ['ampersands', '&'],
    ['character references', '&amp;'],
    ['comments', '<!--'],
    ['one attribute', 'a="'],
    ['NULs', '\u0000'],
    ['half characters', '\ud83d'],
    ['blanks', ' '],
  ])('of %s', (_name, unit) => {
    const actionUrl = 'https://x.example/';
    const before = process.cpuUsage();
    const prepared = prepareEmail({ title: 'T', content: `a${filled(unit)}b`, actionUrl });
    const { html, text } = finishEmail(prepared, { unsubscribeUrl: 'https://u.example/' });
    expect(process.cpuUsage(before).user / 1_000).toBeLessThan(15_000);
    expect(html).toContain('Unsubscribe');
    expect(text).toContain('https://x.example/');
  });
});
