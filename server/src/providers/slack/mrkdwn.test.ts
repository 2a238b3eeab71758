import { describe, expect, test } from 'vitest';
import { cutMrkdwn, escapeMrkdwn, htmlToMrkdwn } from './mrkdwn.ts';

describe('HTML as mrkdwn', () => {
  test.each([
    [
      'bold, italic, struck',
      '<b>a</b> <em>b</em> <del>c</del> <strong><i>d</i></strong>',
      '*a* _b_ ~c~ *_d_*',
    ],
    [
      'a link',
      'see <a href="https://example.com/?a=1&amp;b=2">the <b>page</b></a>.',
      'see <https://example.com/?a=1&amp;b=2|the *page*>.',
    ],
    [
      'a link with what would end it',
      '<a href="https://example.com/a|b>c">x</a>',
      '<https://example.com/a%7Cb%3Ec|x>',
    ],
    ['a link that runs something', '<a href="javascript:alert(1)">x</a>', 'x'],
    ['a link without words', '<a href="https://example.com"><img src="x.png"></a>', ''],
    ['an address', '<a href="mailto:ann@example.com">Ann</a>', '<mailto:ann@example.com|Ann>'],
    // Slack shows a mark as it is if a space follows it, if it is twice, and if the text has another line.
    ['a space at the end of bold', '<b>Total: </b>4 € <i> net</i>', '*Total:* 4 € _net_'],
    ['lines in bold', '<strong>a<br>b</strong><b><p>c</p><p>d</p></b>', '*a*\n*b*\n\n*c*\n\n*d*'],
    ['bold in a heading', '<h1>One <b>two</b></h1>', '*One two*'],
    ['lines in a bold quotation', '<blockquote><b>one<br>two</b></blockquote>', '> *one*\n> *two*'],
    ['marks that follow each other', '<b>a<i> b</i></b><i> c</i>', '*a _b_* _c_'],
    ['nothing in bold', 'a<b></b><b> </b>c', 'a c'],
    ['paragraphs and breaks', '<p>one</p><p>two<br>three</p>', 'one\n\ntwo\nthree'],
    ['a heading', '<h2>Title</h2><p>text</p>', '*Title*\n\ntext'],
    ['lists', '<ul><li>a</li><li>b</li></ul><ol><li>c</li><li>d</li></ol>', '• a\n• b\n\n 1. c\n 2. d'],
    ['a quotation', '<blockquote>one<br>two</blockquote>', '> one\n> two'],
    [
      'a table',
      '<table><tr><th>Item</th><th>Price</th></tr><tr><td>Tea</td><td>4 €</td></tr></table>',
      'Item Price\nTea 4 €',
    ],
    ['code', 'call <code>f()</code>', 'call `f()`'],
    ['code of many lines', '<pre>if (a &lt; b)\n  c</pre>', '```\nif (a &lt; b)\n  c\n```'],
    ['code of many lines in bold', '<h2>Run:<pre>a\n\nb</pre></h2>', '*Run:*\n\n```\na\n\nb\n```'],
    ['marks in code', '<pre><code>a <b>b</b></code></pre><code>c <i>d</i></code>', '```\na b\n```\n\n`c d`'],
    ['blocks in bold', '<b><p>one</p></b><p>two</p>', '*one*\n\ntwo'],
    ['nothing hidden', '<div style="display:none">a</div>b<b hidden>c</b>', 'b'],
    ['no scripts and styles', '<style>p{}</style>a<script>alert(1)</script>', 'a'],
  ])('%s', (_, html, mrkdwn) => {
    expect(htmlToMrkdwn(html)).toBe(mrkdwn);
  });

  test.each([
    '&lt;!channel&gt;',
    '<b>&lt;!channel&gt;</b>',
    '<pre>&lt;!channel&gt;</pre>',
    '<pre><code>&lt;!channel&gt;</code></pre>',
    '<a href="https://example.com/<!channel>">&lt;!channel&gt;</a>',
    '<a href="mailto:<!channel>">x</a>',
    '<textarea>&lt;!channel&gt;</textarea>',
    '<table><tr><td>&lt;!channel&gt;</td></tr></table>',
  ])('%s mentions no user', (html) => {
    expect(htmlToMrkdwn(html)).not.toContain('<!');
  });

  test('ten megabytes and a thousand levels are converted quickly', () => {
    const before = process.cpuUsage();
    expect(htmlToMrkdwn(`${'<div>'.repeat(1000)}x${'<p>word</p>'.repeat(1_000_000)}`)).not.toBe('');
    expect(process.cpuUsage(before).user / 1_000).toBeLessThan(2_000);
  });
});

test('the three special characters are escaped', () => {
  expect(escapeMrkdwn('a < b && c > d <!here>')).toBe('a &lt; b &amp;&amp; c &gt; d &lt;!here&gt;');
});

describe('cutting', () => {
  test.each([
    ['what fits stays', 'abc', 3, 'abc'],
    ['an ellipsis counts', 'abcd', 3, 'ab…'],
    ['half a character is left out', 'ab😀d', 4, 'ab…'],
    ['half an entity is left out', 'ab&amp;cd', 6, 'ab…'],
    ['a whole entity stays', 'ab&amp;cd', 8, 'ab&amp;…'],
    ['half a link is left out', 'see <https://example.com|the page> now', 20, 'see…'],
    ['a whole link stays', '<https://a.b|c> and more', 16, '<https://a.b|c>…'],
  ])('%s', (_, text, length, cut) => {
    expect(cutMrkdwn(text, length)).toBe(cut);
  });
});
