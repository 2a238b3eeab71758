import { describe, expect, test } from 'vitest';
import type { Link } from '../../ground/links/links.ts';
import { finishEmail, prepareEmail } from './email.ts';
import { cutAtLinks, fill } from './tracked.ts';

const PUBLIC_URL = 'https://notify.example';
const at = ({ encoded }: Link) => `${PUBLIC_URL}/t/c/token?u=${encoded}`;

/** The HTML with its links tracked, and where these lead. */
function tracked(html: string, cutAt = html.length): { html: string; targets: string[] } {
  const targets: string[] = [];
  const parts = cutAtLinks([html.slice(0, cutAt), html.slice(cutAt)], PUBLIC_URL);
  const urlOf = (link: Link) => {
    targets.push(link.target);
    return at(link);
  };
  return { html: parts.map((part) => fill(part, urlOf)).join(''), targets };
}

describe('a link of a web page is tracked', () => {
  test.each([
    ['in double quotes', '<a class="x" href="https://x.example/a?b=1">', 'https://x.example/a?b=1'],
    ['in single quotes', "<a href='https://x.example/it%27s'>", 'https://x.example/it%27s'],
    ['in none', '<a href=https://x.example/a/b>', 'https://x.example/a/b'],
    ['in capitals', '<A HREF="HTTPS://X.example/A">', 'https://x.example/A'],
    ['with blanks around it', '<a\n href = "\n https://x.example/ "\n>', 'https://x.example/'],
    [
      'with character references',
      '<a href="https://x.example/?a=1&amp;b=%26&#x26;c">',
      'https://x.example/?a=1&b=%26&c',
    ],
    [
      'with an ampersand that is no reference',
      '<a href="https://x.example/?a=1&copy=2">',
      'https://x.example/?a=1&copy=2',
    ],
    ['starting with a character reference', '<a href="&#104;ttps://x.example/">', 'https://x.example/'],
    [
      'with text of any language',
      '<a href="https://bücher.example/straße?q=日本">',
      'https://xn--bcher-kva.example/stra%C3%9Fe?q=%E6%97%A5%E6%9C%AC',
    ],
    ['with a fragment', '<a href="http://x.example/#top">', 'http://x.example/#top'],
    [
      'encoded twice',
      '<a href="https://x.example/?next=https%253A%252F%252Fy.example">',
      'https://x.example/?next=https%253A%252F%252Fy.example',
    ],
    [
      'with line breaks in it, which browsers ignore',
      '<a href="https://x.example/a\r\nSet-Cookie: b">',
      'https://x.example/aSet-Cookie:%20b',
    ],
    ['closed at once', '<a href="https://x.example/"/>', 'https://x.example/'],
    ['of a map', '<map><area href="https://x.example/"></map>', 'https://x.example/'],
    [
      'after another attribute',
      '<a data-href="https://y.example/" title="a>b" href="https://x.example/">',
      'https://x.example/',
    ],
    [
      'twice, of which the first counts',
      '<a href="https://x.example/" href="https://y.example/">',
      'https://x.example/',
    ],
  ])('%s', (_, html, target) => {
    expect(tracked(html).targets).toEqual([target]);
  });
});

describe('is not changed', () => {
  test.each([
    ['mail', '<a href="mailto:a@b.example">'],
    ['a phone number', '<a href="tel:+15005550001">'],
    ['an anchor', '<a href="#top">'],
    ['an app', '<a href="myapp://orders/1">'],
    ['a script', '<a href="javascript:location=\'https://x.example\'">'],
    ['a script in disguise', '<a href=" java&#10;script:alert(1)">'],
    ['data', '<a href="data:text/html,https://x.example">'],
    ['a relative link', '<a href="/orders">'],
    ['a link without a scheme', '<a href="//evil.example/">'],
    ['a name in it', '<a href="https://ada@x.example/">'],
    ['a name and a password in it', '<a href="https://ada:secret@x.example/">'],
    ['nothing', '<a href="">'],
    ['no value', '<a href>'],
    ['no value first', '<a href href="https://x.example/">'],
    ['an invalid URL', '<a href="https://[::x/">'],
    ['a link that opts out', '<a href="https://x.example/reset" data-tracking="off">'],
    ['a link that opts out first', '<a data-tracking=OFF href="https://x.example/reset">'],
    ['the unsubscribe link', `<a href="${PUBLIC_URL}/unsubscribe/abc">`],
    ['a tracked link', `<a href="${PUBLIC_URL}/t/c/abc?u=https%3A%2F%2Fx.example%2F">`],
    ['too long a link', `<a href="https://x.example/${'x'.repeat(1_500)}">`],
    ['a link that gets too long', `<a href="https://x.example/?${'&'.repeat(700)}">`],
    ['a picture', '<img src="https://x.example/a.png">'],
    ['a style sheet', '<link href="https://x.example/a.css" rel="stylesheet">'],
    ['the base', '<base href="https://x.example/">'],
    ['a comment', '<!-- <a href="https://x.example/"> -->'],
    ['a comment for Outlook', '<!--[if mso]><a href="https://x.example/"><![endif]-->'],
    ['a script’s text', '<script>"<a href=\'https://x.example/\'>"</script>'],
    ['a style’s text', '<style>/* <a href="https://x.example/"> */</style>'],
    ['the title', '<title><a href="https://x.example/"></title>'],
    ['text in an attribute', '<p title=\'<a href="https://x.example/">\'>'],
    ['text', 'https://x.example/ &lt;a href="https://x.example/"&gt;'],
    ['a tag that does not end', '<a href="https://x.example/"'],
    ['a value that does not end', '<a href="https://x.example/>'],
  ])('%s', (_, html) => {
    expect(tracked(html)).toEqual({ html, targets: [] });
  });
});

test('only the URLs of links are changed', () => {
  const html = `<!DOCTYPE html>\r\n<BODY  bgcolor=#fff>&nbsp;&unknown; \u{1f389} \
<a\thref='https://x.example/it"s'  class=y >1 < 2</A><br/>
<a href=https://y.example/a?b=c&d title="&quot;">z</a> <p>unclosed \
<a href="https://z.example/">z</a></BODY>\n\n`;
  const { html: changed, targets } = tracked(html);
  expect(targets).toEqual(['https://x.example/it%22s', 'https://y.example/a?b=c&d', 'https://z.example/']);
  const [x, y, z] = targets.map((target) => at({ target, encoded: encodeURIComponent(target) }));
  expect(changed).toBe(
    html
      .replace('https://x.example/it"s', x ?? '')
      .replace('https://y.example/a?b=c&d', `"${y}"`)
      .replace('https://z.example/', z ?? ''),
  );
});

test('a document that is cut anywhere has the same links, except for one that is cut itself', () => {
  const html =
    '<!-- </body> --><p><a href="https://x.example/">x</a><a href=\'https://y.example/\'>y</a></p>';
  const whole = tracked(html);
  for (let place = 0; place <= html.length; place += 1) {
    const { html: changed, targets } = tracked(html, place);
    if (targets.length === 2) expect(changed).toBe(whole.html);
    else expect(targets).toHaveLength(1);
  }
});

test('after very many links, the rest stays as it is', () => {
  const { targets } = tracked('<a href="https://x.example/">'.repeat(2_000));
  expect(targets).toHaveLength(500);
});

describe('an e-mail', () => {
  const prepared = prepareEmail({
    title: 'T',
    content: '<p><a href="https://x.example/?a=1&amp;b=2">x</a></p>',
    actionUrl: 'https://y.example/',
  });
  const plain = finishEmail(prepared, { unsubscribeUrl: 'https://u.example/1' });

  test('tracks its links and its button, except for the unsubscribe link; its text has none', () => {
    const done = finishEmail(prepared, {
      unsubscribeUrl: 'https://u.example/1',
      tracked: { publicUrl: PUBLIC_URL, clickUrl: at },
    });
    expect(done.text).toBe(plain.text);
    expect([...done.html.matchAll(/href="([^"]*)"/g)].map(([, href]) => href)).toEqual([
      `${PUBLIC_URL}/t/c/token?u=https%3A%2F%2Fx.example%2F%3Fa%3D1%26b%3D2`,
      `${PUBLIC_URL}/t/c/token?u=https%3A%2F%2Fy.example%2F`,
      'https://u.example/1',
    ]);
    expect(done.html).not.toContain('<img');
  });

  test.each([
    ['ours', null],
    ['the sender’s own document', '<html><body><p>Hi</p></body></html>'],
  ])('has the picture at the end of its body: %s', (_, content) => {
    const some = prepareEmail({ title: 'T', content, actionUrl: null });
    const { html, text } = finishEmail(some, {
      tracked: { publicUrl: PUBLIC_URL, openUrl: () => `${PUBLIC_URL}/t/o/token.gif` },
    });
    expect(html).toMatch(
      /<img src="https:\/\/notify\.example\/t\/o\/token\.gif"[^>]*>(?:\s|<\/div>)*<\/body>/,
    );
    expect(html.replace(/<img[^>]*>/, '')).toBe(finishEmail(some).html);
    expect(text).toBe(finishEmail(some).text);
  });
});

const MEBI = 1024 * 1024;

// Counted is the time of the processor, which other tests share.
describe('10 MiB of content is rewritten in time', () => {
  test.each([
    ['links', '<a href="https://x.example/">x</a>'],
    ['open links', '<a href="'],
    ['quotes', '<a href=\'"'],
    ['attributes', '<a a=b '],
    ['empty attributes', '<a href '],
    ['blanks behind a name', '<a href          '],
    ['character references', '<a href=&amp;&amp;'],
    ['open brackets', '<'],
    ['ampersands', '<a href="&'],
    ['comments', '<!-->'],
    ['slashes', '<a////'],
  ])('of %s', (_, unit) => {
    const html = unit.repeat(Math.ceil((10 * MEBI) / unit.length));
    const before = process.cpuUsage();
    tracked(html);
    tracked(`<a href="${html}">`);
    expect(process.cpuUsage(before).user / 1_000).toBeLessThan(15_000);
  });
});
